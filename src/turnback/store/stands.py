"""Where the effects of a family stand, read as one value (undo.md 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from turnback.core.effects import Standing
from turnback.store.database import Database
from turnback.store.rows import SessionKey

STANDS = """select string_agg(standing || ' ' || id, ',' order by session_id, number)
from effects where root_id = $1::uuid and standing is not null"""
"""One value for a whole family, since it is asked for at each move of HEAD."""

STAND_FOR = """select id, step_id, connection, tool from effects
where root_id = $1::uuid and id = any($2::uuid[])"""


@dataclass(frozen=True, slots=True)
class Stands:
    """Where an effect stands, and where it belongs; `tool` as it is shown.

    Its standing alone ever changes.
    """

    id: str
    step_id: str
    tool: str
    standing: Standing


@dataclass(slots=True)
class StandsKnown:
    """What somebody has read of a family last: as it was told, and what that says."""

    told: str = ""
    stands: tuple[Stands, ...] = ()


class FamilyStands:
    """Reads where effects stand."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def of(self, key: SessionKey, known: StandsKnown) -> Sequence[Stands]:
        """Where every effect of the family stands that has a standing, each session's in order.

        Of whom is read only what is new to `known`, which is brought up to date.
        """
        read = await self._db.run(lambda c: c.fetchval(STANDS, key.root_id))
        told = read or ""
        if told == known.told:
            return known.stands
        parts = told.split(",") if told else []
        now = [(id_, standing) for standing, id_ in map(str.split, parts)]
        by_id = {one.id: one for one in known.stands}
        if new := [id_ for id_, _ in now if id_ not in by_id]:
            for row in await self._db.run(lambda c: c.fetch(STAND_FOR, key.root_id, new)):
                tool = f"{row['connection']}.{row['tool']}"
                by_id[row["id"]] = Stands(row["id"], row["step_id"], tool, Standing.IN_FORCE)
        known.stands = tuple(
            one if one.standing == standing else replace(one, standing=Standing(standing))
            for id_, standing in now
            if (one := by_id.get(id_)) is not None
        )
        known.told = told
        return known.stands
