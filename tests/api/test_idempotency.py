"""`Idempotency-Key`: sent again, answered again, made once; through races, kills, other nodes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from processes import eventually, process
from rest import command, get, problem, state
from serving import Server, serving

from turnback.store.ids import new_id

SLOWLY = {"offline_delay_ms": 60}


async def create(server: Any, key: str, **body: Any) -> httpx.Response:
    answer: httpx.Response = await server.http.post(
        "/sessions", json=body, headers={"idempotency-key": key}
    )
    return answer


async def sessions(server: Any) -> list[dict[str, Any]]:
    return list((await get(server, "/sessions"))["sessions"])


async def turns(server: Server, session: str) -> list[str]:
    """The turns of a session, after one more."""
    await command(server, session, "Prompt", content="hello", wait=True)
    steps = (await get(server, f"/sessions/{session}/steps"))["steps"]
    return [step["turn_id"] for step in steps if step["role"] == "user"]


@asynccontextmanager
async def database(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def test_the_same_request_is_answered_the_same_and_makes_one_session(server: Server) -> None:
    first = await create(server, "key-1", name="Orders")
    assert first.status_code == 201
    await server.http.patch(first.headers["location"], json={"name": "Renamed"})
    again = await create(server, "key-1", name="Orders")
    assert (again.status_code, again.content) == (201, first.content)
    assert again.headers["location"] == first.headers["location"]
    assert [s["name"] for s in await sessions(server)] == ["Renamed"]
    other = await create(server, "key-2", name="Orders")
    assert other.json()["id"] != first.json()["id"]


async def test_the_same_key_with_another_body_or_for_another_route_is_refused(
    server: Server,
) -> None:
    session = (await create(server, "key", name="Orders")).json()["id"]
    problem(await create(server, "key", name="Parts"), 422, "idempotency_conflict")
    elsewhere = await command(server, session, "Stop", key="key")
    problem(elsewhere, 422, "idempotency_conflict")
    assert len(await sessions(server)) == 1


@pytest.mark.parametrize("key", ["", "x" * 201, "two words", "t\tab"])
async def test_what_is_no_key_is_bad_input(standing: Server, key: str) -> None:
    problem(await create(standing, key), 422, "bad_input")
    two = [("idempotency-key", "a"), ("idempotency-key", "b")]
    problem(await standing.http.post("/sessions", headers=two), 422, "bad_input")


async def test_a_key_of_200_characters_is_one(standing: Server) -> None:
    key = new_id().ljust(200, "!")
    assert (await create(standing, key)).status_code == 201
    assert (await create(standing, key)).status_code == 201


async def test_twenty_at_once_make_one_session(server: Server) -> None:
    answers = await asyncio.gather(*(create(server, "race", name="Orders") for _ in range(20)))
    assert set(Counter(answer.status_code for answer in answers)) <= {201, 409}
    made = {answer.json()["id"] for answer in answers if answer.status_code == 201}
    assert [s["id"] for s in await sessions(server)] == list(made)
    for answer in answers:
        if answer.status_code == 409:
            problem(answer, 409, "idempotency_running")
            assert int(answer.headers["retry-after"]) > 0
    assert (await create(server, "race", name="Orders")).json()["id"] in made


async def test_twenty_at_once_over_two_servers_run_one_command(fresh_database: str) -> None:
    async with serving(fresh_database) as one, serving(fresh_database) as two:
        session = await one.session()
        ask = {"content": "hello", "key": "race"}
        answers = await asyncio.gather(
            *(command(server, session, "Prompt", **ask) for server in (one, two) * 10)
        )
        told = {a.content for a in answers if a.status_code == 202}
        assert len(told) == 1
        assert {a.status_code for a in answers} <= {202, 409}
        await state(one, session, "AVAILABLE")
        assert (await get(one, f"/sessions/{session}/usage"))["spent"]["turns"] == 1


async def test_refusals_are_not_kept(server: Server) -> None:
    problem(await create(server, "key", name="x" * 201), 422, "bad_input")
    assert (await create(server, "key", name="Orders")).status_code == 201
    session = await server.session()
    problem(await command(server, session, "Redo", key="redo"), 409, "nothing_to_redo")
    await command(server, session, "Prompt", content="hello", wait=True)
    [first, *_] = (await get(server, f"/sessions/{session}/steps"))["steps"]
    await command(server, session, "Revert", messageId=first["turn_id"])
    assert (await command(server, session, "Redo", key="redo")).status_code == 202


async def test_what_was_refused_may_be_asked_in_another_way_with_the_same_key(
    server: Server,
) -> None:
    session = await server.session()
    [turn] = await turns(server, session)
    later = await command(server, session, "Acknowledge", residueId="r", key="back")
    problem(later, 404, "unknown_residue")
    revert = await command(server, session, "Revert", messageId=turn, key="back")
    assert revert.status_code == 202


async def test_a_command_runs_once_and_is_answered_the_same(server: Server) -> None:
    session = await server.session()
    first = await command(server, session, "Prompt", content="hello", key="prompt")
    assert first.status_code == 202
    await state(server, session, "AVAILABLE")
    await command(server, session, "Prompt", content="and again", wait=True)
    again = await command(server, session, "Prompt", content="hello", key="prompt")
    assert (again.status_code, again.content) == (202, first.content)
    usage = await get(server, f"/sessions/{session}/usage")
    assert usage["visible"]["turns"] == 2


async def test_while_the_first_waits_the_same_request_is_409_and_later_the_same_turn(
    fresh_database: str,
) -> None:
    async with serving(fresh_database, **SLOWLY) as server:
        session = await server.session()
        ask = {"content": "add a CSVFileScan", "key": "turn", "wait": True}
        first = asyncio.create_task(command(server, session, "Prompt", **ask))
        await state(server, session, "GENERATING")
        running = await command(server, session, "Prompt", **ask)
        problem(running, 409, "idempotency_running")
        assert running.headers["retry-after"] == "1"
        different = await command(server, session, "Prompt", **ask | {"content": "hello"})
        problem(different, 422, "idempotency_conflict")
        done = await first
        assert done.status_code == 200
        again = await command(server, session, "Prompt", **ask)
        assert (again.status_code, again.json()) == (200, done.json())


async def test_who_lost_the_connection_asks_again_and_gets_the_turns_end(
    fresh_database: str,
) -> None:
    async with serving(fresh_database, **SLOWLY) as server:
        session = await server.session()
        ask = {"content": "add a CSVFileScan", "key": "turn", "wait": True}
        first = asyncio.create_task(command(server, session, "Prompt", **ask))
        await state(server, session, "GENERATING")
        first.cancel()

        async def answered() -> httpx.Response | None:
            answer = await command(server, session, "Prompt", **ask)
            return answer if answer.status_code != 409 else None

        await eventually(answered)
        answer = await command(server, session, "Prompt", **ask)
        assert answer.status_code == 200
        turns = (await get(server, f"/sessions/{session}/usage"))["spent"]["turns"]
        assert turns == 1


@pytest.mark.kill
@pytest.mark.parametrize("point", ["before", "inside", "after"])
async def test_a_kill_around_the_commit_does_not_make_two_sessions(
    fresh_database: str, tmp_path: Path, point: str
) -> None:
    async with process(tmp_path, fresh_database, failpoint=f"commit.{point}@1") as dying:
        with pytest.raises(httpx.HTTPError):
            await create(dying, "session", name="Orders")
        assert await dying.end() == -9
    async with serving(fresh_database) as server:
        again = await create(server, "session", name="Orders")
        assert again.status_code == 201
        assert [s["id"] for s in await sessions(server)] == [again.json()["id"]]


@pytest.mark.kill
@pytest.mark.parametrize("point", ["before", "inside", "after"])
async def test_a_kill_around_the_commit_does_not_run_a_command_twice(
    fresh_database: str, tmp_path: Path, point: str
) -> None:
    async with process(tmp_path, fresh_database, failpoint=f"commit.{point}@2") as dying:
        session = await dying.session()
        with pytest.raises(httpx.HTTPError):
            await command(dying, session, "Prompt", content="hello", key="prompt")
        assert await dying.end() == -9
    async with serving(fresh_database) as server:
        done = await command(server, session, "Prompt", content="hello", key="prompt", wait=True)
        assert done.status_code == 200
        assert (await get(server, f"/sessions/{session}/usage"))["spent"]["turns"] == 1


async def test_another_process_knows_the_answer_and_what_is_running(
    fresh_database: str, tmp_path: Path
) -> None:
    async with (
        process(tmp_path, fresh_database, **SLOWLY) as one,
        process(tmp_path, fresh_database, **SLOWLY) as two,
    ):
        first = await create(one, "session", name="Orders")
        again = await create(two, "session", name="Orders")
        assert (again.status_code, again.content) == (201, first.content)
        session = first.json()["id"]
        ask = {"content": "add a CSVFileScan", "key": "turn", "wait": True}
        waiting = asyncio.create_task(command(one, session, "Prompt", **ask))
        await state(two, session, "GENERATING")
        problem(await command(two, session, "Prompt", **ask), 409, "idempotency_running")
        one.kill()
        with pytest.raises(httpx.HTTPError):
            await waiting

        async def taken_over() -> bool:
            return (await command(two, session, "Prompt", **ask)).status_code == 200

        await eventually(taken_over)
        assert (await get(two, f"/sessions/{session}/usage"))["spent"]["turns"] == 1


async def test_a_key_is_forgotten_after_its_time(fresh_database: str) -> None:
    async with serving(fresh_database, idempotency_ttl=1.0, forget_interval=0.05) as server:
        first = await create(server, "key")
        assert (await create(server, "key")).json()["id"] == first.json()["id"]
        async with database(fresh_database) as connection:
            await eventually(
                lambda: connection.fetchval("select count(*) = 0 from idempotency_keys")
            )
        assert (await create(server, "key")).json()["id"] != first.json()["id"]


async def test_a_claim_that_was_never_released_is_taken_over_when_it_is_old(
    fresh_database: str,
) -> None:
    quick = {"wait_timeout": 0.1, "db_statement_timeout": 1.0}
    async with (
        serving(fresh_database) as one,
        serving(fresh_database, **quick) as two,
        database(fresh_database) as connection,
    ):
        first = await create(one, "key")
        await connection.execute(
            "update idempotency_keys set status = null, body = null, location = null, "
            "node_id = $1, claimed_at = clock_timestamp()",
            one.app.state.sessions.dao.node_id,
        )
        problem(await create(two, "key"), 409, "idempotency_running")

        async def taken_over() -> httpx.Response | None:
            answer = await create(two, "key")
            return answer if answer.status_code == 201 else None

        await eventually(taken_over)
        assert (await create(two, "key")).json()["id"] == first.json()["id"]
