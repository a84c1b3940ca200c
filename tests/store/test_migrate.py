"""Migrations on real databases: by our command and by alembic's, one at a time, and refusals."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import asyncpg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from turnback.core.errors import DatabaseUnavailable, SchemaMismatch, SettingsInvalid
from turnback.store import migrate as migrations
from turnback.store.embedded import DATABASE, binaries, user_prefix
from turnback.store.migrate import check_current, current_and_head, migrate

ROOT = Path(__file__).parents[2]
FORK = """insert into session_lineage (root_id, session_id, parent_id, inherited_turn_count,
    cutoff_seq, depth, sources, fingerprint, created_at)
select a, b, a, 0, 0, 1, '{}', '', now()
from (select gen_random_uuid() as a, gen_random_uuid() as b)"""
TABLES = """select string_agg(tablename, ' ' order by tablename) from pg_tables
where schemaname = 'public'"""


def test_migrate_brings_an_empty_database_to_the_newest_and_twice_is_once(
    blank_database: str,
) -> None:
    _, head = current_and_head(blank_database)
    assert head is not None
    assert current_and_head(blank_database) == (None, head)
    migrate(blank_database)
    assert current_and_head(blank_database) == (head, head)
    migrate(blank_database)
    check_current(blank_database)


def test_the_names_of_the_scripts_say_what_alembic_reads_in_them(blank_database: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(migrations.scripts()))
    read = ScriptDirectory.from_config(config)
    revisions = [script.revision for script in read.walk_revisions()][::-1]
    assert migrations._revisions() == revisions
    assert current_and_head(blank_database) == (None, read.get_current_head())


def test_a_start_on_a_current_database_waits_for_nothing_that_it_does_not_need(
    fresh_database: str,
) -> None:
    code = (
        "import sys, turnback.serve, turnback.app;"
        "from turnback.store.migrate import check_current, migrate;"
        f"migrate({fresh_database!r}); check_current({fresh_database!r});"
        "late = {'alembic', 'pydantic_ai', 'mcp', 'sqlite3', 'cryptography'};"
        "print(*late & sys.modules.keys())"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout.split() == []


def test_a_stale_database_is_refused_with_the_command_to_run(blank_database: str) -> None:
    with pytest.raises(SchemaMismatch, match=r"at migration `none` .* run `turnback migrate`"):
        check_current(blank_database)


def test_a_database_of_a_newer_version_is_refused_and_left_alone(fresh_database: str) -> None:
    ask(fresh_database, "update alembic_version set version_num = '9999'")
    for act in (check_current, migrate):
        with pytest.raises(SchemaMismatch, match=r"`9999`, which this version does not know"):
            act(fresh_database)
    assert ask(fresh_database, "select version_num from alembic_version") == "9999"


@pytest.mark.parametrize(
    ("newer", "served"),
    [
        (["pass"], True),
        (["pass", "pass"], False),  # two releases ahead
        (["pass", "contracts = True"], False),
        (["contracts = True"], False),
    ],
)
def test_a_release_serves_what_the_next_one_has_migrated_if_that_only_added(
    blank_database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    newer: list[str],
    served: bool,
) -> None:
    _, head = current_and_head(blank_database)
    scripts = shutil.copytree(migrations.scripts(), tmp_path / "migrations")
    before = head
    for n, line in enumerate(newer):
        (scripts / "versions" / f"9{n:03}_newer.py").write_text(
            f"revision, down_revision = '9{n:03}', {before!r}\n{line}\n"
            "def upgrade(): pass\ndef downgrade(): pass\n"
        )
        before = f"9{n:03}"
    with monkeypatch.context() as next_release:
        next_release.setattr(migrations, "scripts", lambda: scripts)
        migrate(blank_database)
        check_current(blank_database)
    for act in (check_current, migrate):
        if served:
            act(blank_database)
        else:
            with pytest.raises(SchemaMismatch, match="which this version does not know"):
                act(blank_database)
    assert current_and_head(blank_database) == (before, head)


def test_a_database_that_cannot_hold_every_text_is_refused(database_url: str) -> None:
    ask(database_url, "create database latin encoding 'LATIN1' locale 'C' template template0")
    try:
        with pytest.raises(SettingsInvalid, match="LATIN1"):
            migrate(database_url.replace(f"/{DATABASE}?", "/latin?", 1))
    finally:
        ask(database_url, "drop database latin with (force)")


def test_two_that_migrate_at_once_are_one_after_the_other(blank_database: str) -> None:
    code = f"from turnback.store.migrate import migrate; migrate({blank_database!r})"
    both = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [process.wait(60) for process in both] == [0, 0]
    check_current(blank_database)


async def test_who_waits_for_another_migrator_gives_up_after_its_time_and_changes_nothing(
    blank_database: str,
) -> None:
    holder = await asyncpg.connect(blank_database)
    try:
        await holder.execute(f"select pg_advisory_lock({migrations.LOCK_KEY})")
        began = time.monotonic()
        with pytest.raises(DatabaseUnavailable, match="Another process is migrating"):
            await asyncio.to_thread(migrate, blank_database, timeout=0.3)
        assert 0.3 <= time.monotonic() - began < 10
        waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
        assert await holder.fetchval(waiting) == 0
        assert await holder.fetchval(TABLES) is None
    finally:
        await holder.close()


@pytest.mark.parametrize(
    "url", ["postgresql://u:secret@127.0.0.1:1/d", "postgresql:///d?host=/nowhere"]
)
def test_a_database_that_is_not_there_is_named_as_such(url: str) -> None:
    for act in (migrate, check_current):
        with pytest.raises(DatabaseUnavailable, match=r"check `TURNBACK_DATABASE_URL`") as failure:
            act(url)
        assert "secret" not in failure.value.message


def test_a_password_taken_for_a_port_is_not_quoted() -> None:
    with pytest.raises(SettingsInvalid) as refusal:
        migrate("postgresql://u:secret/x@h/d")
    assert "secret" not in refusal.value.message


def test_plain_alembic_migrates_the_database_of_the_environment(blank_database: str) -> None:
    alembic(ROOT, "upgrade", "head", url=blank_database.replace("postgresql:", "postgres:"))
    check_current(blank_database)
    made = ask(blank_database, TABLES)
    alembic(ROOT, "downgrade", "base", url=blank_database)
    assert ask(blank_database, TABLES) == "alembic_version"
    migrate(blank_database)
    assert ask(blank_database, TABLES) == made


def test_sessions_outlive_a_downgrade_and_an_upgrade_without_their_settings(
    blank_database: str,
) -> None:
    alembic(ROOT, "upgrade", "0002", url=blank_database)
    of_before, of_now = (f"00000000-0000-7000-8000-00000000000{n}" for n in (1, 2))
    made = """insert into sessions (root_id, id, project_id, owner, name, model, workflow_hash,
        initial_hash, created_at, updated_at{more}) values ('{id}', '{id}', 'local', 'local',
        'Orders', 'offline', '', '', now(), now(){values})"""
    ask(blank_database, made.format(id=of_before, more="", values=""))
    settings = "select run_settings::text from sessions where id = '{}'"
    migrate(blank_database)
    assert ask(blank_database, settings.format(of_before)) is None
    own = {"more": ", run_settings", "values": """, '{"max_steps": 3}'"""}
    ask(blank_database, made.format(id=of_now, **own))
    assert ask(blank_database, settings.format(of_now)) == '{"max_steps": 3}'
    alembic(ROOT, "downgrade", "0002", url=blank_database)
    assert ask(blank_database, "select count(*) from sessions where name = 'Orders'") == 2
    migrate(blank_database)
    for session in (of_before, of_now):
        assert ask(blank_database, settings.format(session)) is None


def test_plain_alembic_says_in_one_line_what_it_does_not_take_back(blank_database: str) -> None:
    migrate(blank_database)
    ask(blank_database, FORK)
    *_, told = refused_by_alembic("downgrade", "0005", url=blank_database).splitlines()
    assert told.startswith("turnback: Migration `0006` cannot be taken back: there are forks")
    assert ask(blank_database, "select count(*) from session_lineage") == 1
    migrate(blank_database)
    check_current(blank_database)


def test_plain_alembic_without_a_url_migrates_the_embedded_database_and_stops_it(
    tmp_path: Path,
) -> None:
    alembic(tmp_path, "upgrade", "head")
    assert "(head)" in alembic(tmp_path, "current")
    assert (tmp_path / ".turnback" / "postgres" / "PG_VERSION").exists()
    assert not (tmp_path / ".turnback" / "postgres" / "postmaster.pid").exists()


def test_plain_alembic_writes_the_sql_without_a_database(tmp_path: Path) -> None:
    assert "CREATE TABLE alembic_version" in alembic(tmp_path, "upgrade", "head", "--sql")
    assert not (tmp_path / ".turnback").exists()


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("postgresql://u:secret@127.0.0.1:1/d", "The database cannot be reached"),
        ("postgresql://u:secret@nowhere.invalid/d", "The database cannot be reached"),
        ("mysql://u:secret@h/d", "must be a PostgreSQL URL"),
    ],
)
def test_plain_alembic_says_in_one_line_what_is_wrong_with_a_database(
    url: str, sentence: str
) -> None:
    for arguments in (("upgrade", "head"), ("current",)):
        told = refused_by_alembic(*arguments, url=url)
        assert re.fullmatch(r"turnback: [^\n]+\n", told)
        assert sentence in told
        assert "secret" not in told


def test_a_wrong_password_is_said_in_one_line_by_each_command(
    tmp_path: Path,
) -> None:
    with by_password(tmp_path) as (right, wrong):
        check_current_is_stale(right)
        told = refused_by_alembic("upgrade", "head", url=wrong)
        assert re.fullmatch(
            r"turnback: [^\n]*password authentication failed[^\n]*TURNBACK_DATABASE_URL`\n", told
        )
        for command in ("serve", "migrate", "restored"):
            done = subprocess.run(
                [str(Path(sys.executable).parent / "turnback"), command],
                env=os.environ | {"TURNBACK_DATABASE_URL": wrong, "TURNBACK_PORT": "0"},
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
            assert (done.returncode, done.stdout, done.stderr) == (1, "", told)
        assert "mistaken" not in told


def check_current_is_stale(url: str) -> None:
    with pytest.raises(SchemaMismatch):
        check_current(url)


@contextmanager
def by_password(folder: Path) -> Iterator[tuple[str, str]]:
    """URLs of a server over TCP with scram: with the right password, and with a wrong one."""
    data, port = folder / "scram", free_port()
    prefix, bin_ = user_prefix(), binaries()
    (folder / "password").write_text("right")
    run = partial(subprocess.run, check=True, stdout=subprocess.DEVNULL)
    initdb = [*prefix, str(bin_ / "initdb"), "-D", str(data), "-U", "u", "-A", "scram-sha-256"]
    run([*initdb, f"--pwfile={folder / 'password'}", "--no-sync"])
    options = f"-p {port} -h 127.0.0.1 -k {folder}"
    ctl = [*prefix, str(bin_ / "pg_ctl"), "-s", "-w", "-D", str(data)]
    run([*ctl, "-o", options, "-l", str(folder / "log"), "start"])
    try:
        url = f"postgresql://u:{{}}@127.0.0.1:{port}/postgres"
        yield url.format("right"), url.format("mistaken")
    finally:
        run([*ctl, "-m", "immediate", "stop"])


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_plain_alembic_refuses_an_older_postgresql_as_migrate_does(blank_database: str) -> None:
    code = (
        "from turnback.store import migrate; migrate.OLDEST_POSTGRESQL = 99\n"
        "from alembic.config import main; main(['-c', 'alembic.ini', 'upgrade', 'head'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"TURNBACK_DATABASE_URL": blank_database},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert re.fullmatch(r"turnback: [^\n]* 99 or newer is needed\n", done.stderr)
    assert ask(blank_database, TABLES) is None


def refused_by_alembic(*arguments: str, url: str) -> str:
    """What it says on the standard error as it exits 1."""
    done = subprocess.run(
        [sys.executable, "-m", "alembic", "-c", str(ROOT / "alembic.ini"), *arguments],
        env=os.environ | {"TURNBACK_DATABASE_URL": url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    return done.stderr


def alembic(folder: Path, *arguments: str, url: str | None = None) -> str:
    """What plain `alembic` prints, run in `folder` with the checkout's `alembic.ini`."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TURNBACK_")}
    done = subprocess.run(
        [sys.executable, "-m", "alembic", "-c", str(ROOT / "alembic.ini"), *arguments],
        cwd=folder,
        env=environment | ({"TURNBACK_DATABASE_URL": url} if url else {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def ask(url: str, query: str) -> object:
    async def run() -> object:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(query)
        finally:
            await connection.close()

    return asyncio.run(run())
