"""The sweep of attachments: what no living session can read, and bytes that nothing refers to.

Three rules keep it from taking what somebody needs, whoever uploads, forks or sweeps meanwhile. A
family is locked before it is asked which of its sessions live, so that no fork is under way. The
row of some bytes is locked while their file goes; an upload of the same bytes waits for that lock,
and then puts its own file in place. And a file without a row is given one first, and goes later,
the same way.
"""

from __future__ import annotations

from turnback.core.attachments import UNNAMED
from turnback.store.database import Database
from turnback.store.files import Files

BATCH = 500
"""Rows of one statement."""

_UNREAD = """a.deleted_at is null and (not exists (
    select from session_attachment_access x
    join sessions s on s.root_id = x.root_id and s.id = x.session_id
    where x.root_id = a.root_id and x.attachment_id = a.id and x.revoked_at is null
        and (s.deleted_at is null or s.deleted_at > clock_timestamp() - make_interval(secs => {})))
    or exists (select from sessions o where o.root_id = a.root_id and o.id = a.session_id
        and o.purged_at is not null))"""

FAMILIES = f"""select distinct a.root_id from sessions s
join session_attachment_access y on y.root_id = s.root_id and y.session_id = s.id
join attachments a on a.root_id = y.root_id and a.id = y.attachment_id
where s.deleted_at < clock_timestamp() - make_interval(secs => $1::float8)
    and {_UNREAD.format("$1::float8")} limit {BATCH}"""

LOCK_FAMILY = "select from families where root_id = $1::uuid for update"

RELEASE = f"""update attachments a set deleted_at = clock_timestamp(), name = '{UNNAMED}'
where a.root_id = $1::uuid and {_UNREAD.format("$2::float8")}"""

UNREFERRED = f"""select o.project_id, o.sha256 from attachment_objects o
where o.touched_at < clock_timestamp() - make_interval(secs => $1::float8) and not exists (
    select from attachments a where a.project_id = o.project_id and a.sha256 = o.sha256
        and a.deleted_at is null)
limit {BATCH} for update skip locked"""

DROP = """delete from attachment_objects o
using unnest($1::text[], $2::bytea[]) d(project_id, sha256)
where o.project_id = d.project_id and o.sha256 = d.sha256"""

ADOPT = """insert into attachment_objects (project_id, sha256)
select $1::text, f.sha256 from unnest($2::bytea[]) f(sha256) where not exists (
    select from attachment_objects o where o.project_id = $1::text and o.sha256 = f.sha256)
on conflict do nothing"""


class AttachmentSweep:
    """Carries out the sweep, from as many processes at once as there are."""

    def __init__(self, database: Database, files: Files) -> None:
        self._db = database
        self._files = files

    async def run(self, *, grace: float, upload_grace: float) -> int:
        """Remove what was needed by nobody for `grace` seconds; how many files were removed.

        `upload_grace` is how long nothing has come of an upload that is taken for cut off.

        Raises `DatabaseUnavailable`, `StorageFailed`.
        """
        removed = await self._files.forget_uploads(older_than=upload_grace)
        await self._release(grace)
        while batch := await self._remove(grace):
            removed += batch
        await self._adopt()
        return removed

    async def _release(self, grace: float) -> None:
        """Attachments of deleted sessions that no living one inherits, and of purged ones."""
        roots = await self._db.run(lambda c: c.fetch(FAMILIES, grace))
        for row in roots:
            async with self._db.connection(writes=True) as connection, connection.transaction():
                await connection.execute(LOCK_FAMILY, row["root_id"])
                await connection.execute(RELEASE, row["root_id"], grace)

    async def _remove(self, grace: float) -> int:
        async with self._db.connection(writes=True) as connection, connection.transaction():
            rows = await connection.fetch(UNREFERRED, grace)
            for row in rows:
                await self._files.remove(row["project_id"], row["sha256"].hex())
            projects, hashes = [r["project_id"] for r in rows], [r["sha256"] for r in rows]
            await connection.execute(DROP, projects, hashes)
        return len(rows)

    async def _adopt(self) -> None:
        """Files that a crash has left without a row."""
        for project_id, names in await self._files.kept():
            for at in range(0, len(names), BATCH):
                hashes = [bytes.fromhex(name) for name in names[at : at + BATCH]]
                async with self._db.connection(writes=True) as connection:
                    await connection.execute(ADOPT, project_id, hashes)
