"""Pointers: RFC 9535 JSONPath over one document, compiled once and bounded (undo.md 1).

The document's members are the roots `args`, `before`, `result`, `now`, `key` and `item`; which of
them are there depends on the moment. A pointer into one that is not there yet is not resolved,
which is another thing than to find nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, get_args

import regex  # type: ignore[import-untyped]
from jsonpath_rfc9535 import JSONPathEnvironment, JSONPathNode, JSONPathQuery
from jsonpath_rfc9535.exceptions import JSONPathError
from jsonpath_rfc9535.filter_expressions import (
    Expression,
    FilterExpression,
    FilterQuery,
    FunctionExtension,
    RootFilterQuery,
    StringLiteral,
)
from jsonpath_rfc9535.function_extensions import Match, Search
from jsonpath_rfc9535.function_extensions._pattern import map_re
from jsonpath_rfc9535.segments import JSONPathChildSegment
from jsonpath_rfc9535.selectors import FilterSelector, IndexSelector, NameSelector

from turnback.core.contracts.equality import canonical
from turnback.core.effects import Json
from turnback.core.errors import ContractRefused, Unresolved
from turnback.core.values import shown

Root = Literal["args", "before", "result", "now", "key", "item"]
ROOTS: frozenset[str] = frozenset(get_args(Root))

MAX_TEXT = 1_000  # characters of a pointer
MAX_NODES = 200_000  # nodes that one look may pass
MAX_DEPTH = 100  # containers in each other below which `..` looks no further
MAX_MATCHED = 20_000  # characters of a text that a pattern is held against
MATCH_TIMEOUT = 0.25  # seconds that one pattern may take over one text


@dataclass(frozen=True, slots=True)
class Document:
    """What pointers look into.

    `members` are the roots that are known at this moment; `unreadable` the kinds of which a
    touched resource could not be read, so that `before` says nothing about them. `sets` are the
    parts of kinds that are compared as sets, whose elements are known by their value alone.
    """

    members: Mapping[str, Json]
    unreadable: frozenset[str] = frozenset()
    sets: frozenset[tuple[str, str]] = frozenset()

    def having(self, **members: Json) -> Document:
        """The same with some members more."""
        return replace(self, members={**self.members, **members})


@dataclass(frozen=True, slots=True)
class Pointer:
    """A compiled JSONPath.

    `reads` has, for the path and each absolute path in its filters, the root and the member below
    it (None where the path names none), in order; `roots` are those that have to be known for it
    to be resolved. `way` has the names and indices of a path that is nothing else, and so can find
    one node at most; None for another. `union` has the kind and the part of a
    `$.before.KIND[*].PART[*]`.
    """

    text: str
    reads: tuple[tuple[str, str | None], ...]
    roots: frozenset[str]
    way: tuple[str | int, ...] | None
    union: tuple[str, str] | None
    query: JSONPathQuery

    def unknown(self, document: Document) -> str | None:
        """Why it cannot be resolved now, or None."""
        for root, member in self.reads:
            if root not in document.members:
                return f"`{root}` is not known yet"
            unread = document.unreadable if root == "before" else ()
            if unread and (member is None or member in unread):
                return "what it touches could not be read before"
        return None

    def find(self, document: Document) -> list[Json]:
        """The values it finds, in the document's order.

        An element of a set that several touched resources share is one element, and found once.
        Raises `Unresolved` where a root is not known yet, what `before` would have said could not
        be read, or the look passes a limit.
        """
        if self.way is not None:
            return self._walk(self.way, document)
        found: list[Json] = [node.value for node in self._look(document)]  # type: ignore[misc]
        if self.union in document.sets:
            return list({canonical(value): value for value in found}.values())
        return found

    def places(self, document: Document) -> list[tuple[int | str, ...]]:
        """Where in the document the values are that it finds; raises `Unresolved` as `find`."""
        return [node.location for node in self._look(document)]

    def _walk(self, way: Iterable[str | int], document: Document) -> list[Json]:
        """What `_look` finds, along a way without any choice."""
        if reason := self.unknown(document):
            raise Unresolved(f"`{self.text}`: {reason}")
        root, *below = way
        at: Any = document.members[str(root)]
        for step in below:
            if not isinstance(at, list if isinstance(step, int) else dict):
                return []
            try:
                at = at[step]  # type: ignore[index]
            except LookupError:
                return []
        return [at]

    def _look(self, document: Document) -> list[JSONPathNode]:
        if reason := self.unknown(document):
            raise Unresolved(f"`{self.text}`: {reason}")
        token = _left.set([MAX_NODES])
        try:
            return list(self.query.finditer(dict(document.members)))
        except (JSONPathError, RecursionError, TimeoutError) as error:
            raise Unresolved(
                f"`{self.text}`: {shown(str(error)) or 'it takes too long'}", limit=MAX_NODES
            ) from None
        finally:
            _left.reset(token)

    def one(self, document: Document) -> Json:
        """The one value it finds; raises `Unresolved` where it finds none, or several."""
        found = self.find(document)
        if len(found) != 1:
            raise Unresolved(f"`{self.text}` finds {len(found) or 'nothing'}, not exactly one")
        return found[0]


@lru_cache(maxsize=10_000)
def compiled(text: str) -> Pointer:
    """The pointer that the text says; raises `ContractRefused` with what to change."""
    if len(text) > MAX_TEXT:
        raise ContractRefused(
            f"The pointer `{shown(text)}` has more than {MAX_TEXT} characters: make it shorter"
        )
    try:
        query = _ENVIRONMENT.compile(text)
    except (JSONPathError, RecursionError) as error:
        raise ContractRefused(
            f"The pointer `{shown(text)}` is no JSONPath of RFC 9535 ({shown(str(error))})"
        ) from None
    reads = {_read(text, query)}
    query = _bounded(text, query, reads, nested=False)
    union = _UNION.fullmatch(str(query))
    return Pointer(
        text,
        tuple(sorted(reads, key=str)),
        frozenset(root for root, _ in reads),
        _way(query),
        (union["kind"], union["part"]) if union else None,
        query,
    )


_UNION = regex.compile(r"\$\['before'\]\['(?<kind>[^']+)'\]\[\*\]\['(?<part>[^']+)'\]\[\*\]")


def _read(text: str, query: JSONPathQuery) -> tuple[str, str | None]:
    """The root that a path begins with, and the member below it."""
    names = steps(query, 2)
    if names[0] not in ROOTS:
        raise ContractRefused(
            f"The pointer `{shown(text)}` begins at none of "
            + ", ".join(f"`$.{root}`" for root in get_args(Root))
            + ": begin it with one of them"
        )
    return str(names[0]), names[1]


def _way(query: JSONPathQuery) -> tuple[str | int, ...] | None:
    if not query.singular_query():
        return None
    way: list[str | int] = []
    for segment in query.segments:
        for selector in segment.selectors:
            if isinstance(selector, NameSelector):
                way.append(selector.name)
            elif isinstance(selector, IndexSelector):
                way.append(selector.index)
    return tuple(way)


def steps(query: JSONPathQuery, count: int) -> list[str | None]:
    """The names of a path's first steps; None for one that is not a single name, or not there."""
    names = [
        segment.selectors[0].name
        if isinstance(segment, JSONPathChildSegment)
        and len(segment.selectors) == 1
        and isinstance(segment.selectors[0], NameSelector)
        else None
        for segment in query.segments[:count]
    ]
    return names + [None] * (count - len(names))


