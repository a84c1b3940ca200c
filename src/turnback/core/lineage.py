"""Positions, branches and their segments: which records a reader sees at a HEAD.

The rules are `docs/lineage` of the design, section 1: a branch is a linear run of records; it
leaves its parent at a cutoff; the effective transcript at HEAD is the union of disjoint segments
`(source, lo, hi]`, so a record's `seq` alone orders it. A branch row holds at most
`SEGMENTS_PER_ROW` segments, newest last, and names in `below` the branch whose list goes on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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


def branch_off(branches: Branches, head: Position, *, branch_id: str, session_id: str) -> Branch:
    """The new branch that a record following `head` starts.

    Its segments are those of HEAD's branch clipped at HEAD, and its own; past a full row only its
    own, with the rest `below`.
    """
    own = Segment(branch_id, head.seq, OPEN)
    if head.branch_id is None:
        return Branch(branch_id, session_id, head, (own,), None, 1)
    parent = branches[head.branch_id]
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
    branch = branches[head.branch_id]
    while seq <= branch.segments[0].lo:
        if branch.below is None:
            return None
        branch = branches[branch.below]
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
    branch, bound = branches[head.branch_id], head.seq
    while True:
        for segment in reversed(branch.segments):
            if segment.lo < bound:
                yield Segment(segment.source, segment.lo, min(segment.hi, bound))
                bound = segment.lo
        if branch.below is None:
            return
        branch = branches[branch.below]
