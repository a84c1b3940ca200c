"""Connections to real tool servers, in this process and in one that can be killed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from processes import forks

from turnback import logs
from turnback.settings import McpServer, Settings
from turnback.tools.limits import ToolLimits
from turnback.tools.mcp import McpConnection

ODD = Path(__file__).parent / "odd_server.py"


@asynccontextmanager
async def server(manner: str, *more: str, **settings: Any) -> AsyncIterator[McpConnection]:
    """A connection to the server with these manners."""
    quick = {"tool_restart_delay": 0.05, "tool_end_timeout": 0.5, "max_tool_message": 1_000_000}
    configured = McpServer(command=sys.executable, args=("-I", str(ODD), manner, *more))
    limits = ToolLimits.of(Settings(**quick | settings))
    connection = McpConnection("odd", configured, limits)
    connection.start()
    try:
        yield connection
    finally:
        await connection.close()


def alive(pid: int) -> bool:
    """Whether a process runs; one that is only waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@asynccontextmanager
async def served_elsewhere(manner: str, how: str) -> AsyncIterator[tuple[int, int]]:
    """The pid of a process with such a server, and the number that it answers to a call."""
    here, there = forks.Pipe(duplex=False)
    child = forks.Process(target=_serve, args=(manner, how, there))
    child.start()
    there.close()
    try:
        assert child.pid is not None
        yield child.pid, await asyncio.to_thread(here.recv)
    finally:
        child.kill()
        child.join()
        child.close()
        here.close()


def _serve(manner: str, how: str, ready: Connection) -> None:
    async def main() -> None:
        async with server(manner) as connection:
            ready.send(int((await connection.call("act", {"how": how}, timeout=60)).text))
            await asyncio.sleep(600)

    logs.configure("error")
    asyncio.run(main())
