"""Memory of a server: per step of a live session, per idle socket, and gone when idle."""

from __future__ import annotations

import asyncio

import orjson

from bench import workload
from bench.measure import Row, bounded
from bench.rows.revert import HEAD_CHANGE
from bench.wire import Http, Socket
from bench.world import World, serving

WHAT = (
    "Private memory of a `turnback serve` process: its growth over 1,000 edits of a live "
    "session, each of 2 operators of a 50 KB workflow, sent over its socket; and over 500 "
    "sockets that read their snapshot and then only wait."
)
WARM, STEPS, SOCKETS = 300, 1_000, 500
SETTLES = 2.0  # seconds


async def measure(world: World) -> list[Row]:
    """Growth by steps, then by sockets."""
    async with world.store() as store:
        key = await store.session()
        async with serving(store.url, poll_interval=0.5) as server:
            path = f"/sessions/{key.id}/ws"
            socket = await Socket.connect(server.port, path, subprotocol="turnback.v1")
            head = orjson.loads(await socket.until(b'"WsServerSnapshotEvent"'))["headId"]

            async def edit(times: int) -> None:
                nonlocal head
                for _ in range(times):
                    frame = {
                        "type": "WsClientEditWorkflowCommand",
                        "baseHeadId": head,
                        "edits": workload.edits(),
                    }
                    socket.send(orjson.dumps(frame))
                    head = orjson.loads(await socket.until(HEAD_CHANGE))["headId"]

            await edit(WARM)
            before = server.resident
            await edit(STEPS)
            per_step = (server.resident - before) / STEPS
            await asyncio.sleep(SETTLES)
            waiting = [socket]
            for count in (50, SOCKETS):
                before = server.resident
                for _ in range(count):
                    another = await Socket.connect(server.port, path, subprotocol="turnback.v1")
                    await another.until(b'"WsServerSnapshotEvent"')
                    waiting.append(another)
                await asyncio.sleep(SETTLES)
                per_socket = (server.resident - before) / count
            for each in waiting:
                each.close()
    return [
        bounded("memory per step of a live session", per_step / 1024, unit="KB", at_most=10),
        bounded("memory per idle socket", per_socket / 1024, unit="KB", at_most=45),
        *(await _evicted(world)),
    ]


async def _evicted(world: World) -> list[Row]:
    """The memory that 20 idle sessions of 200 steps still hold when their time is over."""
    async with world.store() as store:
        keys = [await store.session() for _ in range(40)]
        for key in keys:
            await store.seed(key, turns=4, steps=49)
        quick = {"poll_interval": 0.2, "session_idle_timeout": 0.5}
        async with serving(store.url, **quick) as server:
            http = await Http.connect(server.port)
            sizes = []
            for half in (keys[:20], keys[20:]):  # the second time nothing is new but the sessions
                before = server.resident
                for key in half:
                    await http.request("GET", f"/sessions/{key.id}/steps?limit=1")
                held = server.resident
                await asyncio.sleep(SETTLES)
                sizes.append((before, held, server.resident))
            http.close()
    (_, _, _), (before, _, after) = sizes
    per_session = (after - before) / 20 / 1024
    return [bounded("left of an idle session that was evicted", per_session, unit="KB", at_most=45)]
