"""When two JSON values are equal, and the one text that equal values have."""

from __future__ import annotations

import json
from typing import Any

import orjson

from turnback.core.effects import Json


def plain(value: Json) -> Json:
    """The value with whole floats as whole numbers, so that equal numbers are equal text."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value


def canonical(value: Any) -> bytes:
    """JSON that is the same for equal values: members in order of their names."""
    try:
        return orjson.dumps(plain(value), option=orjson.OPT_SORT_KEYS)
    except TypeError:  # whole numbers beyond 64 bits, which orjson does not write
        return json.dumps(plain(value), sort_keys=True, separators=(",", ":")).encode(
            errors="surrogatepass"
        )


def same(one: Json, other: Json) -> bool:
    """Whether two values are equal as JSON; `true` is not `1`."""
    return canonical(one) == canonical(other)
