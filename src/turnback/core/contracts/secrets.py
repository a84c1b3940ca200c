"""What of a call is secret, and the call without it (undo.md 1).

"Secrets never reach a plan, frame, draft, log or model": who shows arguments, results or states to
anyone shows what these functions give.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from turnback.core.contracts.model import Contract
from turnback.core.contracts.pointers import Document, steps
from turnback.core.contracts.templates import pointers
from turnback.core.effects import Json
from turnback.core.errors import InvalidArguments, Unresolved

HIDDEN = "(secret)"
"""What stands where a secret was."""


def has_secrets(contract: Contract) -> bool:
    """Whether calls under the contract may have secrets in their arguments, results or states."""
    kinds = {part.kind for part in (*contract.touches, *contract.makes)}
    kinds |= {part.kind for case in contract.cases for part in case.covers}
    resources = (contract.resources[kind] for kind in kinds if kind in contract.resources)
    return bool(contract.secret) or any(resource.secret for resource in resources)


def shown_args(contract: Contract, args: Mapping[str, Json]) -> Mapping[str, Json]:
    """The arguments with `HIDDEN` in place of each secret."""
    shown = _without(contract, "args", dict(args))
    return shown if isinstance(shown, dict) else dict.fromkeys(args, HIDDEN)


def are_left_out(contract: Contract, args: Mapping[str, Json]) -> bool:
    """Whether arguments are without their secrets, so that the call cannot be made with them."""
    at = {"args": dict(args)}
    try:
        places = list(_places(contract, Document(at), "args"))
    except Unresolved:
        return HIDDEN in args.values()
    return any(_at(at, place) == HIDDEN for place in places)


def shown_result(contract: Contract, args: Mapping[str, Json], result: Json) -> Json:
    """The result with `HIDDEN` in place of each secret."""
    return _without(contract, "result", result, args=dict(args))


def without_secrets(contract: Contract, args: Mapping[str, Json], text: str) -> str:
    """A text, as a vendor's error, with `HIDDEN` wherever it quotes a secret of the arguments."""
    try:
        places = list(_places(contract, Document({"args": dict(args)}), "args"))
    except Unresolved:
        return HIDDEN
    said = {word for place in places for word in _words(_at({"args": args}, place))}
    for word in sorted(said, key=len, reverse=True):
        text = text.replace(word, HIDDEN)
    return text


def edited_args(
    contract: Contract, proposed: Mapping[str, Json], edited: Mapping[str, Json]
) -> dict[str, Json]:
    """What a person made of arguments that they were shown, with the secrets of the proposed ones.

    Raises `InvalidArguments` where a secret was changed itself, or a list was that holds one: which
    secret would belong where could not be said.
    """
    was, now = {"args": dict(proposed)}, {"args": dict(edited)}
    filled: dict[str, Any] = now
    try:
        for place in _places(contract, Document(now), "args"):
            _same_lists(shown_args(contract, proposed), edited, place[1:])
            if _at(now, place) != HIDDEN:
                raise LookupError
            filled = _replaced(filled, [place], _at(was, place))
    except (LookupError, TypeError, Unresolved):
        raise InvalidArguments(
            "A secret can be left as it is or left out, not changed: deny the call and ask anew",
            path="/",
        ) from None
    args: dict[str, Json] = filled["args"]
    return args


def _same_lists(shown: Any, edited: Any, place: Sequence[int | str]) -> None:
    for step in place:
        if isinstance(edited, list):
            if edited != shown:
                raise LookupError
            return
        shown, edited = shown[step], edited[step]


def _at(value: Any, place: Iterable[int | str]) -> Any:
    for step in place:
        value = value[step]
    return value


def _words(value: Json) -> Iterator[str]:
    """The words of a value as a text may quote them."""
    match value:
        case None | bool() | "":
            pass
        case dict():
            for one in value.values():
                yield from _words(one)
        case list():
            for one in value:
                yield from _words(one)
        case _:
            yield from {str(value), json.dumps(value).strip('"'), repr(value).strip("'\"")}


def _places(contract: Contract, document: Document, root: str) -> Iterator[tuple[int | str, ...]]:
    """Where the secrets of a member of the document are. Raises `Unresolved`."""
    for pointer in (pointer for template in contract.secret for pointer in pointers(template)):
        if steps(pointer.query, 1) == [root]:
            yield from pointer.places(document)


def _without(contract: Contract, root: str, value: Json, **others: Json) -> Json:
    """A member of the document without its secrets; `HIDDEN`, where they cannot be made out."""
    try:
        places = list(_places(contract, Document({**others, root: value}), root))
    except Unresolved:
        return HIDDEN
    found: dict[str, Json] = _replaced({root: value}, places)
    return found[root]


def _replaced(value: Any, places: Iterable[tuple[int | str, ...]], by: Any = HIDDEN) -> Any:
    """A copy of the value with another at these places."""
    below: dict[int | str, list[tuple[int | str, ...]]] = {}
    for place in places:
        if not place:
            return by
        below.setdefault(place[0], []).append(place[1:])
    if not below:
        return value
    if isinstance(value, dict):
        return {n: _replaced(v, below[n], by) if n in below else v for n, v in value.items()}
    return [_replaced(v, below[n], by) if n in below else v for n, v in enumerate(value)]
