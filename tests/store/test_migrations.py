"""Migrations of a database in use: what an earlier version had written goes up, down and up again,
is read as it was, and what would be lost is not taken back.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from typing import Any

import asyncpg
import pytest
from alembic import command
from alembic.config import Config
from migrating import (
    READ,
    SHAPES,
    STATEMENTS,
    WRITTEN_AT,
    columns,
    psql,
    query,
    rows,
    run,
    schema,
    shape,
    to,
    written,
)
from rest import get, problem
from serving import serving
from wire import Client

from turnback.core.errors import DatabaseUnavailable, DowngradeRefused, SchemaMismatch
from turnback.store import altering
from turnback.store import migrate as migrations
from turnback.store.migrate import check_current, current_and_head, migrate

REVISIONS = migrations._revisions()
SINCE = REVISIONS[REVISIONS.index(WRITTEN_AT) + 1 :]
"""The migrations that the written database has not had."""

FORK = """insert into session_lineage (root_id, session_id, parent_id, inherited_turn_count,
    cutoff_seq, depth, sources, fingerprint)
select a, b, a, 0, 0, 1, '{}', ''
from (select gen_random_uuid() as a, gen_random_uuid() as b)"""

FORK_NOW = FORK.replace("fingerprint)", "fingerprint, created_at)").replace("''", "'', now()")

WAITING = """insert into session_directory
select '{fork}'::uuid, project_id, root_id from session_directory where id = '{source}';
insert into sessions (root_id, id, project_id, owner, name, model, workflow_hash, initial_hash,
    pending_action, created_at, updated_at)
select root_id, '{fork}', project_id, 'bob', 'Fork', model, initial_hash, initial_hash,
    json_build_object('mode', 'edit', 'draft', {draft}, 'turn_key', 'k'), '{made}', '{made}'
from sessions where id = '{source}';
insert into session_lineage (root_id, session_id, parent_id, boundary_turn, boundary_position,
    inherited_turn_count, cutoff_seq, depth, sources, fingerprint)
select root_id, '{fork}', id, '{turn}', 'before', 0, 0, 1, '{{}}', '' from sessions
where id = '{source}';
insert into session_grants select '{fork}', 'ann', project_id, root_id, '{{read}}', 'bob', now()
from sessions where id = '{source}'"""
"""A fork as it was made at migration 0008: its row of lineage and its grant have no time, and its
draft does not say whether it quotes."""

MADE_BY_THE_MIGRATIONS_THEMSELVES = """
alter table session_lineage add column created_at timestamptz not null;
alter table session_grants add column session_created_at timestamptz not null;
drop index session_lineage_by_parent;
create index session_lineage_by_parent
    on session_lineage (root_id, parent_id, created_at, session_id)"""
"""What 0005 and 0006 did for a while, beside what they do."""

ATTACHMENT = """insert into attachments (root_id, id, session_id, project_id, name, type, size,
    sha256, principal, created_at)
select id, gen_random_uuid(), id, 'local', 'x', 'text/plain', 0, '', 'local', now() from sessions"""

PURGED = """insert into purged_records (root_id, branch_id, seq, id, turn_id, turn_index)
select id, id, 1, id, id, 0 from gen_random_uuid() id"""

EFFECT = """insert into effects (root_id, id, session_id, turn_id, step_id, number, tool_call_id,
    connection, tool, class, state, args, about, states, key, fence, at)
