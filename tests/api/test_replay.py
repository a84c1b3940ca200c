"""`?since=N&epoch=E`: what was missed, each frame once and in order; or a snapshot that says so."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import asyncpg
import pytest
from processes import eventually
from serving import Server, serving
from wire import Client, Frame, is_status

from turnback.store.url import asyncpg_dsn

ADD_SCAN = "add a CSVFileScan"


async def move(client: Client, n: int) -> Frame:
    """Move an operator: one commit of two events, a step and a head."""
    edit = {"op": "moveOperator", "operatorID": "op1", "position": {"x": n, "y": n}}
    return await client.ask("EditWorkflow", baseHeadId=client.head, edits=[edit])


def seqs(frames: list[Frame]) -> list[int]:
    return [frame["eventSeq"] for frame in frames]


async def execute(url: str, statement: str, *args: Any) -> None:
    connection = await asyncpg.connect(asyncpg_dsn(url))
    await connection.execute(statement, *args)
    await connection.close()


@pytest.mark.case(34, 38)
async def test_whoever_comes_while_commits_flow_misses_nothing_and_gets_nothing_twice(
    server: Server,
) -> None:
    rng = random.Random(7)
    session = await server.session()
    async with server.connect(session) as writer:
        epoch = (await writer.snapshot())["streamEpoch"]
        await writer.prompt(ADD_SCAN)
        writing = True
        seen: list[Frame] = []

        async def come_and_go() -> int:
            visits = 0
            while writing:
                last = writer.durable[-1]["eventSeq"]
                since = rng.randint(max(0, last - 30), last)
                query = rng.choice(["", f"?since={since}&epoch={epoch}", f"?since={since}"])
                async with server.connect(session, query=query) as client:
                    first = await client.wait(lambda _: True) if since < last else None
                    if not query:
                        since = (await client.snapshot())["eventSeq"]
                    else:
                        assert first is None or first["eventSeq"] == since + 1
                    await asyncio.sleep(rng.random() / 20)
                    told = client.durable
                assert seqs(told) == list(range(since + 1, since + 1 + len(told)))
                seen.extend(told)
                visits += 1
            return visits

        visitors = [asyncio.create_task(come_and_go()) for _ in range(4)]
        for n in range(60):
            await move(writer, n)
        writing = False
        assert sum(await asyncio.gather(*visitors)) > 8
        by_seq = {frame["eventSeq"]: frame for frame in writer.durable}
        assert seen == [by_seq[seq] for seq in seqs(seen)]


async def test_a_since_in_the_middle_of_a_commit_brings_the_rest_of_it(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        await client.prompt(ADD_SCAN)
        told = client.durable
        for since in range(len(told) + 1):
            async with server.connect(session, query=f"?since={since}") as back:
                await back.ask("Stop")
                assert back.durable == told[since:]


@pytest.mark.parametrize(
    "since",
    ["", "-1", "+1", "1.5", "1e3", "abc", "null", "0x10", "%00", "1%00", "%EF%BC%91", "9" * 30],
)
async def test_a_since_that_is_no_number_gets_a_snapshot_with_reset(
    standing: Server, since: str
) -> None:
    session = await standing.session()
    async with standing.connect(session) as client:
        await client.snapshot()
        await client.prompt(ADD_SCAN)
    async with standing.connect(session, query=f"?since={since}") as client:
        frame = await client.snapshot()
        assert frame["reset"] is True
        assert len(frame["steps"]) > 1
        await client.ask("Stop")
        assert client.durable == []


async def test_a_since_of_the_future_or_of_another_epoch_gets_a_snapshot_with_reset(
    standing: Server,
) -> None:
    session = await standing.session()
    async with standing.connect(session) as client:
        epoch = (await client.snapshot())["streamEpoch"]
        await client.prompt(ADD_SCAN)
        now = client.durable[-1]["eventSeq"]
    for query in (f"since={now + 1}&epoch={epoch}", f"since={now}&epoch=x", f"since={now}&epoch="):
        async with standing.connect(session, query=f"?{query}") as client:
            assert (await client.snapshot())["reset"] is True
    async with standing.connect(session, query=f"?since={now}&epoch={epoch}") as client:
        assert (await client.ask("Stop"))["type"] == "WsServerAckEvent"
        assert len(client.frames) == 1  # nothing was missed


@pytest.mark.parametrize("limit", [{"replay_events": 10}, {"replay_size": 4_000}])
async def test_whoever_is_far_behind_gets_a_snapshot_instead(
    fresh_database: str, limit: dict[str, int]
) -> None:
    async with serving(fresh_database, **limit) as server:
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            await client.prompt(ADD_SCAN)
            for n in range(8):
                await move(client, n)
            now = client.durable[-1]["eventSeq"]
            async with server.connect(session, query=f"?since={now - 2}") as near:
                await near.ask("Stop")
                assert near.durable == client.durable[-2:]
            async with server.connect(session, query="?since=1") as far:
                frame = await far.snapshot()
                assert (frame["reset"], frame["eventSeq"]) == (True, now)


async def test_whoever_missed_what_is_kept_no_more_gets_a_snapshot_with_reset(
    fresh_database: str,
) -> None:
    async with serving(fresh_database, events_kept=4, forget_interval=0.1) as server:
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            await client.prompt(ADD_SCAN)
            for n in range(4):
                await move(client, n)
            now = client.durable[-1]["eventSeq"]

            async def gone() -> bool:
                async with server.connect(session, query=f"?since={now - 5}") as behind:
                    first = await behind.wait(lambda _: True)
                return first.get("reset") is True

            await eventually(gone)
            async with server.connect(session, query=f"?since={now - 4}") as kept:
                await kept.ask("Stop")
                assert kept.durable == client.durable[-4:]


async def test_a_base_client_gets_its_snapshot_whatever_it_asks_for(standing: Server) -> None:
    session = await standing.session()
    async with standing.connect(session, v1=False) as client:
        first = await client.snapshot()
    for query in ("?since=0", "?since=999", "?since=x&epoch=y"):
        async with standing.connect(session, v1=False, query=query) as client:
            assert await client.snapshot() == first


async def test_a_restored_database_is_noticed_and_its_clients_begin_anew(
    fresh_database: str,
) -> None:
    async with serving(fresh_database) as server:
        session, lost = await server.session(), await server.session()
        async with server.connect(session) as client, server.connect(lost) as other:
            epoch = (await client.snapshot())["streamEpoch"]
            await other.snapshot()
            await client.prompt(ADD_SCAN)
            now = client.durable[-1]["eventSeq"]
            # What `turnback restored` does, on a backup from before the other session was made.
            await execute(
                fresh_database,
                f"delete from session_directory where id = '{lost}';"
                f"delete from sessions where id = '{lost}';"
                "update installation set stream_epoch = gen_random_uuid()",
            )
            assert await client.until_closed() == 1012
            assert await other.until_closed() == 1012
        query = f"?since={now}&epoch={epoch}"
        async with server.connect(session, query=query) as back:
            frame = await back.snapshot()
            assert frame["reset"] is True
            assert frame["streamEpoch"] != epoch
            await back.prompt("delete op1")
        async with server.connect(lost) as gone:
            assert await gone.until_closed() == 4404


async def test_a_run_of_before_a_restore_ends_as_interrupted(fresh_database: str) -> None:
    async with serving(fresh_database, offline_delay_ms=200) as server:
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            await client.send("Prompt", content=ADD_SCAN)
            await client.wait(is_status("GENERATING"))
            await execute(
                fresh_database, "update installation set stream_epoch = gen_random_uuid()"
            )
            assert await client.until_closed() == 1012
        async with server.connect(session) as back:
            assert (await back.snapshot())["state"] == "AVAILABLE"
            assert back.path[-1]["endReason"] == "interrupted"
            await back.ask("Revert", messageId=back.path[0]["messageId"])
            assert back.head == "step-initial"
