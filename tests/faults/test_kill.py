"""kill -9 before, inside and after each commit, in mid-stream and in mid-tool (law 1).

`make test` kills at every commit once; `make soak` at all three points of each, and at more
places of the stream.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
from processes import command, process
from serving import serving
from whole import check_whole
from witness import COMMITS, SLOWLY, Witness

from turnback.store.embedded import Embedded


def points() -> list[object]:
    """Every failpoint of the scenario; most of them for the soak only."""
    found: list[object] = []
    for n in range(1, COMMITS + 1):
        for which, point in enumerate(("before", "inside", "after")):
            marks = () if n % 3 == which else pytest.mark.soak
            found.append(pytest.param(f"commit.{point}@{n}", marks=marks))
    for n in (1, 2, 3, 4):
        found.append(pytest.param(f"tool@{n}", marks=() if n % 2 else pytest.mark.soak))
    for n in range(1, 86, 12):
        found.append(pytest.param(f"stream@{n}", marks=() if n in (1, 49) else pytest.mark.soak))
    return found


@pytest.mark.case(8, 25)
@pytest.mark.kill
@pytest.mark.parametrize("failpoint", points())
async def test_what_was_told_survives_a_kill(
    fresh_database: str, tmp_path: Path, failpoint: str
) -> None:
    witness = Witness()
    async with process(tmp_path, fresh_database, failpoint=failpoint, **SLOWLY) as server:
        assert not await witness.work_until(server, server.gone)
        assert await server.end() == -9
    async with serving(fresh_database) as server:
        await witness.testify(server)
        await check_whole(fresh_database)


@pytest.mark.kill
async def test_what_was_told_survives_kills_in_the_middle_of_the_takeover(
    fresh_database: str, tmp_path: Path
) -> None:
    witness = Witness()
    async with process(tmp_path, fresh_database, failpoint="stream@20", **SLOWLY) as server:
        assert not await witness.work_until(server, server.gone)
    for point in ("before", "inside", "after"):
        async with process(tmp_path, fresh_database, failpoint=f"commit.{point}@1") as server:
            if point == "after":
                await asyncio.sleep(0.5)  # it may have been made already
            else:
                assert await server.end() == -9
    async with serving(fresh_database) as last:
        await witness.testify(last)
        await check_whole(fresh_database)


async def test_the_scenario_has_as_many_commits_as_are_killed(
    fresh_database: str, tmp_path: Path
) -> None:
    witness = Witness()
    failpoint = f"commit.before@{COMMITS + 1}"
    async with process(tmp_path, fresh_database, failpoint=failpoint, **SLOWLY) as server:
        assert await witness.work_until(server, server.gone)
        assert not server.gone.is_set()
        with pytest.raises(httpx.HTTPError):
            await server.session()
        assert await server.end() == -9


@pytest.mark.kill
async def test_a_killed_turnback_serve_goes_on_from_its_data_directory(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    witnesses = []
    for failpoint in ("commit.inside@6", "tool@3", "commit.after@16"):
        witnesses.append(witness := Witness())
        slowly = {"TURNBACK_FAILPOINT": failpoint, "TURNBACK_OFFLINE_DELAY_MS": "2"}
        async with command(data_dir, **slowly) as server:
            assert not await witness.work_until(server, server.gone)
            assert await server.end() == -9
    async with command(data_dir, TURNBACK_OFFLINE_DELAY_MS="0") as server:
        for witness in witnesses:
            await witness.testify(server)
        with Embedded.start(data_dir) as embedded:
            await check_whole(embedded.url)
            server.kill()
            await server.end()
