"""Two processes on one database: their sockets are in step, by wake-ups, and without them too."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from agreement import check_agreement, idle, last_seq, state
from flaky import flaky
from processes import eventually, process
from scripted_provider import Pause, ScriptedProvider, call, text
from serving import Server, serving
from whole import check_whole, told_once
from wire import Client, Frame, is_head, is_status

from turnback.core.principal import LOCAL
from turnback.store.url import asyncpg_dsn

NEVER = 600.0
"""An interval of polls that no test lives to see: what arrives came by a wake-up."""

ADD_SCAN = "add a CSVFileScan"


def streaming(frame: Frame) -> bool:
    return bool(frame["type"] == "WsServerDeltaEvent")


async def kill_backends(url: str, application: str) -> int:
    """End the connections of this name; how many there were."""
    connection = await asyncpg.connect(asyncpg_dsn(url))
    ended = await connection.fetch(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
        "where datname = current_database() and application_name = $1",
        application,
    )
    await connection.close()
    return len(ended)


@asynccontextmanager
async def pair(url: str, **settings: Any) -> AsyncIterator[tuple[Server, Server, str]]:
    """Two servers that have heard of each other, and a session."""
    async with serving(url, **settings) as first, serving(url, **settings) as second:

        async def listening() -> bool:
            connection = await asyncpg.connect(asyncpg_dsn(url))
            count = await connection.fetchval(
                "select count(*) from pg_stat_activity where datname = current_database() "
                "and application_name = 'turnback wakeups' and query ~* '^(listen|select pg_n)'"
            )
            await connection.close()
            return bool(count == 2)

        await eventually(listening)
        yield first, second, await first.session()


@asynccontextmanager
async def sockets(*servers: Server, session: str) -> AsyncIterator[list[Client]]:
    """A client of the session on each server, with its snapshot."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(s.connect(session)) for s in servers]
        for client in clients:
            await client.snapshot()
        yield clients


async def begin(one: Client, two: Client) -> None:
    """A run that streams on the process of `one` and is known on that of `two`."""
    await one.send("Prompt", content="work")
    await one.wait(streaming)
    await two.wait(is_status("GENERATING"))


async def level(*clients: Client) -> None:
    """Wait until all have been told as much; then it was the same, each once."""
    await eventually(lambda: len({last_seq(client) for client in clients}) == 1)
    for client in clients:
        assert client.durable == clients[0].durable
        told_once(client.durable)


async def test_what_is_done_on_either_is_told_on_both_by_wake_ups_alone(
    fresh_database: str,
) -> None:
    async with (
        pair(fresh_database, poll_interval=NEVER) as (first, second, session),
        sockets(first, second, session=session) as (one, two),
    ):
        await one.prompt(ADD_SCAN)
        await level(one, two)
        await two.prompt("add a Filter on amount > 10")
        await level(one, two)
        edit = {"op": "moveOperator", "operatorID": "op1", "position": {"x": 9, "y": 9}}
        assert (await one.ask("EditWorkflow", baseHeadId=one.head, edits=[edit])).get("eventSeq")
        await level(one, two)
        turn = next(s["messageId"] for s in reversed(two.path) if s["role"] == "user")
        assert (await two.ask("Revert", messageId=turn))["type"] == "WsServerAckEvent"
        assert (await one.ask("Redo"))["type"] in ("WsServerAckEvent", "WsServerErrorEvent")
        await second.http.patch(f"/sessions/{session}", json={"name": "Renamed"})
        await one.wait(lambda f: f["type"] == "WsServerSessionEvent")
        await level(one, two)
        await check_agreement(first, session, one, fresh_database)
        assert (await first.http.delete(f"/sessions/{session}")).status_code == 204
        assert (await one.until_closed(), await two.until_closed()) == (4410, 4410)


async def test_a_stop_on_the_other_process_reaches_the_run_by_a_wake_up(
    fresh_database: str, provider: ScriptedProvider
) -> None:
    provider.will([text("half"), Pause()])
    async with (
        pair(fresh_database, poll_interval=NEVER, **provider.settings) as (first, second, session),
        sockets(first, second, session=session) as (one, two),
    ):
        await begin(one, two)
        assert (await two.ask("Stop"))["type"] == "WsServerAckEvent"
        await idle(one)
        assert [s["content"] for s in one.path] == ["work", "half", "Stopped."]
        await level(one, two)


