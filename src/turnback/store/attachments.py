"""Attachments: their rows, and who may read them (lineage.md 8).

A row is there from the moment its bytes are in place, never earlier: what has a row is ready. A
session reads what was attached in it, and what the prefix that it was forked with refers to
(`INHERITED`, in the fork's own statement). The bytes' own row, `attachment_objects`, is locked
while its file is put in place or removed, so that of an upload and a sweep of the same bytes one
comes after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from turnback.core.attachments import Attachment
from turnback.core.errors import (
    Archived,
    AttachmentGone,
    AttachmentInherited,
    AttachmentNotFound,
    SessionNotFound,
    StorageFailed,
    TooLarge,
)
from turnback.core.principal import Principal
from turnback.core.values import counted
from turnback.failpoints import hit
from turnback.store.attachment_sweep import AttachmentSweep
from turnback.store.database import Database
from turnback.store.files import Files, OpenFile, Received
from turnback.store.ids import is_id
from turnback.store.rows import SessionKey

ONE_AT_A_TIME = "select pg_advisory_xact_lock(hashtextextended($1::text, 1))"
"""The files of a session are counted and added to by one at a time; its steps do not wait."""

ROOM = """select s.archived_at is not null as archived, count(a.id) as files,
    coalesce(sum(a.size), 0)::bigint as bytes, bool_or(a.id = $3::uuid) as made
from (select root_id, id, archived_at from sessions
    where root_id = $1::uuid and id = $2::uuid and deleted_at is null for key share) s
left join attachments a on a.root_id = s.root_id and a.session_id = s.id and a.deleted_at is null
group by s.archived_at"""
"""The lock is one that only a purge and a sweep wait for: they find what is being added."""

HOLD_OBJECT = """insert into attachment_objects (project_id, sha256)
values ($1::text, $2::bytea)
on conflict (project_id, sha256) do update set touched_at = clock_timestamp()"""

ADD = """with added as (
    insert into attachments
        (root_id, id, session_id, project_id, name, type, size, sha256, principal, created_at)
    values ($1::uuid, $3::uuid, $2::uuid, $4::text, $5::text, $6::text, $7::bigint, $8::bytea,
        $9::text, $10::timestamptz))
insert into session_attachment_access (root_id, session_id, attachment_id, source, granted_at)
values ($1::uuid, $2::uuid, $3::uuid, $2::uuid, $10::timestamptz)"""

_READY = "(a.deleted_at is null and x.revoked_at is null and o.purged_at is null)"

_READABLE = f"""select a.id, a.session_id, a.project_id, a.name, a.type, a.size, a.sha256,
    a.principal, a.created_at, {_READY} as ready
from session_attachment_access x
join attachments a on a.root_id = x.root_id and a.id = x.attachment_id
join sessions o on o.root_id = a.root_id and o.id = a.session_id
where x.root_id = $1::uuid and x.session_id = $2::uuid"""

LIST = f"""{_READABLE} and {_READY}
    and ($3::uuid is null or x.attachment_id < $3::uuid)
order by x.attachment_id desc limit $4::bigint"""

NAMED = f"{_READABLE} and x.attachment_id = any($3::uuid[])"

REMOVE = """with gone as (
    update attachments set deleted_at = clock_timestamp()
    where root_id = $1::uuid and session_id = $2::uuid and id = $3::uuid and deleted_at is null
    returning id)
update session_attachment_access x set revoked_at = clock_timestamp()
from gone where x.root_id = $1::uuid and x.attachment_id = gone.id and x.revoked_at is null"""

ARCHIVED = """select archived_at is not null from sessions
where root_id = $1::uuid and id = $2::uuid and deleted_at is null"""

INHERITED = """attached as materialized (
    select r.branch_id, r.seq, x.attachment_id, x.source, x.revoked_at from allowed a
    cross join lateral (
        select attachment_id, source, revoked_at from session_attachment_access
        where root_id = $1::uuid and session_id = $2::uuid offset 0) x
    cross join lateral (
        select branch_id, seq from attachment_refs where root_id = $1::uuid
        and attachment_id = x.attachment_id and seq <= a.cut offset 0) r),
