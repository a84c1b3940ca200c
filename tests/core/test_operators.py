"""The operator types: their schemas are sound, and fit the files and the recorded calls."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator
from workflows import DATA, FILES, LIMITS

from turnback.core.errors import InvalidEdit
from turnback.core.operators import CATALOG
from turnback.core.workflow import load

PROMISED = {
    *("CSVFileScan", "TextInput", "Filter", "Projection", "TypeCasting", "Sort", "Limit"),
    *("Distinct", "Union", "KeywordSearch", "HashJoin", "Aggregate", "LineChart", "BarChart"),
    *("PieChart", "Histogram", "Scatterplot", "WordCloud", "PythonUDFV2", "PythonUDFSourceV2"),
}


def test_every_promised_type_is_known() -> None:
    assert len(PROMISED) == 20
    assert CATALOG.known >= PROMISED
    assert "HomeMade" not in CATALOG.known


@pytest.mark.parametrize("name", sorted(CATALOG.known))
def test_a_type_is_described_and_its_schema_is_sound(name: str) -> None:
    kind = CATALOG.types[name]
    assert kind.type == name
    assert kind.label
    assert kind.group
    assert kind.description.endswith(".")
    Draft202012Validator.check_schema(kind.properties)
    properties = kind.properties["properties"]
    assert set(kind.properties.get("required", ())) <= set(properties)
    assert all(schema["title"] for schema in properties.values())
    defaults = {n: schema["default"] for n, schema in properties.items() if "default" in schema}
    CATALOG.check_properties(name, defaults)


@pytest.mark.parametrize("name", sorted(CATALOG.known))
def test_a_new_operator_has_the_ports_of_its_type_and_loads(name: str) -> None:
    kind = CATALOG.types[name]
    operator = CATALOG.new_operator("op1", name, {}, "")
    assert load({"operators": [operator]}, **LIMITS).operators["op1"] == operator
    for side, ports in (("input", kind.input_ports), ("output", kind.output_ports)):
        assert [port["portID"] for port in operator[f"{side}Ports"]] == [
            f"{side}-{index}" for index in range(len(ports))
        ]
    assert operator["customDisplayName"] == kind.label


def test_what_is_made_of_a_type_does_not_change_the_type() -> None:
    before = orjson.dumps(CATALOG.as_list())
    operator = CATALOG.new_operator("a", "HashJoin", {}, "")
    operator["inputPorts"][1]["dependencies"].append("x")
    operator["operatorProperties"]["joinType"] = "x"
    assert orjson.dumps(CATALOG.as_list()) == before


def test_properties_given_come_over_the_defaults_and_in_their_order() -> None:
    operator = CATALOG.new_operator("a", "CSVFileScan", {"fileName": "f", "hasHeader": False}, "")
    assert list(operator["operatorProperties"].items()) == [
        ("customDelimiter", ","),
        ("hasHeader", False),
        ("fileName", "f"),
    ]


def recorded_operators() -> list[dict[str, Any]]:
    documents = [orjson.loads(path.read_bytes()) for path in FILES]
    calls = orjson.loads((DATA / "recorded_tool_calls.json").read_bytes())
    documents += [call["after"] for call in calls]
    return [operator for document in documents for operator in document["operators"]]


@pytest.mark.parametrize("operator", recorded_operators(), ids=lambda o: o["operatorID"][:20])
def test_operators_of_files_and_recordings_have_properties_that_pass(
    operator: dict[str, Any],
) -> None:
    CATALOG.check_properties(operator["operatorType"], operator["operatorProperties"])
    kind = CATALOG.types[operator["operatorType"]]
    for side, ports in (("inputPorts", kind.input_ports), ("outputPorts", kind.output_ports)):
        assert [p["portID"] for p in operator[side]] == [p["portID"] for p in ports]


@pytest.mark.parametrize(
    ("name", "properties", "words"),
    [
        ("Limit", {"limit": "ten"}, "`limit`: 'ten' is not of type 'integer'"),
        ("Limit", {"limit": -1}, "`limit`: -1 is less than the minimum of 0"),
        (
            "Filter",
            {"predicates": [{"attribute": "a", "condition": "~"}]},
            "`predicates/0/condition`: '~' is not one of ['=', '!=', '>'",
        ),
        ("Filter", {"predicates": [{"value": "1"}]}, "'attribute' is a required property"),
        ("HashJoin", {"joinType": "sideways"}, "`joinType`: 'sideways' is not one of"),
        ("PythonUDFV2", {"workers": 0, "code": 1}, "`code`: 1 is not of type 'string'; `workers`"),
    ],
)
def test_a_wrong_property_is_named_with_what_is_wrong(
    name: str, properties: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidEdit) as refused:
        CATALOG.check_properties(name, properties)
    assert words in refused.value.message


def test_many_long_mistakes_make_a_short_message() -> None:
    predicates = [{"attribute": "a", "condition": "x" * 10_000}] * 50
    with pytest.raises(InvalidEdit) as refused:
        CATALOG.check_properties("Filter", {"predicates": predicates})
    assert len(refused.value.message) < 800


@pytest.mark.parametrize(
    ("name", "properties"),
    [
        ("Filter", {}),
        ("Limit", {"note": "a property that the schema does not name"}),
        ("HomeMade", {"limit": "ten"}),
    ],
)
def test_an_unfinished_operator_and_unknown_names_pass(
    name: str, properties: dict[str, Any]
) -> None:
    CATALOG.check_properties(name, properties)
