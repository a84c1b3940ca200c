"""What a contract may not say: every contradiction, with the reason and what to do (undo.md 1).

A contract is checked when it is registered, alone and with those of its server. What is refused
here would make a report say more than is so, or an inverse act on what it was not meant for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import get_args

from jsonpath_rfc9535.selectors import IndexSelector

from turnback.core.contracts import conditions
from turnback.core.contracts.model import (
    Case,
    Condition,
    Contract,
    InverseCall,
    Resource,
    Template,
    Touches,
)
from turnback.core.contracts.pointers import Pointer, Root, steps
from turnback.core.contracts.templates import is_list, pointers, sources
from turnback.core.effects import EffectClass
from turnback.core.errors import ContractRefused

RESERVED = frozenset({"key", "unreadable"})
"""Members of `before`'s resources that are not parts of their state."""

_PUTS_BACK = (EffectClass.REVERSIBLE, EffectClass.COMPENSABLE)


def check(contract: Contract, *, tool: str, of: str | None = None) -> None:
    """Raise `ContractRefused` with the first contradiction; data has all of them, `reasons`.

    `tool` is its name as calls have it, `of` the one that a person is told.
    """
    refuse(of or tool, list(contradictions(contract, tool=tool)))


def refuse(what: str, reasons: list[str]) -> None:
    """Raise `ContractRefused` if there are reasons."""
    if reasons:
        raise ContractRefused(f"The contract of `{what}`: {reasons[0]}", reasons=reasons)


def contradictions(contract: Contract, *, tool: str) -> Iterator[str]:
    """Every reason for which the contract of a tool is refused, as sentences."""
    for kind, resource in contract.resources.items():
        yield from _resource(contract, kind, resource)
    yield from _touches(contract)
    yield from _whole(contract)
    for number, case in enumerate(contract.cases):
        for reason in _case(contract, case, tool):
            yield f"case {number}: {reason}"
        if case.when is None and number + 1 < len(contract.cases):
            yield (
                f"case {number} has no `when`, so that those after it never count: give it one, or"
                " put it last"
            )
        for other in range(number):
            if case.when is not None and case.when == contract.cases[other].when:
                yield (
                    f"case {number} has the same `when` as case {other}, so that it never counts:"
                    " change one of them, or put them together"
                )
    yield from _secrets(contract)


# -- resources


def _resource(contract: Contract, kind: str, resource: Resource) -> Iterator[str]:
    where = f"the resource `{kind}`"
    parts = [*resource.state, *resource.keep]
    if len(set(resource.key)) != len(resource.key):
        yield f"{where} names a member of its key twice"
    for name in sorted(RESERVED & set(parts)):
        yield f"{where} has a part `{name}`, which is ours: give it another name"
    for name in sorted(resource.state.keys() & resource.keep.keys()):
        yield f"{where} has `{name}` both in `state` and in `keep`: it is compared or it is not"
    if isinstance(resource.compare, dict):
        for name in resource.compare.keys() - resource.state.keys():
            yield f"{where} compares `{name}`, which is no part of its `state`"
    for name in resource.identity:
        if name not in resource.state:
            yield f"{where} is known by `{name}`, which is no part of its `state`"
    for name in resource.secret:
        if name not in parts:
            yield f"{where} has a secret `{name}`, which is no part of it"
    if resource.read is None:
        for name in ("state", "keep", "canonical", "children"):
            if getattr(resource, name):
                yield f"{where} has `{name}` and no `read` that it comes from"
    else:
        if not resource.state:
            yield f"{where} has a `read` and no `state` that is compared"
        yield from _roots(f"{where}, `read`", [resource.read.args], "key")
        if resource.read.absent_if is not None:
            yield from _asks(f"{where}, `absent_if`", resource.read.absent_if, "key", "now")
        if resource.read.error_if is not None:
            yield from _asks(f"{where}, `error_if`", resource.read.error_if, "key", "now")
    for name in ("state", "keep", "canonical"):
        yield from _roots(f"{where}, `{name}`", [getattr(resource, name)], "key", "now")
    if resource.read is not None and _is_many(contract, kind) and not _by_its_key(resource):
        yield (
            f"{where} is read the same whatever its key is: point to `key` in the arguments of its"
            " `read`, or in its `state`"
        )
    for name in resource.canonical or ():
        if name not in resource.key:
            yield f"{where} has `{name}` in `canonical`, which is no member of its key"
    yield from _names(contract, f"{where}, `inside`", resource.inside, "key", "now")
    yield from _names(contract, f"{where}, `children`", resource.children, "key", "now")


