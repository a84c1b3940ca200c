"""Positions, branches and their segments, forks: which records a reader sees at a HEAD.

The rules are `docs/lineage` of the design, section 1: a branch is a linear run of records; it
leaves its parent at a cutoff; the effective transcript at HEAD is the union of disjoint segments
`(source, lo, hi]`, so a record's `seq` alone orders it. A branch row holds at most
`SEGMENTS_PER_ROW` segments, newest last, and names in `below` the branch whose list goes on.

A fork inherits the path to its cutoff, its prefix, and no record of it is copied.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from turnback.core.errors import HistoryMissing
from turnback.core.pending import PendingMode

ROOT_ID = "step-initial"
"""The sentinel before the first record: HEAD of an empty session, never a step."""

SEGMENTS_PER_ROW = 64
OPEN = 2**62
"""`hi` of a branch's own segment: it goes on to wherever HEAD is."""


@dataclass(frozen=True, slots=True)
class Position:
    """The key a record is stored under: the branch that physically holds it, and its `seq`."""

    branch_id: str | None
    seq: int
    step_id: str


ROOT = Position(None, 0, ROOT_ID)


@dataclass(frozen=True, slots=True)
class Segment:
    """The records of branch `source` with `lo < seq <= hi`."""

    source: str
    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch's immutable row. `segments` are contiguous, newest last; the last is its own.

    `segment_count` counts all its segments, those of `below` included.
    """

    id: str
    session_id: str
    cutoff: Position
    segments: tuple[Segment, ...]
    below: str | None
    segment_count: int

    @property
    def lo(self) -> int:
        """The seq of the last record it inherits: its own records begin after it."""
        return self.segments[-1].lo


Branches = Mapping[str, Branch]


def held(branches: Branches, branch_id: str) -> Branch:
    """The branch of this id. Raises `HistoryMissing` where a row names one that is not there."""
    if branch_id not in branches:
        raise HistoryMissing(
            "A branch of this session's history is missing from the database", branch=branch_id
        )
    return branches[branch_id]


def _down(branches: Branches, branch: Branch, below: str) -> Branch:
    """The branch whose list goes on below that of `branch`. Raises `HistoryMissing`.

    A row that does not lead down is damaged: a walk over it might never end.
    """
    lower = held(branches, below)
    if lower.segments[0].lo >= branch.segments[0].lo:
        raise HistoryMissing(
            "A branch of this session's history is damaged in the database", branch=branch.id
        )
    return lower


def branch_off(branches: Branches, head: Position, *, branch_id: str, session_id: str) -> Branch:
    """The new branch that a record following `head` starts.

    Its segments are those of HEAD's branch clipped at HEAD, and its own; past a full row only its
    own, with the rest `below`.
    """
    own = Segment(branch_id, head.seq, OPEN)
    if head.branch_id is None:
        return Branch(branch_id, session_id, head, (own,), None, 1)
    parent = held(branches, head.branch_id)
    count = parent.segment_count + 1
    if len(parent.segments) == SEGMENTS_PER_ROW:
        return Branch(branch_id, session_id, head, (own,), parent.id, count)
    newest = parent.segments[-1]
    clipped = (*parent.segments[:-1], Segment(newest.source, newest.lo, head.seq))
    return Branch(branch_id, session_id, head, (*clipped, own), parent.below, count)


def source_at(branches: Branches, head: Position, seq: int) -> str | None:
    """The branch that holds the record numbered `seq` of the effective transcript at `head`.

    None where the transcript has no such record.
    """
    if head.branch_id is None or not 0 < seq <= head.seq:
        return None
    branch = held(branches, head.branch_id)
    while seq <= branch.segments[0].lo:
        if branch.below is None:
            return None
        branch = _down(branches, branch, branch.below)
    index = bisect_left(branch.segments, seq, key=lambda segment: segment.lo) - 1
    return branch.segments[index].source


def on_path(branches: Branches, head: Position, position: Position) -> bool:
    """Whether `position` lies on the path from the root to `head`."""
    if position.branch_id is None:
        return True
    return source_at(branches, head, position.seq) == position.branch_id


def segments_at(branches: Branches, head: Position) -> Iterator[Segment]:
    """The segments of the effective transcript at `head`, newest first, clipped and disjoint."""
    if head.branch_id is None:
        return
    branch, bound = held(branches, head.branch_id), head.seq
    while True:
        for segment in reversed(branch.segments):
            if segment.lo < bound:
                yield Segment(segment.source, segment.lo, min(segment.hi, bound))
                bound = segment.lo
        if branch.below is None:
            return
        branch = _down(branches, branch, branch.below)


# -- forks: where a session leaves another


class Side(StrEnum):
    """Which side of a turn a boundary is on."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Boundary:
    """What a caller names to fork: a turn on the path to HEAD, and which side of it."""

    turn_id: str
    position: Side


@dataclass(frozen=True, slots=True)
class Fork:
    """A fork as asked. Without a `boundary` it inherits everything that is visible at HEAD.

    `mode` needs a boundary `before` a prompt, which is the `draft` where none is given. `count` is
    what the caller believes to be inherited, in turns: a check.
    """

    source_id: str
    child_id: str
    boundary: Boundary | None = None
    mode: PendingMode | None = None
    draft: str | None = None
    name: str | None = None
    description: str | None = None
    count: int | None = None

    @property
    def fingerprint(self) -> bytes:
        """What tells a retry from another fork under the same id."""
        turn = None if self.boundary is None else [self.boundary.turn_id, self.boundary.position]
        asked = [self.source_id, turn, self.mode, self.draft, self.name, self.description]
        return hashlib.blake2b(json.dumps(asked).encode(), digest_size=20).digest()


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where a fork comes from; it never changes.

    `depth` is 1 for a fork of a session that is none. `sources` are the sessions whose records the
    prefix, the path to `cutoff`, may hold.
    """

    parent_id: str
    boundary: Boundary | None
    inherited_turn_count: int
    cutoff: Position
    depth: int
    sources: tuple[str, ...]
    description: str | None


@dataclass(frozen=True, slots=True)
class Stub:
    """A branch's row without its segments."""

    id: str
    session_id: str
    cutoff: Position
    below: str | None
    segment_count: int


def unfolded(stubs: Iterable[Stub]) -> list[Branch]:
    """The rows of the branches along one path, oldest first, their segments told from the path.

    Each leaves the one before it, so its row lists the newest of those before it: which saves
    reading lists that would repeat each other. Raises `HistoryMissing` where one is missing.
    """
    path: list[Segment] = []
    counts: dict[str | None, int] = {None: 0}
    rows: list[Branch] = []
    for stub in stubs:
        left = path[-1].source if path else None
        if stub.cutoff.branch_id != left or stub.below not in counts:
            raise HistoryMissing(
                "A branch of this session's history is missing from the database", branch=stub.id
            )
        if path:
            last = path[-1]
            path[-1] = Segment(last.source, last.lo, stub.cutoff.seq)
        path.append(Segment(stub.id, stub.cutoff.seq, OPEN))
        counts[stub.id] = stub.segment_count
        own = stub.segment_count - counts[stub.below]
        segments = tuple(path[-own:])
        rows.append(
            Branch(stub.id, stub.session_id, stub.cutoff, segments, stub.below, stub.segment_count)
        )
    return rows
