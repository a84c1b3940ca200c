"""Edits: their form on the wire, their words, and what each does to a workflow."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from pydantic import ValidationError
from workflows import (
    EDITS,
    FILES,
    LIMITS,
    applicable,
    edit_lists,
    edits,
    link_ids,
    make,
    several,
    workflows,
)

from turnback.core.edits import Edit, MoveOperator, Position, describe
from turnback.core.errors import InvalidEdit, TooLarge
from turnback.core.operators import CATALOG
from turnback.core.workflow import EMPTY, Workflow, apply, load, load_json
from turnback.core.workflow.editing import MAX_BYTES, MAX_DEPTH
from turnback.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

JOIN = load_json(
    next(path for path in FILES if path.name == "join-and-chart.json").read_bytes(), **LIMITS
)
PLACE = {"x": 1, "y": 2.5}


def end(operator_id: str, port: str) -> dict[str, str]:
    return {"operatorID": operator_id, "portID": port}


def link(source: str, target: str, port: str = "input-0", **more: Any) -> dict[str, Any]:
    return {**more, "source": end(source, "output-0"), "target": end(target, port)}


def add_link(source: str, target: str, port: str = "input-0", **more: Any) -> dict[str, Any]:
    return {"op": "addLink", "link": link(source, target, port, **more)}


def new_filter(operator_id: str) -> dict[str, Any]:
    return {"op": "addOperator", "operator": CATALOG.new_operator(operator_id, "Filter", {}, "")}


def move(operator_id: str) -> dict[str, Any]:
    return {"op": "moveOperator", "operatorID": operator_id, "position": PLACE}


# -- all or nothing


@pytest.mark.case(19)
@several
@given(workflows(), edit_lists())
def test_a_refused_list_changes_nothing_and_names_its_first_wrong_edit(
    before: Workflow, wanted: Sequence[Edit]
) -> None:
    text, hash_ = before.encoded(), before.hash
    kept = applicable(before, wanted)
    wrong = next((n for n, edit in enumerate(wanted) if edit not in kept[n : n + 1]), None)
    if wrong is None:
        make(before, *wanted)
    else:
        with pytest.raises(InvalidEdit) as refused:
            make(before, *wanted)
        assert refused.value.data["index"] == wrong
        assert refused.value.data["op"] == wanted[wrong].op
    assert before.encoded() == text
    assert orjson.dumps(before.content()) == text
    assert load(before.content(), **LIMITS).hash == before.hash == hash_


@several
@given(workflows(), edit_lists())
def test_a_list_does_what_its_edits_do_one_by_one(before: Workflow, wanted: Sequence[Edit]) -> None:
    kept = applicable(before, wanted)
    maker = link_ids()
    step = before
    for edit in kept:
        step = apply(step, [edit], new_link_id=maker, known_types=CATALOG.known)
    assert make(before, *kept) == step


@several
@given(workflows(), edit_lists())
def test_an_edited_workflow_is_one_that_loads(before: Workflow, wanted: Sequence[Edit]) -> None:
    after = make(before, *applicable(before, wanted))
    assert load(after.content(), **LIMITS).encoded() == after.encoded()
    assert load(after.content(), **LIMITS).blobs() == after.blobs()


@pytest.mark.case(20)
@several
@given(workflows(), edit_lists())
def test_unknown_members_survive_every_edit_but_opening_another_file(
    before: Workflow, wanted: Sequence[Edit]
) -> None:
    kept = applicable(before, [edit for edit in wanted if edit.op != "replaceWorkflow"])
    after = make(before, *kept)
    assert orjson.dumps(after.other) == orjson.dumps(before.other)
    assert after.members[: len(before.members)] == before.members


def test_no_edits_give_the_very_same_workflow() -> None:
    assert make(JOIN) is JOIN


def test_the_limits_are_those_of_the_settings() -> None:
    settings = Settings()
    assert (settings.max_workflow_bytes, settings.max_json_depth) == (MAX_BYTES, MAX_DEPTH)


def test_a_workflow_that_grows_over_the_limit_is_refused() -> None:
    with pytest.raises(TooLarge):
        apply(
            EMPTY,
            edits({"op": "changeSettings", "set": {"note": "x" * 200}}),
            new_link_id=link_ids(),
            known_types=(),
            max_bytes=200,
        )


# -- link ids


@pytest.mark.case(18)
@several
@given(workflows(), edit_lists())
def test_a_made_link_id_is_never_one_that_is_in_use(
    before: Workflow, wanted: Sequence[Edit]
) -> None:
    stale = [link_["linkID"] for link_ in before.links]
    fresh = link_ids()
    after = apply(
        before,
        applicable(before, wanted),
        new_link_id=lambda: stale.pop() if stale else fresh(),
        known_types=CATALOG.known,
    )
    ids = [link_["linkID"] for link_ in after.links]
    assert len(ids) == len(set(ids))
    assert after == make(before, *applicable(before, wanted))


@pytest.mark.case(18)
def test_the_id_of_a_link_removed_in_the_same_list_is_not_given_again() -> None:
    ids = iter(["link-1", "link-2", "link-5", "link-9"])
    after = apply(
        JOIN,
        edits({"op": "removeLink", "linkID": "link-5"}, add_link("since_2015", "lengths")),
        new_link_id=lambda: next(ids),
        known_types=(),
    )
    assert [link_["linkID"] for link_ in after.links] == [
        "link-1",
        "link-2",
        "link-3",
        "link-4",
        "link-9",
    ]


def test_a_maker_that_has_no_free_id_is_asked_a_bounded_number_of_times() -> None:
    asked = cycle([f"link-{n}" for n in range(1, 6)])
    with pytest.raises(InvalidEdit, match="No free link id"):
        apply(
            JOIN,
            edits(add_link("since_2015", "lengths")),
            new_link_id=lambda: next(asked),
            known_types=(),
        )


# -- what each edit does


def test_an_operator_is_added_last_with_its_position_only_if_it_has_one() -> None:
    after = make(JOIN, new_filter("f"), {**new_filter("g"), "position": PLACE})
    assert list(after.operators)[-2:] == ["f", "g"]
    assert "f" not in after.positions
    assert after.positions["g"] == PLACE


def test_members_of_an_operator_are_set_and_taken_away_in_place() -> None:
    before = JOIN.operators["lengths"]
    after = make(
        JOIN,
        {
            "op": "changeOperator",
            "operatorID": "lengths",
            "set": {"operatorProperties": {"value": "hours"}, "note": 1, "operatorID": "lengths"},
            "unset": ["viewResult", "nothing"],
        },
    ).operators["lengths"]
    assert after["operatorProperties"] == {"value": "hours"}
    assert list(after) == [*(name for name in before if name != "viewResult"), "note"]


@pytest.mark.parametrize("value", [1.0, True, 2])
def test_an_edit_from_one_to_what_python_takes_for_one_is_made(value: object) -> None:
    end_ = {"operatorID": "a"}
    ones = {
        "operators": [{"operatorID": "a", "n": 1}],
        "links": [{"linkID": "l", "source": end_, "target": end_, "n": 1}],
        "commentBoxes": [{"commentBoxID": "c", "n": 1}],
        "settings": {"n": 1},
    }
    after = make(
        load(ones, **LIMITS),
        {"op": "changeOperator", "operatorID": "a", "set": {"n": value}},
        {"op": "changeLink", "linkID": "l", "set": {"n": value}},
        {"op": "changeComment", "commentBoxID": "c", "set": {"n": value}},
        {"op": "changeSettings", "set": {"n": value}},
    )
    assert after.encoded() == orjson.dumps(ones).replace(b'"n":1', b'"n":' + orjson.dumps(value))


def test_a_removed_operator_takes_its_links_and_its_position_and_nothing_else() -> None:
    after = make(JOIN, {"op": "removeOperator", "operatorID": "join"})
    assert [link_["linkID"] for link_ in after.links] == ["link-1", "link-2"]
    assert list(after.positions) == [name for name in JOIN.positions if name != "join"]
    assert list(after.operators) == [name for name in JOIN.operators if name != "join"]
    assert (after.comments, after.settings, after.other) == (
        JOIN.comments,
        JOIN.settings,
        JOIN.other,
    )


def test_moving_keeps_what_else_a_position_holds() -> None:
    before = load(
        {"operators": [{"operatorID": "a"}], "operatorPositions": {"a": {"z": 3, "x": 0}}},
        **LIMITS,
    )
    after = make(before, {"op": "moveOperator", "operatorID": "a", "position": PLACE})
    assert orjson.dumps(after.positions["a"]) == b'{"z":3,"x":1,"y":2.5}'


def test_a_link_keeps_its_members_and_gets_an_id() -> None:
    after = make(JOIN, add_link("since_2015", "lengths", color="red"))
    assert after.links[-1] == {"linkID": "new-1", **link("since_2015", "lengths", color="red")}


def test_a_link_changed_keeps_its_place_and_may_lead_elsewhere() -> None:
    after = make(
        JOIN,
        {
            "op": "changeLink",
            "linkID": "link-3",
            "set": {"source": end("load_stations", "output-0"), "color": "red"},
        },
    )
    assert after.links[2]["linkID"] == "link-3"
    assert after.links[2]["source"]["operatorID"] == "load_stations"
    again = {"op": "addLink", "link": link("since_2015", "join")}
    assert len(make(after, again).links) == len(JOIN.links) + 1


def test_comment_boxes_are_added_changed_moved_and_removed() -> None:
    comment = {"commentBoxID": "c", "colour": "blue"}
    after = make(
        JOIN,
        {"op": "addComment", "comment": comment},
        {"op": "changeComment", "commentBoxID": "c", "set": {"comments": []}},
        {"op": "moveComment", "commentBoxID": "c", "position": PLACE},
        {"op": "removeComment", "commentBoxID": "note-1"},
    )
    assert after.comments == ({**comment, "comments": [], "commentBoxPosition": PLACE},)


def test_settings_are_set_and_taken_away() -> None:
    change = {"op": "changeSettings", "set": {"b": 2}, "unset": ["executionMode", "nothing"]}
    assert make(JOIN, change).settings == {"dataTransferBatchSize": 400, "b": 2}


def test_opening_a_file_replaces_everything_and_later_edits_are_made_of_it() -> None:
    old = FILES[1].read_bytes()
    after = make(
        JOIN,
        {"op": "replaceWorkflow", "workflow": orjson.loads(old)},
        {"op": "removeLink", "linkID": "link-1"},
    )
    expected = orjson.loads(old)
    expected["links"] = []
    assert after.content() == expected


def test_an_operator_of_a_type_nobody_knows_may_be_changed_and_moved() -> None:
    before = load({"operators": [{"operatorID": "a", "operatorType": "HomeMade"}]}, **LIMITS)
    after = make(
        before,
        {"op": "changeOperator", "operatorID": "a", "set": {"operatorType": "HomeMade", "x": 1}},
        {"op": "moveOperator", "operatorID": "a", "position": PLACE},
    )
    assert after.operators["a"]["x"] == 1


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (new_filter("join"), "`join` is another operator's already"),
        ({"op": "addOperator", "operator": {"operatorID": "x"}}, "no operator type ``"),
        (
            {"op": "addOperator", "operator": {"operatorID": "x", "operatorType": "HomeMade"}},
            "no operator type `HomeMade`",
        ),
        ({"op": "addOperator", "operator": {"operatorType": "Filter"}}, "/edits/0/operator/op"),
        (
            {"op": "changeOperator", "operatorID": "join", "set": {"operatorType": "HomeMade"}},
            "no operator type `HomeMade`",
        ),
        (
            {"op": "changeOperator", "operatorID": "join", "unset": ["operatorType"]},
            "no operator type ``",
        ),
        (
            {"op": "changeOperator", "operatorID": "join", "set": {"operatorID": "x"}},
            "never changes",
        ),
        (
            {"op": "changeOperator", "operatorID": "join", "unset": ["operatorID"]},
            "keeps its `operatorID`",
        ),
        (
            {"op": "changeOperator", "operatorID": "join", "set": {"operatorProperties": 1}},
            "/edits/0/set/operatorProperties",
        ),
        (
            {"op": "changeOperator", "operatorID": "join", "set": {"x": ["\0"]}},
            "/edits/0/set/x/0",
        ),
        ({"op": "changeOperator", "operatorID": "gone"}, "no operator `gone`"),
        ({"op": "removeOperator", "operatorID": "gone"}, "no operator `gone`"),
        ({"op": "moveOperator", "operatorID": "gone", "position": PLACE}, "no operator `gone`"),
        (add_link("gone", "join"), "no operator `gone`"),
        (add_link("lengths", "gone"), "no operator `gone`"),
        (add_link("lengths", "load_trips"), "no input port `input-0`; it has none"),
        (add_link("load_trips", "join", "input-9"), "it has `input-0`, `input-1`"),
        (add_link("join", "join"), "back into it"),
        (add_link("load_trips", "join", "input-1"), "linked to `join` already"),
        (add_link("load_trips", "lengths", linkID="link-1"), "another link's already"),
        (add_link("load_trips", "lengths", linkID=5), "/edits/0/link/linkID"),
        ({"op": "addLink", "link": {"source": {}}}, "/edits/0/link/source/operatorID"),
        (
            {
                "op": "addLink",
                "link": {"source": end("join", "x"), "target": end("lengths", "input-0")},
            },
            "no output port `x`",
        ),
        ({"op": "changeLink", "linkID": "gone", "set": {}}, "no link `gone`"),
        ({"op": "changeLink", "linkID": "link-1", "set": {"linkID": "x"}}, "never changes"),
        (
            {"op": "changeLink", "linkID": "link-5", "set": link("load_trips", "join", "input-1")},
            "linked to `join` already",
        ),
        ({"op": "removeLink", "linkID": "gone"}, "no link `gone`"),
        ({"op": "addComment", "comment": {}}, "/edits/0/comment/commentBoxID"),
        ({"op": "addComment", "comment": {"commentBoxID": "note-1"}}, "another comment box's"),
        ({"op": "changeComment", "commentBoxID": "gone", "set": {}}, "no comment box `gone`"),
        (
            {"op": "changeComment", "commentBoxID": "note-1", "set": {"commentBoxID": "x"}},
            "never changes",
        ),
        ({"op": "removeComment", "commentBoxID": "gone"}, "no comment box `gone`"),
        ({"op": "moveComment", "commentBoxID": "gone", "position": PLACE}, "no comment box `gone`"),
        ({"op": "changeSettings", "set": {"x": 2**64}}, "/edits/0/set/x"),
        ({"op": "replaceWorkflow", "workflow": {"links": 1}}, "/links"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused_in_words(edit: dict[str, Any], sentence: str) -> None:
    text = JOIN.encoded()
    with pytest.raises(InvalidEdit) as refused:
        make(JOIN, edit)
    assert sentence in refused.value.message
    assert refused.value.data["index"] == 0
    assert refused.value.data["op"] == edit["op"]
    assert JOIN.encoded() == text


# -- the wire


@several
@given(edit_lists())
def test_edits_go_over_the_wire_and_back(some: Sequence[Edit]) -> None:
    for written in (
        EDITS.dump_json(tuple(some)),
        EDITS.dump_json(tuple(some), exclude_unset=True),
    ):
        assert EDITS.validate_json(written) == some


def test_an_edit_made_here_is_written_with_its_op_and_its_wire_names() -> None:
    edit = MoveOperator(operator_id="a", position=Position(x=1, y=2.5))
    assert edit.model_dump_json(exclude_unset=True) in (
        '{"op":"moveOperator","operatorID":"a","position":{"x":1,"y":2.5}}'
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"op": "explode"},
        {"operatorID": "a"},
        {"op": "removeOperator"},
        {"op": "removeOperator", "operatorID": 3},
        {"op": "removeOperator", "operatorID": "a", "force": True},
        {"op": "moveOperator", "operatorID": "a", "position": {"x": "1", "y": 2}},
        {"op": "moveOperator", "operatorID": "a", "position": {"x": True, "y": 2}},
        {"op": "moveOperator", "operatorID": "a", "position": {"x": float("nan"), "y": 2}},
        {"op": "moveOperator", "operatorID": "a", "position": {"x": 1e300, "y": 2}},
        {"op": "moveOperator", "operatorID": "a", "position": {"x": 1}},
        {"op": "addOperator", "operator": "a"},
        {"op": "replaceWorkflow", "workflow": []},
    ],
)
def test_what_is_not_an_edit_does_not_parse(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        edits(wrong)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ([new_filter("op2")], "Added Filter `op2`"),
        ([new_filter("op2"), new_filter("op3")], "Added 2 operators"),
        ([add_link("a", "b")], "Linked `a` to `b`"),
        ([add_link("a", "b"), add_link("a", "c")], "Added 2 links"),
        (
            [new_filter("op2"), {"op": "removeLink", "linkID": "l"}, add_link("a", "op2")],
            "Added Filter `op2`, removed a link, linked `a` to `op2`",
        ),
        (
            [{"op": "moveOperator", "operatorID": n, "position": PLACE} for n in "ab"],
            "Moved 2 operators",
        ),
        ([{"op": "moveOperator", "operatorID": n, "position": PLACE} for n in "aa"], "Moved `a`"),
        ([{"op": "changeOperator", "operatorID": "a"}], "Changed `a`"),
        ([{"op": "removeOperator", "operatorID": "a"}], "Removed `a`"),
        ([{"op": "changeLink", "linkID": "l", "set": {}}], "Changed a link"),
        ([{"op": "addComment", "comment": {}}] * 2, "Added 2 comments"),
        ([{"op": "changeComment", "commentBoxID": "c", "set": {}}] * 2, "Changed a comment"),
        ([{"op": "removeComment", "commentBoxID": n} for n in "ab"], "Removed 2 comments"),
        ([{"op": "moveComment", "commentBoxID": "c", "position": PLACE}], "Moved a comment"),
        ([{"op": "changeSettings"}], "Changed the settings"),
        ([{"op": "replaceWorkflow", "workflow": {}}], "Opened another workflow"),
        ([{"op": "addLink", "link": {"source": 1}}], "Linked `?` to `?`"),
        ([], "Changed nothing"),
    ],
)
def test_edits_are_described_in_a_short_phrase(made: list[dict[str, Any]], words: str) -> None:
    assert describe(edits(*made)) == words


@several
@given(edit_lists(max_size=20))
def test_a_description_is_bounded_and_on_one_line(some: Sequence[Edit]) -> None:
    assert 0 < len(describe(some)) < 2_000
    assert describe(some).isprintable()
