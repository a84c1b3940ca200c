"""The agent's tools on the canvas: what they are called, what they take, what they do.

Names, arguments and output sentences are those of protocol.md 2. A call is all or nothing: it
returns another workflow and a sentence, or raises `ToolFailed` with one that says what to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from jsonschema import Draft202012Validator

from turnback.core.edits import (
    AddLink,
    AddOperator,
    ChangeOperator,
    Edit,
    Position,
    RemoveLink,
    RemoveOperator,
)
from turnback.core.errors import InvalidEdit, InvalidWorkflow, TooLarge, ToolFailed
from turnback.core.layout import place
from turnback.core.operators import CATALOG
from turnback.core.values import check, pointer, shown
from turnback.core.workflow import Workflow, apply
from turnback.core.workflow.editing import MAX_BYTES, MAX_DEPTH

MAX_ARGS_DEPTH = 60  # containers in each other in a call's arguments
MAX_OUTPUT = 100_000  # characters of a workflow that `getWorkflow` gives to the model
LONG_TEXT = 400  # characters of one text in it, where it would be longer than that
NAMES_SHOWN = 40  # ids in one error

OPERATOR_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
PORT_INDEX = re.compile(r"[0-9]{1,4}")

Json = Mapping[str, Any]
NewLinkId = Callable[[], str]


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """A tool as a model is told of it; `schema` is the JSON Schema of its arguments."""

    name: str
    description: str
    schema: dict[str, Any]


def _spec(name: str, description: str, required: Sequence[str], **arguments: Json) -> ToolSpec:
    schema = {
        "type": "object",
        "properties": arguments,
        "required": list(required),
        "additionalProperties": False,
    }
    return ToolSpec(name=name, description=description, schema=schema)


def _inputs(description: str) -> Json:
    return {
        "type": "object",
        "description": "The sources of each input port, ports counted from 0: "
        f'`{{"0": ["op1"]}}`, or for a join `{{"0": ["op1"], "1": ["op2"]}}`. {description}',
        "additionalProperties": {"type": "array", "items": {"type": "string"}},
    }


CANVAS_TOOLS: dict[str, ToolSpec] = {
    spec.name: spec
    for spec in (
        _spec(
            "addOperator",
            "Add an operator to the workflow and link it to the operators that feed it, which "
            "must exist already: add sources first. It is placed on the canvas by itself. "
            'Example: {"operatorId": "op2", "operatorType": "Filter", "properties": '
            '{"predicates": [{"attribute": "amount", "condition": ">", "value": "100"}]}, '
            '"inputOperatorIds": {"0": ["op1"]}, "summary": "Keep large orders"}',
            ["operatorId", "operatorType"],
            operatorId={
                "type": "string",
                "description": "A new id: the next free one of op1, op2, op3, … (1 to 128 of "
                "A-Z, a-z, 0-9, `_` and `-`).",
            },
            operatorType={
                "type": "string",
                "enum": list(CATALOG.types),
                "description": "What it does.",
            },
            properties={
                "type": "object",
                "description": "The properties of this type. Those left out take their defaults.",
            },
            inputOperatorIds=_inputs("Leave it out for a type without input ports."),
            summary={
                "type": "string",
                "description": "What it does here, in at most five words; shown as its name.",
            },
        ),
        _spec(
            "modifyOperator",
            "Change an operator that exists: some of its properties, the links into it, its "
            "name. What is not named stays as it is.",
            ["operatorId"],
            operatorId={"type": "string", "description": "The operator to change."},
            properties={
                "type": "object",
                "description": "The properties to set, each with its whole new value.",
            },
            inputOperatorIds=_inputs(
                "Replaces all links into the operator; `{}` removes them. Leave it out to keep "
                "them."
            ),
            summary={
                "type": "string",
                "description": "What it does now, in at most five words; shown as its name.",
            },
        ),
        _spec(
            "deleteOperator",
            "Delete an operator, and all links from and to it. Other operators stay.",
            ["operatorId"],
            operatorId={"type": "string", "description": "The operator to delete."},
        ),
        _spec(
            "getWorkflow",
            "Read the whole workflow as it is now, as JSON: operators with all their properties, "
            "ports, positions, links, comments, settings.",
            [],
            operatorIds={
                "type": "array",
                "items": {"type": "string"},
                "description": "Only these operators and the links from and to them, where the "
                "whole would be too long.",
            },
        ),
    )
}

_VALIDATORS = {name: Draft202012Validator(spec.schema) for name, spec in CANVAS_TOOLS.items()}


def call(
    workflow: Workflow,
    name: str,
    args: object,
    *,
    new_link_id: NewLinkId,
    max_output: int = MAX_OUTPUT,
    max_bytes: int = MAX_BYTES,
    max_depth: int = MAX_DEPTH,
) -> tuple[Workflow, str]:
    """Call a tool on the workflow: the workflow that results, and the output for the model.

    `args` is whatever the model sent. Raises `ToolFailed` for all that is wrong with it, and for a
    `name` that is no tool on the canvas; the workflow is as it was.
    """
    try:
        given = _checked(name, args)
        match name:
            case "addOperator":
                edits, output = _add(workflow, given)
            case "modifyOperator":
                edits, output = _modify(workflow, given)
            case "deleteOperator":
                edits, output = _delete(workflow, given)
            case _:
                return workflow, _shown(workflow, given.get("operatorIds"), max_output)
        after = apply(
            workflow,
            edits,
            new_link_id=new_link_id,
            known_types=CATALOG.known,
            max_bytes=max_bytes,
            max_depth=max_depth,
        )
    except (InvalidEdit, InvalidWorkflow, TooLarge) as error:
        raise ToolFailed(error.message) from None
    return after, output


def _checked(name: str, args: object) -> dict[str, Any]:
    """The arguments, of the right form. A null counts as left out, as models mean it."""
    if name not in _VALIDATORS:
        raise ToolFailed(f"There is no tool `{shown(name)}`; there are {_names(CANVAS_TOOLS)}")
    check(args, (), MAX_ARGS_DEPTH)
    if isinstance(args, dict):
        args = {member: value for member, value in args.items() if value is not None}
    for error in _VALIDATORS[name].iter_errors(args):
        where = pointer(tuple(error.absolute_path))[1:]
        raise ToolFailed(
            f"Wrong arguments for `{name}`: {f'`{where}`: ' if where else ''}"
            f"{shown(error.message, limit=600)}"
        )
    return args  # type: ignore[return-value]


def _add(workflow: Workflow, args: Json) -> tuple[list[Edit], str]:
    operator_id, operator_type = args["operatorId"], args["operatorType"]
    if not OPERATOR_ID.fullmatch(operator_id):
        raise ToolFailed(
            f"`{shown(operator_id)}` cannot be an operator id; use 1 to 128 of A-Z, a-z, 0-9, "
            "`_` and `-`, such as `op1`"
        )
    if operator_id in workflow.operators:
        raise ToolFailed(
            f"There is an operator `{operator_id}` already; use `modifyOperator` to change it, or "
            "another id for a new one"
        )
    properties = args.get("properties", {})
    CATALOG.check_properties(operator_type, properties)
    operator = CATALOG.new_operator(
        operator_id, operator_type, properties, args.get("summary", "").strip()
    )
    wanted = _wanted(workflow, operator, args.get("inputOperatorIds", {}))
    sources = [source for source, _ in wanted]
    position = Position.model_validate(place(workflow, operator_id, sources))
    return (
        [
            AddOperator(operator=operator, position=position),
            *(_link(workflow, source, operator_id, port) for source, port in wanted),
        ],
        f"Added operator {operator_id}, input ports: {len(operator['inputPorts'])}, "
        f"output ports: {len(operator['outputPorts'])}{_links('created', sources, operator_id)}",
    )


def _modify(workflow: Workflow, args: Json) -> tuple[list[Edit], str]:
    operator_id = args["operatorId"]
    operator = _operator(workflow, operator_id)
    values: dict[str, Any] = {}
    if "properties" in args:
        # Only what is given: what a file has brought is not the model's to put right.
        CATALOG.check_properties(operator.get("operatorType", ""), args["properties"])
        values["operatorProperties"] = {
            **operator.get("operatorProperties", {}),
            **args["properties"],
        }
    if "summary" in args:
        values["customDisplayName"] = args["summary"].strip()
    edits: list[Edit] = [ChangeOperator(operator_id=operator_id, values=values)] if values else []
    created: list[str] = []
    deleted: list[str] = []
    if "inputOperatorIds" in args:
        wanted = _wanted(workflow, operator, args["inputOperatorIds"])
        for link in workflow.links:
            source, target = link["source"], link["target"]
            if target["operatorID"] != operator_id:
                continue
            joined = (source["operatorID"], target.get("portID"))
            if joined in wanted:
                wanted.remove(joined)  # it stays, with its id
            else:
                edits.append(RemoveLink(link_id=link["linkID"]))
                deleted.append(source["operatorID"])
        edits += (_link(workflow, source, operator_id, port) for source, port in wanted)
        created = [source for source, _ in wanted]
    return edits, (
        f"Operator {operator_id} modified"
        f"{_links('deleted', deleted, operator_id)}{_links('created', created, operator_id)}"
    )


def _delete(workflow: Workflow, args: Json) -> tuple[list[Edit], str]:
    operator_id = args["operatorId"]
    _operator(workflow, operator_id)
    return [RemoveOperator(operator_id=operator_id)], f"Deleted operator: {operator_id}"


def _operator(workflow: Workflow, operator_id: str) -> Json:
    if operator_id not in workflow.operators:
        raise ToolFailed(
            f"There is no operator `{shown(operator_id)}`; there are {_names(workflow.operators)}"
        )
    return workflow.operators[operator_id]


def _wanted(workflow: Workflow, operator: Json, inputs: Json) -> list[tuple[str, str]]:
    """The links into the operator that `inputOperatorIds` asks for: source, and input portID."""
    ports = [port["portID"] for port in operator.get("inputPorts", ())]
    wanted = []
    for key, sources in inputs.items():
        if PORT_INDEX.fullmatch(key) and int(key) < len(ports):
            port = ports[int(key)]
        elif key in ports:
            port = key
        else:
            raise ToolFailed(
                f"Operator `{shown(operator['operatorID'])}` has {len(ports)} input port(s), "
                f"counted from 0: there is no port `{shown(key)}`"
            )
        wanted += [(source, port) for source in sources]
    return wanted


def _link(workflow: Workflow, source_id: str, target_id: str, port: str) -> AddLink:
    if source_id == target_id:
        raise ToolFailed(f"`{shown(source_id)}` cannot feed itself; name another operator")
    source = _operator(workflow, source_id)
    outputs = source.get("outputPorts", ())
    if not outputs:
        raise ToolFailed(f"Operator `{shown(source_id)}` has no output port to link from")
    return AddLink(
        link={
            "source": {"operatorID": source_id, "portID": outputs[0]["portID"]},
            "target": {"operatorID": target_id, "portID": port},
        }
    )


def _links(done: str, sources: Sequence[str], target: str) -> str:
    if not sources:
        return ""
    return f", {done} links: [{', '.join(f'{source} --> {target}' for source in sources)}]"


def _names(names: Mapping[str, object]) -> str:
    if not names:
        return "none yet"
    some = ", ".join(f"`{shown(name)}`" for name in list(names)[:NAMES_SHOWN])
    return some if len(names) <= NAMES_SHOWN else f"{some} and {len(names) - NAMES_SHOWN} more"


def _shown(workflow: Workflow, only: Sequence[str] | None, limit: int) -> str:
    """The workflow as compact JSON: with long texts cut, or itself cut, where it is too long.

    With `only`, the operators of these ids and the links that touch them.
    """
    if only is None:
        text, content = workflow.encoded().decode(), workflow.content()
    else:
        links = [
            link
            for link in workflow.links
            if {link["source"]["operatorID"], link["target"]["operatorID"]} & set(only)
        ]
        content = {
            "operators": [_operator(workflow, operator_id) for operator_id in only],
            "links": links,
        }
        text = orjson.dumps(content).decode()
    if len(text) <= limit:
        return text
    text = orjson.dumps(_shortened(content)).decode()
    note = f"(Texts longer than {LONG_TEXT} characters are cut.) "
    if len(text) <= limit:
        return note + text
    rest = f"… (Cut here: {len(text) - limit} more characters; the workflow has "
    rest += f"{len(workflow.operators)} operators and {len(workflow.links)} links.)"
    return f"{note}{text[:limit]}{rest}"


def _shortened(value: Any) -> Any:
    match value:
        case str() if len(value) > LONG_TEXT:
            return f"{value[:LONG_TEXT]}… ({len(value) - LONG_TEXT} more characters)"
        case dict():
            return {name: _shortened(item) for name, item in value.items()}
        case list():
            return [_shortened(item) for item in value]
        case _:
            return value
