"""Loading and saving a workflow: nothing is lost, nothing is added, versions share."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from workflows import FILES, IDS, LIMITS, documents, make, operators, several, shuffled

from turnback.core.errors import InvalidWorkflow, TooLarge
from turnback.core.workflow import EMPTY, SCHEMA, Workflow, load, load_json


def read(name: str) -> Workflow:
    (path,) = (path for path in FILES if path.name == name)
    return load_json(path.read_bytes(), **LIMITS)


@several
@given(documents())
def test_load_then_save_is_the_identity(document: dict[str, Any]) -> None:
    text = orjson.dumps(document)
    for workflow in (load(document, **LIMITS), load_json(text, **LIMITS)):
        assert workflow.encoded() == text
        assert orjson.dumps(workflow.content()) == text


MEMBERS = [
    "operators", "links", "commentBoxes", "settings", "operatorPositions", "operatorID", "linkID",
    "commentBoxID", "source", "target", "portID", "inputPorts", "outputPorts", "operatorType",
    "operatorProperties", "commentBoxPosition",
]  # fmt: skip
ODD_SHAPES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.sampled_from(IDS),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=3)
    ),
    max_leaves=8,
)


@several
@given(
    documents() | ODD_SHAPES,
    st.dictionaries(st.sampled_from(["operators", "links"]), st.lists(ODD_SHAPES, max_size=1)),
)
def test_the_schema_of_a_workflow_asks_what_loading_it_asks(
    document: Any, put: dict[str, Any]
) -> None:
    document = {**document, **put} if isinstance(document, dict) else document
    fits = Draft202012Validator(SCHEMA).is_valid(document)
    try:
        load(document, **LIMITS)
        refused = ""
    except InvalidWorkflow as error:
        refused = error.message
    assert fits == (not refused or "ids are unique" in refused), refused


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_is_saved_as_it_was_loaded(path: Any) -> None:
    text = path.read_bytes()
    assert load_json(text, **LIMITS).encoded() == orjson.dumps(orjson.loads(text))


def test_an_old_file_is_saved_without_what_it_never_had() -> None:
    workflow = read("old-shape.json")
    assert workflow.members == ("operators", "links", "breakpoints", "commentBoxes")
    assert workflow.positions == {}
    assert workflow.settings is None
    changed = make(
        workflow,
        {"op": "changeOperator", "operatorID": "operator-1", "set": {"isDisabled": True}},
    )
    assert changed.members == workflow.members


def test_a_member_that_an_edit_needs_comes_last() -> None:
    position = {"x": 1, "y": 2}
    moved = make(
        read("old-shape.json"),
        {"op": "moveOperator", "operatorID": "operator-1", "position": position},
    )
    assert list(moved.content())[-1] == "operatorPositions"
    assert moved.positions == {"operator-1": position}


def test_what_a_workflow_holds_is_there_by_its_names() -> None:
    workflow = read("join-and-chart.json")
    assert list(workflow.operators)[:2] == ["load_trips", "load_stations"]
    assert workflow.operators["join"]["operatorType"] == "HashJoin"
    assert "nowhere" not in workflow.operators
    assert [link["linkID"] for link in workflow.links] == [f"link-{n}" for n in range(1, 6)]
    assert workflow.positions["join"] == {"x": 1090, "y": 130}
    assert workflow.comments[0]["commentBoxID"] == "note-1"
    assert workflow.settings == {"dataTransferBatchSize": 400, "executionMode": "PIPELINED"}
    assert list(workflow.other) == ["formBinding"]


def test_the_empty_workflow_is_the_one_of_the_proposal() -> None:
    assert EMPTY.encoded() == (
        b'{"operators":[],"operatorPositions":{},"links":[],"commentBoxes":[],'
        b'"settings":{"dataTransferBatchSize":400}}'
    )


@several
@given(documents(), documents())
def test_workflows_are_equal_exactly_when_their_canonical_json_is(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    a, b = load(one, **LIMITS), load(other, **LIMITS)
    same = orjson.dumps(one) == orjson.dumps(other)
    assert (a.hash == b.hash) is same
    assert (a == b) is same
    assert load(deepcopy(one), **LIMITS) == a


@several
@given(st.data(), documents())
def test_the_order_of_members_is_part_of_the_document(
    data: st.DataObject, document: dict[str, Any]
) -> None:
    again = data.draw(shuffled(document))
    if again.get("operators"):
        again["operators"] = [data.draw(shuffled(o)) for o in again["operators"]]
    same = orjson.dumps(document) == orjson.dumps(again)
    assert (load(document, **LIMITS).hash == load(again, **LIMITS).hash) is same


def test_numbers_that_python_takes_for_equal_are_told_apart() -> None:
    hashes = {load({"x": value}, **LIMITS).hash for value in (1, 1.0, True, "1")}
    assert len(hashes) == 4


def test_changing_the_document_after_it_was_loaded_changes_nothing() -> None:
    document = {"operators": [{"operatorID": "a", "x": [1]}], "settings": {"y": {}}}
    workflow = load(document, **LIMITS)
    before = workflow.encoded()
    document["operators"][0]["x"].append(2)  # type: ignore[index]
    document["settings"]["y"]["z"] = 1  # type: ignore[index]
    assert workflow.encoded() == before
    assert orjson.dumps(workflow.content()) == before


def op(**members: Any) -> dict[str, Any]:
    return {"operatorID": "a", **members}


def link(**members: Any) -> dict[str, Any]:
    end = {"operatorID": "a", "portID": "p"}
    return {"linkID": "l", "source": end, "target": end, **members}


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (None, ""),
        ([], ""),
        ({"operators": {}}, "/operators"),
        ({"operators": None}, "/operators"),
        ({"operators": ["a"]}, "/operators/0"),
        ({"operators": [{}]}, "/operators/0/operatorID"),
        ({"operators": [op(), op(operatorID=7)]}, "/operators/1/operatorID"),
        ({"operators": [op(), op(operatorID="b"), op()]}, "/operators/2/operatorID"),
        ({"operators": [op(operatorType=1)]}, "/operators/0/operatorType"),
        ({"operators": [op(operatorProperties=[])]}, "/operators/0/operatorProperties"),
        ({"operators": [op(inputPorts={})]}, "/operators/0/inputPorts"),
        ({"operators": [op(outputPorts=[{}])]}, "/operators/0/outputPorts/0/portID"),
        ({"operators": [op(code="\0")]}, "/operators/0/code"),
        ({"operatorPositions": []}, "/operatorPositions"),
        ({"operatorPositions": {"a": [1, 2]}}, "/operatorPositions/a"),
        ({"links": [link(), link()]}, "/links/1/linkID"),
        ({"links": [link(linkID=None)]}, "/links/0/linkID"),
        ({"links": [link(source="a")]}, "/links/0/source"),
        ({"links": [link(target={})]}, "/links/0/target/operatorID"),
        ({"links": [link(target={"operatorID": "a", "portID": 0})]}, "/links/0/target/portID"),
        ({"commentBoxes": {}}, "/commentBoxes"),
        ({"commentBoxes": [{"commentBoxID": "c"}] * 2}, "/commentBoxes/1/commentBoxID"),
        (
            {"commentBoxes": [{"commentBoxID": "c", "commentBoxPosition": 3}]},
            "/commentBoxes/0/commentBoxPosition",
        ),
        ({"settings": []}, "/settings"),
        ({"formBinding": {"n": 2**70}}, "/formBinding/n"),
    ],
)
def test_a_wrong_document_is_refused_with_the_path(document: object, path: str) -> None:
    with pytest.raises(InvalidWorkflow) as refused:
        load(document, **LIMITS)
    assert refused.value.data["path"] == path
    assert (path or "/") in refused.value.message


def test_depth_is_limited_and_a_document_at_the_limit_loads() -> None:
    deep: Any = {}
    for _ in range(LIMITS["max_depth"] - 2):
        deep = [deep]
    assert load({"x": deep}, **LIMITS).other["x"] == deep
    with pytest.raises(InvalidWorkflow, match="nested too deep"):
        load({"x": [deep]}, **LIMITS)


def test_a_higher_limit_than_the_encoder_has_is_still_refused_in_words() -> None:
    deep: Any = {}
    for _ in range(400):
        deep = [deep]
    with pytest.raises(InvalidWorkflow, match="nested too deep"):
        load({"x": deep}, max_bytes=10_000, max_depth=100_000)
    with pytest.raises(InvalidWorkflow):
        load_json(b'{"x":' + b"[" * 5_000 + b"]" * 5_000 + b"}", **LIMITS)


def test_size_is_limited_in_bytes_of_canonical_json() -> None:
    document = {"x": "é" * 100}
    size = len(orjson.dumps(document))
    assert load(document, max_bytes=size, max_depth=9).other == document
    with pytest.raises(TooLarge) as refused:
        load(document, max_bytes=size - 1, max_depth=9)
    assert refused.value.data == {"limit": "max_workflow_bytes", "value": size - 1}
    with pytest.raises(TooLarge):
        load_json(b" " * size + orjson.dumps(document), max_bytes=size, max_depth=9)


def test_a_file_that_is_not_json_is_refused_in_words() -> None:
    with pytest.raises(InvalidWorkflow, match="not JSON"):
        load_json(b"operators: []", **LIMITS)


@several
@given(
    st.lists(st.sampled_from(IDS), unique=True, min_size=2).flatmap(
        lambda ids: st.tuples(*(operators(name) for name in ids))
    )
)
def test_a_changed_operator_is_the_only_one_that_is_not_shared(
    items: tuple[dict[str, Any], ...],
) -> None:
    before = load({"operators": list(items), "settings": {"a": 1}}, **LIMITS)
    changed = items[0]["operatorID"]
    after = make(
        before,
        {"op": "changeOperator", "operatorID": changed, "set": {"isDisabled": "just now"}},
    )
    assert after.operators[changed] is not before.operators[changed]
    for name in list(before.operators)[1:]:
        assert after.operators[name] is before.operators[name]
    assert after.settings is before.settings
    kept = after.operators[changed]["inputPorts"]
    assert kept is before.operators[changed]["inputPorts"]


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"operators": []},
        {"operators": [{"operatorID": "a", "ü": "ß"}, {"operatorID": "b"}], "links": []},
        {"x": 1, "settings": {"y": [1.5, None]}, "operatorPositions": {"a": {"x": 1, "y": 2}}},
    ],
)
def test_a_workflows_size_is_that_of_its_bytes(document: dict[str, Any]) -> None:
    workflow = load(document, max_bytes=1_000, max_depth=10)
    assert workflow.size == len(workflow.encoded())
