"""All live sessions of this process: loaded on demand, evicted when idle, drained at the end.

Its tickers keep the leases alive, end runs whose holder is gone, read sessions again that have
fallen behind, and forget what is past its time (lineage.md 3).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta

import structlog

from turnback.agent.models import ChatModel, resolve
from turnback.core.errors import (
    DatabaseUnavailable,
    Draining,
    QueueFull,
    SessionNotFound,
    TurnbackError,
)
from turnback.core.principal import LOCAL, Principal
from turnback.sessions.actor import Actor
from turnback.sessions.broadcast import DRAINING
from turnback.sessions.planning import now_ms
from turnback.sessions.runner import Runner
from turnback.settings import Settings
from turnback.store.dao import Dao
from turnback.store.database import unreachable

log = structlog.get_logger()

GRACE = 1.0
"""Seconds for which an actor that was just handed out is not evicted, whatever the pressure."""


class Sessions:
    """The live sessions. Open with `start`, end with `drain` and then `close`."""

    def __init__(self, dao: Dao, settings: Settings) -> None:
        self.dao = dao
        self.settings = settings
        self.draining = False
        self.epoch = ""
        self._models: dict[str, ChatModel] = {}
        self._entered = AsyncExitStack()
        self._runner = Runner(settings, self.model)
        self._actors: dict[str, Actor] = {}
        self._opening: dict[str, asyncio.Future[Actor]] = {}
        self._loading = 0
        self._tickers: list[asyncio.Task[None]] = []
        self._mending: dict[str, asyncio.Task[None]] = {}

    async def start(self) -> None:
        """Take this process's node lock, and start ticking; what a crash cut off is ended soon."""
        await self.dao.hold_node_lock()
        self.epoch = await self.dao.stream_epoch()
        self._tickers = [
            asyncio.create_task(self._every(self.settings.lease_heartbeat, self._beat)),
            asyncio.create_task(self._every(self.settings.poll_interval, self._poll)),
            asyncio.create_task(self._every(self.settings.forget_interval, self._forget)),
        ]

    async def model(self, name: str) -> ChatModel:
        """The model of this name, made and entered once.

        Raises `ModelNotConfigured`, or `QueueFull` at `max_models`: each keeps connections open.
        """
        if name not in self._models:
            if len(self._models) >= self.settings.max_models:
                raise QueueFull(
                    f"{self.settings.max_models} models are in use, the limit (`max_models`); "
                    "take one of them"
                )
            self._models[name] = model = resolve(self.settings, name=name)
            await self._entered.enter_async_context(model)
        return self._models[name]

    async def get(self, principal: Principal, session_id: str) -> Actor:
        """The live session, loaded if it is not in memory.

        Raises `SessionNotFound`, `DatabaseUnavailable`, or `QueueFull` at `max_live_sessions`.
        """
        await self.dao.key(principal, session_id)
        actor = self._actors.get(session_id)
        if actor is not None and not actor.deleted:
            actor.touch()
            return actor
        opening = self._opening.get(session_id)
        if opening is None:
            opening = asyncio.ensure_future(self._open(principal, session_id))
            self._opening[session_id] = opening
            opening.add_done_callback(lambda _: self._opening.pop(session_id, None))
            opening.add_done_callback(lambda f: f.cancelled() or f.exception())  # for nobody
        return await asyncio.shield(opening)

    def now(self) -> datetime:
        """The time, as records carry it: UTC, to the millisecond."""
        return now_ms()

    async def ready(self) -> None:
        """Raise `Draining` or `DatabaseUnavailable` where no session can be served."""
        if self.draining:
            raise Draining("The server is going down")
        await self.dao.ping()

    async def drain(self) -> None:
        """Start no new runs; give those under way `drain_timeout` seconds, then interrupt them.

        Then every socket is closed with 1012.
        """
        self.draining = True
        for actor in self._actors.values():
            actor.draining = True
        deadline = asyncio.get_running_loop().time() + self.settings.drain_timeout
        # What was asked before may still begin a run: it is let through first.
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                asked = [actor.refresh() for actor in self._actors.values()]
                await asyncio.gather(*asked, return_exceptions=True)
        runs = [actor.run for actor in self._actors.values() if actor.run is not None]
        if runs:
            log.info("waiting for runs to end", runs=len(runs), at_most=self.settings.drain_timeout)
            ends = [asyncio.create_task(run.ended.wait()) for run in runs]
            left = deadline - asyncio.get_running_loop().time()
            await asyncio.wait(ends, timeout=max(0.0, left))
            for run in runs:
                run.draining = True
                run.stop.set()
            await asyncio.wait(ends, timeout=5)
            for end in ends:
                end.cancel()
        for actor in self._actors.values():
            actor.shut(DRAINING)

    async def close(self) -> None:
        """End every task of this process's sessions."""
        tasks = (*self._tickers, *self._mending.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(actor.close() for actor in self._actors.values()))
        self._actors.clear()
        await self._entered.aclose()
        await self.dao.drop_node_lock()

    async def _open(self, principal: Principal, session_id: str) -> Actor:
        if self._full:
            await self._evict(older_than=GRACE)
        if self._full:
            raise QueueFull(
                f"{self.settings.max_live_sessions} sessions are live, the limit "
                "(`max_live_sessions`); try again in a moment"
            )
        self._loading += 1
        try:
            actor = await Actor.open(
                dao=self.dao,
                principal=principal,
                settings=self.settings,
                session_id=session_id,
                start=self._runner,
            )
        finally:
            self._loading -= 1
        actor.draining = self.draining
        self._actors[session_id] = actor
        return actor

    @property
    def _full(self) -> bool:
        return len(self._actors) + self._loading >= self.settings.max_live_sessions

    async def _evict(self, *, older_than: float) -> None:
        now = asyncio.get_running_loop().time()
        for session_id, actor in tuple(self._actors.items()):
            if actor.idle and (actor.deleted or now - actor.touched > older_than):
                del self._actors[session_id]
                await actor.close()

    def _mend(self, session_id: str) -> None:
        """Read a session again, and end its run if nobody holds it; none waits for another."""
        if session_id not in self._mending:
            self._mending[session_id] = task = asyncio.create_task(self._reread(session_id))
            task.add_done_callback(lambda _: self._mending.pop(session_id, None))

    async def _reread(self, session_id: str) -> None:
        try:
            actor = await self.get(LOCAL, session_id)
            actor.doubt()
            await actor.refresh()
        except SessionNotFound:
            pass  # deleted by another process; its sockets have been told
        except TurnbackError as error:
            log.warning("session not read again", session=session_id, code=error.code)

    async def _beat(self) -> None:
        await self.dao.hold_node_lock()
        if held := [actor.key for actor in self._actors.values() if actor.run is not None]:
            await self.dao.heartbeat(held)

    async def _poll(self) -> None:
        """Bring memory up to what other processes have written, and tell whether anything works."""
        actors = [actor for actor in self._actors.values() if not actor.deleted]
        try:
            revisions = await self.dao.revisions([actor.key for actor in actors])
        except DatabaseUnavailable as error:
            if unreachable(error):
                for actor in actors:
                    actor.away()
            raise
        for actor in actors:
            if revisions.get(actor.key.id, math.inf) > actor.memory.revision:  # absent: deleted
                actor.doubt()
            if not actor.settled:
                self._mend(actor.key.id)
        for key in await self.dao.ended_leases(expiry=self.settings.lease_expiry):
            self._mend(key.id)
        await self._evict(older_than=self.settings.session_idle_timeout)

    async def _forget(self) -> None:
        settings = self.settings
        ttl = timedelta(seconds=settings.request_ttl)
        await self.dao.forget_requests(before=datetime.now(UTC) - ttl)
        for actor in tuple(self._actors.values()):
            await actor.memory.trim()

    async def _every(self, seconds: float, act: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await act()
            except DatabaseUnavailable:
                log.warning("database away", during=act.__qualname__)
            except Exception:
                log.exception("ticker failed", during=act.__qualname__)
            await asyncio.sleep(seconds)
