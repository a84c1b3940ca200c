"""kill -9 in the middle of a sweep: the next one goes on, and takes exactly what it was to take."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest
from processes import eventually, process
from rest import get, turn
from serving import serving

from turnback.store.check import examine
from turnback.store.database import Database

LONG_AGO = "update sessions set deleted_at = now() - interval '1 day' where deleted_at is not null"
OFTEN = ["erase.records@2", "erase.blobs@1", "erase.rows@4", "sweep.sessions@2"]
SOAK = ["sweep.close@1", "erase.end@1", "erase.rows@1", "erase.rows@7", "sweep.sessions@1"]
POINTS = [*OFTEN, *(pytest.param(point, marks=pytest.mark.soak) for point in SOAK)]


def swept_in_logs(folder: Path) -> list[str]:
    """The lines of the servers' logs that say what was swept."""
    lines = "".join(path.read_text() for path in folder.glob("server-*.log")).splitlines()
    return [line for line in lines if "sessions swept" in line]


@pytest.mark.kill
@pytest.mark.lineage(15)
@pytest.mark.parametrize("failpoint", POINTS)
async def test_a_sweep_that_was_killed_is_gone_on_with(
    fresh_database: str, tmp_path: Path, failpoint: str
) -> None:
    async with serving(fresh_database) as server:
        families = []
        for _ in range(2):
            ids = [await server.session()]
            await turn(server, ids[0], "add a CSVFileScan")
            for _ in range(2):
                answer = await server.http.post(f"/sessions/{ids[-1]}/fork", json={})
                ids.append(answer.json()["session"]["id"])
                await turn(server, ids[-1], "add a Limit")
            families.append(ids)
        kept, gone = families[0][:2], [families[0][2], *families[1]]
        before = await get(server, f"/sessions/{kept[1]}/transcript")
        for id_ in [kept[0], *gone]:
            await server.http.delete(f"/sessions/{id_}")
    connection = await asyncpg.connect(fresh_database)
    await connection.execute(LONG_AGO)
    try:
        async with process(tmp_path, fresh_database, failpoint=failpoint, sweep_batch=2) as server:
            assert await server.end() == -9
        async with process(tmp_path, fresh_database, sweep_batch=2) as server:

            async def swept() -> bool:
                rows = await connection.fetch("select id::text from sessions")
                return {row["id"] for row in rows} == set(kept)

            await eventually(swept)
            assert await get(server, f"/sessions/{kept[1]}/transcript") == before
            await turn(server, kept[1], "hello")
            roots = await connection.fetch("select root_id::text from families")
            assert [row["root_id"] for row in roots] == [kept[0]]
        told = swept_in_logs(tmp_path)
        assert [id_ for id_ in gone if id_ not in "".join(told)] == [], told
    finally:
        await connection.close()
    database = await Database.open(fresh_database, size=1, connect_timeout=5, statement_timeout=10)
    try:
        assert [found async for found in examine(database) if found.wrong] == []
    finally:
        await database.close()
