"""The gates of undo.md 8: what is measured of all trials, and what it has to be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

from bench.undo import pairs, sequences
from bench.undo.dojo import Fault, Task
from bench.undo.pairs import Pair
from bench.undo.possible import Possible
from bench.undo.scene import Tier, scene
from bench.undo.service import Service
from bench.undo.strangers import Drift
from bench.undo.trial import Expected, Rule, Trial, faulty, taken_back

T = TypeVar("T")

PLACES = 6
"""Trials that go on at the same time."""

PASSING = (Fault.TRANSIENT, Fault.NOT_SENT)
"""Faults after which a call can be made again, whatever the world keeps."""

LOST = (Fault.LOST_BEFORE, Fault.LOST_AFTER)
"""And those after which it can where the world knows a call again by its key."""

FOR_GOOD = (Fault.REFUSED, Fault.ERROR_BODY)


FULLY_STRICT = "tasks taken back fully, were an invitation to tell somebody"


@dataclass(frozen=True)
class Gate:
    """One gate: what was measured, of how many, and whether it holds.

    `ours`: the design has no such gate, or another number.
    """

    name: str
    figure: float
    of: int
    gate: str
    met: bool
    ours: bool = False


@dataclass(frozen=True)
class Plan:
    """What is tried of a tier, and how much of it has to come back: wholly, and in part.

    `possible` is what its tools can do; `strict` is the tier with what may be declared otherwise
    taken the other way, by its tool.
    """

    tier: Tier
    drifts: Sequence[Drift]
    pairs: Sequence[Pair]
    possible: Possible
    seeds: int
    fully: int
    some: int
    ours: bool = False
    strict: tuple[str, Tier] | None = None


@dataclass
class Trials:
    """All trials of a tier."""

    plain: dict[str, Trial] = field(default_factory=dict)
    strict: dict[str, Trial] = field(default_factory=dict)
    drifts: list[tuple[Drift, Trial]] = field(default_factory=list)
    faults: list[Trial] = field(default_factory=list)
    poor: list[Trial] = field(default_factory=list)
    pairs: list[Trial] = field(default_factory=list)
    random: list[Trial] = field(default_factory=list)
    can_fully: list[str] = field(default_factory=list)
    can_partly: list[str] = field(default_factory=list)

    @property
    def all(self) -> list[Trial]:
        drifts = (one for _, one in self.drifts)
        plain = (self.plain.values(), self.strict.values())
        kinds = (*plain, drifts, self.faults, self.poor, self.pairs, self.random)
        return list(chain(*kinds))


async def at_once(trials: Iterable[Awaitable[T]]) -> list[T]:
    """A few of them at a time, each in a world of its own; what came of them, in order."""
    places = asyncio.Semaphore(PLACES)

    async def one(trial: Awaitable[T]) -> T:
        async with places:
            return await trial

    return await asyncio.gather(*map(one, trials))


async def run(service: Service, plan: Plan, tasks: Mapping[str, Task]) -> Trials:
    """Every trial of a tier."""
    tier, found = plan.tier, Trials()
    known = list(tasks.values())
    found.can_fully = [task.id for task in known if plan.possible.fully(task)]
    found.can_partly = [task.id for task in known if plan.possible.partly(task)]
    undisturbed = await at_once(plain(service, tier, task) for task in known)
    found.plain = dict(zip(tasks, undisturbed, strict=True))
    if plan.strict is not None:
        tool, strict = plan.strict
        of_tool = [t for t in known if any(name == tool for name, _ in t.truth(t.make()))]
        otherwise = await at_once(plain(service, strict, task) for task in of_tool)
        found.strict = dict(zip((task.id for task in of_tool), otherwise, strict=True))
    drifts = (drifted(service, tier, case, tasks[case.task]) for case in plan.drifts)
    found.drifts = list(zip(plan.drifts, await at_once(drifts), strict=True))
    calling = [task for task in known if found.plain[task.id].calls]
    wrong = (faults(service, tier, task, found.plain[task.id]) for task in calling)
    found.faults = list(chain(*await at_once(wrong)))
    found.poor = list(chain(*await at_once(poor(service, tier, task) for task in calling)))
    for pair in plan.pairs:  # their calls have to be under way at the same moment
        found.pairs += await pairs.trials(service, tier, pair, tasks[pair.task])
    suites = {task.suite: task for task in reversed(known)}
    random = (
        sequences.trials(service, tier, task, seed)
        for task in suites.values()
        for seed in range(plan.seeds)
    )
    found.random = list(chain(*await at_once(random)))
    return found


async def plain(service: Service, tier: Tier, task: Task) -> Trial:
    """A task, undisturbed."""
    async with scene(service, task, tier) as one:
        await one.make(*task.truth(one.dojo.environment))
        return await taken_back(one, f"{tier.name}: {task.id}")


async def drifted(service: Service, tier: Tier, case: Drift, task: Task) -> Trial:
    """A task, and a stranger after it."""
    async with scene(service, task, tier) as one:
        await one.make(*task.truth(one.dojo.environment))
        one.stranger(case.act)
        return await taken_back(one, f"{tier.name}: {case.name}", expects=case.expected)


async def faults(service: Service, tier: Tier, task: Task, least: Trial) -> list[Trial]:
    """A task whose undo goes wrong in every way, at its first call and at every one."""
    found = []
    for fault in Fault:
        for once in (True, False):
            async with scene(service, task, tier) as one:
                await one.make(*task.truth(one.dojo.environment))
                passes = once and (fault in PASSING or (fault in LOST and tier.keeps_keys))
                found.append(
                    await taken_back(
                        one,
                        f"{tier.name}: {task.id}, {fault.value}{', once' if once else ''}",
                        fault=faulty(fault, once=once),
                        least=least if passes else None,
                        once_only=fault in FOR_GOOD,
                    )
                )
    return found


async def poor(service: Service, tier: Tier, task: Task) -> list[Trial]:
    """A task that may be undone with one call, which is put off again and again, or is not."""
    found = []
    for fault in (None, Fault.TRANSIENT):
        async with scene(service, task, tier) as one:
            await one.make(*task.truth(one.dojo.environment))
            found.append(
                await taken_back(
                    one,
                    f"{tier.name}: {task.id}, one call, {fault or 'undisturbed'}",
                    fault=None if fault is None else faulty(fault, once=False),
                    disturbed=True,
                    calls=1,
                )
            )
    return found


def gates(found: Trials, plan: Plan) -> list[Gate]:
    """The table of one tier."""
    every = found.all
    prefix = "" if plan.tier.name == "own tools" else f"{plan.tier.name}: "

    def broken(rule: Rule, of: Iterable[Trial] = every, *, ours: bool = False) -> Gate:
        some = list(of)
        count = sum(one.broken.get(rule, 0) for one in some)
        return Gate(f"{prefix}{rule}", count, len(some), "0", count == 0, ours)

    def all_of(name: str, could: Sequence[str], were: Iterable[str]) -> Gate:
        missed = set(could) ^ set(
            were
        )  # one that was and could not be shows that the bound is none
        return Gate(f"{prefix}{name}", len(missed), len(could), "0", not missed, ours=True)

    def least(name: str, count: int, of: int, at_least: int, *, ours: bool = plan.ours) -> Gate:
        return Gate(f"{prefix}{name}", count, of, f"≥ {at_least}", count >= at_least, ours)

    drifts = [one for _, one in found.drifts]
    reviews = [one for case, one in found.drifts if case.expected is Expected.REVIEW]
    disturbed = [*drifts, *found.pairs, *found.random]
    claimed = sum(one.claimed for one in every)
    over = 100 * sum(one.overclaimed for one in every) / max(1, claimed)
    changed = [one for one in found.plain.values() if one.changed]
    strict = [found.strict.get(id_, one) for id_, one in found.plain.items() if one.changed]
    rows = [
        broken(Rule.FALSE),
        broken(Rule.OVERWRITTEN, disturbed),
        least("drift cases", len(drifts), len(disturbed), 26, ours=False),
        broken(Rule.UNCLAIMED),
        Gate(f"{prefix}claimed leaves that do not differ, %", over, claimed, "≤ 5", over <= 5),
        least(
            "tasks taken back fully", sum(one.fully for one in changed), len(changed), plan.fully
        ),
        least(
            "tasks with something taken back",
            sum(one.back > 0 for one in changed),
            len(changed),
            plan.some,
        ),
        all_of(
            "tasks taken back fully, against those of which nothing has to stay",
            found.can_fully,
            (id_ for id_, one in found.plain.items() if one.changed and one.fully),
        ),
        all_of(
            "tasks with something taken back, against those of which something can be",
            found.can_partly,
            (id_ for id_, one in found.plain.items() if one.changed and one.back),
        ),
        broken(Rule.MISSED, [*reviews, *found.pairs]),
        broken(Rule.IMAGINED),
        broken(Rule.CLICKED),
        broken(Rule.OVERRUN),
        broken(Rule.TWICE, ours=True),
        broken(Rule.INSISTED, found.faults, ours=True),
        broken(Rule.LESS, found.faults, ours=True),
        broken(Rule.LEFT, [*found.plain.values(), *found.pairs, *found.random], ours=True),
        Gate(
            f"{prefix}random sequences that broke any rule",
            sum(bool(one.broken) for one in found.random),
            len(found.random),
            "0",
            not any(one.broken for one in found.random),
            ours=True,
        ),
    ]
    if plan.strict is not None:
        count = sum(one.fully for one in strict)
        rows.insert(6, least(FULLY_STRICT, count, len(strict), 7, ours=True))
    return rows
