"""Conditional requests: the tags of `If-Match` and `If-None-Match` (RFC 9110, 13)."""

from __future__ import annotations

import re
from typing import Any

from fastapi import Request

_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')
ANY = "*"

IF_NONE_MATCH: dict[str, Any] = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "`ETag`s whose answers the client has, or `*`; 304 where one still holds.",
    "schema": {"type": "string"},
}
TAGGED: dict[str, Any] = {
    "headers": {
        "ETag": {
            "description": "For `If-None-Match`; of a workflow, for `If-Match` too.",
            "required": True,
            "schema": {"type": "string"},
        }
    }
}
CONDITIONAL: dict[int | str, dict[str, Any]] = {
    200: TAGGED,
    304: {"description": "It is as the client has it.", **TAGGED},
}
"""The headers and the answers as OpenAPI has them."""


def tags(request: Request, header: str) -> list[str] | None:
    """The entity tags that a header lists, as they stand there, or `ANY` alone; None without it.

    What is no tag matches nothing.
    """
    values = request.headers.getlist(header)
    if not values:
        return None
    listed = ", ".join(values).strip()
    return [ANY] if listed == ANY else _TAG.findall(listed)


def is_known(request: Request, etag: str) -> bool:
    """Whether `If-None-Match` names this representation, by the weak comparison: then 304."""
    known = tags(request, "If-None-Match") or []
    return known == [ANY] or etag in [tag.removeprefix("W/") for tag in known]
