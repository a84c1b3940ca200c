"""The contracts as files: OpenAPI, the frames' JSON Schema, AsyncAPI, TypeScript types, settings.

`turnback schema` writes them; a test compares what is committed with what the code says now.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from turnback import settings_table
from turnback.api import asyncapi, typescript
from turnback.api.definitions import frames
from turnback.app import create_app
from turnback.settings import Settings

FRAMES = Path("docs/api/frames.schema.json")
OPENAPI = Path("docs/api/openapi.json")
ASYNCAPI = Path("docs/api/asyncapi.json")
SETTINGS = Path("docs/settings.md")
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
        SETTINGS: settings_table.render().encode(),
        TYPES: typescript.render(schema["$defs"]).encode(),
    }


def openapi() -> dict[str, Any]:
    """The OpenAPI document of the REST routes."""
    return create_app(Settings(), "postgresql://unused").openapi()


def _pretty(document: Any) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
