"""One step, durable."""

from __future__ import annotations

import time

from bench import floors
from bench.measure import Act, Row, against, in_turn
from bench.world import ByHand, World
from turnback.sessions.actor import Actor

WHAT = (
    "From a finished step in the session's queue to its commit: record, HEAD, snapshot blobs, "
    "outbox. 50 KB workflow, 2 operators changed by two tool calls; a turn's first step is the "
    "prompt, its last one ends the run."
)


async def measure(world: World) -> list[Row]:
    """First, middle and last step of a turn, each against F."""
    hand = ByHand()
    async with world.store() as store, floors.row(store.url) as floor:
        key = await store.session()
        async with store.actor(key, hand.start) as actor:

            async def first() -> float:
                began = time.perf_counter()
                hand.run = await hand.prompt(actor)
                return time.perf_counter() - began

            series = await in_turn(
                {
                    "F": floor,
                    "first": first,
                    "middle": act(hand, actor),
                    "last": act(hand, actor, last=True),
                },
                rounds=9,
                times=60,
                warm=60,
            )
    return [
        against(f"one step, durable: {which}", series[which], series["F"], at_most=2, of="F")
        for which in ("first", "middle", "last")
    ]


def act(hand: ByHand, actor: Actor, *, last: bool = False) -> Act:
    """The next step of the run that is under way."""

    async def run() -> float:
        draft = hand.draft(actor, last=last)
        began = time.perf_counter()
        await actor.progress.append(hand.run, hand.run.step_id, draft)
        return time.perf_counter() - began

    return run
