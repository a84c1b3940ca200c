"""A million records beside ten thousand: what must not grow with what a database holds."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Self

from bench import bulk
from bench.measure import Act, Row, against, in_turn, timed
from bench.rows import step
from bench.rows.revert import End
from bench.wire import Http
from bench.world import ByHand, Store, World, serving
from turnback.store.rows import SessionKey

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
        async with asyncio.timeout(MADE_WITHIN):
            made = {n: await Installation.of(world, entered, n) for n in (SHORT, LONG)}
        # Connections are made last: a server closes those that nobody uses.
        acts = {n: await each.acts(entered) for n, each in made.items()}
        series = await in_turn(
            {f"{name} {n}": act for n, named in acts.items() for name, act in named.items()},
            times=20,
        )
    return [
        against(
            f"{name} among {LONG:,} records",
            series[f"{name} {LONG}"],
            series[f"{name} {SHORT}"],
            at_most=1.5,
            of=f"among {SHORT:,}",
        )
        for name in acts[LONG]
        if name != "redo"
    ]


@dataclass(frozen=True)
class Installation:
    """A database with one long session and others."""

    store: Store
    long: SessionKey
    others: list[SessionKey]

    @classmethod
    async def of(cls, world: World, entered: AsyncExitStack, records: int) -> Self:
        """One of so many records."""
        store = await entered.enter_async_context(world.store())
        async with bulk.writing(store) as write:
            long = await write.said(await write.session(), turns=records // 2 // 10)
            others = [
                (await write.said(await write.session(), turns=SESSION // 10)).key
                for _ in range(records // 2 // SESSION)
            ]
        return cls(store, long.key, others)

    async def acts(self, entered: AsyncExitStack) -> dict[str, Act]:
        """What is done on it, by name."""
        stepped, reverted, *_ = self.others
        hand = ByHand()
        actor = await entered.enter_async_context(self.store.actor(stepped, hand.start))
        hand.run = await hand.prompt(actor)
        # A run carried from here does not say that it is alive.
        serve = serving(self.store.url, lease_expiry=3_600)
        server = await entered.enter_async_context(serve)
        http = await Http.connect(server.port)
        entered.callback(http.close)
        end = await End.of(server.port, reverted)
        entered.callback(end.socket.close)
        return {
            "fork": timed(lambda: bulk.fork(self.store, self.long.id)),
            "one step": step.act(hand, actor),
            "revert": end.act(end.revert),
            "redo": end.act(end.redo),
            "newest page of 50": _get(http, f"/sessions/{reverted.id}/steps?limit=50", "steps"),
            "list of 5 sessions": _get(http, "/sessions?limit=5", "sessions"),
        }


def _get(http: Http, path: str, member: str) -> Act:
    async def get() -> None:
        status, body = await http.request("GET", path)
        assert status == 200
        assert b'"%b"' % member.encode() in body[:20]

    return timed(get)
