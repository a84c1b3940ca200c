"""Segments: the effective transcript without copying, at any number of branches."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnback.core.errors import HistoryMissing
from turnback.core.lineage import (
    OPEN,
    ROOT,
    SEGMENTS_PER_ROW,
    Boundary,
    Branch,
    Fork,
    PendingMode,
    Position,
    Segment,
    Side,
    Stub,
    branch_off,
    on_path,
    segments_at,
    source_at,
    unfolded,
)


def grow(count: int) -> tuple[dict[str, Branch], Position, list[tuple[str, int]]]:
    """`count` branches, each leaving the one before it after one record; the path as places."""
    branches: dict[str, Branch] = {}
    head, path = ROOT, []
    for n in range(count):
        branch = branch_off(branches, head, branch_id=f"b{n}", session_id="s")
        branches[branch.id] = branch
        head = Position(branch.id, head.seq + 1, f"step-{n}")
        path.append((branch.id, head.seq))
    return branches, head, path


def test_a_branch_at_the_root_has_no_cutoff_and_one_open_segment() -> None:
    branch = branch_off({}, ROOT, branch_id="b", session_id="s")
    assert branch.segments == (Segment("b", 0, OPEN),)
    assert (branch.cutoff, branch.below, branch.segment_count, branch.lo) == (ROOT, None, 1, 0)


def test_a_second_branch_clips_the_first_at_its_cutoff() -> None:
    first = branch_off({}, ROOT, branch_id="a", session_id="s")
    cutoff = Position("a", 3, "step-3")
    second = branch_off({"a": first}, cutoff, branch_id="b", session_id="s")
    assert second.segments == (Segment("a", 0, 3), Segment("b", 3, OPEN))


def test_a_row_never_holds_more_than_its_limit_and_the_list_goes_on_below() -> None:
    branches, head, path = grow(5 * SEGMENTS_PER_ROW + 7)
    assert max(len(branch.segments) for branch in branches.values()) == SEGMENTS_PER_ROW
    assert branches[str(head.branch_id)].segment_count == len(path)
    read = [(s.source, seq) for s in segments_at(branches, head) for seq in range(s.hi, s.lo, -1)]
    assert read[::-1] == path


def test_every_place_is_found_on_the_path_and_no_other() -> None:
    branches, head, path = grow(3 * SEGMENTS_PER_ROW)
    for branch_id, seq in path:
        assert source_at(branches, head, seq) == branch_id
        assert on_path(branches, head, Position(branch_id, seq, ""))
        assert not on_path(branches, head, Position(branch_id, seq + 1, ""))
    assert source_at(branches, head, 0) is None
    assert source_at(branches, head, head.seq + 1) is None


def test_what_a_branch_got_after_its_child_left_is_not_on_the_childs_path() -> None:
    first = branch_off({}, ROOT, branch_id="a", session_id="s")
    branches = {"a": first}
    branches["b"] = branch_off(branches, Position("a", 2, ""), branch_id="b", session_id="s")
    head = Position("b", 3, "")
    assert on_path(branches, head, Position("a", 2, ""))
    assert not on_path(branches, head, Position("a", 3, ""))


def test_the_root_is_on_every_path() -> None:
    branches, head, _ = grow(2)
    assert on_path(branches, head, ROOT)
    assert on_path(branches, ROOT, ROOT)
    assert list(segments_at(branches, ROOT)) == []


# -- forks


@given(st.lists(st.floats(0, 1), max_size=200), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_the_rows_along_a_path_are_told_from_the_path(cuts: list[float], run: int) -> None:
    branches: dict[str, Branch] = {}
    head = ROOT
    for n, cut in enumerate(cuts):
        at = round(cut * head.seq)
        left = Position(source_at(branches, head, at), at, f"{at}") if at else ROOT
        branch = branch_off(branches, left, branch_id=f"b{n}", session_id=f"s{n % 7}")
        branches[branch.id] = branch
        head = Position(branch.id, left.seq + run, f"{left.seq + run}")
    along = [branches[segment.source] for segment in segments_at(branches, head)][::-1]
    stubs = [Stub(b.id, b.session_id, b.cutoff, b.below, b.segment_count) for b in along]
    assert unfolded(stubs) == along


def test_a_fork_is_known_again_by_what_was_asked() -> None:
    asked = Fork("p", "c", Boundary("t", Side.AFTER), name="X")
    assert asked.fingerprint == replace(asked, count=3).fingerprint
    for other in (
        replace(asked, source_id="q"),
        replace(asked, boundary=Boundary("t", Side.BEFORE)),
        replace(asked, boundary=None),
        replace(asked, mode=PendingMode.EDIT),
        replace(asked, draft="d"),
        replace(asked, name=None, description="X"),
    ):
        assert other.fingerprint != asked.fingerprint


@pytest.mark.parametrize("below", ["b70", "b140", "nobody"])
def test_rows_that_lead_round_or_nowhere_are_an_error_and_no_endless_walk(below: str) -> None:
    branches, head, _ = grow(3 * SEGMENTS_PER_ROW)
    branches["b70"] = replace(branches["b70"], below=below)
    for row in branches.values():
        if row.below == "b63":
            branches[row.id] = replace(row, below=below)
    with pytest.raises(HistoryMissing):
        list(segments_at(branches, head))
    with pytest.raises(HistoryMissing):
        on_path(branches, head, Position("b1", 2, ""))