select id, id, id, id, id, 1, 'c1', 'mail', 'send', 'irreversible', 'intent', '{}', '{}', '{}', 'f',
    1, now() from gen_random_uuid() id"""

KEY = """insert into principals values ('ann');
insert into api_keys (id, prefix, hash, principal_id, project_id, name)
values (gen_random_uuid(), 'x', sha256('x'), 'ann', 'local', '')"""


def test_what_was_written_goes_through_each_migration_up_down_and_up(blank_database: str) -> None:
    to(blank_database, WRITTEN_AT)
    written(blank_database)
    of = columns(blank_database)
    held = rows(blank_database, of)
    assert all(held[table] for table in of)
    was, before = schema(blank_database), WRITTEN_AT
    for revision in SINCE:
        to(blank_database, revision)
        made = schema(blank_database)
        assert made != was
        assert rows(blank_database, of) == held
        to(blank_database, before)
        assert schema(blank_database) == was
        assert rows(blank_database, of) == held
        to(blank_database, revision)
        assert schema(blank_database) == made
        was, before = made, revision
    to(blank_database, WRITTEN_AT)
    migrate(blank_database)
    assert (schema(blank_database), rows(blank_database, of)) == (was, held)
    check_current(blank_database)


def test_what_older_code_writes_after_a_migration_is_as_if_written_before(
    blank_database: str, fresh_database: str
) -> None:
    """Its statements name the columns that it knows; the others get what they are given here."""
    to(blank_database, WRITTEN_AT)
    written(blank_database)
    migrate(blank_database)
    written(fresh_database)
    of = columns(fresh_database)
    assert columns(blank_database) == of
    assert rows(blank_database, of) == rows(fresh_database, of)


async def test_each_statement_of_older_code_is_good_on_the_newest_schema(
    blank_database: str, fresh_database: str
) -> None:
    """It takes the same parameters and gives the same columns: processes of before go on."""
    await asyncio.to_thread(to, blank_database, WRITTEN_AT)
    before, now = [await asyncpg.connect(url) for url in (blank_database, fresh_database)]
    try:
        for statement in STATEMENTS:
            assert await takes_and_gives(now, statement) == await takes_and_gives(before, statement)
    finally:
        await before.close()
        await now.close()


async def takes_and_gives(
    connection: asyncpg.Connection, text: str
) -> tuple[list[str], list[tuple[str, str]]]:
    """The types of a statement's parameters; the names and types of its columns."""
    prepared = await connection.prepare(text)
    columns = [(column.name, column.type.name) for column in prepared.get_attributes()]
    return [parameter.name for parameter in prepared.get_parameters()], columns


@pytest.mark.lineage(24)
async def test_what_older_code_has_written_is_read_and_gone_on_with(fresh_database: str) -> None:
    await asyncio.to_thread(written, fresh_database)
    recent = """update idempotency_keys set created_at = now();
        update session_requests set created_at = now()"""
    await asyncio.to_thread(run, fresh_database, recent)
    [orders, kept, newborn] = READ["read"]
    async with serving(fresh_database) as server:
        for session, answers in READ["read"].items():
            for path, was in answers.items():
                answer = await server.http.get(f"/sessions/{session}{path}")
                assert as_it_was(answer.json(), was), path
        problem(await server.http.get(f"/sessions/{READ['deleted']}"), 404, "session_not_found")
        cut_off = await get(server, f"/sessions/{READ['cut_off']}/transcript")
        assert cut_off["records"][-1]["end_reason"] == "interrupted"
        again = await server.http.post(
            "/sessions", json={"name": "Orders"}, headers={"idempotency-key": "made-Orders"}
        )
        assert (again.status_code, again.json()["id"]) == (201, orders)
        forks = []
        for session in (orders, kept, newborn):
            answer = await server.http.post(f"/sessions/{session}/fork", json={})
            assert answer.status_code == 201, answer.text
            forks.append(answer.json()["session"]["id"])
            path = f"/sessions/{forks[-1]}/transcript"
            was = READ["read"][session]["/transcript"]["records"]
            assert as_it_was((await get(server, path))["records"], was)
        async with server.connect(orders) as client:
            await goes_on(client)
        async with server.connect(forks[0]) as client:
            assert (await client.snapshot())["canRedo"] is False
            await client.prompt("add a Limit")
        assert len((await get(server, f"/sessions/{forks[0]}/transcript"))["records"]) == 13


async def goes_on(client: Client) -> None:
    """The session of the written database: what it had undone comes back, and its answers."""
    head = (await client.snapshot())["headId"]
    assert (await client.ask("Redo"))["type"] == "WsServerAckEvent"
    redone = client.head
    assert redone != head
    seen = len(client.frames)
    answered = await client.ask("Prompt", content="add a CSVFileScan", requestId="r1")
    assert answered["type"] == "WsServerAckEvent"
    assert client.head == redone
    assert not [f for f in client.frames[seen:] if f["type"] == "WsServerStepEvent"]
    [limit] = [b for b in READ["read"][next(iter(READ["read"]))]["/branches"]["branches"]
               if not b["on_path"]]  # fmt: skip
    await client.ask("Checkout", stepId=limit["tip"])
    assert client.head == limit["tip"]
    await client.prompt("add a Sort")


def as_it_was(now: Any, was: Any) -> bool:
    """Whether all that was answered is answered still; there may be more members."""
    match was:
        case dict():
            return set(was) <= set(now) and all(as_it_was(now[name], was[name]) for name in was)
        case list():
            return len(now) == len(was) and all(map(as_it_was, now, was))
    return bool(now == was)


