"""SIGTERM and SIGINT with sockets open and runs under way: drained, told, exit code 0.

What the process does with its port, its data directory and its PostgreSQL is in `test_cli.py`.
"""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import httpx
import pytest
from agreement import idle, last_seq
from flaky import flaky
from held import row_of
from processes import command, eventually, process
from scripted_provider import HANG, Pause, ScriptedProvider, text
from serving import serving
from whole import check_whole

SIGNALS = [signal.SIGTERM, signal.SIGINT]


def streaming(frame: dict[str, object]) -> bool:
    return frame["type"] == "WsServerDeltaEvent"


@pytest.mark.case(35)
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("what", ["a stream", "silence"])
async def test_a_run_under_way_ends_as_interrupted_and_its_sockets_with_1012(
    fresh_database: str,
    tmp_path: Path,
    provider: ScriptedProvider,
    number: signal.Signals,
    what: str,
) -> None:
    provider.will([text("half"), Pause()] if what == "a stream" else HANG)
    model = provider.settings | {"drain_timeout": 0.5}
    async with process(tmp_path, fresh_database, **model) as server:
        session = await server.session()
        async with server.connect(session) as client, server.connect(session, v1=False) as base:
            await client.snapshot()
            await client.ask("Prompt", content="work")
            await eventually(lambda: provider.requests)
            if what == "a stream":
                await client.wait(streaming)
            server.send(number)
            assert [await client.until_closed(), await base.until_closed()] == [1012, 1012]
            assert await server.end() == 0
        told = ["work", "half"] if what == "a stream" else ["work"]
        assert [s["content"] for s in client.path[:-1]] == told
        assert client.path[-1]["endReason"] == "interrupted"
        assert [f["state"] for f in client.frames if "state" in f][-1] == "AVAILABLE"
        assert base.frames[-1] == {"type": "WsServerStatusEvent", "state": "AVAILABLE"}
    async with serving(fresh_database) as later:
        found = (await later.http.get(f"/sessions/{session}")).json()
        assert (found["state"], found["revision"]) == ("AVAILABLE", last_seq(client))
    await check_whole(fresh_database)


async def test_a_run_that_ends_in_time_is_let_end_and_no_other_begins(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    hold = asyncio.Event()
    provider.will([text("half, "), Pause(hold), text("whole")])
    model = provider.settings | {"drain_timeout": 20.0}
    async with process(tmp_path, fresh_database, **model) as server:
        session, other = await server.session(), await server.session()
        async with server.connect(session) as client, server.connect(other) as idler:
            await client.snapshot()
            await idler.snapshot()
            await client.send("Prompt", content="work")
            await client.wait(streaming)
            server.send(signal.SIGTERM)
            await eventually(lambda: refused(server.http))
            answer = await idler.ask("Prompt", content="too late")
            assert (answer["type"], answer["code"]) == ("WsServerErrorEvent", "draining")
            posted = await server.http.post(
                f"/sessions/{other}/commands",
                json={"type": "WsClientPromptCommand", "content": "too late"},
            )
            assert (posted.status_code, posted.json()["code"]) == (503, "draining")
            async with server.connect(other) as late:
                assert await late.until_closed() == 1012
            hold.set()
            assert [await client.until_closed(), await idler.until_closed()] == [1012, 1012]
            assert await server.end() == 0
        assert [s["content"] for s in client.path] == ["work", "half, whole"]
        assert client.path[-1]["endReason"] == "complete"
    await check_whole(fresh_database)


async def refused(http: httpx.AsyncClient) -> bool:
    answer = await http.get("/readyz")
    return answer.status_code == 503 and answer.json()["code"] == "draining"


@pytest.mark.parametrize("number", SIGNALS)
async def test_a_second_signal_does_not_wait_and_leaves_nothing_half(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, number: signal.Signals
) -> None:
    provider.will([text("half"), Pause()])
    model = provider.settings | {"drain_timeout": 60.0}
    async with process(tmp_path, fresh_database, **model) as server:
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            await client.send("Prompt", content="work")
            await client.wait(streaming)
            began = time.monotonic()
            server.send(signal.SIGTERM)
            await eventually(lambda: refused(server.http))
            server.send(number)
            assert await server.end() == 0
            assert time.monotonic() - began < 20
    async with serving(fresh_database) as later, later.connect(session) as client:
        await client.snapshot()
        await idle(client)
        assert client.path[-1]["endReason"] == "interrupted"
        await client.ask("Revert", messageId=client.path[0]["messageId"])
    await check_whole(fresh_database)


async def test_signals_in_mid_run_leave_neither_process_nor_postgresql(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    slow = {"TURNBACK_OFFLINE_DELAY_MS": "20000", "TURNBACK_DRAIN_TIMEOUT": "0.5"}
    async with command(data_dir, **slow) as server:
        session = await server.session()
        postmaster = int((data_dir / "postgres" / "postmaster.pid").read_text().split("\n")[0])
        async with server.connect(session) as client:
            await client.snapshot()
            await client.ask("Prompt", content="add a CSVFileScan")
            server.send(signal.SIGTERM)
            assert await client.until_closed() == 1012
        assert await server.end() == 0
        assert client.path[-1]["endReason"] == "interrupted"
    assert not (data_dir / "postgres" / "postmaster.pid").exists()
    await eventually(lambda: not Path(f"/proc/{postmaster}").exists())


async def test_a_prompt_that_is_being_saved_at_the_signal_is_not_left_running(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    provider.will([text("half"), Pause()])
    model = provider.settings | {"drain_timeout": 3.0}
    async with process(tmp_path, fresh_database, **model) as server:
        session = await server.session()
        async with server.connect(session) as client, row_of(fresh_database, session) as row:
            await client.snapshot()
            await row.hold()
            await client.send("Prompt", content="work")
            await row.waiting()
            server.send(signal.SIGTERM)
            await eventually(lambda: refused(server.http))
            await row.let_go()
            assert await client.until_closed() == 1012
            assert await server.end() == 0
        assert client.path[-1]["endReason"] == "interrupted"
    rows = await check_whole(fresh_database)
    assert [row["state"] for row in rows["sessions"]] == ["AVAILABLE"]


async def test_whoever_still_waits_for_the_database_at_the_end_is_told_that_it_is_the_end(
    fresh_database: str, tmp_path: Path
) -> None:
    async with (
        flaky(fresh_database, tmp_path) as wire,
        process(tmp_path, wire.url, drain_timeout=0.5) as server,  # which looks at what was logged
    ):
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            wire.fall_silent()
            renamed = server.http.patch(f"/sessions/{session}", json={"name": "too late"})
            waiting = asyncio.create_task(renamed)
            reading = asyncio.create_task(server.http.get(f"/sessions/{session}/workflow"))
            async with server.connect(session) as late:
                await asyncio.sleep(1)  # both are on their way to the database by then
                server.send(signal.SIGTERM)
                assert await client.until_closed() == 1012
                assert await late.until_closed() == 1012
                answer = await waiting
                assert (answer.status_code, answer.json()["code"]) == (503, "database_unavailable")
                assert answer.json()["data"]["in_doubt"] is True
                answer = await reading
                assert (answer.status_code, answer.json()["code"]) == (503, "draining")
                assert await server.end() == 0
