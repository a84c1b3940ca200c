"""What the service needs of its machine, looked at without changing anything."""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
import subprocess
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from turnback.agent.models import resolve
from turnback.api.guard import is_loopback
from turnback.api.page import PAGE
from turnback.core.errors import PortBusy, StartError, TokenInReach, TurnbackError
from turnback.environment import misspelt
from turnback.serve import (
    DESCRIPTORS,
    bind,
    check_address,
    no_keys,
    origin_at,
    refuse_token_in_reach,
)
from turnback.settings import OFFLINE
from turnback.store.embedded import Embedded, binaries, user_prefix
from turnback.store.migrate import check_current, clock, current_and_head, has_keys
from turnback.telemetry import tracing
from turnback.tools.catalog import declared
from turnback.tools.mcp_stdio import is_there

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from turnback.settings import Settings

Verdict = Literal["ok", "warn", "FAIL"]

PATIENCE = 3.0  # seconds for another server's answer
LITTLE_SPACE, SOME_SPACE = 100 * 2**20, 2**30  # bytes
FEW_DESCRIPTORS = 4096
CLOCK_DRIFT = 5.0  # seconds between this machine and the database's
NETWORK = "nfs nfs4 cifs smb3 smbfs 9p afs ceph glusterfs lustre gpfs virtiofs vboxsf davfs"
REMOTE = frozenset([*NETWORK.split(), "fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone"])


@dataclass(frozen=True)
class Check:
    """One look: `finding` is what was found, or else what to do. With `warn` it works so far."""

    name: str
    verdict: Verdict
    finding: str


class Warn(Exception):
    """Works, but not well, or not for long."""


def examine(settings: Settings) -> Iterator[Check]:
    """Every check, in the order in which a start would meet them."""
    for name, look in CHECKS.items():
        try:
            finding = look(settings)
        except TurnbackError as error:
            yield Check(name, "FAIL", error.message)
        except Warn as warning:
            yield Check(name, "warn", str(warning))
        except OSError as error:  # of a path that cannot be: too long, a loop, a lost mount
            yield Check(name, "FAIL", f"{error.strerror}: `{error.filename}`")
        else:
            yield Check(name, "ok", finding)


def python(settings: Settings) -> str:
    return platform.python_version()


def port(settings: Settings) -> str:
    try:
        bind(settings.host, settings.port).close()
    except PortBusy as busy:
        try:
            found = _ask(settings, "/capabilities")
        except (OSError, HTTPException):
            raise busy from None
        if "turnback.v1" not in found.get("protocols", ()):
            raise
        return f"{settings.port} is served by a Turnback already, which {_health(settings)}"
    return f"{settings.port} of `{settings.host}` is free"


def _health(settings: Settings) -> str:
    try:
        _ask(settings, "/readyz")
    except (OSError, HTTPException) as error:
        raise StartError(
            f"{settings.port} is served by a Turnback already, which is not ready ({error}):"
            " see what it logs"
        ) from None
    return "is healthy"


def _ask(settings: Settings, path: str) -> dict[str, Any]:
    """The JSON object that whoever has the port answers. Raises `OSError`, `HTTPException`."""
    base = origin_at(settings.host, settings.port)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
        base + path, timeout=PATIENCE
    ) as answer:
        try:
            found = json.load(answer)
        except ValueError:
            return {}
    return found if isinstance(found, dict) else {}


def variables(settings: Settings) -> str:
    wrong = misspelt(os.environ)
    if not wrong:
        return "each `TURNBACK_…` is a setting"
    told = [f"`{name}`" + (f" (`{near}`?)" if near else "") for name, near in wrong.items()]
    raise Warn(f"no setting, and not heeded: {', '.join(told)}")


def model(settings: Settings) -> str:
    resolve(settings)
    if settings.model_base_url is None or settings.model == OFFLINE:
        return f"`{settings.model}`"
    return f"`{settings.model}` at `TURNBACK_MODEL_BASE_URL`, {_reached(settings)}"


def _reached(settings: Settings) -> str:
    assert settings.model_base_url is not None
    key = settings.model_api_key.get_secret_value() if settings.model_api_key else None
    try:
        request = urllib.request.Request(settings.model_base_url.rstrip("/") + "/models")
        if key is not None:
            request.add_header("Authorization", f"Bearer {key}")
        urllib.request.urlopen(request, timeout=PATIENCE).close()
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (401, 403):
            raise StartError(
                f"its server refuses the key (status {error.code}): check `TURNBACK_MODEL_API_KEY`"
            ) from None
        return "which answers"
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        raise StartError(
            f"its server cannot be reached ({reason}): check `TURNBACK_MODEL_BASE_URL`"
        ) from None
    return "which answers"


def page(settings: Settings) -> str:
    if not (PAGE / "index.html").is_file():
        how = "run `make panel`"
        if shutil.which("npm") is None:
            how = "install Node.js with npm and " + how
        raise StartError(f"not built: {how}")
    return "built"


def data_directory(settings: Settings) -> str:
    if settings.database_url is not None:
        return "not needed: `TURNBACK_DATABASE_URL` is set"
    folder, there = settings.data_dir.resolve(), _there(settings)
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise StartError(f"`{there}` cannot be written to: choose another by `--data-dir`")
    for path in (folder, folder / "postgres"):
        if path.exists() and path.stat().st_uid != os.geteuid():
            raise StartError(
                f"`{path}` belongs to another user (id {path.stat().st_uid}): run as that one, or"
                " choose another by `--data-dir`"
            )
    kind = file_system(there, Path("/proc/self/mountinfo"))
    if kind in REMOTE:
        raise Warn(
            f"`{folder}` is on a network file system ({kind}), where PostgreSQL's locks and syncs"
            " may not hold: choose a local folder by `--data-dir`"
        )
    return f"`{folder}`"


