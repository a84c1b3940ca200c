"""Revert and redo over the wire, at the places where other systems have lost something."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncpg
import orjson
import pytest
from client_view import ROOT
from processes import process
from scripted_provider import ScriptedProvider, call, text
from serving import Server, serving
from wire import Client, Frame, is_error, is_head, is_status, is_step
from workflows import FILES

from turnback.store.url import asyncpg_dsn

DONE = [text("Done.")]
Scripted = tuple[Server, ScriptedProvider]


async def document(server: Any, session: str) -> bytes:
    """The workflow at HEAD, byte for byte."""
    return bytes((await server.http.get(f"/sessions/{session}/workflow")).content)


async def stored_at(server: Any, session: str, step: Frame) -> Any:
    """The workflow after a step, as it is stored."""
    return await server.http.get(f"/sessions/{session}/steps/{step['id']}/workflow")


def workflow_of(path: Path) -> Any:
    return orjson.loads(path.read_bytes())


async def turn(client: Client, content: str) -> str:
    """A prompt and its answer; its turn."""
    frames = await client.prompt(content)
    return next(str(f["step"]["messageId"]) for f in frames if is_step(f))


async def execute(url: str, statement: str, *arguments: object) -> str:
    connection = await asyncpg.connect(asyncpg_dsn(url))
    try:
        return str(await connection.execute(statement, *arguments))
    finally:
        await connection.close()


@pytest.mark.case(2)
async def test_the_second_revert_of_a_turn_is_refused_and_takes_no_entry(standing: Server) -> None:
    session = await standing.session()
    async with standing.connect(session) as client:
        await client.snapshot()
        reverted = await turn(client, "add a Limit")
        await client.ask("Revert", messageId=reverted)
        refused = await client.ask("Revert", messageId=reverted)
        assert (is_error(refused), refused["code"]) == (True, "not_on_path")
        assert refused["error"] == "Turn is not on the current conversation path"
        await client.ask("Redo")
        refused = await client.ask("Redo")
        assert refused["code"] == "nothing_to_redo"


@pytest.mark.case(4)
async def test_a_turn_is_reverted_after_fifty_more_and_a_restart_to_its_very_bytes(
    fresh_database: str, tmp_path: Path
) -> None:
    async with process(tmp_path, fresh_database) as server:
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            for n in range(5):
                await turn(client, "add a Limit" if n % 2 else "add a Sort")
            stood, head = await document(server, session), client.head
            reverted = await turn(client, "delete op2")
            for n in range(50):
                await turn(client, f"set limit of op4 to {n}" if n % 5 else f"delete op{900 + n}")
            last, tip = await document(server, session), client.head
        server.kill()
        await server.end()
    async with (
        process(tmp_path, fresh_database) as server,
        server.connect(session) as client,
    ):
        await client.snapshot()
        assert await document(server, session) == last
        await client.ask("Revert", messageId=reverted)
        assert client.head == head
        assert await document(server, session) == stood
        await client.ask("Redo")
        assert (client.head, await document(server, session)) == (tip, last)


@pytest.mark.case(5, 21)
async def test_reverts_and_as_many_redos_give_back_every_state_in_turn(standing: Server) -> None:
    session = await standing.session()
    async with standing.connect(session) as client:
        await client.snapshot()
        states = [(ROOT, await document(standing, session))]
        turns = []
        for content in ("add a Sort", "add a Limit", "delete op1", "hello"):
            turns.append(await turn(client, content))
            states.append((client.head, await document(standing, session)))
        steps = (await standing.http.get(f"/sessions/{session}/steps")).content
        for at in reversed(range(len(turns))):
            await client.ask("Revert", messageId=turns[at])
            assert (client.head, await document(standing, session)) == states[at]
        for at in range(len(turns)):
            await client.ask("Redo")
            assert (client.head, await document(standing, session)) == states[at + 1]
        assert (await client.ask("Redo"))["code"] == "nothing_to_redo"
        again = (await standing.http.get(f"/sessions/{session}/steps")).content
        assert again == steps


@pytest.mark.case(6)
async def test_a_revert_in_one_session_leaves_another_that_is_at_work_alone(
    scripted: Scripted,
) -> None:
    server, provider = scripted
    one, other = await server.session(), await server.session()
    async with server.connect(one) as left, server.connect(other) as right:
        await left.snapshot()
        await right.snapshot()
        provider.will(DONE)
        mine = await turn(left, "Mine.")
        provider.will(*[[call("addOperator", adds(n), id=f"c{n}")] for n in range(1, 6)], DONE)
        running = asyncio.create_task(turn(right, "Theirs."))
        for _ in range(5):
            await left.ask("Revert", messageId=mine)
            await left.ask("Redo")
        theirs = await running
        assert [step["messageId"] for step in right.path] == [theirs] * 7
        assert len((await server.http.get(f"/sessions/{other}/steps")).json()["steps"]) == 7
        assert not any(map(is_head, right.frames))
        operators = (await server.http.get(f"/sessions/{other}/workflow")).json()["operators"]
        assert [operator["operatorID"] for operator in operators] == [f"op{n}" for n in range(1, 6)]


def adds(n: int) -> dict[str, Any]:
    return {"operatorId": f"op{n}", "operatorType": "Limit", "properties": {"limit": n}}


@pytest.mark.case(9)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
async def test_the_first_turn_reverts_to_the_sessions_own_workflow(
    standing: Server, path: Path
) -> None:
    session = await standing.session(workflow=workflow_of(path))
    opened = await document(standing, session)
    async with standing.connect(session) as client:
        await client.snapshot()
        first = await turn(client, "add a Limit")
        assert await document(standing, session) != opened
        await client.ask("Revert", messageId=first)
        assert client.head == ROOT
        assert await document(standing, session) == opened
        assert b'"operatorID"' in opened


@pytest.mark.case(10, 15)
@pytest.mark.parametrize(
    "harm",
    [
        pytest.param("delete from blobs where hash = $1", id="gone"),
        pytest.param("update blobs set data = 'x' where hash = $1", id="damaged"),
    ],
)
async def test_a_snapshot_that_is_lost_refuses_its_own_revert_alone(
    fresh_database: str, harm: str
) -> None:
    async with serving(fresh_database) as server:
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            turns = [await turn(client, f"add a {kind}") for kind in ("Sort", "Limit", "Distinct")]
            firsts = [
                next(step for step in client.path if step["messageId"] == turn) for turn in turns
            ]
    lost = firsts[1]["beforeHash"]
    assert (await execute(fresh_database, harm, bytes.fromhex(lost)))[-1] == "1"
    async with serving(fresh_database) as server, server.connect(session) as client:
        snapshot = await client.snapshot()
        assert len(snapshot["steps"]) == 9
        stood = await document(server, session)
        refused = await client.ask("Revert", messageId=turns[1])
        assert (is_error(refused), refused["code"]) == (True, "snapshot_missing")
        assert client.head == snapshot["headId"]
        assert await document(server, session) == stood
        for reverted in (turns[2], turns[0]):
            answer = await client.ask("Revert", messageId=reverted)
            assert answer["type"] == "WsServerAckEvent"
        assert client.head == ROOT
        await client.ask("Redo")
        await client.ask("Redo")
        assert client.head == snapshot["headId"]
        assert await document(server, session) == stood


@pytest.mark.case(12, 28)
async def test_a_turn_of_twenty_calls_in_one_step_is_stored_whole_and_reverted_whole(
    scripted: Scripted,
) -> None:
    server, provider = scripted
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        made = [call("addOperator", adds(n), id=f"a{n}", index=n) for n in range(20)]
        provider.will(made, DONE)
        await turn(client, "Make twenty.")
        stood = await document(server, session)
        changed = [
            call(
                "modifyOperator",
                {"operatorId": f"op{n}", "properties": {"limit": n + 100}},
                id=f"m{n}",
                index=n,
            )
            for n in range(20)
        ]
        provider.will(changed, DONE)
        reverted = await turn(client, "Change twenty.")
        steps = (await server.http.get(f"/sessions/{session}/steps")).json()["steps"]
        step = next(s for s in steps if s.get("tool_calls") and s["turn_id"] == reverted)
        assert [c["tool_call_id"] for c in step["tool_calls"]] == [f"m{n}" for n in range(20)]
        assert [r["tool_call_id"] for r in step["tool_results"]] == [f"m{n}" for n in range(20)]
        now = (await server.http.get(f"/sessions/{session}/workflow")).json()["operators"]
        assert [o["operatorProperties"]["limit"] for o in now] == list(range(100, 120))
        await client.ask("Revert", messageId=reverted)
        assert await document(server, session) == stood


@pytest.mark.case(13)
async def test_a_turn_off_the_path_cannot_be_reverted_but_visited(standing: Server) -> None:
    session = await standing.session()
    async with standing.connect(session) as client:
        await client.snapshot()
        await turn(client, "add a Sort")
        left = await turn(client, "add a Limit")
        tip, stood = client.head, await document(standing, session)
        await client.ask("Revert", messageId=left)
        await turn(client, "add a Distinct")
        head, now = client.head, await document(standing, session)
        refused = await client.ask("Revert", messageId=left)
        assert refused["error"] == "Turn is not on the current conversation path"
        assert (client.head, await document(standing, session)) == (head, now)
        await client.ask("Checkout", stepId=tip)
        assert (client.head, await document(standing, session)) == (tip, stood)


@pytest.mark.case(17)
async def test_when_a_step_is_told_another_process_can_read_its_workflow_and_revert_it(
    scripted: Scripted, fresh_database: str
) -> None:
    server, provider = scripted
    session = await server.session()
    async with serving(fresh_database) as other, server.connect(session) as client:
        await client.snapshot()
        provider.will(*[[call("addOperator", adds(n), id=f"c{n}")] for n in range(4)], DONE)
        await client.send("Prompt", content="Go.")
        seen: list[Frame] = []
        while not seen or not seen[-1]["isEnd"] or seen[-1]["role"] == "user":
            frame = await client.next()
            if is_step(frame):
                seen.append(frame["step"])
                stored = await stored_at(other, session, frame["step"])
                assert stored.status_code == 200
                assert len(stored.json()["operators"]) == min(len(seen) - 1, 4)
        await client.wait(is_status("AVAILABLE"), since=2)
        for at, step in reversed(list(enumerate(seen[1:], start=1))):
            await client.ask("Revert", stepId=step["id"])
            assert client.head == seen[at - 1]["id"]
            operators = (await server.http.get(f"/sessions/{session}/workflow")).json()["operators"]
            assert len(operators) == min(at - 1, 4)


@pytest.mark.case(18)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
async def test_links_made_by_the_agent_take_no_id_that_ever_was(
    scripted: Scripted, path: Path
) -> None:
    server, provider = scripted
    session = await server.session(workflow=workflow_of(path))

    async def links() -> dict[str, Any]:
        workflow = (await server.http.get(f"/sessions/{session}/workflow")).json()
        ids = [link["linkID"] for link in workflow["links"]]
        assert len(set(ids)) == len(ids)
        return {link["linkID"]: link for link in workflow["links"]}

    loaded = await links()
    ever = set(loaded)
    async with server.connect(session) as client:
        await client.snapshot()
        for n in range(3):
            union = {"operatorId": f"u{n}", "operatorType": "Union"}
            source = {"operatorId": f"s{n}", "operatorType": "TextInput"}
            fed = {"operatorId": f"u{n}", "inputOperatorIds": {"0": [f"s{n}"]}}
            provider.will(
                [call("addOperator", source, id="a"), call("addOperator", union, id="b", index=1)],
                [call("modifyOperator", fed, id="c")],
                DONE,
            )
            made = await turn(client, "Link.")
            now = await links()
            assert {key: now[key] for key in loaded} == loaded
            [new] = now.keys() - loaded.keys()
            assert new not in ever
            ever.add(new)
            await client.ask("Revert", messageId=made)
            assert await links() == loaded


@pytest.mark.case(26)
async def test_of_two_prompts_at_once_one_runs_and_the_other_is_told_busy(
    standing: Server,
) -> None:
    session = await standing.session()
    kinds = ("Sort", "Limit")
    async with standing.connect(session) as one, standing.connect(session) as two:
        await one.snapshot()
        await two.snapshot()
        for n in range(1, 16):
            seen = len(one.frames)
            asked = [
                c.ask("Prompt", content=f"add a {k}")
                for c, k in zip((one, two), kinds, strict=True)
            ]
            answers = await asyncio.gather(*asked)
            assert sorted(is_error(answer) for answer in answers) == [False, True]
            won = kinds[0 if is_error(answers[1]) else 1]
            [refused] = filter(is_error, answers)
            assert (refused["code"], "busy" in refused["error"]) == ("busy", True)
            await one.wait(is_status("AVAILABLE"), since=seen)
            told = [frame["step"] for frame in one.frames[seen:] if is_step(frame)]
            assert told[0]["content"] == f"add a {won}"
            assert len({step["messageId"] for step in told}) == 1
            workflow = (await standing.http.get(f"/sessions/{session}/workflow")).json()
            assert len(workflow["operators"]) == n
            assert workflow["operators"][-1]["operatorType"] == won


@pytest.mark.case(38)
@pytest.mark.parametrize("v1", [True, False])
async def test_a_client_that_upserts_what_arrives_shows_every_step_once(
    standing: Server, v1: bool
) -> None:
    session = await standing.session()
    async with standing.connect(session) as driver:
        await driver.snapshot()
        shown: dict[tuple[str, int], Frame] = {}
        arrived: list[tuple[str, int]] = []

        def show(steps: Sequence[Frame]) -> None:
            for step in steps:
                key = (step["messageId"], step["stepId"])
                assert shown.get(key, step)["content"] == step["content"]
                shown[key] = step
                arrived.append(key)

        for content in ("build a pie chart", "hello"):
            async with standing.connect(session, v1=v1) as client:
                show((await client.snapshot())["steps"])
                await driver.prompt(content)
                await client.wait(is_status("AVAILABLE"), since=2)
                frames = [frame["step"] for frame in client.frames if is_step(frame)]
                assert len({(s["messageId"], s["stepId"]) for s in frames}) == len(frames)
                show(frames)
        path = driver.path
        assert list(shown) == [(step["messageId"], step["stepId"]) for step in path]
        assert [step["isEnd"] for step in shown.values() if step["role"] == "agent"].count(
            True
        ) == len({step["messageId"] for step in path})


@pytest.mark.case(10, 25)
async def test_a_prompt_on_a_snapshot_that_is_lost_does_not_leave_the_session_busy(
    fresh_database: str,
) -> None:
    async with serving(fresh_database) as server:
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            first = await turn(client, "add a Sort")
            last = await turn(client, "add a Limit")
            lost = client.path[-1]["afterHash"]
    await execute(fresh_database, "delete from blobs where hash = $1", bytes.fromhex(lost))
    async with serving(fresh_database) as server, server.connect(session) as client:
        await client.snapshot()
        refused = await client.ask("Prompt", content="add a Distinct")
        assert (is_error(refused), refused["code"]) == (True, "snapshot_missing")
        for reverted in (last, first):
            assert (await client.ask("Revert", messageId=reverted))["type"] == "WsServerAckEvent"
        await turn(client, "add a Distinct")
        assert client.path[-1]["endReason"] == "complete"
