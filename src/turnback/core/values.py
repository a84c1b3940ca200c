"""JSON values as a workflow holds them: what can be held, and text read without silent loss.

"Equal means the same canonical JSON, member order kept; what cannot be held (NUL, numbers beyond
64 bits) is refused at load with its path" (protocol.md 2).
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

import orjson

from turnback.core.errors import InvalidWorkflow

Path = tuple[str | int, ...]  # from the document to a value in it

DEEPEST = 240  # orjson encodes 254 levels, and frames wrap a document in a few of their own

_LOWEST, _HIGHEST = -(2**63), 2**64 - 1
_LONG_NUMBER = re.compile(rb"[0-9]{19}")


def pointer(path: Path) -> str:
    """A path as a JSON pointer (RFC 6901), cut where it would be too long to show."""
    steps = (str(step).replace("~", "~0").replace("/", "~1") for step in path)
    return shown("".join(f"/{step}" for step in steps), limit=300)


def counted(number: int, one: str) -> str:
    """So many of them, in words: `one` is the word for one, whose plural takes an `s`."""
    return f"{number} {one}" if number == 1 else f"{number} {one}s"


def shown(text: str, *, limit: int = 80) -> str:
    """A stranger's text, fit to stand in a message: bounded, and nothing unprintable in it."""
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def refuse(path: Path, sentence: str) -> NoReturn:
    """Raise `InvalidWorkflow`, whose data names the path."""
    where = pointer(path)
    raise InvalidWorkflow(f"{sentence} (at `{where or '/'}`)", path=where)


def check(value: object, path: Path, depth: int) -> None:
    """Raise `InvalidWorkflow` unless the value can be held; `depth` containers may nest in it."""
    kind = type(value)
    if kind is str:
        _check_text(value, path)  # type: ignore[arg-type]
    elif value is None or kind is bool:
        return
    elif kind is int:
        if not _LOWEST <= value <= _HIGHEST:  # type: ignore[operator]
            refuse(path, "A whole number beyond 64 bits cannot be held; write it as text")
    elif kind is float:
        if not math.isfinite(value):  # type: ignore[arg-type]
            refuse(path, "NaN and Infinity are not JSON numbers; leave the member out")
    elif kind is dict:
        if depth < 1:
            refuse(path, "The document is nested too deep here")
        for name, item in value.items():  # type: ignore[attr-defined]
            if type(name) is not str:
                refuse(path, "A member's name must be text")
            _check_text(name, path)
            check(item, (*path, name), depth - 1)
    elif kind is list:
        if depth < 1:
            refuse(path, "The document is nested too deep here")
        for index, item in enumerate(value):  # type: ignore[arg-type]
            check(item, (*path, index), depth - 1)
    else:
        refuse(path, f"A Python `{kind.__name__}` is not a JSON value")


def _check_text(text: str, path: Path) -> None:
    if "\0" in text:
        refuse(path, "Text with a NUL character cannot be held; remove it")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            refuse(path, "Text with half a surrogate pair is not Unicode; remove it")


def parse(data: bytes) -> Any:
    """JSON text as values, of which `check` refuses what orjson would silently round.

    orjson reads a whole number beyond 64 bits as a float, and names no path for NaN, for a number
    as large as infinity or for half a surrogate pair. Text that may hold one of them is read by
    the slower parser of the standard library. Raises `ValueError` for what is not JSON.
    """
    if not _LONG_NUMBER.search(data):
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError:
            pass
    try:
        return json.loads(data.decode(), parse_int=_whole_number)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _whole_number(digits: str) -> int:
    # int() refuses thousands of digits; one more than the most that can be held says as much.
    return int(digits) if len(digits) < 30 else _HIGHEST + 1
