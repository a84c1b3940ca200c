"""What undoing costs: a plan, and a run of it."""

from __future__ import annotations

import time

from bench import floors
from bench.measure import Row, Series, against, bounded, in_turn
from bench.outside import Outside, outside
from bench.world import World
from turnback.core.principal import LOCAL_PERSON
from turnback.core.undo.asked import AskedUndo
from turnback.core.undo.rows import Outcome
from turnback.sessions.commands import Asked, Undo

WHAT = (
    "A turn with 12 calls of a reversible tool that answers at once, taken back. The plan is made "
    "of the log and kept; its run is from the command to its end, all that is locked, looked at, "
    "sent, looked at again and committed of each effect, and what the run itself begins and ends "
    "with, over 12."
)
EFFECTS = 12


async def measure(world: World) -> list[Row]:
    """The plan in ms, and each effect of the run against F."""
    plans: list[float] = []
    async with (
        world.store() as store,
        floors.row(store.url) as floor,
        outside(store) as tools,
    ):

        async def effect() -> float:
            turn_id = await tools.turn("set_phone", times=EFFECTS)
            planned, ran = await undone(tools, turn_id)
            plans.append(planned)
            return ran / EFFECTS

        async def several() -> float:
            taken = sorted([await floor() for _ in range(EFFECTS)])
            return taken[EFFECTS // 2]

        series = await in_turn({"F": several, "effect": effect}, times=8, warm=3)
    return [
        against("undo, per effect", series["effect"], series["F"], at_most=6, of="F"),
        bounded(
            "an undo plan of 12 effects",
            Series(tuple(plans)).median * 1000,
            unit="ms",
            at_most=200,
        ),
    ]


async def undone(tools: Outside, turn_id: str) -> tuple[float, float]:
    """The seconds of a plan for a turn, and those of its run."""
    actor = tools.actor
    asked = AskedUndo(ids=(turn_id,))
    began = time.perf_counter()
    stored, _ = await actor.undo_planning.show(asked, by=LOCAL_PERSON.id)
    planned = time.perf_counter()
    done = await actor.ask(Asked(Undo(stored.id), LOCAL_PERSON))
    if (run := actor.runs.undo) is not None:
        await run.ended.wait()
    ran = time.perf_counter()
    assert done.undo_id is not None
    undo = await actor.memory.dao.undos.get(actor.key, done.undo_id)
    assert undo.run.outcome is Outcome.FULLY_REVERTED, undo.run
    assert len(undo.members) == EFFECTS
    return planned - began, ran - planned
