"""`turnback keys …` and `turnback roles …`: who may come to the server, and as what.

They speak to the database, so that they work whether or not the service runs; one that runs hears
of each change at once. A key's text is printed once, alone on the standard output, and is nowhere.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from turnback import logs
from turnback.core.principal import LOCAL, Principal, ProjectRole, service_of
from turnback.environment import load_settings
from turnback.settings import Settings

if TYPE_CHECKING:
    from turnback.store.identities import ApiKey, Identities

PAGE = 500

T = TypeVar("T")

Project = Annotated[
    str,
    typer.Option(help="The project; what was made before there were keys is in `local`."),
]
DataDir = Annotated[
    Path | None, typer.Option(help="Where the embedded PostgreSQL lives.", show_default=".turnback")
]
Role = Literal["viewer", "editor", "owner", "none"]
Whose = Annotated[str, typer.Argument(metavar="PRINCIPAL", help="Whose: a name of your choice.")]

keys = typer.Typer(help="API keys: make, list and revoke them.", no_args_is_help=True)
roles = typer.Typer(help="What principals are in a project.", no_args_is_help=True)


@keys.command()
def create(
    principal: Whose,
    role: Annotated[
        Role | None,
        typer.Option(
            help="What the principal is in the project from now on; `none`: a guest, who sees"
            " what is shared with it.",
            show_default="as it is",
        ),
    ] = None,
    project: Project = LOCAL.project_id,
    name: Annotated[str, typer.Option(help="What the key is for.")] = "",
    days: Annotated[
        float | None,
        typer.Option(
            min=0.001, max=36_500, help="After how many days it expires.", show_default="never"
        ),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Make a key and print it, once. From the first one on, nobody comes without."""
    expires_at = None if days is None else datetime.now(UTC) + timedelta(days=days)

    async def make(identities: Identities, service: Principal) -> tuple[ApiKey, str]:
        return await identities.make_key(
            service, principal, name=name, role=_role(role), expires_at=expires_at
        )

    key, text = _ask(load_settings(data_dir=data_dir), project, make)
    print(f"{_line(key)}\nThe key, which is not shown again:", file=sys.stderr)
    print(text, flush=True)


@keys.command("list")
def list_keys(project: Project = LOCAL.project_id, data_dir: DataDir = None) -> None:
    """List the project's keys, the newest first: a line each, by the part that is no secret."""

    async def read(identities: Identities, service: Principal) -> list[ApiKey]:
        found: list[ApiKey] = []
        while True:
            before = found[-1].id if found else None
            page = await identities.keys(service, before=before, limit=PAGE)
            found += page
            if len(page) < PAGE:
                return found

    for key in _ask(load_settings(data_dir=data_dir), project, read):
        print(_line(key))


@keys.command()
def revoke(
    key: Annotated[str, typer.Argument(metavar="KEY", help="As listed: `tb_` and twelve more.")],
    project: Project = LOCAL.project_id,
    data_dir: DataDir = None,
) -> None:
    """Revoke a key: its next request is refused, its sockets are closed."""

    async def end(identities: Identities, service: Principal) -> None:
        await identities.revoke_key(service, key.removeprefix("tb_").partition("_")[0])

    _ask(load_settings(data_dir=data_dir), project, end)
    print("The key is revoked")


@roles.command("set")
def set_role(
    principal: Whose,
    role: Annotated[Role, typer.Argument(help="`none`: a guest, who sees what is shared with it.")],
    project: Project = LOCAL.project_id,
    data_dir: DataDir = None,
) -> None:
    """Say what a principal is in the project, whatever keys it has."""

    async def change(identities: Identities, service: Principal) -> None:
        await identities.set_role(service, principal, None if role == "none" else ProjectRole(role))

    _ask(load_settings(data_dir=data_dir), project, change)
    print(f"{principal} is {role} in {project}")


@roles.command("list")
def list_roles(project: Project = LOCAL.project_id, data_dir: DataDir = None) -> None:
    """List who has a role in the project, a line each."""

    async def read(identities: Identities, service: Principal) -> list[tuple[str, ProjectRole]]:
        found: list[tuple[str, ProjectRole]] = []
        while True:
            after = found[-1][0] if found else None
            page = await identities.roles(service, after=after, limit=PAGE)
            found += page
            if len(page) < PAGE:
                return found

    for principal, role in _ask(load_settings(data_dir=data_dir), project, read):
        print(f"{principal}  {role}")


def _role(named: Role | None) -> ProjectRole | Literal["as it is"] | None:
    if named is None:
        return "as it is"
    return None if named == "none" else ProjectRole(named)


def _line(key: ApiKey) -> str:
    state = "never expires"
    if key.expires_at is not None:
        over = "expired" if key.expires_at < datetime.now(UTC) else "expires"
        state = f"{over} {key.expires_at:%Y-%m-%d %H:%M} UTC"
    if key.revoked_at is not None:
        state = f"revoked {key.revoked_at:%Y-%m-%d %H:%M} UTC"
    role = key.role or "none"
    return "  ".join(
        part for part in (f"tb_{key.prefix}", key.principal_id, role, key.name, state) if part
    )


def _ask(
    settings: Settings, project: str, ask: Callable[[Identities, Principal], Awaitable[T]]
) -> T:
    """`ask` of the settings' database, as the service in the project."""
    from turnback.current import database as current
    from turnback.store.access import Access
    from turnback.store.database import Database
    from turnback.store.identities import Identities
    from turnback.store.wakeups import Wakeups

    logs.configure(settings.log_level)

    async def run(url: str) -> T:
        database = await Database.open(
            url,
            size=1,
            connect_timeout=settings.db_connect_timeout,
            statement_timeout=settings.db_statement_timeout,
        )
        try:
            wakeups = Wakeups(database, node_id="-")
            return await ask(Identities(database, Access(database), wakeups), service_of(project))
        finally:
            await database.close()

    with current(settings) as (url, _):
        return asyncio.run(run(url))
