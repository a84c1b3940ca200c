"""Loading a long session that was evicted."""

from __future__ import annotations

from bench import floors
from bench.measure import Row, against, in_turn, timed
from bench.rows.pages import RECORDS
from bench.world import ByHand, World

WHAT = (
    "Reading a session of 10,000 steps back into memory: its tree, its workflow at HEAD. Q "
    "reads the rows of its visible path, whole, by asyncpg."
)
STEPS = 10_000


async def measure(world: World) -> list[Row]:
    """Opening the session against Q."""
    hand = ByHand()
    async with world.long() as (store, key):

        async def load() -> None:
            async with store.actor(key, hand.start) as actor:
                assert len(actor.memory.tree.steps) == STEPS

        async with floors.rows(store.url, RECORDS, key.id, STEPS) as rows:
            series = await in_turn({"Q": rows, "load": timed(load)}, times=3, warm=1)
    name = "load of an evicted session of 10,000 steps"
    return [against(name, series["load"], series["Q"], at_most=10, of="Q")]
