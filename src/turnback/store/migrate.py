"""Migrations: bring a database to the newest one, and say whether it is there.

The scripts are alembic's, in `migrations/` of the source tree or `turnback/migrations` of an
installed wheel; their `env.py` is the one way in, for `turnback migrate` and plain `alembic` both.
All functions block and must be called outside a running event loop.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from turnback.core.errors import DatabaseUnavailable, SchemaMismatch, SettingsInvalid
from turnback.store.url import asyncpg_dsn

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

OLDEST_POSTGRESQL = 16
CONNECT_TIMEOUT = 10.0  # seconds
LOCK_POLL = 0.1  # seconds
LOCK_KEY = 0x7475726E6261636B  # "turnback"; advisory locks are a database's own


def migrate(url: str, *, timeout: float = 60.0) -> None:
    """Run every migration that the database at `url` has not had.

    Two at a time are one after the other: the second waits `timeout` seconds at most. Raises
    `DatabaseUnavailable`, `SettingsInvalid` for a URL or a server that cannot be used, and
    `SchemaMismatch` for a database of a newer version.
    """
    config = _config()
    _refuse_unknown(config, _current(url))
    config.attributes.update(database_url=url, timeout=timeout)
    try:
        command.upgrade(config, "head")
    except (OSError, DBAPIError) as error:
        if isinstance(error, DBAPIError) and not error.connection_invalidated:
            raise
        raise _unreachable(error) from error


def current_and_head(url: str) -> tuple[str | None, str | None]:
    """The database's migration, none if it has had none; and the one that this version needs.

    Raises `DatabaseUnavailable` and `SettingsInvalid`.
    """
    return _current(url), ScriptDirectory.from_config(_config()).get_current_head()


def check_current(url: str) -> None:
    """Raise `SchemaMismatch`, with the command to run, if the database is not at the newest.

    Raises `DatabaseUnavailable` and `SettingsInvalid` too.
    """
    current, head = current_and_head(url)
    if current == head:
        return
    _refuse_unknown(_config(), current)
    raise SchemaMismatch(
        f"The database is at migration `{current or 'none'}` and this version needs `{head}`:"
        " run `turnback migrate`",
        current=current,
        head=head,
    )


async def wait_for_lock(connection: AsyncConnection, *, seconds: float) -> None:
    """Hold the migrators' lock until `connection` closes. Raises `DatabaseUnavailable`.

    Polled, each time in a transaction of its own: a connection that waited inside
    `pg_advisory_lock` would deadlock with `create index concurrently` of the one it waits for.
    """
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


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    return config


def _current(url: str) -> str | None:
    async def read() -> str | None:
        try:
            connection = await asyncpg.connect(asyncpg_dsn(url), timeout=CONNECT_TIMEOUT)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise _unreachable(error) from error
        except ValueError as error:  # its text may quote a password
            raise SettingsInvalid("`TURNBACK_DATABASE_URL` has a port that is none") from error
        try:
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
            found: str | None = await connection.fetchval("select version_num from alembic_version")
        except asyncpg.UndefinedTableError:
            return None
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise _unreachable(error) from error
        finally:
            await connection.close(timeout=CONNECT_TIMEOUT)
        return found

    return asyncio.run(read())


def _refuse_unknown(config: Config, current: str | None) -> None:
    if current is None:
        return
    try:
        ScriptDirectory.from_config(config).get_revision(current)
    except CommandError as error:
        raise SchemaMismatch(
            f"The database is at migration `{current}`, which this version does not know:"
            " install the newer Turnback that made it",
            current=current,
        ) from error


def _unreachable(error: Exception) -> DatabaseUnavailable:
    reason = str(error) or type(error).__name__
    return DatabaseUnavailable(
        f"The database cannot be reached ({reason}): check `TURNBACK_DATABASE_URL`"
    )
