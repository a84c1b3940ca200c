"""A PostgreSQL of a test's own, to be stopped and started again under servers that use it."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from turnback.store.embedded import Embedded, binaries, user_prefix
from turnback.store.migrate import migrate


@dataclass
class Postgres:
    """A PostgreSQL of the test's own, which knows nothing of the service it serves."""

    url: str
    folder: Path

    async def stop(self, mode: str) -> None:
        await self._pg_ctl("stop", "-w", "-m", mode)

    async def start(self) -> None:
        # With the options that it was started with: they are kept in `postmaster.opts`.
        await self._pg_ctl("restart", "-w", "-l", "restarted.log")

    async def _pg_ctl(self, *arguments: str) -> None:
        done = await asyncio.to_thread(
            subprocess.run,
            [*user_prefix(), str(binaries() / "pg_ctl"), "-s", *arguments],
            cwd=self.folder,
            env=os.environ | {"PGDATA": str(self.folder / "postgres")},
            stdout=subprocess.DEVNULL,
            check=False,
        )
        assert done.returncode == 0


@asynccontextmanager
async def restartable(folder: Path) -> AsyncIterator[Postgres]:
    """One that runs, migrated, until left."""
    with await asyncio.to_thread(Embedded.start, folder) as server:
        await asyncio.to_thread(migrate, server.url)
        yield Postgres(server.url, folder)
