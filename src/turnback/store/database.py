"""The connections, and what the database's failures mean to everyone else.

SQLSTATEs and lost connections leave this room as `DatabaseUnavailable`: `reached` says whether the
database answered at all, `in_doubt` whether the statement may have taken effect. Constraint names
are the DAO's to translate.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Literal, TypeVar

import asyncpg

from turnback.core.errors import DatabaseUnavailable, TurnbackError
from turnback.store.url import asyncpg_dsn
from turnback.telemetry import metrics

Connection = asyncpg.Connection

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

PLANNING = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off"}
"""How statements are planned: once for each connection.

A table that was small then is not read whole for as long as its plan is kept: what can be found by
an index is. (PostgreSQL makes plans anew only when it has next analysed a table that has grown.)
"""

IDLE_AT_MOST = 300.0
"""Seconds after which a connection that nobody used is not used again: it may have been cut."""

CLOSES_WITHIN = 5.0
"""Seconds for a connection to say goodbye."""


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
    except (*_REFUSED, *_LOST) as error:
        raise _unavailable(error, in_doubt=in_doubt) from error


def _unavailable(error: BaseException, *, in_doubt: bool) -> DatabaseUnavailable:
    metrics.DB_AWAY.inc()
    if isinstance(error, _REFUSED):
        return DatabaseUnavailable(
            "The database did not take this; nothing was saved, try again",
            reached=True,
            in_doubt=False,
        )
    return DatabaseUnavailable(
        "The database cannot be reached; try again in a moment",
        reached=False,
        in_doubt=in_doubt,
    )


async def _prepare(connection: asyncpg.Connection) -> None:
    await connection.set_type_codec(
        "uuid", schema="pg_catalog", encoder=str, decoder=str, format="text"
    )


class _Use:
    """One use of a connection: `Database.connection` says what it comes to.

    A class, since a context made of a generator takes longer than the rest of it.
    """

    __slots__ = ("_connection", "_database", "_writes")

    def __init__(self, database: Database, *, writes: bool) -> None:
        self._database = database
        self._writes = writes
        self._connection: Connection

    async def __aenter__(self) -> Connection:
        self._connection = await self._database.take()
        return self._connection

    async def __aexit__(
        self, kind: object, error: BaseException | None, traceback: object
    ) -> Literal[False]:
        meant = None
        if isinstance(error, (*_REFUSED, *_LOST)):
            meant = _unavailable(error, in_doubt=self._writes)
        said = meant or error
        whole = said is None or (
            isinstance(said, asyncpg.PostgresError | TurnbackError)
            and not (isinstance(said, DatabaseUnavailable) and unreachable(said))
        )
        self._database.give_back(self._connection, whole=whole)
        if meant is not None:
            raise meant from error
        return False


class Database:
    """Connections to one PostgreSQL, at most `size` of them, opened by `open`, ended by `close`.

    The last one given back is the next one taken. asyncpg's own pool takes a timer, a task and two
    trips through the event loop for each use, a third of what a commit costs (decision 0021).
    """

    def __init__(
        self, connect: Callable[[], Awaitable[Connection]], dsn: str, *, size: int, timeout: float
    ) -> None:
        self._connect = connect
        self._idle: list[tuple[Connection, float]] = []
        self._used: set[Connection] = set()
        self._room = asyncio.Semaphore(size)
        self.dsn = dsn
        self.connect_timeout = timeout

    @classmethod
    async def open(
        cls, url: str, *, size: int, connect_timeout: float, statement_timeout: float
    ) -> Database:
        """Connect. Times are in seconds. Raises `DatabaseUnavailable`."""
        dsn = asyncpg_dsn(url)

        async def connect() -> Connection:
            connection = await asyncpg.connect(
                dsn,
                timeout=connect_timeout,
                command_timeout=statement_timeout + CLIENT_MARGIN,
                server_settings={
                    "application_name": "turnback",
                    "statement_timeout": str(round(statement_timeout * 1000)),
                    **PLANNING,
                },
            )
            await _prepare(connection)
            return connection

        database = cls(connect, dsn, size=size, timeout=connect_timeout)
        async with database.connection():
            return database

    async def close(self) -> None:
        """Close every connection; those in use, and those that take long, are cut."""
        for connection in self._used:
            connection.terminate()
        idle, self._idle = self._idle, []
        closing = (connection.close(timeout=CLOSES_WITHIN) for connection, _ in idle)
        await asyncio.gather(*closing, return_exceptions=True)

    @property
    def usage(self) -> tuple[int, int]:
        """Connections in use now, and idle."""
        return len(self._used), len(self._idle)

    def connection(self, *, writes: bool = False) -> AbstractAsyncContextManager[Connection]:
        """A connection for a while. Raises `DatabaseUnavailable`.

        Where `writes`, a connection that is lost in use leaves what was sent on it in doubt. One
        whose use was cut off is not used again: an answer may still be under way.
        """
        return _Use(self, writes=writes)

    @asynccontextmanager
    async def apart(self) -> AsyncIterator[Connection]:
        """A connection beside the pool's, for what takes long. Raises `DatabaseUnavailable`."""
        async with domain_errors():
            connection = await self._connect()
        try:
            async with domain_errors():
                yield connection
        finally:
            connection.terminate()

    async def take(self) -> Connection:
        """A connection, to be given back. Raises `DatabaseUnavailable`."""
        if self._room.locked():
            async with domain_errors(), asyncio.timeout(self.connect_timeout):
                await self._room.acquire()
        else:
            await self._room.acquire()
        oldest = asyncio.get_running_loop().time() - IDLE_AT_MOST
        try:
            while self._idle:
                connection, since = self._idle.pop()
                if since > oldest and not connection.is_closed():
                    break
                connection.terminate()
            else:
                async with domain_errors():
                    connection = await self._connect()
        except BaseException:
            self._room.release()
            raise
        self._used.add(connection)
        return connection

    def give_back(self, connection: Connection, *, whole: bool) -> None:
        """Have a connection back; one that is not `whole` is not used again."""
        self._used.discard(connection)
        if whole and not connection.is_closed():
            self._idle.append((connection, asyncio.get_running_loop().time()))
        else:
            connection.terminate()
        self._room.release()

    async def run(self, act: Callable[[Connection], Awaitable[T]]) -> T:
        """`act` on a connection; what met a dead pooled connection is tried once more.

        What the database has refused, or stopped for taking too long, is not.
        """
        try:
            async with self.connection() as connection:
                return await act(connection)
        except DatabaseUnavailable as error:
            if not unreachable(error):
                raise
            await asyncio.sleep(0)
            async with self.connection() as connection:
                return await act(connection)
