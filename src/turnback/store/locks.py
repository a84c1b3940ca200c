"""Locks on things in the world, held while one call of ours looks at them and changes them.

Every call, forward or inverse, holds a row for each of its resources and scopes, across sessions
and processes (undo.md 2). A row that is not renewed in time is anybody's: its holder may have died.
So nobody sends a call on the strength of a lock that was taken a while ago; the commit that comes
before a call renews it, or is refused. Nothing waits inside the database: who does not get all of
them has none, and looks again.

Taking and dropping need not be on disk at once: what is committed after them, and that is every
call's intent, takes them along.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from turnback.core.effects import ResourceKey
from turnback.core.errors import DatabaseUnavailable, ResourceBusy
from turnback.store.database import Database
from turnback.store.effect_rows import key_text
from turnback.store.ids import new_id
from turnback.store.leases import is_running

TAKE = f"""with off as materialized (select set_config('synchronous_commit', 'off', true)),
fence as materialized (select nextval('resource_fences') as fence),
taken as (
    insert into resource_locks as l (project_id, connection, kind, key, holder, node_id, fence,
        taken_at, expires_at)
    select $1::text, w.connection, w.kind, w.key, $5::uuid, $6::uuid, fence.fence,
        clock_timestamp(), clock_timestamp() + make_interval(secs => $7::float8)
    from off, fence, unnest($2::text[], $3::text[], $4::text[]) w(connection, kind, key)
    on conflict (project_id, connection, kind, key) do update set holder = excluded.holder,
        node_id = excluded.node_id, fence = excluded.fence, taken_at = excluded.taken_at,
        expires_at = excluded.expires_at
    where l.expires_at < clock_timestamp()
        or l.taken_at < clock_timestamp() - make_interval(secs => $8::float8)
            and l.node_id <> excluded.node_id and not {is_running("l.node_id::text")}
    returning 1)
select (select count(*) from taken) as count, fence from fence"""

RENEW = """update resource_locks
set expires_at = clock_timestamp() + make_interval(secs => $2::float8)
where holder = $1::uuid and fence = $3::bigint and expires_at > clock_timestamp() returning 1"""

DROP = """with off as materialized (select set_config('synchronous_commit', 'off', true))
delete from resource_locks using off where holder = $1::uuid and node_id = $2::uuid
    and ($3::bigint = 0 or fence = $3::bigint)"""

RELEASE = """with off as materialized (select set_config('synchronous_commit', 'off', true))
delete from resource_locks using off where holder = $1::uuid"""

FRESH = 0.1
"""The part of the time in which locks are anybody's, at the soonest, after which they are renewed
before a call is sent."""

EXPIRED = "delete from resource_locks where expires_at < clock_timestamp()"
"""What processes that died have left: anybody's by now, and the name of what they were at."""

FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.25
"""Seconds between two looks at a lock that somebody else holds."""


@dataclass(slots=True)
class Held:
    """Locks that were taken together: `count` rows of one `holder`. None at all is held too.

    They were taken for `expiry` seconds, and nearly as many are left until `fresh_until` of the
    loop's time. By their `fence` they are told from others of the same holder; 0: nobody knows it
    yet. `is_dropped` by a commit that has released them with what it wrote.
    """

    holder: str
    count: int
    is_dropped: bool = False
    fence: int = 0
    expiry: float = 0.0
    fresh_until: float = 0.0

    def lasts(self, seconds: float) -> bool:
        """Whether there are none, or nearly all of so many seconds is left, and was from here.

        Nobody can have got them meanwhile, whatever the database thinks of this process.
        """
        now = asyncio.get_running_loop().time()
        return not self.count or (now < self.fresh_until and seconds <= self.expiry)


class WaitBrokenOff(Exception):
    """Nobody waits for these locks any more: what they were for was stopped."""


