"""What is durable of a session, and told once it is: one commit at a time, memory behind it.

A commit that fails leaves memory as it was (law 5). Where the database's guard says that memory is
behind, or a lost connection leaves a commit in doubt, the session is read again, and subscribers
are told what they have missed.
"""

from __future__ import annotations

import asyncio
import math

import structlog

from turnback.core.errors import DatabaseUnavailable, SessionNotFound, TurnbackError
from turnback.core.principal import Principal
from turnback.core.tree import State
from turnback.sessions.broadcast import BEHIND, DELETED, Availability, Hub, Told
from turnback.sessions.commands import Asked, Stop
from turnback.sessions.memory import Memory, Reading
from turnback.sessions.planning import Planner
from turnback.sessions.plans import Plan
from turnback.sessions.runs import Runs
from turnback.settings import Settings
from turnback.store.dao import Dao
from turnback.store.database import lost, unreachable
from turnback.store.rows import Commit, SessionRow
from turnback.telemetry import metrics

log = structlog.get_logger()

ATTEMPTS = 3
"""How often what is decided is decided again after its guard did not hold (lineage.md 3)."""

SETTLE_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Seconds before each look for a commit whose answer was lost."""


class Durable:
    """One session's memory and subscribers, kept as the database has it.

    All but `away` and `failed` is done in its turn in the session's queue.
    """

    def __init__(
        self,
        *,
        dao: Dao,
        service: Principal,
        settings: Settings,
        memory: Memory,
        planner: Planner,
        hub: Hub,
        runs: Runs,
    ) -> None:
        self.told = -1
        """The last revision that subscribers have been told of."""
        self.is_away = False
        """Whether the database could not be reached, and subscribers have been told."""
        self._dao = dao
        self._service = service
        self._settings = settings
        self._memory = memory
        self._planner = planner
        self._hub = hub
        self._runs = runs

    @property
    def settled(self) -> bool:
        """Whether memory is as the database was when last looked at, and nothing is `unheld`."""
        return not (self._memory.doubted or self._runs.unheld)

    def away(self) -> None:
        """The database cannot be reached. Subscribers are told, once, until it is back."""
        self._memory.doubt()
        if not self.is_away:
            self.is_away = True
            self._hub.tell(Availability(State.UNAVAILABLE))

    def failed(self, error: Exception) -> Exception:
        """What to tell who asked for something that failed like this."""
        if isinstance(error, DatabaseUnavailable) and unreachable(error):
            self.away()
        elif not isinstance(error, TurnbackError):
            log.exception("command failed")
            self._memory.distrust()
            self._memory.doubt()
            return TurnbackError(  # which its asker need not log again
                "Something went wrong on the server; look at the session before you try again"
            )
        return error

    async def write(self, plan: Plan, asked: Asked) -> bool:
        """Make a plan durable, follow it, tell it. False: its guard did not hold."""
        began = asyncio.get_running_loop().time()
        commit = self._planner.commit(plan, asked)
        try:
            committed = await self._dao.commit(commit)
        except DatabaseUnavailable as error:
            if not lost(error):
                raise
            await self._settle(plan, commit, error)
            return True
        if committed is None:
            return False
        if committed.revision != self._memory.revision + len(commit.notices):
            await self.reload()  # another process wrote in between: read what it said, in order
            return True
        for told in self._memory.follow(commit, plan.after, committed.revision, via=plan.via):
            self._tell(told)
        self._runs.heed_stop()
        if plan.change is not None and plan.change.deleted:
            self._gone()
        self._runs.start(plan, committed.fence, began)
        return True

    async def fresh(self) -> None:
        """Memory as the database has it. A busy session whose run nobody holds is ended."""
        key = self._memory.key
        for _ in range(ATTEMPTS):
            if self.settled:
                return
            await self.reload()
            if not self._runs.unheld:
                return
            expiry, grace = self._settings.lease_expiry, self._settings.lease_grace
            if not await self._dao.leases.is_gone(key, expiry=expiry, grace=grace):
                return
            turn = self._memory.tree.running
            if self._memory.undo is not None:
                if self._runs.draining:
                    return
                plan = await self._planner.undo_takeover()
            elif await self._dao.effects.opened(key) is not None:
                plan = self._planner.recovery()
            else:
                plan = self._planner.interruption()
            if await self.write(plan, Asked(Stop(), self._service)):
                metrics.TAKEOVERS.inc()
                log.warning("run taken over", session=key.id, turn=turn)

    async def present(self) -> None:
        """Memory as the database has it now."""
        if await self.behind():
            self._memory.doubt()
        await self.fresh()

    async def behind(self) -> bool:
        """Whether another process has written what memory has not."""
        key = self._memory.key
        revisions = await self._dao.revisions([key])
        return revisions.get(key.id, math.inf) > self._memory.revision  # absent: deleted

    async def reload(self) -> None:
        """Read the session again, whatever memory says; a run here follows what was read."""
        self._memory.doubt()
        try:
            reading = await self._memory.read()
        except SessionNotFound:
            self._gone()  # deleted by another process, or by a commit whose answer was lost
            raise
        await self._adopt(reading)
        self._runs.follow()

    async def _adopt(self, reading: Reading) -> None:
        """Take what was read, and tell subscribers what they have missed of it."""
        revision = reading.row.revision
        missed = await self._missed(reading.row) if len(self._hub) else []
        self._memory.adopt(reading)
        if missed is None:
            self._hub.tell(BEHIND)
        else:
            for told in missed:
                self._tell(told)
        self.told = revision
        if self.is_away:
            self.is_away = False
            self._hub.tell(Availability(reading.row.state))

    async def _missed(self, row: SessionRow) -> list[Told] | None:
        """What subscribers have to be told up to the revision of `row`.

        None where some is not kept any more, or it is more than may wait for one of them: a new
        snapshot says it all.
        """
        settings, since, revision = self._settings, self.told, row.revision
        if row.events_floor > since or revision - since > settings.ws_queue:
            return None
        missed: list[Told] = []
        size = 0
        async for told in self._memory.replay(since=since, until=revision):
            size += told.size
            if missed and size > settings.ws_queue_size:
                return None
            missed.append(told)
        return missed if len(missed) == revision - since else None

    def _tell(self, told: Told) -> None:
        self.told = told.event_seq
        self._hub.tell(told)

    def _gone(self) -> None:
        self._memory.deleted = True
        self._hub.end(DELETED)

    async def _settle(self, plan: Plan, commit: Commit, error: DatabaseUnavailable) -> None:
        """Find out whether a commit whose answer was lost has been made; raise if not."""
        since, began = self._memory.revision, asyncio.get_running_loop().time()
        self.away()
        for pause in SETTLE_PAUSES:
            await asyncio.sleep(pause)
            try:
                made = await self._dao.was_committed(commit, since=since)
                await self.reload()
            except DatabaseUnavailable:
                continue
            except SessionNotFound:
                if plan.change is not None and plan.change.deleted:
                    return
                raise
            if not made:
                raise DatabaseUnavailable(
                    "The connection to the database broke off; nothing was saved, try again",
                    reached=True,
                    in_doubt=False,
                ) from error
            self._runs.found(plan, began)
            return
        raise DatabaseUnavailable(
            "The database cannot be reached, and whether this was saved is not known; "
            "look at the session when it is back",
            reached=False,
            in_doubt=True,
        ) from error