def _is_many(contract: Contract, kind: str) -> bool:
    """Whether a contract names things of a kind by keys that are not always the same."""
    return any(list(pointers(one.key)) for one in _named(contract) if one.kind == kind)


def _by_its_key(resource: Resource) -> bool:
    """Whether what is read of a resource depends on which one it is."""
    assert resource.read is not None
    said: list[Template] = [resource.read.args, resource.state, resource.keep]
    if resource.read.absent_if is not None:
        said.append(_templates(resource.read.absent_if))
    return any("key" in pointer.roots for one in said for pointer in pointers(one))


def _names(contract: Contract, where: str, named: Iterable[Touches], *roots: Root) -> Iterator[str]:
    """Of resources named by their keys: declared kinds, whole keys, one list at most."""
    for touches in named:
        resource = contract.resources.get(touches.kind)
        if resource is None:
            yield f"{where} names a `{touches.kind}`, which is not among `resources`: declare it"
            continue
        if touches.key.keys() != set(resource.key):
            members = ", ".join(f"`{name}`" for name in resource.key) or "none"
            yield f"{where} names a `{touches.kind}` not by its key's members ({members})"
        if sum(is_list(template) for template in touches.key.values()) > 1:
            yield (
                f"{where} names a `{touches.kind}` by two lists, of which nobody says what goes"
                " with what: use `for_each`"
            )
        item: tuple[Root, ...] = () if touches.for_each is None else ("item",)
        yield from _each(where, touches.for_each, touches.key)
        yield from _roots(where, [touches.for_each], *roots)
        yield from _roots(where, [touches.key], *roots, *item)


# -- the whole contract


def _touches(contract: Contract) -> Iterator[str]:
    for touches in contract.touches:
        if any("result" in pointer.roots for pointer in pointers(touches.key)):
            yield (
                "`touches` points to `result`, and what is touched has to be read before the call:"
                " name what only the result knows in `makes`"
            )
            return
    yield from _names(contract, "`touches`", contract.touches, "args")
    yield from _names(contract, "`makes`", contract.makes, "args", "result")


def _whole(contract: Contract) -> Iterator[str]:
    if contract.only_reads:
        for name in ("touches", "makes", "hold", "key", "notifies", "find", "unchanged", "refused"):
            if getattr(contract, name):
                yield f"all its cases are `read`, and it has `{name}`: a read changes nothing"
    if contract.unchanged is not None:
        yield from _asks("`unchanged`", contract.unchanged, "args", "before", "result")
    if contract.refused is not None:
        yield from _asks("`refused`", contract.refused, "args", "before", "result")
        if not any("result" in pointer.roots for pointer in conditions.asked(contract.refused)):
            yield "`refused` asks nothing of what the tool answered: point to `result`"
    if contract.error_if is not None:
        yield from _asks("`error_if`", contract.error_if, "args", "result")
    yield from _roots("`one_at_a_time`", contract.one_at_a_time, "args")
    yield from _roots("`notifies`", contract.notifies, "args", "before", "result")
    yield from _roots("`names`", [contract.names], "args", "before", "result")
    if contract.find is not None:
        yield from _roots("`find`, `args`", [contract.find.args], "args", "key")
        yield from _roots("`find`, `found`", [contract.find.found], "args", "key", "now")
        results = [contract.find.result]
        yield from _roots("`find`, `result`", results, "args", "key", "now", "item")
        if not is_list(contract.find.found):
            yield "`find`, `found` takes a list of what was found, `{$: path}`"
        looked = pointers([contract.find.args, contract.find.found])
        if not any(pointer.roots & {"args", "key"} for pointer in looked):
            yield (
                "`find` finds the same whatever the call was, another's work too: point to `key` or"
                " `args` in its `args` or in `found`"
            )
    yield from _befores(contract, "the contract", [contract.names, *contract.notifies])


