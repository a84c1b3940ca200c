"""Blobs that nothing of a family reaches any more, removed while the family goes on.

First everything that is left is followed, without a lock: every workflow that a record or a
session names. Then the family's blobs are looked at. Where some were not reached, the family and
its sessions are locked, those that have written meanwhile are followed again, and only what is
still not reached goes. So no commit is under way that counts on a blob which goes; one that comes
after writes it again.
"""

from __future__ import annotations

from collections.abc import Iterable

from turnback.core.workflow import Reach
from turnback.failpoints import hit
from turnback.store.database import Connection, Database
from turnback.store.packing import unpack

LOCK_FAMILY = "select from families where root_id = $1::uuid for update"

SESSIONS = """select id, revision from sessions
where root_id = $1::uuid and purged_at is null order by id"""

WORKFLOWS = """select h.hash from branches b
join records r on r.root_id = $1::uuid and r.branch_id = b.id
cross join lateral (values (r.before_hash), (r.after_hash)) h(hash)
where b.root_id = $1::uuid and b.session_id = $2::uuid
union
select h.hash from sessions s
cross join lateral (values (s.workflow_hash), (s.initial_hash)) h(hash)
where s.root_id = $1::uuid and s.id = $2::uuid"""

BLOBS = "select data from blobs where root_id = $1::uuid and hash = any($2::bytea[])"

HELD = """select hash from blobs where root_id = $1::uuid and hash > $2::bytea
order by hash limit $3::bigint"""

DROP = "delete from blobs where root_id = $1::uuid and hash = any($2::bytea[])"


class BlobSweep:
    """Carries out the sweep of one family at a time."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def run(self, root_id: str, *, batch: int) -> int:
        """Remove the family's unreached blobs; how many. Raises `DatabaseUnavailable`."""
        reach, seen, removed = Reach(), dict[str, int](), 0
        async with self._db.connection() as connection:
            for row in await connection.fetch(SESSIONS, root_id):
                await _follow(connection, root_id, row["id"], reach, batch=batch)
                seen[row["id"]] = row["revision"]
        after = b""
        while True:
            async with self._db.connection() as connection:
                rows = await connection.fetch(HELD, root_id, after, batch)
            if not rows:
                return removed
            after = rows[-1]["hash"]
            unreached = [row["hash"] for row in rows if row["hash"] not in reach]
            if unreached:
                removed += await self._drop(root_id, unreached, reach, seen, batch=batch)

    async def _drop(
        self,
        root_id: str,
        unreached: list[bytes],
        reach: Reach,
        seen: dict[str, int],
        *,
        batch: int,
    ) -> int:
        hit("erase.blobs")
        async with self._db.connection(writes=True) as connection, connection.transaction():
            await connection.execute(LOCK_FAMILY, root_id)
            for row in await connection.fetch(SESSIONS + " for update", root_id):
                if seen.get(row["id"]) != row["revision"]:
                    await _follow(connection, root_id, row["id"], reach, batch=batch)
                    seen[row["id"]] = row["revision"]
            gone = [hash_ for hash_ in unreached if hash_ not in reach]
            await connection.execute(DROP, root_id, gone)
        return len(gone)


async def _follow(
    connection: Connection, root_id: str, session_id: str, reach: Reach, *, batch: int
) -> None:
    """Reach what a session's workflows are made of."""
    rows = await connection.fetch(WORKFLOWS, root_id, session_id)
    wanted = reach.want(row["hash"] for row in rows)
    while wanted:
        some, wanted = wanted[:batch], wanted[batch:]
        blobs = await connection.fetch(BLOBS, root_id, some)
        wanted += reach.follow(_unpacked(row["data"] for row in blobs))


def _unpacked(blobs: Iterable[bytes]) -> Iterable[bytes]:
    return (unpack(blob) for blob in blobs)