def attachments(settings: Settings) -> str:
    folder = settings.attachments_folder.resolve()
    how = "choose another by `TURNBACK_ATTACHMENTS_DIR`"
    there = _nearest(folder, how)
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise StartError(f"`{there}` cannot be written to: {how}")
    free = shutil.disk_usage(there).free
    if free < settings.max_session_attachment_bytes:
        raise Warn(f"{free / 2**20:.0f} MiB free for `{folder}`: make room, or {how}")
    if settings.database_url is not None and settings.attachments_dir is None:
        raise Warn(
            f"`{folder}`, which processes on other machines do not see: set"
            " `TURNBACK_ATTACHMENTS_DIR` to a folder that all of them share"
        )
    return f"in `{folder}`"


def _there(settings: Settings) -> Path:
    """The data directory, or of what it will be made in the nearest that exists."""
    return _nearest(settings.data_dir.resolve(), "choose another by `--data-dir`")


def _nearest(folder: Path, how: str) -> Path:
    try:
        return next(path for path in (folder, *folder.parents) if path.exists())
    except PermissionError:
        raise StartError(f"`{folder}` cannot be reached: {how}") from None


def file_system(folder: Path, mounts: Path) -> str | None:
    """The type of the file system that holds `folder`, by a `mountinfo` of Linux; else None."""
    if not mounts.exists():
        return None
    nearest, found = -1, None
    for line in mounts.read_text(errors="surrogateescape").splitlines():
        place, _, rest = line.partition(" - ")
        at = Path(place.split(" ")[4].encode().decode("unicode_escape", "surrogateescape"))
        if (folder == at or at in folder.parents) and len(at.parts) >= nearest:
            nearest, found = len(at.parts), rest.split(" ")[0]
    return found


def space(settings: Settings) -> str:
    if settings.database_url is not None:
        return "the database server's own matter"
    free = shutil.disk_usage(_there(settings)).free
    told = f"{free / 2**30:.1f} GiB free for `{settings.data_dir.resolve()}`"
    if free < LITTLE_SPACE:
        raise StartError(f"{told}: make room, or choose another by `--data-dir`")
    if free < SOME_SPACE:
        raise Warn(f"{told}: it will not last long")
    return told


def descriptors(settings: Settings) -> str:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < FEW_DESCRIPTORS:
        raise Warn(
            f"{most} open files at most, and each socket is one: raise the limit to {DESCRIPTORS}"
            " (`LimitNOFILE` of systemd, `ulimit -Hn`)"
        )
    return "enough open files are allowed"


def spans(settings: Settings) -> str:
    if not tracing.wanted():
        return "not asked for"
    if not tracing.installed():
        raise Warn(tracing.MISSING)
    return "exported as OTEL_… says"


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
    with _running(settings) as url:
        current, head = current_and_head(url)
    later = "" if current == head else f"; `turnback serve` migrates it to {head}"
    return f"embedded, at migration {current}{later}"


@contextmanager
def _running(settings: Settings) -> Iterator[str]:
    """The URL of the settings' database, which has been made; the embedded one runs meanwhile."""
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value()
        return
    with Embedded.start(settings.data_dir, timeout=settings.embedded_timeout) as embedded:
        yield embedded.url


def keys(settings: Settings) -> str:
    if is_loopback(settings.host):
        return f"none needed to serve `{settings.host}`, which is reached from this machine alone"
    if settings.database_url is None and not (settings.data_dir / "postgres").exists():
        raise no_keys(settings.host)
    with _running(settings) as url:
        check_address(settings.host, url)
    return f"there are some, so `{settings.host}` can be served"


def tools(settings: Settings) -> str:
    configured, given, python = declared(settings)
    _token(settings)
    if lost := [n for n, server in configured.items() if server.command and not is_there(server)]:
        names = ", ".join(f"`{name}`" for name in lost)
        raise Warn(f"no program is found for {names}: its `command` is a path, or is on the `PATH`")
    unused = sorted(given.keys() - configured.keys() - python.keys())
    if unused:
        names = ", ".join(f"`{name}`" for name in unused)
        raise Warn(f"overlays are about {names}, which no tool server is called")
    names = ", ".join(f"`{name}`" for name in sorted(configured.keys() | python.keys()))
    return f"{names}; `turnback tools` asks them" if names else "none are configured"


def _token(settings: Settings) -> None:
    """Raise `TokenInReach` as a start would; where callers have keys there is no token."""
    try:
        refuse_token_in_reach(settings)
    except TokenInReach:
        if settings.database_url is None and not (settings.data_dir / "postgres").exists():
            raise
        with _running(settings) as url:
            if not has_keys(url):
                raise


def time(settings: Settings) -> str:
    if settings.database_url is None:
        return "the same for the service and its database"
    try:
        there = clock(settings.database_url.get_secret_value())
    except TurnbackError:
        raise Warn("not compared: the database cannot be asked") from None
    apart = (datetime.now(UTC) - there).total_seconds()
    if abs(apart) > CLOCK_DRIFT:
        raise Warn(
            f"this machine is {apart:+.0f} s from its database, and records would be out of order:"
            " keep both by NTP"
        )
    return "as the database's"


CHECKS: dict[str, Callable[[Settings], str]] = {
    "python": python,
    "port": port,
    "model": model,
    "page": page,
    "variables": variables,
    "data directory": data_directory,
    "disk": space,
    "attachments": attachments,
    "open files": descriptors,
    "tracing": spans,
    "postgresql": programs,
    "database": database,
    "api keys": keys,
    "tools": tools,
    "clock": time,
}
