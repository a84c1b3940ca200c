"""How a caller reads: the language that they ask for, and times of day where they are."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Annotated

from fastapi import Query, Request

from turnback.core.undo.words import Language, When, language_of

UtcOffset = Annotated[int, Query(ge=-840, le=840)]
"""Minutes by which the reader's clock is ahead of UTC."""

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def language(request: Request) -> Language:
    """The first language of `Accept-Language` that there are words in."""
    header = request.headers.get("accept-language", "")
    tags = [part.partition(";")[0].strip() for part in header.split(",")]
    return language_of(tag for tag in tags if tag)


def calendar(language: Language, utc_offset: int) -> When:
    """How this reader writes a moment.

    The offset is said with it: on another day of the year the reader's clock may have had another.
    """
    zone = timezone(timedelta(minutes=utc_offset))
    hours, minutes = divmod(abs(utc_offset), 60)
    sign = "+" if utc_offset > 0 else "−"
    name = "UTC" if not utc_offset else f"UTC{sign}{hours}" + (f":{minutes:02}" if minutes else "")

    def when(ms: int) -> str:
        at = datetime.fromtimestamp(ms / 1000, zone)
        if language is Language.GERMAN:
            return f"{at:%d.%m.%Y}, {at:%H:%M} {name}"
        return f"{at.day} {_MONTHS[at.month - 1]} {at.year}, {at:%H:%M} {name}"

    return when
