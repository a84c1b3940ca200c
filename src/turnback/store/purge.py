"""Purging: what a deleted session has said, removed for good; explicit, logged (lineage.md 7).

A purge begins with one transaction, from which on nothing of the session is shown to anybody: it
marks the session, raises the family's epoch, and counts the revision of every living descendant on,
with all that they were told forgotten, so that whoever holds one in memory reads it again and no
command that was decided before takes effect. Then everything goes in batches, each a transaction of
its own; one that was cut off is gone on with by the next purge or sweep.

Branches and lineage stay, and a record's place and name (`purged_records`): by them a descendant
knows what is missing, and that it was purged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from turnback.core.attachments import UNNAMED
from turnback.core.errors import NotDeleted, SessionNotFound
from turnback.failpoints import hit
from turnback.store.blob_sweep import BlobSweep
from turnback.store.database import Database
from turnback.store.locks import EXPIRED
from turnback.store.rows import SessionKey

log = structlog.get_logger()

LOCK_FAMILY = "select from families where root_id = $1::uuid for update"

SESSION = """select deleted_at, purged_at, erased_at from sessions
where root_id = $1::uuid and id = $2::uuid"""

_QUOTES = """pending_action ->> 'quoted' = 'true'
    and id in (select l.session_id from turns t
        join session_lineage l on l.root_id = $1::uuid and l.boundary_turn = t.id
        where t.root_id = $1::uuid and t.session_id = $2::uuid)"""

LOCK = f"""select id, deleted_at is null as lives from sessions
where root_id = $1::uuid and (id = $2::uuid or deleted_at is null
    and id in (select session_id from session_lineage
        where root_id = $1::uuid and $2::uuid = any(sources))
    or {_QUOTES})
order by id for update"""
"""The session, the living ones that inherit of it, and all that have a prompt of its waiting to be
sent again; in the order in which all lock them."""

UNQUOTE = f"update sessions set pending_action = null where root_id = $1::uuid and {_QUOTES}"
"""A prompt of the session's that waits in a fork; it may inherit nothing else of it."""

CLOSE = """with described as (
    update session_lineage set description = null
    where root_id = $1::uuid and session_id = any($2::uuid[]) and description is not null)
update sessions set purged_at = clock_timestamp(), name = '', pending_action = null
where root_id = $1::uuid and id = any($2::uuid[]) and purged_at is null"""

RAISE_EPOCH = "update families set family_epoch = family_epoch + 1 where root_id = $1::uuid"

COUNT_ON = """update sessions set revision = revision + 1, events_floor = revision + 1
where root_id = $1::uuid and id = any($2::uuid[])"""

_COUNTS = "select (select count(*) from batch) as found, (select count(*) from gone) as removed"

RECORDS = f"""with batch as (
    select r.branch_id, r.seq from branches b
    join records r on r.root_id = $1::uuid and r.branch_id = b.id
    where b.root_id = $1::uuid and b.session_id = any($2::uuid[]) limit $3::bigint),
gone as (
    delete from records r using batch where r.root_id = $1::uuid
        and r.branch_id = batch.branch_id and r.seq = batch.seq
    returning r.branch_id, r.seq, r.id, r.turn_id),
kept as (
    insert into purged_records (root_id, branch_id, seq, id, turn_id, turn_index)
    select $1::uuid, g.branch_id, g.seq, g.id, g.turn_id, coalesce(t.effective_index, 0)
    from gone g left join turns t on t.root_id = $1::uuid and t.id = g.turn_id
    on conflict do nothing),
unreferred as (
    delete from attachment_refs a using gone where a.root_id = $1::uuid
        and a.branch_id = gone.branch_id and a.seq = gone.seq)
{_COUNTS}"""

_OF = "root_id = $1::uuid and session_id = any($2::uuid[])"

ATTACHMENTS = f"""with batch as (
    select id from attachments where {_OF}
        and (deleted_at is null or name <> '{UNNAMED}') limit $3::bigint),
gone as (
    update attachments a set deleted_at = coalesce(a.deleted_at, clock_timestamp()),
        name = '{UNNAMED}'
    from batch where a.root_id = $1::uuid and a.id = batch.id returning 1)
{_COUNTS}"""

