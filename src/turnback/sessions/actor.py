"""A live session: its one queue, where commands are decided, and its subscribers.

The actor takes one command at a time. `Tree` decides, the DAO commits in one statement, memory
follows, the hub is told: nothing is told before it is durable (law 1). What that takes is in
`queue.py`, `durable.py`, `runs.py` and `progress.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from time import perf_counter

from turnback.core.errors import (
    Contended,
    DatabaseUnavailable,
    QueueFull,
    RequestConflict,
    SessionNotFound,
    TurnbackError,
)
from turnback.core.principal import Principal, service_of
from turnback.sessions.broadcast import EVICTED, Closed, Hub, Subscriber, Told, Write
from turnback.sessions.commands import Asked, Delete, Done, Stop, is_decision, right_of
from turnback.sessions.deciding import require_person
from turnback.sessions.durable import ATTEMPTS, Durable
from turnback.sessions.looks import Looks
from turnback.sessions.memory import Memory
from turnback.sessions.planning import Check, Planner
from turnback.sessions.plans import Plan
from turnback.sessions.progress import RunProgress
from turnback.sessions.queue import Queue
from turnback.sessions.runs import Run, Runs, UndoRun
from turnback.sessions.tasks import Tasks
from turnback.sessions.view import View, view_of
from turnback.settings import Settings
from turnback.store.dao import Dao, RequestTaken, TurnKeyTaken, UndoTaken
from turnback.store.rows import SessionKey
from turnback.telemetry import metrics

Starter = Callable[["Actor", Run], Awaitable[None]]
"""What carries a run to its end; given in, so that the actor does not know the agent."""

UndoStarter = Callable[["Actor", UndoRun], Awaitable[None]]
"""What carries the run of an undo to its end, or until it is another process's."""


