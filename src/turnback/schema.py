"""The contracts as files: OpenAPI, the frames' JSON Schema, AsyncAPI and TypeScript types.

`turnback schema` writes them; a test compares what is committed with what the code says now.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
from pydantic import TypeAdapter

from turnback.api import asyncapi, typescript
from turnback.api.base_frames import BaseClientFrame, BaseServerFrame
from turnback.api.frames import ClientFrame, ServerFrame
from turnback.app import create_app
from turnback.settings import Settings

FRAMES = Path("docs/api/frames.schema.json")
OPENAPI = Path("docs/api/openapi.json")
ASYNCAPI = Path("docs/api/asyncapi.json")
TYPES = Path("panel/src/client/types.gen.ts")


def write(directory: Path) -> list[Path]:
    """Write the files under `directory`, the repository's root; the paths written."""
    written = []
    for path, content in files().items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        written.append(target)
    return written


def files() -> dict[Path, bytes]:
    """What each file holds, by its path from the repository's root."""
    schema = frames()
    return {
        FRAMES: _pretty(schema),
        OPENAPI: _pretty(openapi()),
        ASYNCAPI: _pretty(asyncapi.document(schema["$defs"])),
        TYPES: typescript.render(schema["$defs"]).encode(),
    }


def frames() -> dict[str, Any]:
    """One JSON Schema for all frames: the unions of each kind of client under `$defs`."""
    definitions: dict[str, Any] = {}
    unions: dict[str, Any] = {
        "ClientFrame": ClientFrame,
        "ServerFrame": ServerFrame,
        "BaseClientFrame": BaseClientFrame,
        "BaseServerFrame": BaseServerFrame,
    }
    for name, union in unions.items():
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


def openapi() -> dict[str, Any]:
    """The OpenAPI document of the REST routes."""
    return create_app(Settings(), "postgresql://unused").openapi()


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


def _pretty(document: Any) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
