"""The sweeper: deleted sessions that nothing living comes from, removed for good (lineage.md 7).

One process at a time. Of each family with sessions that were deleted longer ago than the grace, the
family's row is locked, and only then, in a new statement, it is asked which sessions live: no fork
is under way. What a living session comes from stays, and so does what one comes from that was
deleted within the grace. The grace is longer than any statement may take, so that none can be under
way that has seen a session before it was deleted.

A session is closed and erased as by a purge, and its rows go last, so that a sweep that was cut off
is gone on with by the next. Ids stay taken for ever: the directory is not swept.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import structlog

from turnback.failpoints import hit
from turnback.store.database import Database
from turnback.store.purge import LOCK_FAMILY, Purge, rows_of

log = structlog.get_logger()

ALONE = "select pg_try_advisory_lock(hashtextextended('turnback sweeper', 2))"

DONE = "select pg_advisory_unlock(hashtextextended('turnback sweeper', 2))"
"""Said at once: of a connection that is closed the server notices it later."""

_PAST = "clock_timestamp() - make_interval(secs => {})"

FAMILIES = f"""select distinct root_id from sessions
where deleted_at is not null and root_id > $1::uuid
    and (deleted_at < {_PAST.format("$2::float8")}
        or purged_at is not null and erased_at is null)
order by root_id limit $3::bigint"""

UNERASED = """select id from sessions
where root_id = $1::uuid and purged_at is not null and erased_at is null order by id"""

UNSOUND = """select s.id from sessions s
left join session_lineage l on l.root_id = s.root_id and l.session_id = s.id
left join sessions p on p.root_id = s.root_id and p.id = l.parent_id
where s.root_id = $1::uuid and s.id <> $1::uuid and s.deleted_at is null and p.id is null limit 1"""
"""A living fork of which nobody knows what it comes from."""

DOOMED = f"""with recursive kept(id) as (
    select id from sessions where root_id = $1::uuid
        and (deleted_at is null or deleted_at >= {_PAST.format("$2::float8")})
    union
    select l.parent_id from kept k
    join session_lineage l on l.root_id = $1::uuid and l.session_id = k.id)
select s.id from sessions s where s.root_id = $1::uuid and s.id not in (select id from kept)
order by s.id for update of s"""

CLOSE = """update sessions set purged_at = clock_timestamp()
where root_id = $1::uuid and id = any($2::uuid[]) and purged_at is null"""

STAGES = (
    rows_of("session_attachment_access", "session_id, attachment_id"),
    rows_of("attachments", "id"),
    """with batch as (
    select p.branch_id, p.seq from branches b
    join purged_records p on p.root_id = $1::uuid and p.branch_id = b.id
    where b.root_id = $1::uuid and b.session_id = any($2::uuid[]) limit $3::bigint),
gone as (
    delete from purged_records p using batch where p.root_id = $1::uuid
        and (p.branch_id, p.seq) = (batch.branch_id, batch.seq) returning 1)
select (select count(*) from batch) as found, (select count(*) from gone) as removed""",
    rows_of("branches", "id"),
    rows_of("residues", "id"),
    rows_of("compensations", "undo_id, effect_id"),
    rows_of("undo_runs", "id"),
    rows_of("effect_calls", "effect_id, n"),
    rows_of("effects", "id"),
    rows_of("session_grants", "session_id, principal_id"),
    rows_of("session_lineage", "session_id"),
)
"""What is left of an erased session, but for its own row; who may read a file goes before it."""

DROP = "delete from sessions where root_id = $1::uuid and id = any($2::uuid[])"

DROP_FAMILY = """delete from families where root_id = $1::uuid
and not exists (select from sessions where root_id = $1::uuid)"""

FIRST = "00000000-0000-0000-0000-000000000000"


@dataclass(slots=True)
class Swept:
    """What a sweep has removed: the ids of sessions, and the roots of whole families."""

    sessions: list[str] = field(default_factory=list)
    families: list[str] = field(default_factory=list)


class Sweeper:
    """Carries out sweeps, in batches of `batch` rows."""

    def __init__(self, database: Database, purge: Purge) -> None:
        self._db = database
        self._purge = purge

    async def run(self, *, grace: float, batch: int) -> Swept | None:
        """Sweep every family that needs it; None where another process is at it.

        `grace` is in seconds, longer than any statement may take. Raises `DatabaseUnavailable`.
        """
        async with self._db.apart() as lock:
            if not await lock.fetchval(ALONE):
                return None
            swept = await self._all(grace, batch)
            await lock.execute(DONE)
            return swept

    async def _all(self, grace: float, batch: int) -> Swept:
        swept, after = Swept(), FIRST
        while True:
            async with self._db.connection() as connection:
                rows = await connection.fetch(FAMILIES, after, grace, batch)
            for row in rows:
                await self._family(row["root_id"], swept, grace=grace, batch=batch)
            if len(rows) < batch:
                return swept
            after = rows[-1]["root_id"]

    async def _family(self, root_id: str, swept: Swept, *, grace: float, batch: int) -> None:
        doomed = await self._doomed(root_id, grace)
        unerased = await self._db.run(lambda c: c.fetch(UNERASED, root_id))
        if unerased:
            ids = [row["id"] for row in unerased]
            erased = await self._purge.erase(root_id, ids, batch=batch)
            log.info("sessions erased", family=root_id, sessions=ids, records=erased.records)
        if not doomed:
            return
        for text in STAGES:
            await self._purge.in_batches(text, root_id, doomed, batch, at="rows")
        for at in range(0, len(doomed), batch):
            hit("sweep.sessions")
            async with self._db.connection(writes=True) as connection, connection.transaction():
                await connection.execute(LOCK_FAMILY, root_id)
                await connection.execute(DROP, root_id, doomed[at : at + batch])
                last = await connection.execute(DROP_FAMILY, root_id)
        whole = last == "DELETE 1"
        swept.sessions += doomed
        swept.families += [root_id] if whole else []
        log.info("sessions swept", family=root_id, sessions=doomed, whole_family=whole)

    async def _doomed(self, root_id: str, grace: float) -> list[str]:
        """Close the family's sessions that are to go; their ids."""
        hit("sweep.close")
        async with self._db.connection(writes=True) as connection, connection.transaction():
            await connection.execute(LOCK_FAMILY, root_id)
            if (unsound := await connection.fetchval(UNSOUND, root_id)) is not None:
                log.warning("not swept: lineage is damaged; run `turnback check`", session=unsound)
                return []
            rows = await connection.fetch(DOOMED, root_id, grace)
            doomed = [row["id"] for row in rows]
            await connection.execute(CLOSE, root_id, doomed)
        return doomed
