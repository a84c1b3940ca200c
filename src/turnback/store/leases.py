"""Who carries which run: heartbeats by the database's clock, and a lock per process (lineage.md 3).

A run belongs to the process that its lease names, until one of these shows that process to be gone:

- no heartbeat for `expiry` seconds: it is frozen, or cut off;
- its lock is free and no heartbeat came, both for `grace` seconds on end. The database drops a
  dead process's lock at once, so that its runs are soon taken over; but a process that lives can
  lose the connection of its lock, so that alone proves nothing.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NoReturn

import asyncpg
import structlog

from turnback.core.errors import DatabaseUnavailable
from turnback.store.database import Database, domain_errors
from turnback.store.rows import SessionKey

log = structlog.get_logger()


def is_running(node: str) -> str:
    """SQL: whether a process holds the lock of the node whose id is `node`, as text.

    One that does not is gone, or has lost its connection: who must not take it for dead too soon
    looks for its heartbeat as well.
    """
    return f"""exists (select from pg_locks where locktype = 'advisory' and granted
        and database = (select oid from pg_database where datname = current_database())
        and (classid::bigint << 32 | objid::bigint) = hashtextextended({node}, 0))"""


LOCK = "select pg_try_advisory_lock(hashtextextended($1::text, 0))"

HEARTBEAT = """update run_leases set heartbeat_at = clock_timestamp()
where root_id = any($1::uuid[]) and session_id = any($2::uuid[]) and node_id = $3::uuid"""

GIVE_UP = """update run_leases set heartbeat_at = clock_timestamp() - interval '1 day'
where root_id = $1::uuid and session_id = $2::uuid and node_id = $3::uuid and fence = $4::bigint"""

_DOUBTFUL = f"""select root_id, session_id, node_id, heartbeat_at,
    heartbeat_at < clock_timestamp() - make_interval(secs => $1::float8) as expired,
    node_id <> $2::uuid and not {is_running("node_id::text")} as unlocked
from run_leases"""

LEASES = f"select * from ({_DOUBTFUL}) l where expired or unlocked"

LEASE = f"{_DOUBTFUL} where root_id = $3::uuid and session_id = $4::uuid"


class Leases:
    """This process's lock and heartbeats, and what it has seen of the others'."""

    def __init__(self, database: Database, *, node_id: str) -> None:
        self._db = database
        self._node_id = node_id
        self._connection: asyncpg.Connection | None = None
        self._lost = asyncio.Event()
        self.beaten = -math.inf
        """When the last heartbeat that was written was begun, by the loop's clock."""
        # By node: since when its lock is seen free (the loop's time), and its newest heartbeat.
        self._missing: dict[str, tuple[float, datetime]] = {}

    # -- this process's own

    async def hold(self) -> None:
        """Take this process's lock, on a connection of its own, for its life.

        Raises `DatabaseUnavailable`.
        """
        if self._connection is not None and not self._connection.is_closed():
            return
        self._lost.clear()
        async with domain_errors():
            connection = await asyncpg.connect(
                self._db.dsn,
                timeout=self._db.connect_timeout,
                command_timeout=self._db.connect_timeout,
                server_settings={"application_name": "turnback node"},
            )
            try:
                if await connection.fetchval(LOCK, self._node_id):
                    connection.add_termination_listener(lambda _: self._lost.set())
                    self._connection = connection
                    return
            finally:
                if self._connection is not connection:
                    connection.terminate()
        raise DatabaseUnavailable(
            "A lost connection of this process still holds its lock; it is tried again",
            reached=True,
        )

    async def keep(
        self, held: Callable[[], Sequence[SessionKey]], *, heartbeat: float, grace: float
    ) -> NoReturn:
        """Beat for the runs that are `held`, for ever; times are in seconds.

        A lock that is lost is taken again at once, and until then the heartbeats come often enough
        for nobody to think that this process is gone.
        """
        while True:
            pause = heartbeat
            try:
                await self.hold()
            except DatabaseUnavailable as error:
                pause = min(heartbeat, grace / 4)
                log.warning("this process's lock is lost", reason=error.message)
            try:
                await self.beat(held())
            except DatabaseUnavailable as error:
                pause = min(heartbeat, grace / 4)
                log.warning("no heartbeat", reason=error.message)
            try:
                await asyncio.wait_for(self._lost.wait(), timeout=pause)
                self._lost.clear()
            except TimeoutError:
                pass

    async def beat(self, keys: Sequence[SessionKey]) -> None:
        """Say, by the database's clock, that this process's runs of these sessions are alive.

        On the connection that holds the lock where there is one: a busy pool must not look like a
        dead process. Raises `DatabaseUnavailable`.
        """
        if not keys:
            return
        began = asyncio.get_running_loop().time()
        args = ([key.root_id for key in keys], [key.id for key in keys], self._node_id)
        if self._connection is not None and not self._connection.is_closed():
            async with domain_errors():
                await self._connection.execute(HEARTBEAT, *args)
        else:
            await self._db.run(lambda c: c.execute(HEARTBEAT, *args))
        self.beaten = began

    async def give_up(self, key: SessionKey, *, fence: int) -> None:
        """Say that this process does not go on with a run: whoever looks next may take it."""
        args = (key.root_id, key.id, self._node_id, fence)
        async with self._db.connection(writes=True) as connection:
            await connection.execute(GIVE_UP, *args)

    async def drop(self) -> None:
        """Let go of the process's lock: it holds no run any more."""
        if self._connection is not None:
            try:
                await asyncio.wait_for(self._connection.close(), timeout=2)
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
                self._connection.terminate()
            self._connection = None

    # -- the others'

    @property
    def suspecting(self) -> bool:
        """Whether some process's lock was free at the last look: look again after the grace."""
        return bool(self._missing)

    async def ended(self, *, expiry: float, grace: float) -> list[SessionKey]:
        """Sessions whose run's holder is gone. It takes two looks to see that a process is dead.

        Raises `DatabaseUnavailable`; then what was seen before counts no more.
        """
        before, self._missing = self._missing, {}
        rows = await self._db.run(lambda c: c.fetch(LEASES, expiry, self._node_id))
        nodes = {row["node_id"] for row in rows if row["unlocked"]}
        self._missing |= {node: seen for node, seen in before.items() if node in nodes}
        gone = [row for row in rows if self._is_gone(row, grace)]
        return [SessionKey(row["root_id"], row["session_id"]) for row in gone]

    async def is_gone(self, key: SessionKey, *, expiry: float, grace: float) -> bool:
        """Whether a busy session's run, which is not in this process, has nobody to end it."""
        row = await self._db.run(
            lambda c: c.fetchrow(LEASE, expiry, self._node_id, key.root_id, key.id)
        )
        return row is None or row["node_id"] == self._node_id or self._is_gone(row, grace)

    def _is_gone(self, row: asyncpg.Record, grace: float) -> bool:
        if row["expired"]:
            return True
        if not row["unlocked"]:
            self._missing.pop(row["node_id"], None)
            return False
        now = asyncio.get_running_loop().time()
        since, beat = self._missing.get(row["node_id"], (now, row["heartbeat_at"]))
        if row["heartbeat_at"] > beat:
            since, beat = now, row["heartbeat_at"]  # it lives
        self._missing[row["node_id"]] = (since, beat)
        return bool(now - since >= grace)
