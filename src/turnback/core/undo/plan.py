"""The plan of an undo: members, their order and verbs, what is in the way, and its digest.

A plan is made from the log alone: what was read of the world is no part of it (undo.md 5).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, assert_never

from turnback.core.drift import is_unseen
from turnback.core.effects import CallState, Effect, EffectClass, ResourceKey, Standing, Verb
from turnback.core.undo.budget import Budget, UndoLimits, default_budget
from turnback.core.undo.graph import Cycle, Edge, by_age, dependencies, dependents, earlier, order
from turnback.core.undo.rows import (
    Because,
    CompensationRow,
    Policy,
    RunRow,
    WaitsFor,
)

OPEN_STANDINGS = frozenset({Standing.IN_FORCE, Standing.IN_DOUBT, Standing.PARTLY})
"""The standings of what an undo is about."""


class Group(StrEnum):
    """Where a member is on the sheet."""

    REVERTED = "reverted"
    COMPENSATED = "compensated"
    STAYS = "stays"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One effect of a plan, and what is to be done with it.

    `calls` is how many calls that takes, `covered_by` the member that does it instead. `in_doubt`
    says that nobody knows yet whether it happened; `asked` that the caller named it, or its turn.
    Until `hold_until` (in ms) it is not sent, where it is held back. `restored`: it came out of a
    backup.
    """

    effect_id: str
    session_id: str
    turn_id: str
    tool: str
    verb: Verb
    group: Group
    standing: Standing
    class_: EffectClass
    contract: str | None
    case: int | None
    people: tuple[str, ...]
    names: tuple[tuple[str, str], ...]
    not_kept: tuple[str, ...]
    calls: int
    covered_by: str | None = None
    in_doubt: bool = False
    asked: bool = True
    hold_until: int | None = None
    restored: bool = False


