"""Many sockets of one process."""

from __future__ import annotations

import asyncio
import gc
import random
import statistics
from collections.abc import Sequence

from bench import floors
from bench.measure import Act, Row, told
from bench.rows.revert import End
from bench.wire import Socket
from bench.world import World, serving

WHAT = (
    "2,000 sockets that only wait, on 20 sessions, and 100 sessions with a socket each that "
    "reverts or redoes about every half second, all in one `turnback serve` process, for 30 s; "
    "and how evenly the database writes a single row meanwhile."
)
IDLE, ACTIVE, SECONDS, PAUSE = 2_000, 100, 30.0, 0.5


async def measure(world: World) -> list[Row]:
    """The slowest of a hundred reverts against the one in the middle."""
    limits = {"ws_sockets_per_principal": IDLE + ACTIVE}
    async with world.store() as store, serving(store.url, **limits) as server:
        quiet = [await store.session() for _ in range(20)]
        waiting = [
            await Socket.connect(
                server.port, f"/sessions/{quiet[n % 20].id}/ws", subprotocol="turnback.v1"
            )
            for n in range(IDLE)
        ]
        for socket in waiting:
            await socket.until(b'"WsServerSnapshotEvent"')
        ends = []
        for _ in range(ACTIVE):
            key = await store.session()
            await store.seed(key, turns=1, steps=1)
            ends.append(await End.of(server.port, key))
        # A collection over so many sockets here would be taken for the server's.
        gc.collect()
        gc.freeze()
        until = asyncio.get_running_loop().time() + SECONDS
        async with floors.row(store.url) as floor:
            writes, *reverts = await asyncio.gather(
                _busy((floor,), until, pause=0.02), *(_busy(end.acts, until) for end in ends)
            )
        taken = [value for values in reverts for value in values]
        for socket in (*waiting, *(end.socket for end in ends)):
            socket.close()
    p50, p99 = _p50_p99(taken)
    f50, f99 = _p50_p99(writes)
    return [
        Row(
            name="p99 of a revert among 2,000 idle sockets and 100 active sessions",
            figure=p99,
            unit="ms",
            floor=p50,
            ratio=p99 / p50,
            target="≤ 5 p50",
            met=p99 <= 5 * p50,
        ),
        told("reverts and redos a second, the same", len(taken) / SECONDS, unit="1/s"),
        told("p99 of F over its own p50, at the same time", f99 / f50, unit="times"),
    ]


async def _busy(acts: Sequence[Act], until: float, *, pause: float = PAUSE) -> list[float]:
    """One act after the other until then, with pauses between; the seconds that each took."""
    loop = asyncio.get_running_loop()
    taken: list[float] = []
    while loop.time() < until:
        for act in acts:
            await asyncio.sleep(random.uniform(0.5, 1.5) * pause)
            taken.append(await act())
    return taken


def _p50_p99(taken: list[float]) -> tuple[float, float]:
    """Of these seconds, in milliseconds."""
    cuts = statistics.quantiles(taken, n=100)
    return cuts[49] * 1000, cuts[98] * 1000
