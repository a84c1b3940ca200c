"""A wire to PostgreSQL that can be cut: a proxy between a server and its database.

What it can do and a killed backend cannot: lose the answer to a commit that was made, lose one
before it arrives, or fall silent while both ends believe that they are connected.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, urlsplit

SOCKET = ".s.PGSQL.5432"
COMMIT = re.compile(
    rb"(__asyncpg_stmt_\w+__)\x00\s*with "
    rb"(?:(?:s|directory) as|(?:recursive )?family as materialized \([^)]+for key share)"
)
"""A Parse message of a statement that makes something durable; its name."""

Loss = Literal["request", "answer"]


@dataclass
class Wire:
    """The proxy. `url` is the database's, by this wire; `lost` counts what it has lost."""

    url: str
    lost: int = 0
    _losing: Loss | None = None
    _hushed: bytes | None = None
    _open: asyncio.Event = field(default_factory=asyncio.Event)
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def lose(self, what: Loss) -> None:
        """Cut the connection that the next commit goes over, before it arrives or after."""
        self._losing = what

    def fall_silent(self) -> None:
        """Pass nothing on, either way, until `speak`."""
        self._open.clear()

    def hush(self, application: str) -> None:
        """Drop whatever the server says from now on to connections of this name, until `speak`."""
        self._hushed = application.encode()

    def speak(self) -> None:
        """Pass on what was held back, and what comes."""
        self._hushed = None
        self._open.set()

    def cut(self) -> None:
        """Cut every connection there is."""
        for writer in self._writers:
            writer.transport.abort()

    async def carry(
        self, socket: Path, near: asyncio.StreamReader, out: asyncio.StreamWriter
    ) -> None:
        """Carry one connection until either end, or this wire, has ended it."""
        far, to_server = await asyncio.open_unix_connection(str(socket))
        self._writers |= {out, to_server}
        commits: set[bytes] = set()
        losing = asyncio.Event()
        names: list[bytes] = []  # the first message, in which the client says what it is called

        async def ask() -> None:
            while data := await near.read(2**20):
                names or names.append(data)
                await self._open.wait()
                commits.update(COMMIT.findall(data))
                if self._losing and any(b"\x00" + name + b"\x00" in data for name in commits):
                    what, self._losing = self._losing, None
                    self.lost += 1
                    if what == "request":
                        return
                    losing.set()
                to_server.write(data)
                await to_server.drain()

        async def answer() -> None:
            while data := await far.read(2**20):
                await self._open.wait()
                if losing.is_set():
                    return
                if self._hushed is not None and self._hushed in names[0]:
                    continue
                out.write(data)
                await out.drain()

        tasks = [asyncio.create_task(ask()), asyncio.create_task(answer())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            for writer in (out, to_server):
                self._writers.discard(writer)
                writer.transport.abort()
            await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def flaky(database_url: str, folder: Path) -> AsyncIterator[Wire]:
    """A wire to the database at `database_url`, which is on a Unix socket; its end in `folder`."""
    [there] = parse_qs(urlsplit(database_url).query)["host"]
    wire = Wire(database_url.replace(there, str(folder)))
    wire.speak()
    tasks: set[asyncio.Task[None]] = set()

    def connected(near: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(wire.carry(Path(there) / SOCKET, near, out))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_unix_server(connected, str(folder / SOCKET))
    try:
        yield wire
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(FileNotFoundError):
            (folder / SOCKET).unlink()
