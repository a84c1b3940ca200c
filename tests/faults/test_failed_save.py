"""A save that fails leaves HEAD, workflow, redo stack, memory and database as they were (law 5).

A trigger of the test's own raises inside the commit, as a full disk does, or a fault of ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from agreement import check_agreement, idle, last_seq
from scripted_provider import Pause, ScriptedProvider, call, text
from serving import Server, serving
from whole import rows_of
from wire import Client, Frame, is_step

from turnback.store.url import asyncpg_dsn

DISK_FULL = "53100"
TIMED_OUT = "57014"
SERIALIZATION = "40001"
FAULT = "XX000"

CODES = {
    DISK_FULL: "database_unavailable",
    TIMED_OUT: "database_unavailable",
    SERIALIZATION: "database_unavailable",
    FAULT: "internal",
}
LEASES = ("run_leases",)  # heartbeats


@asynccontextmanager
async def failing(url: str, sqlstate: str, table: str) -> AsyncIterator[None]:
    """While inside, whatever writes to `table` fails, at its very end: deferred to the commit."""
    connection = await asyncpg.connect(asyncpg_dsn(url))
    try:
        await connection.execute(
            f"""
            create or replace function fail() returns trigger language plpgsql as
            $$ begin raise exception using errcode = '{sqlstate}', message = 'a test'; end $$;
            create constraint trigger failing after insert or update on {table}
                deferrable initially deferred for each row execute function fail();
            """
        )
        yield
        await connection.execute(f"drop trigger failing on {table}")
    finally:
        await connection.close()


Command = Callable[[Server, str, Client], Awaitable[Frame]]


async def prompt(server: Server, session: str, client: Client) -> Frame:
    return await client.ask("Prompt", content="add a TextInput")


async def revert(server: Server, session: str, client: Client) -> Frame:
    return await client.ask("Revert", messageId=client.path[-1]["messageId"])


async def keep(server: Server, session: str, client: Client) -> Frame:
    turn = client.path[0]["messageId"]
    return await client.ask("Revert", messageId=turn, keepEdits=True)


async def redo(server: Server, session: str, client: Client) -> Frame:
    return await client.ask("Redo")


async def checkout(server: Server, session: str, client: Client) -> Frame:
    return await client.ask("Checkout", stepId="step-initial")


async def edit(server: Server, session: str, client: Client) -> Frame:
    return await note(client, "n")


async def note(client: Client, name: str) -> Frame:
    """A comment, by hand."""
    added = {"op": "addComment", "comment": {"commentBoxID": name, "comments": []}}
    return await client.ask("EditWorkflow", baseHeadId=client.head, edits=[added])


async def rename(server: Server, session: str, client: Client) -> Frame:
    return refusal(await server.http.patch(f"/sessions/{session}", json={"name": "Other"}))


async def put(server: Server, session: str, client: Client) -> Frame:
    read = await server.http.get(f"/sessions/{session}/workflow")
    document = read.json() | {"mine": 1}
    match = {"if-match": read.headers["etag"]}
    return refusal(
        await server.http.put(f"/sessions/{session}/workflow", json=document, headers=match)
    )


async def delete(server: Server, session: str, client: Client) -> Frame:
    return refusal(await server.http.delete(f"/sessions/{session}"))


def refusal(answer: Any) -> Frame:
    return answer.json() if answer.content else {}


COMMANDS = [prompt, revert, keep, redo, checkout, edit, rename, put, delete]


@pytest.mark.case(1)
@pytest.mark.parametrize(
    ("command", "sqlstate"),
    [(command, DISK_FULL) for command in COMMANDS]
    + [(command, FAULT) for command in (prompt, revert, delete)]
    + [(revert, TIMED_OUT), (revert, SERIALIZATION)],
)
async def test_a_failed_save_changes_nothing_and_is_told_to_the_sender_alone(
    server: Server, fresh_database: str, command: Command, sqlstate: str
) -> None:
    session = await server.session()
    async with server.connect(session) as client, server.connect(session) as other:
        await client.snapshot()
        await other.snapshot()
        await client.prompt("add a CSVFileScan")
        await note(client, "m")
        await client.prompt("add a Filter on amount > 10")
        await client.ask("Revert", messageId=client.path[-1]["messageId"])
        before = await rows_of(fresh_database)
        seq, path = last_seq(client), client.path
        for table in ("sessions", "session_events"):
            async with failing(fresh_database, sqlstate, table):
                refused = await command(server, session, client)
                assert refused["code"] == CODES[sqlstate]
            assert await rows_of(fresh_database) == before
        await check_agreement(server, session, client, fresh_database)
        assert (last_seq(client), last_seq(other), client.path) == (seq, seq, path)
        assert "WsServerErrorEvent" not in [frame["type"] for frame in other.frames]
        done = await command(server, session, client)
        assert "code" not in done
        if command is not delete:
            await idle(client)
            assert last_seq(client) > seq
            await check_agreement(server, session, client, fresh_database)


async def test_a_session_whose_creation_fails_is_not_there(
    server: Server, fresh_database: str
) -> None:
    before = await rows_of(fresh_database)
    async with failing(fresh_database, DISK_FULL, "families"):
        answer = await server.http.post("/sessions", json={})
        assert (answer.status_code, answer.json()["code"]) == (503, "database_unavailable")
    assert await rows_of(fresh_database) == before
    assert await server.session()


async def test_a_run_waits_for_a_full_disk_and_goes_on(
    fresh_database: str, provider: ScriptedProvider
) -> None:
    hold = asyncio.Event()
    add = {"operatorType": "CSVFileScan", "properties": {}, "summary": "scan"}
    provider.will(
        [text("one"), Pause(hold), call("addOperator", {"operatorId": "op1", **add})], [text("two")]
    )
    async with serving(fresh_database, **provider.settings) as server:
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            await client.send("Prompt", content="work")
            await client.wait(lambda f: f["type"] == "WsServerDeltaEvent")
            before = await rows_of(fresh_database, apart_from=LEASES)
            async with failing(fresh_database, DISK_FULL, "sessions"):
                hold.set()
                await asyncio.sleep(0.5)
                assert await rows_of(fresh_database, apart_from=LEASES) == before
            await idle(client)
            assert [s["content"] for s in client.path] == ["work", "one", "two"]
            await check_agreement(server, session, client, fresh_database)


@pytest.mark.case(1, 25)
@pytest.mark.parametrize("sqlstate", [DISK_FULL, FAULT])
async def test_a_run_whose_step_cannot_be_saved_ends_as_interrupted_and_can_be_reverted(
    fresh_database: str, provider: ScriptedProvider, sqlstate: str
) -> None:
    hold = asyncio.Event()
    provider.will([text("one"), Pause(hold)])
    async with serving(
        fresh_database, lease_expiry=0.5, lease_heartbeat=0.2, **provider.settings
    ) as server:
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            await client.send("Prompt", content="work")
            await client.wait(lambda f: f["type"] == "WsServerDeltaEvent")
            async with failing(fresh_database, sqlstate, "sessions"):
                run = await server.run(session)
                hold.set()
                async with asyncio.timeout(15):
                    await run.ended.wait()
                assert not [f for f in client.frames if is_step(f) and f["step"]["endReason"]]
            await idle(client)
            assert client.path[-1]["endReason"] == "interrupted"
            await client.ask("Revert", messageId=client.path[0]["messageId"])
            assert client.head == "step-initial"
            await client.ask("Redo")
            await check_agreement(server, session, client, fresh_database)