class Locks:
    """Takes and drops locks for this process, `node_id`."""

    def __init__(self, database: Database, *, node_id: str) -> None:
        self._db = database
        self._node_id = node_id

    @asynccontextmanager
    async def hold(
        self,
        project_id: str,
        resources: Iterable[ResourceKey],
        *,
        expiry: float,
        grace: float,
        patience: float,
        holder: str | None = None,
        stop: asyncio.Event | None = None,
    ) -> AsyncIterator[Held]:
        """Hold locks on all of these, as `holder` where one is named; times in seconds.

        They are anybody's after `expiry`, or `grace` after they were taken by a process that is
        gone. Raises `ResourceBusy` where they are not had within `patience`, `WaitBrokenOff` where
        `stop` is set before they are, `DatabaseUnavailable`.
        """
        held = await self.take(
            project_id,
            resources,
            expiry=expiry,
            grace=grace,
            patience=patience,
            holder=holder,
            stop=stop,
        )
        try:
            yield held
        finally:
            await self.drop(held)

    async def take(
        self,
        project_id: str,
        resources: Iterable[ResourceKey],
        *,
        expiry: float,
        grace: float,
        patience: float,
        holder: str | None = None,
        stop: asyncio.Event | None = None,
    ) -> Held:
        """Take locks as `hold` does, to be dropped by `drop` or by a commit."""
        wanted = sorted({(r.connection, r.kind, key_text(r)) for r in resources})
        held = Held(holder or new_id(), len(wanted))
        if wanted:
            try:
                await self._take(project_id, wanted, held, expiry, grace, patience, stop)
            except (asyncio.CancelledError, DatabaseUnavailable):
                await self.drop(held)
                raise
        return held

    async def drop(self, held: Held) -> None:
        """Drop what is still held; where the database is away they expire."""
        with suppress(DatabaseUnavailable):
            if held.count and not held.is_dropped:
                await self._drop(held)

    async def renew(self, held: Held, *, expiry: float) -> None:
        """Hold them for `expiry` seconds from now, or nearly.

        Raises `ResourceBusy` where one was lost.
        """
        if not held.lasts(expiry):
            async with self._db.connection(writes=True) as connection:
                rows = await connection.fetch(RENEW, held.holder, expiry, held.fence)
            if len(rows) != held.count:
                raise ResourceBusy("A lock of this call was lost before it was sent; try again")

    async def release(self, holder: str) -> None:
        """Drop what is still held in this name: its process is gone, or may send nothing more."""
        async with self._db.connection(writes=True) as connection:
            await connection.execute(RELEASE, holder)

    async def forget(self) -> None:
        """Drop those that have expired."""
        async with self._db.connection(writes=True) as connection:
            await connection.execute(EXPIRED)

    async def _take(
        self,
        project_id: str,
        wanted: list[tuple[str, str, str]],
        held: Held,
        expiry: float,
        grace: float,
        patience: float,
        stop: asyncio.Event | None,
    ) -> None:
        columns = [list(column) for column in zip(*wanted, strict=True)]
        args = (project_id, *columns, held.holder, self._node_id, expiry, grace)
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + patience, FIRST_PAUSE
        while True:
            began, held.fence = loop.time(), 0
            async with self._db.connection(writes=True) as connection:
                row = await connection.fetchrow(TAKE, *args)
            assert row is not None
            count, held.fence = row["count"], row["fence"]
            if count == len(wanted):
                held.expiry, held.fresh_until = expiry, began + FRESH * min(expiry, grace)
                return
            if count:
                await self._drop(held)
            if loop.time() + pause > deadline:
                raise ResourceBusy(
                    f"Another call works on the same things in `{wanted[0][0]}`, for longer than "
                    f"{patience:g} s (`lock_patience`). Nothing was done; try again in a moment"
                )
            if await _is_set_within(stop, pause):
                raise WaitBrokenOff
            pause = min(LONGEST_PAUSE, pause * 2)

    async def _drop(self, held: Held) -> None:
        async with self._db.connection(writes=True) as connection:
            await connection.execute(DROP, held.holder, self._node_id, held.fence)


async def _is_set_within(event: asyncio.Event | None, seconds: float) -> bool:
    """Wait for so long, or until the event is set; whether it is."""
    if event is None:
        await asyncio.sleep(seconds)
        return False
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), timeout=seconds)
    return event.is_set()
