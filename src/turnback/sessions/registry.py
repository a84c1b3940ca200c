"""All live sessions of this process: loaded on demand, evicted when idle, drained at the end.

Its tickers keep the leases alive, end runs whose holder is gone, read sessions again that another
process has written to, close the sockets of those who may no longer read, and forget what is past
its time (lineage.md 3). They learn of such a write, and of changed rights, by a wake-up, at once,
or by the poll.
"""

from __future__ import annotations

import asyncio
import gc
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import structlog

from turnback.core.errors import (
    DatabaseUnavailable,
    Draining,
    QueueFull,
    SessionNotFound,
    TurnbackError,
)
from turnback.core.principal import LOCAL, Principal, service_of
from turnback.core.values import counted
from turnback.sessions.actor import Actor
from turnback.sessions.broadcast import DRAINING, NOT_ALLOWED, RESTORED, SIGNED_OUT
from turnback.sessions.commands import Asked, Expire
from turnback.sessions.holding import HeldCalls
from turnback.sessions.outside import OutsideTools
from turnback.sessions.plans import now_ms
from turnback.sessions.runner import Runner
from turnback.sessions.settling import settle_due
from turnback.sessions.undo_carrier import UndoCarrier
from turnback.settings import Settings
from turnback.store.dao import Dao
from turnback.store.database import unreachable
from turnback.store.rows import SessionKey
from turnback.store.wakeups import RIGHTS
from turnback.telemetry import metrics
from turnback.tools.calls import CallLimits, Calls

if TYPE_CHECKING:
    from turnback.agent.models import ChatModel
    from turnback.tools.catalog import Catalog

log = structlog.get_logger()

EXPIRED_AT_ONCE = 100
"""Sessions looked at in one round whose calls have waited for a person for too long."""

GRACE = 1.0
"""Seconds for which an actor that was just handed out is not evicted, whatever the pressure."""


