"""`turnback doctor` in the situations that newcomers get into: what it finds and says."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import asyncpg
import pytest
from serving import Server

from turnback import doctor
from turnback.cli import main
from turnback.core.errors import SettingsInvalid
from turnback.environment import misspelt
from turnback.settings import Settings
from turnback.store import migrate as migrations
from turnback.store.embedded import Embedded
from turnback.store.migrate import check_current

A_KEY = """with someone as (insert into principals (id) values ('alice') returning id)
insert into api_keys (id, prefix, hash, principal_id, project_id, name)
select gen_random_uuid(), '0123456789ab', sha256('secret'), id, 'local', '' from someone"""

TURNBACK = Path(sys.executable).parent / "turnback"


def found(check: str, **settings: object) -> tuple[str, str]:
    """The verdict and the finding of one check."""
    values = {"port": 0} | settings
    look = doctor.CHECKS[check]
    saved = dict(doctor.CHECKS)
    doctor.CHECKS.clear()
    doctor.CHECKS[check] = look
    try:
        (one,) = doctor.examine(Settings.model_validate(values))
    finally:
        doctor.CHECKS.clear()
        doctor.CHECKS.update(saved)
    return one.verdict, one.finding


async def execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def run(folder: Path, *options: str, **settings: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TURNBACK_")}
    return subprocess.run(
        [str(TURNBACK), "doctor", *options],
        cwd=folder,
        env=clean | settings,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_there_is_a_line_for_each_check_and_nothing_is_changed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        options = ["--port", str(busy.getsockname()[1]), "--model", "nonsense"]
        done = run(tmp_path, *options, TURNBACK_DATABSE_URL="secret")
    assert done.returncode == 1
    lines = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert list(lines)[:3] == ["ok    python", "FAIL  port", "FAIL  model"]
    assert len(lines) == len(doctor.CHECKS)
    assert "choose another by `--port`" in lines["FAIL  port"]
    assert "set `TURNBACK_MODEL`" in lines["FAIL  model"]
    assert "`TURNBACK_DATABSE_URL` (`TURNBACK_DATABASE_URL`?)" in lines["warn  variables"]
    assert "PostgreSQL" in lines["ok    postgresql"]
    assert "ok    database" in lines
    assert "secret" not in done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_warning_alone_is_no_failure(tmp_path: Path, fresh_database: str) -> None:
    settings = {"TURNBACK_DATABASE_URL": fresh_database, "TURNBACK_LOGLEVEL": "info"}
    done = run(tmp_path, "--port", "0", **settings)
    assert "warn  variables" in done.stdout
    assert done.returncode == (1 if "FAIL  page" in done.stdout else 0), done.stdout


def test_an_older_python_is_told_so_at_once() -> None:
    code = "import sys; sys.version_info = (3, 10, 14); import turnback.cli"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("turnback: needs Python 3.11 or newer")


# -- the port


async def test_a_port_that_our_own_server_has_is_no_failure(standing: Server) -> None:
    port = int(standing.url.rpartition(":")[2])
    verdict, finding = await asyncio.to_thread(found, "port", port=port)
    assert verdict == "ok"
    assert "served by a Turnback already, which is healthy" in finding


def test_a_port_that_another_server_has_is_taken() -> None:
    with answering(200, {"name": "another"}) as address:
        verdict, finding = found("port", port=int(address.rpartition(":")[2]))
    assert verdict == "FAIL"
    assert "is taken" in finding


def test_a_port_with_something_that_speaks_no_http_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.sendall(b"220 mail.example.org ready\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        verdict, finding = found("port", port=listener.getsockname()[1])
        thread.join()
    assert (verdict, "is taken" in finding) == ("FAIL", True)


def test_a_host_that_others_could_reach_needs_keys(tmp_path: Path) -> None:
    verdict, finding = found("api keys", host="0.0.0.0", data_dir=tmp_path)
    assert verdict == "FAIL"
    assert "leave `--host` at `127.0.0.1`" in finding
    assert found("api keys")[0] == "ok"


def test_a_host_that_others_can_reach_is_fine_with_keys(fresh_database: str) -> None:
    def looked() -> tuple[str, str]:
        return found("api keys", host="0.0.0.0", database_url=fresh_database)

    assert looked()[0] == "FAIL"
    asyncio.run(execute(fresh_database, A_KEY))
    assert looked()[0] == "ok"


# -- the model


@contextmanager
def answering(status: int, body: object) -> Iterator[str]:
    """An HTTP server that answers everything like this; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_model_that_cannot_be_used_is_told_with_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for name, sentence in {
        "gpt-5": "is not a model",
        "nobody:gpt": "names no known provider",
        "openai:gpt-5": "set `TURNBACK_MODEL_API_KEY` or `OPENAI_API_KEY`",
        "anthropic:claude": 'pip install "turnback[anthropic]"',
    }.items():
        verdict, finding = found("model", model=name)
        assert verdict == "FAIL"
        assert sentence in finding


