"""Exceptions as a log may tell them: types, codes and places, never messages.

A message may quote what somebody wrote: a provider's refusal echoes the prompt, a database's error
the row.
"""

from __future__ import annotations

import errno
import traceback

from turnback.core.errors import TurnbackError

CHAIN = 8
"""Causes of an exception that are told, and members of a group."""


def trace(error: BaseException, *, left: int = CHAIN) -> str:
    """Where an exception came from, and what led to it, without any of their messages."""
    parts = []
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None and left:
        parts.append(trace(before, left=left - 1) + "\n\nand then\n\n")
    frames = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__), limit=-50)
    parts += ["Traceback (most recent call last):\n", *frames.format(), kind(error)]
    if isinstance(error, BaseExceptionGroup) and left:
        for member in error.exceptions[:CHAIN]:
            parts.append("\n\nholding\n\n" + trace(member, left=left - 1))
    return "".join(parts)


def kind(error: BaseException) -> str:
    """An exception's type, with the codes that say more without quoting anyone."""
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    codes = []
    if isinstance(error, TurnbackError):
        codes.append(error.code)
    if isinstance(error, OSError) and error.errno is not None:
        codes.append(errno.errorcode.get(error.errno, str(error.errno)))
    for told in ("sqlstate", "constraint_name", "status_code"):
        if isinstance(value := getattr(error, told, None), str | int):
            codes.append(f"{told} {value}")
    return f"{name} ({', '.join(codes)})" if codes else name
