"""Pointers written in Python are the same text, and versions name what was meant."""

from __future__ import annotations

from typing import Any

import pytest

from turnback.core.contracts.builder import Path, args, before, item, key, now, result
from turnback.core.contracts.model import Contract, parse
from turnback.core.contracts.version import dumped, pin, version


@pytest.mark.parametrize(
    ("path", "template"),
    [
        (args.id, {"$1": "$.args.id"}),
        (args["to whom"][0].name, {"$1": '$.args["to whom"][0].name'}),
        (before.contact[0].phone, {"$1": "$.before.contact[0].phone"}),
        (result.entities.each.name, {"$": "$.result.entities[*].name"}),
        (now.rows.where("@.id == $.key.id").name, {"$": "$.now.rows[?@.id == $.key.id].name"}),
        (args.entityNames.all, {"$": "$.args.entityNames"}),
        (
            before.contact[0].phone.given(args.phone),
            {"$1": "$.before.contact[0].phone", "if": "$.args.phone"},
        ),
        (
            before.contact[0].fields.only(args.fields, else_=None),
            {"$1": "$.before.contact[0].fields", "only": "$.args.fields", "else": None},
        ),
        (key.id, {"$1": "$.key.id"}),
        (item, {"$1": "$.item"}),
    ],
)
def test_a_pointer_in_python_is_the_same_text(path: Path, template: dict[str, Any]) -> None:
    assert path.template() == template


IN_PYTHON = {
    "resources": {
        "note": {
            "key": ["id"],
            "read": {"call": "get_note", "args": {"id": key.id}},
            "state": {"text": now.text},
        }
    },
    "touches": [{"note": {"id": args.id}}],
    "unchanged": {"empty": result.changed.all},
    "cases": [
        {
            "class": "reversible",
            "when": {"exists": before.note[0].text},
            "inverse": [{"call": "set", "args": {"id": args.id, "text": before.note[0].text}}],
        }
    ],
}

IN_JSON = {
    "resources": {
        "note": {
            "key": ["id"],
            "read": {"call": "get_note", "args": {"id": {"$1": "$.key.id"}}},
            "state": {"text": {"$1": "$.now.text"}},
        }
    },
    "touches": [{"note": {"id": {"$1": "$.args.id"}}}],
    "unchanged": {"empty": {"$": "$.result.changed"}},
    "cases": [
        {
            "class": "reversible",
            "when": {"exists": {"$1": "$.before.note[0].text"}},
            "inverse": [
                {
                    "call": "set",
                    "args": {"id": {"$1": "$.args.id"}, "text": {"$1": "$.before.note[0].text"}},
                }
            ],
        }
    ],
}


def test_a_contract_is_the_same_through_either_front() -> None:
    assert parse(IN_PYTHON, of="set") == parse(IN_JSON, of="set")
    assert version(parse(IN_PYTHON, of="set")) == version(parse(IN_JSON, of="set"))


def test_a_contract_is_read_back_as_it_was_written_down() -> None:
    contract = parse(IN_JSON, of="set")
    again = parse(dumped(contract), of="set")
    assert (again, version(again)) == (contract, version(contract))
    assert parse(dumped(Contract()), of="none") == Contract()


def test_another_contract_has_another_version() -> None:
    other = parse({**IN_JSON, "at_least": "compensable"}, of="set")
    assert version(other) != version(parse(IN_JSON, of="set"))


def test_a_tool_that_says_anything_else_of_itself_has_another_pin() -> None:
    schema = {"type": "object", "properties": {"id": {}}}
    same = pin("a", "b", {"properties": {"id": {}}, "type": "object"})
    assert pin("a", "b", schema) == same
    others = [pin("x", "b", schema), pin("a", "x", schema), pin("a", "b", {"type": "object"})]
    assert same not in others
