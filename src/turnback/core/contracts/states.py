"""States: from what a read answers to leaves, and the difference between two sets of leaves.

"State is leaves → values" (undo.md 4). A resource is there if it has a leaf. Numbers are kept so
that equal ones are written alike (`1.0` is `1`); a boolean is no number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnback.core.contracts import conditions
from turnback.core.contracts.equality import canonical, plain, same
from turnback.core.contracts.model import ById, Contract, Mode, ReadCall, Resource, Touches
from turnback.core.contracts.pointers import Document, matches
from turnback.core.contracts.templates import is_list, resolved
from turnback.core.effects import Call, Json, LeafPath, Leaves, ResourceKey, Scalar
from turnback.core.errors import InvalidWorkflow, Unresolved
from turnback.core.values import check, parse, shown

MAX_LEAVES = 100_000  # leaves of one resource
MAX_DEPTH = 100  # containers in each other in an answer
MAX_RESOURCES = 10_000  # resources of one call


@dataclass(frozen=True, slots=True)
class Observation:
    """A resource as it was read.

    `leaves` are what is compared; `parts` has the parts of the state and those that are kept, by
    their names, for pointers into `before`. `canonical` is its own key where that is another
    than it was asked for by; `inside` and `children` are what it lies in and what lies in it.
    `answer` is what the read answered, for `if_match`.
    """

    leaves: Leaves
    parts: Mapping[str, Json]
    canonical: ResourceKey | None = None
    inside: tuple[ResourceKey, ...] = ()
    children: tuple[ResourceKey, ...] = ()
    answer: Json = field(default=None, compare=False)

    @property
    def absent(self) -> bool:
        """Whether the thing is not there."""
        return not self.leaves


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A resource that could not be read, and why, in a sentence's part."""

    reason: str


ABSENT = Observation({}, {})
"""A thing that is not there."""


def body(text: str, structured: Json = None) -> Json:
    """What pointers see of a reply as `result` or `now`.

    The structured content; without it the text as JSON, where it is an object or a list that can be
    held as it is (no number is rounded); else the text, as `{"text": …}`.
    """
    if structured is not None:
        return structured
    if text.lstrip()[:1] in ("{", "["):
        try:
            value: Json = parse(text.encode())
            check(value, (), MAX_DEPTH)
        except (ValueError, InvalidWorkflow):
            return {"text": text}
        return value
    return {"text": text}


def keys(
    templates: Sequence[Touches], contract: Contract, connection: str, document: Document
) -> tuple[ResourceKey, ...]:
    """The resources that some templates name, each once, in their order.

    Raises `Unresolved` where a key cannot be made: a pointer that finds nothing for one of its
    members, or a value that is no scalar.
    """
    found: dict[ResourceKey, None] = {}
    for touches in templates:
        names = contract.resources[touches.kind].key
        for at in each(touches.for_each, document):
            for values in _values(touches, names, at):
                found[ResourceKey(connection, touches.kind, values)] = None
                if len(found) > MAX_RESOURCES:
                    raise Unresolved(f"One call touches more than {MAX_RESOURCES} resources")
    return tuple(found)


def each(for_each: Any, document: Document) -> Iterator[Document]:
    """The document once for each value of `for_each`, which is its `item`; once without one."""
    if for_each is None:
        yield document
        return
    items = resolved(for_each, document)
    for item in items if isinstance(items, list) else [items]:
        yield document.having(item=item)


def _values(
    touches: Touches, names: tuple[str, ...], document: Document
) -> Iterator[tuple[Scalar, ...]]:
    """The keys of one template: one, or one for each value of the member that is a list."""
    given: dict[str, Json] = {name: resolved(touches.key[name], document) for name in names}
    several = next((name for name in names if isinstance(given[name], list)), None)
    if several is None:
        yield tuple(_scalar(touches.kind, name, given[name]) for name in names)
        return
    for value in given[several]:  # type: ignore[union-attr]
        one = {**given, several: value}
        yield tuple(_scalar(touches.kind, name, one[name]) for name in names)


