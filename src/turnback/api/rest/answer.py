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

CREATED: dict[str, Any] = {
    "headers": {
        "Location": {"description": "Its path.", "required": True, "schema": {"type": "string"}}
    }
}
"""What 201 answers beside its body, as OpenAPI has it."""

PROBLEMS: dict[int | str, dict[str, Any]] = {422: PROBLEM, "default": PROBLEM}


def json_answer(
    value: Any, *, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """A value as JSON."""
    return Response(
        orjson.dumps(value), status_code=status, media_type="application/json", headers=headers
    )


def snake(member: Any) -> Any:
    """A member of a step renamed for REST; what tools took and gave is left as it is."""
    match member:
        case dict():
            return {snake_name(name): value for name, value in member.items()}
        case list():
            return [snake(item) for item in member]
        case _:
            return member


@cache
def snake_name(name: str) -> str:
    """The name of a frame's member as REST has it."""
    return re.sub(r"([A-Z])", lambda m: "_" + m[1].lower(), name)