async def test_forks_made_before_forks_had_a_time_have_their_sessions_and_their_drafts_go_on(
    blank_database: str,
) -> None:
    await asyncio.to_thread(to, blank_database, WRITTEN_AT)
    await asyncio.to_thread(written, blank_database)
    await asyncio.to_thread(to, blank_database, "0008")
    await asyncio.to_thread(run, blank_database, "insert into principals values ('ann')")
    orders = next(iter(READ["read"]))
    first, *_ = READ["read"][orders]["/transcript"]["records"]
    forks = [f"00000000-0000-7000-8000-00000000000{n}" for n in range(4)]
    drafts = [f"'{first['content']}'", "'mine'", f"'{first['content']}'", "'mine'"]
    turns = [first["turn_id"]] * 2 + [forks[0]] * 2  # of the last two the turn was purged
    for day, fork, draft, turn in zip((3, 1, 4, 2), forks, drafts, turns, strict=True):
        put = WAITING.format(
            fork=fork, source=orders, draft=draft, made=f"2026-10-0{day}", turn=turn
        )
        await asyncio.to_thread(run, blank_database, put)
    await asyncio.to_thread(migrate, blank_database)
    assert await asyncio.to_thread(
        query,
        blank_database,
        """select l.created_at = s.created_at and g.session_created_at = s.created_at,
            pending_action ->> 'draft', pending_action ->> 'quoted'
        from sessions s join session_lineage l on l.session_id = s.id
        join session_grants g on g.session_id = s.id order by s.id""",
    ) == [(True, first["content"], "true"), (True, "mine", "false"), *[(True, None, None)] * 2]
    async with serving(blank_database) as server:
        listed = [session["id"] for session in (await get(server, "/sessions"))["sessions"]]
        newest = [forks[n] for n in (2, 0, 3, 1)]
        assert [id_ for id_ in listed if id_ in forks] == newest
        asked = {"session_id": orders}
        family = (await server.http.post("/sessions/lineage/query", json=asked)).json()
        assert [child["session_id"] for child in family["children"]] == newest
        drafts_left = [
            (await get(server, f"/sessions/{fork}/pending-action"))["pending_action"]
            for fork in forks
        ]
        assert [left and left["draft"] for left in drafts_left] == [
            first["content"], "mine", None, None
        ]  # fmt: skip


def test_a_database_whose_forks_had_a_time_early_comes_to_the_same(
    blank_database: str, fresh_database: str
) -> None:
    to(blank_database, "0008")
    run(blank_database, MADE_BY_THE_MIGRATIONS_THEMSELVES)
    run(blank_database, FORK_NOW)
    migrate(blank_database)
    assert schema(blank_database) == schema(fresh_database)
    assert query(blank_database, "select created_at > '2020-01-01' from session_lineage") == [
        (True,)
    ]


def test_a_migration_stays_as_it_was_when_databases_had_it(blank_database: str) -> None:
    """What it makes may not change after it: who had it will not have it again.

    One that makes something else is a migration of its own, with its own line in the file.
    """
    for revision in REVISIONS:
        to(blank_database, revision)
        assert (revision, shape(blank_database)) == (revision, SHAPES.get(revision))
    assert list(SHAPES) == REVISIONS


# -- which code serves which database


def contracting() -> list[str]:
    """The migrations after which the version before reads no longer what is written."""
    folder = migrations.scripts() / "versions"
    return [
        path.name[:4] for path in folder.glob("0*.py") if "\ncontracts = True" in path.read_text()
    ]


