"""What of a call is secret, and the call without it (undo.md 1).

"Secrets never reach a plan, frame, draft, log or model": who shows arguments, results or states to
anyone shows what these functions give.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from turnback.core.contracts.model import Contract
from turnback.core.contracts.pointers import Document, steps
from turnback.core.contracts.templates import pointers
from turnback.core.effects import Json, Leaves, ResourceKey
from turnback.core.errors import Unresolved

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


def shown_result(contract: Contract, args: Mapping[str, Json], result: Json) -> Json:
    """The result with `HIDDEN` in place of each secret."""
    return _without(contract, "result", result, args=dict(args))


def shown_leaves(contract: Contract, key: ResourceKey, leaves: Leaves) -> Leaves:
    """The leaves of a resource with `HIDDEN` in place of those of its secret parts.

    Of a set the paths are the elements themselves, so the whole part is one leaf then.
    """
    resource = contract.resources.get(key.kind)
    secret = frozenset(resource.secret if resource is not None else ())
    return {
        (path[:1] if path[0] in secret else path): HIDDEN if path[0] in secret else value
        for path, value in leaves.items()
    }


def _without(contract: Contract, root: str, value: Json, **others: Json) -> Json:
    """A member of the document without its secrets; `HIDDEN`, where they cannot be made out."""
    document = Document({**others, root: value})
    places: list[tuple[int | str, ...]] = []
    for pointer in (pointer for template in contract.secret for pointer in pointers(template)):
        if steps(pointer.query, 1) == [root]:
            try:
                places += pointer.places(document)
            except Unresolved:
                return HIDDEN
    found: dict[str, Json] = _replaced({root: value}, places)
    return found[root]


def _replaced(value: Any, places: Iterable[tuple[int | str, ...]]) -> Any:
    """A copy of the value with `HIDDEN` at these places."""
    below: dict[int | str, list[tuple[int | str, ...]]] = {}
    for place in places:
        if not place:
            return HIDDEN
        below.setdefault(place[0], []).append(place[1:])
    if not below:
        return value
    if isinstance(value, dict):
        return {n: _replaced(v, below[n]) if n in below else v for n, v in value.items()}
    return [_replaced(v, below[n]) if n in below else v for n, v in enumerate(value)]