EFFECTS = f"""with batch as (
    select id from effects where {_OF} and purged_at is null limit $3::bigint),
gone as (
    update effects e set tool_call_id = '', args = '{{}}', proposed = null, about = '{{}}',
        states = null, secret = null, purged_at = clock_timestamp()
    from batch where e.root_id = $1::uuid and e.id = batch.id returning e.id),
forgotten as (
    update ledger l set leaves = '{{"wrote": [], "removed": []}}', secret = null
    from gone where l.effect_id = gone.id)
{_COUNTS}"""
"""What they did outside stands; how it was before, and what was said for it, goes."""

COMPENSATIONS = f"""with batch as (
    select undo_id, effect_id from compensations where {_OF}
        and (detail::text <> '{{}}' or secret is not null) limit $3::bigint),
gone as (
    update compensations c set detail = '{{}}', secret = null
    from batch where c.root_id = $1::uuid
        and (c.undo_id, c.effect_id) = (batch.undo_id, batch.effect_id) returning 1)
{_COUNTS}"""

RESIDUES = f"""with batch as (
    select id from residues where {_OF}
        and (draft is not null or facts::text <> '{{}}' or leaves::text <> '[]') limit $3::bigint),
gone as (
    update residues r set draft = null, facts = '{{}}', leaves = '[]'
    from batch where r.root_id = $1::uuid and r.id = batch.id returning 1)
{_COUNTS}"""

RUNS = f"""with batch as (
    select id from undo_runs where {_OF}
        and (plan::text <> '{{}}' or report is not null) limit $3::bigint),
gone as (
    update undo_runs u set plan = '{{}}', report = null
    from batch where u.root_id = $1::uuid and u.id = batch.id returning 1)
{_COUNTS}"""

LEDGER = f"""with named as (
    select distinct l.project_id, l.connection, l.kind, l.key
    from effects e join ledger l on l.effect_id = e.id where e.{_OF.replace("and ", "and e.")}),
batch as (
    select l.project_id, l.connection, l.kind, l.key, l.n
    from named join ledger l using (project_id, connection, kind, key)
    where not exists (select from ledger o
        join session_directory d on d.id = o.session_id
        join sessions s on s.root_id = d.root_id and s.id = d.id and s.purged_at is null
        where (o.project_id, o.connection, o.kind, o.key)
            = (l.project_id, l.connection, l.kind, l.key))
    order by coalesce(l.session_id = any($2::uuid[]), false) limit $3::bigint),
gone as (
    delete from ledger l using batch
    where (l.project_id, l.connection, l.kind, l.key, l.n)
        = (batch.project_id, batch.connection, batch.kind, batch.key, batch.n)
    returning 1)
{_COUNTS}"""
"""Of things that only purged sessions have written to, not even the names stay, nor what others
were seen to have made of them. The rows by which the things are found go last."""

BRANCHES = f"select exists (select from branches where {_OF})"
"""Whether they ever had a record."""

ANSWERS = """update idempotency_keys k set body = '{}' from families f
where f.root_id = $1::uuid and k.project_id = f.project_id and k.status is not null
    and (k.reserved_id = any($2::uuid[])
        or split_part(k.location, '/', 3) = any($2::uuid[]::text[]))"""
"""What was answered to who made the sessions and their files. The keys stay used: who asks again is
told that there is no such session."""

ERASED = """update sessions set erased_at = clock_timestamp()
where root_id = $1::uuid and id = any($2::uuid[]) and erased_at is null"""


def rows_of(table: str, key: str) -> str:
    """SQL: remove a batch of the sessions' rows in a table whose key, after the root, is `key`."""
    return f"""with batch as (select {key} from {table} where {_OF} limit $3::bigint),
gone as (
    delete from {table} t using batch where t.root_id = $1::uuid
        and ({", ".join(f"t.{k}" for k in key.split(", "))})
        = ({", ".join(f"batch.{k}" for k in key.split(", "))})
    returning 1)
{_COUNTS}"""


