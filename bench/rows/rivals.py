"""The same work by others: LangGraph on its Postgres checkpointer, and Google ADK."""

from __future__ import annotations

from statistics import median

from bench.measure import Row, told
from bench.rivals.run import NAMES, STEPS
from bench.rivals.run import measure as measure_rivals
from bench.world import World

WHAT = (
    "200 steps that each change 2 operators of a state of 50 KB, durable one by one, on the same "
    "PostgreSQL, in turns: a step; the tables' growth; going back by half the way (LangGraph forks "
    "from the older checkpoint, ADK rewinds, Turnback reverts); reading all 200 states."
)
MEASURES = {
    "step_ms": ("a step", "ms"),
    "step_bytes": ("bytes a step", "B"),
    "revert_ms": ("back by 100 steps", "ms"),
    "history_ms": ("the whole history", "ms"),
}


async def measure(world: World) -> list[Row]:
    """The medians of the rounds, measure by measure."""
    results = await measure_rivals(world)
    names = {"turnback": "Turnback", **NAMES}
    return [
        told(f"{STEPS} steps: {what}, {names[name]}", median(r[key] for r in found), unit=unit)
        for key, (what, unit) in MEASURES.items()
        for name, found in results.items()
    ]
