"""The command `turnback` as a process: what it prints, how it exits, what it leaves behind."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import httpx
import pytest
from rest import turn
from serving import serving as serving_here
from websockets.asyncio.client import connect

from turnback.cli import main
from turnback.store.migrate import check_current

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TURNBACK = Path(sys.executable).parent / "turnback"
KEY = re.compile(r"tb_[0-9a-f]{12}_[0-9a-f]{64}\n")
READY = re.compile(r"Turnback is ready at (http://127\.0\.0\.1:(\d+)/)(#[\w.-]+)?\n")


@dataclass
class Service:
    """A running `turnback serve`."""

    process: subprocess.Popen[str]
    errors: Path
    data_dir: Path
    address: str = ""
    printed: list[str] = field(default_factory=list)

    def until_ready(self) -> Service:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.printed.append(line)
        match = READY.fullmatch(line)
        assert match, (line, self.errors.read_text())
        self.address = match[1]
        return self

    def end(self, number: signal.Signals) -> int:
        """Send a signal and wait; what else it prints is in `printed`."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        assert self.process.stdout is not None
        self.printed += self.process.stdout.readlines()
        return self.process.wait(30)

    @property
    def server_pid(self) -> int | None:
        """The embedded PostgreSQL's process."""
        try:
            text = (self.data_dir / "postgres" / "postmaster.pid").read_text()
        except FileNotFoundError:
            return None
        return int(text.partition("\n")[0]) if text else None  # empty: it is just being written


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "data"
    yield folder
    if (folder / "postgres" / "postmaster.pid").exists():  # of a service that was killed
        with serving(folder) as service:
            service.until_ready().end(signal.SIGTERM)


@contextmanager
def serving(data_dir: Path, *options: str, **settings: str) -> Iterator[Service]:
    """`turnback serve --port 0` on `data_dir`, killed at the end if it still runs."""
    errors = data_dir.with_name(f"{data_dir.name}.stderr")
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            [str(TURNBACK), "serve", "--port", "0", "--data-dir", str(data_dir), *options],
            env=environment(**settings),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        yield Service(process, errors, data_dir)
    finally:
        process.kill()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_serve_prints_its_address_and_a_signal_ends_it_with_everything_it_started(
    data_dir: Path, number: signal.Signals
) -> None:
    with serving(data_dir) as service:
        service.until_ready()
        assert httpx.get(service.address + "healthz").status_code == 200
        pid = service.server_pid
        assert lives(pid)
        assert service.end(number) == 0
    assert len(service.printed) == 1
    assert service.server_pid is None
    assert not lives(pid)
    logged = service.errors.read_text()
    assert "Traceback" not in logged
    events = [json.loads(line)["event"] for line in logged.splitlines()]
    assert events[-3:] == ["serving", "going down", "ended"]


def test_the_printed_address_is_good_once_and_another_can_be_had(data_dir: Path) -> None:
    with serving(data_dir) as service:
        service.until_ready()
        port = service.address.rsplit(":", 1)[1].strip("/")
        command = [str(TURNBACK), "address", "--data-dir", str(data_dir)]
        addresses = [service.printed[0].removeprefix("Turnback is ready at ")]
        for named in ([], ["--port", port]):  # it is found where it is, though not at the usual one
            ran = subprocess.run(
                [*command, *named],
                env=environment(),
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
            )
            addresses.append(ran.stdout)
        codes = []
        for address in map(str.strip, addresses):
            origin, code = address.split("#")
            assert origin == service.address
            came = httpx.post(f"{origin}person", json={"code": code})
            assert came.json()["decides"] is True
            assert httpx.post(f"{origin}person", json={"code": code}).status_code == 403
            codes.append(code)
        token = (data_dir / "token").read_text().strip()
        assert service.end(signal.SIGTERM) == 0
        logged = service.errors.read_text() + "".join(service.printed[1:])
        assert not [secret for secret in (token, *codes) if secret in logged]
        ran = subprocess.run(
            command, env=environment(), capture_output=True, text=True, check=False, timeout=60
        )
        assert (ran.returncode, ran.stdout) == (1, "")
        assert "No Turnback without API keys serves" in ran.stderr


