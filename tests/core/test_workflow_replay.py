"""Edits as the difference they made, and that difference made again elsewhere, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_merge import Clash, items, merged
from workflows import (
    FILES,
    LIMITS,
    applicable,
    documents,
    edit_lists,
    link_ids,
    make,
    several,
    workflows,
)

from turnback.core.edits import AddOperator, ReplaceWorkflow, describe
from turnback.core.errors import EditConflict, TooLarge
from turnback.core.operators import CATALOG
from turnback.core.workflow import (
    EMPTY,
    Workflow,
    apply,
    diff,
    edits_between,
    load,
    load_json,
    replay,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnback.core.edits import Edit

JOIN = load_json(
    next(path for path in FILES if path.name == "join-and-chart.json").read_bytes(), **LIMITS
)
ADD_FILTER = {
    "op": "addOperator",
    "operator": CATALOG.new_operator("f", "Filter", {}, ""),
    "position": {"x": 3, "y": 4.5},
}


def change(operator_id: str, **values: Any) -> dict[str, Any]:
    return {"op": "changeOperator", "operatorID": operator_id, "set": values}


def move(operator_id: str, x: int = 1) -> dict[str, Any]:
    return {"op": "moveOperator", "operatorID": operator_id, "position": {"x": x, "y": 2}}


def remove(operator_id: str) -> dict[str, Any]:
    return {"op": "removeOperator", "operatorID": operator_id}


def link(source: str, target: str, **more: Any) -> dict[str, Any]:
    ends = {
        "source": {"operatorID": source, "portID": "output-0"},
        "target": {"operatorID": target, "portID": "input-0"},
    }
    return {"op": "addLink", "link": {**more, **ends}}


def setting(**values: Any) -> dict[str, Any]:
    return {"op": "changeSettings", "set": values}


def note(name: str, **more: Any) -> dict[str, Any]:
    return {"op": "addComment", "comment": {"commentBoxID": name, **more}}


OPENED = {
    "op": "replaceWorkflow",
    "workflow": {
        **JOIN.content(),
        "operators": [{"operatorID": "z"}],
        "operatorPositions": {},
        "links": [],
    },
}


# -- the difference as edits


@several
@given(workflows(), edit_lists() | documents())
def test_the_edits_between_two_versions_lead_from_one_to_the_other(
    before: Workflow, wanted: Sequence[Edit] | dict[str, Any]
) -> None:
    after = (
        load(wanted, **LIMITS)
        if isinstance(wanted, dict)
        else make(before, *applicable(before, wanted))
    )
    edits = edits_between(before, after)
    assert bool(edits) is (before != after)
    assert items(make_any(before, edits).content()) == items(after.content())


def make_any(workflow: Workflow, edits: Sequence[Edit]) -> Workflow:
    """The workflow after edits that may add an operator of a type that nobody knows."""
    types = {o.get("operatorType") for e in edits if isinstance(e, AddOperator)
             for o in [e.operator]}  # fmt: skip
    return apply(workflow, edits, new_link_id=link_ids(), known_types=types | CATALOG.known)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ([move("join"), move("join", 9), move("lengths")], "Moved 2 operators"),
        ([ADD_FILTER, change("f", note=1)], "Added Filter `f`"),
        ([remove("lengths")], "Removed `lengths`"),
        ([link("load_trips", "lengths")], "Linked `load_trips` to `lengths`"),
        ([{"op": "removeLink", "linkID": "link-3"}], "Removed a link"),
        ([{"op": "changeLink", "linkID": "link-3", "set": {"a": 1}}], "Changed a link"),
        ([note("n"), setting(a=1)], "Added a comment, changed the settings"),
        ([{"op": "removeComment", "commentBoxID": "note-1"}], "Removed a comment"),
        ([change("join", a=1), {**change("join"), "unset": ["a"]}], "Changed nothing"),
        ([{**change("join"), "unset": ["operatorVersion"]}], "Changed `join`"),
        ([OPENED], "Removed 6 operators, added"),
    ],
)
def test_what_was_edited_is_told_as_what_it_came_to(
    wanted: list[dict[str, Any]], said: str
) -> None:
    found = describe(edits_between(JOIN, make(JOIN, *wanted)))
    assert found.startswith(said), found


@pytest.mark.parametrize(
    "document",
    [
        {**JOIN.content(), "formBinding": "new"},
        {**JOIN.content(), "operatorPositions": {}},
        {**JOIN.content(), "operators": [*JOIN.operators.values()][::-1]},
        {**JOIN.content(), "links": [{**JOIN.links[0], "target": {"operatorID": "nowhere"}}]},
    ],
)
def test_what_no_edit_of_single_items_can_do_is_the_whole_document(
    document: dict[str, Any],
) -> None:
    after = load(document, **LIMITS)
    assert edits_between(JOIN, after) == (ReplaceWorkflow(workflow=after.content()),)


# -- made again


@several
@given(workflows(), edit_lists(max_size=4), edit_lists(max_size=4))
def test_a_replay_is_the_merge_of_both_or_nothing(
    base: Workflow, my_wish: Sequence[Edit], their_wish: Sequence[Edit]
) -> None:
    mine = make(base, *applicable(base, my_wish))
    theirs = make(base, *applicable(base, their_wish))
    try:
        expected = merged(base.content(), mine.content(), theirs.content())
    except Clash:
        with pytest.raises(EditConflict) as refused:
            replay(base, mine, onto=theirs, **LIMITS)
        assert refused.value.data["conflicts"]
        return
    try:
        found = replay(base, mine, onto=theirs, **LIMITS)
    except EditConflict:
        assert not apart(base, mine, theirs)
    else:
        assert items(found.content()) == expected


def apart(base: Workflow, mine: Workflow, theirs: Workflow) -> bool:
    """Whether the two have nothing to do with each other: then a replay must not be refused."""
    if any(isinstance(edit, ReplaceWorkflow) for edit in edits_between(base, mine)):
        return False
    ours, others = diff(base, mine), diff(base, theirs)
    linked = any((ours.links, others.links, ours.operators.removed, others.operators.removed))
    return not (linked or ours.touched & others.touched)


@several
@given(workflows(), edit_lists(), edit_lists())
def test_a_replay_onto_the_version_it_was_made_on_or_led_to_is_the_identity(
    base: Workflow, wanted: Sequence[Edit], more: Sequence[Edit]
) -> None:
    after = make(base, *applicable(base, wanted))
    assert replay(base, after, onto=base, **LIMITS) == after
    assert replay(base, after, onto=after, **LIMITS) == after
    further = make(after, *applicable(after, more))
    assert replay(base, base, onto=further, **LIMITS) == further


@pytest.mark.parametrize(
    ("mine", "theirs", "met"),
    [
        ([move("join")], [change("join", a=1)], None),
        ([move("join")], [remove("lengths")], None),
        ([move("join")], [move("join", 9)], [("position", "join")]),
        ([move("lengths")], [remove("lengths")], [("position", "lengths")]),
        ([remove("lengths")], [remove("lengths")], None),
        ([move("join")], [move("join")], None),
        ([ADD_FILTER, move("join")], [ADD_FILTER, setting(a=1)], None),
        ([ADD_FILTER], [ADD_FILTER, move("f")], [("position", "f")]),
        ([{"op": "removeLink", "linkID": "link-3"}, move("join")],
         [{"op": "removeLink", "linkID": "link-3"}, setting(a=1)], None),
        ([note("n"), {"op": "removeComment", "commentBoxID": "note-1"}, move("join")],
         [note("n"), {"op": "removeComment", "commentBoxID": "note-1"}, setting(a=1)], None),
        ([setting(a=None)], [], None),
        ([setting(a=None)], [setting(a=1)], [("setting", "a")]),
        ([setting(a=1)], [setting(a=1, b=2)], None),
        ([note("n", a=1)], [note("n", a=2)], [("comment", "n")]),
        ([link("load_trips", "lengths", linkID="mine")], [remove("lengths")],
         [("operator", "lengths")]),
        ([ADD_FILTER, link("join", "f", linkID="mine")], [change("join", a=1)], None),
        ([ADD_FILTER, link("join", "f", linkID="mine")], [remove("join")],
         [("operator", "join")]),
        ([OPENED], [setting(a=1)], None),
        ([OPENED], [move("join")], [("position", "join")]),
        ([{"op": "replaceWorkflow", "workflow": {"x": 1}}], [setting(a=1)], "workflow"),
    ],
)  # fmt: skip
def test_what_was_edited_fits_elsewhere_or_says_where_it_does_not(
    mine: list[dict[str, Any]], theirs: list[dict[str, Any]], met: Any
) -> None:
    after, onto = make(JOIN, *mine), make(JOIN, *theirs)
    if met is None:
        found = replay(JOIN, after, onto=onto, **LIMITS)
        assert items(found.content()) == merged(JOIN.content(), after.content(), onto.content())
        return
    with pytest.raises(EditConflict) as refused:
        replay(JOIN, after, onto=onto, **LIMITS)
    told = [(conflict["kind"], conflict["id"]) for conflict in refused.value.data["conflicts"]]
    assert ("workflow", "") in told if met == "workflow" else told == met


def test_what_an_operator_took_along_when_it_was_removed_may_be_gone_already() -> None:
    linked = make(JOIN, ADD_FILTER, link("join", "f", linkID="theirs"))
    removed = make(linked, remove("join"))
    found = replay(linked, removed, onto=JOIN, **LIMITS)
    assert items(found.content()) == items(make(JOIN, remove("join")).content())


def test_a_port_that_is_not_there_any_more_is_a_conflict() -> None:
    after = make(JOIN, link("load_trips", "lengths", linkID="mine"))
    onto = make(JOIN, change("lengths", inputPorts=[]), {"op": "removeLink", "linkID": "link-5"})
    with pytest.raises(EditConflict) as refused:
        replay(JOIN, after, onto=onto, **LIMITS)
    assert refused.value.data["conflicts"] == [
        {"kind": "link", "id": "load_trips output-0 -> lengths input-0"}
    ]


def test_an_operator_of_a_type_that_nobody_knows_comes_back_as_it_was() -> None:
    strange = {"operatorID": "s", "operatorType": "HomeMade", "x": [1, None]}
    opened = load({**JOIN.content(), "operators": [*JOIN.operators.values(), strange]}, **LIMITS)
    found = replay(JOIN, opened, onto=make(JOIN, setting(a=1)), **LIMITS)
    assert found.operators["s"] == strange


def test_a_replay_keeps_to_the_limit_of_a_workflow() -> None:
    after, onto = make(EMPTY, setting(a="x" * 500)), make(EMPTY, note("n", text="x" * 600))
    with pytest.raises(TooLarge):
        replay(EMPTY, after, onto=onto, max_bytes=1000)


@several
@given(st.data())
def test_a_link_keeps_its_id_wherever_it_is_made_again(data: st.DataObject) -> None:
    base = data.draw(workflows())
    after = make(base, *applicable(base, data.draw(edit_lists())))
    onto = make(base, *applicable(base, data.draw(edit_lists(max_size=2))))
    try:
        found = replay(base, after, onto=onto, **LIMITS)
    except EditConflict:
        return
    known = {one["linkID"] for one in (*base.links, *after.links, *onto.links)}
    assert {one["linkID"] for one in found.links} <= known