def test_a_database_is_served_at_its_migration_and_by_code_one_behind_that_was_not_contracted(
    blank_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at, revision in enumerate(REVISIONS):
        to(blank_database, revision)
        for newest in range(len(REVISIONS)):
            with monkeypatch.context() as version:
                version.setattr(migrations, "_revisions", lambda n=newest: REVISIONS[: n + 1])
                if at == newest or (at - newest == 1 and revision not in contracting()):
                    check_current(blank_database)
                    assert current_and_head(blank_database) == (revision, REVISIONS[newest])
                    continue
                sentence = "run `turnback migrate`" if newest > at else "install the newer Turnback"
                with pytest.raises(SchemaMismatch, match=re.escape(sentence)):
                    check_current(blank_database)
                if newest < at:  # and does not try
                    with pytest.raises(SchemaMismatch):
                        migrate(blank_database)
        assert query(blank_database, "select version_num from alembic_version") == [(revision,)]


# -- indexes of tables in use


def concurrent() -> list[str]:
    """The migrations that build an index on a table that may be large."""
    folder = migrations.scripts() / "versions"
    made = "create index concurrently"
    return [path.name[:4] for path in sorted(folder.glob("0*.py")) if made in path.read_text()]


@pytest.mark.parametrize("revision", concurrent())
async def test_an_index_that_was_cut_off_is_made_when_it_is_run_again(
    blank_database: str, revision: str
) -> None:
    """Whoever reads holds it up, and nobody who writes waits for it."""
    before = REVISIONS[REVISIONS.index(revision) - 1]
    await asyncio.to_thread(to, blank_database, WRITTEN_AT)
    await asyncio.to_thread(written, blank_database)
    await asyncio.to_thread(to, blank_database, before)
    reader = await asyncpg.connect(blank_database)
    other = await asyncpg.connect(blank_database)
    try:
        held = reader.transaction(isolation="repeatable_read")
        await held.start()
        await reader.execute("select from installation")
        code = f"from migrating import to; to({blank_database!r}, {revision!r})"
        migrator = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, env=with_support()
        )
        invalid = "select indexrelid::regclass::text from pg_index where not indisvalid"
        deadline = time.monotonic() + 30
        while not await other.fetchval(invalid):
            assert migrator.returncode is None
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)
        await other.execute("set statement_timeout = '15s'")
        assert await other.execute("update sessions set name = name") == "UPDATE 5"
        migrator.kill()
        await migrator.wait()
        await other.execute(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
            " where datname = current_database() and query ilike 'create index concurrently%'"
        )
        await held.rollback()
        assert await other.fetchval("select version_num from alembic_version") == before
        assert await other.fetchval(invalid) is not None
        await asyncio.to_thread(migrate, blank_database)
        assert await other.fetchval(invalid) is None
        await asyncio.to_thread(check_current, blank_database)
    finally:
        await reader.close()
        await other.close()


async def test_whoever_writes_waits_for_no_table_that_is_to_be_altered(blank_database: str) -> None:
    """Who has read the table keeps the migrator waiting, and the migrator nobody."""
    await asyncio.to_thread(to, blank_database, WRITTEN_AT)
    await asyncio.to_thread(written, blank_database)
    reader, other = [await asyncpg.connect(blank_database) for _ in range(2)]
    try:
        async with asyncio.timeout(120):
            async with reader.transaction():
                await reader.execute("select from sessions")
                going = asyncio.create_task(asyncio.to_thread(migrate, blank_database))
                waiting = "select exists (select from pg_locks where not granted)"
                for _ in range(2):
                    while not await other.fetchval(waiting):
                        assert not going.done()
                        await asyncio.sleep(0.01)
                    await other.execute("set statement_timeout = '20s'")
                    assert await other.execute("update sessions set name = name") == "UPDATE 5"
                assert not going.done()
            await going
        await asyncio.to_thread(check_current, blank_database)
    finally:
        await reader.close()
        await other.close()


