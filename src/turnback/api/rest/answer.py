"""How a route answers: JSON in snake_case, and problems as OpenAPI has them."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Literal

import orjson
from fastapi import Response
from pydantic import BaseModel


class Problem(BaseModel):
    """An error, as RFC 9457 has it; `code` is the one that the socket would say."""

    type: Literal["about:blank"]
    title: str
    status: int
    detail: str
    code: str
    data: dict[str, Any]


PROBLEM: dict[str, Any] = {
    "description": "Refused: `code` says why.",
    "headers": {
        "Retry-After": {
            "description": "Seconds, where the same may succeed after them.",
            "schema": {"type": "integer"},
        }
    },
    "content": {"application/problem+json": {"schema": Problem.model_json_schema()}},
}

PROBLEMS: dict[int | str, dict[str, Any]] = {422: PROBLEM, "default": PROBLEM}


def json_answer(
    value: Any, *, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """A value as JSON."""
    return Response(
        orjson.dumps(value), status_code=status, media_type="application/json", headers=headers
    )


def snake(value: dict[str, Any]) -> dict[str, Any]:
    """A step's members renamed for REST; what tools took and gave is left as it is."""
    renamed: dict[str, Any] = {}
    for name, member in value.items():
        if name in ("toolCalls", "toolResults"):
            member = [snake(item) for item in member]
        elif name == "usage" and member is not None:
            member = snake(member)
        renamed[_snake(name)] = member
    return renamed


@cache
def _snake(name: str) -> str:
    return re.sub(r"([A-Z])", lambda m: "_" + m[1].lower(), name)
