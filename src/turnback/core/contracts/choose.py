"""What one call touches, how far it can be taken back, and by which calls (undo.md 1, 2).

The class is per call: of the cases the first whose `when` holds. Before the call its result is not
known, so several may still be possible, and the worst of them counts. What cannot be made out is
never the better of two: a condition over what could not be read makes the call irreversible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from turnback.core.contracts import conditions, secrets, states, templates
from turnback.core.contracts.equality import canonical
from turnback.core.contracts.model import (
    Agentic,
    CancelCall,
    Case,
    Condition,
    Contract,
    InverseCall,
    Key,
    Settles,
    Template,
)
from turnback.core.contracts.pointers import Document, compiled
from turnback.core.contracts.states import Observation, Unreadable, key_document
from turnback.core.contracts.templates import filled, resolved
from turnback.core.effects import Call, EffectClass, Json, LeafPath, ResourceKey, worst
from turnback.core.errors import Unresolved

MAX_CALLS = 1_000  # calls of one inverse
MAX_PEOPLE = 1_000  # people that one call names

Args = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Before:
    """What was observed of every resource that a call touches, in the order of `touched`."""

    observed: tuple[tuple[ResourceKey, Observation | Unreadable], ...] = ()

    @property
    def unreadable(self) -> Mapping[ResourceKey, str]:
        """Why the resources that could not be read could not."""
        return {key: seen.reason for key, seen in self.observed if isinstance(seen, Unreadable)}

    def document(self, contract: Contract) -> dict[str, Json]:
        """`before`, as pointers see it.

        For each kind the list of the touched resources of it: `key`, and the parts of the state
        and those kept, by name. One that is not there has `key` alone; one that could not be read
        also says why, in `unreadable`.
        """
        listed: dict[str, list[Json]] = {kind: [] for kind in contract.resources}
        for key, seen in self.observed:
            one: dict[str, Json] = {"key": key_document(contract.resources[key.kind], key)}
            if isinstance(seen, Unreadable):
                one["unreadable"] = seen.reason
            else:
                one.update(seen.parts)
            listed[key.kind].append(one)
        return dict(listed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """How far one call can be taken back, as far as is known.

    `case` is the case it falls under, None while several are `possible` or none is. `worse_because`
    says why its class is worse than its case's. `tells`: whether it tells people, of whom `people`
    are those it names. `covers`, `needs` and `makes` are resources; `makes` and what hangs on the
    result are empty until it is known.
    """

    class_: EffectClass
    case: int | None
    possible: tuple[int, ...]
    worse_because: str | None = None
    residue: str | None = None
    narrow: bool = False
    not_kept: tuple[str, ...] = ()
    tells: bool = False
    people: tuple[str, ...] = ()
    names: Mapping[str, str]
    covers: tuple[ResourceKey, ...] = ()
    needs: tuple[ResourceKey, ...] = ()
    makes: tuple[ResourceKey, ...] = ()
    hold: float | None = None
    cancel: CancelCall | None = None
    settles: Settles | None = None
    verify: Condition | None = None
    agentic: Agentic | None = None


def document(
    contract: Contract, args: Args, before: Before | None = None, result: Json = None
) -> Document:
    """The document of a call at this moment; what is None is not known yet."""
    members: dict[str, Json] = {"args": dict(args)}
    unreadable: frozenset[str] = frozenset()
    if before is not None:
        members["before"] = before.document(contract)
        unreadable = frozenset(key.kind for key in before.unreadable)
    if result is not None:
        members["result"] = result
    sets = frozenset(
        (kind, part)
        for kind, resource in contract.resources.items()
        for part in resource.state
        if resource.mode(part) == "set"
    )
    return Document(members, unreadable, sets)


def touched(contract: Contract, connection: str, args: Args) -> tuple[ResourceKey, ...]:
    """The resources of a call, to be read before it; raises `Unresolved` where they are unclear."""
    return states.keys(contract.touches, contract, connection, document(contract, args))


def made(contract: Contract, connection: str, args: Args, result: Json) -> tuple[ResourceKey, ...]:
    """The resources that a call has brought into being, of which nothing was there before."""
    at = document(contract, args, None, result)
    return states.keys(contract.makes, contract, connection, at)


def scopes(contract: Contract, args: Args) -> tuple[str, ...]:
    """The scopes of which no other call may be under way, in order; raises `Unresolved`."""
    at = document(contract, args)
    found = (resolved(scope, at) for scope in contract.one_at_a_time)
    return tuple(
        sorted({one if isinstance(one, str) else canonical(one).decode() for one in found})
    )


def may_only_read(contract: Contract) -> bool:
    """Whether some call of it may turn out to change nothing."""
    return any(case.class_ is EffectClass.READ for case in contract.cases)


def classes(contract: Contract) -> frozenset[EffectClass]:
    """The classes that calls may have as declared, with that of a call that no case is for."""
    declared = {case.class_ for case in contract.cases}
    if not contract.cases or contract.cases[-1].when is not None:
        declared.add(EffectClass.IRREVERSIBLE)
    return frozenset(_at_least(class_, contract) for class_ in declared)


def _at_least(class_: EffectClass, contract: Contract) -> EffectClass:
    """The class within what its contract may promise; a read is none of its effects."""
    return class_ if class_ is EffectClass.READ else worst((class_, contract.at_least))


def worst_possible(
    contract: Contract, connection: str, args: Args, before: Before | None = None
) -> EffectClass:
    """The worst class still possible of a call that has not been made."""
    return decide(contract, connection, args, before).class_


def decide(
    contract: Contract,
    connection: str,
    args: Args,
    before: Before | None = None,
    result: Json = None,
    *,
    keeps_secrets: bool = True,
) -> Decision:
    """What holds of a call, as far as is known by now.

    `before` is None until what it touches was read, `result` until it was answered.
    `keeps_secrets`: whether there is a key to keep secrets under.
    """
    at = document(contract, args, before, result)
    possible, closed = _cases(contract, at)
    certain = closed and len(possible) == 1
    case = contract.cases[possible[0]] if certain else None
    class_ = worst(contract.cases[index].class_ for index in possible)
    known = before is not None and (result is not None or bool(before.unreadable))
    if not closed or (known and not certain):
        class_ = EffectClass.IRREVERSIBLE
    decision = Decision(
        class_=class_,
        case=possible[0] if certain else None,
        possible=possible,
        residue=_residue(contract, possible, class_),
        names=_names(contract, at),
        hold=contract.hold,
        tells=bool(contract.notifies) or any(contract.cases[i].notifies for i in possible),
        people=_people(contract, possible, at),
        **({} if case is None else _of_case(case)),
    )
    if class_ is EffectClass.READ:
        return decision
    decision = _worse(decision, contract.at_least, "its contract may promise no more")
    if before is not None and not certain and before.unreadable:
        decision = replace(decision, worse_because="what it touches could not be read")
    elif before is not None and result is not None and not certain and possible:
        decision = replace(decision, worse_because="under which case it falls cannot be said")
    return _bounded(decision, contract, connection, at, before, result, keeps_secrets)


def _of_case(case: Case) -> dict[str, Any]:
    """What a decision has of the case that the call falls under."""
    return {
        "narrow": case.narrow,
        "not_kept": case.not_kept,
        "cancel": case.cancel,
        "settles": case.settles,
        "verify": case.verify,
        "agentic": case.agentic,
    }


def _cases(contract: Contract, at: Document) -> tuple[tuple[int, ...], bool]:
    """The cases that are possible, in their order, and whether it is surely one of them."""
    possible: list[int] = []
    for index, case in enumerate(contract.cases):
        verdict = True if case.when is None else conditions.holds(case.when, at)
        if verdict is not False:
            possible.append(index)
        if verdict is True:
            return tuple(possible), True
    return tuple(possible), False


def _residue(contract: Contract, possible: tuple[int, ...], class_: EffectClass) -> str | None:
    """The residue of the worst case that is possible."""
    for index in possible:
        if contract.cases[index].class_ is class_ and contract.cases[index].residue is not None:
            return contract.cases[index].residue
    return None


def _people(contract: Contract, possible: tuple[int, ...], at: Document) -> tuple[str, ...]:
    told = [*contract.notifies, *(who for i in possible for who in contract.cases[i].notifies)]
    found: dict[str, None] = {}
    for template in told:
        try:
            value = resolved(template, at)
        except Unresolved:
            continue
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, str | int | float) and not isinstance(one, bool):
                found[str(one)] = None
    return tuple(found)[:MAX_PEOPLE]


def _names(contract: Contract, at: Document) -> dict[str, str]:
    names: dict[str, str] = {}
    for name, template in contract.names.items():
        try:
            value = resolved(template, at)
        except Unresolved:
            continue
        names[name] = value if isinstance(value, str) else canonical(value).decode()
    return names


def _bounded(
    decision: Decision,
    contract: Contract,
    connection: str,
    at: Document,
    before: Before | None,
    result: Json,
    keeps_secrets: bool,
) -> Decision:
    """The decision, worse where what its case takes for granted is not so."""
    case = None if decision.case is None else contract.cases[decision.case]
    try:
        states.keys(contract.touches, contract, connection, at)
        if case is not None:
            if case.covers or case.needs:
                decision = replace(
                    decision,
                    covers=_later(case, "covers", contract, connection, at, result),
                    needs=_later(case, "needs", contract, connection, at, result),
                )
            template(case, at)
            if result is not None:
                makes = states.keys(contract.makes, contract, connection, at)
                if makes:
                    decision = replace(decision, makes=makes)
                if before is not None:
                    _new(makes, before)
                    _calls(case, at)
    except Unresolved as error:
        return _worse(decision, EffectClass.IRREVERSIBLE, error.message)
    kinds = {part.kind for part in (*contract.touches, *contract.makes)}
    if not keeps_secrets and secrets.has_secrets(contract):
        reason = "it has secrets, and there is no `TURNBACK_SECRET_KEY` to keep them under"
        return _worse(decision, EffectClass.IRREVERSIBLE, reason)
    unread = next((kind for kind in sorted(kinds) if contract.resources[kind].read is None), None)
    if unread is not None:
        return _worse(decision, EffectClass.COMPENSABLE, f"a `{unread}` cannot be read")
    if before is not None and before.unreadable:
        return _worse(decision, EffectClass.COMPENSABLE, "what it touches could not be read")
    return decision


def _new(makes: tuple[ResourceKey, ...], before: Before) -> None:
    """Raise `Unresolved` if something that the call is to have made was there before it."""
    there = {key for key, seen in before.observed if seen != states.ABSENT}
    for key in makes:
        if key in there:
            raise Unresolved(f"The `{key.kind}` that it is to have made was there before")


def _worse(decision: Decision, class_: EffectClass, reason: str) -> Decision:
    bounded = worst((decision.class_, class_))
    if bounded is decision.class_:
        return decision
    return replace(
        decision,
        class_=bounded,
        residue=None,  # the case's word tells of an inverse that it does not have
        worse_because=decision.worse_because or reason,
    )


def _later(
    case: Case, part: str, contract: Contract, connection: str, at: Document, result: Json
) -> tuple[ResourceKey, ...]:
    """Resources of a case; none yet where they hang on a result that is not known."""
    try:
        return states.keys(getattr(case, part), contract, connection, at)
    except Unresolved:
        if result is None:
            return ()
        raise


# -- the calls


def template(case: Case, at: Document) -> list[Json]:
    """The inverse as it is written with the intent: filled in as far as is known by now.

    Raises `Unresolved` where something known does not give what the inverse needs.
    """
    return [
        {
            **call.model_dump(mode="json", exclude_defaults=True),
            "args": filled(call.args, at) if call.for_each is None else call.args,
        }
        for call in case.inverse
        if call.skip is None or conditions.holds(call.skip, at) is not True
    ]


def inverse(
    contract: Contract, decision: Decision, args: Args, before: Before, result: Json = None
) -> tuple[Call, ...]:
    """The calls that put things back, complete.

    Without a result (it is not known, or the call failed) only what was observed is used. Raises
    `Unresolved` where a call needs what is not known, or the case is not.
    """
    if decision.case is None:
        raise Unresolved("Under which case of its contract the call falls is not known")
    return _calls(contract.cases[decision.case], document(contract, args, before, result))


def _calls(case: Case, at: Document) -> tuple[Call, ...]:
    calls = [call for part in case.inverse for call in _call(part, at)]
    if len(calls) > MAX_CALLS:
        raise Unresolved(f"Its inverse has more than {MAX_CALLS} calls")
    return tuple(calls)


def _call(part: InverseCall, at: Document) -> list[Call]:
    found: list[Call] = []
    for each in states.each(part.for_each, at):
        if part.skip is not None:
            skipped = conditions.holds(part.skip, each)
            if skipped is None:
                raise Unresolved(f"Whether `{part.call}` is to be left out is not known")
            if skipped:
                continue
        call = Call(part.call, arguments(part.args, each), if_match=dict(part.if_match))
        found.append(_keyed(call, part.key))
    return found


def _keyed(call: Call, key: Key | None) -> Call:
    if key is None:
        return call
    place = key.model_dump(mode="json", exclude_unset=True)
    return replace(call, key_ms=round(key.honoured * 1000), key=place)


def key_of(call: Call) -> Key | None:
    """Where a call's idempotency key goes; None where its tool takes none."""
    return None if call.key is None else Key.model_validate(dict(call.key))