@dataclass(frozen=True, slots=True)
class Inherited:
    """An effect of another session, undone from there alone; no value of it is told."""

    effect_id: str
    session_id: str
    turn_id: str
    standing: Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one click would do. `members` are in the order of the undo.

    `missing` are effects outside it that depend on a member: both, or neither. `cycle` names
    effects that would each have to go before the next. Either keeps the plan from being run.
    `positions` is where each touched resource's ledger stands.
    """

    members: tuple[Member, ...]
    edges: tuple[Edge, ...]
    policy: Policy
    budget: Budget
    head_before: str | None
    head_after: str | None
    positions: tuple[tuple[ResourceKey, int], ...] = ()
    inherited: tuple[Inherited, ...] = ()
    missing: tuple[Edge, ...] = ()
    cycle: Cycle = ()

    @property
    def runnable(self) -> bool:
        """Whether it can be run as it is."""
        return not self.missing and not self.cycle

    @property
    def plain(self) -> bool:
        """Whether it needs no look: every verb is revert or cancel (undo.md 5).

        What came out of a backup is to be looked at, whatever its verb.
        """
        return self.runnable and all(
            member.verb in (Verb.REVERT, Verb.CANCEL) and not member.restored
            for member in self.members
        )

    @property
    def digest(self) -> str:
        """A name for what the caller agrees to.

        It covers members with standing, contract, case, verb and people, and whether they came out
        of a backup, edges, policy, budget, HEAD before and after, and ledger positions; not times,
        texts or observed values.
        """
        agreed = {
            "members": [
                [
                    member.effect_id,
                    member.standing,
                    member.contract,
                    member.case,
                    member.verb,
                    list(member.people),
                    member.restored,
                ]
                for member in self.members
            ],
            "edges": sorted([edge.first, edge.then, edge.why] for edge in self.edges),
            "policy": self.policy,
            "budget": [
                self.budget.calls,
                self.budget.reads,
                self.budget.tokens,
                self.budget.run_ms,
            ],
            "head": [self.head_before, self.head_after],
            "ledger": sorted(
                [resource.connection, resource.kind, json.dumps(resource.key), position]
                for resource, position in self.positions
            ),
        }
        return hashlib.sha256(json.dumps(agreed, sort_keys=True).encode()).hexdigest()


def verb_of(effect: Effect, *, now: int) -> Verb:
    """What can be done with an effect by itself at this time (in ms)."""
    if effect.purged:
        return Verb.ACKNOWLEDGE
    if effect.state is CallState.HELD:
        return Verb.CANCEL
    if effect.cancel and effect.cancel_until is not None and now < effect.cancel_until:
        return Verb.CANCEL
    if not effect.inverse and effect.agentic is None:
        return Verb.ACKNOWLEDGE
    match effect.class_:
        case EffectClass.READ | EffectClass.REVERSIBLE:
            return Verb.REVERT
        case EffectClass.COMPENSABLE:
            return Verb.COMPENSATE
        case EffectClass.IRREVERSIBLE:
            return Verb.ACKNOWLEDGE
        case _:
            assert_never(effect.class_)


GROUP_OF = {
    Verb.REVERT: Group.REVERTED,
    Verb.CANCEL: Group.REVERTED,
    Verb.COMPENSATE: Group.COMPENSATED,
    Verb.ACKNOWLEDGE: Group.STAYS,
}


def covers(cover: Effect, effect: Effect, *, now: int) -> bool:
    """Whether the inverse of one effect puts back another one as well.

    So it does where its contract says so, and where an effect without an inverse of its own only
    changed what the inverse writes anyway, such as what was done to a thing that the other made.
    """
    if not earlier(cover, effect) or verb_of(cover, now=now) not in (Verb.REVERT, Verb.COMPENSATE):
        return False
    if effect.state not in (CallState.DONE, CallState.FAILED_DIRTY):
        return False
    if not effect.touches or any(touch.before is None for touch in effect.touches):
        return False
    if all(touch.resource in cover.covers for touch in effect.touches):
        return True
    if verb_of(effect, now=now) is not Verb.ACKNOWLEDGE or is_unseen(effect):
        return False
    return all(_writes_over(cover, touch.resource, effect) for touch in effect.touches)


def _writes_over(cover: Effect, resource: ResourceKey, effect: Effect) -> bool:
    wrote = {
        path
        for touch in cover.touches
        if touch.resource == resource and touch.before is not None
        for path in (*touch.wrote, *touch.removed)
    }
    if not wrote:
        return False
    if not cover.narrow:
        return True
    return all(
        wrote.issuperset((*touch.wrote, *touch.removed))
        for touch in effect.touches
        if touch.resource == resource
    )


def make_plan(
    asked: Iterable[str],
    *,
    effects: Sequence[Effect],
    sessions: frozenset[str],
    now: int,
    limits: UndoLimits,
    policy: Policy = Policy.STOP,
    budget: Budget | None = None,
    with_dependents: bool = False,
    head_before: str | None = None,
    head_after: str | None = None,
    positions: Mapping[ResourceKey, int] | None = None,
) -> Plan:
    """The plan for what is asked: ids of effects, and of turns for all that they did.

    `effects` are all of these sessions, on and off the path, and those that were inherited.
    `sessions` are those that the caller may run and plans: effects of others are listed as
    theirs. With `with_dependents` what depends on a member becomes a member.
    """
    named = set(asked)
    standing = [effect for effect in effects if effect.standing in OPEN_STANDINGS]
    ours = [effect for effect in standing if effect.session_id in sessions]
    chosen = {effect.id for effect in ours if effect.id in named or effect.turn_id in named}
    edges = dependencies(ours)
    missing = dependents(chosen, _within_sessions(edges, ours))
    included = set(missing) if with_dependents else set()
    members = [effect for effect in ours if effect.id in chosen | included]
    cover = _cover(members, now=now)
    edges, ordered, cycle = _ordered(members, edges, cover)
    by_id = {effect.id: effect for effect in members}
    sequence = [by_id[id_] for id_ in ordered] + [
        effect for effect in by_age(members) if effect.id not in set(ordered)
    ]
    touched = dict.fromkeys(touch.resource for effect in sequence for touch in effect.touches)
    return Plan(
        members=tuple(
            _member(effect, cover.get(effect.id), now=now, asked=effect.id in chosen)
            for effect in sequence
        ),
        edges=edges,
        policy=policy,
        budget=budget
        or default_budget(len(members), limits, calls=sum(_calls(one) for one in members)),
        head_before=head_before,
        head_after=head_after,
        positions=tuple((resource, (positions or {}).get(resource, 0)) for resource in touched),
        inherited=tuple(
            Inherited(effect.id, effect.session_id, effect.turn_id, effect.standing)
            for effect in standing
            if effect.session_id not in sessions
            and effect.standing is not None
            and (effect.id in named or effect.turn_id in named)
        ),
        missing=() if with_dependents else tuple(missing.values()),
        cycle=cycle,
    )


def _within_sessions(edges: Iterable[Edge], effects: Iterable[Effect]) -> list[Edge]:
    """The edges within one session: what another session wrote later is a stranger's."""
    session = {effect.id: effect.session_id for effect in effects}
    return [edge for edge in edges if session[edge.first] == session[edge.then]]


