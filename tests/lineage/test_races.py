"""Forks against everything else that may happen at the same instant, on real connections."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from flaky import Loss, flaky
from oracle_races import Made, Written, check_forks, fork_meanwhile
from processes import process
from rest import command, get, idle, problem, turn
from scripted_provider import Pause, ScriptedProvider, call, text
from serving import Server, serving
from stored import NOW, Story

from turnback.core.errors import SessionNotFound
from turnback.core.lineage import Fork
from turnback.core.principal import LOCAL
from turnback.store.dao import Dao
from turnback.store.database import Database
from turnback.store.ids import new_id
from turnback.store.url import asyncpg_dsn


@pytest.fixture
async def dao(fresh_database: str) -> AsyncIterator[Dao]:
    database = await Database.open(fresh_database, size=9, connect_timeout=20, statement_timeout=20)
    yield Dao(database, node_id=new_id(), max_redo_depth=1000, directory_cache=100)
    await database.close()


@pytest.mark.lineage(1, 2, 5, 10, 11)
async def test_forks_raced_against_a_writer_are_copies_of_one_moment(dao: Dao) -> None:
    await race(dao, seed=1, forks=100, at_once=6)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10, 14))
async def test_1_000_forks_raced_against_a_writer_are_copies_of_one_moment(
    dao: Dao, seed: int
) -> None:
    await race(dao, seed=seed, forks=1_000, at_once=8)


async def race(dao: Dao, *, seed: int, forks: int, at_once: int) -> None:
    """Fork a session so often, several at a time, while it is written to all along."""
    rng = random.Random(seed)
    story = await Written.started(dao)
    await story.write(rng, 40)
    made: list[Made] = []

    async def fork() -> None:
        while len(made) < forks:
            made.append(await fork_meanwhile(dao, story, rng))

    async def write() -> None:
        while len(made) < forks:
            await story.write(rng, 1)

    before = len(story.moments)
    await asyncio.gather(write(), *(fork() for _ in range(at_once)))
    assert len(story.moments) > before + forks / 20, "nothing was written meanwhile"
    refused = [fork.refused for fork in made if fork.refused]
    assert len(made) - len(refused) > forks / 4
    assert sum(fork.until - fork.since > 1 for fork in made) > forks / 4, "no race"
    await check_forks(dao, story, made)


async def test_a_fork_raced_against_a_delete_is_whole_or_not_made(dao: Dao) -> None:
    for _ in range(12):
        story = await Story.begin(dao)
        await story.prompt("one")
        asked = [Fork(story.key.id, new_id()) for _ in range(4)]
        done = await asyncio.gather(
            *(dao.fork(LOCAL, fork, now=NOW, max_depth=9) for fork in asked[:2]),
            story.change(deleted=True),
            *(dao.fork(LOCAL, fork, now=NOW, max_depth=9) for fork in asked[2:]),
            return_exceptions=True,
        )
        for fork, result in zip(asked, [*done[:2], *done[3:]], strict=True):
            if isinstance(result, BaseException):
                assert isinstance(result, SessionNotFound), result
                with pytest.raises(SessionNotFound):
                    await dao.session(LOCAL, fork.child_id)
            else:
                assert (await Story.of(dao, fork.child_id)).visible() == story.visible()
                again = await dao.fork(LOCAL, fork, now=NOW, max_depth=9)
                assert (again.lineage, again.is_new) == (result.lineage, False)


async def test_a_fork_does_not_mind_that_its_source_is_archived_meanwhile(dao: Dao) -> None:
    story = await Story.begin(dao)
    await story.prompt("one")
    for archived in [True, False] * 4:
        asked = Fork(story.key.id, new_id())
        made, _ = await asyncio.gather(
            dao.fork(LOCAL, asked, now=NOW, max_depth=9), story.change(archived=archived)
        )
        assert made.is_new
        child = await dao.session(LOCAL, asked.child_id)
        assert child.archived_at is None
        assert (await Story.of(dao, asked.child_id)).visible() == story.visible()


@pytest.mark.lineage(13)
async def test_two_processes_asked_for_the_same_forks_at_once_make_each_once(
    fresh_database: str, tmp_path: Path
) -> None:
    async with (
        process(tmp_path, fresh_database) as one,
        process(tmp_path, fresh_database) as other,
    ):
        parent = await one.session()
        asked = await turn(one, parent, "add a CSVFileScan")
        boundary = {"turn_id": asked["turnId"], "position": "after"}
        targets = [new_id() for _ in range(8)]
        running = await command(one, parent, "Prompt", content="add a Filter on amount > 10")
        assert running.status_code == 202
        answers = await asyncio.gather(
            *(
                server.http.post(
                    f"/sessions/{parent}/fork",
                    json={"target_session_id": target, "boundary": boundary},
                )
                for target in targets
                for server in (one, other, one)
            )
        )
        whole = await get(one, f"/sessions/{parent}/transcript")
        first = [r for r in whole["records"] if r["turn_id"] == asked["turnId"]]
        for target in targets:
            mine = [a for a in answers if a.json()["session"]["id"] == target]
            assert sorted(answer.status_code for answer in mine) == [200, 200, 201]
            assert len({str(answer.json()["lineage"]) for answer in mine}) == 1
            for server in (one, other):
                read = await get(server, f"/sessions/{target}/transcript")
                assert read["records"] == first


@pytest.mark.lineage(11)
async def test_a_parent_in_the_middle_of_a_tool_call_is_forked_at_what_is_complete(
    scripted: tuple[Server, ScriptedProvider],
) -> None:
    server, provider = scripted
    parent = await server.session()
    provider.will([text("done")])
    first = (await turn(server, parent, "one"))["turnId"]
    before = (await get(server, f"/sessions/{parent}/transcript"))["records"]
    going = asyncio.Event()
    look = call("getWorkflow", {})
    provider.will(
        [text("look"), look], [call("getWorkflow", {}, id="c2"), Pause(going)], [text("ok")]
    )
    running = (await command(server, parent, "Prompt", content="two")).json()["turnId"]
    await provider.asked.wait()

    async def fork(turn_id: str, side: str) -> Any:
        boundary = {"turn_id": turn_id, "position": side}
        return await server.http.post(f"/sessions/{parent}/fork", json={"boundary": boundary})

    children = []
    for turn_id, side in ((first, "after"), (running, "before")):
        answer = await fork(turn_id, side)
        assert answer.status_code == 201, answer.text
        children.append(answer.json()["session"]["id"])
    problem(await fork(running, "after"), 409, "turn_incomplete")
    problem(await server.http.post(f"/sessions/{parent}/fork", json={}), 409, "turn_incomplete")
    going.set()
    await idle(server, parent)
    for child in children:
        listed = await get(server, f"/sessions/{child}")
        assert listed["state"] == "AVAILABLE"
        assert (await get(server, f"/sessions/{child}/transcript"))["records"] == before
    assert (await fork(running, "after")).status_code == 201


@pytest.mark.lineage(12, 13)
@pytest.mark.parametrize("what", ["request", "answer"])
@pytest.mark.parametrize("named", [True, False])
async def test_a_fork_whose_connection_is_cut_is_whole_or_nothing_and_the_same_when_asked_again(
    fresh_database: str, tmp_path: Path, what: Loss, named: bool
) -> None:
    async with flaky(fresh_database, tmp_path) as wire, serving(wire.url) as server:
        parent = await server.session()
        await turn(server, parent, "add a CSVFileScan")
        await fork_of(server, parent, {}, "warm")  # so that what is cut is the fork itself
        before = await rows(fresh_database)
        body = {"target_session_id": new_id()} if named else {}
        wire.lose(what)
        problem(await fork_of(server, parent, body, "k"), 503, "database_unavailable")
        assert wire.lost == 1
        after = await rows(fresh_database)
        made = {table: after[table] - before[table] for table in after}
        assert set(made.values()) == {0 if what == "request" else 1}, made
        again = await fork_of(server, parent, body, "k")
        assert again.status_code == (201 if what == "request" else 200), again.text
        child = again.json()["session"]["id"]
        assert child == body.get("target_session_id", child)
        once_more = await fork_of(server, parent, body, "k")
        assert once_more.json()["session"]["id"] == child
        assert await rows(fresh_database) == {table: n + 1 for table, n in before.items()}
        records = (await get(server, f"/sessions/{parent}/transcript"))["records"]
        assert (await get(server, f"/sessions/{child}/transcript"))["records"] == records


async def fork_of(server: Server, parent: str, body: dict[str, Any], key: str) -> Any:
    return await server.http.post(
        f"/sessions/{parent}/fork", json=body, headers={"idempotency-key": key}
    )


async def rows(url: str) -> dict[str, int]:
    """How many rows there are of all that a fork writes."""
    connection = await asyncpg.connect(asyncpg_dsn(url))
    try:
        return {
            table: await connection.fetchval(f"select count(*) from {table}")
            for table in ("session_directory", "sessions", "session_lineage")
        }
    finally:
        await connection.close()
