"""How alembic reaches the database: for `turnback migrate`, and for plain `alembic`.

Plain `alembic` takes `TURNBACK_DATABASE_URL`; without it, the embedded PostgreSQL of the data
directory, started for as long as the command runs.
"""

from __future__ import annotations

import asyncio
import sys
from logging.config import fileConfig
from typing import TYPE_CHECKING

from alembic import context
from alembic.script import ScriptDirectory
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from turnback.core.errors import TurnbackError
from turnback.environment import load_settings
from turnback.store.embedded import Embedded
from turnback.store.migrate import SERVES, current_and_head, wait_for_lock
from turnback.store.url import asyncpg_dsn

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from alembic.runtime.migration import MigrationContext, MigrationInfo
    from sqlalchemy import Connection

config = context.config


def say_who_may_serve(
    *, ctx: MigrationContext, step: MigrationInfo, heads: Collection[str], run_args: Any
) -> None:
    """Note in the database which older release may go on serving it after this migration.

    That is the one before, unless the script says that it takes away what that one uses
    (`contracts = True`): expand, deploy, contract.
    """
    [now] = heads or [None]
    script = None if now is None else ScriptDirectory.from_config(config).get_revision(now)
    older = None
    if script is not None and not getattr(script.module, "contracts", False):
        older = script.down_revision
    noted = "null" if older is None else f"'{SERVES}{older}'"
    ctx.execute(f"comment on table alembic_version is {noted}")


def run(connection: Connection | None) -> None:
    """The migrations asked for; without a connection, as SQL on the standard output."""
    # A transaction for each, so that one can step out of it for `create index concurrently`.
    context.configure(
        connection=connection,
        dialect_name="postgresql",
        literal_binds=connection is None,
        transaction_per_migration=True,
        on_version_apply=say_who_may_serve,
    )
    with context.begin_transaction():
        context.run_migrations()


async def connect_and_run(url: str, wait: float) -> None:
    """The migrations asked for on the database at `url`, while no other process migrates it.

    Waits `wait` seconds at most for one that does.
    """
    engine = create_async_engine(
        "postgresql+asyncpg://",
        connect_args={"dsn": asyncpg_dsn(url)},
        poolclass=NullPool,
        hide_parameters=True,  # an error's text is logged
    )
    async with engine.connect() as connection:
        await wait_for_lock(connection, seconds=wait)
        await connection.run_sync(run)


def plain_alembic() -> None:
    """Without a caller that names a database: the settings' one."""
    if config.config_file_name is not None:
        fileConfig(config.config_file_name, disable_existing_loggers=False)
    try:
        settings = load_settings()
        if settings.database_url is not None:
            url = settings.database_url.get_secret_value()
            current_and_head(url)  # refuses what cannot be reached or used, in one sentence
            asyncio.run(connect_and_run(url, settings.migrate_timeout))
            return
        with Embedded.start(settings.data_dir, timeout=settings.embedded_timeout) as embedded:
            asyncio.run(connect_and_run(embedded.url, settings.migrate_timeout))
    except TurnbackError as error:
        sys.exit(f"turnback: {error.message}")


if context.is_offline_mode():
    run(None)
elif "database_url" in config.attributes:
    asyncio.run(connect_and_run(config.attributes["database_url"], config.attributes["timeout"]))
else:
    plain_alembic()
