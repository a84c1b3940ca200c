"""The command `turnback`. What fails says so in one sentence on the standard error, and exits 1."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError
from pydantic_settings import SettingsError

from turnback import logs
from turnback.core.errors import SettingsInvalid, TurnbackError
from turnback.settings import Settings
from turnback.signals import Signals
from turnback.store.embedded import Embedded

# What takes time to import is imported by the command that needs it, so that the signals are ours
# from the first moment.

Host = Annotated[str | None, typer.Option(help="A loopback address.", show_default="127.0.0.1")]
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


@commands.command()
def serve(
    host: Host = None, port: Port = None, data_dir: DataDir = None, model: Model = None
) -> None:
    """Serve on loopback; print the address when ready."""
    signals = Signals()
    from turnback.serve import serve as run

    settings = load_settings(host=host, port=port, data_dir=data_dir, model=model)
    logs.configure(settings.log_level)
    run(
        settings,
        signals=signals,
        ready=lambda address: print(f"Turnback is ready at {address}", flush=True),
    )


@commands.command()
def migrate(data_dir: DataDir = None) -> None:
    """Bring the database to the newest migration."""
    settings = load_settings(data_dir=data_dir)
    if settings.database_url is not None:
        migrate_and_tell(settings.database_url.get_secret_value(), settings)
        return
    with Embedded.start(settings.data_dir, timeout=settings.embedded_timeout) as embedded:
        migrate_and_tell(embedded.url, settings)


@commands.command()
def doctor(
    host: Host = None, port: Port = None, data_dir: DataDir = None, model: Model = None
) -> None:
    """Check, a line each, what the service needs; exit 1 if anything is missing."""
    from turnback.doctor import examine

    settings = load_settings(host=host, port=port, data_dir=data_dir, model=model)
    healthy = True
    for check in examine(settings):
        healthy &= check.good
        print(f"{'ok  ' if check.good else 'FAIL'}  {check.name}: {check.finding}", flush=True)
    if not healthy:
        raise typer.Exit(1)


@commands.command()
def schema(directory: Annotated[Path, typer.Argument(help="Where to write.")]) -> None:
    """Write the frames' JSON Schema and TypeScript types, and the OpenAPI document."""
    from turnback import schema as documents

    for path in documents.write(directory):
        print(path, flush=True)


def load_settings(**options: object) -> Settings:
    """The settings of the environment, under the options that were given.

    Raises `SettingsInvalid`, which names each variable to change and quotes no value.
    """
    try:
        return Settings(**{name: value for name, value in options.items() if value is not None})  # type: ignore[arg-type]
    except ValidationError as error:
        wrong = [f"`{variable(str(e['loc'][0]))}`: {e['msg']}" for e in error.errors()]
        raise SettingsInvalid("Settings cannot be used; " + "; ".join(wrong)) from error
    except SettingsError as error:
        field = re.search(r'field "(\w+)"', str(error))
        name = variable(field[1]) if field else "TURNBACK_…"
        raise SettingsInvalid(f"Settings cannot be used; `{name}`: must be JSON") from error


def variable(field: str) -> str:
    """The environment variable of a setting."""
    prefix = str(Settings.model_config["env_prefix"])
    return f"{prefix}{field.upper()}"


def migrate_and_tell(url: str, settings: Settings) -> None:
    from turnback.store.migrate import current_and_head
    from turnback.store.migrate import migrate as run

    run(url, timeout=settings.migrate_timeout)
    print(f"The database is at migration {current_and_head(url)[0]}")


def main() -> None:
    """The entry point."""
    try:
        commands()
    except TurnbackError as error:
        print(f"turnback: {error.message}", file=sys.stderr)
        raise SystemExit(1) from None