def arguments(given: Template, at: Document) -> Mapping[str, Json]:
    """The arguments of a call, filled in; raises `Unresolved`."""
    args = resolved(given, at)
    if not isinstance(args, dict):
        raise Unresolved("The arguments of a call are an object")
    return args


def taken(
    contract: Contract, decision: Decision, args: Args, before: Before, result: Json = None
) -> Mapping[ResourceKey, frozenset[LeafPath]]:
    """The leaves, or what they lie under, whose values a narrow inverse takes from `before`.

    An inverse writes what it takes, so that it is narrow only beside that. A resource taken as a
    whole has the empty path. What hangs on a result that is not known is left out.
    """
    found: dict[ResourceKey, set[LeafPath]] = {}
    if decision.case is None or not decision.narrow:
        return {}
    at = document(contract, args, before, result)
    for part in contract.cases[decision.case].inverse:
        try:
            for each, base in _each_at(part.for_each, at):
                if part.skip is not None and conditions.holds(part.skip, each):
                    continue
                for place in templates.taken(part.args, each):
                    place = (*base, *place[1:]) if place[0] == "item" else place
                    for key, path in _leaves_at(contract, before, place):
                        found.setdefault(key, set()).add(path)
        except Unresolved:
            continue
    return {key: frozenset(paths) for key, paths in found.items()}