def test_a_models_server_is_asked_whether_it_is_there_and_takes_the_key() -> None:
    model = {"model": "openai:any", "model_api_key": "secret"}
    with answering(200, {"data": []}) as address:
        assert found("model", model_base_url=f"{address}/v1", **model)[0] == "ok"
    with answering(404, {}) as address:
        assert found("model", model_base_url=f"{address}/v1", **model)[0] == "ok"
    with answering(401, {}) as address:
        verdict, finding = found("model", model_base_url=f"{address}/v1", **model)
        assert (verdict, "check `TURNBACK_MODEL_API_KEY`" in finding) == ("FAIL", True)
    for gone in ("http://127.0.0.1:1/v1", "http://nowhere.invalid/v1", "nonsense"):
        verdict, finding = found("model", model_base_url=gone, **model)
        assert (verdict, "check `TURNBACK_MODEL_BASE_URL`" in finding) == ("FAIL", True)
        assert "secret" not in finding


# -- the data directory


def test_a_data_directory_of_another_user_is_told(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        theirs = tmp_path / "theirs"
        theirs.mkdir()
        os.chown(theirs, 12345, 12345)
    else:
        theirs = Path("/")
    verdict, finding = found("data directory", data_dir=theirs)
    assert verdict == "FAIL"
    assert "belongs to another user" in finding or "cannot be written to" in finding


def test_a_data_directory_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, why in {
        tmp_path / "file": "cannot be written to",
        tmp_path / "file" / "below": "cannot be written to",
        tmp_path / ("x" * 300): "File name too long",
        Path("/proc/sys/turnback"): "cannot be written to",
    }.items():
        verdict, finding = found("data directory", data_dir=path)
        assert verdict == "FAIL", path
        assert why in finding


def test_a_network_file_system_is_known_by_its_name(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "30 21 0:40 / /srv/with\\040space rw - nfs4 host:/export rw\n"
        "31 30 0:41 / /srv/with\\040space/local rw - tmpfs tmpfs rw\n"
    )
    assert doctor.file_system(Path("/home/somebody"), mounts) == "ext4"
    assert doctor.file_system(Path("/srv/with space/data"), mounts) in doctor.REMOTE
    assert doctor.file_system(Path("/srv/with space/local/data"), mounts) == "tmpfs"
    assert doctor.file_system(tmp_path, Path("/proc/self/mountinfo")) not in doctor.REMOTE


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "GiB free" in found("disk", data_dir=tmp_path)[1]
    needed = shutil.disk_usage(tmp_path).free + 2**40
    monkeypatch.setattr(doctor, "SOME_SPACE", needed)
    assert found("disk", data_dir=tmp_path)[0] == "warn"
    monkeypatch.setattr(doctor, "LITTLE_SPACE", needed)
    assert found("disk", data_dir=tmp_path)[0] == "FAIL"


def test_a_low_limit_on_open_files_is_told(tmp_path: Path) -> None:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TURNBACK_")}
    done = subprocess.run(
        [str(TURNBACK), "doctor", "--port", "0"],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512)),
    )
    assert "warn  open files: 512 open files at most" in done.stdout


def test_files_of_another_postgresql_are_told_with_what_to_do(tmp_path: Path) -> None:
    Embedded.start(tmp_path).stop()
    (tmp_path / "postgres" / "PG_VERSION").write_text("16\n")
    verdict, finding = found("database", data_dir=tmp_path)
    assert verdict == "FAIL"
    assert "they are of PostgreSQL 16; docs/operations.md says" in finding
    (tmp_path / "postgres" / "PG_VERSION").write_text("18\n")
    assert found("database", data_dir=tmp_path)[0] == "ok"


# -- the database by URL


def test_a_database_that_cannot_be_used_is_told_with_what_to_do(
    blank_database: str, database_url: str
) -> None:
    for url, sentence in {
        "postgres://u:secret@127.0.0.1:1/d": "cannot be reached",
        "postgres://u:secret@nowhere.invalid/d": "cannot be reached",
        "mysql://u:secret@h/d": "must be a PostgreSQL URL",
        database_url.replace("/turnback?", "/absent?"): 'database "absent" does not exist',
        database_url.replace("turnback@", "nobody@"): 'role "nobody" does not exist',
        blank_database: "run `turnback migrate`",
    }.items():
        verdict, finding = found("database", database_url=url)
        assert verdict == "FAIL"
        assert sentence in finding
        assert "\n" not in finding
        assert "secret" not in finding


