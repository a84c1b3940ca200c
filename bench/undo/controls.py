"""Negative controls: with a rule of the engine taken out, rules of the trials break (undo.md 8).

Each is a patch of one name, applied here and for a while; the product has no switch for any of
them. It is run over every trial that the rule is there for, in both tiers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any

from bench.undo import pairs
from bench.undo.dojo import Dojo, Fault, Leaves, Task
from bench.undo.gates import Gate, Plan, at_once, drifted, plain
from bench.undo.scene import Tier, scene
from bench.undo.service import Service
from bench.undo.trial import Expected, Trial, faulty, taken_back
from turnback.core import drift
from turnback.core.contracts import choose
from turnback.core.effects import Call, ResourceKey
from turnback.core.undo import inverses
from turnback.core.undo.actions import Observed, Why
from turnback.core.undo.run import Run
from turnback.store.ids import new_id
from turnback.store.locks import Held, Locks
from turnback.tools.calls import Calls

Patch = tuple[Any, str, Any]


@contextmanager
def _instead(patches: Iterable[Patch]) -> Iterator[None]:
    kept = [(owner, name, getattr(owner, name)) for owner, name, _ in patches]
    for owner, name, other in patches:
        setattr(owner, name, other)
    try:
        yield
    finally:
        for owner, name, rule in kept:
            setattr(owner, name, rule)


# The rules, each without what makes it one


def _no_drift(basis: drift.Basis, seen: drift.Seen, *, narrow: bool) -> drift.Verdict:
    return drift.Go()


def _no_verify(*_: Any, **__: Any) -> drift.Reached:
    return drift.Reached.GOAL


_INVERSE = choose.inverse


def _arguments(contract: Any, decision: Any, args: Any, before: Any, result: Any = None) -> Any:
    """Where the inverse has an argument of the call's name, the call's value."""
    calls: Iterable[Call] = _INVERSE(contract, decision, args, before, result)
    return tuple(
        replace(call, args={name: args.get(name, value) for name, value in call.args.items()})
        for call in calls
    )


def _absorb(basis: drift.Basis, now: drift.State, effect: Any) -> Any:
    """What is there after an inverse is taken for what it wrote."""
    return drift._entries(basis.resources, frozenset(now) | basis.writes, now, effect)


def _one_key(effect_id: str, n: int, round_: int) -> str:
    return "c:the same"


@asynccontextmanager
async def _no_locks(
    self: Locks, project_id: str, resources: Iterable[ResourceKey], **_: Any
) -> AsyncIterator[Held]:
    yield Held(new_id(), 0)


class _StepHashes:
    """The world has to be, as a whole, as it was after the effect's step."""

    def __init__(self) -> None:
        self._after: dict[str, tuple[Dojo, Leaves]] = {}
        self._checked: str | None = None
        self._call, self._feed, self._judge = Calls.call, Run.feed, drift.judge

    def patches(self) -> list[Patch]:
        """A call, a look and the judgement of it."""

        async def call(calls: Calls, connection: Any, *args: Any, **named: Any) -> Any:
            answer = await self._call(calls, connection, *args, **named)
            self._after[named["tool_call_id"]] = connection, connection.leaves
            return answer

        def feed(run: Run, event: Any, now: int) -> None:
            if isinstance(event, Observed) and event.why is Why.CHECK:
                self._checked = run.effects[event.effect_id].tool_call_id
            self._feed(run, event, now)

        def judge(basis: drift.Basis, seen: drift.Seen, *, narrow: bool) -> drift.Verdict:
            assert self._checked is not None
            dojo, after = self._after[self._checked]
            if dojo.leaves == after:
                return drift.Go()
            return drift.Review(drift.DriftKind.CHANGED, ())

        return [(Calls, "call", call), (Run, "feed", feed), (drift, "judge", judge)]


# What each is tried on


class _Over:
    """The trials of one tier that a rule is there for."""

    def __init__(self, service: Service, plan: Plan, tasks: Mapping[str, Task]) -> None:
        self._service = service
        self._plan = plan
        self._tasks = tasks

    @property
    def _tier(self) -> Tier:
        return self._plan.tier

    async def drifts(self, *expected: Expected) -> list[Trial]:
        """The cases in which a stranger writes."""
        return await at_once(
            drifted(self._service, self._tier, case, self._tasks[case.task])
            for case in self._plan.drifts
            if case.expected in expected
        )

    async def undisturbed(self) -> list[Trial]:
        """Every task."""
        return await at_once(plain(self._service, self._tier, t) for t in self._tasks.values())

    async def lies(self) -> list[Trial]:
        """Every task, whose inverses do nothing and say that they did."""
        return await at_once(self._lied(task) for task in self._tasks.values())

    async def _lied(self, task: Task) -> Trial:
        async with scene(self._service, task, self._tier) as one:
            await one.make(*task.truth(one.dojo.environment))
            return await taken_back(one, task.id, fault=faulty(Fault.LIES, once=False))

    async def pairs(self, trial: Callable[..., Any]) -> list[Trial]:
        """Two calls on one thing, in one of the ways."""
        return [
            await trial(self._service, self._tier, pair, self._tasks[pair.task])
            for pair in self._plan.pairs
        ]


Trying = Callable[[_Over], Any]


async def _between(over: _Over) -> Sequence[Trial]:
    return await over.pairs(pairs.between_inverses)


async def _in_a_row(over: _Over) -> Sequence[Trial]:
    return [*await over.undisturbed(), *await over.pairs(pairs.in_a_row)]


async def _beside(over: _Over) -> Sequence[Trial]:
    return [*await over.undisturbed(), *await over.drifts(Expected.BACK)]


CONTROLS: dict[str, tuple[Callable[[], list[Patch]], Trying]] = {
    "drift checks off": (
        lambda: [(drift, "judge", _no_drift)],
        lambda over: over.drifts(Expected.REVIEW),
    ),
    "verify off": (lambda: [(drift, "verify", _no_verify)], lambda over: over.lies()),
    "inverse from arguments": (
        lambda: [(choose, "inverse", _arguments)],
        lambda over: over.undisturbed(),
    ),
    "per-step hashes": (lambda: _StepHashes().patches(), _beside),
    "absorb after inverse": (lambda: [(drift, "put_back", _absorb)], _between),
    "one key for two calls": (lambda: [(inverses, "key_of", _one_key)], _in_a_row),
    "locks off": (lambda: [(Locks, "hold", _no_locks)], lambda over: over.pairs(pairs.at_once)),
}


async def run(
    service: Service, name: str, plans: Sequence[Plan], tasks: Mapping[str, Task]
) -> Gate:
    """A control as a gate: in how many trials it breaks a rule that none breaks without it."""
    patches, trying = CONTROLS[name]
    trials: list[Trial] = []
    with _instead(patches()):
        for plan in plans:
            trials += await trying(_Over(service, plan, tasks))
    count = sum(bool(one.broken) for one in trials)
    name = f"control, {name}: trials that break a rule"
    return Gate(name, count, len(trials), "≥ 1", count > 0)