def _secrets(contract: Contract) -> Iterator[str]:
    """ "Secrets never reach a plan, frame, draft, log or model." """
    for template in contract.secret:
        if not list(pointers(template)):
            yield "`secret` takes pointers to arguments and results"
    yield from _roots("`secret`", contract.secret, "args", "result")
    hidden = [_plain(pointer) for t in contract.secret for pointer in pointers(t)]
    hidden_parts = {
        (kind, part) for kind, resource in contract.resources.items() for part in resource.secret
    }
    shown: list[tuple[str, Iterable[Template]]] = [
        ("names", [contract.names]),
        ("notifies", [*contract.notifies, *(w for c in contract.cases for w in c.notifies)]),
        ("touches", [touches.key for touches in contract.touches]),
        ("makes", [makes.key for makes in contract.makes]),
        ("one_at_a_time", contract.one_at_a_time),
    ]
    for name, templates in shown:
        for pointer in (pointer for t in templates for pointer in pointers(t)):
            path = _plain(pointer)
            if any(path.startswith(one) or one.startswith(path) for one in hidden) or (
                _before_part(pointer) in hidden_parts
            ):
                yield f"`{name}` shows a secret, `{pointer.text}`: name something else by it"


# -- cases


def _case(contract: Contract, case: Case, tool: str) -> Iterator[str]:
    class_ = case.class_
    if case.when is not None:
        yield from _asks("`when`", case.when, "args", "before", "result")
        yield from _befores(contract, "`when`", [_templates(case.when)])
    yield from _roots("`notifies`", case.notifies, "args", "before", "result")
    if class_ is EffectClass.READ:
        yield from _read(case)
        return
    if class_ is EffectClass.REVERSIBLE:
        yield from _reversible(contract, case)
    if class_ in _PUTS_BACK:
        yield from _unread(contract, case)
    if class_ is EffectClass.COMPENSABLE:
        if case.residue is None:
            yield "it is `compensable` and has no `residue`: name what is left"
        if not case.inverse and case.agentic is None and case.cancel is None:
            yield "it is `compensable` and has no `inverse`: say how, or call it `irreversible`"
    if class_ is EffectClass.IRREVERSIBLE and (case.inverse or case.agentic):
        yield (
            "it is `irreversible` and has an inverse: call it `compensable` and name its `residue`,"
            " or leave the inverse out"
        )
    if case.agentic is not None and (case.inverse or class_ is not EffectClass.COMPENSABLE):
        yield "`agentic` is for a `compensable` case without `inverse`: choose one of them"
    if case.settles is not None and case.residue is None:
        yield "`settles` says when a residue is settled, and there is no `residue`: name it"
    if not case.inverse:
        for name in ("narrow", "covers", "needs", "not_kept"):
            if getattr(case, name):
                yield f"`{name}` is about an inverse, and there is none: leave it out"
    for name in ("covers", "needs"):
        roots: tuple[Root, ...] = ("args", "before", "result")
        yield from _names(contract, f"`{name}`", getattr(case, name), *roots)
    for call in case.inverse:
        yield from _inverse(contract, call)
    yield from _toggles(case, tool)
    yield from _moments(case)
    if case.verify is not None:
        yield from _asks("`verify`", case.verify, "args", "now", "result")


def _read(case: Case) -> Iterator[str]:
    for name in sorted(case.model_fields_set - {"class_", "when"}):
        if getattr(case, name):
            yield f"it is `read` and has `{name}`: a read changes nothing and tells nobody"


