"""Migrations: bring a database to the newest one, and say whether it is there.

The scripts are alembic's, in `migrations/` of the source tree or `turnback/migrations` of an
installed wheel; their `env.py` is the one way in, for `turnback migrate` and plain `alembic` both.
All functions block and must be called outside a running event loop.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import asyncpg

from turnback.core.errors import DatabaseUnavailable, SchemaMismatch, SettingsInvalid
from turnback.store.identities import LOCAL_MODE
from turnback.store.url import asyncpg_dsn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from sqlalchemy.ext.asyncio import AsyncConnection

T = TypeVar("T")

OLDEST_POSTGRESQL = 16
CONNECT_TIMEOUT = 10.0  # seconds
LOCK_POLL = 0.1  # seconds
LOCK_NOT_AVAILABLE = "55P03"
SERVES = "may be served by code at migration "
WHO_MAY_SERVE = "select obj_description('alembic_version'::regclass, 'pg_class')"
NEW_EPOCH = "update installation set stream_epoch = gen_random_uuid() returning stream_epoch"
LOGS = "select to_regclass('effects') is not null"
"""Whether it is of a version that had a log of what was done outside."""
FROM_BACKUP = """update effects set restored_at = clock_timestamp(),
    ended_at = coalesce(ended_at, case when state = 'held' then clock_timestamp() end),
    key_until = case when state = 'held' then null else key_until end,
    standing = case when state = 'held' then 'in_doubt' else standing end,
    state = case when state = 'held' then 'in_doubt' else state end
