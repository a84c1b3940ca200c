"""Lists that are newest first: what is below a place in them, as SQL and as its arguments."""

from __future__ import annotations

from datetime import datetime

from turnback.store.rows import ListPlace


def below(created_at: str, id_: str) -> str:
    """SQL: the row to be below, of these two parameters; above everything where they are null."""
    return f"""(coalesce({created_at}::timestamptz, 'infinity'),
        coalesce({id_}::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))"""


def arguments(place: ListPlace | None) -> tuple[datetime | None, str | None]:
    """The arguments for the two parameters."""
    return (None, None) if place is None else (place.created_at, place.id)
