"""Whether all who know of a session agree: its clients, its server's memory, and the database."""

from __future__ import annotations

import asyncio
import time

import asyncpg
from processes import Process, eventually
from serving import Server, serving
from whole import check_whole, told_once
from wire import Client, Frame

from turnback.store.url import asyncpg_dsn

AT_REST = """select revision, exists (
    select from run_leases where root_id = sessions.root_id and session_id = sessions.id
) as running from sessions where id = $1"""


def last_seq(client: Client) -> int:
    """The last `eventSeq` that a client has been told of."""
    return max((f["eventSeq"] for f in client.frames if "eventSeq" in f), default=0)


def state(client: Client) -> str:
    """The session's state, as a client has been told."""
    return str([frame["state"] for frame in client.frames if "state" in frame][-1])


async def idle(client: Client, *, within: float = 10.0) -> None:
    """Wait until no run is under way and the database is there: within a bound, always."""
    await eventually(lambda: state(client) == "AVAILABLE", within=within)


async def at_rest(database_url: str, session: str, *, within: float) -> int:
    """Wait until no run is under way, as the database has it; the session's last `eventSeq`.

    A server that was frozen, or cut off, may not know yet of a run that another has begun.
    """
    until = time.monotonic() + within
    connection = await asyncpg.connect(asyncpg_dsn(database_url))
    try:
        while True:
            row = await connection.fetchrow(AT_REST, session)
            assert row is not None
            if not row["running"]:
                return int(row["revision"])
            assert time.monotonic() < until, f"a run is under way after {within} s"
            await asyncio.sleep(0.02)
    finally:
        await connection.close()


async def check_agreement(
    server: Server | Process, session: str, client: Client, database_url: str
) -> None:
    """Compare what `client` has been told since its snapshot with two that come new.

    One connects to `server`, whose memory answers; one to a server that has only just started and
    reads the database. Frames must have come once each; the database must be whole.
    """
    told_once(client.durable)
    async with serving(database_url) as another:
        remembered = await _snapshot(server, session)
        loaded = await _snapshot(another, session)
    assert remembered == loaded
    assert last_seq(client) == loaded["eventSeq"]
    assert (state(client), client.head) == (loaded["state"], loaded["headId"])
    assert [client.steps.get(s["id"], s) for s in loaded["steps"]] == loaded["steps"]
    heads = [f for f in client.frames if "workflowContent" in f]
    if heads and heads[-1]["headId"] == client.head:
        assert heads[-1]["workflowContent"] == loaded["workflowContent"]
    await check_whole(database_url)


async def _snapshot(server: Server | Process, session: str) -> Frame:
    async with server.connect(session) as client:
        return await client.snapshot()
