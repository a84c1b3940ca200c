"""The tools on the canvas: their sentences, their refusals, and that a failed call does nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from workflows import DATA, FILES, IDS, JSON, LIMITS, link_ids, several, workflows

from turnback.agent.canvas import CANVAS_TOOLS, call
from turnback.core.errors import ToolFailed
from turnback.core.operators import CATALOG
from turnback.core.workflow import EMPTY, Workflow, diff, load, load_json

if TYPE_CHECKING:
    from collections.abc import Sequence

JOIN = load_json(
    next(path for path in FILES if path.name == "join-and-chart.json").read_bytes(), **LIMITS
)


def use(workflow: Workflow, name: str, **args: Any) -> tuple[Workflow, str]:
    return call(workflow, name, args, new_link_id=link_ids())


def add(workflow: Workflow, operator_id: str, operator_type: str, **args: Any) -> Workflow:
    return use(workflow, "addOperator", operatorId=operator_id, operatorType=operator_type, **args)[
        0
    ]


def joins(workflow: Workflow) -> list[tuple[str, str, str]]:
    return [
        (link["source"]["operatorID"], link["target"]["operatorID"], link["target"]["portID"])
        for link in workflow.links
    ]


# -- what the tools are


def test_the_tools_are_those_of_the_protocol_and_their_schemas_are_sound() -> None:
    assert list(CANVAS_TOOLS) == ["addOperator", "modifyOperator", "deleteOperator", "getWorkflow"]
    for name, spec in CANVAS_TOOLS.items():
        assert spec.name == name
        assert spec.description
        Draft202012Validator.check_schema(spec.schema)
        assert all(argument["description"] for argument in spec.schema["properties"].values())
    types = CANVAS_TOOLS["addOperator"].schema["properties"]["operatorType"]["enum"]
    assert set(types) == CATALOG.known


@pytest.mark.parametrize(
    "recorded",
    orjson.loads((DATA / "recorded_tool_calls.json").read_bytes()),
    ids=lambda recorded: recorded["output"][:30],
)
def test_recorded_calls_give_the_recorded_outputs_and_workflows(recorded: dict[str, Any]) -> None:
    before = load(recorded["before"], **LIMITS)
    ids = iter([f"link-{len(before.links) + 1}"])
    after, output = call(before, recorded["tool"], recorded["input"], new_link_id=lambda: next(ids))
    assert output == recorded["output"]
    assert after.encoded() == orjson.dumps(recorded["after"])


# -- addOperator


def test_an_operator_is_added_with_its_links_right_of_its_sources() -> None:
    after, output = use(
        JOIN,
        "addOperator",
        operatorId="again",
        operatorType="HashJoin",
        properties={"buildAttributeName": "a"},
        inputOperatorIds={"0": ["load_trips"], "1": ["load_stations", "since_2015"]},
        summary="Join once more",
    )
    assert output == (
        "Added operator again, input ports: 2, output ports: 1, created links: "
        "[load_trips --> again, load_stations --> again, since_2015 --> again]"
    )
    assert joins(after)[-3:] == [
        ("load_trips", "again", "input-0"),
        ("load_stations", "again", "input-1"),
        ("since_2015", "again", "input-1"),
    ]
    operator = after.operators["again"]
    assert operator["customDisplayName"] == "Join once more"
    assert operator["operatorProperties"] == {"joinType": "inner", "buildAttributeName": "a"}
    assert after.positions["again"]["x"] > JOIN.positions["load_trips"]["x"]
    assert diff(JOIN, after).moved == ()


def test_what_may_be_left_out_may_be_null_too() -> None:
    args = {"properties": None, "inputOperatorIds": None, "summary": None}
    assert add(EMPTY, "a", "Union", **args) == add(EMPTY, "a", "Union")
    assert add(EMPTY, "a", "Union").operators["a"]["customDisplayName"] == "Union"


def test_a_port_may_be_named_by_its_id() -> None:
    after = add(JOIN, "u", "Union", inputOperatorIds={"input-0": ["join"]})
    assert joins(after)[-1] == ("join", "u", "input-0")


# -- modifyOperator


def test_properties_are_merged_one_level_deep() -> None:
    after, output = use(
        JOIN,
        "modifyOperator",
        operatorId="since_2015",
        properties={"predicates": [], "extra": {"a": 1}},
        summary="Everything",
    )
    assert output == "Operator since_2015 modified"
    operator = after.operators["since_2015"]
    assert operator["operatorProperties"] == {"predicates": [], "extra": {"a": 1}}
    assert operator["customDisplayName"] == "Everything"
    assert list(diff(JOIN, after).operators.changed) == ["since_2015"]


def test_new_inputs_replace_all_incoming_links_and_keep_those_that_stay() -> None:
    after, output = use(
        JOIN,
        "modifyOperator",
        operatorId="join",
        inputOperatorIds={"0": ["opened_year"], "1": ["load_trips"]},
    )
    assert output == (
        "Operator join modified, deleted links: [since_2015 --> join], "
        "created links: [opened_year --> join]"
    )
    found = diff(JOIN, after)
    assert list(found.links.removed) == ["link-3"]
    assert [link["source"]["operatorID"] for link in found.links.added.values()] == ["opened_year"]
    assert not found.operators


def test_empty_inputs_remove_the_incoming_links_alone() -> None:
    after, output = use(JOIN, "modifyOperator", operatorId="join", inputOperatorIds={})
    assert "deleted links: [since_2015 --> join, load_trips --> join]" in output
    assert ("join", "lengths", "input-0") in joins(after)
    assert len(after.links) == len(JOIN.links) - 2


def test_an_operator_whose_old_properties_would_not_pass_can_be_modified() -> None:
    document = JOIN.content()
    join = {**JOIN.operators["join"], "operatorProperties": {"joinType": "sideways"}}
    before = load({**document, "operators": [join]}, **LIMITS)
    after, _ = use(
        before, "modifyOperator", operatorId="join", properties={"buildAttributeName": "a"}
    )
    assert after.operators["join"]["operatorProperties"]["joinType"] == "sideways"


def test_an_operator_of_an_unknown_type_can_be_modified() -> None:
    before = load({"operators": [{"operatorID": "a b", "operatorType": "HomeMade"}]}, **LIMITS)
    after, _ = use(before, "modifyOperator", operatorId="a b", properties={"limit": "ten"})
    assert after.operators["a b"]["operatorProperties"] == {"limit": "ten"}


# -- deleteOperator and getWorkflow


def test_a_deleted_operator_takes_its_links_with_it() -> None:
    after, output = use(JOIN, "deleteOperator", operatorId="join")
    assert output == "Deleted operator: join"
    assert "join" not in after.operators
    assert not [link for link in joins(after) if "join" in link]


def test_the_workflow_is_given_whole_as_json() -> None:
    after, output = use(JOIN, "getWorkflow")
    assert after is JOIN
    assert orjson.loads(output) == JOIN.content()


def test_operators_are_given_by_id_with_the_links_that_touch_them() -> None:
    workflow = EMPTY
    for n in range(1, 4):
        args = {"operatorId": f"op{n}", "operatorType": "Union", "properties": {}}
        inputs = {"inputOperatorIds": {"0": [f"op{n - 1}"]}} if n > 1 else {}
        workflow, _ = call(workflow, "addOperator", args | inputs, new_link_id=lambda n=n: f"l{n}")
    after, output = call(workflow, "getWorkflow", {"operatorIds": ["op3"]}, new_link_id=str)
    assert after is workflow
    shown = orjson.loads(output)
    assert shown["operators"] == [workflow.operators["op3"]]
    assert [link["linkID"] for link in shown["links"]] == ["l3"]
    with pytest.raises(ToolFailed, match="There is no operator `op9`"):
        call(workflow, "getWorkflow", {"operatorIds": ["op9"]}, new_link_id=str)


def test_a_workflow_with_long_texts_is_given_with_these_cut() -> None:
    code = "x = 1\n" * 10_000
    before = add(EMPTY, "a", "PythonUDFV2", properties={"code": code})
    _, output = call(before, "getWorkflow", {}, new_link_id=link_ids(), max_output=5_000)
    note, text = output.split(") ", 1)
    assert "are cut" in note
    given = orjson.loads(text)["operators"][0]["operatorProperties"]["code"]
    assert given.startswith("x = 1\n")
    assert given.endswith("more characters)")


def test_a_workflow_that_is_too_long_all_the_same_is_cut_and_says_so() -> None:
    _, output = call(JOIN, "getWorkflow", {}, new_link_id=link_ids(), max_output=1_000)
    assert len(output) < 1_300
    assert output.endswith("6 operators and 5 links.)")


# -- refusals


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("fly", {}, "There is no tool `fly`; there are `addOperator`,"),
        ("addOperator", None, "None is not of type 'object'"),
        ("addOperator", {"operatorId": "a"}, "'operatorType' is a required property"),
        ("addOperator", {"operatorId": 1, "operatorType": "Limit"}, "`operatorId`: 1 is not of"),
        ("addOperator", {"operatorId": "a", "operatorType": "HomeMade"}, "not one of ['CSVFile"),
        ("addOperator", {"operatorId": "a b", "operatorType": "Limit"}, "cannot be an operator id"),
        ("addOperator", {"operatorId": "a\n", "operatorType": "Limit"}, "`a\\n` cannot be"),
        ("addOperator", {"operatorId": "", "operatorType": "Limit"}, "cannot be an operator id"),
        ("addOperator", {"operatorId": "a" * 129, "operatorType": "Limit"}, "1 to 128"),
        ("addOperator", {"operatorId": "join", "operatorType": "Limit"}, "use `modifyOperator`"),
        (
            "addOperator",
            {"operatorId": "a", "operatorType": "Limit", "properties": {"limit": "ten"}},
            "`limit`: 'ten' is not of type 'integer'",
        ),
        (
            "addOperator",
            {"operatorId": "a", "operatorType": "Limit", "inputOperatorIds": {"0": ["gone"]}},
            "no operator `gone`; there are `load_trips`, `load_stations`",
        ),
        (
            "addOperator",
            {"operatorId": "a", "operatorType": "Limit", "inputOperatorIds": {"0": ["a"]}},
            "`a` cannot feed itself",
        ),
        (
            "addOperator",
            {"operatorId": "a", "operatorType": "Limit", "inputOperatorIds": {"1": ["join"]}},
            "has 1 input port(s), counted from 0: there is no port `1`",
        ),
        (
            "addOperator",
            {"operatorId": "a", "operatorType": "Limit", "inputOperatorIds": {"-1": ["join"]}},
            "no port `-1`",
        ),
        (
            "addOperator",
            {"operatorId": "a", "operatorType": "Limit", "inputOperatorIds": {"0": "join"}},
            "`inputOperatorIds/0`: 'join' is not of type 'array'",
        ),
        (
            "addOperator",
            {"operatorId": "a", "operatorType": "Limit", "inputOperatorIds": {"0": ["join"] * 2}},
            "linked to `a` already",
        ),
        (
            "addOperator",
            {"operatorId": "a", "operatorType": "CSVFileScan", "inputOperatorIds": {"0": ["join"]}},
            "has 0 input port(s)",
        ),
        (
            "addOperator",
            {"operatorId": "a", "operatorType": "Limit", "inputOperatorId": "join"},
            "'inputOperatorId' was unexpected",
        ),
        ("modifyOperator", {"operatorId": "gone"}, "no operator `gone`"),
        (
            "modifyOperator",
            {"operatorId": "join", "properties": {"joinType": "sideways"}},
            "'sideways' is not one of",
        ),
        (
            "modifyOperator",
            {"operatorId": "join", "properties": {"a": "\0"}},
            "NUL",
        ),
        (
            "modifyOperator",
            {"operatorId": "join", "properties": {"a": 2**64}},
            "beyond 64 bits cannot be held; write it as text (at `/properties/a`)",
        ),
        (
            "modifyOperator",
            {"operatorId": "join", "inputOperatorIds": {"0": ["join"]}},
            "cannot feed itself",
        ),
        ("deleteOperator", {"operatorId": "gone"}, "no operator `gone`"),
        ("deleteOperator", {}, "'operatorId' is a required property"),
        ("getWorkflow", {"all": True}, "'all' was unexpected"),
    ],
)
def test_a_call_that_cannot_be_made_says_what_to_do(name: str, args: object, words: str) -> None:
    with pytest.raises(ToolFailed) as failed:
        call(JOIN, name, args, new_link_id=link_ids())
    assert words in failed.value.message


def test_an_operator_without_an_output_port_feeds_nothing() -> None:
    before = load({"operators": [{"operatorID": "sink", "operatorType": "HomeMade"}]}, **LIMITS)
    with pytest.raises(ToolFailed, match="`sink` has no output port"):
        add(before, "a", "Limit", inputOperatorIds={"0": ["sink"]})


def test_a_workflow_at_its_size_limit_refuses_more_as_a_failed_tool() -> None:
    with pytest.raises(ToolFailed, match="max_workflow_bytes"):
        add(EMPTY, "a", "PythonUDFV2", properties={"code": "x" * 9_000_000})


ARGUMENTS = st.one_of(
    JSON,
    st.fixed_dictionaries(
        {},
        optional={
            "operatorId": st.sampled_from([*IDS, "a b", ""]) | JSON,
            "operatorType": st.sampled_from(["Filter", "Limit", "HashJoin", "HomeMade"]) | JSON,
            "properties": JSON | st.fixed_dictionaries({"limit": JSON, "predicates": JSON}),
            "inputOperatorIds": st.dictionaries(
                st.sampled_from(["0", "1", "7", "-1", "²", "input-1", "x"]),
                st.lists(st.sampled_from(IDS), max_size=3) | JSON,
                max_size=2,
            )
            | JSON,
            "summary": st.text() | JSON,
        },
    ),
    st.sampled_from([{"operatorId": "\ud800"}, {"x": float("nan")}, {1: 2}, b"", object()]),
)


@several
@given(workflows(), st.lists(st.tuples(st.sampled_from([*CANVAS_TOOLS, "fly"]), ARGUMENTS)))
def test_whatever_a_model_sends_is_done_whole_or_fails_in_words(
    workflow: Workflow, calls: Sequence[tuple[str, object]]
) -> None:
    for name, args in calls:
        text = workflow.encoded()
        try:
            after, output = call(workflow, name, args, new_link_id=link_ids())
        except ToolFailed as failed:
            after, output = workflow, failed.message
        assert output
        output.encode()
        assert "\0" not in output
        assert workflow.encoded() == text
        assert load(after.content(), **LIMITS) == after
        workflow = after


def test_deeply_nested_arguments_fail_in_words() -> None:
    deep: Any = []
    for _ in range(900):
        deep = [deep]
    with pytest.raises(ToolFailed, match="nested too deep"):
        call(JOIN, "modifyOperator", {"operatorId": "join", "properties": deep}, new_link_id=str)
