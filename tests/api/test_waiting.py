"""`?wait=end`: a script asks, and is answered when the turn has ended, with the turn's frames."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from processes import Process, eventually, process
from rest import command, get, problem, state, turn
from scrape import scrape
from serving import Server, serving

from turnback.core.principal import LOCAL

SLOWLY = {"offline_delay_ms": 60}
PROMPT = {"content": "add a CSVFileScan"}


@asynccontextmanager
async def heard(server: Server | Process) -> AsyncIterator[None]:
    """At its end, a command that was sent within it has reached the session."""

    async def commands() -> float:
        return (await scrape(server))["turnback_command_seconds_count"]

    async def more() -> bool:
        return await commands() > before

    before = await commands()
    yield
    await eventually(more)


def types(answer: dict[str, Any]) -> list[str]:
    return [event["type"].removeprefix("WsServer").removesuffix("Event")
            for event in answer["events"]]  # fmt: skip


async def test_a_prompt_is_answered_at_its_end_with_the_frames_that_a_socket_was_told(
    server: Server,
) -> None:
    session = await server.session()
    await turn(server, session, "hello")
    async with server.connect(session) as client:
        await client.snapshot()
        answer = await turn(server, session, "add a CSVFileScan")
        await client.wait(lambda frame: frame.get("eventSeq") == answer["eventSeq"])
        assert answer["events"] == client.durable
    assert types(answer) == ["Status", "Step", "Step", "Step", "Status"]
    assert (answer["events"][0]["state"], answer["events"][-1]["state"]) == (
        "GENERATING", "AVAILABLE",
    )  # fmt: skip
    steps = [event["step"] for event in answer["events"] if "step" in event]
    assert {step["messageId"] for step in steps} == {answer["turnId"]}
    assert steps[-1]["isEnd"]
    now = await get(server, f"/sessions/{session}")
    assert (answer["headId"], answer["eventSeq"]) == (now["head_id"], now["revision"])
    assert steps[-1]["id"] == now["head_id"]


async def test_without_wait_it_is_202_at_once(server: Server) -> None:
    session = await server.session()
    answer = await command(server, session, "Prompt", **PROMPT)
    assert (answer.status_code, set(answer.json())) == (202, {"headId", "eventSeq", "turnId"})
    await state(server, session, "AVAILABLE")


@pytest.mark.parametrize("wait", ["start", "", "END", "true"])
async def test_another_wait_is_bad_input_and_runs_nothing(server: Server, wait: str) -> None:
    session = await server.session()
    answer = await server.http.post(
        f"/sessions/{session}/commands?wait={wait}",
        json={"type": "WsClientPromptCommand", "content": "hello"},
    )
    problem(answer, 422, "bad_input")
    assert (await get(server, f"/sessions/{session}"))["revision"] == 0


async def test_what_begins_no_turn_is_answered_at_once_with_its_own_frames(server: Server) -> None:
    session = await server.session()
    first = await turn(server, session, "add a CSVFileScan")
    reverted = await command(server, session, "Revert", messageId=first["turnId"], wait=True)
    body = reverted.json()
    assert (reverted.status_code, types(body), "turnId" in body) == (200, ["HeadChange"], False)
    assert (body["headId"], body["eventSeq"]) == ("step-initial", first["eventSeq"] + 1)
    redone = (await command(server, session, "Redo", wait=True)).json()
    assert (types(redone), redone["headId"]) == (["HeadChange"], first["headId"])
    idle = await command(server, session, "Stop", wait=True)
    assert (idle.status_code, idle.json()) == (
        200, {"headId": first["headId"], "eventSeq": redone["eventSeq"], "events": []},
    )  # fmt: skip
    problem(await command(server, session, "Redo", wait=True), 409, "nothing_to_redo")


async def test_an_edit_is_a_turn_that_has_ended_when_it_is_made(server: Server) -> None:
    session = await server.session()
    edit = {"op": "addComment", "comment": {"commentBoxID": "note", "comments": []}}
    fields = {"baseHeadId": "step-initial", "edits": [edit]}
    answer = (await command(server, session, "EditWorkflow", **fields, wait=True)).json()
    assert types(answer) == ["Step", "HeadChange"]
    assert answer["headId"] == answer["events"][0]["step"]["id"]
    assert answer["turnId"] == answer["events"][0]["step"]["messageId"]


async def test_the_same_request_id_is_answered_with_the_same_frames(server: Server) -> None:
    session = await server.session()
    ask = {**PROMPT, "requestId": "r1", "wait": True}
    first = await command(server, session, "Prompt", **ask)
    await turn(server, session, "hello")
    again = await command(server, session, "Prompt", **ask)
    assert (again.status_code, again.json()) == (200, first.json())
    by_turn = {**PROMPT, "turnKey": "t1", "wait": True}
    first = await command(server, session, "Prompt", **by_turn)
    await turn(server, session, "hello")
    again = await command(server, session, "Prompt", **by_turn)
    assert (again.status_code, again.json()) == (200, first.json())


async def test_a_stop_and_a_rename_in_between_are_among_the_frames(fresh_database: str) -> None:
    async with serving(fresh_database, **SLOWLY) as server:
        session = await server.session()
        waiting = asyncio.create_task(command(server, session, "Prompt", **PROMPT, wait=True))
        await state(server, session, "GENERATING")
        await server.http.patch(f"/sessions/{session}", json={"name": "Renamed"})
        stopped = (await command(server, session, "Stop", wait=True)).json()
        assert [event["state"] for event in stopped["events"]] == ["STOPPING"]
        answer = (await waiting).json()
        assert "Session" in types(answer)
        assert [e["state"] for e in answer["events"] if e["type"] == "WsServerStatusEvent"] == [
            "GENERATING", "STOPPING", "AVAILABLE",
        ]  # fmt: skip
        assert answer["events"][-2]["step"]["endReason"] == "stopped"
        seqs = [event["eventSeq"] for event in answer["events"]]
        assert seqs == list(range(1, len(seqs) + 1))


async def test_after_wait_timeout_it_is_202_and_the_turn_goes_on(fresh_database: str) -> None:
    async with serving(fresh_database, **SLOWLY, wait_timeout=0.1) as server:
        session = await server.session()
        answer = await command(server, session, "Prompt", **PROMPT, wait=True)
        assert (answer.status_code, set(answer.json())) == (202, {"headId", "eventSeq", "turnId"})
        await state(server, session, "AVAILABLE")


async def test_a_client_that_leaves_is_not_waited_for(fresh_database: str) -> None:
    async with serving(fresh_database, **SLOWLY) as server:
        session = await server.session()
        with pytest.raises(httpx.ReadTimeout):
            await server.http.post(
                f"/sessions/{session}/commands?wait=end",
                json={"type": "WsClientPromptCommand", **PROMPT},
                timeout=httpx.Timeout(20, read=0.2),
            )
        actor = await server.app.state.sessions.get(LOCAL, session)
        await eventually(lambda: len(actor.hub) == 0)
        assert (await get(server, f"/sessions/{session}"))["state"] == "GENERATING"
        await state(server, session, "AVAILABLE")


async def test_a_wait_too_many_is_refused_and_runs_nothing_and_has_its_place_later(
    fresh_database: str,
) -> None:
    async with serving(fresh_database, **SLOWLY, waits_per_principal=2) as server:
        sessions = [await server.session() for _ in range(3)]
        waiting = [
            asyncio.create_task(command(server, session, "Prompt", **PROMPT, wait=True))
            for session in sessions[:2]
        ]
        for session in sessions[:2]:
            await state(server, session, "GENERATING")
        refused = await command(server, sessions[2], "Prompt", **PROMPT, wait=True)
        data = problem(refused, 429, "too_many_waits")["data"]
        assert data == {"limit": "waits_per_principal", "value": 2, "retryAfterMs": 1000}
        assert refused.headers["retry-after"] == "1"
        assert (await get(server, f"/sessions/{sessions[2]}"))["revision"] == 0
        assert (await command(server, sessions[2], "Stop")).status_code == 202  # waits for nothing
        assert [(await answer).status_code for answer in waiting] == [200, 200]
        again = await command(server, sessions[2], "Prompt", **PROMPT, wait=True)
        assert again.status_code == 200


async def test_frames_that_no_answer_has_room_for_are_left_out(fresh_database: str) -> None:
    async with serving(fresh_database, ws_max_send=2_000) as server:
        session = await server.session()
        answer = await command(server, session, "Prompt", **PROMPT, wait=True)
        assert (answer.status_code, set(answer.json())) == (202, {"headId", "eventSeq", "turnId"})
        assert (await get(server, f"/sessions/{session}"))["state"] == "AVAILABLE"
        stopped = await command(server, session, "Stop", wait=True)
        assert stopped.status_code == 200


async def test_a_deleted_session_ends_the_wait(fresh_database: str) -> None:
    async with serving(fresh_database, **SLOWLY) as server:
        session = await server.session()
        waiting = asyncio.create_task(command(server, session, "Prompt", **PROMPT, wait=True))
        await state(server, session, "GENERATING")
        assert (await server.http.delete(f"/sessions/{session}")).status_code == 204
        async with asyncio.timeout(15):
            assert (await waiting).status_code in (200, 202)


async def test_a_server_that_goes_down_ends_its_runs_and_then_the_waits(
    fresh_database: str, tmp_path: Path
) -> None:
    async with process(tmp_path, fresh_database, offline_delay_ms=500, drain_timeout=0.5) as server:
        session = await server.session()
        waiting = asyncio.create_task(command(server, session, "Prompt", **PROMPT, wait=True))
        await state(server, session, "GENERATING")
        server.send(signal.SIGTERM)
        answer = await waiting
        assert answer.status_code == 200
        assert answer.json()["events"][-2]["step"]["endReason"] == "interrupted"
        assert await server.end() == 0


async def test_a_turn_that_another_process_runs_is_waited_for(
    fresh_database: str, tmp_path: Path
) -> None:
    async with (
        process(tmp_path, fresh_database, **SLOWLY) as one,
        process(tmp_path, fresh_database, **SLOWLY, drain_timeout=0.5) as two,
    ):
        session = await one.session()
        ask = {**PROMPT, "requestId": "r1", "wait": True}
        here = asyncio.create_task(command(one, session, "Prompt", **ask))
        await state(two, session, "GENERATING")
        there = asyncio.create_task(command(two, session, "Prompt", **ask))
        first, second = await asyncio.gather(here, there)
        assert (second.status_code, second.json()) == (200, first.json())


async def test_a_server_that_goes_down_does_not_wait_for_the_turn_of_another(
    fresh_database: str, tmp_path: Path
) -> None:
    async with (
        process(tmp_path, fresh_database, offline_delay_ms=300) as one,
        process(tmp_path, fresh_database, drain_timeout=0.5) as two,
    ):
        session = await one.session()
        ask = {**PROMPT, "requestId": "r1"}
        await command(one, session, "Prompt", **ask)
        async with heard(two):
            there = asyncio.create_task(command(two, session, "Prompt", **ask, wait=True))
        two.send(signal.SIGTERM)
        async with asyncio.timeout(15):
            assert (await there).status_code == 202
        assert await two.end() == 0


async def test_a_killed_run_is_waited_for_until_it_is_ended_as_interrupted(
    fresh_database: str, tmp_path: Path
) -> None:
    async with (
        process(tmp_path, fresh_database, offline_delay_ms=300) as one,
        serving(fresh_database) as two,
    ):
        session = await one.session()
        ask = {**PROMPT, "requestId": "r1"}
        await command(one, session, "Prompt", **ask)
        async with heard(two):
            there = asyncio.create_task(command(two, session, "Prompt", **ask, wait=True))
        one.kill()
        answer = await there
        assert answer.status_code == 200
        assert answer.json()["events"][-2]["step"]["endReason"] == "interrupted"
