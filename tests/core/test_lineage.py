"""Segments: the effective transcript without copying, at any number of branches."""

from __future__ import annotations

from turnback.core.lineage import (
    OPEN,
    ROOT,
    SEGMENTS_PER_ROW,
    Branch,
    Position,
    Segment,
    branch_off,
    on_path,
    segments_at,
    source_at,
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
