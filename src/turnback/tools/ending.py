"""What a call has come to: from its reply and two looks at the world to the effect as it is logged.

Pure. The rules are those of undo.md 2: a failure whose things are as before failed cleanly; where
they differ it did not, and its inverse is made of what was there before; where that cannot be seen
nobody knows. An error in the body of a success is a failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from turnback.core import drift
from turnback.core.contracts import answers, choose, states
from turnback.core.contracts.choose import Before, Decision
from turnback.core.contracts.equality import same
from turnback.core.contracts.model import Contract
from turnback.core.contracts.states import Observation, Unreadable
from turnback.core.drift import LedgerEntry, Source
from turnback.core.effects import (
    STANDING_OF_CALL,
    Call,
    CallState,
    Effect,
    EffectClass,
    Json,
    LeafPath,
    ResourceKey,
    Standing,
    Touch,
)
from turnback.core.errors import Unresolved

ALL: frozenset[LeafPath] = frozenset({()})
"""Of a thing of which nobody saw what a call did: it may have written any leaf of it."""

Known = Mapping[ResourceKey, Sequence[LedgerEntry]]
"""The ledger's entries of each resource, as they were before the call."""


@dataclass(frozen=True, slots=True)
class Ended:
    """An effect after its call, and what the ledger gets of it."""

    effect: Effect
    entries: tuple[LedgerEntry, ...] = ()


def intended(effect: Effect, contract: Contract, before: Before, decision: Decision) -> Effect:
    """The effect as it is written before its call is sent."""
    try:
        inverse = choose.inverse(contract, decision, effect.args, before)
    except Unresolved:
        inverse = None  # it needs the result
    taken = choose.taken(contract, decision, effect.args, before)
    inside = (
        resource
        for _, seen in before.observed
        if isinstance(seen, Observation)
        for resource in seen.inside
    )
    return replace(
        effect,
        **_decided(decision),
        touches=_touches(contract, before, None, taken),
        inverse=inverse,
        inside=tuple(dict.fromkeys(inside)),
    )


def succeeded(
    effect: Effect,
    contract: Contract,
    before: Before,
    after: Before,
    result: Json,
    *,
    known: Known,
    can_seal: bool,
    late: bool = False,
) -> Ended:
    """A call that said that it was done.

    `after` is what its things are now, those among them that it has made. If that is `late`, long
    after the call, somebody else may have written since: only what its arguments or its answer
    account for is taken for its own. But an offset with a test of its own puts no value back; it is
    held to what its things were then.
    """
    decision = choose.decide(
        contract, effect.connection, effect.args, before, result, keeps_secrets=can_seal
    )
    class_, inverse, cancel = decision.class_, None, None
    if class_ in (EffectClass.REVERSIBLE, EffectClass.COMPENSABLE):
        try:
            inverse = choose.inverse(contract, decision, effect.args, before, result)
        except Unresolved:
            class_ = EffectClass.IRREVERSIBLE
    try:
        cancel = choose.cancel_call(decision, contract, effect.args, result)
    except Unresolved:
        cancel = None
    taken = choose.taken(contract, decision, effect.args, before, result)
    touches = _touches(contract, before, after, taken)
    if after.unreadable and class_ is EffectClass.REVERSIBLE:
        class_ = EffectClass.COMPENSABLE  # what it wrote cannot be known, nor checked later
    unchanged = answers.is_unchanged(contract, effect.args, before, result)
    reversible = class_ is EffectClass.REVERSIBLE and not decision.tells
    if not unchanged and reversible and touches and all(map(_is_seen_as_before, touches)):
        unchanged = _is_own(effect, inverse)
        if not unchanged:  # it said that it was done, and a read may answer late
            touches = tuple(replace(touch, unsure=ALL) for touch in touches)
    state = CallState.DONE_UNCHANGED if unchanged else CallState.DONE
    if late and not (class_ is EffectClass.COMPENSABLE and _has_test(contract, decision)):
        given = [*_values(dict(effect.args)), *_values(result)]
        touches = tuple(_own(touch, given) for touch in touches)
    ended = replace(
        effect,
        **_decided(decision) | {"class_": class_},
        state=state,
        standing=None if class_ is EffectClass.READ else STANDING_OF_CALL[state],
        result=result,
        touches=touches,
        inverse=inverse,
        cancel=None if cancel is None else (cancel,),
    )
    if decision.cancel is not None and cancel is not None:
        until = answers.moment(decision.cancel.until, effect.args, result, sent=effect.at)
        ended = replace(ended, cancel_until=until)
    if decision.settles is not None:
        at = answers.moment(decision.settles.at, effect.args, result, sent=effect.at)
        ended = replace(ended, settles_at=at)
    return Ended(ended, _entries(ended, known))


def failed(
    effect: Effect,
    contract: Contract,
    before: Before,
    after: Before,
    result: Json,
    *,
    known: Known,
    replied: bool,
) -> Ended:
    """A call that said that it failed, or, not having `replied`, said nothing.

    Without a reply, things that are as before prove nothing: it may still take effect. Where
    nothing can be read that it would have made, its contract may know what a refusal looks like.
    """
    taken = {touch.resource: touch.taken for touch in effect.touches}
    touches = _touches(contract, before, after, taken)
    readable = bool(touches) and not before.unreadable and not after.unreadable
    changed = any(not _is_as_before(t) for t in touches if t.before is not None)
    refused = answers.is_refused(contract, effect.args, before, result)
    if changed and not after.unreadable:
        state = CallState.FAILED_DIRTY
    elif replied and (readable or refused):
        state = CallState.FAILED_CLEAN
    else:
        state = CallState.IN_DOUBT
    ended = replace(effect, state=state, standing=STANDING_OF_CALL[state], result=result)
    if state is CallState.FAILED_CLEAN:
        return Ended(not_applied(ended))
    if state is not CallState.FAILED_DIRTY:
        return Ended(ended)
    ended = replace(ended, touches=touches)
    if ended.inverse is None:
        ended = _irreversible(ended)
    return Ended(ended, _entries(ended, known))


