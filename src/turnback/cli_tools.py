"""`turnback tools …`: the tools from outside, what their contracts promise, and whether it is so.

They start the configured tool servers for the moment, and speak to the database for the pins.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from turnback import logs
from turnback.core.errors import UnknownTool
from turnback.environment import load_settings
from turnback.settings import Settings

if TYPE_CHECKING:
    from turnback.store.pins import ToolPins
    from turnback.tools.registry import Tool

T = TypeVar("T")

DataDir = Annotated[
    Path | None, typer.Option(help="Where the embedded PostgreSQL lives.", show_default=".turnback")
]

tools = typer.Typer(
    help="Tools from outside: what their contracts promise, and whether it is so.",
    invoke_without_command=True,
)

HEAD = ("TOOL", "WORST", "CASES", "CONTRACT", "PINNED", "WHY")


@tools.callback()
def list_tools(context: typer.Context, data_dir: DataDir = None) -> None:
    """List the tools, a line each: the worst class of a call, those of its cases, its pin."""
    if context.invoked_subcommand is not None:
        return
    settings = load_settings(data_dir=data_dir)

    async def run(pins: ToolPins) -> int:
        from turnback.tools import catalog, servers

        configured = servers.configured(settings)
        async with catalog.opened(settings, pins) as opened:
            await opened.refresh()
            _print([HEAD, *map(_row, opened.registry.all())])
            for name, error in sorted(opened.failing.items()):
                print(f"turnback: `{name}` could not be asked: {error.message}", file=sys.stderr)
                if configured[name].command is not None:
                    said = "run its `command` by hand with its `args`: what it writes says why"
                    print(f"turnback: `{name}`: {said}", file=sys.stderr)
            for unused in opened.unused():
                print(f"turnback: {unused}", file=sys.stderr)
            return len(opened.failing)

    if _ask(settings, run):
        raise typer.Exit(1)


@tools.command()
def pin(
    tool: Annotated[str, typer.Argument(metavar="CONNECTION.TOOL", help="Which you looked at.")],
    data_dir: DataDir = None,
) -> None:
    """Say that a tool whose description or schema has changed is still what its contract says."""
    settings = load_settings(data_dir=data_dir)
    connection, _, name = tool.partition(".")

    async def run(pins: ToolPins) -> Tool:
        from turnback.tools import catalog

        async with catalog.opened(settings, pins) as opened:
            await opened.refresh()
            if connection in opened.failing:
                raise opened.failing[connection]
            found = opened.registry.get(connection, name)
            if found is None:
                raise UnknownTool(f"There is no tool `{tool}`: `turnback tools` lists them")
            await pins.looked(connection, name, found.pin)
            return found

    found = _ask(settings, run)
    print(f"{found.shown} is pinned as it is now, {found.pin}")


@tools.command()
def check(
    only: Annotated[
        str | None, typer.Argument(metavar="[SERVER]", help="One server; without it, all.")
    ] = None,
) -> None:
    """Try contracts out in throw-away instances, a line for each tool; exit 1 if one lies.

    What is tried is said by the overlay's `sandbox`; nothing of a configured server is touched.
    """
    from turnback.tools.catalog import examined
    from turnback.tools.checking import Verdict

    settings = load_settings()
    logs.configure("error")

    async def run() -> list[Verdict]:
        verdicts = []
        async for found in examined(settings, only):
            line = f"{found.verdict:9}  {found.connection}.{found.tool}: {found.said}"
            print(line, flush=True)
            verdicts.append(found.verdict)
        return verdicts

    verdicts = asyncio.run(run())
    if only is not None and not verdicts:
        raise UnknownTool(
            f"Nothing declares a tool of `{only}`: see `TURNBACK_CONTRACTS_DIR`, or trust its own"
        )
    if Verdict.LIES in verdicts:
        raise typer.Exit(1)


def _row(tool: Tool) -> tuple[str, ...]:
    cases = [f"{case.class_}" for case in tool.contract.cases]
    why = "disabled" if tool.disabled else (tool.why or "")
    return (
        tool.shown,
        str(tool.worst),
        ", ".join(dict.fromkeys(cases)) or "-",
        str(tool.front or "-"),
        str(tool.pinned),
        why,
    )


def _print(rows: Sequence[tuple[str, ...]]) -> None:
    """A table, its columns as wide as they have to be; the last is as it comes."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        print("  ".join([*cells, row[-1]]).rstrip())


def _ask(settings: Settings, ask: Callable[[ToolPins], Awaitable[T]]) -> T:
    """`ask` of the pins in the settings' database; the embedded one runs meanwhile."""
    from turnback.current import database as current
    from turnback.store.database import Database
    from turnback.store.pins import ToolPins

    logs.configure("error")

    async def run(url: str) -> T:
        database = await Database.open(
            url,
            size=2,
            connect_timeout=settings.db_connect_timeout,
            statement_timeout=settings.db_statement_timeout,
        )
        try:
            return await ask(ToolPins(database))
        finally:
            await database.close()

    with current(settings) as (url, _):
        return asyncio.run(run(url))