async def test_sockets_are_closed_with_1012_when_the_service_ends(data_dir: Path) -> None:
    with serving(data_dir) as service:
        await asyncio.to_thread(service.until_ready)
        async with httpx.AsyncClient(base_url=service.address) as client:
            session = (await client.post("/sessions", json={})).raise_for_status().json()["id"]
        async with connect(socket_url(service, session), subprotocols=["turnback.v1"]) as ws:
            await ws.recv()
            service.process.send_signal(signal.SIGTERM)
            await asyncio.wait_for(ws.wait_closed(), 30)
            assert ws.close_code == 1012
        assert await asyncio.to_thread(service.wait) == 0


async def test_a_second_signal_does_not_wait_for_the_run_under_way(data_dir: Path) -> None:
    slow = {"TURNBACK_OFFLINE_DELAY_MS": "20000", "TURNBACK_DRAIN_TIMEOUT": "60"}
    with serving(data_dir, **slow) as service:
        await asyncio.to_thread(service.until_ready)
        async with httpx.AsyncClient(base_url=service.address) as client:
            session = (await client.post("/sessions", json={})).raise_for_status().json()["id"]
            prompt = {"type": "WsClientPromptCommand", "content": "add a CSV scan"}
            route = f"/sessions/{session}/commands"
            assert (await client.post(route, json=prompt)).status_code == 202
        began = time.monotonic()
        service.process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            await asyncio.to_thread(service.process.wait, 1)
        assert await asyncio.to_thread(service.end, signal.SIGTERM) == 0
        assert time.monotonic() - began < 30
    assert service.server_pid is None


def test_a_signal_while_it_still_starts_leaves_no_postgresql(data_dir: Path) -> None:
    with serving(data_dir) as service:
        until(lambda: (data_dir / "postgres.new").exists())
        assert service.end(signal.SIGTERM) == 0
    assert service.printed == []
    assert service.server_pid is None


def test_after_kill_9_the_next_serve_joins_the_postgresql_left_behind_and_stops_it(
    data_dir: Path,
) -> None:
    with serving(data_dir) as killed:
        pid = killed.until_ready().server_pid
        killed.process.kill()
    assert lives(pid)
    with serving(data_dir) as service:
        assert service.until_ready().server_pid == pid
        assert service.end(signal.SIGTERM) == 0
    assert not lives(pid)


def test_a_postgresql_that_dies_under_the_service_is_started_again(data_dir: Path) -> None:
    with serving(data_dir, TURNBACK_POLL_INTERVAL="0.1") as service:
        service.until_ready()
        old = service.server_pid
        assert old is not None
        os.kill(old, signal.SIGKILL)
        until(lambda: service.server_pid not in (None, old) and lives(service.server_pid))
        until(lambda: httpx.get(service.address + "readyz").status_code == 200)
        assert service.end(signal.SIGTERM) == 0
        assert not lives(service.server_pid)


