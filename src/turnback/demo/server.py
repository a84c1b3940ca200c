"""The demo as an MCP server over its standard streams, by hand: it starts in a few milliseconds.

It speaks the protocol's handshake of 2025, and of its methods those that a server of tools needs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from turnback.demo.acts import Refused, send_due
from turnback.demo.tools import LONGEST, TOOLS, DemoTool
from turnback.demo.world import World

KEY = "turnback/key"
SPOKEN = ("2025-11-25", "2025-06-18")

INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS = -32600, -32601, -32602


class Wrong(Exception):
    """A request that is answered by an error of the protocol."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def answers(lines: Iterable[str], world: World) -> Iterable[str]:
    """The answers to messages, line by line; notifications have none."""
    for line in lines:
        try:
            request = json.loads(line)
        except ValueError:
            continue
        if not isinstance(request, dict) or "id" not in request or "method" not in request:
            continue
        said: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            said["result"] = answer(request["method"], request.get("params") or {}, world)
        except Wrong as wrong:
            said["error"] = {"code": wrong.code, "message": str(wrong)}
        yield json.dumps(said)


def answer(method: str, params: dict[str, Any], world: World) -> dict[str, Any]:
    """The result of a method; raises `Wrong`."""
    match method:
        case "initialize":
            asked = params.get("protocolVersion")
            return {
                "protocolVersion": asked if asked in SPOKEN else SPOKEN[0],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "turnback-demo", "version": "1"},
            }
        case "ping":
            return {}
        case "tools/list":
            return {"tools": [tool.listed() for tool in TOOLS.values()]}
        case "tools/call":
            tool = TOOLS.get(params.get("name", ""))
            if tool is None:
                raise Wrong(INVALID_PARAMS, "There is no such tool")
            key = (params.get("_meta") or {}).get(KEY) if tool.keyed else None
            return call(tool, params.get("arguments") or {}, key, world)
        case _:
            raise Wrong(UNKNOWN_METHOD, "There is no such method")


def call(tool: DemoTool, args: dict[str, Any], key: str | None, world: World) -> dict[str, Any]:
    """What a tool answers; under a key that was seen, what it answered then."""
    try:
        _check(tool, args)
        with world.change():
            send_due(world)
        with world.change():
            asked = json.dumps([tool.name, args], sort_keys=True)
            done = world.replied(key, asked) if key else None
            if done is None:
                done = tool.act(world, args)
                if key:
                    world.remember(key, asked, done)
    except (Refused, ValueError) as refused:
        return {"content": [{"type": "text", "text": str(refused)}], "isError": True}
    return {"content": [{"type": "text", "text": json.dumps(done)}], "structuredContent": done}


def _check(tool: DemoTool, args: dict[str, Any]) -> None:
    for name in args.keys() - tool.properties.keys():
        raise ValueError(f"`{tool.name}` takes no `{name}`")
    for name, schema in tool.properties.items():
        if not _fits(args.get(name), schema):
            raise ValueError(f"`{tool.name}` needs `{name}`, {_words(schema)}")


_TYPES: dict[str, type] = {"string": str, "integer": int, "array": list, "object": dict}


def _fits(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value is of the few schemas that the tools use."""
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if value is None:
        return "null" in types
    if isinstance(value, bool) or not isinstance(value, _TYPES[types[0]]):
        return False
    match value:
        case str():
            return bool(schema.get("minLength", 0) <= len(value) <= LONGEST)
        case int():
            return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
        case list():
            sized = schema["minItems"] <= len(value) <= schema["maxItems"]
            return sized and all(_fits(item, schema["items"]) for item in value)
        case dict():
            return all(_fits(item, schema["additionalProperties"]) for item in value.values())
        case _:
            return False


def _words(schema: dict[str, Any]) -> str:
    words = {"string": "a text", "integer": "a whole number", "array": "a list of texts"}
    return words.get(str(schema["type"]), "an object of texts")
