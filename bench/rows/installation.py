"""A million records beside ten thousand: what must not grow with what a database holds."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from bench import bulk
from bench.measure import Act, Row, against, in_turn, timed
from bench.rows import step
from bench.rows.revert import End
from bench.wire import Http
from bench.world import ByHand, World, serving

WHAT = (
    "Two databases with rows made by SQL, of a million records and of ten thousand: half of them "
    "are one session's, the others those of sessions of 1,000. A fork of the long one by the DAO; "
    "a step, a revert (over a socket), the newest page of 50 and the list of the newest 5 "
    "sessions (over HTTP) of one of the others. In turns, the larger against the smaller."
)
LONG, SHORT = 1_000_000, 10_000
SESSION = 1_000
MADE_WITHIN = 180.0
"""Seconds for both databases to be made; past that the rows are not measured."""


async def measure(world: World) -> list[Row]:
    """What is done on the larger against the same on the smaller."""
    async with AsyncExitStack() as entered:
        acts: dict[str, Act] = {}
        for records in (SHORT, LONG):
            for name, act in (await _acts(world, entered, records)).items():
                acts[f"{name} {records}"] = act
        series = await in_turn(acts, times=20)
    names = dict.fromkeys(name.rpartition(" ")[0] for name in acts)
    return [
        against(
            f"{name} among {LONG:,} records",
            series[f"{name} {LONG}"],
            series[f"{name} {SHORT}"],
            at_most=1.5,
            of=f"among {SHORT:,}",
        )
        for name in names
        if name != "redo"
    ]


async def _acts(world: World, entered: AsyncExitStack, records: int) -> dict[str, Act]:
    store = await entered.enter_async_context(world.store())
    async with asyncio.timeout(MADE_WITHIN), bulk.writing(store) as write:
        long = await write.said(await write.session(), turns=records // 2 // 10)
        others = [
            await write.said(await write.session(), turns=SESSION // 10)
            for _ in range(records // 2 // SESSION)
        ]
    server = await entered.enter_async_context(serving(store.url, lease_expiry=3_600))
    http = await Http.connect(server.port)
    entered.callback(http.close)
    end = await End.of(server.port, others[0].key)
    entered.callback(end.socket.close)
    hand = ByHand()
    actor = await entered.enter_async_context(store.actor(others[1].key, hand.start))
    hand.run = await hand.prompt(actor)
    return {
        "fork": timed(lambda: bulk.fork(store, long.key.id)),
        "one step": step.act(hand, actor),
        "revert": end.act(end.revert),
        "redo": end.act(end.redo),
        "newest page of 50": _get(http, f"/sessions/{others[0].key.id}/steps?limit=50", "steps"),
        "list of 5 sessions": _get(http, "/sessions?limit=5", "sessions"),
    }


def _get(http: Http, path: str, member: str) -> Act:
    async def get() -> None:
        status, body = await http.request("GET", path)
        assert status == 200
        assert b'"%b"' % member.encode() in body[:20]

    return timed(get)