STAGES = {
    "records": RECORDS,
    "turns": rows_of("turns", "id"),
    "events": rows_of("session_events", "session_id, event_seq"),
    "requests": rows_of("session_requests", "session_id, principal, request_id"),
    "redo": rows_of("session_redo", "session_id, n"),
    "leases": rows_of("run_leases", "session_id"),
    "attachments": ATTACHMENTS,
    "open": rows_of("open_steps", "session_id"),
    "approvals": rows_of("approvals", "step_id, tool_call_id"),
    "plans": rows_of("undo_plans", "id"),
    "sent": rows_of("compensation_calls", "undo_id, effect_id, n, round"),
    "compensations": COMPENSATIONS,
    "residues": RESIDUES,
    "runs": RUNS,
    "effects": EFFECTS,
    "ledger": LEDGER,
}
"""What is removed of a session, in this order: records know their turns by the rows of these."""


@dataclass(frozen=True, slots=True)
class Erased:
    """How many rows a purge has removed, or blanked; of blobs, those that nothing else reaches."""

    records: int
    turns: int
    events: int
    requests: int
    attachments: int
    blobs: int


class Purge:
    """Carries out purges, in batches of `batch` rows."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._blobs = BlobSweep(database)

    async def close(self, key: SessionKey) -> list[str]:
        """Begin: nothing of the session is shown from now on. Who inherits of it, if it is new.

        Raises `SessionNotFound`, `NotDeleted`, `DatabaseUnavailable`.
        """
        async with self._db.connection(writes=True) as connection, connection.transaction():
            await connection.execute(LOCK_FAMILY, key.root_id)
            rows = await connection.fetch(LOCK, key.root_id, key.id)
            row = await connection.fetchrow(SESSION, key.root_id, key.id)
            if row is None:
                raise SessionNotFound("Agent not found")
            if row["deleted_at"] is None:
                raise NotDeleted("Only a deleted session can be purged; delete it first")
            hit("purge.close")
            if row["purged_at"] is not None:
                return []
            descendants = [row["id"] for row in rows if row["id"] != key.id and row["lives"]]
            await connection.execute(UNQUOTE, key.root_id, key.id)
            await connection.execute(CLOSE, key.root_id, [key.id])
            await connection.execute(RAISE_EPOCH, key.root_id)
            await connection.execute(COUNT_ON, key.root_id, descendants)
        log.info("session purged", session=key.id, descendants=len(descendants))
        return descendants

    async def erase(self, root_id: str, ids: Sequence[str], *, batch: int) -> Erased:
        """Remove what these closed sessions have said. Raises `DatabaseUnavailable`."""
        counts: dict[str, int] = {}
        async with self._db.connection(writes=True) as connection:
            await connection.execute(ANSWERS, root_id, ids)
            await connection.execute(EXPIRED)
        for stage, text in STAGES.items():
            counts[stage] = await self.in_batches(text, root_id, ids, batch, at=stage)
        async with self._db.connection() as connection:
            had_records: bool = await connection.fetchval(BRANCHES, root_id, ids)
        blobs = await self._blobs.run(root_id, batch=batch) if had_records else 0
        hit("erase.end")
        async with self._db.connection(writes=True) as connection:
            await connection.execute(ERASED, root_id, ids)
        return Erased(
            records=counts["records"],
            turns=counts["turns"],
            events=counts["events"],
            requests=counts["requests"],
            attachments=counts["attachments"],
            blobs=blobs,
        )

    async def in_batches(
        self, text: str, root_id: str, ids: Sequence[str], batch: int, *, at: str
    ) -> int:
        """Run a statement that removes a batch until it finds no more; how many it has removed.

        What another process removes meanwhile was found, and is not counted.
        """
        removed = 0
        while True:
            hit(f"erase.{at}")
            async with self._db.connection(writes=True) as connection:
                [row] = await connection.fetch(text, root_id, ids, batch)
            removed += int(row["removed"])
            if row["found"] < batch:
                return removed