def test_a_busy_port_is_said_in_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = str(busy.getsockname()[1])
        refused(["serve", "--port", port], f"Port {port} of `127.0.0.1` is taken", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_address_that_others_could_reach_is_refused_without_keys(data_dir: Path) -> None:
    options = ["serve", "--host", "0.0.0.0", "--port", "0", "--data-dir", str(data_dir)]
    sentence = "`0.0.0.0` is not a loopback address, and there is no API key"
    refused(options, sentence, data_dir.parent, TURNBACK_LOG_LEVEL="warning")


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_an_address_that_is_not_this_machines_is_refused(tmp_path: Path, host: str) -> None:
    refused(["serve", "--host", host, "--port", "0"], f"`{host}`", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_setting_that_cannot_be_used_is_named_and_not_quoted(tmp_path: Path) -> None:
    for name, value in {
        "TURNBACK_PORT": "secret",
        "TURNBACK_MAX_STEPS": "-7",
        "TURNBACK_ALLOWED_ORIGINS": "secret",
        "TURNBACK_DATABASE_URL": "mysql://u:secret@h/d",
    }.items():
        assert "secret" not in refused(["serve"], f"`{name}`", tmp_path, **{name: value})


def test_options_go_before_the_environment(data_dir: Path) -> None:
    with serving(data_dir, TURNBACK_PORT="1", TURNBACK_DATA_DIR="/nowhere") as service:
        service.until_ready()


def test_a_model_that_cannot_be_is_refused_before_anything_starts(tmp_path: Path) -> None:
    refused(["serve", "--port", "0", "--model", "nonsense"], "`nonsense`", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_stale_database_by_url_is_refused_until_turnback_migrate_has_run(
    tmp_path: Path, blank_database: str
) -> None:
    url = {"TURNBACK_DATABASE_URL": blank_database}
    refused(["serve", "--port", "0"], "run `turnback migrate`", tmp_path, **url)
    assert "The database is at migration" in succeeds(["migrate"], tmp_path, **url)
    check_current(blank_database)
    with serving(tmp_path / "unused", **url) as service:
        service.until_ready()
        assert service.end(signal.SIGTERM) == 0
    # No PostgreSQL of its own is there, only what scripts decide as a person by, and where.
    assert sorted(path.name for path in (tmp_path / "unused").iterdir()) == ["origin", "token"]


def test_migrate_without_a_url_migrates_the_embedded_database(tmp_path: Path) -> None:
    assert "The database is at migration" in succeeds(["migrate"], tmp_path)
    assert (tmp_path / ".turnback" / "postgres" / "PG_VERSION").exists()
    assert not (tmp_path / ".turnback" / "postgres" / "postmaster.pid").exists()


# -- processes


async def test_a_running_service_hears_at_once_of_the_first_key_and_of_its_end(
    data_dir: Path, tmp_path: Path
) -> None:
    keys = ["keys", "--data-dir", str(data_dir)]
    with serving(data_dir, TURNBACK_POLL_INTERVAL="600") as service:
        await asyncio.to_thread(service.until_ready)
        async with httpx.AsyncClient(base_url=service.address) as client:
            session = (await client.post("/sessions", json={})).raise_for_status().json()["id"]
        async with connect(socket_url(service, session), subprotocols=["turnback.v1"]) as ws:
            await ws.recv()
            make = ["create", "ann", "--role", "owner"]
            text = await asyncio.to_thread(succeeds, [keys[0], *make, *keys[1:]], tmp_path)
            assert KEY.fullmatch(text)
            await asyncio.wait_for(ws.wait_closed(), 10)
            assert ws.close_code == 4401
        assert await asyncio.to_thread(service.end, signal.SIGTERM) == 0
    # And without a service the same commands start the database for themselves.
    listed = await asyncio.to_thread(succeeds, [keys[0], "list", *keys[1:]], tmp_path)
    assert listed == f"{text[:15]}  ann  owner  never expires\n"
    assert service.server_pid is None


@pytest.mark.usefixtures("own_logging")
def test_keys_and_roles_are_made_listed_and_ended_by_hand(
    fresh_database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TURNBACK_DATABASE_URL", fresh_database)

    def run(*arguments: str) -> tuple[object, str, str]:
        """In this process: a start of its own costs a second."""
        monkeypatch.setattr(sys, "argv", ["turnback", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, *capsys.readouterr()

    def does(*arguments: str) -> str:
        code, told, _ = run(*arguments)
        assert code == 0
        return told

    def does_not(sentence: str, *arguments: str) -> None:
        code, told, why = run(*arguments)
        assert (code, told) == (1, "")
        assert re.fullmatch(r"turnback: [^\n]+\n", why)
        assert sentence in why

    assert does("keys", "list") == does("roles", "list") == ""
    does_not("`ann` has no role in the project `local`", "keys", "create", "ann")
    anns = does("keys", "create", "ann", "--role", "owner", "--name", "her laptop", "--days", "30")
    again = does("keys", "create", "ann")
    bobs = does("keys", "create", "bob@example.org", "--role", "none")
    elsewhere = does("keys", "create", "ann", "--role", "viewer", "--project", "q")
    texts = [anns, again, bobs, elsewhere]
    assert all(KEY.fullmatch(text) for text in texts)
    listed = does("keys", "list").splitlines()
    assert [line.partition("  expires")[0] for line in listed] == [
        f"{bobs[:15]}  bob@example.org  none  never expires",
        f"{again[:15]}  ann  owner  never expires",
        f"{anns[:15]}  ann  owner  her laptop",
    ]
    assert does("keys", "list", "--project", "q").startswith(f"{elsewhere[:15]}  ann  viewer")
    assert not any(text[16:-1] in line for text in texts for line in listed)
    assert does("roles", "set", "bob@example.org", "editor")
    assert does("roles", "list") == "ann  owner\nbob@example.org  editor\n"
    for named in (bobs[:15], bobs[3:15], bobs.strip()):
        does("keys", "revoke", named)
        assert re.search(r"bob\S+  editor  revoked", does("keys", "list"))
    does_not("There is no such key", "keys", "revoke", elsewhere[:15])
    does_not("cannot be a principal's", "keys", "create", "agent", "--role", "owner")
    does_not("cannot be a principal's", "roles", "set", "a b", "viewer")


def environment(**settings: str) -> dict[str, str]:
    """This process's, with only the given settings of ours."""
    return {k: v for k, v in os.environ.items() if not k.startswith("TURNBACK_")} | settings


def run(arguments: list[str], folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(TURNBACK), *arguments],
        cwd=folder,
        env=environment(**settings),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def succeeds(arguments: list[str], folder: Path, **settings: str) -> str:
    done = run(arguments, folder, **settings)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(arguments: list[str], sentence: str, folder: Path, **settings: str) -> str:
    """The command exits 1, prints nothing, and says why in one line."""
    done = run(arguments, folder, **settings)
    assert done.returncode == 1
    assert done.stdout == ""
    assert re.fullmatch(r"turnback: [^\n]+\n", done.stderr)
    assert sentence in done.stderr
    return done.stderr


def socket_url(service: Service, session: str) -> str:
    return f"{service.address.replace('http', 'ws', 1)}sessions/{session}/ws"


def lives(pid: int | None) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.usefixtures("own_logging")
async def test_a_purge_by_hand_and_the_check_after_it(
    fresh_database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TURNBACK_DATABASE_URL", fresh_database)

    def run(*arguments: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [TURNBACK, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        return done.returncode, done.stdout, done.stderr

    async with serving_here(fresh_database) as server:
        parent = await server.session()
        await turn(server, parent, "add a CSVFileScan")
        answer = await server.http.post(f"/sessions/{parent}/fork", json={})
        child = answer.json()["session"]["id"]
        await turn(server, child, "hello")
        code, told, why = await asyncio.to_thread(run, "purge", parent)
        assert (code, told) == (1, "")
        assert "delete it first" in why
        code, told, why = await asyncio.to_thread(run, "purge", "orders")
        assert (code, told, why) == (1, "", "turnback: There is no session `orders`\n")
        assert (await server.http.delete(f"/sessions/{parent}")).status_code == 204
        async with server.connect(child) as client:
            await client.snapshot()
            code, told, _ = await asyncio.to_thread(run, "purge", parent)
            assert code == 0
            assert told.startswith("Purged: 3 records, 1 turn,")
            assert await client.until_closed() == 1013, "it is told at once"
        assert (await server.http.get(f"/sessions/{child}/transcript")).status_code == 410
        code, told, _ = await asyncio.to_thread(run, "check")
        assert code == 0
        assert {line[:6] for line in told.splitlines()} == {"ok    "}
        connection = await asyncpg.connect(fresh_database)
        await connection.execute("delete from turns")
        await connection.close()
        code, told, _ = await asyncio.to_thread(run, "check")
        assert code == 1
        assert re.search(
            r"^FAIL  records have a turn: 2 not, as [0-9a-f-]+, [0-9a-f-]+$", told, re.M
        )