class Sessions:
    """The live sessions. Open with `start`, end with `drain` and then `close`.

    `catalog` has the tools outside; without one, runs have those on the canvas.
    """

    def __init__(self, dao: Dao, settings: Settings, catalog: Catalog | None = None) -> None:
        self.dao = dao
        self.settings = settings
        self.draining = False
        self.epoch = ""
        self.local = False
        """Whether no key was ever made: then `LOCAL` is whoever reaches the loopback address."""
        self._models: OrderedDict[str, ChatModel] = OrderedDict()
        self.outside = None if catalog is None else _outside(dao, settings, catalog)
        self._runner = Runner(settings, self.model, self.outside)
        self._undoer = (
            None if self.outside is None else UndoCarrier(dao, settings, self.outside, self.model)
        )
        self._holding = None if self.outside is None else HeldCalls(dao, self.outside, settings)
        self._actors: dict[str, Actor] = {}
        self._opening: dict[str, asyncio.Future[Actor]] = {}
        self._loading = 0
        self._tickers: list[asyncio.Task[None]] = []
        self._mending: dict[str, asyncio.Task[None]] = {}
        self._woken: set[str] = set()
        self._rights_changed = False
        self._waking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Take this process's node lock, and start ticking; what a crash cut off is ended soon."""
        settings, leases = self.settings, self.dao.leases
        await leases.hold()
        self.epoch = await self.dao.stream_epoch()
        self.local = await self.dao.identities.local()
        beating = leases.keep(
            self._held, heartbeat=settings.lease_heartbeat, grace=settings.lease_grace
        )
        waking = self.dao.wakeups.run(
            heard=self._heard,
            missed=self._doubt_all,
            interval=settings.wakeup_interval,
            idle=settings.lease_heartbeat,
        )
        self._tickers = [
            asyncio.create_task(beating),
            asyncio.create_task(waking),
            asyncio.create_task(self._every(settings.poll_interval, self._poll)),
            asyncio.create_task(self._every(settings.poll_interval, self._expire)),
            asyncio.create_task(self._every(settings.undo_settle_interval, self._settle)),
            asyncio.create_task(self._every(settings.forget_interval, self._forget)),
            asyncio.create_task(self._every(settings.forget_interval, self._sweep)),
            asyncio.create_task(self._every(settings.sweep_interval, self._sweep_sessions)),
            asyncio.create_task(self._look()),
            asyncio.create_task(self._warm_up()),
        ]
        if self._holding is not None:
            self._tickers.append(asyncio.create_task(self._holding.run()))

    async def model(self, name: str) -> ChatModel:
        """The model of this name, made and entered once.

        Each keeps connections open: at `max_models` the one that has not been asked for longest,
        of those that carry no run, makes room. Raises `ModelNotConfigured`, or `QueueFull` where
        all of them carry runs.
        """
        if name not in self._models:
            await asyncio.to_thread(_model_layer)
        if (model := self._models.get(name)) is not None:
            self._models.move_to_end(name)
            return model
        spare = self._spare_model() if self._models_full else None
        self._models[name] = model = _model_layer()(self.settings, name=name)
        left = None if spare is None else self._models.pop(spare)
        await model.__aenter__()
        if left is not None:
            await left.__aexit__(None, None, None)
        return model

    async def get(self, principal: Principal, session_id: str) -> Actor:
        """The live session, loaded if it is not in memory.

        Raises `SessionNotFound` where the principal may not read it, `Unauthenticated`,
        `DatabaseUnavailable`, or `QueueFull` at `max_live_sessions`.
        """
        await self.dao.key(principal, session_id)
        return await self._live(principal.project_id, session_id)

    async def again(self, actor: Actor) -> Actor:
        """The live session that this one is or was, for a caller who may read it.

        Raises as `get`.
        """
        return await self._live(actor.project_id, actor.key.id)

    async def _live(self, project_id: str, session_id: str) -> Actor:
        actor = self._actors.get(session_id)
        if actor is not None and not actor.memory.deleted:
            actor.queue.touch()
            return actor
        opening = self._opening.get(session_id)
        if opening is None:
            opening = asyncio.ensure_future(self._open(project_id, session_id))
            self._opening[session_id] = opening
            opening.add_done_callback(lambda _: self._opening.pop(session_id, None))
            opening.add_done_callback(lambda f: f.cancelled() or f.exception())  # for nobody
        return await asyncio.shield(opening)

    def now(self) -> datetime:
        """The time, as records carry it: UTC, to the millisecond."""
        return now_ms()

    def census(self) -> metrics.Now:
        """What there is at this moment, for whoever reads the metrics."""
        commands = [actor.queue.commands for actor in self._actors.values()]
        frames = [count for actor in self._actors.values() for count in actor.hub.waiting()]
        used, idle = self.dao.usage
        return metrics.Now(
            live_sessions=len(self._actors),
            commands=sum(commands),
            longest_command_queue=max(commands, default=0),
            frames=sum(frames),
            longest_send_queue=max(frames, default=0),
            db_used=used,
            db_idle=idle,
        )

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
            actor.runs.draining = True
        deadline = asyncio.get_running_loop().time() + self.settings.drain_timeout
        # What was asked before may still begin a run: it is let through first.
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                asked = [actor.refresh() for actor in self._actors.values()]
                await asyncio.gather(*asked, return_exceptions=True)
        runs = [actor.runs.run for actor in self._actors.values() if actor.runs.run is not None]
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
        undos = [actor.runs.undo for actor in self._actors.values() if actor.runs.undo is not None]
        for undo in undos:
            undo.lose()  # another process goes on with it, or the next one here
        if undos:
            left = deadline - asyncio.get_running_loop().time()
            ends = [asyncio.create_task(undo.ended.wait()) for undo in undos]
            await asyncio.wait(ends, timeout=max(self.settings.tool_stop_grace, left))
            for end in ends:
                end.cancel()
        if self._holding is not None:
            left = deadline - asyncio.get_running_loop().time()
            await self._holding.drain(max(0.0, left))
        for actor in self._actors.values():
            actor.shut(DRAINING)

    async def close(self) -> None:
        """End every task of this process's sessions."""
        tasks = [*self._tickers, *self._mending.values()]
        tasks += [self._waking] if self._waking is not None else []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._holding is not None:
            await self._holding.close()
        await asyncio.gather(*(actor.close() for actor in self._actors.values()))
        self._actors.clear()
        for model in self._models.values():
            await model.__aexit__(None, None, None)
        await self.dao.leases.drop()

    async def _open(self, project_id: str, session_id: str) -> Actor:
        if self._full:
            await self._evict(older_than=GRACE)
        if self._full:
            raise QueueFull(
                f"{counted(self.settings.max_live_sessions, 'session')} may be live at once "
                "(`max_live_sessions`); try again in a moment"
            )
        self._loading += 1
        try:
            actor = await Actor.open(
                dao=self.dao,
                project_id=project_id,
                settings=self.settings,
                session_id=session_id,
                start=self._runner,
                check=None if self.outside is None else self.outside.check,
                undo=self._undoer,
            )
        finally:
            self._loading -= 1
        actor.runs.draining = self.draining
        self._actors[session_id] = actor
        return actor

    @property
    def _models_full(self) -> bool:
        return len(self._models) >= self.settings.max_models

    def _spare_model(self) -> str:
        running = {
            actor.runs.run.model for actor in self._actors.values() if actor.runs.run is not None
        }
        for name in self._models:
            if name not in running:
                return name
        raise QueueFull(
            f"{self.settings.max_models} models carry runs, the limit (`max_models`); take one of "
            "them, or try again later"
        )

    @property
    def _full(self) -> bool:
        return len(self._actors) + self._loading >= self.settings.max_live_sessions

    async def _evict(self, *, older_than: float) -> None:
        now = asyncio.get_running_loop().time()
        for session_id, actor in tuple(self._actors.items()):
            if self._actors.get(session_id) is not actor:
                continue  # it was evicted while another one was closed
            if actor.idle and (actor.memory.deleted or now - actor.queue.touched > older_than):
                del self._actors[session_id]
                await actor.close()

    def _mend(self, session_id: str) -> None:
        """Read a session again, and end its run if nobody holds it; none waits for another."""
        if session_id not in self._mending:
            self._mending[session_id] = task = asyncio.create_task(self._reread(session_id))
            task.add_done_callback(lambda _: self._mending.pop(session_id, None))

    async def _reread(self, session_id: str) -> None:
        try:
            actor = await self._live(await self.dao.project(session_id), session_id)
            while True:
                await actor.refresh()
                if not actor.memory.doubted or actor.memory.deleted:
                    return
        except SessionNotFound:
            pass  # deleted by another process; its sockets have been told
        except TurnbackError as error:
            log.warning("session not read again", session=session_id, code=error.code)

    def _held(self) -> list[SessionKey]:
        return [actor.key for actor in self._actors.values() if actor.runs.run or actor.runs.undo]

    def _heard(self, ids: frozenset[str]) -> None:
        """Another process has written to these sessions; or rights have changed, here or there."""
        self._woken |= ids & self._actors.keys()
        self._rights_changed |= RIGHTS in ids
        if (self._woken or self._rights_changed) and self._waking is None:
            self._waking = asyncio.create_task(self._wake())

    def _doubt_all(self) -> None:
        """What other processes wrote may have gone unheard."""
        self._heard(frozenset(self._actors) | {RIGHTS})

    async def _wake(self) -> None:
        try:
            while self._woken or self._rights_changed:
                if self._rights_changed:
                    self._rights_changed = False
                    await self._dismiss()
                ids, self._woken = self._woken, set()
                await self._catch_up([self._actors[id_] for id_ in ids if id_ in self._actors])
        except DatabaseUnavailable:
            pass  # the poll will see
        finally:
            self._waking = None

    async def _catch_up(self, actors: list[Actor]) -> int:
        """Read those of these sessions again that are behind; how many were.

        Raises `DatabaseUnavailable`.
        """
        actors = [actor for actor in actors if not actor.memory.deleted]
        revisions = await self.dao.revisions([actor.key for actor in actors])
        behind = 0
        for actor in actors:
            if revisions.get(actor.key.id, math.inf) > actor.memory.revision:  # absent: deleted
                behind += 1
                actor.memory.doubt()
            if not actor.durable.settled:
                self._mend(actor.key.id)
        return behind

    async def _dismiss(self) -> None:
        """Close the sockets of those who may no longer read. Raises `DatabaseUnavailable`."""
        if self.local:
            self.local = await self.dao.identities.local()
        readers = [
            (reader, actor) for actor in self._actors.values() for reader in actor.hub.principals()
        ]
        asked = [(reader, actor.key) for reader, actor in readers if reader.credential is not None]
        standing = await self.dao.access.standing(asked)
        for reader, actor in readers:
            if reader == LOCAL and not self.local:
                actor.hub.dismiss(reader, SIGNED_OUT)
            found = standing.get((reader, actor.key))
            if found is not None and not found.alive:
                actor.hub.dismiss(reader, SIGNED_OUT)
            elif found is not None and not found.reads:
                actor.hub.dismiss(reader, NOT_ALLOWED)

    async def _poll(self) -> None:
        """Bring memory up to what other processes have written, and tell whether anything works."""
        try:
            epoch = await self.dao.stream_epoch()
            if epoch != self.epoch:
                await self._forget_all(epoch)
            metrics.POLL_HEALS.inc(await self._catch_up(list(self._actors.values())))
            await self._dismiss()
            if self.outside is not None:
                await self.outside.repin()
        except DatabaseUnavailable as error:
            if unreachable(error):
                for actor in self._actors.values():
                    actor.durable.away()
            raise
        await self._evict(older_than=self.settings.session_idle_timeout)

    async def _forget_all(self, epoch: str) -> None:
        """The database was restored: what memory holds is of another history, runs included."""
        log.warning("the database was restored; every session is read again")
        self.epoch = epoch
        self.dao.forget_directory()
        actors, self._actors = list(self._actors.values()), {}
        for actor in actors:
            actor.shut(RESTORED)
        await asyncio.gather(*(actor.close() for actor in actors))

    async def _look(self) -> None:
        """End the runs whose holder is gone; who seems to be is looked at again soon."""
        settings, leases = self.settings, self.dao.leases

        async def look() -> None:
            ended = await leases.ended(expiry=settings.lease_expiry, grace=settings.lease_grace)
            for key in ended:
                self._mend(key.id)

        while True:
            await self._safely(look)
            await asyncio.sleep(
                settings.lease_grace if leases.suspecting else settings.poll_interval
            )

    async def _expire(self) -> None:
        """What has waited for a person for too long waits no more."""
        for key in await self.dao.approvals.expired(limit=EXPIRED_AT_ONCE):
            with suppress(SessionNotFound, QueueFull, Draining):
                project_id = await self.dao.project(key.id)
                actor = await self._live(project_id, key.id)
                now = round(self.now().timestamp() * 1000)
                await actor.ask(Asked(Expire(now), service_of(project_id)))

    async def _settle(self) -> None:
        """What undos have left is looked at again when it is to be settled."""
        if self.outside is not None:
            await settle_due(self.dao, self.outside)

    async def _forget(self) -> None:
        settings = self.settings
        # A request is remembered as long as a key that stands for it.
        ttl = timedelta(seconds=max(settings.request_ttl, settings.idempotency_ttl))
        await self.dao.forget_requests(before=datetime.now(UTC) - ttl)
        await self.dao.identities.forget()
        await self.dao.undo_plans.forget()
        await self.dao.locks.forget()
        await self.dao.keys.forget(older_than=settings.idempotency_ttl)
        for actor in tuple(self._actors.values()):
            await actor.memory.trim()

    async def _sweep(self) -> None:
        grace = self.settings.attachment_grace
        removed = await self.dao.attachments.sweep.run(grace=grace, upload_grace=grace)
        if removed:
            log.info("files removed that nothing refers to", files=removed)

    async def _sweep_sessions(self) -> None:
        settings = self.settings
        await self.dao.sweeper.run(grace=settings.sweep_grace, batch=settings.sweep_batch)

    async def _warm_up(self) -> None:
        """What the first prompt and the first reading would wait for, beside what already serves.

        The model layer is a third of all that is imported.
        """
        await asyncio.to_thread(_model_layer)
        gc.freeze()  # as at the start: what is imported stays, and no collection need walk it
        await self._safely(self.dao.transcripts.plan)

    async def _every(self, seconds: float, act: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._safely(act)
            await asyncio.sleep(seconds)

    async def _safely(self, act: Callable[[], Awaitable[None]]) -> None:
        try:
            await act()
        except DatabaseUnavailable:
            log.warning("database away", during=act.__qualname__)
        except Exception:
            log.exception("ticker failed", during=act.__qualname__)


def _model_layer() -> Callable[..., ChatModel]:
    """`resolve`, when all that a run needs is imported. Takes long the first time: for a thread."""
    from turnback.agent import loop  # noqa: F401  what the first run imports
    from turnback.agent.models import resolve

    return resolve


def _outside(dao: Dao, settings: Settings, catalog: Catalog) -> OutsideTools:
    calls = Calls(
        effects=dao.effects, ledger=dao.ledger, locks=dao.locks, limits=CallLimits.of(settings)
    )
    return OutsideTools(catalog, calls, dao.contracts)
