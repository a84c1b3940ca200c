"""Drift: whether the world still is as our last write left it (undo.md 4).

State is cells, each a leaf of a resource, with their values. Of an effect and the world as it was
read just now, with N the world, E what our writes left there, G the goal, W the cells where E and G
differ and D those where N and E differ: N equal to G on W is already as before; no D is a go; a D
beside W is a go for an inverse that writes W alone; anything else is for a person to look at, and
nothing is written.

E is made of our own writes and of nothing else. Nothing here takes a value from N into it, so what
a stranger wrote can never become what we expected.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, assert_never

from turnback.core.contracts.equality import canonical, same
from turnback.core.contracts.states import Observation, Unreadable
from turnback.core.effects import (
    CallState,
    Effect,
    EffectClass,
    Json,
    LeafPath,
    Leaves,
    ResourceKey,
    lies_under,
)

DOUBTFUL = frozenset({CallState.INTENT, CallState.IN_DOUBT})
"""The states of a call of which nobody knows whether it took effect."""


class Cell(NamedTuple):
    """One leaf of one resource."""

    resource: ResourceKey
    path: LeafPath


State = Mapping[Cell, Json]
"""Values by cell; a cell that is not in it is not there in the world."""

Seen = Mapping[ResourceKey, Observation | Unreadable]
"""What was read just now, of each resource."""


class Source(StrEnum):
    """Who wrote to a resource: a call of ours, its inverse, or somebody else."""

    EFFECT = "effect"
    INVERSE = "inverse"
    STRANGER = "stranger"


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What was written to one resource; the entries of a resource are in order.

    A stranger's has neither effect nor session: it is what a call of ours found to be other than
    our writes had left it.
    """

    resource: ResourceKey
    source: Source
    wrote: Leaves
    removed: frozenset[LeafPath] = frozenset()
    effect_id: str | None = None
    session_id: str | None = None

    def touches(self, path: LeafPath) -> bool:
        """Whether it wrote a leaf, or took it away."""
        return path in self.wrote or path in self.removed

    def left(self, path: LeafPath, now: Leaves) -> bool:
        """Whether a leaf that it touches is as it left it."""
        if path in self.wrote:
            return path in now and same(now[path], self.wrote[path])
        return path not in now


@dataclass(frozen=True, slots=True)
class LeafValues:
    """One leaf that is not as expected: both values, and the one that was to be put back.

    A value of None whose flag is false is a leaf that is not there.
    """

    cell: Cell
    expected: Json
    now: Json
    goal: Json
    is_expected: bool
    is_now: bool
    is_goal: bool


class DriftKind(StrEnum):
    """What is not as expected: values, the thing is another one, others' things are in it."""

    CHANGED = "changed"
    RECREATED = "recreated"
    OCCUPIED = "occupied"


@dataclass(frozen=True, slots=True)
class Already:
    """The world is as the inverse would make it: nothing to do, and nobody to name."""


@dataclass(frozen=True, slots=True)
class Go:
    """The inverse may write. `beside` are a stranger's leaves, which it does not touch."""

    beside: frozenset[Cell] = frozenset()


@dataclass(frozen=True, slots=True)
class Review:
    """A person has to look; nothing is written."""

    kind: DriftKind
    values: tuple[LeafValues, ...]


Verdict = Already | Go | Review


class Reached(StrEnum):
    """What an inverse has come to: its goal and nothing else, no change at all, or something."""

    GOAL = "goal"
    NOTHING = "nothing"
    PART = "part"