where standing is not null"""
"""What was done outside may be otherwise by now, and what was held back may have been sent."""
LOCK_KEY = 0x7475726E6261636B  # "turnback"; advisory locks are a database's own


def migrate(url: str, *, timeout: float = 60.0) -> None:
    """Run every migration that the database at `url` has not had.

    Two at a time are one after the other: the second waits `timeout` seconds at most. Raises
    `DatabaseUnavailable`, `SettingsInvalid` for a URL or a server that cannot be used, and
    `SchemaMismatch` for a database of a newer version.
    """
    current = _current(url)
    if current == _revisions()[-1] or _is_ahead(url, current):
        return
    # It costs half of a start to import, which a database that is current need not wait for.
    from alembic import command
    from alembic.config import Config
    from sqlalchemy.exc import DBAPIError

    config = Config()
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    config.attributes.update(database_url=url, timeout=timeout)
    try:
        command.upgrade(config, "head")
    except (OSError, DBAPIError) as error:
        if isinstance(error, DBAPIError) and not error.connection_invalidated:
            if getattr(error.orig, "sqlstate", None) == LOCK_NOT_AVAILABLE:
                raise DatabaseUnavailable(
                    "A table that is to be altered was in use all the time, by a transaction that"
                    " has been open for long: nothing was changed by this migration; end that"
                    " transaction, or wait for it, and run `turnback migrate` again"
                ) from error
            raise
        raise unreachable(error) from error


def current_and_head(url: str) -> tuple[str | None, str]:
    """The database's migration, none if it has had none; and the one that this version needs.

    Raises `DatabaseUnavailable` and `SettingsInvalid`.
    """
    return _current(url), _revisions()[-1]


def check_current(url: str) -> None:
    """Raise `SchemaMismatch`, with what to do, if this version cannot serve the database.

    It serves the newest migration that it knows, and the one after that, if it only adds: the next
    release may have migrated while this one still runs. Raises `DatabaseUnavailable` and
    `SettingsInvalid` too.
    """
    current, head = current_and_head(url)
    if current == head or _is_ahead(url, current):
        return
    raise SchemaMismatch(
        f"The database is at migration `{current or 'none'}` and this version needs `{head}`:"
        " run `turnback migrate`",
        current=current,
        head=head,
    )


def clock(url: str) -> datetime:
    """What time it is for the database. Raises `DatabaseUnavailable`, `SettingsInvalid`."""

    async def read(connection: asyncpg.Connection) -> datetime:
        now: datetime = await connection.fetchval("select clock_timestamp()")
        return now

    return _ask(url, read)


def has_keys(url: str) -> bool:
    """Whether an API key was ever made. Raises `DatabaseUnavailable`, `SettingsInvalid`."""

    async def read(connection: asyncpg.Connection) -> bool:
        try:
            return not await connection.fetchval(LOCAL_MODE)
        except asyncpg.UndefinedTableError:  # it is older than keys are
            return False

    return _ask(url, read)


def set_new_epoch(url: str) -> str:
    """Begin a new history in the database at `url`, which was restored from a backup; its id.

    A client that comes back with an `eventSeq` of the old one is sent a snapshot with `reset`: the
    same numbers stand for other events now. What was done outside is looked at again before
    anything is undone (undo.md, tables), and what was held back is not sent. Raises
    `DatabaseUnavailable`, `SettingsInvalid`, and `SchemaMismatch` for one that holds nothing.
    """
    if _current(url) is None:
        raise SchemaMismatch(
            "The database holds nothing of Turnback's: restore the backup into it first"
        )

    async def set_(connection: asyncpg.Connection) -> str:
        async with connection.transaction():
            if await connection.fetchval(LOGS):
                await connection.execute(FROM_BACKUP)
            return str(await connection.fetchval(NEW_EPOCH))

    return _ask(url, set_)


async def wait_for_lock(connection: AsyncConnection, *, seconds: float) -> None:
    """Hold the migrators' lock until `connection` closes. Raises `DatabaseUnavailable`.

    Polled, each time in a transaction of its own: a connection that waited inside
    `pg_advisory_lock` would deadlock with `create index concurrently` of the one it waits for.
    """
    from sqlalchemy import text

    deadline = time.monotonic() + seconds
    while not await connection.scalar(text(f"select pg_try_advisory_lock({LOCK_KEY})")):
        await connection.rollback()
        if time.monotonic() > deadline:
            raise DatabaseUnavailable(
                "Another process is migrating the database: try again when it has finished"
            )
        await asyncio.sleep(LOCK_POLL)
    await connection.commit()


def scripts() -> Path:
    """The folder of the migration scripts."""
    package = Path(__file__).parents[1]
    installed = package / "migrations"
    return installed if installed.is_dir() else package.parents[1] / "migrations"


def _revisions() -> list[str]:
    """The migrations that this version has, oldest first: each script's name begins with its own.

    Raises `SchemaMismatch` where the installation lacks them.
    """
    found = sorted(path.name[:4] for path in (scripts() / "versions").glob("[0-9]*.py"))
    if not found:
        raise SchemaMismatch(
            f"This installation has no migrations in `{scripts()}`: install Turnback again"
        )
    return found


def _current(url: str) -> str | None:
    async def read(connection: asyncpg.Connection) -> str | None:
        version = connection.get_server_version().major
        if version < OLDEST_POSTGRESQL:
            raise SettingsInvalid(
                f"`TURNBACK_DATABASE_URL` names a PostgreSQL {version}:"
                f" {OLDEST_POSTGRESQL} or newer is needed"
            )
        encoding = connection.get_settings().server_encoding
        if encoding != "UTF8":
            raise SettingsInvalid(
                f"`TURNBACK_DATABASE_URL` names a database in {encoding}: make one with"
                " `create database … encoding 'UTF8' template template0`"
            )
        try:
            found: str | None = await connection.fetchval("select version_num from alembic_version")
        except asyncpg.UndefinedTableError:
            return None
        return found

    return _ask(url, read)


def _ask(url: str, ask: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
    """`ask` on a connection of its own. Raises `DatabaseUnavailable`, `SettingsInvalid`."""

    async def run() -> T:
        try:
            connection = await asyncpg.connect(asyncpg_dsn(url), timeout=CONNECT_TIMEOUT)
        except asyncpg.InterfaceError:
            raise
        except ValueError as error:  # its text may quote a password
            raise SettingsInvalid("`TURNBACK_DATABASE_URL` has a port that is none") from error
        try:
            return await ask(connection)
        finally:
            await connection.close(timeout=CONNECT_TIMEOUT)

    try:
        return asyncio.run(run())
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise unreachable(error) from error


def _is_ahead(url: str, current: str | None) -> bool:
    """Whether the database has the next release's migration and this one may still serve it.

    Raises `SchemaMismatch` where it may not.
    """
    known = _revisions()
    if current is None or current in known:
        return False
    note = _ask(url, lambda connection: connection.fetchval(WHO_MAY_SERVE))
    if note == f"{SERVES}{known[-1]}":
        return True
    raise SchemaMismatch(
        f"The database is at migration `{current}`, which this version does not know:"
        " install the newer Turnback that made it",
        current=current,
    )


def unreachable(error: Exception) -> DatabaseUnavailable:
    """What to say of a database that does not answer, or not to us."""
    reason = str(error).partition("\n")[0] or type(error).__name__
    return DatabaseUnavailable(
        f"The database cannot be reached ({reason}): check `TURNBACK_DATABASE_URL`"
    )