Place = tuple[int | str, ...]


def _each_at(for_each: Template, at: Document) -> Iterator[tuple[Document, Place]]:
    """The document once for each value of `for_each`, and where that value is in it."""
    path = for_each.get("$", for_each.get("$1")) if isinstance(for_each, dict) else None
    if path is None:
        yield from ((each, ()) for each in states.each(for_each, at))
        return
    for place in compiled(path).places(at):
        value: Json = dict(at.members)
        for step in place:
            value = value[step]  # type: ignore[index]
        if "$1" in for_each and isinstance(value, list):
            for n, item in enumerate(value):
                yield at.having(item=item), (*place, n)
        else:
            yield at.having(item=value), place


def _leaves_at(
    contract: Contract, before: Before, place: Place
) -> Iterator[tuple[ResourceKey, LeafPath]]:
    """The leaves that lie at a place of the document, if it is in `before`."""
    if place[:1] != ("before",):
        return
    seen = [(key, one) for key, one in before.observed if place[1:2] in ((), (key.kind,))]
    if len(place) > 2:
        seen = seen[int(place[2]) : int(place[2]) + 1]
    for key, one in seen:
        resource = contract.resources[key.kind]
        if len(place) < 4:
            yield key, ()
        elif place[3] in resource.state and isinstance(one, Observation):
            part = str(place[3])
            below = states.leaf_path(one.parts.get(part), resource.mode(part), place[4:])
            yield key, (part, *below)


def cancel_call(decision: Decision, contract: Contract, args: Args, result: Json) -> Call | None:
    """The vendor's cancel, if the case has one; raises `Unresolved`."""
    if decision.cancel is None:
        return None
    at = document(contract, args, None, result)
    confirmed = decision.cancel.confirmed.model_dump(mode="json", exclude_unset=True)
    call = Call(decision.cancel.call, arguments(decision.cancel.args, at), confirmed=confirmed)
    return _keyed(call, decision.cancel.key)


def guarded(call: Call, key: Mapping[str, Json], answer: Json) -> Call:
    """The call with its `if_match` filled in from the answer of the read just made.

    Raises `Unresolved` where that does not have it.
    """
    if not call.if_match:
        return call
    at = Document({"now": answer, "key": dict(key)})
    guards = {name: resolved(value, at) for name, value in call.if_match.items()}
    return replace(call, args={**call.args, **guards}, if_match={})
