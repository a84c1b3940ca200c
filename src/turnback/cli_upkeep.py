"""`turnback purge` and `turnback check`: what an administrator does with the database itself.

Both speak to the database, so that they work whether or not the service runs; one that runs hears
of a purge at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from turnback import logs
from turnback.core.errors import SessionNotFound
from turnback.core.principal import service_of
from turnback.core.values import counted
from turnback.environment import load_settings
from turnback.settings import Settings

if TYPE_CHECKING:
    from turnback.store.check import Finding
    from turnback.store.database import Database
    from turnback.store.purge import Erased

T = TypeVar("T")

DataDir = Annotated[
    Path | None, typer.Option(help="Where the embedded PostgreSQL lives.", show_default=".turnback")
]


def purge(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The id of a deleted one.")],
    data_dir: DataDir = None,
) -> None:
    """Remove for good what a deleted session has said; its forks lose what they inherit of it."""
    settings = load_settings(data_dir=data_dir)

    async def run(database: Database) -> Erased:
        from turnback.store.dao import Dao

        dao = Dao(
            database,
            node_id="-",
            max_redo_depth=settings.max_redo_depth,
            directory_cache=1,
            attachments=settings.attachments_folder,
        )
        try:
            service = service_of(await dao.project(session))
        except SessionNotFound:
            raise SessionNotFound(f"There is no session `{session}`") from None
        return await dao.purge(service, session, batch=settings.sweep_batch)

    erased = _ask(settings, run, seconds=settings.db_statement_timeout)
    gone = (counted(number, kind.removesuffix("s")) for kind, number in asdict(erased).items())
    print(f"Purged: {', '.join(gone)}")


def check(data_dir: DataDir = None) -> None:
    """Check, a line each, that nothing in the database is missing its other half; else exit 1."""
    settings = load_settings(data_dir=data_dir)

    async def run(database: Database) -> list[Finding]:
        from turnback.store.check import examine

        return [finding async for finding in examine(database)]

    found = _ask(settings, run, seconds=settings.check_timeout)
    for finding in found:
        if finding.wrong:
            print(f"FAIL  {finding.proves}: {finding.wrong} not, as {', '.join(finding.some)}")
        else:
            print(f"ok    {finding.proves}")
    if any(finding.wrong for finding in found):
        raise typer.Exit(1)


def _ask(settings: Settings, ask: Callable[[Database], Awaitable[T]], *, seconds: float) -> T:
    """`ask` of the settings' database, each of whose statements may take `seconds`."""
    from turnback.current import database as current
    from turnback.store.database import Database

    logs.configure(settings.log_level)

    async def run(url: str) -> T:
        database = await Database.open(
            url,
            size=2,
            connect_timeout=settings.db_connect_timeout,
            statement_timeout=seconds,
        )
        try:
            return await ask(database)
        finally:
            await database.close()

    with current(settings) as (url, _):
        return asyncio.run(run(url))
