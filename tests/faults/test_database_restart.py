"""The database stopped and started again, with sockets open and a run under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from agreement import check_agreement, idle
from restarting import Postgres, restartable
from scripted_provider import Pause, ScriptedProvider, text
from serving import Server, serving
from wire import Client, Frame, is_status

UNAVAILABLE = is_status("UNAVAILABLE")


@pytest.fixture(scope="module")
async def postgres(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Postgres]:
    async with restartable(tmp_path_factory.mktemp("restarted")) as server:
        yield server


async def moved(client: Client, server: Server) -> None:
    """One step back and one forth: whatever works, works."""
    await client.ask("Revert", messageId=client.path[-1]["messageId"])
    await client.ask("Redo")
    assert (await server.http.get("/readyz")).status_code == 200


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_restart_while_idle_is_told_and_over_when_the_database_is_back(
    postgres: Postgres, mode: str
) -> None:
    async with serving(postgres.url) as server:
        session = await server.session()
        async with server.connect(session) as client, server.connect(session, v1=False) as base:
            await client.snapshot()
            await client.prompt("add a CSVFileScan")
            await postgres.stop(mode)
            for told in (await client.wait(UNAVAILABLE), await base.wait(UNAVAILABLE)):
                assert "eventSeq" not in told
            await refused_by(server, session, client)
            await postgres.start()
            await idle(client)
            await idle(base)
            assert len([f for f in client.frames if UNAVAILABLE(f)]) == 1
            await moved(client, server)
            await check_agreement(server, session, client, postgres.url)


async def refused_by(server: Server, session: str, client: Client) -> None:
    """What cannot be done without the database says so, by its code, and the socket lives on."""
    answers: list[Frame] = [
        await client.ask("Prompt", content="add a TextInput"),
        await client.ask("Revert", messageId=client.path[-1]["messageId"]),
    ]
    assert [answer["code"] for answer in answers] == ["database_unavailable"] * 2
    for path in (f"/sessions/{session}", "/sessions", f"/sessions/{session}/workflow", "/readyz"):
        answer = await server.http.get(path)
        assert (answer.status_code, answer.json()["code"]) == (503, "database_unavailable")
    assert (await server.http.post("/sessions", json={})).status_code == 503
    assert (await server.http.get("/healthz")).status_code == 200
    async with server.connect(session) as another:
        frame = await another.next()
        assert (frame["type"], frame["code"]) == ("WsServerErrorEvent", "database_unavailable")
        assert await another.until_closed() == 1013


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_run_outlives_a_short_restart(
    postgres: Postgres, provider: ScriptedProvider, mode: str
) -> None:
    hold = asyncio.Event()
    provider.will([text("before, "), Pause(hold), text("after")])
    async with serving(postgres.url, lease_expiry=20.0, **provider.settings) as server:
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            await client.send("Prompt", content="talk")
            await client.wait(lambda f: f["type"] == "WsServerDeltaEvent")
            await postgres.stop(mode)
            hold.set()
            await client.wait(UNAVAILABLE)
            await postgres.start()
            await idle(client, within=20)
            assert [s["content"] for s in client.path] == ["talk", "before, after"]
            await moved(client, server)
            await check_agreement(server, session, client, postgres.url)


async def test_a_run_whose_database_stays_away_ends_as_interrupted(
    postgres: Postgres, provider: ScriptedProvider
) -> None:
    hold = asyncio.Event()
    provider.will([text("before, "), Pause(hold), text("after")])
    async with serving(
        postgres.url, lease_expiry=0.5, lease_heartbeat=0.2, **provider.settings
    ) as server:
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            await client.send("Prompt", content="talk")
            await client.wait(lambda f: f["type"] == "WsServerDeltaEvent")
            run = await server.run(session)
            await postgres.stop("fast")
            hold.set()
            await client.wait(UNAVAILABLE)
            async with asyncio.timeout(15):
                await run.ended.wait()  # its last step has been given up
            await postgres.start()
            await idle(client)
            assert client.path[-1]["endReason"] == "interrupted"
            await moved(client, server)
            await check_agreement(server, session, client, postgres.url)
