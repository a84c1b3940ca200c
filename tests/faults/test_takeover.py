"""Two servers over one database: who may end whose run, and who learns of it (lineage.md 3)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from agreement import check_agreement, idle, last_seq, state
from held import row_of
from processes import Process, eventually, process
from scripted_provider import Pause, ScriptedProvider, call, text
from serving import Server, serving
from whole import check_whole, told_once
from wire import Client, Frame, is_status

BOUND = 5.0
"""Seconds within which a dead holder's run is ended; polls of the tests come every 0.2 s."""


def streaming(frame: Frame) -> bool:
    return bool(frame["type"] == "WsServerDeltaEvent")


def interrupted(client: Client) -> bool:
    """Whether this client has been told that the turn was interrupted, and that it is over."""
    ends = [f["step"]["endReason"] for f in client.durable if "step" in f]
    return ends[-1:] == ["interrupted"] and state(client) == "AVAILABLE"


@asynccontextmanager
async def two(
    folder: Path, url: str, provider: ScriptedProvider, *, polls: float = 0.2, **settings: Any
) -> AsyncIterator[tuple[Process, Server]]:
    """A server to be killed or frozen, which polls every `polls` seconds, and one that goes on."""
    async with (
        process(folder, url, poll_interval=polls, **provider.settings, **settings) as first,
        serving(url, **provider.settings, **settings) as second,
    ):
        yield first, second


@pytest.mark.case(25, 35)
@pytest.mark.kill
@pytest.mark.parametrize("watched", [True, False])
async def test_a_killed_servers_run_is_taken_over_within_a_bound(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, watched: bool
) -> None:
    """`watched`: the other server has learnt of the run before."""
    provider.will([text("half"), Pause()])
    async with two(tmp_path, fresh_database, provider) as (first, second):
        session = await first.session()
        async with first.connect(session) as client:
            await client.snapshot()
            async with second.connect(session) as other:
                await other.snapshot()
                await client.send("Prompt", content="work")
                await client.wait(streaming)
                if watched:
                    await other.wait(is_status("GENERATING"))
                first.kill()
                await first.end()
                await eventually(lambda: interrupted(other), within=BOUND)
                assert other.durable[: len(client.durable)] == client.durable
                await other.ask("Revert", messageId=other.path[-1]["messageId"])
                await other.ask("Redo")
                await check_agreement(second, session, other, fresh_database)


