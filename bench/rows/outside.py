"""What the log costs a call outside."""

from __future__ import annotations

from bench import floors
from bench.measure import Row, against, in_turn
from bench.outside import outside
from bench.world import World

WHAT = (
    "A call of a tool outside that answers at once, by the one call path: the open step, the "
    "locks, the intent, the result, and all that is found out by its contract about what it "
    "touches. Of a reversible one, with a look before and one after, and of one that declares "
    "nothing; the step is opened for each call, and is no record yet."
)


async def measure(world: World) -> list[Row]:
    """Both kinds of call against F."""
    async with (
        world.store() as store,
        floors.row(store.url) as floor,
        outside(store) as tools,
    ):
        tools.hand.run = await tools.hand.prompt(tools.actor)
        series = await in_turn(
            {
                "F": floor,
                "reversible": lambda: tools.call("set_phone"),
                "undeclared": lambda: tools.call("send"),
            }
        )
    return [
        against(
            f"the log of a call outside: {which}", series[which], series["F"], at_most=4, of="F"
        )
        for which in ("reversible", "undeclared")
    ]
