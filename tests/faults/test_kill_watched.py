"""kill -9 of one process while sockets on another watch its sessions: they are told everything.

`make test` kills at some commits; `make soak` at all three points of each, and in the stream.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from agreement import check_agreement, last_seq, state
from processes import Process, eventually, process
from serving import Server, serving
from whole import check_whole, told_once
from wire import Client
from witness import COMMITS, SLOWLY, Witness

QUICK_ONES = {"commit.inside@6", "commit.after@9", "tool@1", "stream@49"}


def points() -> list[object]:
    """Every failpoint of the scenario; most of them for the soak only."""
    names = [f"commit.{at}@{n}" for n in range(3, COMMITS + 1) for at in
             ("before", "inside", "after")]  # fmt: skip
    names += [f"tool@{n}" for n in range(1, 5)] + [f"stream@{n}" for n in range(1, 86, 12)]
    soak = pytest.mark.soak
    return [pytest.param(name, marks=() if name in QUICK_ONES else soak) for name in names]


class Watched(Witness):
    """A witness whose sessions are watched on another server from before their first command."""

    def __init__(self, other: Server, stack: AsyncExitStack) -> None:
        super().__init__()
        self.watchers: dict[str, Client] = {}
        self._other = other
        self._stack = stack

    async def _create(self, server: Server | Process) -> str:  # type: ignore[override]
        session = await super()._create(server)
        watcher = await self._stack.enter_async_context(self._other.connect(session))
        await watcher.snapshot()
        self.watchers[session] = watcher
        return session

    async def check_watchers(self, database_url: str) -> None:
        """Whoever watched was told what the witness was told, and how it ended, each once."""
        for session, watcher in self.watchers.items():
            there = await self._other.http.get(f"/sessions/{session}")
            if there.status_code == 404:
                assert await watcher.until_closed() == 4410
                told_once(watcher.durable)
                continue

            async def over(session: str = session, watcher: Client = watcher) -> bool:
                found = (await self._other.http.get(f"/sessions/{session}")).json()
                return bool(
                    found["state"] == "AVAILABLE" and found["revision"] == last_seq(watcher)
                )

            await eventually(over)
            assert state(watcher) == "AVAILABLE"
            assert watcher.closed is None
            seen = {frame["eventSeq"]: frame for frame in watcher.durable}
            assert list(seen) == list(range(min(seen, default=1), max(seen, default=0) + 1))
            for frame in self._told(session):
                assert seen[frame["eventSeq"]] == frame
            if watcher.path:
                assert watcher.path[-1]["endReason"] is not None
            await check_agreement(self._other, session, watcher, database_url)


@pytest.mark.case(25, 35)
@pytest.mark.kill
@pytest.mark.parametrize("failpoint", points())
async def test_who_watches_from_another_process_is_told_everything_and_how_it_ended(
    fresh_database: str, tmp_path: Path, failpoint: str
) -> None:
    async with (
        serving(fresh_database) as other,
        AsyncExitStack() as stack,
        process(tmp_path, fresh_database, failpoint=failpoint, **SLOWLY) as server,
    ):
        witness = Watched(other, stack)
        assert not await witness.work_until(server, server.gone)
        assert await server.end() == -9
        await witness.check_watchers(fresh_database)
        await witness.testify(other)
        await witness.check_watchers(fresh_database)
        await check_whole(fresh_database)
