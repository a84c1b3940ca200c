"""Negative controls: with a rule of the engine taken out, a gate has to fail (undo.md 8)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any

from bench.undo import carrying, gates
from bench.undo.gates import Gate
from bench.undo.scene import Tier
from bench.world import Store
from turnback.core import drift
from turnback.core.contracts import choose
from turnback.core.effects import Call, ResourceKey
from turnback.core.undo import inverses
from turnback.store.ids import new_id
from turnback.store.locks import Held, Locks

TASKS = frozenset(
    {
        "workspace/user_task_31",
        "banking/user_task_2",
        "banking/user_task_13",
        "banking/user_task_15",
        "slack/user_task_2",
    }
)
"""Enough for every rule to be missed."""

POWER = (4, 5)
"""Of those tasks: fully, and in part."""


@contextmanager
def _instead(owner: Any, name: str, other: Any) -> Iterator[None]:
    rule = getattr(owner, name)
    setattr(owner, name, other)
    try:
        yield
    finally:
        setattr(owner, name, rule)


def _no_drift(basis: drift.Basis, seen: drift.Seen, *, narrow: bool) -> drift.Verdict:
    return drift.Go()


def _no_verify(*_: Any, **__: Any) -> drift.Reached:
    return drift.Reached.GOAL


def _arguments(contract: Any, decision: Any, args: Any, before: Any, result: Any = None) -> Any:
    calls: Iterable[Call] = _INVERSE(contract, decision, args, before, result)
    return tuple(replace(call, args={**call.args, **args}) for call in calls)


_INVERSE = choose.inverse
_JUDGE = drift.judge


def _step_hashes(basis: drift.Basis, seen: drift.Seen, *, narrow: bool) -> drift.Verdict:
    """The world has to be, as a whole, as it was after the effect's step."""
    if carrying.checking is None:
        return _JUDGE(basis, seen, narrow=narrow)
    is_now, was = carrying.checking
    if is_now == was:
        return drift.Go()
    return drift.Review(drift.DriftKind.CHANGED, ())


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


CONTROLS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "drift checks off": (drift, "judge", _no_drift),
    "verify off": (drift, "verify", _no_verify),
    "inverse from arguments": (choose, "inverse", _arguments),
    "per-step hashes": (drift, "judge", _step_hashes),
    "absorb after inverse": (drift, "put_back", _absorb),
    "one key for two calls": (inverses, "key_of", _one_key),
    "locks off": (Locks, "hold", _no_locks),
}


async def run(store: Store, tier: Tier) -> list[Gate]:
    """Each control as a gate: how many gates it makes fail, of those that hold without it."""
    held = {gate.name for gate in await _gates(store, tier) if gate.met}
    found = []
    for name, (owner, rule, without) in CONTROLS.items():
        with _instead(owner, rule, without):
            failed = {gate.name for gate in await _gates(store, tier) if not gate.met}
        caught = len(failed & held)
        found.append(
            Gate(f"control, {name}: gates that fail", caught, len(held), "≥ 1", caught > 0)
        )
    return found


async def _gates(store: Store, tier: Tier) -> list[Gate]:
    return gates.gates(await gates.run(store, tier, only=TASKS.__contains__), power=POWER)