def _ordered(
    members: Sequence[Effect], needs: Sequence[Edge], cover: dict[str, str]
) -> tuple[tuple[Edge, ...], tuple[str, ...], Cycle]:
    """The edges, order and cycle of an undo; of `cover`, what closes a cycle is taken out."""
    ids = {effect.id for effect in members}
    while True:
        edges = _undo_edges(needs, ids, cover)
        ordered, cycle = order(members, edges)
        closing = [id_ for id_ in cycle if id_ in cover]
        if not closing:
            return edges, ordered, cycle
        for id_ in closing:
            del cover[id_]


def _cover(members: Sequence[Effect], *, now: int) -> dict[str, str]:
    """By effect, the newest member before it that puts it back too, and is not put back so itself.

    The newest, since what came between is taken back before an older one is.
    """
    found: dict[str, str] = {}
    aged = by_age(members)
    for at, effect in enumerate(aged):
        for older in reversed(aged[:at]):
            if older.id not in found and covers(older, effect, now=now):
                found[effect.id] = older.id
                break
    return found


def _undo_edges(
    edges: Iterable[Edge], members: set[str], cover: Mapping[str, str]
) -> tuple[Edge, ...]:
    """The edges of an undo: what is covered comes after what covers it, and not before."""
    found: dict[tuple[str, str], Because] = {}
    for edge in edges:
        if not {edge.first, edge.then} <= members or cover.get(edge.first) == edge.then:
            continue
        found[edge.first, edge.then] = edge.why
        covering = cover.get(edge.then)
        if covering is not None and covering != edge.first and cover.get(edge.first) != covering:
            found.setdefault((edge.first, covering), edge.why)
    for covered, covering in cover.items():
        found[covering, covered] = Because.COVER
    return tuple(Edge(first, then, why) for (first, then), why in found.items())


def _member(effect: Effect, covered_by: str | None, *, now: int, asked: bool) -> Member:
    assert effect.standing is not None
    verb = verb_of(effect, now=now)
    if covered_by is not None and verb is Verb.ACKNOWLEDGE:
        verb = Verb.COMPENSATE if effect.tells else Verb.REVERT
    calls = effect.cancel if verb is Verb.CANCEL else effect.inverse
    calls = None if effect.state is CallState.HELD else calls
    needs_calls = covered_by is None and verb is not Verb.ACKNOWLEDGE
    return Member(
        effect_id=effect.id,
        session_id=effect.session_id,
        turn_id=effect.turn_id,
        tool=f"{effect.connection}.{effect.tool}",
        verb=verb,
        group=GROUP_OF[verb],
        standing=effect.standing,
        class_=effect.class_,
        contract=effect.contract,
        case=effect.case,
        people=effect.people,
        names=tuple(sorted(effect.names.items())),
        not_kept=effect.not_kept,
        calls=len(calls or ()) if needs_calls else 0,
        covered_by=covered_by,
        in_doubt=effect.standing is Standing.IN_DOUBT,
        asked=asked,
        hold_until=effect.hold_until if effect.state is CallState.HELD else None,
        restored=effect.restored,
    )


def begin(
    plan: Plan,
    *,
    run_id: str,
    plan_id: str,
    session_id: str,
    generation: int,
    now: int,
    earlier: Mapping[str, CompensationRow] | None = None,
) -> tuple[RunRow, tuple[CompensationRow, ...]]:
    """The rows that a run of this plan begins with; `earlier` has an effect's row of its last run.

    `now` is in ms; `generation` counts the runs that went on with the same effects, from 1.
    """
    run = RunRow(
        id=run_id,
        plan_id=plan_id,
        session_id=session_id,
        generation=generation,
        policy=plan.policy,
        budget=plan.budget,
        started_at=now,
    )
    rows = earlier or {}
    return run, tuple(
        CompensationRow(
            run_id=run_id,
            effect_id=member.effect_id,
            position=position,
            verb=member.verb,
            **_left(rows.get(member.effect_id)),
            waits_for=tuple(
                WaitsFor(edge.first, edge.why)
                for edge in plan.edges
                if edge.then == member.effect_id
            ),
            covered_by=member.covered_by,
        )
        for position, member in enumerate(plan.members)
    )


def _calls(effect: Effect) -> int:
    """How many calls an effect may take to be put back."""
    return max(len(effect.inverse or ()), len(effect.cancel or ()))


def _left(earlier: CompensationRow | None) -> dict[str, Any]:
    """What an earlier run has left: how it left it, and what it had to claim."""
    if earlier is None:
        return {}
    return {"left_as": earlier.seen or earlier.left_as, "claims": earlier.claims}
