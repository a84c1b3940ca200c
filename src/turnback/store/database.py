"""The connection pool, and what the database's failures mean to everyone else.

SQLSTATEs and lost connections leave this room as `DatabaseUnavailable`: `reached` says whether the
database answered at all, `in_doubt` whether the statement may have taken effect. Constraint names
are the DAO's to translate.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import asyncpg

from turnback.core.errors import DatabaseUnavailable
from turnback.store.url import asyncpg_dsn
from turnback.telemetry import metrics

Connection = asyncpg.pool.PoolConnectionProxy

T = TypeVar("T")

_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.exceptions.OperatorInterventionError,
    ConnectionError,
    OSError,
    TimeoutError,
)
"""After these nobody knows whether the statement under way was committed."""

_REFUSED = (
    asyncpg.exceptions.InsufficientResourcesError,
    asyncpg.exceptions.PostgresSystemError,
    asyncpg.exceptions.TransactionRollbackError,
    asyncpg.exceptions.ReadOnlySQLTransactionError,
    asyncpg.exceptions.QueryCanceledError,
)
"""The server said no: nothing was committed, and trying again may help."""


CLIENT_MARGIN = 2.0
"""Seconds beyond the server's `statement_timeout` after which a silent server counts as lost."""


def lost(error: DatabaseUnavailable) -> bool:
    """Whether the statement under way when this was raised may have been committed."""
    return bool(error.data.get("in_doubt"))


def unreachable(error: DatabaseUnavailable) -> bool:
    """Whether the database did not answer, rather than answer no."""
    return not error.data.get("reached", False)


@asynccontextmanager
async def domain_errors(*, in_doubt: bool = False) -> AsyncIterator[None]:
    """Turn the driver's failures into `DatabaseUnavailable`; constraint violations pass through.

    `in_doubt` where something is written in here whose answer may be lost.
    """
    try:
        yield
    except _REFUSED as error:
        metrics.DB_AWAY.inc()
        raise DatabaseUnavailable(
            "The database did not take this; nothing was saved, try again",
            reached=True,
            in_doubt=False,
        ) from error
    except _LOST as error:
        metrics.DB_AWAY.inc()
        raise DatabaseUnavailable(
            "The database cannot be reached; try again in a moment",
            reached=False,
            in_doubt=in_doubt,
        ) from error


async def _prepare(connection: asyncpg.Connection) -> None:
    await connection.set_type_codec(
        "uuid", schema="pg_catalog", encoder=str, decoder=str, format="text"
    )


async def _keep(connection: asyncpg.Connection) -> None:
    """No statement of ours leaves state behind, so a release need not cost a round trip."""


class Database:
    """A pool of connections to one PostgreSQL, opened by `open` and closed by `close`."""

    def __init__(self, pool: asyncpg.Pool, dsn: str, *, connect_timeout: float) -> None:
        self._pool = pool
        self.dsn = dsn
        self.connect_timeout = connect_timeout

    @classmethod
    async def open(
        cls, url: str, *, size: int, connect_timeout: float, statement_timeout: float
    ) -> Database:
        """Connect. Times are in seconds. Raises `DatabaseUnavailable`."""
        dsn = asyncpg_dsn(url)
        async with domain_errors():
            pool = await asyncpg.create_pool(
                dsn,
                min_size=1,
                max_size=size,
                timeout=connect_timeout,
                command_timeout=statement_timeout + CLIENT_MARGIN,
                init=_prepare,
                reset=_keep,
                server_settings={
                    "application_name": "turnback",
                    "plan_cache_mode": "force_generic_plan",
                    "statement_timeout": str(round(statement_timeout * 1000)),
                    "jit": "off",
                },
            )
        return cls(pool, dsn, connect_timeout=connect_timeout)

    async def close(self) -> None:
        """Close every connection; those in use are cut after a moment."""
        try:
            await asyncio.wait_for(self._pool.close(), timeout=5)
        except TimeoutError:
            self._pool.terminate()

    @property
    def usage(self) -> tuple[int, int]:
        """Connections of the pool in use now, and idle."""
        idle = self._pool.get_idle_size()
        return self._pool.get_size() - idle, idle

    @asynccontextmanager
    async def connection(self, *, writes: bool = False) -> AsyncIterator[Connection]:
        """A connection from the pool. Raises `DatabaseUnavailable`.

        Where `writes`, a connection that is lost in use leaves what was sent on it in doubt.
        """
        async with domain_errors():
            connection = await self._pool.acquire(timeout=self.connect_timeout)
        async with domain_errors(in_doubt=writes):
            try:
                yield connection
            finally:
                await self._pool.release(connection, timeout=self.connect_timeout)

    async def run(self, act: Callable[[Connection], Awaitable[T]]) -> T:
        """`act` on a connection; a read that met a dead pooled connection is tried once more."""
        try:
            async with self.connection() as connection:
                return await act(connection)
        except DatabaseUnavailable:
            await asyncio.sleep(0)
            async with self.connection() as connection:
                return await act(connection)
