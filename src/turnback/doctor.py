"""What the service needs of its machine, looked at without changing anything."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnback.agent.models import resolve
from turnback.api.page import PAGE
from turnback.core.errors import StartError, TurnbackError
from turnback.serve import bind
from turnback.store.embedded import Embedded, binaries, user_prefix
from turnback.store.migrate import check_current, current_and_head

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from turnback.settings import Settings


@dataclass(frozen=True)
class Check:
    """One look: `finding` is what was found, or else what to do."""

    name: str
    good: bool
    finding: str


def examine(settings: Settings) -> Iterator[Check]:
    """Every check, in the order in which a start would meet them."""
    for name, look in CHECKS.items():
        try:
            finding = look(settings)
        except TurnbackError as error:
            yield Check(name, False, error.message)
        else:
            yield Check(name, True, finding)


def python(settings: Settings) -> str:
    return platform.python_version()


def port(settings: Settings) -> str:
    bind(settings.host, settings.port).close()
    return f"{settings.port} of `{settings.host}` is free"


def model(settings: Settings) -> str:
    resolve(settings)
    return f"`{settings.model}`"


def page(settings: Settings) -> str:
    if not (PAGE / "index.html").is_file():
        raise StartError("not built: install Node.js with npm and run `make panel`")
    return "built"


def data_directory(settings: Settings) -> str:
    folder = settings.data_dir.resolve()
    try:
        there = next(path for path in (folder, *folder.parents) if path.exists())
    except PermissionError:
        raise StartError(f"`{folder}` cannot be reached: choose another by `--data-dir`") from None
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise StartError(f"`{there}` cannot be written to: choose another by `--data-dir`")
    return f"`{folder}`"


def programs(settings: Settings) -> str:
    if settings.database_url is not None:
        return "not needed: `TURNBACK_DATABASE_URL` is set"
    command = [*user_prefix(), str(binaries() / "postgres"), "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StartError(f"PostgreSQL does not run here ({done.stderr.strip()})")
    return done.stdout.strip() + (", in a user namespace" if command[0] == "unshare" else "")


def database(settings: Settings) -> str:
    if settings.database_url is not None:
        url = settings.database_url.get_secret_value()
        check_current(url)
        return f"reached, at migration {current_and_head(url)[0]}"
    if not (settings.data_dir / "postgres").exists():
        return "embedded; the first `turnback serve` makes it"
    with Embedded.start(settings.data_dir, timeout=settings.embedded_timeout) as embedded:
        current, head = current_and_head(embedded.url)
    later = "" if current == head else f"; `turnback serve` migrates it to {head}"
    return f"embedded, at migration {current}{later}"


CHECKS: dict[str, Callable[[Settings], str]] = {
    "python": python,
    "port": port,
    "model": model,
    "page": page,
    "data directory": data_directory,
    "postgresql": programs,
    "database": database,
}
