"""Connections that are lost: backends killed, answers lost, a database that falls silent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from agreement import check_agreement, idle, last_seq, state
from flaky import flaky
from held import row_of
from processes import eventually
from scripted_provider import Pause, ScriptedProvider, call, text
from serving import Server, serving
from wire import Client, Frame, is_head, is_status, is_step

from turnback.store.url import asyncpg_dsn

SCAN = "add a CSVFileScan"
UNHURRIED: dict[str, Any] = {"poll_interval": 60.0, "lease_heartbeat": 60.0, "lease_expiry": 90.0}
"""Nothing of the server's own accord, so that the next statement is the command's."""

Command = Callable[[Client], Awaitable[Frame]]


async def prompt(client: Client) -> Frame:
    return await client.ask("Prompt", content="add a TextInput")


async def revert(client: Client) -> Frame:
    return await client.ask("Revert", messageId=client.path[-1]["messageId"])


async def redo(client: Client) -> Frame:
    return await client.ask("Redo")


async def checkout(client: Client) -> Frame:
    return await client.ask("Checkout", stepId="step-initial")


async def edit(client: Client) -> Frame:
    note = {"op": "addComment", "comment": {"commentBoxID": "n", "comments": []}}
    return await client.ask("EditWorkflow", baseHeadId=client.head, edits=[note])


COMMANDS = [prompt, revert, redo, checkout, edit]
SOME = [prompt, revert, edit]


async def prepared(client: Client) -> None:
    """A session in which every command of `COMMANDS` can be carried out."""
    await client.snapshot()
    await client.prompt(SCAN)
    await client.prompt("add a Filter on amount > 10")
    await client.ask("Revert", messageId=client.path[-1]["messageId"])


async def kill_backends(url: str, which: str = "true") -> int:
    """End the backends of this database, apart from the one that asks; how many."""
    connection = await asyncpg.connect(asyncpg_dsn(url))
    try:
        ended = await connection.fetch(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
            f"where datname = current_database() and pid <> pg_backend_pid() and {which}"
        )
        return len(ended)
    finally:
        await connection.close()


@pytest.mark.parametrize("command", SOME)
async def test_backends_killed_while_idle_are_not_noticed_by_the_next_command(
    server: Server, fresh_database: str, command: Command
) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await prepared(client)
        assert await kill_backends(fresh_database) >= 2
        assert (await command(client))["type"] == "WsServerAckEvent"
        await idle(client)
        await check_agreement(server, session, client, fresh_database)


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_backend_killed_in_mid_commit_leaves_everything_as_it_was(
    server: Server, fresh_database: str, command: Command
) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await prepared(client)
        before = last_seq(client)
        holder = await asyncpg.connect(asyncpg_dsn(fresh_database))
        async with holder.transaction():
            await holder.execute("select from sessions where id = $1::uuid for update", session)
            asking = asyncio.create_task(command(client))
            blocked = "wait_event_type = 'Lock' and query like 'with s%'"
            await eventually(lambda: kill_backends(fresh_database, blocked))
        await holder.close()
        refused = await asking
        assert (refused["type"], refused["code"]) == ("WsServerErrorEvent", "database_unavailable")
        assert refused["data"]["in_doubt"] is False
        await idle(client)
        assert last_seq(client) == before
        assert [f["state"] for f in client.frames if "state" in f][-2] == "UNAVAILABLE"
        await check_agreement(server, session, client, fresh_database)
        assert (await command(client))["type"] == "WsServerAckEvent"
        await idle(client)
        await check_agreement(server, session, client, fresh_database)


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_commit_whose_answer_is_lost_is_acknowledged_and_told_once(
    fresh_database: str, tmp_path: Path, command: Command
) -> None:
    async with flaky(fresh_database, tmp_path) as wire, serving(wire.url, **UNHURRIED) as server:
        session = await server.session()
        async with server.connect(session) as client:
            await prepared(client)
            before = last_seq(client)
            wire.lose("answer")
            done = await command(client)
            assert (done["type"], wire.lost) == ("WsServerAckEvent", 1)
            assert done["eventSeq"] > before
            assert [f for f in client.frames if is_status("UNAVAILABLE")(f)]
            await idle(client)
            if command is prompt:
                assert client.path[-1]["endReason"] == "complete"
            await check_agreement(server, session, client, fresh_database)


@pytest.mark.parametrize("command", SOME)
async def test_a_commit_that_is_lost_before_it_arrives_is_refused(
    fresh_database: str, tmp_path: Path, command: Command
) -> None:
    async with flaky(fresh_database, tmp_path) as wire, serving(wire.url, **UNHURRIED) as server:
        session = await server.session()
        async with server.connect(session) as client:
            await prepared(client)
            before = last_seq(client)
            wire.lose("request")
            refused = await command(client)
            assert (refused["code"], wire.lost) == ("database_unavailable", 1)
            assert refused["data"]["in_doubt"] is False
            await idle(client)
            assert last_seq(client) == before
            assert (await command(client))["type"] == "WsServerAckEvent"
            await idle(client)
            await check_agreement(server, session, client, fresh_database)


async def test_a_rename_a_stop_and_a_delete_whose_answers_are_lost_are_done(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    provider.will([text("on and on"), Pause()])
    async with (
        flaky(fresh_database, tmp_path) as wire,
        serving(wire.url, **UNHURRIED, **provider.settings) as server,
    ):
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            wire.lose("answer")
            answer = await server.http.patch(f"/sessions/{session}", json={"name": "Renamed"})
            assert (answer.status_code, answer.json()["name"]) == (200, "Renamed")
            await client.send("Prompt", content="talk")
            await client.wait(lambda f: f["type"] == "WsServerDeltaEvent")
            wire.lose("answer")
            assert (await client.ask("Stop"))["type"] == "WsServerAckEvent"
            await idle(client)
            assert client.path[-1]["endReason"] == "stopped"
            await check_agreement(server, session, client, fresh_database)
            wire.lose("answer")
            assert (await server.http.delete(f"/sessions/{session}")).status_code == 204
            assert await client.until_closed() == 4410
        assert wire.lost == 3
        assert (await server.http.get(f"/sessions/{session}")).status_code == 404


async def test_a_session_whose_creation_is_not_answered_says_that_it_is_in_doubt(
    fresh_database: str, tmp_path: Path
) -> None:
    async with flaky(fresh_database, tmp_path) as wire, serving(wire.url, **UNHURRIED) as server:
        wire.lose("answer")
        answer = await server.http.post("/sessions", json={"name": "Here all the same"})
        assert (answer.status_code, answer.json()["code"]) == (503, "database_unavailable")
        assert answer.json()["data"]["in_doubt"] is True
        listed = (await server.http.get("/sessions")).json()["sessions"]
        assert [s["name"] for s in listed] == ["Here all the same"]


@pytest.mark.parametrize("loss", ["request", "answer"])
@pytest.mark.parametrize("at", range(1, 5))
@pytest.mark.case(29)
async def test_a_run_goes_on_over_a_lost_connection_and_each_step_is_told_once(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, loss: Any, at: int
) -> None:
    """`at`: which commit of the run is lost: the prompt, a step, a step, the last step."""
    hold = [asyncio.Event() for _ in range(3)]
    add = {"operatorType": "CSVFileScan", "properties": {}, "summary": "scan"}
    provider.will(
        [text("one"), Pause(hold[0]), call("addOperator", {"operatorId": "op1", **add})],
        [text("two"), Pause(hold[1]), call("addOperator", {"operatorId": "op2", **add})],
        [text("three"), Pause(hold[2])],
    )
    async with (
        flaky(fresh_database, tmp_path) as wire,
        serving(wire.url, **UNHURRIED, **provider.settings) as server,
    ):
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            if at == 1:
                wire.lose(loss)
            answer = await client.ask("Prompt", content="work")
            if (at, loss) == (1, "request"):
                assert answer["code"] == "database_unavailable"
                await idle(client)
                await client.ask("Prompt", content="work")
            for n, event in enumerate(hold, 2):
                await client.wait(lambda f, n=n: f.get("text") == ("one", "two", "three")[n - 2])
                if at == n:
                    wire.lose(loss)
                event.set()
            await client.wait(lambda f: is_step(f) and f["step"]["endReason"] is not None)
            await idle(client)
            assert wire.lost == 1
            assert [s["content"] for s in client.path] == ["work", "one", "two", "three"]
            assert client.path[-1]["endReason"] == "complete"
            await client.ask("Revert", messageId=client.path[0]["messageId"])
            await client.ask("Redo")
            await check_agreement(server, session, client, fresh_database)


async def test_backends_killed_again_and_again_during_a_run_do_not_end_it(
    fresh_database: str,
) -> None:
    async with serving(fresh_database, offline_delay_ms=5) as server:
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            await client.send("Prompt", content="build a sales report")
            await client.wait(is_status("GENERATING"))
            killed = 0
            while not any(is_step(f) and f["step"]["endReason"] for f in client.frames):
                killed += await kill_backends(fresh_database)
                await asyncio.sleep(0.1)
            await idle(client)
            assert killed > 2
            assert client.path[-1]["endReason"] in ("complete", "interrupted")
            await client.ask("Revert", messageId=client.path[0]["messageId"])
            await client.ask("Redo")
            await check_agreement(server, session, client, fresh_database)


async def test_a_database_that_falls_silent_is_unavailable_within_a_bound(
    fresh_database: str, tmp_path: Path
) -> None:
    quick = {"db_statement_timeout": 1.0, "db_connect_timeout": 1.0}
    async with flaky(fresh_database, tmp_path) as wire, serving(wire.url, **quick) as server:
        session = await server.session()
        async with server.connect(session) as client:
            await prepared(client)
            wire.fall_silent()
            await client.wait(is_status("UNAVAILABLE"))
            wire.speak()
            await idle(client)
            await redo(client)
            await check_agreement(server, session, client, fresh_database)
            assert is_head(client.durable[-1])
            assert state(client) == "AVAILABLE"


@pytest.mark.parametrize("command", SOME)
async def test_a_commit_that_goes_on_behind_a_cut_connection_is_waited_for(
    fresh_database: str, tmp_path: Path, command: Command
) -> None:
    async with flaky(fresh_database, tmp_path) as wire, serving(wire.url, **UNHURRIED) as server:
        session = await server.session()
        async with server.connect(session) as client, row_of(fresh_database, session) as row:
            await prepared(client)
            await row.hold()
            asking = asyncio.create_task(command(client))
            await row.waiting()
            wire.cut()
            await client.wait(is_status("UNAVAILABLE"))
            await asyncio.sleep(0.3)
            assert not asking.done()
            await row.let_go()
            assert (await asking)["type"] == "WsServerAckEvent"
            await idle(client)
            await check_agreement(server, session, client, fresh_database)