def _scalar(kind: str, name: str, value: Json) -> Scalar:
    if value is None or isinstance(value, list | dict):
        raise Unresolved(f"`{name}` of a `{kind}` is a text, a number or a boolean, not this value")
    return plain(value)  # type: ignore[return-value]


def key_document(resource: Resource, key: ResourceKey) -> dict[str, Json]:
    """A key as pointers see it: its members by name."""
    return dict(zip(resource.key, key.key, strict=True))


def read_tool(contract: Contract, kind: str) -> str | None:
    """The tool that reads things of a kind; None where they cannot be read."""
    resource = contract.resources.get(kind)  # a contract that was lost has none
    return None if resource is None or resource.read is None else resource.read.call


def read_call(contract: Contract, key: ResourceKey) -> Call | None:
    """The call that reads a resource; None where its kind cannot be read."""
    resource = contract.resources.get(key.kind)
    if resource is None or resource.read is None:
        return None
    document = Document({"key": key_document(resource, key)})
    args = resolved(resource.read.args, document)
    return Call(resource.read.call, args)  # type: ignore[arg-type]


def observe(
    contract: Contract,
    key: ResourceKey,
    *,
    is_error: bool,
    text: str,
    structured: Json = None,
    limit: int | None = None,
) -> Observation | Unreadable:
    """What a read's reply says of a resource.

    `limit` is how many bytes its parts may take together; the contract's own `max_before` may be
    lower. Whatever the reply is, it is an observation or a reason; nothing is raised.
    """
    resource = contract.resources[key.kind]
    read = resource.read
    if read is None:
        return Unreadable(f"a `{key.kind}` cannot be read")
    answer = body(text, structured)
    document = Document({"key": key_document(resource, key), "now": answer})
    if is_error or conditions.says_error(answer) or _fails(read, document):
        absent = read.error_is.get("absent")
        try:
            if absent is not None and matches(absent, text or _error_text(answer)):
                return ABSENT
        except TimeoutError:
            return Unreadable("the pattern of `error_is` takes too long over its error")
        return Unreadable(f"its read failed: {shown(text or _error_text(answer), limit=200)}")
    try:
        check(answer, (), MAX_DEPTH)
        if read.absent_if is not None and conditions.holds(read.absent_if, document):
            return ABSENT
        return _observed(contract, resource, key, document, answer, limit)
    except InvalidWorkflow as error:
        return Unreadable(f"its read answers what cannot be kept: {error.message}")
    except Unresolved as error:
        return Unreadable(error.message)


def _fails(read: ReadCall, document: Document) -> bool:
    """Whether an answer is a failure by its contract; so it is where nobody can tell."""
    return read.error_if is not None and conditions.holds(read.error_if, document) is not False


def _observed(
    contract: Contract,
    resource: Resource,
    key: ResourceKey,
    document: Document,
    answer: Json,
    limit: int | None,
) -> Observation | Unreadable:
    state = {name: resolved(part, document) for name, part in resource.state.items()}
    leaves: dict[LeafPath, Json] = {}
    for name, value in state.items():
        found = is_list(resource.state[name])
        for path, leaf in flattened(value, resource.mode(name), bare=found):
            leaves[(name, *path)] = leaf
            if len(leaves) > MAX_LEAVES:
                return Unreadable(f"it has more than {MAX_LEAVES} leaves")
    if resource.lossy is not None and any(
        resource.lossy in text for leaf in leaves.values() for text in _texts(leaf)
    ):
        return Unreadable("its read has lost something of it (`lossy`)")
    if not leaves:
        return ABSENT
    parts = {**state, **{name: resolved(part, document) for name, part in resource.keep.items()}}
    most = min(value for value in (limit, contract.max_before, 2**63) if value is not None)
    if len(canonical(parts)) > most:
        return Unreadable(f"it has more than {most} bytes (`max_before`)")
    own = None
    if resource.canonical is not None:
        template = Touches(kind=key.kind, key={**_literal(resource, key), **resource.canonical})
        own = keys([template], contract, key.connection, document)[0]
    return Observation(
        leaves,
        parts,
        canonical=own if own != key else None,
        inside=keys(resource.inside, contract, key.connection, document),
        children=keys(resource.children, contract, key.connection, document),
        answer=answer,
    )


