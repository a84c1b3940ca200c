"""Long conversations of one instant, whose ids say nothing: one order everywhere, forked whole."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest
from oracle_bulk import long_session
from rest import get
from serving import Server
from stored import NOW

from turnback.store.url import asyncpg_dsn


@pytest.mark.lineage(10)
async def test_500_records_of_one_instant_have_one_order_everywhere(
    server: Server, fresh_database: str
) -> None:
    connection = await asyncpg.connect(asyncpg_dsn(fresh_database))
    burst = await long_session(connection, turns=125, answers=3, now=NOW)
    await connection.close()
    steps = burst.steps()
    assert sorted(steps) != steps
    child = await forked(server, burst.id)
    half = await forked(server, burst.id, turn_id=burst.turn(61), position="after")
    for session, expected in (
        (burst.id, steps),
        (child, steps),
        (await forked(server, child), steps),
        (half, steps[:248]),
    ):
        assert await transcript(server, session, 70) == expected
        assert await listed(server, session) == expected
        assert await listed(server, session, all=True) == expected
        async with server.connect(session) as client:
            shown = [step["id"] for step in (await client.snapshot())["steps"]]
        assert shown == expected[-len(shown) :]


@pytest.mark.lineage(4)
async def test_1_300_records_are_forked_whole_whatever_page_a_client_had_loaded(
    server: Server, fresh_database: str
) -> None:
    connection = await asyncpg.connect(asyncpg_dsn(fresh_database))
    parent = await long_session(connection, turns=325, answers=3, now=NOW)
    await connection.close()
    steps = parent.steps()
    async with server.connect(parent.id) as client:
        shown = [step["id"] for step in (await client.snapshot())["steps"]]
        assert shown == steps[-200:]
    newest = await get(server, f"/sessions/{parent.id}/steps", limit=3)
    oldest = await get(server, f"/sessions/{parent.id}/transcript", limit=3)
    for loaded in (newest["steps"][-1], newest["steps"][0], oldest["records"][-1]):
        whole = await forked(server, parent.id)
        assert await transcript(server, whole, 500) == steps
        half = await forked(server, parent.id, turn_id=loaded["turn_id"], position="after")
        until = loaded["seq"] + 3 - loaded["record_index"]
        assert await transcript(server, half, 500) == steps[:until]


async def forked(server: Server, source: str, **boundary: str) -> str:
    """A fork's id."""
    body = {"boundary": boundary} if boundary else {}
    answer = await server.http.post(f"/sessions/{source}/fork", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["session"]["id"])


async def transcript(server: Server, session: str, limit: int) -> list[str]:
    """The ids of a transcript, page by page; the places in it are those of its records."""
    found: list[str] = []
    more: dict[str, Any] = {}
    while True:
        page = await get(server, f"/sessions/{session}/transcript", limit=limit, **more)
        for record in page["records"]:
            found.append(record["id"])
            assert record["seq"] == len(found)
        if page["next_cursor"] is None:
            return found
        more = {"cursor": page["next_cursor"]}


async def listed(server: Server, session: str, **more: Any) -> list[str]:
    """The ids of a session's steps, from the newest page on."""
    found: list[str] = []
    while True:
        page = await get(server, f"/sessions/{session}/steps", limit=90, **more)
        found = [step["id"] for step in page["steps"]] + found
        if page["next_cursor"] is None:
            return found
        more["before"] = page["next_cursor"]