@dataclass(frozen=True, slots=True)
class Basis:
    """What an inverse is judged by: E and G of its effect.

    `marked` are cells that a stranger is known to have written in between, `ours` resources that
    may lie in one that the inverse removes. `unread` are resources whose state before the call is
    not known, of which there is no E and no G. `identity` has the cells that tell a thing from
    another one under its key. `taken` are cells, or what they lie under, that even a narrow inverse
    writes, as it has their values from before. `unsure` are cells that the effect may have written,
    or what they lie under. `left_out` are cells that are none of this inverse's business. `unseen`:
    no look has shown what the call did, so that none shows that it is back. `within` has what lay
    in the things that the effect took away, each after that thing; it went with it.
    """

    expected: State
    goal: State
    resources: tuple[ResourceKey, ...]
    unread: tuple[ResourceKey, ...] = ()
    marked: frozenset[Cell] = frozenset()
    identity: frozenset[Cell] = frozenset()
    ours: frozenset[ResourceKey] = frozenset()
    taken: frozenset[Cell] = frozenset()
    unsure: frozenset[Cell] = frozenset()
    left_out: frozenset[Cell] = frozenset()
    unseen: bool = False
    within: frozenset[tuple[ResourceKey, ResourceKey]] = frozenset()

    @property
    def writes(self) -> frozenset[Cell]:
        """W: the cells that the inverse is to write."""
        return differing(self.expected, self.goal)

    def takes(self, cell: Cell) -> bool:
        """Whether the inverse writes a cell because it has its value from before."""
        return _is_among(cell, self.taken)

    def is_unsure(self, cell: Cell) -> bool:
        """Whether the effect may have written a cell, and nobody saw."""
        return _is_among(cell, self.unsure)

    def part(self, state: State) -> dict[Cell, Json]:
        """What of a state is of these resources, and not left out."""
        return {
            cell: value
            for cell, value in state.items()
            if cell.resource in self.resources and cell not in self.left_out
        }

    def only(self, own: Basis) -> Basis:
        """It with the resources of another one, and to be written what that one writes."""
        others = self.writes - own.writes
        part = replace(self, resources=own.resources, unread=own.unread, left_out=others)
        return replace(part, expected=part.part(self.expected), goal=part.part(self.goal))


def _is_among(cell: Cell, some: Iterable[Cell]) -> bool:
    return lies_under(cell.path, (one.path for one in some if one.resource == cell.resource))


def differing(one: State, other: State) -> frozenset[Cell]:
    """The cells in which two states differ."""
    return frozenset(
        cell
        for cell in one.keys() | other.keys()
        if (cell in one) != (cell in other) or not same(one[cell], other[cell])
    )


def digest(state: State) -> str:
    """A name for a state: the same for equal ones; it gives no value away but to a guesser."""
    rows = sorted(
        canonical([*_named(cell.resource), list(cell.path), value]) for cell, value in state.items()
    )
    return hashlib.sha256(b"\n".join(rows)).hexdigest()


def _named(resource: ResourceKey) -> list[Json]:
    return [resource.connection, resource.kind, list(resource.key)]


def cells(resource: ResourceKey, leaves: Leaves) -> dict[Cell, Json]:
    """A resource's leaves as cells."""
    return {Cell(resource, path): value for path, value in leaves.items()}


def state_of(seen: Seen) -> dict[Cell, Json]:
    """What was read, as one state. What was not readable is not in it."""
    state: dict[Cell, Json] = {}
    for resource, sight in seen.items():
        if isinstance(sight, Observation):
            state.update(cells(resource, sight.leaves))
    return state


# The ledger


def expected_leaves(entries: Iterable[LedgerEntry], before: Leaves) -> dict[LeafPath, Json]:
    """What our writes to one resource, in order, have left of what was there before them."""
    leaves = dict(before)
    for entry in entries:
        for path in entry.removed:
            leaves.pop(path, None)
        leaves.update(entry.wrote)
    return leaves


def strange(
    resource: ResourceKey, entries: Sequence[LedgerEntry], before: Leaves
) -> LedgerEntry | None:
    """What a stranger wrote since the last entry, as read before a call of ours; None: nothing.

    Only leaves that are in the ledger are known; of the others each effect has its own E.
    """
    known = expected_leaves(entries, {})
    gone: set[LeafPath] = set()
    for entry in entries:
        gone |= entry.removed
        gone -= entry.wrote.keys()
    wrote = {
        path: before[path]
        for path in (known.keys() | gone) & before.keys()
        if path in gone or not same(before[path], known[path])
    }
    removed = frozenset(known.keys() - before.keys())
    if not wrote and not removed:
        return None
    return LedgerEntry(resource, Source.STRANGER, wrote, removed)


def writer(entries: Sequence[LedgerEntry], path: LeafPath, now: Leaves) -> LedgerEntry | None:
    """The write of ours that left a leaf as it is now; None where somebody else did."""
    for entry in reversed(entries):
        if entry.touches(path):
            ours = entry.source is not Source.STRANGER and entry.left(path, now)
            return entry if ours else None
    return None


# One effect


