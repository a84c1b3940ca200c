"""An MCP server as a connection: kept running, started again when it dies, never asked twice.

A call that was under way when its server died is `Lost`; the log finds out what became of it.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from turnback.core.contracts.model import Key
from turnback.core.effects import Json
from turnback.core.errors import Lost, NotSent, ToolServerFailed
from turnback.settings import McpServer
from turnback.tools.connection import KEY, Listed, Reply
from turnback.tools.limits import ToolLimits

if TYPE_CHECKING:
    from turnback.tools.mcp_session import Session

HEAD_START = 2.0
"""Seconds that the service has for its own start, before a server starts that nobody asks for."""

log = structlog.get_logger()


class McpConnection:
    """A `Connection` to one configured server; one process of ours has one process of it.

    Between `start` and `close` it is kept running. While it starts, and when it has died and is
    started again, calls wait for it; once a start has failed they are `NotSent` at once.
    """

    def __init__(self, name: str, server: McpServer, limits: ToolLimits) -> None:
        self.name = name
        self.generation = 0
        self.trusted = server.trust_contracts
        self._server = server
        self._limits = limits
        self._session: Session | None = None
        self._listed: tuple[int, list[Listed]] | None = None
        self._why = ToolServerFailed(
            f"The tool server `{name}` is not started", connection=name, reason="not started"
        )
        self._failing = False  # its last start has failed, or it keeps dying
        self._turn = asyncio.Event()  # set when it is ready, and when it has ended
        self._wanted = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self._asking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to keep it running; returns at once."""
        self._keeping = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """End it; whoever waits for it is told that it cannot be used."""
        self._failing = True
        self._turn.set()
        for task in (self._asking, self._keeping):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])

    async def tools(self) -> list[Listed]:
        """All of its tools. Raises `ToolServerFailed`."""
        session = await self._ready()
        generation = self.generation
        if self._listed is None or self._listed[0] != generation:
            self._listed = generation, await session.tools()
        return self._listed[1]

    async def call(
        self,
        tool: str,
        args: Mapping[str, Json],
        *,
        timeout: float,  # noqa: ASYNC109 - running out is `Lost`, no cancellation
        key: str | None = None,
        where: Key = KEY,
    ) -> Reply:
        """Call a tool once, as `Connection` says."""
        try:
            session = await self._ready()
        except ToolServerFailed as error:
            raise NotSent(error.message, connection=self.name, reason="down") from None
        try:
            return await session.call(tool, args, seconds=timeout, key=key, where=where)
        except Lost as error:
            if error.data["reason"] == "timeout" and self._asking is None:
                self._asking = asyncio.create_task(self._ask(session))
            raise

    async def _ask(self, session: Session) -> None:
        """End a server that answers nothing any more: it is started again."""
        try:
            await session.tools()
        except ToolServerFailed as error:
            session.life.fail(error.data["reason"])
        finally:
            self._asking = None

    async def _ready(self) -> Session:
        """The session, waited for while it starts, which has a limit of its own.

        Nobody waits for a server whose last start has failed: it would hold up every turn.
        """
        self._wanted.set()
        while not self._usable() and not self._failing and self._keeping is not None:
            self._turn.clear()
            await self._turn.wait()
        if self._session is None or not self._usable():
            raise self._why
        return self._session

    def _usable(self) -> bool:
        return self._session is not None and not self._session.life.ended.is_set()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wanted.wait(), HEAD_START)
        # In a thread: it takes a second, in which the service goes on.
        mcp_session = await asyncio.to_thread(importlib.import_module, _SESSION)
        delay = self._limits.restart_delay
        while True:
            began = loop.time()
            try:
                async with mcp_session.opened(
                    self.name, self._server, self._limits, on_change=self._changed
                ) as session:
                    self._listed = self.generation, await session.tools()
                    self._session, self._failing = session, False
                    self._turn.set()
                    log.info("tool server ready", connection=self.name, tools=len(self._listed[1]))
                    await session.life.ended.wait()
                    self._why = mcp_session.failed(self.name, session.life.failed)
            except ToolServerFailed as error:
                self._why = error
            except Exception as error:  # the library's, of tasks that it ends by closing streams
                if self._session is None or not self._session.life.ended.is_set():
                    self._why = mcp_session.failed(self.name, "its connection broke")
                    log.warning("tool server broke", connection=self.name, exc_info=error)
            finally:
                if loop.time() - began > self._limits.restart_delay_max:
                    delay = self._limits.restart_delay
                # One that dies again and again is as good as one that does not start.
                self._failing = self._session is None or delay > self._limits.restart_delay
                self._session = None
            self._changed()
            self._turn.set()
            log.warning(
                "tool server ended",
                connection=self.name,
                reason=self._why.data["reason"],
                again_in=delay,
            )
            await asyncio.sleep(delay)
            delay = min(delay * 2, self._limits.restart_delay_max)

    def _changed(self) -> None:
        self.generation += 1


_SESSION = "turnback.tools.mcp_session"
