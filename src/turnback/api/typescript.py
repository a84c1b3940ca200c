"""JSON Schema definitions as TypeScript types: as much of both as our frames use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

HEADER = "// Written by `turnback schema` from the frames in src/turnback/api/. Do not edit.\n"


def render(definitions: Mapping[str, Any]) -> str:
    """One exported type for each definition. Raises `ValueError` for a form it does not know."""
    parts = [HEADER]
    for name, schema in definitions.items():
        comment = schema.get("description")
        doc = f"/** {' '.join(comment.split())} */\n" if comment else ""
        parts.append(f"{doc}export type {name} = {_type(schema)};\n")
    return "\n".join(parts)


def _type(schema: Mapping[str, Any], indent: str = "") -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    for union in ("oneOf", "anyOf"):
        if union in schema and "properties" not in schema:
            members = dict.fromkeys(_type(member, indent) for member in schema[union])
            return " | ".join(members)
    match schema.get("type"):
        case "string":
            return "string"
        case "integer" | "number":
            return "number"
        case "boolean":
            return "boolean"
        case "null":
            return "null"
        case "array":
            inner = _type(schema["items"], indent)
            return f"({inner})[]" if " | " in inner else f"{inner}[]"
        case "object" if "properties" in schema:
            return _object(schema, indent)
        case "object":
            extra = schema.get("additionalProperties")
            value = _type(extra, indent) if isinstance(extra, dict) and extra else "unknown"
            return f"Record<string, {value}>"
        case None if not set(schema) - {"description", "default"}:
            return "unknown"
    raise ValueError(f"no TypeScript for {json.dumps(schema)}")


def _object(schema: Mapping[str, Any], indent: str) -> str:
    required = schema.get("required", ())
    inner = indent + "  "
    members = [
        f"{inner}{name}{'' if name in required else '?'}: {_type(member, inner)};"
        for name, member in schema["properties"].items()
    ]
    return "{\n" + "\n".join(members) + f"\n{indent}}}"
