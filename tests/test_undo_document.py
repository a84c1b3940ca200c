"""`docs/undo.md`: its contracts are parsed and do what it says that they do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from turnback.core.contracts import answers, choose, states
from turnback.core.contracts.model import Case, Condition, Contract, InverseCall, Resource
from turnback.core.undo import residue
from turnback.core.undo.words import en
from turnback.tools import overlays
from turnback.tools.connection import Listed
from turnback.tools.decorator import connections_of
from turnback.tools.registry import META_KEY, Front, Registry, Tool

PAGE = (Path(__file__).parents[1] / "docs" / "undo.md").read_text()
BLOCKS = re.findall(r"^```([^\n]+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def blocks(kind: str) -> list[str]:
    return [text for name, text in BLOCKS if name == kind]


def from_yaml() -> Tool:
    (text,) = blocks("yaml")
    (fragment,) = blocks("yaml fragment")
    contracts = overlays.parsed(text + fragment, of="docs")["crm"]
    assert contracts.sandbox is not None
    registry = Registry(overlays={"crm": contracts.contracts})
    listed = [Listed(name, "", {}) for name in ("update_contact", "get_contact")]
    return registry.put("crm", listed)[0]


def from_python() -> Tool:
    (text,) = blocks("python")
    module = ModuleType("of_the_page")
    exec(compile(text, "docs/undo.md", "exec"), module.__dict__)
    (connection,) = connections_of([module])
    registry = Registry()
    listed = [Listed(name, "", {}) for name in connection.contracts]
    registry.put(connection.name, listed, contracts=connection.contracts)
    made = registry.get("calendar", "create_event")
    assert made is not None
    return made


def from_meta() -> Tool:
    (text,) = blocks("json meta send_email")
    tools = [
        Listed("send_email", "", {}, meta={META_KEY: json.loads(text)}),
        Listed("recall_email", "", {}),
        Listed("list_sent", "", {}),
    ]
    return Registry().put("mail", tools, trusted=True)[0]


def takes(*names: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {} for name in names}, "required": list(names)}


def test_what_one_begins_with_is_a_contract_of_each_kind() -> None:
    (text,) = blocks("yaml skeleton")
    registry = Registry(overlays={"tickets": overlays.parsed(text, of="docs")["tickets"].contracts})
    listed = {
        "list_tickets": takes(),
        "get_ticket": takes("id"),
        "create_ticket": takes("title"),
        "delete_ticket": takes("id"),
        "set_status": takes("id", "status"),
        "add_comment": takes("id", "text"),
    }
    tools = registry.put("tickets", [Listed(name, "", schema) for name, schema in listed.items()])
    assert {tool.name: tool.worst for tool in tools if tool.why is None} == {
        "list_tickets": "read",
        "get_ticket": "read",
        "create_ticket": "reversible",
        "set_status": "reversible",
        "add_comment": "irreversible",
    }


def test_the_sandbox_of_tools_in_python_is_one_that_nothing_has_to_start() -> None:
    (text,) = blocks("yaml sandbox")
    calendar = overlays.parsed(text, of="docs")["calendar"]
    assert calendar.is_of_python
    assert calendar.sandbox is not None
    assert calendar.sandbox.env
    assert {sample.call for sample in calendar.sandbox.samples} == {from_python().name}


TOOLS = {"update_contact": from_yaml, "create_event": from_python, "send_email": from_meta}
EXAMPLES = [json.loads(text) for text in blocks("json example")]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["tool"])
def test_an_example_does_what_the_page_says(example: dict[str, Any]) -> None:
    tool = TOOLS[example["tool"]]()
    assert tool.why is None
    contract, args, result = tool.contract, example["args"], example["result"]
    keys = choose.touched(contract, tool.connection, args)
    before = choose.Before(
        tuple(
            (key, states.observe(contract, key, is_error=False, text="", structured=answer))
            for key, answer in zip(keys, example["before"], strict=True)
        )
    )
    decision = choose.decide(contract, tool.connection, args, before, result)
    told: dict[str, Any] = {
        "tool": tool.name,
        "args": args,
        "before": example["before"],
        "result": result,
        "class": str(decision.class_),
        "inverse": [
            {"call": call.tool, "args": call.args}
            for call in choose.inverse(contract, decision, args, before, result)
        ],
    }
    if decision.people:
        told["people"] = list(decision.people)
    if decision.residue is not None:
        told["residue"] = decision.residue
    if decision.makes:
        told["makes"] = [list(made.key) for made in decision.makes]
    cancel = choose.cancel_call(decision, contract, args, result)
    if cancel is not None and decision.cancel is not None:
        told["cancel"] = {"call": cancel.tool, "args": cancel.args}
        told["cancel_until"] = answers.moment(decision.cancel.until, args, result, sent=0)
    assert told == example


def test_each_example_came_through_another_front() -> None:
    assert {example["tool"] for example in EXAMPLES} == set(TOOLS)
    assert {make().front for make in TOOLS.values()} == set(Front)


def test_the_residues_that_there_are_words_for_are_on_the_page() -> None:
    ours = {*residue.TEMPLATE_OF_STATE.values(), *residue.TEMPLATE_OF_REASON.values()}
    for name in set(en.WORDS.residues) - ours - {"undeclared", "told"}:
        assert f"`{name}`" in PAGE


@pytest.mark.parametrize("part", [Contract, Resource, Case, Condition, InverseCall])
def test_every_part_of_the_model_is_on_the_page(part: Any) -> None:
    for name, field in part.model_fields.items():
        assert f"`{field.alias or name}" in PAGE, f"`{field.alias or name}` is not explained"
