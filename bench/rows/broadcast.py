"""One event to 200 sockets."""

from __future__ import annotations

import asyncio
import time

from bench.measure import Act, Row, against, in_turn
from bench.rows.revert import HEAD_CHANGE, End
from bench.wire import Socket
from bench.world import ByHand, World, bare, serving
from turnback.agent.steps import StepDraft
from turnback.core.tree import EndReason
from turnback.core.workflow import Workflow, load

WHAT = (
    "200 sockets of one session: from a revert sent by one of them until all have its head- "
    "change frame of 1 KB, the commit included. The floor: a bare server that awaits a send of "
    "the same bytes to each of 200 sockets in a loop."
)
SOCKETS = 200


async def measure(world: World) -> list[Row]:
    """The session's hub against the bare loop."""
    async with world.store() as store, bare() as floor, serving(store.url) as server:
        small, hand = _small(), ByHand()
        key = await store.session(small)
        async with store.actor(key, hand.start) as actor:
            run = await hand.prompt(actor)
            done = StepDraft(
                content="Done.", before=small, after=small, end_reason=EndReason.COMPLETE
            )
            await actor.progress.append(run, run.step_id, done)
        end = await End.of(server.port, key)
        size = len(await end.change(end.revert))
        await end.change(end.redo)
        path = f"/sessions/{key.id}/ws"
        ours = [end.socket]
        for _ in range(SOCKETS - 1):
            ours.append(await Socket.connect(server.port, path, subprotocol="turnback.v1"))
            await ours[-1].until(b'"WsServerSnapshotEvent"')
        bares = [await Socket.connect(floor.port, "/all") for _ in range(SOCKETS)]
        series = await in_turn(
            {
                "floor": _all(bares, b"x" * size, b"x"),
                "revert": _all(ours, end.revert, HEAD_CHANGE),
                "redo": _all(ours, end.redo, HEAD_CHANGE),
            },
            times=20,
        )
        for socket in (*ours, *bares):
            socket.close()
    name = f"{SOCKETS} sockets, an event of {size / 1024:.1f} KB"
    return [against(name, series["revert"], series["floor"], at_most=2, of="a bare loop")]


def _small() -> Workflow:
    """A workflow that makes the head-change frame 1 KB long."""
    document = {"operators": [], "settings": {"note": "x" * 700}}
    return load(document, max_bytes=10_000, max_depth=10)


def _all(sockets: list[Socket], command: bytes, mark: bytes) -> Act:
    async def run() -> float:
        began = time.perf_counter()
        sockets[0].send(command)
        await asyncio.gather(*(socket.until(mark) for socket in sockets))
        return time.perf_counter() - began

    return run
