"""The connection pool, and what the database's failures mean to everyone else.

SQLSTATEs and lost connections leave this room as `DatabaseUnavailable`; whether the statement
took effect is then said by its `in_doubt`. Constraint names are the DAO's to translate.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import asyncpg

from turnback.core.errors import DatabaseUnavailable
from turnback.store.url import asyncpg_dsn

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


def lost(error: DatabaseUnavailable) -> bool:
    """Whether the statement under way when this was raised may have been committed."""
    return bool(error.data.get("in_doubt"))


@asynccontextmanager
async def domain_errors() -> AsyncIterator[None]:
    """Turn the driver's failures into `DatabaseUnavailable`; constraint violations pass through."""
    try:
        yield
    except _REFUSED as error:
        raise DatabaseUnavailable(
            "The database did not take this; nothing was saved, try again", in_doubt=False
        ) from error
    except _LOST as error:
        raise DatabaseUnavailable(
            "The database cannot be reached; try again in a moment", in_doubt=True
        ) from error


async def _prepare(connection: asyncpg.Connection) -> None:
    await connection.set_type_codec(
        "uuid", schema="pg_catalog", encoder=str, decoder=str, format="text"
    )


async def _keep(connection: asyncpg.Connection) -> None:
    """No statement of ours leaves state behind, so a release need not cost a round trip."""


class Database:
    """A pool of connections to one PostgreSQL, opened by `open` and closed by `close`."""

    def __init__(self, pool: asyncpg.Pool, dsn: str) -> None:
        self._pool = pool
        self.dsn = dsn

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
                init=_prepare,
                reset=_keep,
                server_settings={
                    "application_name": "turnback",
                    "plan_cache_mode": "force_generic_plan",
                    "statement_timeout": str(round(statement_timeout * 1000)),
                    "jit": "off",
                },
            )
        return cls(pool, dsn)

    async def close(self) -> None:
        """Close every connection; those in use are cut after a moment."""
        try:
            await asyncio.wait_for(self._pool.close(), timeout=5)
        except TimeoutError:
            self._pool.terminate()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection from the pool. Raises `DatabaseUnavailable`."""
        async with domain_errors(), self._pool.acquire() as connection:
            yield connection

    async def run(self, act: Callable[[Connection], Awaitable[T]]) -> T:
        """`act` on a connection; a read that met a dead pooled connection is tried once more."""
        try:
            async with self.connection() as connection:
                return await act(connection)
        except DatabaseUnavailable:
            await asyncio.sleep(0)
            async with self.connection() as connection:
                return await act(connection)