@pytest.mark.kill
async def test_a_killed_servers_run_is_taken_over_with_nobody_looking(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    provider.will([text("half"), Pause()])
    async with two(tmp_path, fresh_database, provider) as (first, second):
        session = await first.session()
        async with first.connect(session) as client:
            await client.snapshot()
            await client.send("Prompt", content="work")
            await client.wait(streaming)
            first.kill()
            await first.end()

        async def over() -> bool:
            listed = (await second.http.get("/sessions")).json()["sessions"]
            return bool([s["state"] for s in listed] == ["AVAILABLE"])

        await eventually(over, within=BOUND)
        await check_whole(fresh_database)


@pytest.mark.case(27, 35)
@pytest.mark.kill
@pytest.mark.parametrize("goes_on", ["with a step", "with its end"])
async def test_a_frozen_servers_late_step_is_refused_and_its_clients_learn_of_the_interruption(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, goes_on: str
) -> None:
    hold = asyncio.Event()
    add = {"operatorId": "op1", "operatorType": "CSVFileScan", "properties": {}, "summary": "s"}
    late = [call("addOperator", add)] if goes_on == "with a step" else []
    provider.will([text("half"), Pause(hold), *late], [text("never to be seen")])
    short = {"lease_heartbeat": 0.2, "lease_expiry": 2.0}
    # It does not poll: nothing but the fence keeps its step out, and tells it why.
    async with two(tmp_path, fresh_database, provider, polls=60.0, **short) as (first, second):
        session = await first.session()
        async with first.connect(session) as client, second.connect(session) as other:
            await client.snapshot()
            await other.snapshot()
            await client.send("Prompt", content="work")
            await client.wait(streaming)
            await asyncio.sleep(2.5)  # it lives longer than a lease without a heartbeat
            assert not [f for f in other.durable if f.get("step", {}).get("endReason")]
            first.send(signal.SIGSTOP)
            await other.wait(is_status("AVAILABLE"))
            assert interrupted(other)
            hold.set()  # the model has ended; the frozen server does not know yet
            first.send(signal.SIGCONT)
            await idle(client)
            assert interrupted(client)
            await asyncio.sleep(0.5)
            assert client.durable == other.durable
            told_once(client.durable)
            assert "never to be seen" not in str(client.frames)
            await client.ask("Revert", messageId=client.path[0]["messageId"])
            await other.wait(lambda f: f["type"] == "WsServerHeadChangeEvent")
            await check_agreement(second, session, other, fresh_database)
            await check_agreement(first, session, client, fresh_database)


async def test_what_one_server_does_is_told_by_the_other(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    provider.will([text("one")], [text("two")])
    async with two(tmp_path, fresh_database, provider) as (first, second):
        session = await first.session()
        async with first.connect(session) as client, second.connect(session) as other:
            await client.snapshot()
            await other.snapshot()
            await client.prompt("to the first")
            await other.wait(is_status("AVAILABLE"))
            await other.prompt("to the second")
            await client.wait(lambda f: f.get("eventSeq") == last_seq(other))
            assert [s["content"] for s in client.path] == [
                "to the first", "one", "to the second", "two",
            ]  # fmt: skip
            assert client.durable == other.durable
            await second.http.patch(f"/sessions/{session}", json={"name": "Renamed"})
            await client.wait(lambda f: f["type"] == "WsServerSessionEvent")
            assert (await first.http.delete(f"/sessions/{session}")).status_code == 204
            assert await other.until_closed() == 4410


async def test_a_stop_reaches_the_run_of_another_server(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    provider.will([text("half"), Pause()])
    async with two(tmp_path, fresh_database, provider) as (first, second):
        session = await first.session()
        async with first.connect(session) as client, second.connect(session) as other:
            await client.snapshot()
            await other.snapshot()
            await client.send("Prompt", content="work")
            await client.wait(streaming)
            await other.wait(is_status("GENERATING"))
            assert (await other.ask("Stop"))["type"] == "WsServerAckEvent"
            await idle(client, within=BOUND)
            assert [s["content"] for s in client.path] == ["work", "half", "Stopped."]
            await other.wait(lambda f: f.get("eventSeq") == last_seq(client))
            await check_agreement(second, session, other, fresh_database)


@pytest.mark.case(26)
async def test_of_two_prompts_to_two_servers_one_runs_and_one_is_told_busy(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with two(tmp_path, fresh_database, provider) as (first, second):
        session = await first.session()
        async with first.connect(session) as client, second.connect(session) as other:
            await client.snapshot()
            await other.snapshot()
            for n in range(5):
                provider.will([text(f"answer {n}"), Pause(hold := asyncio.Event())])
                answers = await asyncio.gather(
                    client.ask("Prompt", content=f"first {n}"),
                    other.ask("Prompt", content=f"second {n}"),
                )
                assert sorted("code" in answer for answer in answers) == [False, True]
                assert {a["code"] for a in answers if "code" in a} == {"busy"}
                hold.set()
                done = lambda f: f.get("step", {}).get("content") == f"answer {n}"  # noqa: B023, E731
                await client.wait(done)
                await other.wait(done)
                await idle(client)
                await idle(other)
            assert client.durable == other.durable
            await check_agreement(second, session, other, fresh_database)
            assert len([s for s in client.path if s["role"] == "user"]) == 5


async def test_a_busy_pool_does_not_look_like_a_dead_server(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    hold = asyncio.Event()
    provider.will([text("half, "), Pause(hold), text("whole")])
    short = {"lease_heartbeat": 0.2, "lease_expiry": 2.0, "db_pool_size": 2}
    async with two(tmp_path, fresh_database, provider, polls=60.0, **short) as (first, second):
        session, *others = [await first.session() for _ in range(3)]
        async with first.connect(session) as client, AsyncExitStack() as stack:
            await client.snapshot()
            await client.send("Prompt", content="work")
            await client.wait(streaming)
            rows = [await stack.enter_async_context(row_of(fresh_database, s)) for s in others]
            renames = []
            for row, other in zip(rows, others, strict=True):
                await row.hold()
                rename = first.http.patch(f"/sessions/{other}", json={"name": "held up"})
                renames.append(asyncio.create_task(rename))
            await rows[0].waiting(2)
            await asyncio.sleep(3)  # longer than a lease without a heartbeat
            for row in rows:
                await row.let_go()
            assert [(await rename).status_code for rename in renames] == [200, 200]
            hold.set()
            await idle(client)
            assert [s["content"] for s in client.path] == ["work", "half, whole"]
            await check_agreement(second, session, client, fresh_database)
