"""What depends on what among effects, and the order that follows for an undo (undo.md 5).

Order is by dependency, not by time: explicit (what a contract says that its inverse `needs`), data
flow (an output used as an input), the same resource (the later first), containment. Time only
chooses among those that are free.
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cmp_to_key

from turnback.core.effects import CallState, Effect, Json, LeafPath, ResourceKey, lies_under
from turnback.core.undo.rows import Because

LONGEST_ID = 200
"""Text longer than this is prose, and no id that could be handed on."""

_WORD = re.compile(r"[^\s\"'`,;:()\[\]{}<>]{4,}")


@dataclass(frozen=True, slots=True)
class Edge:
    """That `first` is undone before `then` is."""

    first: str
    then: str
    why: Because


def earlier(one: Effect, other: Effect) -> bool:
    """Whether one effect is older than another; a session's own count goes before any clock."""
    if one.session_id == other.session_id:
        return one.number < other.number
    return (one.at, one.id) < (other.at, other.id)


def by_age(effects: Iterable[Effect]) -> list[Effect]:
    """Effects, the oldest first."""
    return sorted(effects, key=cmp_to_key(_age))


def _age(one: Effect, other: Effect) -> int:
    return -1 if earlier(one, other) else 1


def dependencies(effects: Sequence[Effect]) -> tuple[Edge, ...]:
    """The edges among these effects, one for each pair, with its strongest reason."""
    found: dict[tuple[str, str], Because] = {}
    strength = {why: at for at, why in enumerate(Because)}
    for edge in _edges(by_age(effects)):
        pair = (edge.first, edge.then)
        if edge.first != edge.then and (
            pair not in found or strength[edge.why] < strength[found[pair]]
        ):
            found[pair] = edge.why
    return tuple(Edge(first, then, why) for (first, then), why in found.items())


def _edges(effects: Sequence[Effect]) -> Iterator[Edge]:
    yield from _data_flow(effects)
    yield from _same_resource(effects)
    yield from _places(effects)


def _same_resource(effects: Sequence[Effect]) -> Iterator[Edge]:
    writers: defaultdict[ResourceKey, list[Effect]] = defaultdict(list)
    for effect in effects:
        for resource in dict.fromkeys(touch.resource for touch in effect.touches):
            for older in writers[resource]:
                if not passes_by(older, effect, resource):
                    yield Edge(effect.id, older.id, Because.SAME_RESOURCE)
            writers[resource].append(effect)


def passes_by(older: Effect, newer: Effect, resource: ResourceKey) -> bool:
    """Whether undoing `older` leaves what `newer` wrote to a resource as it is.

    So it is where the older one's inverse writes its own leaves alone, and the newer one wrote
    none of them, nor of those that it takes from before.
    """
    if not older.narrow:
        return False
    ours, theirs = written(older, resource), written(newer, resource)
    if ours is None or theirs is None or ours & theirs:
        return False
    taken = {path for t in older.touches if t.resource == resource for path in t.taken}
    return not any(lies_under(path, taken) for path in theirs)


def written(effect: Effect, resource: ResourceKey) -> frozenset[LeafPath] | None:
    """The leaves of a resource that an effect wrote or removed; None where nobody knows them."""
    if effect.state in (CallState.HELD, CallState.INTENT, CallState.IN_DOUBT):
        return None
    paths: set[LeafPath] = set()
    for touch in effect.touches:
        if touch.resource == resource:
            if touch.before is None:
                return None
            paths.update(touch.wrote, touch.removed)
    return frozenset(paths)


def _places(effects: Sequence[Effect]) -> Iterator[Edge]:
    places: defaultdict[ResourceKey, list[Effect]] = defaultdict(list)
    for effect in effects:
        for touch in effect.touches:
            places[touch.resource].append(effect)
    for effect in effects:
        for needed in effect.needs:
            for other in places[needed]:
                if other.id != effect.id:
                    first, then = (effect, other) if earlier(other, effect) else (other, effect)
                    yield Edge(first.id, then.id, Because.EXPLICIT)
        for place in effect.inside:
            for container in places[place]:
                if container.id != effect.id and earlier(container, effect):
                    yield Edge(effect.id, container.id, Because.CONTAINMENT)