def basis(
    effect: Effect,
    *,
    with_: Sequence[Effect] = (),
    ledger: Mapping[ResourceKey, Sequence[LedgerEntry]] = MappingProxyType({}),
) -> Basis:
    """E and G of an effect: what it found, what it wrote, and what its inverses have put back.

    `with_` are later effects whose writes the inverse takes back too: what it covers, and what it
    made the place for. `ledger` has the entries of each resource, in order. Marked is a leaf that
    was not as our writes had left it when one of `with_` began, and one that a stranger is known to
    have written since the effect: that it has our value again does not make it ours. Of a call in
    doubt nobody knows what it wrote.
    """
    expected: dict[Cell, Json] = {}
    goal: dict[Cell, Json] = {}
    marked: set[Cell] = set()
    identity: set[Cell] = set()
    known: list[ResourceKey] = []
    unread: list[ResourceKey] = []
    within: set[tuple[ResourceKey, ResourceKey]] = set()
    for writing in (effect, *sorted(with_, key=lambda later: later.number)):
        for touch in writing.touches:
            resource = touch.resource
            if touch.before is None or writing.state in DOUBTFUL:
                unread.append(resource)
                continue
            before = cells(resource, touch.before)
            if resource not in known:
                known.append(resource)
                goal.update(before)
                expected.update(before)
            else:
                left = {cell: expected[cell] for cell in expected if cell.resource == resource}
                marked |= differing(left, before)
            if touch.before and not touch.wrote and touch.before.keys() == touch.removed:
                within.update((resource, child) for child in touch.children)
            for path in touch.removed:
                expected.pop(Cell(resource, path), None)
            expected.update(cells(resource, touch.wrote))
            identity.update(
                Cell(resource, path)
                for path in (*touch.before, *touch.wrote)
                if path[:1] and path[0] in touch.identity
            )
        for resource in dict.fromkeys(touch.resource for touch in writing.touches):
            for entry in ledger.get(resource, ()) if resource in known else ():
                if entry.source is Source.INVERSE and entry.effect_id == writing.id:
                    for path in entry.removed:
                        expected.pop(Cell(resource, path), None)
                    expected.update(cells(resource, entry.wrote))
    for resource in known:
        since = False
        for entry in ledger.get(resource, ()):
            since = since or (entry.source is Source.EFFECT and entry.effect_id == effect.id)
            if since and entry.source is Source.STRANGER:
                marked.update(Cell(resource, path) for path in (*entry.wrote, *entry.removed))
    return Basis(
        expected=expected,
        goal=goal,
        resources=tuple(known),
        unread=tuple(dict.fromkeys(unread)),
        marked=frozenset(marked),
        identity=frozenset(identity),
        ours=frozenset(known),
        taken=frozenset(
            Cell(touch.resource, path) for touch in effect.touches for path in touch.taken
        )
        | _removed(effect, expected, goal),
        unsure=frozenset(
            Cell(touch.resource, path) for touch in effect.touches for path in touch.unsure
        ),
        unseen=is_unseen(effect),
        within=frozenset(within),
    )


def not_back_within(basis: Basis, now: State, seen: Seen = MappingProxyType({})) -> frozenset[Cell]:
    """What went with things that the effect took away, as whole things, and is not back with them.

    Of a thing that was not looked at nobody knows what lies in it; it is back if the thing is.
    """
    there = _present(now)
    looked_at = {key: sight for key, sight in seen.items() if isinstance(sight, Observation)}
    return frozenset(
        Cell(child, ())
        for thing, child in basis.within
        if thing in basis.resources and child not in basis.resources
        if thing not in there or (thing in looked_at and child not in looked_at[thing].children)
    )


def is_not_shown(effect: Effect) -> bool:
    """Whether a call was answered, and a look after it has shown nothing of it in some thing."""
    return effect.state is CallState.DONE and any(() in touch.unsure for touch in effect.touches)


def is_unseen(effect: Effect) -> bool:
    """Whether a call that was made has left its things as they were, and yet did something.

    A reversible one promises that its things show all that it does.
    """
    return (
        effect.state is CallState.DONE
        and effect.class_ is not EffectClass.REVERSIBLE
        and bool(effect.touches)
        and not any(touch.wrote or touch.removed or any(touch.unsure) for touch in effect.touches)
    )


def _removed(effect: Effect, expected: State, goal: State) -> frozenset[Cell]:
    """The things that an exact inverse takes away: all that is on them goes as well."""
    if effect.class_ is not EffectClass.REVERSIBLE:
        return frozenset()
    return frozenset(Cell(resource, ()) for resource in _present(expected) - _present(goal))


