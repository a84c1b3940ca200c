"""Cursors of lists of sessions: when the last one given was made, in µs, and its id."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from turnback.core.errors import BadCursor
from turnback.store.ids import ID
from turnback.store.rows import ListPlace

CURSOR = re.compile(rf"^[0-9]{{1,16}}\.{ID.pattern.removeprefix('^')}")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def cursor_of(place: ListPlace) -> str:
    """The cursor of what is below a place."""
    return f"{(place.created_at - _EPOCH) // timedelta(microseconds=1)}.{place.id}"


def place_of(cursor: str | None) -> ListPlace | None:
    """The inverse, None without a cursor. Raises `BadCursor`."""
    if cursor is None:
        return None
    if CURSOR.fullmatch(cursor) is None:
        raise bad_cursor()
    microseconds, _, id_ = cursor.partition(".")
    return ListPlace(_EPOCH + timedelta(microseconds=int(microseconds)), id_)


def bad_cursor() -> BadCursor:
    """What is said of a text that no listing has given."""
    return BadCursor("`cursor` is not one of this listing's; begin again without it")
