"""One trial: a task made, perhaps disturbed, taken back; and what is wrong with what was said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.undo.carrying import Ended, carry, go_on
from bench.undo.dojo import Dojo, Fault, Leaves, Path, Task, differing
from bench.undo.leaves import claimed
from bench.undo.scene import Scene, Tier, scene
from bench.world import Store
from turnback.core.effects import EffectClass
from turnback.core.undo.rows import CompensationState, Outcome

TAKEN_BACK = (CompensationState.REVERTED, CompensationState.COMPENSATED)


@dataclass(frozen=True)
class Trial:
    """What came of one, counted in the world and held against what was said of it."""

    name: str
    changed: bool
    outcome: Outcome | None
    states: tuple[CompensationState, ...]
    differ: frozenset[Path]
    unclaimed: frozenset[Path]
    claimed: frozenset[Path]
    overclaimed: frozenset[Path]
    overwritten: frozenset[Path]
    overrun: int
    clicked_again: int

    @property
    def false_fully(self) -> bool:
        return self.outcome is Outcome.FULLY_REVERTED and bool(self.differ)

    @property
    def fully(self) -> bool:
        return self.outcome is Outcome.FULLY_REVERTED and not self.differ

    @property
    def reviewed(self) -> bool:
        return CompensationState.NEEDS_REVIEW in self.states


Act = Callable[[Any], object]


async def trial(
    store: Store,
    task: Task,
    tier: Tier,
    *,
    name: str | None = None,
    stranger: Act | None = None,
    fault: Callable[[int], Fault | None] = lambda _: None,
) -> Trial:
    """Make a task's calls, let a stranger act, take back; `fault` is of the n-th inverse call."""
    async with scene(store, task, tier) as one:
        await one.forward()
        expected = dict(one.before)
        theirs = disturbed(one.dojo, stranger)
        apply(expected, theirs)
        reads = {tool.name for tool in one.registry.all() if tool.classes == {EffectClass.READ}}
        inverses = iter(range(1, 1_000))
        one.dojo.fault = lambda tool: None if tool in reads else fault(next(inverses))
        began = len(one.dojo.made)
        ended = await carry(one)
        made = [tool for tool in one.dojo.made[began:] if tool not in reads]
        overrun = max(0, len(made) - ended.run.budget.calls)
        overrun += max(0, len(one.dojo.made) - began - len(made) - ended.run.budget.reads)
        now = one.dojo.leaves
        again = await clicked_again(one, ended)
        return judged(
            name or task.id, one, ended, now, expected, theirs, overrun=overrun, again=again
        )


def disturbed(dojo: Dojo, stranger: Act | None) -> Leaves:
    """What a stranger's act leaves at each path that it changes; None stands for gone."""
    if stranger is None:
        return {}
    before = dojo.leaves
    stranger(dojo.environment)
    after = dojo.leaves
    return {path: after.get(path) for path in differing(before, after)}


def apply(world: Leaves, theirs: Leaves) -> None:
    """Last written by a stranger: that value."""
    for path, value in theirs.items():
        world.pop(path, None)
        if value is not None:
            world[path] = value


async def clicked_again(one: Scene, ended: Ended) -> int:
    """Calls made, and leaves changed, by a second click on the same plan."""
    before, made = one.dojo.leaves, len(one.dojo.made)
    await go_on(one, ended)
    return len(one.dojo.made) - made + len(differing(before, one.dojo.leaves))


def judged(
    name: str,
    one: Scene,
    ended: Ended,
    now: Leaves,
    expected: Leaves,
    theirs: Leaves,
    *,
    overrun: int,
    again: int,
) -> Trial:
    """What was said, held against the world leaf by leaf."""
    differ = differing(expected, now)
    claims = [claim for row in ended.residues.values() for claim in row.claims]
    ours = {leaf for c in claims if not c.theirs for leaf in claimed(c, one.before, now)}
    every = {leaf for c in claims for leaf in claimed(c, one.before, now)}
    differs = differing(one.before, now)
    return Trial(
        name=name,
        changed=bool(differing(one.before, one.after)),
        outcome=ended.run.outcome,
        states=tuple(row.state for row in ended.compensations.values()),
        differ=differ,
        unclaimed=differ - every,
        claimed=frozenset(ours),
        overclaimed=frozenset(ours - differs),
        overwritten=frozenset(p for p, value in theirs.items() if now.get(p) != value),
        overrun=overrun,
        clicked_again=again,
    )