line(src, lo, hi, below, bound, earliest) as (
    select b.src, b.lo, b.hi, b.below, a.cut, e.earliest
    from (select min(seq) as earliest from attached) e cross join allowed a
    join branches b on b.root_id = $1::uuid and b.id = a.cutoff_branch
    where e.earliest is not null
    union all
    select b.src, b.lo, b.hi, b.below, l.lo[1], l.earliest from line l
    cross join lateral (select src, lo, hi, below from branches
        where root_id = $1::uuid and id = l.below offset 0) b
    where l.lo[1] >= l.earliest and b.lo[1] < l.lo[1]),
inherited as (
    insert into session_attachment_access
        (root_id, session_id, attachment_id, source, granted_at, revoked_at)
    select distinct $1::uuid, d.id, t.attachment_id, t.source, {now}, t.revoked_at
    from directory d cross join line l cross join lateral unnest(l.src, l.lo, l.hi) k(src, lo, hi)
    join attached t on t.branch_id = k.src and t.seq > k.lo and t.seq <= least(k.hi, l.bound)
    where k.lo < l.bound)"""
"""A part of the fork's statement: one access row for each file of the prefix (lineage.md 4, 8).

It stands in a `with recursive`, whose $1 is the root and $2 the parent, behind `allowed` (cut,
cutoff_branch) and `directory` (the child's id). It begins at the files that the parent knows
itself: where there are none the prefix is not walked, and no further down than the first of them.
Each is looked up by its key, in this order: a plan that begins at a file reads what every fork of
the family may see of it.
One that was removed is known to the child as removed: its transcript speaks of it.
"""


@dataclass(frozen=True, slots=True)
class AttachmentRow:
    """An attachment as a session sees it. `session_id` is the one that it was attached in.

    Where it is not `ready` it was removed: what the row says of it is all that is left.
    """

    id: str
    session_id: str
    project_id: str
    name: str
    type: str
    size: int
    sha256: str
    principal: str
    created_at: datetime
    ready: bool

    @property
    def said(self) -> Attachment:
        """What a record says of it."""
        return Attachment(self.id, self.name, self.type, self.size)


@dataclass(frozen=True, slots=True)
class Room:
    """How many files a session may have of its own, and how many bytes together."""

    max_session_attachments: int
    max_session_attachment_bytes: int


class Attachments:
    """The attachments of every session. The live session is not needed for them."""

    def __init__(self, database: Database, files: Files) -> None:
        self._db = database
        self.files = files
        self.sweep = AttachmentSweep(database, files)

    async def add(
        self,
        principal: Principal,
        key: SessionKey,
        received: Received,
        *,
        attachment_id: str,
        name: str,
        room: Room,
        now: datetime,
    ) -> AttachmentRow:
        """Keep an upload as an attachment of the session, unless that was done before.

        Raises `SessionNotFound`, `Archived`, `TooLarge` where the session has no room for it,
        `StorageFailed`.
        """
        place = (key.root_id, key.id)
        held = (principal.project_id, bytes.fromhex(received.sha256))
        async with self._db.connection(writes=True) as connection, connection.transaction():
            await connection.execute(ONE_AT_A_TIME, key.id)
            row = await connection.fetchrow(ROOM, *place, attachment_id)
            if row is None:
                raise SessionNotFound("Agent not found")
            if not row["made"]:
                _refuse_full(row, received.size, room)
                await connection.execute(HOLD_OBJECT, *held)
                hit("keep.before")
                await self.files.keep(received, principal.project_id)
                hit("keep.after")
                await connection.execute(
                    ADD,
                    *place,
                    attachment_id,
                    principal.project_id,
                    name,
                    received.type,
                    received.size,
                    bytes.fromhex(received.sha256),
                    principal.id,
                    now,
                )
        return await self.get(principal, key, attachment_id)

    async def page(
        self, principal: Principal, key: SessionKey, *, before: str | None, limit: int
    ) -> list[AttachmentRow]:
        """The newest `limit` ready ones uploaded before `before` that the session may read."""
        del principal  # the key was given by `Dao.key`, which has asked
        args = (key.root_id, key.id, before, limit)
        return [_row(row) for row in await self._db.run(lambda c: c.fetch(LIST, *args))]

    async def get(self, principal: Principal, key: SessionKey, attachment_id: str) -> AttachmentRow:
        """One of the session's, removed ones too. Raises `AttachmentNotFound`."""
        [row] = await self.named(principal, key, [attachment_id])
        return row

    async def named(
        self, principal: Principal, key: SessionKey, ids: Sequence[str]
    ) -> list[AttachmentRow]:
        """Those of these ids, in this order. Raises `AttachmentNotFound` where one is none."""
        found = {row.id: row for row in await self._found(principal, key, ids)}
        for id_ in ids:
            if id_ not in found:
                raise AttachmentNotFound(
                    "There is no such attachment in this session", attachment_id=id_[:100]
                )
        return [found[id_] for id_ in ids]

    async def _found(
        self, principal: Principal, key: SessionKey, ids: Sequence[str]
    ) -> list[AttachmentRow]:
        del principal
        asked = [id_ for id_ in ids if is_id(id_)]
        args = (key.root_id, key.id, asked)
        rows = await self._db.run(lambda c: c.fetch(NAMED, *args)) if asked else []
        return [_row(row) for row in rows]

    async def ready(
        self, principal: Principal, key: SessionKey, ids: Sequence[str]
    ) -> list[AttachmentRow]:
        """As `named`; raises `AttachmentGone` too, where one was removed."""
        rows = await self.named(principal, key, ids)
        for row in rows:
            if not row.ready:
                raise _gone(row)
        return rows

    async def open(
        self, principal: Principal, key: SessionKey, attachment_id: str
    ) -> tuple[AttachmentRow, OpenFile]:
        """One that is ready, and its bytes, to be closed.

        Raises `AttachmentNotFound`, `AttachmentGone`, `StorageFailed`.
        """
        [row] = await self.ready(principal, key, [attachment_id])
        file = await self.files.open(row.project_id, row.sha256)
        if file is None:
            raise _gone(row)
        return row, file

    async def contents(
        self, principal: Principal, key: SessionKey, ids: Sequence[str]
    ) -> dict[str, bytes]:
        """The bytes of those that are ready and there, by id; the others are left out.

        Raises `DatabaseUnavailable`.
        """
        contents = {}
        for row in await self._found(principal, key, ids):
            if not row.ready:
                continue
            try:
                file = await self.files.open(row.project_id, row.sha256)
                if file is not None:
                    contents[row.id] = await file.read()
            except StorageFailed:
                continue
        return contents

    async def remove(self, principal: Principal, key: SessionKey, attachment_id: str) -> None:
        """Take it from everyone who may read it, from the next request on.

        Raises `AttachmentNotFound`, `Archived`, and `AttachmentInherited` where it was attached in
        another session. One that was removed before stays so.
        """
        row = await self.get(principal, key, attachment_id)
        if row.session_id != key.id:
            raise AttachmentInherited(
                "This file was attached in the session that this one was forked from; it can be "
                "removed there",
                session_id=row.session_id,
            )
        place = (key.root_id, key.id)
        archived = await self._db.run(lambda c: c.fetchval(ARCHIVED, *place))
        _refuse_archived(archived)
        async with self._db.connection(writes=True) as connection:
            await connection.execute(REMOVE, *place, attachment_id)


def _refuse_archived(archived: bool | None) -> None:
    if archived is None:
        raise SessionNotFound("Agent not found")
    if archived:
        raise Archived("The session is archived; unarchive it to go on")


def _refuse_full(row: asyncpg.Record, size: int, room: Room) -> None:
    _refuse_archived(row["archived"])
    files, bytes_ = room.max_session_attachments, room.max_session_attachment_bytes
    if row["files"] >= files:
        raise TooLarge(
            f"A session may have {counted(files, 'file')} of its own (`max_session_attachments`);"
            " remove some",
            limit="max_session_attachments",
            value=files,
        )
    if row["bytes"] + size > bytes_:
        raise TooLarge(
            f"The files of a session may have {counted(bytes_, 'byte')} together "
            "(`max_session_attachment_bytes`); remove some",
            limit="max_session_attachment_bytes",
            value=bytes_,
        )


def _gone(row: AttachmentRow) -> AttachmentGone:
    return AttachmentGone(
        "The file was removed; only what the conversation says of it is left",
        attachment_id=row.id,
    )


def _row(row: asyncpg.Record) -> AttachmentRow:
    return AttachmentRow(
        id=row["id"],
        session_id=row["session_id"],
        project_id=row["project_id"],
        name=row["name"],
        type=row["type"],
        size=row["size"],
        sha256=row["sha256"].hex(),
        principal=row["principal"],
        created_at=row["created_at"],
        ready=row["ready"],
    )