def judge(basis: Basis, seen: Seen, *, narrow: bool) -> Verdict:
    """Whether an inverse may be called, the basis' resources being as just seen."""
    now = state_of(seen)
    writes = basis.writes
    changed = differing(now, basis.expected)
    known = basis.resources and not basis.unread
    not_back = differing(now, basis.goal)
    is_back = not any(cell in writes or basis.is_unsure(cell) for cell in not_back)
    if known and not basis.unseen and is_back:
        return Already()
    other = {cell for cell in changed & basis.identity if cell in now and cell in basis.expected}
    there, were = _present(now), _present(basis.expected)
    moved = {cell for cell in changed if (cell.resource in there) != (cell.resource in were)}
    in_the_way = (changed & writes) | other | moved | (basis.marked & not_back)
    if not narrow:
        in_the_way |= changed
    in_the_way |= {cell for cell in changed if basis.takes(cell) or basis.is_unsure(cell)}
    foreign = _foreign(basis, seen)
    if not in_the_way and not foreign:
        return Go(beside=changed)
    return Review(
        DriftKind.RECREATED if other else DriftKind.OCCUPIED if foreign else DriftKind.CHANGED,
        tuple(_values(basis, now, cell) for cell in in_order(in_the_way)) + foreign,
    )


def _foreign(basis: Basis, seen: Seen) -> tuple[LeafValues, ...]:
    """Others' things in what the inverse would remove, each as a leaf that nobody expected."""
    kept = _present(basis.goal)
    return tuple(
        LeafValues(
            Cell(resource, ("children", child.kind, *map(str, child.key))),
            expected=None,
            now=list(child.key),
            goal=None,
            is_expected=False,
            is_now=True,
            is_goal=False,
        )
        for resource in basis.resources
        if resource not in kept and isinstance(sight := seen.get(resource), Observation)
        for child in sight.children
        if child not in basis.ours
    )


def _present(state: State) -> frozenset[ResourceKey]:
    return frozenset(cell.resource for cell in state)


def _values(basis: Basis, now: State, cell: Cell) -> LeafValues:
    return LeafValues(
        cell,
        expected=basis.expected.get(cell),
        now=now.get(cell),
        goal=basis.goal.get(cell),
        is_expected=cell in basis.expected,
        is_now=cell in now,
        is_goal=cell in basis.goal,
    )


def in_order(some: Iterable[Cell]) -> list[Cell]:
    """Cells in an order that is the same everywhere."""
    return sorted(
        some,
        key=lambda cell: (canonical(_named(cell.resource)), cell.path),
    )


def beside(basis: Basis, state: State) -> dict[Cell, Json]:
    """A state without the cells that the inverse is to write."""
    writes = basis.writes
    return {cell: value for cell, value in state.items() if cell not in writes}


class Progress(StrEnum):
    """How far an inverse has come whose answer nobody has.

    Each cell that it is to write is as before it, or at its goal; or a thing is gone for now, as
    between the two calls of "delete it, make it again"; or a value is neither, and so a stranger's.
    """

    NONE = "none"
    GOAL = "goal"
    SOME = "some"
    GONE = "gone"
    FOREIGN = "foreign"


def progress(basis: Basis, now: State, *, rest: str) -> Progress:
    """What the world says of an inverse in doubt; `rest` is as of `verify`."""
    part = basis.part(now)
    to_do = differing(part, basis.goal) & basis.writes
    done = differing(part, basis.expected) & basis.writes
    gone = (_present(basis.expected) & _present(basis.goal)) - _present(part)
    if any(cell.resource not in gone for cell in to_do & done):
        return Progress.FOREIGN
    if gone:
        return Progress.GONE
    if digest(beside(basis, part)) != rest:
        return Progress.FOREIGN
    if basis.unseen:
        return Progress.NONE
    if not to_do:
        return Progress.GOAL
    return Progress.SOME if done else Progress.NONE


def in_its_way(basis: Basis, now: State, *, narrow: bool) -> bool:
    """Whether a call that is made again could write over what is neither as expected nor its goal.

    Of a narrow one that is only what it has from before.
    """
    part = basis.part(now)
    other = differing(part, basis.expected) & differing(part, basis.goal)
    return any(not narrow or basis.takes(cell) for cell in other if cell in part)


def verify(basis: Basis, now: State, *, seen: str, rest: str) -> Reached:
    """What an inverse has come to: N' is to be N with W at G.

    `seen` is the digest of N as it was read last, `rest` that of N beside W.
    """
    part = basis.part(now)
    if not differing(part, basis.goal) & basis.writes and digest(beside(basis, part)) == rest:
        return Reached.GOAL
    return Reached.NOTHING if digest(part) == seen else Reached.PART