@pytest.mark.case(30)
async def test_a_delete_on_the_other_process_ends_the_run_and_every_socket_is_told(
    fresh_database: str, provider: ScriptedProvider
) -> None:
    provider.will([text("half"), Pause()])
    async with (
        pair(fresh_database, poll_interval=NEVER, **provider.settings) as (first, second, session),
        sockets(first, second, session=session) as (one, two),
    ):
        await begin(one, two)
        assert (await second.http.delete(f"/sessions/{session}")).status_code == 204
        assert (await one.until_closed(), await two.until_closed()) == (4410, 4410)
        assert [s["content"] for s in one.path] == ["work", "half", "Stopped."]
        assert (await first.http.get(f"/sessions/{session}")).status_code == 404
        await check_whole(fresh_database)


async def test_a_step_that_streams_is_seen_on_the_other_process_when_it_is_finished(
    fresh_database: str, provider: ScriptedProvider
) -> None:
    hold = [asyncio.Event(), asyncio.Event()]
    add = {"operatorId": "op1", "operatorType": "CSVFileScan", "properties": {}, "summary": "s"}
    provider.will(
        [text("first half"), Pause(hold[0]), call("addOperator", add)],
        [text("second"), Pause(hold[1])],
    )
    async with (
        pair(fresh_database, poll_interval=NEVER, **provider.settings) as (first, second, session),
        sockets(first, second, session=session) as (one, two),
    ):
        await begin(one, two)
        async with first.connect(session) as here, second.connect(session) as there:
            assert (await here.snapshot())["partial"]["text"] == "first half"
            assert (await there.snapshot())["partial"] is None  # it is not known there
            assert there.frames[0]["state"] == "GENERATING"
        hold[0].set()
        step = await two.wait(lambda f: f.get("step", {}).get("content") == "first half")
        assert step["step"]["toolCalls"]
        assert not [f for f in two.frames if f["type"] == "WsServerStepEvent" and f["step"]["isEnd"]
                    and f["step"]["role"] == "agent"]  # fmt: skip
        hold[1].set()
        await idle(two)
        await level(one, two)
        assert not [f for f in two.frames if streaming(f)]


async def test_ones_own_commits_are_not_read_again(
    fresh_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        pair(fresh_database) as (first, second, session),
        sockets(first, second, session=session) as (one, two),
    ):
        await one.prompt(ADD_SCAN)
        await level(one, two)
        actor = await first.app.state.sessions.get(LOCAL, session)
        readings: list[Any] = []
        read = actor.memory.read
        monkeypatch.setattr(actor.memory, "read", lambda: readings.append(1) or read())
        await one.prompt("add a Filter on amount > 10")
        await level(one, two)
        await asyncio.sleep(3 * first.settings.poll_interval)
        assert (readings, actor.durable.settled) == ([], True)
        await two.prompt("delete op1")
        await level(one, two)
        assert readings  # it does see what the other one writes


async def test_what_was_read_bit_by_bit_is_what_a_whole_reading_has(fresh_database: str) -> None:
    async with (
        pair(fresh_database) as (first, second, session),
        sockets(first, second, session=session) as (one, two),
    ):
        actor = await second.app.state.sessions.get(LOCAL, session)
        for client in (one, one, two, one):
            await client.prompt(ADD_SCAN)
            await level(one, two)
            await one.ask("Revert", messageId=one.path[-1]["messageId"])
            await level(one, two)
        await one.ask("Redo")
        await one.ask("Checkout", stepId=min(one.steps))
        await first.http.patch(f"/sessions/{session}", json={"name": "Renamed"})
        await level(one, two)
        bit_by_bit = deepcopy(actor.memory.tree)
        actor.memory.distrust()
        actor.memory.doubt()
        await actor.refresh()
        assert actor.memory.tree == bit_by_bit
        assert len(bit_by_bit.branches) > 2
        assert actor.memory.row.name == "Renamed"


