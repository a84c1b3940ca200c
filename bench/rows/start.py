"""Cold start to the first socket."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from bench.measure import Row, Series, bounded
from bench.wire import Http, Socket
from bench.world import World, serving

WHAT = (
    "From the start of the command `turnback serve` to the first snapshot on a socket, its "
    "embedded database initialised already and not running."
)
TIMES = 7


async def measure(world: World) -> list[Row]:
    """The median of some starts."""
    taken = []
    with TemporaryDirectory(prefix="turnback-bench-") as folder:
        async with serving(data_dir=Path(folder)) as server:
            http = await Http.connect(server.port)
            _, body = await http.request("POST", "/sessions", b"{}")
            session_id = orjson.loads(body)["id"]
            http.close()
        for _ in range(TIMES):
            began = time.perf_counter()
            async with serving(data_dir=Path(folder)) as server:
                path = f"/sessions/{session_id}/ws"
                socket = await Socket.connect(server.port, path, subprotocol="turnback.v1")
                await socket.until(b'"WsServerSnapshotEvent"')
                taken.append(time.perf_counter() - began)
                socket.close()
    return [
        bounded("cold start to the first socket", Series(tuple(taken)).median, unit="s", at_most=3)
    ]
