"""What differs between two versions, what an edit touches, and when two people's edits meet."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import assume, given
from workflows import (
    FILES,
    LIMITS,
    applicable,
    edit_lists,
    edits,
    make,
    several,
    workflows,
)

from turnback.core.edits import MoveOperator, RemoveOperator
from turnback.core.errors import InvalidEdit
from turnback.core.operators import CATALOG
from turnback.core.workflow import (
    Change,
    Touch,
    Workflow,
    conflicts,
    diff,
    load,
    load_json,
    touches,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnback.core.edits import Edit

JOIN = load_json(
    next(path for path in FILES if path.name == "join-and-chart.json").read_bytes(), **LIMITS
)
PLACE = {"x": 1, "y": 2}
OPERATOR = {"operatorID": "a"}


def change(operator_id: str, **values: Any) -> dict[str, Any]:
    return {"op": "changeOperator", "operatorID": operator_id, "set": values}


def move(operator_id: str) -> dict[str, Any]:
    return {"op": "moveOperator", "operatorID": operator_id, "position": PLACE}


def remove(operator_id: str) -> dict[str, Any]:
    return {"op": "removeOperator", "operatorID": operator_id}


def add_link(source: str, target: str) -> dict[str, Any]:
    return {
        "op": "addLink",
        "link": {
            "source": {"operatorID": source, "portID": "output-0"},
            "target": {"operatorID": target, "portID": "input-0"},
        },
    }


# -- diff


@several
@given(workflows(), workflows())
def test_a_diff_is_empty_exactly_when_the_workflows_are_equal(a: Workflow, b: Workflow) -> None:
    assert bool(diff(a, b)) is (a != b)
    assert not diff(a, load(a.content(), **LIMITS))
    assert diff(a, a).touched == frozenset()


@several
@given(workflows(), edit_lists())
def test_every_edit_that_changed_something_shows(before: Workflow, wanted: Sequence[Edit]) -> None:
    after = make(before, *applicable(before, wanted))
    assert bool(diff(before, after)) is (before != after)
    assert bool(diff(after, before)) is (before != after)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"settings": {}}, {}),
        ({"settings": {}, "links": []}, {"links": [], "settings": {}}),
        ({"operators": [{"operatorID": "a"}, {"operatorID": "b"}]}, None),
        ({"links": [{"linkID": n, **add_link("a", "b")["link"]} for n in "lm"]}, None),
        ({"commentBoxes": [{"commentBoxID": "a"}, {"commentBoxID": "b"}]}, None),
        ({"operatorPositions": {"a": {}, "b": {}}}, {"operatorPositions": {"b": {}, "a": {}}}),
        ({"settings": {"a": 1, "b": 2}}, {"settings": {"b": 2, "a": 1}}),
        (
            {"operators": [{"operatorID": "a", "x": 1}]},
            {"operators": [{"x": 1, "operatorID": "a"}]},
        ),
        ({"settings": {"a": 1}}, {"settings": {"a": 1.0}}),
        ({"settings": {"a": 1}}, {"settings": {"a": True}}),
        ({"x": {"a": 1, "b": 2}}, {"x": {"b": 2, "a": 1}}),
    ],
)
def test_the_smallest_differences_show(one: dict[str, Any], other: dict[str, Any] | None) -> None:
    """With `other` left out: the same list in another order."""
    if other is None:
        other = {name: list(reversed(items)) for name, items in one.items()}
    a, b = load(one, **LIMITS), load(other, **LIMITS)
    assert diff(a, b)
    assert diff(b, a)


def test_operators_are_told_apart_as_added_removed_changed_and_moved() -> None:
    new = {"op": "addOperator", "operator": CATALOG.new_operator("f", "Filter", {}, "")}
    after = make(
        JOIN,
        {**new, "position": PLACE},
        remove("lengths"),
        move("join"),
        change("load_trips", operatorProperties={"fileName": "a.csv", "hasHeader": True}, note=1),
    )
    found = diff(JOIN, after)
    assert list(found.operators.added) == ["f"]
    assert found.operators.added["f"]["operatorType"] == "Filter"
    assert list(found.operators.removed) == ["lengths"]
    assert found.moved == ("join",)
    assert list(found.links.removed) == ["link-5"]
    assert found.operators.changed == {
        "load_trips": (
            Change(("operatorProperties", "fileEncoding"), "removed", "UTF_8", None),
            Change(("operatorProperties", "customDelimiter"), "removed", ",", None),
            Change(
                ("operatorProperties", "fileName"),
                "changed",
                "/ops/city/v2/trips.csv",
                "a.csv",
            ),
            Change(("note",), "added", None, 1),
        )
    }
    assert not found.comments
    assert found.settings == found.members == ()
    assert found.touched == {
        ("operator", "f"),
        ("position", "f"),
        ("operator", "lengths"),
        ("position", "lengths"),
        ("position", "join"),
        ("operator", "load_trips"),
        ("link", "join output-0 -> lengths input-0"),
    }


def test_settings_comments_and_unknown_members_are_compared_by_member() -> None:
    document = JOIN.content()
    after = load(
        {
            **document,
            "settings": {"executionMode": "MATERIALIZED", "new": None},
            "commentBoxes": [{**document["commentBoxes"][0], "colour": "red"}],
            "formBinding": 1,
        },
        **LIMITS,
    )
    found = diff(JOIN, after)
    assert [(c.path, c.kind) for c in found.settings] == [
        (("dataTransferBatchSize",), "removed"),
        (("executionMode",), "changed"),
        (("new",), "added"),
    ]
    assert found.comments.changed == {"note-1": (Change(("colour",), "added", None, "red"),)}
    assert [(c.path, c.kind) for c in found.members] == [(("formBinding",), "changed")]
    assert {kind for kind, _ in found.touched} == {"setting", "comment", "member"}


def test_an_order_that_changed_is_named() -> None:
    operator = JOIN.operators["join"]
    turned = dict(reversed(operator.items()))
    reordered = load({**JOIN.content(), "links": list(reversed(JOIN.links))}, **LIMITS)
    assert diff(JOIN, reordered).reordered == ("links",)
    within = load(
        {
            **JOIN.content(),
            "operators": [turned if o is operator else o for o in JOIN.operators.values()],
        },
        **LIMITS,
    )
    assert diff(JOIN, within).operators.changed == {
        "join": (Change((), "reordered", list(operator), list(turned)),)
    }


@several
@given(workflows(), workflows())
def test_a_diff_can_be_sent_as_json(a: Workflow, b: Workflow) -> None:
    found = asdict(diff(a, b))
    found["touched"] = sorted(found["touched"])
    assert orjson.loads(orjson.dumps(found)).keys() == found.keys()


# -- touches and conflicts


@several
@given(workflows(), edit_lists())
def test_edits_touch_all_that_they_change(before: Workflow, wanted: Sequence[Edit]) -> None:
    kept = applicable(before, wanted)
    changed = diff(before, make(before, *kept)).touched
    assert touches(kept, before) >= changed


def test_a_removed_operator_touches_its_links_and_a_redirected_link_both_its_ends() -> None:
    assert touches(edits(remove("join")), JOIN) == {
        ("operator", "join"),
        ("position", "join"),
        ("link", "since_2015 output-0 -> join input-0"),
        ("link", "load_trips output-0 -> join input-1"),
        ("link", "join output-0 -> lengths input-0"),
    }
    there, then = add_link("load_trips", "lengths")["link"], add_link("join", "lengths")["link"]
    redirected = edits(
        {"op": "changeLink", "linkID": "link-3", "set": {"target": there["target"]}},
        {"op": "changeLink", "linkID": "link-3", "set": {"source": there["source"]}},
        {"op": "addLink", "link": {"linkID": "mine", **then}},
        {"op": "changeLink", "linkID": "mine", "set": {"source": there["source"]}},
    )
    assert touches(redirected, JOIN) == {
        ("link", "since_2015 output-0 -> join input-0"),
        ("link", "since_2015 output-0 -> lengths input-0"),
        ("link", "load_trips output-0 -> lengths input-0"),
        ("link", "join output-0 -> lengths input-0"),
    }


@several
@given(workflows(), edit_lists())
def test_what_edits_touch_can_be_asked_before_they_are_known_to_fit(
    before: Workflow, wanted: Sequence[Edit]
) -> None:
    assert isinstance(touches(wanted, before), frozenset)
    assert touches([], before) == frozenset()


def test_a_malformed_link_or_document_touches_nothing_and_does_no_harm() -> None:
    wrong = edits(
        {"op": "addLink", "link": {"source": "a", "target": {}}},
        {"op": "changeLink", "linkID": "link-1", "set": {"source": None}},
        {"op": "changeLink", "linkID": "gone", "set": {}},
        {"op": "removeLink", "linkID": "gone"},
    )
    assert touches(wrong, JOIN) == frozenset()
    opened = edits({"op": "replaceWorkflow", "workflow": {"links": 3}})
    assert ("operator", "join") in touches(opened, JOIN)


def look(workflow: Workflow, touch: Touch) -> object:
    """What a workflow holds where a touch points."""
    kind, name = touch
    match kind:
        case "operator":
            return workflow.operators.get(name)
        case "position":
            return workflow.positions.get(name)
        case "comment":
            return [box for box in workflow.comments if box["commentBoxID"] == name]
        case "setting":
            return (workflow.settings or {}).get(name, ...)
        case "member":
            return workflow.other.get(name, ...)
        case _:
            found = []
            for link in workflow.links:
                a, b = link["source"], link["target"]
                if name == f"{a['operatorID']} {a['portID']} -> {b['operatorID']} {b['portID']}":
                    found.append({**link, "linkID": ""})
            return found


@several
@given(workflows(), edit_lists(max_size=2), edit_lists(max_size=2))
def test_edits_without_a_conflict_leave_what_another_has_changed(
    base: Workflow, wanted: Sequence[Edit], their_wish: Sequence[Edit]
) -> None:
    head = make(base, *applicable(base, their_wish))
    mine = applicable(base, wanted)
    assume(not conflicts(mine, base=base, head=head))
    try:
        after = make(head, *mine)
    except InvalidEdit:
        assume(False)
    for touch in diff(base, head).touched:
        assert look(after, touch) == look(head, touch)
    alone = make(base, *mine)
    for touch in diff(base, alone).touched:
        assert look(after, touch) == look(alone, touch)


@several
@given(workflows(), edit_lists())
def test_nothing_conflicts_with_an_unchanged_head(base: Workflow, wanted: Sequence[Edit]) -> None:
    assert conflicts(wanted, base=base, head=load(base.content(), **LIMITS)) == frozenset()


@pytest.mark.parametrize(
    ("mine", "theirs", "met"),
    [
        (move("join"), change("join", note=1), set()),
        (move("join"), move("lengths"), set()),
        (move("join"), move("join"), {("position", "join")}),
        (change("join", a=1), change("join", b=2), {("operator", "join")}),
        (add_link("since_2015", "lengths"), add_link("load_trips", "lengths"), set()),
        (
            add_link("since_2015", "lengths"),
            add_link("since_2015", "lengths"),
            {("link", "since_2015 output-0 -> lengths input-0")},
        ),
        (
            remove("lengths"),
            add_link("since_2015", "lengths"),
            {("link", "since_2015 output-0 -> lengths input-0")},
        ),
        (add_link("since_2015", "lengths"), remove("lengths"), {("operator", "lengths")}),
        (change("lengths", a=1), remove("lengths"), {("operator", "lengths")}),
        (move("lengths"), remove("lengths"), {("position", "lengths")}),
        (
            {"op": "replaceWorkflow", "workflow": {}},
            move("join"),
            {("position", "join"), ("workflow", "")},
        ),
        (
            {"op": "changeSettings", "set": {"executionMode": 1}},
            {"op": "changeSettings", "unset": ["executionMode"]},
            {("setting", "executionMode")},
        ),
    ],
)
def test_edits_meet_where_they_touch_the_same(
    mine: dict[str, Any], theirs: dict[str, Any], met: set[Touch]
) -> None:
    assert conflicts(edits(mine), base=JOIN, head=make(JOIN, theirs)) == met


def test_a_link_redirected_by_another_to_an_operator_that_is_removed_is_met() -> None:
    redirected = {
        "op": "changeLink",
        "linkID": "link-3",
        "set": {"target": {"operatorID": "lengths", "portID": "input-0"}},
    }
    met = conflicts([RemoveOperator(operator_id="lengths")], base=JOIN, head=make(JOIN, redirected))
    assert met == {("link", "since_2015 output-0 -> lengths input-0")}


def test_the_order_of_links_alone_is_no_reason_to_refuse_an_edit() -> None:
    head = load({**JOIN.content(), "links": list(reversed(JOIN.links))}, **LIMITS)
    moved = MoveOperator.model_validate(move("join"))
    assert conflicts([moved], base=JOIN, head=head) == frozenset()
    opened = edits({"op": "replaceWorkflow", "workflow": {}})
    assert conflicts(opened, base=JOIN, head=head) == {("workflow", "")}
