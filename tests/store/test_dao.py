"""The DAO against a real PostgreSQL: one statement a commit, guards, and what is read back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import orjson
import pytest

from turnback.core.errors import (
    DatabaseUnavailable,
    RecordConflict,
    SessionNotFound,
    SnapshotMissing,
)
from turnback.core.lineage import ROOT
from turnback.core.principal import LOCAL, Principal
from turnback.core.run_settings import RunSettings, RunSettingsChange
from turnback.core.tree import EndReason, Event, NewIds, State, StepAppended, Tree
from turnback.core.workflow import EMPTY, Workflow, load
from turnback.store.dao import Dao, RequestTaken, TurnKeyTaken
from turnback.store.database import Database, lost, unreachable
from turnback.store.ids import new_id
from turnback.store.loading import Stored
from turnback.store.outbox import Notice, SessionChanged, Status, StepWritten, from_row
from turnback.store.rows import (
    Alive,
    Commit,
    Generating,
    Guard,
    Holder,
    Idle,
    ListPlace,
    Request,
    SessionChange,
    SessionKey,
    Takeover,
)
from turnback.store.transcripts import Counts

NOW = datetime.now(UTC).replace(microsecond=123000)


@pytest.fixture
async def database(fresh_database: str) -> AsyncIterator[Database]:
    database = await Database.open(fresh_database, size=4, connect_timeout=5, statement_timeout=10)
    yield database
    await database.close()


@pytest.fixture
def dao(database: Database, tmp_path: Path) -> Dao:
    return Dao(
        database, node_id=new_id(), max_redo_depth=3, directory_cache=100, attachments=tmp_path
    )


async def create(dao: Dao, *, workflow: Workflow = EMPTY, name: str = "Orders") -> SessionKey:
    return await dao.create(
        LOCAL, session_id=new_id(), name=name, model="offline", workflow=workflow, now=NOW
    )


def tree_of(stored: Stored) -> Tree:
    tree = Tree(
        stored.row.key.id,
        stored.row.initial_hash,
        state=stored.row.state,
        head=stored.row.head,
        redo_stack=stored.redo,
    )
    tree.adopt(branches=stored.branches, turns=stored.turns, steps=stored.steps)
    return tree


def commit(key: SessionKey, guard: Guard, events: tuple[Event, ...], **more: Any) -> Commit:
    notices: list[Notice] = []
    for event in events:
        if isinstance(event, StepAppended):
            notices.append(StepWritten(event.step.id))
        elif type(event).__name__ == "StateChanged":
            notices.append(Status(event.state))  # type: ignore[union-attr]
    values: dict[str, Any] = {
        "payload": '{"content":"hello"}',
        "notices": tuple(notices),
        "principal": "local",
    }
    return Commit(
        id=new_id(),
        key=key,
        now=NOW,
        guard=guard,
        events=events,
        **(values | more),
    )


def ids() -> NewIds:
    return NewIds(new_id(), new_id(), new_id())


async def test_a_new_session_is_there_as_it_was_made(dao: Dao) -> None:
    key = await create(dao, name="Largest orders")
    stored = await dao.load(LOCAL, key.id)
    assert (stored.row.name, stored.row.head, stored.row.state) == (
        "Largest orders",
        ROOT,
        State.AVAILABLE,
    )
    assert stored.row.created_at == NOW
    assert await dao.workflow(LOCAL, key, stored.row.initial_hash) == EMPTY


async def test_a_step_is_read_and_counted_as_said_whichever_way_it_is_stored(
    dao: Dao, database: Database
) -> None:
    key = await create(dao)
    tree = tree_of(await dao.load(LOCAL, key.id))
    events = tree.prompt(ids(), by="local")
    await dao.commit(commit(key, Idle(0, claims=True), events, node_id=dao.node_id))
    tree.apply(events)
    step_id, head = new_id(), tree.head.step_id
    call = {"toolName": "deleteOperator", "toolCallId": new_id(), "input": {"operatorId": "op1"}}
    usage = {"inputTokens": 5, "outputTokens": 2, "totalTokens": 7}
    said = {"content": "Gone.", "toolCalls": [call, call], "toolResults": [], "usage": usage}
    payload = orjson.dumps(said).decode()
    events = tree.append(step_id, tree.workflow, EndReason.COMPLETE)
    await dao.commit(commit(key, Holder(1, head), events, payload=payload))

    async def read() -> tuple[str, Counts]:
        [record] = await dao.records(LOCAL, key, [step_id])
        return record.payload, (await dao.transcripts.usage(LOCAL, key)).spent

    assert await read() == (payload, Counts(1, 2, 1, 2, 5, 2, 7))
    async with database.connection() as c:  # as steps were stored before they were folded
        stored = "update records set payload = $2, folded = null where id = $1 and folded <> ''"
        assert await c.execute(stored, step_id, payload) == "UPDATE 1"
    assert await read() == (payload, Counts(1, 2, 1, 2, 5, 2, 7))


async def test_a_prompt_its_answer_a_revert_and_a_redo_are_read_back_whole(dao: Dao) -> None:
    key = await create(dao)
    tree = tree_of(await dao.load(LOCAL, key.id))
    turn = ids()
    events = tree.prompt(turn, key="k1", by="local")
    done = await dao.commit(commit(key, Idle(0, claims=True), events, node_id=dao.node_id))
    assert done is not None
    assert (done.revision, done.state, done.fence) == (2, State.GENERATING, 1)
    tree.apply(events)
    other = load({"operators": [], "x": [1, 2]}, max_bytes=10**6, max_depth=50)
    events = tree.append(new_id(), other.hash, EndReason.COMPLETE)
    done = await dao.commit(
        commit(key, Holder(1, tree.head.step_id), events, blobs=other.blobs(since=EMPTY))
    )
    assert done is not None
    assert (done.revision, done.state) == (4, State.AVAILABLE)
    tree.apply(events)
    assert tree_of(await dao.load(LOCAL, key.id)) == tree
    for events in (tree.revert, tree.redo):
        moved = events(turn.turn) if events == tree.revert else events()
        assert await dao.commit(commit(key, Idle(4), moved)) is not None
        tree.apply(moved)
        assert tree_of(await dao.load(LOCAL, key.id)) == tree
    assert await dao.workflow(LOCAL, key, tree.workflow) == other


async def test_a_revert_that_keeps_edits_is_read_back_with_who_began_which_turn(dao: Dao) -> None:
    key = await create(dao)
    tree = tree_of(await dao.load(LOCAL, key.id))
    other = load({"operators": [], "x": [1, 2]}, max_bytes=10**6, max_depth=50)
    for revision, who in enumerate(("ann", "bob")):
        events = tree.edit(ids(), other.hash, by=who)
        blobs = other.blobs(since=EMPTY)
        made = commit(key, Idle(revision), events, principal=who, blobs=blobs)
        assert await dao.commit(made) is not None
        tree.apply(events)
    first = list(tree.path())[-1]
    assert [turn.by for turn in tree.crossed(first, by="bob")] == ["ann"]
    events = tree.revert_keeping(first, ids(), other.hash, by="bob")
    assert await dao.commit(commit(key, Idle(2), events, principal="bob")) is not None
    tree.apply(events)
    stored = tree_of(await dao.load(LOCAL, key.id))
    assert stored == tree
    assert [turn.by for turn in stored.turns.values()] == ["ann", "bob", "bob"]
    assert (len(stored.branches), stored.head.seq, stored.redo_stack) == (2, 1, [])


async def test_a_commit_whose_guard_does_not_hold_writes_nothing(dao: Dao) -> None:
    key = await create(dao)
    tree = tree_of(await dao.load(LOCAL, key.id))
    events = tree.prompt(ids(), by="local")
    for guard in (Idle(7, claims=True), Holder(0, new_id()), Generating(), Takeover(0, new_id())):
        assert await dao.commit(commit(key, guard, events, node_id=dao.node_id)) is None
    stored = await dao.load(LOCAL, key.id)
    assert (stored.steps, stored.turns, stored.branches, stored.row.revision) == ([], [], [], 0)


@pytest.mark.case(27)
async def test_a_fence_that_was_raised_keeps_the_old_holder_from_writing(dao: Dao) -> None:
    key = await create(dao)
    tree = tree_of(await dao.load(LOCAL, key.id))
    events = tree.prompt(ids(), by="local")
    await dao.commit(commit(key, Idle(0, claims=True), events, node_id=dao.node_id))
    tree.apply(events)
    interrupted = tree.append(new_id(), tree.workflow, EndReason.INTERRUPTED)
    assert await dao.commit(commit(key, Takeover(1, tree.head.step_id), interrupted)) is not None
    late = tree.append(new_id(), tree.workflow, None)
    assert await dao.commit(commit(key, Holder(1, tree.head.step_id), late)) is None


async def test_who_change_different_settings_at_once_both_do(dao: Dao) -> None:
    key = await create(dao)
    assert (await dao.session(LOCAL, key.id)).settings == RunSettings()
    changes: list[RunSettingsChange] = [
        {"max_steps": 3},
        {"tool_timeout": 0.5},
        {"disabled_tools": ["getWorkflow"]},
        {"run_timeout": 9.5, "max_tool_output": 7},
    ]
    both = [commit(key, Alive(), (), change=SessionChange(settings=c)) for c in changes]
    await asyncio.gather(*map(dao.commit, both))
    own = RunSettings(
        max_steps=3,
        run_timeout=9.5,
        tool_timeout=0.5,
        max_tool_output=7,
        disabled_tools=("getWorkflow",),
    )
    stored = await dao.load(LOCAL, key.id)
    assert stored.row.settings == own
    [listed] = await dao.sessions(LOCAL, query=None, archived=False, before=None, limit=9)
    assert listed.settings == own
    back: RunSettingsChange = {"max_steps": None, "disabled_tools": []}
    await dao.commit(commit(key, Alive(), (), change=SessionChange(settings=back, model="m")))
    row = await dao.session(LOCAL, key.id)
    assert (row.settings, row.model) == (own.changed(back), "m")


async def test_what_was_told_of_a_session_before_it_had_settings_is_told_as_it_was(
    dao: Dao,
) -> None:
    old = {"change": "name", "name": "A", "archived": None}
    assert from_row("session", old, new_id()) == SessionChanged("name", name="A")
    for notice in (
        SessionChanged("settings", settings={"max_steps": None, "disabled_tools": []}),
        SessionChanged("model", model="m"),
    ):
        key = await create(dao)
        written = commit(key, Alive(), ())
        assert await dao.commit(replace(written, notices=(notice,))) is not None
        assert await dao.events(LOCAL, key, since=0, until=1) == [(1, notice)]


async def test_a_request_id_and_a_turn_key_are_taken_once(dao: Dao) -> None:
    key = await create(dao)
    tree = tree_of(await dao.load(LOCAL, key.id))
    request = Request("r1", b"print", '{"headId":"h"}')
    await dao.commit(commit(key, Alive(), (), request=request, change=SessionChange(name="A")))
    with pytest.raises(RequestTaken):
        await dao.commit(commit(key, Alive(), (), request=request, change=SessionChange(name="B")))
    answered = await dao.answered(LOCAL, key, "r1")
    assert answered is not None
    assert (answered.fingerprint, answered.answer) == (b"print", {"headId": "h"})
    assert (await dao.session(LOCAL, key.id)).name == "A"
    assert await dao.answered(Principal("another", "local", credential=None), key, "r1") is None

    first = tree.edit(ids(), EMPTY.hash, key="once", by="local")
    revision = (await dao.session(LOCAL, key.id)).revision
    assert await dao.commit(commit(key, Idle(revision), first)) is not None
    again = tree.edit(ids(), EMPTY.hash, key="once", by="local")
    revision = (await dao.session(LOCAL, key.id)).revision
    with pytest.raises(TurnKeyTaken):
        await dao.commit(commit(key, Idle(revision), again))


@pytest.mark.case(29)
async def test_another_record_with_the_same_id_is_a_conflict(dao: Dao) -> None:
    key = await create(dao)
    tree = tree_of(await dao.load(LOCAL, key.id))
    named = ids()
    events = tree.edit(named, EMPTY.hash, by="local")
    await dao.commit(commit(key, Idle(0), events))
    again = replace(named, turn=new_id(), branch=new_id())
    with pytest.raises(RecordConflict):
        await dao.commit(commit(key, Alive(), tree.edit(again, EMPTY.hash, by="local")))


async def test_whether_a_commit_was_made_can_be_looked_up(dao: Dao) -> None:
    key = await create(dao)
    tree = tree_of(await dao.load(LOCAL, key.id))
    made = commit(key, Idle(0), tree.edit(ids(), EMPTY.hash, by="local"))
    assert not await dao.was_committed(made, since=0)
    await dao.commit(made)
    assert await dao.was_committed(made, since=0)


async def test_a_session_of_another_project_is_not_there(dao: Dao) -> None:
    key = await create(dao)
    stranger = Principal("local", "elsewhere", credential=None)
    for reading in (dao.key, dao.session, dao.load):
        with pytest.raises(SessionNotFound, match="Agent not found"):
            await reading(stranger, key.id)
    listed = await dao.sessions(stranger, query=None, archived=False, before=None, limit=9)
    assert listed == []


async def test_sessions_are_listed_newest_first_searched_and_paged(dao: Dao) -> None:
    keys = [await create(dao, name=name) for name in ("50% off", "50 off", "rest")]

    async def listed(
        query: str | None, before: ListPlace | None = None, limit: int = 9
    ) -> list[str]:
        rows = await dao.sessions(LOCAL, query=query, archived=False, before=before, limit=limit)
        return [row.name for row in rows]

    assert await listed(None) == ["rest", "50 off", "50% off"]
    assert await listed("50%") == ["50% off"]
    assert await listed("OFF") == ["50 off", "50% off"]
    assert await listed(None, before=(await dao.session(LOCAL, keys[1].id)).place) == ["50% off"]
    assert await listed(None, limit=1) == ["rest"]


@pytest.mark.case(15)
async def test_a_damaged_blob_harms_only_the_snapshots_that_hold_it(
    dao: Dao, database: Database
) -> None:
    key = await create(dao)
    tree = tree_of(await dao.load(LOCAL, key.id))
    other = load({"operators": [], "damaged": True}, max_bytes=10**6, max_depth=50)
    events = tree.edit(ids(), other.hash, by="local")
    await dao.commit(commit(key, Idle(0), events, blobs=other.blobs(since=EMPTY)))
    async with database.connection() as connection:
        await connection.execute(
            "update blobs set data = 'x' where hash = $1", bytes.fromhex(other.hash)
        )
    with pytest.raises(SnapshotMissing):
        await dao.workflow(LOCAL, key, other.hash)
    assert await dao.workflow(LOCAL, key, EMPTY.hash) == EMPTY


async def test_a_killed_backend_is_unavailable_in_doubt_and_the_next_read_works(
    dao: Dao, database: Database, fresh_database: str
) -> None:
    key = await create(dao)
    async with database.connection() as connection:
        pid = await connection.fetchval("select pg_backend_pid()")
        sleeping = asyncio.ensure_future(connection.execute("select pg_sleep(30)"))
        await asyncio.sleep(0.1)
        killer = await asyncpg.connect(database.dsn)
        await killer.execute("select pg_terminate_backend($1)", pid)
        await killer.close()
        with pytest.raises(asyncpg.PostgresError):
            await sleeping
    assert (await dao.session(LOCAL, key.id)).key == key


@pytest.mark.parametrize("writes", [True, False])
async def test_a_statement_that_meets_a_dead_server_is_in_doubt_if_it_writes(
    database: Database, writes: bool
) -> None:
    with pytest.raises(DatabaseUnavailable) as caught:
        async with database.connection(writes=writes) as connection:
            await connection.execute("select pg_terminate_backend(pg_backend_pid())")
    assert (lost(caught.value), unreachable(caught.value)) == (writes, True)


async def test_a_statement_that_the_server_refuses_is_neither_in_doubt_nor_unreachable(
    database: Database,
) -> None:
    with pytest.raises(DatabaseUnavailable) as caught:
        async with database.connection(writes=True) as connection:
            await connection.execute("do $$ begin raise sqlstate '53100'; end $$")
    assert (lost(caught.value), unreachable(caught.value)) == (False, False)


async def test_a_server_that_falls_silent_is_lost_after_a_while(fresh_database: str) -> None:
    database = await Database.open(fresh_database, size=1, connect_timeout=1, statement_timeout=60)
    with pytest.raises(DatabaseUnavailable) as caught:
        async with database.connection(writes=True) as connection:
            await connection.execute("select pg_sleep(30)", timeout=0.1)
    assert lost(caught.value)
    assert await database.run(lambda c: c.fetchval("select 1")) == 1
    await database.close()


async def test_trimmed_events_are_gone_and_the_floor_says_so(dao: Dao) -> None:
    key = await create(dao)
    tree = tree_of(await dao.load(LOCAL, key.id))
    for _ in range(4):
        events = tree.edit(ids(), EMPTY.hash, by="local")
        revision = (await dao.session(LOCAL, key.id)).revision
        await dao.commit(commit(key, Idle(revision), events))
        tree.apply(events)
    floor = await dao.trim(key, keep=2, days=7)
    row = await dao.session(LOCAL, key.id)
    assert row.events_floor == floor == row.revision - 2
    kept = await dao.events(LOCAL, key, since=0, until=row.revision)
    assert [seq for seq, _ in kept] == [row.revision - 1, row.revision]


async def test_events_older_than_the_days_kept_are_dropped_too(
    dao: Dao, database: Database
) -> None:
    key = await create(dao)
    tree = tree_of(await dao.load(LOCAL, key.id))
    for _ in range(2):
        events = tree.edit(ids(), EMPTY.hash, by="local")
        revision = (await dao.session(LOCAL, key.id)).revision
        await dao.commit(commit(key, Idle(revision), events))
        tree.apply(events)
    async with database.connection() as connection:
        await connection.execute(
            "update session_events set created_at = now() - interval '8 days' where event_seq = 1"
        )
    assert await dao.trim(key, keep=100, days=7) == 1


async def test_where_sessions_are_is_remembered_of_so_many_and_found_again(
    database: Database, tmp_path: Path
) -> None:
    dao = Dao(database, node_id=new_id(), max_redo_depth=3, directory_cache=2, attachments=tmp_path)
    made = [await create(dao) for _ in range(4)]
    found = [await dao.key(LOCAL, key.id) for key in (*made, made[0])]
    assert found == [*made, made[0]]
    assert len(dao._directory) == 2
