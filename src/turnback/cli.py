"""The command `turnback`. What fails says so in one line on the standard error.

Exit codes: 0, it was done; 1, it was not, and the line says what to do; 2, the command line is
wrong; 70, a fault of Turnback's own, with a trace in the log.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from turnback import cli_keys, cli_tools, cli_upkeep, logs
from turnback.core.errors import SchemaMismatch, SettingsInvalid, TurnbackError
from turnback.environment import load_settings, misspelt
from turnback.settings import Settings
from turnback.signals import Signals
from turnback.store.embedded import Embedded

# What takes time to import is imported by the command that needs it, so that the signals are ours
# from the first moment.

Host = Annotated[
    str | None,
    typer.Option(
        help="A loopback address, or any once there is an API key.", show_default="127.0.0.1"
    ),
]
Port = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="0 takes any free one.", show_default="8700"),
]
DataDir = Annotated[
    Path | None, typer.Option(help="Where the embedded PostgreSQL lives.", show_default=".turnback")
]
Model = Annotated[
    str | None,
    typer.Option(help="`offline`, or PROVIDER:NAME as in openai:gpt-5.", show_default="offline"),
]

commands = typer.Typer(
    help="An agent service whose turns can be taken back. Every option is also a setting"
    " TURNBACK_… of the environment; an option goes before it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
commands.add_typer(cli_keys.keys, name="keys")
commands.add_typer(cli_keys.roles, name="roles")
commands.add_typer(cli_tools.tools, name="tools")
commands.command()(cli_upkeep.purge)
commands.command()(cli_upkeep.check)


@commands.command()
def serve(
    host: Host = None, port: Port = None, data_dir: DataDir = None, model: Model = None
) -> None:
    """Serve; print the address when ready."""
    signals = Signals()
    gc.disable()  # nothing that is imported is garbage; `run` enables it when all is in memory
    from turnback.serve import serve as run

    settings = load_settings(host=host, port=port, data_dir=data_dir, model=model)
    logs.configure(settings.log_level)
    for name, nearest in misspelt(os.environ).items():
        logs.log.warning("this variable is no setting", variable=name, nearest=nearest)
    run(
        settings,
        signals=signals,
        ready=lambda address: print(f"Turnback is ready at {address}", flush=True),
    )


@commands.command()
def address(host: Host = None, port: Port = None, data_dir: DataDir = None) -> None:
    """Print the address by which a person comes to the server that runs, good once.

    It is that of the server which started last with the data directory, unless `--host` or
    `--port` name another.
    """
    from turnback.origin_file import noted
    from turnback.serve import address_at, origin_at
    from turnback.token_file import current

    settings = load_settings(host=host, port=port, data_dir=data_dir)
    token = current(settings.token_file)
    origin = noted(settings.origin_file) if host is None and port is None else None
    if origin is None:
        if settings.port == 0:
            raise SettingsInvalid("`--port`: name the port of the server; its log says which")
        origin = origin_at(settings.host, settings.port)
    print(address_at(origin, token))


@commands.command()
def migrate(data_dir: DataDir = None) -> None:
    """Bring the database to the newest migration."""
    from turnback.store.migrate import current_and_head
    from turnback.store.migrate import migrate as run

    settings = load_settings(data_dir=data_dir)
    logs.configure(settings.log_level)
    with database(settings) as url:
        run(url, timeout=settings.migrate_timeout)
        print(f"The database is at migration {current_and_head(url)[0]}")


@commands.command()
def restored(data_dir: DataDir = None) -> None:
    """Say that the database was restored from a backup: the last step of a restore.

    Clients that come back with what they saw before are sent everything anew.
    """
    from turnback.store.migrate import set_new_epoch

    settings = load_settings(data_dir=data_dir)
    if settings.database_url is None and not (settings.data_dir / "postgres").exists():
        raise SchemaMismatch(
            f"`{settings.data_dir}` holds no database: restore the backup to there first, or say"
            " by `--data-dir` where it is"
        )
    with database(settings) as url:
        print(f"The database has a new stream epoch, {set_new_epoch(url)}")


@commands.command()
def doctor(
    host: Host = None, port: Port = None, data_dir: DataDir = None, model: Model = None
) -> None:
    """Check, a line each, what the service needs; exit 1 if it would not work."""
    from turnback.doctor import examine

    settings = load_settings(host=host, port=port, data_dir=data_dir, model=model)
    healthy = True
    for check in examine(settings):
        healthy &= check.verdict != "FAIL"
        print(f"{check.verdict:4}  {check.name}: {check.finding}", flush=True)
    if not healthy:
        raise typer.Exit(1)


@commands.command()
def schema(directory: Annotated[Path, typer.Argument(help="Where to write.")]) -> None:
    """Write the contracts: OpenAPI, JSON Schema, AsyncAPI, TypeScript, the table of settings."""
    from turnback import schema as documents

    for path in documents.write(directory):
        print(path, flush=True)


@contextmanager
def database(settings: Settings) -> Iterator[str]:
    """The URL of the settings' database; the embedded one runs meanwhile."""
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value()
        return
    with Embedded.start(settings.data_dir, timeout=settings.embedded_timeout) as embedded:
        yield embedded.url


def main() -> None:
    """The entry point."""
    try:
        commands()
    except TurnbackError as error:
        print(f"turnback: {error.message}", file=sys.stderr)
        raise SystemExit(1) from None
    except Exception as error:
        logs.configure("info")
        logs.log.exception("the command failed")
        told = f"turnback: failed unexpectedly (`{type(error).__name__}`); the trace is above"
        print(told, file=sys.stderr)
        raise SystemExit(70) from None