def _data_flow(effects: Sequence[Effect]) -> Iterator[Edge]:
    """Edges from what first came out of one call and went into a later one.

    A value that a call was given is no output of it, and one that was around before is not either.
    """
    made_by: dict[str, str] = {}
    around: set[str] = set()
    for effect in effects:
        given = set(_ids(effect.args))
        for value in given:
            if value in made_by:
                yield Edge(effect.id, made_by[value], Because.DATA_FLOW)
        around |= given
        for value in _ids(effect.result, prose=True):
            if value not in around:
                around.add(value)
                made_by[value] = effect.id


def _ids(value: Json | Mapping[str, Json], *, prose: bool = False) -> Iterator[str]:
    """The values that can be an id: whole numbers and short text; of prose, its words too.

    A word of prose counts where it has a digit in it: others are language.
    """
    if isinstance(value, bool) or value is None or isinstance(value, float):
        return
    if isinstance(value, int):
        yield str(value)
    elif isinstance(value, str):
        text = value.strip()
        if 0 < len(text) <= LONGEST_ID:
            yield text
        if prose:
            for word in _WORD.findall(value):
                word = word.rstrip(".")
                if word != text and any(character.isdigit() for character in word):
                    yield word
    elif isinstance(value, list):
        for item in value:
            yield from _ids(item, prose=prose)
    else:
        for item in value.values():
            yield from _ids(item, prose=prose)


def order(effects: Sequence[Effect], edges: Iterable[Edge]) -> tuple[tuple[str, ...], Cycle]:
    """The order of an undo: each after what goes first, the newest of those that are free.

    Second, a cycle where there is one: each of its members is to go before the next.
    """
    age = {effect.id: at for at, effect in enumerate(by_age(effects))}
    waiting = {effect.id: 0 for effect in effects}
    then: defaultdict[str, list[str]] = defaultdict(list)
    for edge in edges:
        if edge.first in waiting and edge.then in waiting:
            then[edge.first].append(edge.then)
            waiting[edge.then] += 1
    free = [(-age[id_], id_) for id_, count in waiting.items() if not count]
    heapq.heapify(free)
    done: list[str] = []
    while free:
        _, id_ = heapq.heappop(free)
        done.append(id_)
        for next_ in then[id_]:
            waiting[next_] -= 1
            if not waiting[next_]:
                heapq.heappush(free, (-age[next_], next_))
    stuck = {id_ for id_, count in waiting.items() if count}
    return tuple(done), _cycle(stuck, then)


Cycle = tuple[str, ...]


def _cycle(stuck: set[str], then: Mapping[str, Sequence[str]]) -> Cycle:
    """A cycle among what was never free. Each of them waits for another one of them."""
    if not stuck:
        return ()
    waits_for: dict[str, str] = {}
    for first in sorted(stuck):
        for next_ in then.get(first, ()):
            if next_ in stuck:
                waits_for.setdefault(next_, first)
    path = [min(stuck)]
    while (before := waits_for[path[-1]]) not in path:
        path.append(before)
    return tuple(reversed(path[path.index(before) :]))


def dependents(asked: Iterable[str], edges: Iterable[Edge]) -> dict[str, Edge]:
    """All that would have to be undone before any of these, with the edge that says so."""
    first: defaultdict[str, list[Edge]] = defaultdict(list)
    for edge in edges:
        first[edge.then].append(edge)
    found: dict[str, Edge] = {}
    known = set(asked)
    todo = sorted(known)
    while todo:
        for edge in first[todo.pop()]:
            if edge.first not in known:
                known.add(edge.first)
                found[edge.first] = edge
                todo.append(edge.first)
    return found