def put_back(basis: Basis, now: State, effect: Effect) -> tuple[LedgerEntry, ...]:
    """What an inverse has written: the cells of W that are at G now, and no other value."""
    reached = basis.writes - differing(now, basis.goal)
    return _entries(basis.resources, reached, basis.goal, effect)


def offset(basis: Basis, now: State, effect: Effect) -> tuple[LedgerEntry, ...]:
    """What a compensation has written: the cells of W that are other than before it.

    It has no goal to be held to, so the reads that bracket it say what it wrote; W alone, so that
    nothing beside it is taken for ours.
    """
    return _entries(basis.resources, basis.writes & differing(now, basis.expected), now, effect)


def theirs(
    basis: Basis, now: State, ledger: Mapping[ResourceKey, Sequence[LedgerEntry]]
) -> tuple[LedgerEntry, ...]:
    """What a check has found to be a stranger's: it is recorded, and stays theirs."""
    changed = frozenset(
        cell
        for cell in differing(now, basis.expected)
        if cell.resource in basis.resources and left_by(cell, now, ledger) is None
    )
    return _entries(basis.resources, changed, now, None)


def left_by(
    cell: Cell, now: State, ledger: Mapping[ResourceKey, Sequence[LedgerEntry]]
) -> LedgerEntry | None:
    """The write of ours that left a cell as it is now; None where somebody else did."""
    leaf = {cell.path: now[cell]} if cell in now else {}
    return writer(ledger.get(cell.resource, ()), cell.path, leaf)


def is_ours(cell: Cell, now: State, ledger: Mapping[ResourceKey, Sequence[LedgerEntry]]) -> bool:
    """Whether a cell is as a write of ours left it.

    What an inverse has put back as a stranger had left it is the stranger's.
    """
    if left_by(cell, now, ledger) is None:
        return False
    leaf = {cell.path: now[cell]} if cell in now else {}
    standing: set[str | None] = set()
    is_strangers = False
    for entry in ledger.get(cell.resource, ()):
        if not entry.touches(cell.path):
            continue
        match entry.source:
            case Source.STRANGER:
                standing.clear()
                is_strangers = entry.left(cell.path, leaf)
            case Source.EFFECT:
                standing.add(entry.effect_id)
            case Source.INVERSE:
                standing.discard(entry.effect_id)
            case _:
                assert_never(entry.source)
    return bool(standing) or not is_strangers


def still_written(
    cell: Cell, since: str, ledger: Mapping[ResourceKey, Sequence[LedgerEntry]]
) -> dict[str, LedgerEntry]:
    """The effects that wrote a cell after the effect `since` did, and were not taken back there."""
    found: dict[str, LedgerEntry] = {}
    after = False
    for entry in ledger.get(cell.resource, ()):
        if entry.effect_id is None or not entry.touches(cell.path):
            continue
        if entry.source is Source.EFFECT and after:
            found[entry.effect_id] = entry
        elif entry.source is Source.INVERSE:
            found.pop(entry.effect_id, None)
        after = after or entry.effect_id == since
    return found


def is_later(
    entry: LedgerEntry, since: str, ledger: Mapping[ResourceKey, Sequence[LedgerEntry]]
) -> bool:
    """Whether a write is that of a call which was made after the effect `since` was."""
    entries = ledger.get(entry.resource, ())
    places = [at for at, other in enumerate(entries) if other.effect_id == since]
    later = entries[places[0] + 1 :] if places else ()
    return (
        entry.source is Source.EFFECT
        and entry.effect_id != since
        and any(other is entry for other in later)
    )


def _entries(
    resources: Iterable[ResourceKey],
    written: frozenset[Cell],
    values: State,
    effect: Effect | None,
) -> tuple[LedgerEntry, ...]:
    return tuple(
        LedgerEntry(
            resource,
            Source.STRANGER if effect is None else Source.INVERSE,
            wrote={cell.path: values[cell] for cell in of_it if cell in values},
            removed=frozenset(cell.path for cell in of_it if cell not in values),
            effect_id=effect.id if effect is not None else None,
            session_id=effect.session_id if effect is not None else None,
        )
        for resource in resources
        if (of_it := [cell for cell in written if cell.resource == resource])
    )


def may_overwrite(values: Iterable[LeafValues], now: State) -> bool:
    """Whether theirs may be overwritten: the world still is what the person was shown."""
    return all(
        (leaf.cell in now) == leaf.is_now and (not leaf.is_now or same(now[leaf.cell], leaf.now))
        for leaf in values
    )
