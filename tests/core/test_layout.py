"""Where new operators go: to the right of their sources, on nothing that stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
from workflows import IDS, LIMITS, several, workflows

from turnback.core.layout import COLUMN, HEIGHT, LEFT, ROW, TOP, WIDTH, place
from turnback.core.workflow import EMPTY, load

if TYPE_CHECKING:
    from turnback.core.workflow import Workflow


def standing(**places: tuple[float, float] | None) -> Workflow:
    return load(
        {
            "operators": [{"operatorID": name} for name in places],
            "operatorPositions": {n: {"x": p[0], "y": p[1]} for n, p in places.items() if p},
        },
        **LIMITS,
    )


def test_the_first_operator_stands_at_the_top_left() -> None:
    assert place(EMPTY, "a", []) == {"x": LEFT, "y": TOP}


def test_an_operator_stands_right_of_its_source() -> None:
    assert place(standing(a=(100, 40)), "b", ["a"]) == {"x": 100 + COLUMN, "y": 40}


def test_an_operator_stands_right_of_all_its_sources_at_their_middle() -> None:
    found = place(standing(a=(100, 0), b=(350.5, 200)), "c", ["a", "b"])
    assert found == {"x": 350.5 + COLUMN, "y": 100}


def test_a_second_source_stands_below_the_first() -> None:
    found = place(standing(a=(100, 40), b=(400, 40)), "c", [])
    assert found == {"x": 100, "y": 40 + ROW}


def test_an_operator_goes_below_what_is_in_its_way() -> None:
    in_the_way = standing(a=(0, 0), b=(COLUMN + 10, 20), c=(COLUMN, 20 + ROW))
    assert place(in_the_way, "d", ["a"]) == {"x": COLUMN, "y": 20 + 2 * ROW}


def test_an_operator_is_not_put_under_a_comment_box() -> None:
    box = {"commentBoxID": "note", "commentBoxPosition": {"x": LEFT, "y": TOP}, "comments": []}
    workflow = load({"operators": [], "commentBoxes": [box, {"commentBoxID": "far"}]}, **LIMITS)
    assert place(workflow, "new", []) == {"x": LEFT, "y": TOP + ROW}


def test_an_operator_that_is_there_already_is_not_in_its_own_way() -> None:
    assert place(standing(a=(100, 40)), "a", []) == {"x": LEFT, "y": TOP}


def test_operators_without_a_position_are_reckoned_with() -> None:
    workflow = load(
        {
            "operators": [{"operatorID": "a"}, {"operatorID": "b"}],
            "links": [
                {"linkID": "l", "source": {"operatorID": "a"}, "target": {"operatorID": "b"}}
            ],
        },
        **LIMITS,
    )
    assert place(workflow, "c", ["b"]) == {"x": LEFT + 2 * COLUMN, "y": TOP}
    assert workflow.positions == {}


def test_a_position_that_is_none_is_no_position() -> None:
    odd: dict[str, Any] = {"a": {"x": "left"}, "b": {}, "c": {"x": 1e300, "y": 0}}
    workflow = load(
        {"operators": [{"operatorID": n} for n in odd], "operatorPositions": odd}, **LIMITS
    )
    assert place(workflow, "d", []) == {"x": LEFT, "y": TOP + 3 * ROW}


@several
@given(
    st.dictionaries(st.sampled_from(IDS), st.tuples(*[st.integers(-900, 900)] * 2)),
    st.lists(st.sampled_from(IDS), max_size=3),
)
def test_a_new_operator_covers_nothing(
    places: dict[str, tuple[int, int]], sources: list[str]
) -> None:
    workflow = standing(**places)
    found = place(workflow, "new", sources)
    for x, y in places.values():
        assert abs(x - found["x"]) >= WIDTH or abs(y - found["y"]) >= HEIGHT
    known = [places[name][0] for name in sources if name in places]
    assert all(found["x"] >= x + COLUMN for x in known)


@several
@given(workflows(), st.lists(st.sampled_from(IDS), max_size=3))
def test_any_workflow_has_room(workflow: Workflow, sources: list[str]) -> None:
    before = workflow.encoded()
    found = place(workflow, "new", sources)
    assert all(abs(found[axis]) < 1e9 for axis in "xy")
    assert workflow.encoded() == before
