"""Whether contracts fit the tools they are for: names of arguments against the tools' schemas.

What can be seen only once a server has listed its tools (undo.md 1). A name that a tool does not
have is a slip of the pen: the pointer would find nothing, and the call leave out what it is about.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from turnback.core.contracts.model import Contract, Key, Template
from turnback.core.contracts.pointers import Pointer
from turnback.core.contracts.templates import pointers
from turnback.core.values import shown

Schemas = Mapping[str, Mapping[str, Any]]
"""The JSON Schema of each tool's arguments."""


@dataclass(frozen=True, slots=True)
class _Takes:
    """The arguments of a tool: the names it has, None where any may be, and those it needs."""

    names: frozenset[str] | None
    needed: frozenset[str]


def misfits(contracts: Mapping[str, Contract], schemas: Schemas) -> Iterator[tuple[str, str]]:
    """What of the contracts of one server does not fit its tools: the tool, and the reason."""
    for tool, contract in contracts.items():
        if tool in schemas:
            yield from ((tool, reason) for reason in _own(tool, contract, _takes(schemas[tool])))
        for where, called, args, more in _calls(contract):
            if called in schemas:
                keyed = contracts[called].key if called in contracts else None
                given = {keyed.arg} if keyed is not None and keyed.arg is not None else set()
                for reason in _call(called, args, more, _takes(schemas[called]), given):
                    yield tool, f"{where} {reason}"


def _takes(schema: Mapping[str, Any]) -> _Takes:
    names, needed = schema.get("properties"), schema.get("required")
    closed = isinstance(names, dict) and not (_OPENS & schema.keys())
    if closed and schema.get("additionalProperties") not in (None, False):
        closed = False
    return _Takes(
        frozenset(names) if closed and isinstance(names, dict) else None,
        frozenset(needed) if isinstance(needed, list) else frozenset(),
    )


_OPENS = frozenset({"patternProperties", "allOf", "anyOf", "oneOf", "$ref", "if"})
"""Members of a schema by which it may take names that are not among its `properties`."""


def _own(tool: str, contract: Contract, takes: _Takes) -> Iterator[str]:
    """What a contract says of the call's own arguments."""
    if takes.names is None:
        return
    if contract.key is not None and contract.key.arg not in (None, *takes.names):
        yield f"its `key` goes to `{contract.key.arg}`, and {_has(tool, takes)}"
    for pointer in _pointers(contract):
        for root, name in sorted(pointer.reads, key=str):
            if root == "args" and name is not None and name not in takes.names:
                yield f"it points to `{pointer.text}`, and {_has(tool, takes)}"


def _pointers(contract: Contract) -> Iterator[Pointer]:
    """Every pointer that looks into the call's own arguments.

    What confirms a cancel looks into those of the cancelling call.
    """
    said = contract.model_dump(mode="json")
    for case in said["cases"]:
        if case["cancel"] is not None:
            del case["cancel"]["confirmed"]
    yield from pointers(said)


def _calls(contract: Contract) -> Iterator[tuple[str, str, Template, frozenset[str]]]:
    """The calls that a contract makes: where, of which tool, with which arguments, and more."""
    none: frozenset[str] = frozenset()
    for kind, resource in contract.resources.items():
        if resource.read is not None:
            where = f"the resource `{kind}` is read by `{resource.read.call}`, which"
            yield where, resource.read.call, resource.read.args, none
    if contract.find is not None:
        where = f"`find` calls `{contract.find.call}`, which"
        yield where, contract.find.call, contract.find.args, none
    for number, case in enumerate(contract.cases):
        for call in case.inverse:
            where = f"case {number}: its inverse calls `{call.call}`, which"
            yield where, call.call, call.args, frozenset(call.if_match) | _keyed(call.key)
        if case.cancel is not None:
            where = f"case {number}: `cancel` calls `{case.cancel.call}`, which"
            yield where, case.cancel.call, case.cancel.args, _keyed(case.cancel.key)


def _keyed(key: Key | None) -> frozenset[str]:
    return frozenset() if key is None or key.arg is None else frozenset({key.arg})


def _call(
    tool: str, args: Template, more: frozenset[str], takes: _Takes, given: set[str]
) -> Iterator[str]:
    if isinstance(args, dict) and "$literal" in args:
        args = args["$literal"]
    if not isinstance(args, dict) or any(str(name).startswith("$") for name in args):
        return  # one pointer for all of them: which they are is known at the call
    names = {*args, *more}
    for name in sorted(names - (takes.names or names)):
        yield f"takes no `{shown(name)}`: {_has(tool, takes)}"
    for name in sorted(takes.needed - names - given):
        yield f"needs `{shown(name)}`: say where it comes from"


def _has(tool: str, takes: _Takes) -> str:
    names = ", ".join(f"`{shown(name)}`" for name in sorted(takes.names or ())[:20])
    return f"`{shown(tool)}` has {names or 'no arguments'}"