def _literal(resource: Resource, key: ResourceKey) -> dict[str, Any]:
    return dict(key_document(resource, key))


def _error_text(answer: Json) -> str:
    return canonical(answer).decode(errors="replace")


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from _texts(item)


# -- leaves


def flattened(value: Json, mode: Mode, *, bare: bool = False) -> Iterator[tuple[LeafPath, Json]]:
    """The leaves of a value; its lists are exact, sets, or (the outermost) by id.

    An element of a set that is there again has another leaf, with its number: a doubled element is
    a difference. An empty object or list is a leaf, except as `bare`: the whole of what a
    `{$: path}` found, which is nothing. Raises `Unresolved` for a list by id with an element that
    has none, or an id that is there twice.
    """
    if isinstance(value, list):
        if not value and (bare or mode != "exact"):
            return
        if isinstance(mode, ById):
            yield from _by_id(value, mode)
        elif mode == "set":
            copies: dict[str, int] = {}
            for item in value:
                name = canonical(item).decode()
                copies[name] = copies.get(name, 0) + 1
                yield (name,) if copies[name] == 1 else (name, str(copies[name])), plain(item)
        elif not value:
            yield (), []
        else:
            for index, item in enumerate(value):
                for path, leaf in flattened(item, mode):
                    yield (str(index), *path), leaf
    elif isinstance(value, dict):
        if not value:
            yield (), {}
        for name, item in value.items():
            for path, leaf in flattened(item, mode):
                yield (name, *path), leaf
    else:
        yield (), plain(value)


def _by_id(items: list[Json], mode: ById) -> Iterator[tuple[LeafPath, Json]]:
    seen: set[str] = set()
    for item in items:
        if not isinstance(item, dict) or isinstance(item.get(mode.by), None | list | dict):
            raise Unresolved(f"an element of a list by `{mode.by}` has none")
        given = item[mode.by]
        name = given if isinstance(given, str) else canonical(given).decode()
        if name in seen:
            raise Unresolved(f"two elements of a list by `{mode.by}` have `{shown(name)}`")
        seen.add(name)
        for path, leaf in flattened(item, "exact"):
            yield (name, *path), leaf


def leaf_path(value: Json, mode: Mode, steps: Iterable[int | str]) -> LeafPath:
    """The path of a leaf, or of what leaves lie under, to which these steps lead in a value."""
    path: list[str] = []
    for step in steps:
        if isinstance(value, list) and isinstance(step, int):
            if mode == "set":
                return (*path, canonical(value[step]).decode())
            element: Any = value[step]
            if isinstance(mode, ById):
                name = element.get(mode.by) if isinstance(element, dict) else None
                path.append(name if isinstance(name, str) else canonical(name).decode())
                mode = "exact"
            else:
                path.append(str(step))
            value = element
        elif isinstance(value, dict) and isinstance(step, str):
            path.append(step)
            value = value.get(step)
        else:
            break
    return tuple(path)


@dataclass(frozen=True, slots=True)
class Change:
    """What leads from one set of leaves to another: those written, and those removed."""

    wrote: Leaves
    removed: frozenset[LeafPath] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.wrote or self.removed)

    @property
    def paths(self) -> frozenset[LeafPath]:
        """The leaves that differ."""
        return self.removed | self.wrote.keys()


def difference(before: Leaves, after: Leaves) -> Change:
    """The leaves in which `after` is another than `before`."""
    return Change(
        {
            path: value
            for path, value in after.items()
            if path not in before or not same(before[path], value)
        },
        frozenset(before.keys() - after.keys()),
    )


def changed(leaves: Leaves, change: Change) -> Leaves:
    """The leaves with a change made: "before ⊕ the leaves our call wrote" (undo.md 4)."""
    kept = {path: value for path, value in leaves.items() if path not in change.removed}
    return {**kept, **change.wrote}