# -- bounds

_left: ContextVar[list[int]] = ContextVar("nodes that a look may still pass")


class _Node(JSONPathNode):
    """A node that counts those below it."""

    __slots__ = ()

    def new_child(self, value: object, key: int | str, parent: JSONPathNode | None) -> _Node:
        _pass()
        return _Node(value=value, location=(*self.location, key), parent=parent, root=self.root)


class _Query(JSONPathQuery):
    """A query whose look is counted, in the filters of others too."""

    __slots__ = ()

    def finditer(self, value: object) -> Iterable[JSONPathNode]:
        _pass()
        nodes: Iterable[JSONPathNode] = [
            _Node(value=value, location=(), parent=None, root=value)  # type: ignore[arg-type]
        ]
        for segment in self.segments:
            nodes = segment.resolve(nodes)
        return nodes


def _pass() -> None:
    left = _left.get()
    left[0] -= 1
    if left[0] < 0:
        raise JSONPathError(f"it passes more than {MAX_NODES} nodes", token=None)


class _Match(Match):
    """`match`, within its time."""

    def __call__(self, string: object, pattern: object) -> bool:
        return matches(str(pattern), string, whole=True)


class _Search(Search):
    """`search`, within its time."""

    def __call__(self, string: object, pattern: object) -> bool:
        return matches(str(pattern), string)