def _reversible(contract: Contract, case: Case) -> Iterator[str]:
    if case.notifies or contract.notifies:
        yield (
            "it is `reversible` and notifies people, who cannot be made not to know: call it"
            " `compensable` or `irreversible` and name its `residue`"
        )
    if not case.inverse:
        yield "it is `reversible` and has no `inverse`: say which call puts it back"
    if not contract.touches and not contract.makes:
        yield (
            "it is `reversible` and neither `touches` nor `makes` a resource, so that nobody could"
            " check it: name them"
        )
    if case.verify is not None:
        yield (
            "`verify` cannot be declared for `reversible`: it is always that every touched"
            " resource, read again, equals its goal; leave it out"
        )
    if case.residue is not None or case.settles is not None:
        yield (
            "it is `reversible` and has a residue: call it `compensable`, or say in `not_kept` what"
            " the inverse does not bring back"
        )


def _unread(contract: Contract, case: Case) -> Iterator[str]:
    named = [*contract.touches, *contract.makes]
    named += case.covers if case.class_ is EffectClass.REVERSIBLE else ()
    for kind in sorted({touches.kind for touches in named}):
        resource = contract.resources.get(kind)
        if case.class_ is EffectClass.REVERSIBLE and resource is not None and not resource.read:
            yield (
                f"it is `reversible`, and a `{kind}` has no `read` by which it could be checked:"
                " give it one, or call the case `compensable`"
            )


def _inverse(contract: Contract, call: InverseCall) -> Iterator[str]:
    where = f"its inverse `{call.call}`"
    each = call.for_each
    item: tuple[Root, ...] = () if each is None else ("item",)
    roots: tuple[Root, ...] = ("args", "before", "result", *item)
    yield from _each(where, each, [call.args, _templates(call.skip)])
    yield from _roots(where, [each], "args", "before", "result")
    yield from _roots(where, [call.args], *roots)
    yield from _roots(f"{where}, `if_match`", [call.if_match], "now", "key")
    if call.skip is not None:
        yield from _asks(f"{where}, `skip`", call.skip, *roots)
    yield from _befores(contract, where, [call.args, each])
    names = _keys(contract)
    for pointer in sources(call.args):
        path = _plain(pointer, each)
        if path.startswith("$['args']") and path not in names:
            yield (
                f"{where} takes the value of `{pointer.text}` from the arguments, which may only"
                " name what is touched: take it from `before` or `result`"
            )
        if _counts_from_the_end(pointer):
            yield (
                f"{where} takes the last of something, `{pointer.text}`, which may be another's by"
                " then: name it by its key"
            )
    given = list(sources(call.args))
    keyed = any(contract.resources[t.kind].key for t in contract.touches if _known(contract, t))
    if not given and (keyed or contract.makes or not contract.touches):
        yield (
            f"{where} names nothing, so that it would act on whatever is there by then: point to"
            " what this call touched"
        )


def _toggles(case: Case, tool: str) -> Iterator[str]:
    """Where the inverse is the call again, and nothing in it takes a value that it sets.

    On the way to one that does, a step may well be a call with what the contract itself says.
    """
    again = [call for call in case.inverse if call.call == tool and list(sources(call.args))]
    if again and all(_repeats(call.args) for call in again):
        yield (
            f"its inverse `{tool}` is the same call again, a toggle: it would flip what is already"
            " back; use a call that sets a value, from `before`"
        )


def _known(contract: Contract, touches: Touches) -> bool:
    return touches.kind in contract.resources


def _repeats(args: Template) -> bool:
    """Whether every argument is the call's own argument of that name.

    A literal is a value that the contract sets: `""` where that is what removes something.
    """
    if not isinstance(args, dict):
        return False
    if any(str(name).startswith("$") for name in args):  # one pointer for all of them
        return all(_plain(pointer) == "$['args']" for pointer in sources(args))
    return all(
        [_plain(pointer) for pointer in sources(template)] == [f"$['args']['{name}']"]
        for name, template in args.items()
    )


def _moments(case: Case) -> Iterator[str]:
    if case.cancel is not None:
        yield from _roots("`cancel`", [case.cancel.args], "args", "result")
        yield from _roots("`cancel`, `until`", [case.cancel.until], "args", "result")
        yield from _asks("`cancel`, `confirmed`", case.cancel.confirmed, "args", "result")
        if not list(pointers(case.cancel.args)):
            yield "`cancel` names nothing that it cancels: point to the result"
        confirmed = conditions.asked(case.cancel.confirmed)
        if confirmed and not any("result" in pointer.roots for pointer in confirmed):
            yield "`cancel`, `confirmed` asks nothing of the vendor's answer: point to `result`"
    if case.settles is not None:
        yield from _roots("`settles`", [case.settles.at], "args", "result")
        if case.settles.when is not None:
            yield from _asks("`settles`, `when`", case.settles.when, "now", "key")