class Actor:
    """One live session. Made by `Actor.open`; its coroutines may be called from any task."""

    def __init__(
        self,
        *,
        dao: Dao,
        service: Principal,
        settings: Settings,
        key: SessionKey,
        start: Starter,
        check: Check | None = None,
        undo: UndoStarter | None = None,
    ) -> None:
        self.key = key
        self.project_id = service.project_id
        self.hub = Hub()
        self.memory = memory = Memory(dao=dao, service=service, settings=settings, key=key)
        self._dao = dao
        self._settings = settings
        self._service = service
        self._tasks = Tasks()
        self._planner = Planner(memory, settings, node_id=dao.node_id, check=check)
        self.undo_planning = self._planner.undoing
        self.looks = Looks(self.hub, self._tasks)
        self.runs = Runs(
            memory=memory,
            leases=dao.leases,
            tasks=self._tasks,
            carry=lambda run: start(self, run),
            carry_undo=None if undo is None else lambda run: undo(self, run),
            reread=self.refresh,
        )
        self.durable = Durable(
            dao=dao,
            service=service,
            settings=settings,
            memory=memory,
            planner=self._planner,
            hub=self.hub,
            runs=self.runs,
        )
        self.queue = Queue(key.id, self._tasks, failed=self.durable.failed)
        self.progress = RunProgress(
            dao=dao,
            service=service,
            settings=settings,
            memory=memory,
            planner=self._planner,
            queue=self.queue,
            durable=self.durable,
            runs=self.runs,
            hub=self.hub,
        )

    @classmethod
    async def open(
        cls,
        *,
        dao: Dao,
        project_id: str,
        settings: Settings,
        session_id: str,
        start: Starter,
        check: Check | None = None,
        undo: UndoStarter | None = None,
    ) -> Actor:
        """Load a session of this project, as the service.

        A run whose holder is gone is ended as `interrupted` on the way.

        Raises `SessionNotFound`, `DatabaseUnavailable`.
        """
        service = service_of(project_id)
        key = await dao.key(service, session_id)
        actor = cls(
            dao=dao,
            service=service,
            settings=settings,
            key=key,
            start=start,
            check=check,
            undo=undo,
        )
        try:
            await actor.refresh()
        except BaseException:
            await actor.close()
            raise
        return actor

    # -- what others may ask

    async def ask(self, asked: Asked) -> Done:
        """Carry out a command, after those that were asked before it.

        The one way of every command, so that its right is asked here, of the live rows, and that a
        person asks where it has to be one. The answer comes when the command is durable. Raises the
        refusals of its command, `SessionNotFound`, `NotAllowed` and `Unauthenticated` as `Dao.key`
        does, `PersonRequired`, `QueueFull`, `DatabaseUnavailable`; then nothing has changed.
        Cancelling the caller does not cancel the command.
        """
        await self._dao.key(asked.principal, self.key.id, right=right_of(asked.command))
        if is_decision(asked.command):
            require_person(asked.principal, self._settings)
        if self.queue.commands >= self._settings.command_queue:
            raise QueueFull(
                f"{self._settings.command_queue} commands wait for this session already; "
                "try again in a moment"
            )
        began = perf_counter()
        if isinstance(asked.command, Delete):
            await self._end_run()
        done: Done = await self.queue.do(lambda: self._perform(asked), is_command=True)
        metrics.COMMAND_SECONDS.observe(perf_counter() - began)
        return done

    async def refresh(self) -> None:
        """Read the session again if memory is doubted, and end a run that nobody holds."""
        await self.queue.together(self.durable.fresh)

    async def catch_up(self) -> None:
        """Memory as the database has it at this moment, whether a wake-up has told of it or not.

        Raises `SessionNotFound`, `DatabaseUnavailable`.
        """
        await self.queue.together(self.durable.present)

    def join(
        self, write: Write, *, principal: Principal, whole: bool = False
    ) -> tuple[Subscriber, int]:
        """A subscriber whose frames `write` writes, told everything after the revision returned.

        It is closed when `principal` may no longer read the session. `whole`: it takes every kind
        of frame.
        """
        self.queue.touch()
        settings = self._settings
        subscriber = Subscriber(
            write,
            principal,
            frames=settings.ws_queue,
            size=settings.ws_queue_size,
            whole=whole,
        )
        self.hub.join(subscriber)
        return subscriber, self.durable.told

    def leave(self, subscriber: Subscriber) -> None:
        """End a subscription."""
        self.queue.touch()
        self.hub.leave(subscriber)

    def view(self, *, steps: int | None) -> View:
        """The session now, with the newest `steps` of the visible path (None: all)."""
        durable = self.durable
        return view_of(
            self.memory,
            self.runs.run,
            steps=steps,
            revision=durable.told,
            is_away=durable.is_away,
        )

    @property
    def idle(self) -> bool:
        """Whether nobody would miss this actor in memory."""
        runs = self.runs
        return not (len(self.hub) or runs.run or runs.undo or not self.queue.idle)

    def shut(self, closed: Closed) -> None:
        """Close every subscriber."""
        self.hub.end(closed)

    async def close(self) -> None:
        """End the actor's tasks; what is durable stays. Who holds it still is told to try again."""
        self.queue.close()
        self.hub.end(EVICTED)
        await self._tasks.close()
        self.runs.close()
        self.queue.drop()

    # -- commands

    async def _perform(self, asked: Asked) -> Done:
        for _ in range(ATTEMPTS):
            try:
                await self.durable.fresh()
                plan = await self._planner.plan(asked, draining=self.runs.draining)
                if isinstance(asked.command, Stop) and self.runs.run is not None:
                    self.runs.run.stop.set()
                if isinstance(plan, Plan):
                    if await self.durable.write(plan, asked):
                        done = self.memory.done(plan.turn_id)
                        undo_id = None if plan.undo is None else plan.undo.run.id
                        return replace(done, undo_id=undo_id, remains=plan.remains)
                else:  # there is nothing to do, if memory is right
                    again = await self._answer_again(asked)
                    if again or not await self.durable.behind():
                        return (
                            again
                            or plan
                            or Done(self.memory.tree.head.step_id, self.memory.revision)
                        )
            except (TurnbackError, RequestTaken) as refusal:
                if not isinstance(refusal, DatabaseUnavailable):
                    again = await self._answer_again(asked)
                    if again is not None:
                        return again
                if isinstance(refusal, DatabaseUnavailable | SessionNotFound):
                    raise
                if isinstance(refusal, TurnbackError) and not await self.durable.behind():
                    raise
            except (TurnKeyTaken, UndoTaken):
                pass
            self.memory.doubt()
        raise Contended("The session is busy: it changed again and again meanwhile; try once more")

    async def _answer_again(self, asked: Asked) -> Done | None:
        """The stored answer to this `requestId`; refused where it was asked with other content."""
        if asked.request_id is None:
            return None
        stored = await self._dao.answered(asked.principal, self.key, asked.request_id)
        if stored is None:
            return None
        if stored.fingerprint != asked.fingerprint:
            raise RequestConflict(
                f"`{asked.request_id}` was used for another command; take a new `requestId`"
            )
        answer = stored.answer
        return Done(answer["headId"], stored.event_seq, answer.get("turnId"), answer.get("undoId"))

    async def _end_run(self) -> None:
        """Stop the session's run, whichever process carries it, and wait for its end.

        One that is carried elsewhere is waited for no longer than its holder may be silent.
        """
        await self.catch_up()
        if not self.runs.busy:
            return
        subscriber, _ = self.join(
            lambda message: b"" if isinstance(message, Told) else None, principal=self._service
        )
        try:
            await self.queue.do(lambda: self._perform(Asked(Stop(), self._service)))
            if (run := self.runs.run) is not None:
                await run.ended.wait()
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.lease_expiry):
                    while self.runs.busy:
                        if isinstance(await subscriber.get(), Closed):
                            return
        finally:
            self.leave(subscriber)