async def test_a_table_that_is_in_use_for_ever_ends_the_migration_and_says_what_to_do(
    blank_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(altering, "TRIES", 2)
    await asyncio.to_thread(to, blank_database, WRITTEN_AT)
    reader = await asyncpg.connect(blank_database)
    try:
        async with reader.transaction():
            await reader.execute("select from sessions")
            with pytest.raises(DatabaseUnavailable, match="run `turnback migrate` again"):
                await asyncio.to_thread(migrate, blank_database)
        await asyncio.to_thread(migrate, blank_database)
        await asyncio.to_thread(check_current, blank_database)
    finally:
        await reader.close()


def test_no_migration_waits_before_everyone_or_looks_at_every_row_while_they_wait() -> None:
    """Of tables that were there before it; what a migration makes itself nobody uses yet."""
    made: set[str] = set()
    for before, revision in pairwise(["", *REVISIONS]):
        if before:
            script = sql(f"{before}:{revision}") + sql(f"{revision}:{before}")
            for statement in script.split(";\n\n"):
                altered = re.search(r"alter table (\w+)", statement)
                if altered is not None and altered[1] in made:
                    alone = "do $patiently$" in statement or "validate constraint" in statement
                    assert alone, statement
                    assert "check (" not in statement or "not valid" in statement, statement
        [path] = (migrations.scripts() / "versions").glob(f"{revision}_*.py")
        made |= set(re.findall(r"create table (\w+)", path.read_text()))
    assert "sessions" in made


# -- what is not taken back


@dataclass(frozen=True)
class Kept:
    """What a migration's database may hold that its downgrade would lose."""

    revision: str
    put: str
    sentence: str
    taken: str
    """A statement after which it may go."""


KEPT = {
    "folded steps": Kept(
        "0009",
        "update records set folded = 'x' where role = 'agent'",
        "there are steps and workflows",
        "update records set folded = null",
    ),
    "buckets of operators": Kept(
        "0009",
        "insert into blobs select gen_random_uuid(), 'x', '\\x0241'",
        "there are steps and workflows",
        "delete from blobs where hash = 'x'",
    ),
    "forks": Kept("0006", FORK, "there are forks", "delete from session_lineage"),
    "effects": Kept("0011", EFFECT, "there are effects outside", "delete from effects"),
    "purges": Kept("0008", PURGED, "there are purged records", "delete from purged_records"),
    "attachments": Kept(
        "0007", ATTACHMENT, "there are attachments", "update attachments set deleted_at = now()"
    ),
    "keys": Kept(
        "0005", KEY, "there are API keys in use", "update api_keys set revoked_at = now()"
    ),
}


@pytest.mark.parametrize("kept", KEPT.values(), ids=KEPT)
def test_a_downgrade_that_would_lose_something_is_refused_and_changes_nothing(
    blank_database: str, kept: Kept
) -> None:
    before = REVISIONS[REVISIONS.index(kept.revision) - 1]
    to(blank_database, WRITTEN_AT)
    written(blank_database)
    to(blank_database, kept.revision)
    run(blank_database, kept.put)
    of = columns(blank_database)
    held, made = rows(blank_database, of), schema(blank_database)
    sentence = f"`{kept.revision}` cannot be taken back: {kept.sentence}.*; "
    with pytest.raises(DowngradeRefused, match=sentence):
        to(blank_database, before)
    script = sql(f"{kept.revision}:{before}")
    refused = psql(blank_database, script)
    assert refused.returncode == 3
    assert f"ERROR:  {kept.sentence}" in refused.stderr
    assert (rows(blank_database, of), schema(blank_database)) == (held, made)
    run(blank_database, kept.taken)
    done = psql(blank_database, script)
    assert (done.returncode, done.stderr) == (0, "")
    to(blank_database, kept.revision)
    assert schema(blank_database) == made


async def test_a_fork_that_is_made_during_a_downgrade_is_not_lost(fresh_database: str) -> None:
    async with asyncio.timeout(60):
        await asyncio.to_thread(to, fresh_database, "0006")
        forking = await asyncpg.connect(fresh_database)
        try:
            open_ = forking.transaction()
            await open_.start()
            await forking.execute(FORK)
            going = asyncio.create_task(asyncio.to_thread(to, fresh_database, "0005"))
            waiting = """select exists (select from pg_locks
                where relation = 'session_lineage'::regclass and not granted)"""
            while not await forking.fetchval(waiting):
                assert not going.done()
                await asyncio.sleep(0.02)
            await open_.commit()
            with pytest.raises(DowngradeRefused, match="there are forks"):
                await going
            assert await forking.fetchval("select count(*) from session_lineage") == 1
        finally:
            await forking.close()


# -- by others' hands


def test_two_kinds_of_migrators_at_once_do_each_migration_once(blank_database: str) -> None:
    to(blank_database, WRITTEN_AT)
    written(blank_database)
    of = columns(blank_database)
    held = rows(blank_database, of)
    code = f"from turnback.store.migrate import migrate; migrate({blank_database!r})"
    ours = [sys.executable, "-c", code]
    alembic = [sys.executable, "-m", "alembic", "upgrade", "head"]
    environment = with_support() | {"TURNBACK_DATABASE_URL": blank_database}
    root = migrations.scripts().parent
    both = [subprocess.Popen(line, env=environment, cwd=root) for line in (ours, alembic)]
    assert [process.wait(60) for process in both] == [0, 0]
    check_current(blank_database)
    assert rows(blank_database, of) == held


def test_the_sql_of_migrations_does_what_they_do(blank_database: str, fresh_database: str) -> None:
    to(blank_database, WRITTEN_AT)
    written(blank_database)
    of = columns(blank_database)
    held, was = rows(blank_database, of), schema(blank_database)
    for script, then in (
        (sql(f"{WRITTEN_AT}:head"), schema(fresh_database)),
        (sql(f"{REVISIONS[-1]}:{WRITTEN_AT}"), was),
    ):
        done = psql(blank_database, script)
        assert done.returncode == 0, done.stderr
        assert schema(blank_database) == then
        assert rows(blank_database, of) == held


def sql(span: str) -> str:
    """What `alembic upgrade` or `downgrade` writes with `--sql` for this span."""
    config = Config(output_buffer=(written_to := StringIO()))
    config.set_main_option("script_location", str(migrations.scripts()))
    first, _, last = span.partition(":")
    going = command.downgrade if last != "head" and last < first else command.upgrade
    going(config, span, sql=True)
    return written_to.getvalue()


def with_support() -> dict[str, str]:
    """An environment in which a process finds what supports the tests."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TURNBACK_")}
    return clean | {"PYTHONPATH": ":".join(path for path in sys.path if path)}
