"""Thousands of reverts, each followed by a prompt."""

from __future__ import annotations

import statistics
import time

import orjson

from bench.measure import Row
from bench.rows.revert import HEAD_CHANGE
from bench.wire import Socket
from bench.world import World, serving

WHAT = (
    "In one session of a `turnback serve` process with the offline model: 2,000 times a revert "
    "and a prompt, the prompt timed until its turn has ended. First with each revert taking "
    "back the turn before; then 500 times with a turn more that stays each time, so that the "
    "path grows and parts 500 times."
)
MEASURED = 200


async def measure(world: World) -> list[Row]:
    """The last prompts against the first."""
    rows = []
    quick = {"offline_delay_ms": 0}
    async with world.store() as store, serving(store.url, **quick) as server:
        for reverts, grows in ((2_000, False), (500, True)):
            key = await store.session()
            path = f"/sessions/{key.id}/ws"
            socket = await Socket.connect(server.port, path, subprotocol="turnback.v1")
            await socket.until(b'"WsServerSnapshotEvent"')
            taken = []
            for _ in range(reverts):
                if grows:
                    await _prompt(socket)
                seconds, turn_id = await _prompt(socket)
                taken.append(seconds)
                revert = {"type": "WsClientRevertCommand", "messageId": turn_id}
                socket.send(orjson.dumps(revert))
                await socket.until(HEAD_CHANGE)
            socket.close()
            first, last = (
                statistics.median(some) * 1000 for some in (taken[:MEASURED], taken[-MEASURED:])
            )
            where = ", on a path that grows" if grows else ""
            name = f"the {reverts:,}th revert and prompt{where}"
            rows.append(
                Row(name, last, "ms", first, last / first, "≤ 1.5 the first", last <= 1.5 * first)
            )
    return rows


async def _prompt(socket: Socket) -> tuple[float, str]:
    """How long a turn took, and its id."""
    began = time.perf_counter()
    socket.send(b'{"type":"WsClientPromptCommand","content":"What can you do?"}')
    frame = await socket.until(b'"role":"user"')
    await socket.until(b'"AVAILABLE"')
    taken = time.perf_counter() - began
    return taken, orjson.loads(frame)["step"]["messageId"]
