"""What is wrong with a frame or a body, by the place that its sender knows it by."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from turnback.core.values import pointer


def first_fault(error: ValidationError, value: Any) -> tuple[str, str]:
    """Where the first fault is in what was sent, as a JSON pointer (RFC 6901), and what it is.

    pydantic's places also name the alternatives of unions, which no sender has written: what is
    no member of `value` is left out, unless it is the member that is missing.
    """
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    *before, last = first["loc"] or ("",)
    path: list[str | int] = []
    for part in before:
        if _holds(value, part):
            path.append(part)
            value = value[part]
    if isinstance(value, dict) or _holds(value, last):
        path.append(last)
    return pointer(tuple(path)), first["msg"]


def _holds(value: Any, part: str | int) -> bool:
    match value:
        case dict():
            return part in value
        case list():
            return isinstance(part, int) and part < len(value)
        case _:
            return False