def matches(pattern: str, text: object, *, whole: bool = False) -> bool:
    """Whether the text, no longer than `MAX_MATCHED`, has the pattern; raises `TimeoutError`."""
    if not isinstance(text, str) or len(text) > MAX_MATCHED:
        return False
    look = regex.fullmatch if whole else regex.search
    return look(map_re(pattern), text, timeout=MATCH_TIMEOUT) is not None


def found_by(pattern: str, text: str) -> list[str]:
    """What the group of a pattern takes wherever it is found in a text, each once.

    Raises `TimeoutError`.
    """
    if len(text) > MAX_MATCHED:
        return []
    found = regex.finditer(map_re(pattern), text, timeout=MATCH_TIMEOUT)
    return list(dict.fromkeys(one[1] for one in found if one[1]))


def groups(text: str) -> int:
    """How many groups a regular expression has; raises `ContractRefused`."""
    return int(regex.compile(map_re(pattern(text))).groups)


def pattern(text: str) -> str:
    """The text, where it is a regular expression; raises `ContractRefused`."""
    try:
        regex.compile(map_re(text))
    except regex.error as error:
        raise ContractRefused(
            f"`{shown(text)}` is no regular expression ({shown(str(error))})"
        ) from None
    return text


class _Environment(JSONPathEnvironment):
    max_recursion_depth = MAX_DEPTH

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        self.function_extensions["match"] = _Match()
        self.function_extensions["search"] = _Search()


_ENVIRONMENT = _Environment()


def _bounded(
    text: str, query: JSONPathQuery, reads: set[tuple[str, str | None]], *, nested: bool
) -> _Query:
    """The query with every query of its filters counted; their absolute paths go to `reads`."""
    for segment in query.segments:
        for selector in segment.selectors:
            if isinstance(selector, FilterSelector):
                for part in _parts(selector.expression):
                    if isinstance(part, FilterQuery):
                        absolute = isinstance(part, RootFilterQuery)
                        if absolute and nested:
                            raise ContractRefused(
                                f"The pointer `{shown(text)}` has `$` in a filter of a filter:"
                                " compare with it in the outer one"
                            )
                        if absolute:
                            reads.add(_read(text, part.query))
                        part.query = _bounded(text, part.query, reads, nested=True)
                    elif isinstance(part, FunctionExtension) and part.name in ("match", "search"):
                        given = part.args[1]
                        if not isinstance(given, StringLiteral):
                            raise ContractRefused(
                                f"The pointer `{shown(text)}` takes a pattern from a document:"
                                " write the pattern itself"
                            )
                        pattern(given.value)
    return _Query(env=query.env, segments=query.segments)


def _parts(expression: Expression) -> Iterator[Expression]:
    """An expression and all that it is made of, queries not looked into."""
    yield expression
    if isinstance(expression, FilterExpression):
        yield from _parts(expression.expression)
    elif isinstance(expression, FunctionExtension):
        for argument in expression.args:
            yield from _parts(argument)
    else:
        for side in ("left", "right"):
            part = getattr(expression, side, None)
            if isinstance(part, Expression):
                yield from _parts(part)