# -- pointers


def _roots(where: str, templates: Iterable[Template], *allowed: Root) -> Iterator[str]:
    for pointer in (pointer for template in templates for pointer in pointers(template)):
        for root in sorted(pointer.roots - set(allowed)):
            known = ", ".join(f"`{name}`" for name in get_args(Root) if name in allowed)
            yield f"{where} points to `{root}` (`{pointer.text}`), and there only {known} is known"


def _asks(where: str, condition: Condition, *allowed: Root) -> Iterator[str]:
    if condition.unreadable is None and not conditions.asked(condition):
        known = ", ".join(f"`{name}`" for name in get_args(Root) if name in allowed)
        yield f"{where} asks nothing and always comes to the same: point to {known}"
    yield from _roots(where, [_templates(condition)], *allowed)


def _each(where: str, for_each: Template, used: Template) -> Iterator[str]:
    """A `for_each` of which nothing uses the `item` says the same thing again and again."""
    if for_each is not None and not any("item" in pointer.roots for pointer in pointers(used)):
        yield (
            f"{where} has `for_each`, and nothing of it points to `item`: do, or leave it out;"
            " `skip` says when a call is not made"
        )


def _templates(condition: Condition | None) -> list[Template]:
    if condition is None:
        return []
    sides = [*(condition.equal or ()), *(condition.differ or ())]
    return [condition.exists, condition.empty, *sides]


def _befores(contract: Contract, where: str, templates: Iterable[Template]) -> Iterator[str]:
    """Of pointers into `before`: kinds that are touched, and parts that they have."""
    kinds = {touches.kind for touches in contract.touches}
    for pointer in (pointer for template in templates for pointer in pointers(template)):
        for root, kind in pointer.reads:
            if root == "before" and kind is not None and kind not in kinds:
                yield f"{where} points to `before.{kind}`, which is not among what it `touches`"
        first, listed, member = steps(pointer.query, 3)
        if first == "before" and listed is not None and member is not None:
            yield (
                f"{where} points to `{pointer.text}`, and `$.before.{listed}` is a list: say which,"
                f" `$.before.{listed}[0].{member}`"
            )
        named = _before_part(pointer)
        if named is not None and named[0] in contract.resources:
            resource = contract.resources[named[0]]
            if named[1] not in {*resource.state, *resource.keep, *RESERVED}:
                yield f"{where} points to `{pointer.text}`, and a `{named[0]}` has no `{named[1]}`"


def _before_part(pointer: Pointer) -> tuple[str, str] | None:
    """The kind and the part that a `$.before.KIND[…].PART` names."""
    root, kind, _, part = steps(pointer.query, 4)
    return (kind, part) if root == "before" and kind is not None and part is not None else None


def _counts_from_the_end(pointer: Pointer) -> bool:
    return any(
        isinstance(selector, IndexSelector) and selector.index < 0
        for segment in pointer.query.segments
        for selector in segment.selectors
    )


def _plain(pointer: Pointer, for_each: Template = None) -> str:
    """A path in its one spelling, of all elements and of the list alike, `item` written out."""
    text = str(pointer.query)
    over = next(iter(sources(for_each)), None)
    if over is not None and text.startswith("$['item']"):
        text = str(over.query) + text.removeprefix("$['item']")
    return text.removesuffix("[*]")


def _keys(contract: Contract) -> frozenset[str]:
    """The paths by which a contract names resources."""
    return frozenset(
        _plain(pointer, touches.for_each)
        for touches in _named(contract)
        for pointer in pointers(touches.key)
    )


def _named(contract: Contract) -> list[Touches]:
    """Wherever a contract names resources."""
    cases = (one for case in contract.cases for one in (*case.covers, *case.needs))
    return [*contract.touches, *contract.makes, *cases]
