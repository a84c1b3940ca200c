"""What the model is told: the workflow block within its bytes, the types in brief."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from workflows import FILES

from turnback.agent.prompt import (
    WORKFLOW_CLOSES,
    WORKFLOW_OPENS,
    instructions,
    outline,
    signature,
    workflow_block,
)
from turnback.core.operators import CATALOG
from turnback.core.workflow import EMPTY, Workflow, load, load_json


def workflow(*operators: dict[str, Any], **members: Any) -> Workflow:
    return load(
        {"operators": list(operators), "links": [], **members}, max_bytes=1_000_000, max_depth=50
    )


def read(text: str) -> Any:
    """The workflow block of instructions."""
    return orjson.loads(text.partition(WORKFLOW_OPENS)[2].partition(WORKFLOW_CLOSES)[0])


def test_an_operator_is_shown_in_the_words_of_add_operator() -> None:
    shown = outline(
        workflow(
            {"operatorID": "a", "operatorType": "CSVFileScan"},
            {
                "operatorID": "b",
                "operatorType": "HashJoin",
                "operatorProperties": {"joinType": "inner"},
                "customDisplayName": "Both",
                "isDisabled": True,
            },
            links=[
                {
                    "linkID": f"l{n}",
                    "source": {"operatorID": "a", "portID": "output-0"},
                    "target": {"operatorID": "b", "portID": f"input-{n}"},
                }
                for n in (0, 1)
            ],
            commentBoxes=[{"commentBoxID": "c", "comments": [{"content": "why"}]}],
        )
    )
    assert shown == {
        "operators": [
            {"operatorId": "a", "operatorType": "CSVFileScan", "summary": "", "properties": {}},
            {
                "operatorId": "b",
                "operatorType": "HashJoin",
                "summary": "Both",
                "properties": {"joinType": "inner"},
                "isDisabled": True,
                "inputOperatorIds": {"0": ["a"], "1": ["a"]},
            },
        ],
        "comments": [[{"content": "why"}]],
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_in_the_field_can_be_shown(path: Any) -> None:
    loaded = load_json(path.read_bytes(), max_bytes=1_000_000, max_depth=50)
    shown = read(instructions(workflow_block(loaded, max_bytes=100_000), cut=False))
    assert [operator["operatorId"] for operator in shown["operators"]] == list(loaded.operators)
    assert sum(
        len(sources)
        for operator in shown["operators"]
        for sources in operator.get("inputOperatorIds", {}).values()
    ) == len(loaded.links)


def test_a_large_workflow_loses_its_oldest_properties_then_its_operators_and_says_so() -> None:
    large = workflow(
        *(
            {
                "operatorID": f"op{n}",
                "operatorType": "PythonUDFV2",
                "operatorProperties": {"code": "x" * 1000},
            }
            for n in range(100)
        )
    )
    whole = orjson.loads(workflow_block(large, max_bytes=200_000))
    assert whole["operators"][0]["properties"]["code"]
    brief = workflow_block(large, max_bytes=20_000)
    assert 19_000 < len(brief) <= 20_000
    shown = orjson.loads(brief)
    assert [operator["operatorId"] for operator in shown["operators"]] == list(large.operators)
    with_properties = ["properties" in operator for operator in shown["operators"]]
    assert with_properties == sorted(with_properties)
    assert 8 < sum(with_properties) < 20
    assert "`getWorkflow` with `operatorIds` has them" in shown["note"]
    least = orjson.loads(workflow_block(large, max_bytes=1_000))
    assert least["tooLargeToShow"] == {"operators": 100, "links": 0}


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([WORKFLOW_OPENS, WORKFLOW_CLOSES, "</", "<", "\\", "\n", "x"])).map(
        "".join
    )
)
def test_no_text_in_a_workflow_can_end_its_block(text: str) -> None:
    hostile = workflow(
        {"operatorID": "a", "operatorType": "Filter", "operatorProperties": {text: text}}
    )
    block = workflow_block(hostile, max_bytes=100_000)
    assert read(instructions(block, cut=True)) == outline(hostile)


def test_the_types_are_told_with_ports_properties_and_purpose() -> None:
    told = instructions(workflow_block(EMPTY, max_bytes=1000), cut=False)
    for name, kind in CATALOG.types.items():
        assert f"- {name} (" in told
        assert kind.description in told
    assert (
        "- HashJoin (2 in, 1 out) {buildAttributeName: string, probeAttributeName: string, "
        'joinType?: "inner"|"left outer"|"right outer"|"full outer"}: '
    ) in told


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"type": "integer"}, "integer"),
        ({"type": ["string", "null"]}, "string|null"),
        ({"enum": ["a", 1]}, '"a"|1'),
        ({"const": "a"}, '"a"'),
        ({"type": "array", "items": {"type": "string"}}, "[string]"),
        ({"type": "array"}, "[any]"),
        ({"type": "object", "properties": {}}, "{}"),
        (
            {"properties": {"result attribute": {"type": "string"}, "n": {}}, "required": ["n"]},
            '{"result attribute"?: string, n: any}',
        ),
    ],
)
def test_a_schema_is_shortened_to_a_type(schema: dict[str, Any], wanted: str) -> None:
    assert signature(schema) == wanted