async def test_lost_wake_ups_are_healed_by_the_poll(fresh_database: str, tmp_path: Path) -> None:
    async with (
        flaky(fresh_database, tmp_path) as wire,
        serving(wire.url) as first,
        serving(wire.url) as second,
    ):
        session = await first.session()
        async with sockets(first, second, session=session) as (one, two):
            wire.hush("turnback wakeups")
            for client in (one, two, one):
                await client.prompt(ADD_SCAN)
                await level(one, two)
            wire.speak()
            await check_agreement(second, session, two, fresh_database)


@pytest.mark.parametrize(("limit", "told"), [({}, True), ({"ws_queue": 10}, False),
                                             ({"ws_queue_size": 2_000}, False)])  # fmt: skip
async def test_whoever_has_missed_more_than_may_wait_for_it_is_sent_away_to_a_snapshot(
    fresh_database: str, tmp_path: Path, limit: dict[str, Any], told: bool
) -> None:
    async with unheard(fresh_database, tmp_path, **limit) as (first, second):
        session = await first.session()
        async with first.connect(session) as one, second.connect(session) as two:
            await one.snapshot()
            await two.snapshot()
            for _ in range(4):
                await one.prompt(ADD_SCAN)
            stop = {"type": "WsClientStopCommand"}
            answer = await second.http.post(f"/sessions/{session}/commands", json=stop)
            assert answer.status_code == 202
            if told:
                await level(one, two)
                return
            assert await two.until_closed() == 1013
            assert two.durable == []
            async with second.connect(session) as back:
                assert (await back.snapshot())["eventSeq"] == last_seq(one)


@asynccontextmanager
async def unheard(url: str, folder: Path, **settings: Any) -> AsyncIterator[tuple[Server, Server]]:
    """Two servers of which neither is told what the other one does, nor looks for it."""
    async with (
        flaky(url, folder) as wire,
        pair(wire.url, poll_interval=NEVER, **settings) as (first, second, _),
    ):
        wire.hush("turnback wakeups")
        yield first, second
        wire.speak()


async def test_whoever_is_asked_knows_what_was_done_on_the_other_process(
    fresh_database: str, tmp_path: Path
) -> None:
    async with unheard(fresh_database, tmp_path) as (first, second):
        session = await first.session()
        async with sockets(first, second, session=session) as (one, two):
            await one.prompt(ADD_SCAN)
            turn = one.path[0]["messageId"]
            reverted = await two.ask("Revert", messageId=turn)
            assert (reverted["type"], reverted["headId"]) == ("WsServerAckEvent", "step-initial")
            assert (await one.ask("Redo"))["type"] == "WsServerAckEvent"
            checked = await two.ask("Checkout", stepId=one.path[-1]["id"])
            assert checked["headId"] == one.head
            edit = {"op": "moveOperator", "operatorID": "op1", "position": {"x": 9, "y": 9}}
            edited = await two.ask("EditWorkflow", baseHeadId=one.head, edits=[edit])
            assert edited["type"] == "WsServerAckEvent"
            saved = await first.http.get(f"/sessions/{session}/workflow")
            assert saved.json()["operatorPositions"]["op1"] == {"x": 9, "y": 9}
            put = await second.http.put(
                f"/sessions/{session}/workflow",
                json=saved.json() | {"settings": {"k": 1}},
                headers={"If-Match": saved.headers["etag"]},
            )
            assert put.status_code == 200
            preview = await first.http.get(
                f"/sessions/{session}/revert-preview", params={"turn_id": two.path[-1]["messageId"]}
            )
            assert preview.status_code == 200
            # The same command once more, there: it is answered for the turn that was begun here.
            prompt = {"type": "WsClientPromptCommand", "content": ADD_SCAN, "requestId": "again"}
            path = f"/sessions/{session}/commands?wait=end"
            here = await first.http.post(path, json=prompt)
            there = await second.http.post(path, json=prompt)
            assert (here.status_code, there.status_code) == (200, 200)
            assert here.json() == there.json()