async def test_a_database_that_is_ahead_or_too_old_is_told(
    fresh_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = await asyncpg.connect(fresh_database)
    await connection.execute("update alembic_version set version_num = '9999'")
    await connection.close()
    _, finding = await asyncio.to_thread(found, "database", database_url=fresh_database)
    assert "`9999`, which this version does not know" in finding
    monkeypatch.setattr(migrations, "OLDEST_POSTGRESQL", 99)
    _, finding = await asyncio.to_thread(found, "database", database_url=fresh_database)
    assert "99 or newer is needed" in finding
    with pytest.raises(SettingsInvalid):
        await asyncio.to_thread(check_current, fresh_database)


def test_a_clock_that_is_not_the_databases_is_told(
    fresh_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found("clock", database_url=fresh_database) == ("ok", "as the database's")
    monkeypatch.setattr(doctor, "CLOCK_DRIFT", -1.0)
    verdict, finding = found("clock", database_url=fresh_database)
    assert (verdict, "keep both by NTP" in finding) == ("warn", True)


# -- variables, and faults of our own


def test_a_misspelt_variable_is_told_with_the_nearest_setting() -> None:
    environment = {
        "TURNBACK_MODEL_APIKEY": "secret",
        "turnback_prot": "1",
        "TURNBACK_XYZZY": "",
        "TURNBACK_PORT": "1",
        "turnback_host": "h",
        "TURNBACK_FAILPOINT": "",
        "PATH": "",
    }
    assert misspelt(environment) == {
        "TURNBACK_MODEL_APIKEY": "TURNBACK_MODEL_API_KEY",
        "TURNBACK_XYZZY": None,
        "turnback_prot": "TURNBACK_PORT",
    }


def test_spans_that_are_asked_for_need_what_exports_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found("tracing") == ("ok", "not asked for")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    assert found("tracing")[0] == "ok"
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    assert found("tracing")[0] == "warn"


@pytest.mark.usefixtures("own_logging")
def test_a_fault_of_our_own_is_told_with_a_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise KeyError("secret")

    monkeypatch.setattr("turnback.cli.commands", fail)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 70
    told = capsys.readouterr().err
    assert told.endswith("turnback: failed unexpectedly (`KeyError`); the trace is above\n")
    assert "secret" not in told.replace('raise KeyError(\\"secret\\")', "")


# -- the files of attachments


def test_a_folder_of_attachments_that_can_be_made_is_fine(tmp_path: Path) -> None:
    assert found("attachments", data_dir=tmp_path / "new") == (
        "ok",
        f"in `{tmp_path}/new/attachments`",
    )
    assert not list(tmp_path.iterdir())


def test_a_folder_of_attachments_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    verdict, finding = found("attachments", attachments_dir=tmp_path / "file" / "attachments")
    assert verdict == "FAIL"
    assert "`TURNBACK_ATTACHMENTS_DIR`" in finding


def test_with_a_database_of_ones_own_a_shared_folder_is_asked_for(tmp_path: Path) -> None:
    own = {"database_url": "postgresql://nobody@127.0.0.1:1/none", "data_dir": tmp_path}
    verdict, finding = found("attachments", **own)
    assert verdict == "warn"
    assert "`TURNBACK_ATTACHMENTS_DIR`" in finding
    assert found("attachments", **own, attachments_dir=tmp_path)[0] == "ok"


def test_a_folder_of_attachments_without_room_for_a_session_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1_000_000))
    verdict, finding = found("attachments", data_dir=tmp_path)
    assert verdict == "warn"
    assert "make room" in finding


def test_an_overlay_that_a_start_refuses_is_told(tmp_path: Path) -> None:
    (tmp_path / "crm.yaml").write_text(
        "contract: 1\nservers: {crm: {tools: {send: {cases: [{class: revertible}]}}}}"
    )
    verdict, finding = found("tools", contracts_dir=tmp_path)
    assert verdict == "FAIL"
    assert "The contract of `crm.yaml, crm.send`: at `cases.0.class`" in finding


def test_a_tool_server_whose_program_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "server").touch(mode=0o755)
    servers = {
        "there": {"command": sys.executable},
        "beside": {"command": "./server", "cwd": str(tmp_path)},
        "far": {"url": "https://crm.example/mcp"},
    }
    assert found("tools", mcp_servers=servers) == (
        "ok",
        "`beside`, `far`, `there`; `turnback tools` asks them",
    )
    lost = {"gone": {"command": "/nonexistent/server"}, "nowhere": {"command": "no-such-program"}}
    assert found("tools", mcp_servers=servers | lost) == (
        "warn",
        "no program is found for `gone`, `nowhere`: its `command` is a path, or is on the `PATH`",
    )


def test_a_tool_server_that_could_read_the_token_is_told(tmp_path: Path) -> None:
    servers = {"files": {"command": "cat", "args": [str(tmp_path)]}}
    verdict, finding = found("tools", data_dir=tmp_path / "data", mcp_servers=servers)
    assert verdict == "FAIL"
    assert "The tool server `files`" in finding
    assert "`--data-dir`" in finding
    assert found("tools", data_dir=tmp_path.parent / "data", mcp_servers=servers)[0] == "ok"


def test_an_overlay_of_a_server_that_is_not_configured_is_told(tmp_path: Path) -> None:
    (tmp_path / "crm.yaml").write_text("contract: 1\nservers: {crm: {reads: [get]}}")
    assert found("tools", contracts_dir=tmp_path, mcp_servers={"cmr": {"command": "sh"}}) == (
        "warn",
        "overlays are about `crm`, which no tool server is called",
    )
