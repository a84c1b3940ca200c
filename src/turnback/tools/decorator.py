"""Tools in Python: a function, its schema from its signature, and its contract (undo.md 1).

    @tool(contract={
        "resources": {"contact": {
            "key": ["id"],
            "read": {"call": "get_contact", "args": {"id": key.id}},
            "state": {"phone": now.phone}}},
        "touches": [{"contact": {"id": args.id}}],
        "cases": [{"class": "reversible", "inverse": [
            {"call": "set_phone", "args": {"id": args.id, "phone": before.contact[0].phone}}]}],
    })
    async def set_phone(id: str, phone: str) -> dict: ...

A function that returns an object answers with it; what it raises is an error to the model.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic_core import to_jsonable_python

from turnback.core.contracts.checks import check, refuse
from turnback.core.contracts.fitting import misfits
from turnback.core.contracts.model import Contract, Key, parse
from turnback.core.contracts.together import server_contradictions
from turnback.core.effects import Json
from turnback.core.errors import ContractRefused, Lost
from turnback.core.values import shown
from turnback.tools.connection import KEY, Listed, Reply

CONNECTION = "python"
"""The connection of tools that name no other."""

_MARK = "__turnback_tool__"
_CONNECTION = r"[a-z0-9]+([_-][a-z0-9]+)*"

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class PythonTool:
    """A function that is a tool."""

    name: str
    connection: str
    description: str
    arguments: type[BaseModel]
    call: Callable[..., Any]
    contract: Contract | None

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        return self.arguments.model_json_schema()


def tool(
    *,
    contract: Contract | Mapping[str, Any] | None = None,
    name: str | None = None,
    connection: str = CONNECTION,
    description: str | None = None,
) -> Callable[[F], F]:
    """Make a function a tool; it stays the function it is.

    Its description is its docstring's first paragraph unless given. Without a contract it is
    irreversible. Raises `ContractRefused` for a contract that contradicts itself.
    """

    if not re.fullmatch(_CONNECTION, connection) or len(connection) > 32:
        raise ContractRefused(
            f"A connection cannot be called `{shown(connection)}`: it has small letters, digits,"
            " and single `_` or `-` between them, 32 at most"
        )

    def mark(function: F) -> F:
        called = name or function.__name__
        parsed = None if contract is None else parse(contract, of=called)
        if parsed is not None:
            check(parsed, tool=called)
        told = description or (inspect.getdoc(function) or "").split("\n\n")[0]
        made = PythonTool(called, connection, told, _arguments(function), function, parsed)
        setattr(function, _MARK, made)
        return function

    return mark


def _arguments(function: Callable[..., Any]) -> type[BaseModel]:
    """The model of a function's arguments, by its signature."""
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ContractRefused(
                f"The tool `{function.__name__}` takes `{parameter}`: name each argument"
            )
        of_any = parameter.annotation is parameter.empty
        fields[parameter.name] = (
            Any if of_any else parameter.annotation,
            ... if parameter.default is parameter.empty else parameter.default,
        )
    config = ConfigDict(extra="forbid")
    return create_model(f"{function.__name__}_arguments", __config__=config, **fields)


class PythonConnection:
    """A `Connection` of tools in Python: those that modules have marked with `@tool`.

    `contracts` are the tools' own, for `Registry.put`.
    """

    def __init__(self, name: str, tools: Iterable[PythonTool]) -> None:
        self.name = name
        self.generation = 0
        self._tools = {one.name: one for one in tools}
        self.contracts = {
            one.name: one.contract for one in self._tools.values() if one.contract is not None
        }
        found = [*server_contradictions(self.contracts, tools=self._tools)]
        found += misfits(self.contracts, {one.name: one.schema for one in self._tools.values()})
        for called, reason in found:
            refuse(called, [reason])

    async def tools(self) -> list[Listed]:
        """All of its tools."""
        return [Listed(one.name, one.description, one.schema) for one in self._tools.values()]

    async def call(
        self,
        tool: str,
        args: Mapping[str, Json],
        *,
        timeout: float,  # noqa: ASYNC109 - running out is `Lost`, no cancellation
        key: str | None = None,
        where: Key = KEY,
    ) -> Reply:
        """Call a tool once, as `Connection` says; a key goes into an argument, or nowhere."""
        made = self._tools.get(tool)
        if made is None:
            return Reply(True, f"There is no tool `{shown(tool)}`")
        keyed = {where.arg: key} if key is not None and where.arg is not None else {}
        try:
            given = made.arguments.model_validate({**args, **keyed})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            return Reply(True, f"The arguments are wrong: at `{place}`, {first['msg']}")
        values = {name: getattr(given, name) for name in made.arguments.model_fields}
        try:
            async with asyncio.timeout(timeout):
                answer = await _run(made.call, values)
        except TimeoutError:
            raise Lost(
                f"`{self.name}.{tool}` did not answer within {timeout:g} s",
                connection=self.name,
                reason="timeout",
            ) from None
        except Exception as error:
            return Reply(True, str(error) or type(error).__name__)
        return _reply(answer)


async def _run(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(**values)
    return await asyncio.to_thread(function, **values)


def _reply(answer: Any) -> Reply:
    if isinstance(answer, Reply):
        return answer
    if isinstance(answer, str):
        return Reply(False, answer)
    try:
        text = orjson.dumps(answer, default=_plain)
        json.dumps(to_jsonable_python(answer), allow_nan=False)  # orjson writes null for NaN
    except (TypeError, ValueError) as error:
        return Reply(True, f"The tool answered what is no JSON: {error}")
    value = orjson.loads(text)
    return Reply(False, text.decode(), value if isinstance(value, dict | list) else None)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"a `{type(value).__name__}`")


def connections_of(modules: Iterable[ModuleType]) -> list[PythonConnection]:
    """The connections of the tools that modules have, each with all of its tools.

    Raises `ContractRefused` for two tools of one name, and for contracts that do not go together.
    """
    found: dict[str, dict[str, PythonTool]] = {}
    for module in modules:
        for value in vars(module).values():
            made = getattr(value, _MARK, None)
            if isinstance(made, PythonTool):
                one = found.setdefault(made.connection, {}).setdefault(made.name, made)
                if one.call is not made.call:
                    raise ContractRefused(
                        f"Two tools are called `{made.connection}.{made.name}`: rename one"
                    )
    return [PythonConnection(name, tools.values()) for name, tools in found.items()]
