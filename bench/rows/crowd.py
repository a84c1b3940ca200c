"""Many sockets of one process."""

from __future__ import annotations

import asyncio
import random
import statistics

from bench.measure import Act, Row, told
from bench.rows.revert import End
from bench.wire import Socket
from bench.world import World, serving

WHAT = (
    "2,000 sockets that only wait, on 20 sessions, and 100 sessions with a socket each that "
    "reverts or redoes about every half second, all in one `turnback serve` process, for 30 s."
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
        until = asyncio.get_running_loop().time() + SECONDS
        taken = [
            value
            for values in await asyncio.gather(*(_busy(end, until) for end in ends))
            for value in values
        ]
        for socket in (*waiting, *(end.socket for end in ends)):
            socket.close()
    cuts = statistics.quantiles(taken, n=100)
    p50, p99 = cuts[49] * 1000, cuts[98] * 1000
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
    ]


async def _busy(end: End, until: float) -> list[float]:
    """Revert and redo until then; the seconds that each revert took."""
    loop = asyncio.get_running_loop()
    acts: tuple[Act, Act] = end.act(end.revert), end.act(end.redo)
    taken: list[float] = []
    while loop.time() < until:
        for act in acts:
            await asyncio.sleep(random.uniform(0.5, 1.5) * PAUSE)
            taken.append(await act())
    return taken
