"""The operator types that can be added to a workflow: ports, and what properties may hold.

The types are data (`operator_types.json`, protocol.md 2). A type that is not among them is kept
on load and refused on add. The keys `required` of a schema say what an operator needs before it
can run; one that still lacks some of it may stand on the canvas, as a person's may.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
from jsonschema import Draft202012Validator

from turnback.core.errors import InvalidEdit
from turnback.core.values import pointer, shown

ERRORS_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class OperatorType:
    """One type: its name on the wire, what a person reads, its ports, its properties' schema."""

    type: str
    label: str
    group: str
    description: str
    input_ports: tuple[Mapping[str, Any], ...]
    output_ports: tuple[Mapping[str, Any], ...]
    dynamic_ports: bool
    properties: Mapping[str, Any]


class Catalog:
    """The known types, and what is made with them. `known` and `types` are by type name."""

    def __init__(self, types: Mapping[str, OperatorType]) -> None:
        self.types = types
        self.known = frozenset(types)
        self._validators = {
            name: Draft202012Validator({**kind.properties, "required": []})
            for name, kind in types.items()
        }

    def as_list(self) -> list[dict[str, Any]]:
        """The types as JSON objects, for who draws or lists them."""
        return [asdict(kind) for kind in self.types.values()]

    def new_operator(
        self, operator_id: str, operator_type: str, properties: Mapping[str, Any], summary: str
    ) -> dict[str, Any]:
        """A new operator in the document's form, with the type's ports and default properties."""
        kind = self.types[operator_type]
        defaults = {
            name: schema["default"]
            for name, schema in kind.properties["properties"].items()
            if "default" in schema
        }
        return {
            "operatorID": operator_id,
            "operatorType": operator_type,
            "operatorVersion": "N/A",
            "operatorProperties": {**deepcopy(defaults), **properties},
            "inputPorts": [deepcopy(dict(port)) for port in kind.input_ports],
            "outputPorts": [deepcopy(dict(port)) for port in kind.output_ports],
            "showAdvanced": False,
            "isDisabled": False,
            "customDisplayName": summary or kind.label,
            "dynamicInputPorts": kind.dynamic_ports,
            "dynamicOutputPorts": kind.dynamic_ports,
        }

    def check_properties(self, operator_type: str, properties: Mapping[str, Any]) -> None:
        """Raise `InvalidEdit` where a property of a known type has a value its schema refuses.

        Properties that the schema does not name are free, as they are in files.
        """
        if operator_type not in self._validators:
            return
        errors = sorted(
            self._validators[operator_type].iter_errors(dict(properties)),
            key=lambda error: str(error.absolute_path),
        )
        if errors:
            wrong = "; ".join(
                f"`{pointer(tuple(error.absolute_path))[1:]}`: {shown(error.message, limit=200)}"
                for error in errors[:ERRORS_SHOWN]
            )
            raise InvalidEdit(f"Wrong properties for `{operator_type}`: {wrong}")


def _read(data: bytes) -> Catalog:
    return Catalog({name: _type(name, entry) for name, entry in orjson.loads(data).items()})


def _type(name: str, entry: Mapping[str, Any]) -> OperatorType:
    return OperatorType(
        type=name,
        label=entry["label"],
        group=entry["group"],
        description=entry["description"],
        input_ports=tuple(
            {**_port("input", index, port), "dependencies": port.get("dependencies", [])}
            for index, port in enumerate(entry["inputPorts"])
        ),
        output_ports=tuple(
            _port("output", index, port) for index, port in enumerate(entry["outputPorts"])
        ),
        dynamic_ports=entry["dynamicPorts"],
        properties=entry["properties"],
    )


def _port(side: str, index: int, port: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "portID": f"{side}-{index}",
        "displayName": port["displayName"],
        "disallowMultiInputs": False,
        "isDynamicPort": False,
    }


CATALOG = _read(Path(__file__).with_name("operator_types.json").read_bytes())