def not_sent(effect: Effect, reason: str) -> Ended:
    """A call that never left."""
    return Ended(replace(not_applied(effect), result={"text": reason}))


def not_applied(effect: Effect) -> Effect:
    """An effect of which it is known that it did not come about.

    One that was held back had been in force until then: it is cancelled, and not just never made.
    """
    standing = None if effect.hold_until is None else Standing.CANCELLED
    return replace(effect, state=CallState.FAILED_CLEAN, standing=standing)


def without_states(effect: Effect) -> Effect:
    """The effect without anything of its states: there is no key to keep them under.

    What it touched is named all the same: it may be others in any leaf.
    """
    touches = tuple(Touch(touch.resource, None, {}) for touch in effect.touches)
    return replace(_irreversible(effect), touches=touches, inverse=None, cancel=None, result=None)


def _irreversible(effect: Effect) -> Effect:
    """The effect where nothing takes it back: the word for what an inverse leaves is not its."""
    if effect.class_ is EffectClass.IRREVERSIBLE:
        return effect
    return replace(effect, class_=EffectClass.IRREVERSIBLE, residue=None)


def _decided(decision: Decision) -> dict[str, Any]:
    """What an effect has of the decision about it."""
    return {
        "class_": decision.class_,
        "case": decision.case,
        "narrow": decision.narrow,
        "tells": decision.tells,
        "people": decision.people,
        "names": decision.names,
        "residue": decision.residue,
        "not_kept": decision.not_kept,
        "covers": decision.covers,
        "needs": decision.needs,
        "agentic": None if decision.agentic is None else decision.agentic.model_dump(mode="json"),
    }


def _touches(
    contract: Contract,
    before: Before,
    after: Before | None,
    taken: Mapping[ResourceKey, frozenset[LeafPath]],
) -> tuple[Touch, ...]:
    """What was touched, under the things' own names; what the call has made was not there before.

    Of a thing with two names, both of them given, one touch is kept.
    """
    seen_after = {} if after is None else dict(after.observed)
    seen_before = dict(before.observed)
    touches: dict[ResourceKey, Touch] = {}
    for key in (*seen_before, *(k for k in seen_after if k not in seen_before)):
        was: Observation | Unreadable = seen_before.get(key, states.ABSENT)
        now = seen_after.get(key)
        own = key
        children: tuple[ResourceKey, ...] = ()
        for seen in (was, now):
            if isinstance(seen, Observation):
                own, children = seen.canonical or own, seen.children or children
        leaves = None if isinstance(was, Unreadable) else was.leaves
        change = states.Change({})
        if leaves is not None and isinstance(now, Observation):
            change = states.difference(leaves, now.leaves)
        touches[own] = Touch(
            own,
            leaves,
            change.wrote,
            change.removed,
            identity=frozenset(contract.resources[own.kind].identity),
            children=children,
            taken=taken.get(key, taken.get(own, frozenset())),
            unsure=ALL if leaves is not None and isinstance(now, Unreadable) else frozenset(),
        )
    return tuple(touches.values())


def _is_own(effect: Effect, inverse: Sequence[Call] | None) -> bool:
    """Whether what would put things back is the call itself, or nothing: they were so before."""
    return inverse is not None and all(
        call.tool == effect.tool and same(dict(call.args), dict(effect.args)) for call in inverse
    )


def _has_test(contract: Contract, decision: Decision) -> bool:
    """Whether the contract says itself when a compensation has succeeded."""
    return decision.case is not None and contract.cases[decision.case].verify is not None


def _own(touch: Touch, given: Sequence[Json]) -> Touch:
    """A touch that wrote those leaves alone of which the values are among these."""
    own = {p: v for p, v in touch.wrote.items() if any(same(v, one) for one in given)}
    return replace(touch, wrote=own, unsure=frozenset(touch.wrote.keys() - own.keys()))


def accounted_for(effect: Effect) -> bool:
    """Whether the call's own arguments are what its things have become."""
    given = list(_values(dict(effect.args)))
    return all(
        not touch.removed and len(_own(touch, given).wrote) == len(touch.wrote)
        for touch in effect.touches
    )


def _values(value: Json) -> Iterator[Json]:
    yield value
    if isinstance(value, dict):
        for member in value.values():
            yield from _values(member)
    elif isinstance(value, list):
        for item in value:
            yield from _values(item)


def _is_as_before(touch: Touch) -> bool:
    return not touch.wrote and not touch.removed


def _is_seen_as_before(touch: Touch) -> bool:
    return touch.before is not None and _is_as_before(touch) and not touch.unsure


def _entries(effect: Effect, known: Known) -> tuple[LedgerEntry, ...]:
    entries: list[LedgerEntry] = []
    for touch in effect.touches:
        if touch.before is None or _is_as_before(touch):
            continue
        theirs = drift.strange(touch.resource, known.get(touch.resource, ()), touch.before)
        entries += [] if theirs is None else [theirs]
        entries.append(
            LedgerEntry(
                touch.resource,
                Source.EFFECT,
                touch.wrote,
                touch.removed,
                effect_id=effect.id,
                session_id=effect.session_id,
            )
        )
    return tuple(entries)
