"""The JSON Schema of every frame, as the contracts' files and documents hold it."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from turnback.api.base_frames import BaseClientFrame, BaseServerFrame
from turnback.api.frames import ClientFrame
from turnback.api.server_frames import ServerFrame

UNIONS: dict[str, Any] = {
    "ClientFrame": ClientFrame,
    "ServerFrame": ServerFrame,
    "BaseClientFrame": BaseClientFrame,
    "BaseServerFrame": BaseServerFrame,
}
"""What each kind of client sends and is sent."""


def frames() -> dict[str, Any]:
    """One JSON Schema for all frames: the `UNIONS` and what they refer to, under `$defs`."""
    definitions: dict[str, Any] = {}
    for name, union in UNIONS.items():
        adapter: TypeAdapter[Any] = TypeAdapter(union)
        schema = adapter.json_schema(ref_template="#/$defs/{model}")
        definitions |= schema.pop("$defs")
        definitions[name] = schema
    cleaned = {name: _clean(definition) for name, definition in sorted(definitions.items())}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The frames of Turnback's WebSocket",
        "$defs": cleaned,
    }


def moved(schema: Any, to: str) -> Any:
    """A schema whose references to `#/$defs/` lead to `to` instead."""
    if isinstance(schema, list):
        return [moved(item, to) for item in schema]
    if not isinstance(schema, dict):
        return schema.replace("#/$defs/", to) if isinstance(schema, str) else schema
    return {name: moved(member, to) for name, member in schema.items()}


def _clean(schema: Any) -> Any:
    """Without titles, and with constants required: a tag with a default would not narrow."""
    if isinstance(schema, list):
        return [_clean(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    cleaned = {
        name: _clean(member)
        for name, member in schema.items()
        if not (name == "title" and isinstance(member, str))
    }
    properties = cleaned.get("properties")
    if isinstance(properties, dict):
        constants = [n for n, p in properties.items() if isinstance(p, dict) and "const" in p]
        required = cleaned.get("required", [])
        needed = [name for name in properties if name in required or name in constants]
        if needed:
            cleaned["required"] = needed
        for name in constants:
            properties[name].pop("default", None)
    return cleaned
