"""A session's row, held by a test, so that a commit waits inside PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from processes import eventually

from turnback.store.url import asyncpg_dsn


class Row:
    """A session's row, held by one connection of the test and watched by another."""

    def __init__(
        self, holder: asyncpg.Connection, watcher: asyncpg.Connection, session: str
    ) -> None:
        self._holder = holder
        self._connection = watcher
        self._session = session

    async def hold(self) -> None:
        await self._holder.execute("begin")
        await self._holder.execute(
            "select from sessions where id = $1::uuid for update", self._session
        )

    async def let_go(self) -> None:
        await self._holder.execute("rollback")

    async def waiting(self, count: int = 1) -> None:
        """Wait until so many backends wait for the row."""
        await eventually(lambda: self._waiters(count))

    async def _waiters(self, count: int) -> bool:
        return count == await self._connection.fetchval(
            "select count(*) from pg_stat_activity where datname = current_database() "
            "and wait_event_type = 'Lock' and query like 'with s as (update sessions%'"
        )

    async def kill_first(self) -> None:
        """End the one that waits longest, as an administrator does with what hangs."""
        await self._connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and wait_event_type = 'Lock' "
            "order by query_start limit 1"
        )


@asynccontextmanager
async def row_of(url: str, session: str) -> AsyncIterator[Row]:
    holder, watcher = [await asyncpg.connect(asyncpg_dsn(url)) for _ in range(2)]
    try:
        yield Row(holder, watcher, session)
    finally:
        await holder.close()
        await watcher.close()