async def test_a_stop_is_no_idle_one_where_nothing_was_heard_of_the_run(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    provider.will([text("half"), Pause()])
    async with unheard(fresh_database, tmp_path, **provider.settings) as (first, second):
        session = await first.session()
        async with sockets(first, second, session=session) as (one, two):
            await one.send("Prompt", content="work")
            await one.wait(streaming)
            assert (await two.ask("Stop"))["type"] == "WsServerAckEvent"
            assert state(two) == "STOPPING"


async def test_a_client_that_goes_to_the_other_process_is_not_taken_back_in_time(
    fresh_database: str, tmp_path: Path
) -> None:
    async with unheard(fresh_database, tmp_path) as (first, second):
        session = await first.session()
        async with sockets(first, second, session=session) as (one, _):
            epoch = one.frames[0]["streamEpoch"]
            await one.prompt(ADD_SCAN)
            since = last_seq(one)
            async with second.connect(session) as new:
                assert (await new.snapshot())["eventSeq"] == since
            await one.prompt(ADD_SCAN)
            query = f"?since={since}&epoch={epoch}"
            async with second.connect(session, query=query) as back:
                await back.wait(lambda f: f.get("eventSeq") == last_seq(one))
                assert back.durable == one.durable[-len(back.durable) :]
                assert back.frames == back.durable


async def test_a_lost_listener_is_made_again_and_what_it_missed_is_read(
    fresh_database: str,
) -> None:
    async with (
        pair(fresh_database, poll_interval=NEVER) as (first, second, session),
        sockets(first, second, session=session) as (one, two),
    ):
        for n in range(3):
            assert await kill_backends(fresh_database, "turnback wakeups") == 2
            await one.prompt(f"add a Limit {n}")
            await level(one, two)

            async def both() -> bool:
                connection = await asyncpg.connect(asyncpg_dsn(fresh_database))
                count = await connection.fetchval(
                    "select count(*) from pg_stat_activity where datname = current_database() "
                    "and application_name = 'turnback wakeups'"
                )
                await connection.close()
                return bool(count == 2)

            await eventually(both)


async def test_a_run_goes_on_when_only_its_processs_lock_is_cut(
    fresh_database: str, provider: ScriptedProvider
) -> None:
    hold = asyncio.Event()
    provider.will([text("half, "), Pause(hold), text("whole")])
    poll = {"poll_interval": 0.02, "lease_heartbeat": 5.0, "lease_expiry": 30.0}
    async with (
        pair(fresh_database, **poll, **provider.settings) as (first, second, session),
        sockets(first, second, session=session) as (one, two),
    ):
        await begin(one, two)
        for _ in range(4):
            assert await kill_backends(fresh_database, "turnback node") > 0
            await asyncio.sleep(0.3)
        hold.set()
        await idle(two)
        assert [s["content"] for s in two.path] == ["work", "half, whole"]
        await level(one, two)


@pytest.mark.kill
async def test_a_killed_process_that_carried_no_run_harms_none(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    hold = asyncio.Event()
    provider.will([text("half, "), Pause(hold), text("whole")])
    async with (
        serving(fresh_database, **provider.settings) as first,
        process(tmp_path, fresh_database, **provider.settings) as second,
    ):
        session = await first.session()
        async with first.connect(session) as one:
            await one.snapshot()
            async with second.connect(session) as two:
                epoch = (await two.snapshot())["streamEpoch"]
                await begin(one, two)
                second.kill()
                await second.end()
            query = f"?since={last_seq(two)}&epoch={epoch}"
            async with first.connect(session, query=query) as back:
                hold.set()
                await idle(one)
                assert [s["content"] for s in one.path] == ["work", "half, whole"]
                await back.wait(lambda f: f.get("eventSeq") == last_seq(one))
                assert two.durable + back.durable == one.durable


@pytest.mark.kill
async def test_whoever_waits_for_a_run_is_answered_when_its_process_drains_and_the_other_goes_on(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    provider.will([text("half"), Pause()], [text("again")])
    async with (
        process(tmp_path, fresh_database, drain_timeout=0.5, **provider.settings) as first,
        serving(fresh_database, poll_interval=NEVER, **provider.settings) as second,
    ):
        session = await first.session()
        async with first.connect(session) as one, second.connect(session) as two:
            await one.snapshot()
            await two.snapshot()
            prompt = {"type": "WsClientPromptCommand", "content": "work", "requestId": "r"}
            path = f"/sessions/{session}/commands?wait=end"
            waiting = [asyncio.create_task(first.http.post(path, json=prompt))]
            await one.wait(streaming)
            waiting.append(asyncio.create_task(second.http.post(path, json=prompt)))
            busy = [await on.ask("Prompt", content="too") for on in (one, two)]
            assert [answer["code"] for answer in busy] == ["busy", "busy"]
            first.send(signal.SIGTERM)
            here, there = [await answer for answer in waiting]
            assert (here.status_code, there.status_code) == (200, 200)
            assert here.json() == there.json()
            assert here.json()["events"][-2]["step"]["endReason"] == "interrupted"
            assert await one.until_closed() == 1012
            assert await first.end() == 0
            await two.prompt("go on")
            assert [s["content"] for s in two.path][-2:] == ["go on", "again"]
            assert two.durable[: len(one.durable)] == one.durable
            told_once(two.durable)
            await check_agreement(second, session, two, fresh_database)


@pytest.mark.case(23)
async def test_a_revert_and_a_prompt_on_two_processes_equal_a_serial_order(
    fresh_database: str,
) -> None:
    async with (
        pair(fresh_database) as (first, second, session),
        sockets(first, second, session=session) as (one, two),
    ):
        await one.prompt(ADD_SCAN)
        await level(one, two)
        for n in range(15):
            turn = next(s["messageId"] for s in reversed(one.path) if s["role"] == "user")
            here, there = (one, two) if n % 2 else (two, one)
            reverted, prompted = await asyncio.gather(
                here.ask("Revert", messageId=turn), there.ask("Prompt", content=f"add a Limit {n}")
            )
            assert prompted["type"] == "WsServerAckEvent", prompted
            began = prompted["eventSeq"]
            for client in (one, two):
                await client.wait(
                    lambda f, began=began: is_status("AVAILABLE")(f) and f["eventSeq"] > began
                )
            await level(one, two)
            turns = [s["messageId"] for s in one.path if s["role"] == "user"]
            new = prompted["messageId"]
            if reverted["type"] == "WsServerErrorEvent":
                assert (reverted["code"], turns[-2:]) == ("busy", [turn, new])
            elif reverted["eventSeq"] < began:
                assert (turn in turns, turns[-1]) == (False, new)
            else:  # the run was over by then, and its turn was taken back with the other
                assert not {turn, new} & set(turns)
                await one.prompt(ADD_SCAN)
                await level(one, two)
            assert one.path == two.path
        assert [f for f in one.frames if is_head(f)]  # some reverts came first
        await check_agreement(second, session, two, fresh_database)


async def test_edits_from_both_at_once_are_one_line_of_turns(fresh_database: str) -> None:
    async with (
        pair(fresh_database) as (first, second, session),
        sockets(first, second, session=session) as (one, two),
    ):
        await one.prompt(ADD_SCAN)
        await level(one, two)
        head = one.head
        edits = [
            client.ask(
                "EditWorkflow",
                baseHeadId=head,
                edits=[{"op": "addComment", "comment": {"commentBoxID": f"{name}{n}"}}],
            )
            for n in range(10)
            for name, client in (("one", one), ("two", two))
        ]
        answers = await asyncio.gather(*edits)
        assert {a["type"] for a in answers} <= {"WsServerAckEvent", "WsServerErrorEvent"}
        assert {a["code"] for a in answers if "code" in a} <= {"contended"}  # overtaken thrice
        done = [a for a in answers if "code" not in a]
        assert len(done) > 5
        await level(one, two)
        made = [s for s in one.path if s["kind"] == "edit"]
        assert len(made) == len(done)
        workflow = (await second.http.get(f"/sessions/{session}/workflow")).json()
        assert len(workflow["commentBoxes"]) == len(done)
