"""Where sessions come from, and what comes from them: as much of it as the caller may read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import asyncpg

from turnback.core.errors import HistoryMissing, SessionNotFound
from turnback.core.lineage import Lineage
from turnback.core.principal import Principal
from turnback.store import forks, newest
from turnback.store.access import caller, may_read
from turnback.store.database import Connection, Database
from turnback.store.rows import ListPlace, SessionKey

_UP = f"l.session_id, {', '.join(f'l.{name.strip()}' for name in forks.LINEAGE.split(','))}"

IS_THERE = """select exists (select from sessions
where root_id = $1::uuid and id = $2::uuid and deleted_at is null)"""

ANCESTORS = f"""with recursive caller as ({caller()}),
up as (
    select {_UP}, 1 as n, l.depth as most from session_lineage l
    where l.root_id = $4::uuid and l.session_id = $5::uuid
    union all
    select {_UP}, up.n + 1, up.most from up
    join session_lineage l on l.root_id = $4::uuid and l.session_id = up.parent_id
    where up.n < up.most)
select up.*, s.name, s.created_at, s.archived_at, s.deleted_at, {may_read("s", "c")} as reads
from up cross join caller c
left join sessions s on s.root_id = $4::uuid and s.id = up.parent_id
order by up.n"""
"""A row for each session above, from the nearest on: how the one below it left it, and its own."""

CHILDREN = f"""with caller as ({caller()})
select {_UP}, s.name, s.created_at, s.archived_at, s.deleted_at from caller c
join session_lineage l on l.root_id = $4::uuid and l.parent_id = $5::uuid
    and (l.created_at, l.session_id) < {newest.below("$6", "$7")}
join sessions s on s.root_id = $4::uuid and s.id = l.session_id and s.deleted_at is null
where {may_read("s", "c")}
order by l.created_at desc, l.session_id desc limit $8::bigint"""


@dataclass(frozen=True, slots=True)
class Relative:
    """A session of the same family, and how it, or what comes from it, was left.

    `name` is None where it is deleted: it is in no list any more.
    """

    id: str
    created_at: datetime
    name: str | None
    is_archived: bool
    is_deleted: bool
    lineage: Lineage

    @property
    def place(self) -> ListPlace:
        """Where it is in a list."""
        return ListPlace(self.created_at, self.id)


@dataclass(frozen=True, slots=True)
class Family:
    """A session's own lineage, the sessions above it, from its parent on, and its newest forks.

    Of these, those that the caller may read; `parent_hidden` where its parent is none of them.
    """

    lineage: Lineage | None
    parent_hidden: bool
    ancestors: list[Relative]
    children: list[Relative]


class Families:
    """Reads of families."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def of(
        self, principal: Principal, key: SessionKey, *, before: ListPlace | None, limit: int
    ) -> Family:
        """What a session comes from, and the newest `limit` of its forks below `before`.

        Three statements. Raises `SessionNotFound`, and `HistoryMissing` where the way up does not
        lead to the root.
        """
        place = (principal.credential, principal.id, principal.project_id, key.root_id, key.id)

        async def read(connection: Connection) -> Family:
            if not await connection.fetchval(IS_THERE, key.root_id, key.id):
                raise SessionNotFound("Agent not found")
            above = await connection.fetch(ANCESTORS, *place)
            if key.id != key.root_id and not (
                above and above[-1]["parent_id"] == key.root_id and len(above) == above[0]["depth"]
            ):
                raise HistoryMissing("The lineage of this session is damaged in the database")
            below = await connection.fetch(CHILDREN, *place, *newest.arguments(before), limit)
            return Family(
                lineage=forks.lineage_of(above[0]) if above else None,
                parent_hidden=bool(above) and not above[0]["reads"],
                ancestors=[_relative(row, row["parent_id"]) for row in above if row["reads"]],
                children=[_relative(row, row["session_id"]) for row in below],
            )

        return await self._db.run(read)


def _relative(row: asyncpg.Record, id_: str) -> Relative:
    return Relative(
        id=id_,
        created_at=row["created_at"],
        name=None if row["deleted_at"] else row["name"],
        is_archived=row["archived_at"] is not None,
        is_deleted=row["deleted_at"] is not None,
        lineage=forks.lineage_of(row),
    )
