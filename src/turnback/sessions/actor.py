"""A live session: one actor, its command queue, its memory, its subscribers.

The actor takes one command at a time. `Tree` decides, the DAO commits in one statement, memory
follows, the hub is told: nothing is told before it is durable (law 1), and a commit that fails
leaves memory as it was (law 5). Memory is a cache: where the database's guard says that it is
behind, or a lost connection leaves a commit in doubt, it is dropped and read again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import perf_counter, time
from typing import Any, TypeVar

import structlog

from turnback.agent.steps import StepDraft
from turnback.core.approvals import Approval
from turnback.core.errors import (
    Contended,
    DatabaseUnavailable,
    FencedOff,
    QueueFull,
    RequestConflict,
    SessionNotFound,
    TurnbackError,
)
from turnback.core.pending import PendingAction
from turnback.core.principal import Principal, service_of
from turnback.core.run_settings import RunSettings
from turnback.core.tree import (
    State,
    Step,
)
from turnback.core.workflow import Workflow
from turnback.failpoints import hit
from turnback.sessions.broadcast import (
    BEHIND,
    DELETED,
    EVICTED,
    Availability,
    Closed,
    Delta,
    Hub,
    Reply,
    Subscriber,
    Told,
    Write,
)
from turnback.sessions.commands import (
    Asked,
    Delete,
    Done,
    Stop,
    is_decision,
    right_of,
)
from turnback.sessions.deciding import require_person
from turnback.sessions.memory import Memory, Reading
from turnback.sessions.planning import Check, Planner
from turnback.sessions.plans import Plan, Resume
from turnback.sessions.undoing import UndoPlanning
from turnback.settings import Settings
from turnback.store.dao import Dao, RequestTaken, TurnKeyTaken, UndoTaken
from turnback.store.database import lost, unreachable
from turnback.store.effects import Logged, OpenStep
from turnback.store.ids import new_id
from turnback.store.rows import (
    Commit,
    SessionKey,
    SessionRow,
)
from turnback.telemetry import context, metrics
from turnback.undo.runner import Step as UndoStep

log = structlog.get_logger()

T = TypeVar("T")

ATTEMPTS = 3
"""How often a command is decided again after its guard did not hold (lineage.md 3)."""

LONGEST_PAUSE = 60.0
"""Seconds between two tries to carry an undo that fails in a way that nobody has foreseen."""

SETTLE_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Seconds before each look for a commit whose answer was lost."""


@dataclass(slots=True)
class Run:
    """The run that this process holds: its turn, fence, and the step now streaming.

    `model` and `settings` are the session's when it began: a change is for the next run. `resumes`
    says what it is to do with the step that was open when it began; `is_open` whether its step is
    open now, so that the next one to be written closes it.
    """

    turn_id: str
    fence: int
    model: str
    settings: RunSettings
    resumes: Resume | None = None
    is_open: bool = False
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    draining: bool = False
    step_id: str = field(default_factory=new_id)
    text: str = ""
    ended: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True, eq=False)
class UndoRun:
    """The run of an undo that this process carries: `fence` holds the session for it.

    `leave` is set when this process is to send nothing more of it; `stopping` when nothing more is
    to be begun, because it is stopped or left, and `woken` when it need not wait any more for that.
    `since` is when it was claimed, by the loop's clock.
    """

    id: str
    fence: int
    since: float
    leave: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def lose(self) -> None:
        """Send nothing more: it is another process's, or will be."""
        self.leave.set()
        self.stop()

    def stop(self) -> None:
        """Begin nothing more, and wait for nothing that is not begun."""
        self.stopping.set()
        self.woken.set()


@dataclass(slots=True, eq=False)
class Queued:
    """Something that waits for its turn, and who asked for it."""

    act: Callable[[], Awaitable[Any]]
    answer: asyncio.Future[Any]
    asker: context.Ids
    is_command: bool


@dataclass(frozen=True, slots=True)
class View:
    """The session as it is at one instant: what a snapshot frame is made of.

    `path` is the visible path, oldest first, at most as many steps as asked for; `older` is the
    step before the first of them that is visible too, where there is one. `redo_id` is the step
    that the next redo lands on.
    """

    key: SessionKey
    name: str
    state: State
    head_id: str
    workflow: Workflow | None
    revision: int
    floor: int
    redo_depth: int
    redo_id: str | None
    archived: bool
    model: str
    settings: RunSettings
    pending: PendingAction | None
    path: tuple[Step, ...]
    older: str | None
    partial: tuple[str, str, str] | None
    waiting_for: tuple[Approval, ...]


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
        self._undo = undo
        self.undoing: UndoRun | None = None
        self._undo_failed = 0  # times in a row that carrying an undo has failed unforeseen
        self._looks: dict[Principal, asyncio.Task[None]] = {}
        self.key = key
        self.project_id = service.project_id
        self.hub = Hub()
        self.run: Run | None = None
        self.draining = False
        self.deleted = False
        self.touched = asyncio.get_running_loop().time()
        self._dao = dao
        self._settings = settings
        self._service = service
        self._start = start
        self._queue: asyncio.Queue[Queued] = asyncio.Queue()
        self._newest: Queued | None = None  # in the queue
        self._commands = 0  # in the queue
        self._tasks: set[asyncio.Task[None]] = set()
        self._spawn(self._serve(), f"session {key.id}")
        self._acting = False
        self._closed = False
        self._doubts = 1  # reasons so far to think that memory is behind the database
        self._settled_doubts = 0  # those that it has been read again for
        self._away = False  # the database could not be reached, and subscribers have been told
        self._told = -1  # the last revision that subscribers have been told of
        self.memory = Memory(dao=dao, service=service, settings=settings, key=key)
        self._planner = Planner(self.memory, settings, node_id=dao.node_id, check=check)

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
        if self._commands >= self._settings.command_queue:
            raise QueueFull(
                f"{self._settings.command_queue} commands wait for this session already; "
                "try again in a moment"
            )
        began = perf_counter()
        if isinstance(asked.command, Delete):
            await self._end_run()
        done: Done = await self._enqueue(lambda: self._perform(asked), is_command=True)
        metrics.COMMAND_SECONDS.observe(perf_counter() - began)
        return done

    async def refresh(self) -> None:
        """Read the session again if memory is doubted, and end a run that nobody holds."""
        await self._together(self._fresh)

    async def catch_up(self) -> None:
        """Memory as the database has it at this moment, whether a wake-up has told of it or not.

        Raises `SessionNotFound`, `DatabaseUnavailable`.
        """
        await self._together(self._present)

    async def append(self, run: Run, step_id: str, draft: StepDraft) -> None:
        """Make the run's next step durable; with an end reason, its last.

        A database that is away for a moment is waited for. Raises `FencedOff` when the run is no
        longer this process's, `DatabaseUnavailable` when the database stays away.
        """
        await self.patiently(lambda: self._enqueue(lambda: self._append(run, step_id, draft)))

    async def open_step(
        self, run: Run, draft: Mapping[str, Any], *, is_secret: bool = False
    ) -> None:
        """Make the run's step durable before its calls are made. Waits and raises as `append`."""
        step = OpenStep(run.step_id, run.turn_id, draft, is_secret)
        head = self.memory.tree.head.step_id
        await self.patiently(
            lambda: self._dao.effects.open(self.key, fence=run.fence, head_step=head, step=step)
        )
        run.is_open = True

    async def opened(self) -> OpenStep | None:
        """The step that is open. Raises `DatabaseUnavailable`."""
        return await self._dao.effects.opened(self.key)

    async def logged(self, step_id: str) -> list[Logged]:
        """What the log has of a step's calls. Raises `DatabaseUnavailable`."""
        return await self._dao.effects.of_step(self.key, step_id)

    async def wait(self, run: Run, approvals: tuple[Approval, ...]) -> None:
        """End the run where a person has to decide about calls. Waits and raises as `append`."""
        await self.patiently(lambda: self._enqueue(lambda: self._wait(run, approvals)))

    async def patiently(self, act: Callable[[], Awaitable[T]]) -> T:
        """Do what a run needs done, once the database is back; `act` may be done twice.

        Raises `DatabaseUnavailable` when it stays away.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.lease_expiry
        pause = 0.05
        while True:
            try:
                return await act()
            except DatabaseUnavailable:
                if loop.time() > deadline:
                    raise
                await asyncio.sleep(pause)
                pause = min(1.0, pause * 2)

    def join(
        self, write: Write, *, principal: Principal, whole: bool = False
    ) -> tuple[Subscriber, int]:
        """A subscriber whose frames `write` writes, told everything after the revision returned.

        It is closed when `principal` may no longer read the session. `whole`: it takes every kind
        of frame.
        """
        self.touch()
        settings = self._settings
        subscriber = Subscriber(
            write,
            principal,
            frames=settings.ws_queue,
            size=settings.ws_queue_size,
            whole=whole,
        )
        self.hub.join(subscriber)
        return subscriber, self._told

    def leave(self, subscriber: Subscriber) -> None:
        """End a subscription."""
        self.touch()
        self.hub.leave(subscriber)

    def view(self, *, steps: int | None) -> View:
        """The session now, with the newest `steps` of the visible path (None: all)."""
        memory, run = self.memory, self.run
        path, older = memory.newest(steps)
        return View(
            key=self.key,
            name=memory.row.name,
            state=State.UNAVAILABLE if self._away else memory.tree.state,
            head_id=memory.tree.head.step_id,
            workflow=memory.workflow,
            revision=self._told,
            floor=memory.row.events_floor,
            redo_depth=len(memory.tree.redo_stack),
            redo_id=memory.tree.redo_stack[-1].step_id if memory.tree.can_redo else None,
            archived=memory.row.archived_at is not None,
            model=memory.row.model,
            settings=memory.row.settings,
            pending=memory.row.pending,
            path=path,
            older=older,
            partial=(run.turn_id, run.step_id, run.text) if run and run.text else None,
            waiting_for=memory.waiting_for,
        )

    def tell_delta(self, run: Run, delta: Delta) -> None:
        """Tell a piece of the streaming step; it is provisional and not stored."""
        if self.run is run:
            if delta.text is not None:
                run.text += delta.text
            delta.after = self._told
            self.hub.tell(delta)

    def touch(self) -> None:
        """Somebody is about to use it: it stays in memory for a while."""
        self.touched = asyncio.get_running_loop().time()

    @property
    def waiting(self) -> int:
        """How many commands wait."""
        return self._commands

    @property
    def unheld(self) -> bool:
        """Whether the session is busy with a run that this process does not carry.

        It has to be watched: its holder may die. A turn that waits for a person has none, unless it
        was stopped just when it began to wait.
        """
        if self.memory.undo is not None:
            return self.undoing is None
        waits = self.memory.tree.waits and self.memory.tree.state is State.GENERATING
        return self.run is None and self.busy and not waits

    @property
    def busy(self) -> bool:
        """Whether a run is under way, as far as memory knows."""
        return self.memory.tree.state is not State.AVAILABLE

    @property
    def settled(self) -> bool:
        """Whether memory is as the database was when last looked at, and nothing is `unheld`."""
        return not (self.doubted or self.unheld)

    @property
    def doubted(self) -> bool:
        """Whether memory may be behind the database, and was not read again since."""
        return self._doubts > self._settled_doubts

    def doubt(self) -> None:
        """Memory may be behind the database: it is read again before it is used."""
        self._doubts += 1

    def away(self) -> None:
        """The database cannot be reached. Subscribers are told, once, until it is back."""
        self.doubt()
        if not self._away:
            self._away = True
            self.hub.tell(Availability(State.UNAVAILABLE))

    @property
    def idle(self) -> bool:
        """Whether nobody would miss this actor in memory."""
        return not (
            len(self.hub) or self.run or self.undoing or self._acting or self._queue.qsize()
        )

    def shut(self, closed: Closed) -> None:
        """Close every subscriber."""
        self.hub.end(closed)

    async def close(self) -> None:
        """End the actor's tasks; what is durable stays. Who holds it still is told to try again."""
        self._closed = True
        self.hub.end(EVICTED)
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        while not self._queue.empty():
            answer = self._queue.get_nowait().answer
            if not answer.done():
                answer.set_exception(_left())

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        # None is kept once it has ended: how it ended holds its frame, and that the whole session,
        # which would stay in memory until a collection that seldom comes.
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- the queue

    async def _enqueue(self, act: Callable[[], Awaitable[Any]], *, is_command: bool = False) -> Any:
        return await self._put(act, is_command=is_command).answer

    async def _together(self, read: Callable[[], Awaitable[None]]) -> None:
        """Do `read` in its turn, once for all who ask for it with nothing asked in between.

        However many read at once, a command waits for one of them.
        """
        newest = self._newest
        if newest is None or newest.act != read or self._closed:
            newest = self._put(read)
        await asyncio.shield(newest.answer)

    def _put(self, act: Callable[[], Awaitable[Any]], *, is_command: bool = False) -> Queued:
        if self._closed:
            raise _left()
        self.touch()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda f: f.cancelled() or f.exception())  # its asker may be gone
        self._newest = Queued(act, answer, context.ids(), is_command)
        self._commands += is_command
        self._queue.put_nowait(self._newest)
        return self._newest

    async def _serve(self) -> None:
        while True:
            queued = await self._queue.get()
            if queued is self._newest:
                self._newest = None
            self._commands -= queued.is_command
            answer = queued.answer
            context.enter({**queued.asker, "session": self.key.id})
            self._acting = True
            try:
                result = await queued.act()
            except asyncio.CancelledError:
                if not answer.done():
                    answer.set_exception(_cut_off())
                raise
            except Exception as error:
                if isinstance(error, DatabaseUnavailable) and unreachable(error):
                    self.away()
                elif not isinstance(error, TurnbackError):
                    log.exception("command failed")
                    self.memory.distrust()
                    self.doubt()
                    error = TurnbackError(  # which its asker need not log again
                        "Something went wrong on the server; look at the session before you try "
                        "again"
                    )
                if not answer.done():
                    answer.set_exception(error)
            else:
                if not answer.done():
                    answer.set_result(result)
            finally:
                self._acting = False
                self.touch()  # it may have taken long, and who waited for it is still to come

    # -- commands

    async def _perform(self, asked: Asked) -> Done:
        for _ in range(ATTEMPTS):
            try:
                await self._fresh()
                plan = await self._planner.plan(asked, draining=self.draining)
                if isinstance(asked.command, Stop) and self.run is not None:
                    self.run.stop.set()
                if isinstance(plan, Plan):
                    if await self._write(plan, asked):
                        done = self.memory.done(plan.turn_id)
                        undo_id = None if plan.undo is None else plan.undo.run.id
                        return replace(done, undo_id=undo_id, remains=plan.remains)
                else:  # there is nothing to do, if memory is right
                    again = await self._answer_again(asked)
                    if again or not await self._behind():
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
                if isinstance(refusal, TurnbackError) and not await self._behind():
                    raise
            except (TurnKeyTaken, UndoTaken):
                pass
            self.doubt()
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
        if not self.busy:
            return
        subscriber, _ = self.join(
            lambda message: b"" if isinstance(message, Told) else None, principal=self._service
        )
        try:
            await self._enqueue(lambda: self._perform(Asked(Stop(), self._service)))
            if (run := self.run) is not None:
                await run.ended.wait()
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.lease_expiry):
                    while self.busy:
                        if isinstance(await subscriber.get(), Closed):
                            return
        finally:
            self.leave(subscriber)

    # -- a run's steps

    async def _append(self, run: Run, step_id: str, draft: StepDraft) -> None:
        await self._fresh()
        # It is there already if a commit in doubt had been made.
        while step_id not in self.memory.tree.steps:
            if self.run is not run:
                raise FencedOff("This run has been ended by another process")
            plan = self._planner.step(
                run.fence, step_id, draft, draining=run.draining, closes=run.is_open
            )
            if not await self._write(plan, Asked(Stop(), self._service)):
                await self._reload()  # says whether the step is there, or the run no longer ours
        run.step_id, run.text, run.is_open = new_id(), "", False
        if draft.end_reason is not None:
            self._release(run)
        elif self.memory.tree.state is State.STOPPING:
            run.stop.set()

    async def _wait(self, run: Run, approvals: tuple[Approval, ...]) -> None:
        await self._fresh()
        while not self.memory.tree.waits:
            if self.run is not run:
                raise FencedOff("This run has been ended by another process")
            plan = self._planner.waits(run.fence, approvals)
            if not await self._write(plan, Asked(Stop(), self._service)):
                await self._reload()
        self._release(run)
        if self.unheld:
            self.doubt()  # stopped at the same moment: whoever looks next closes it

    def _release(self, run: Run) -> None:
        if self.run is run:
            self.run = None
        run.ended.set()

    def _begin(self, turn_id: str, fence: int, resumes: Resume | None) -> None:
        row = self.memory.row
        self.run = run = Run(turn_id, fence, row.model, row.settings, resumes)
        context.bind(turn=run.turn_id)
        self._spawn(self._carry(run), f"run {run.turn_id}")

    async def _carry(self, run: Run) -> None:
        try:
            await self._start(self, run)
        except TurnbackError as error:
            log.warning("run lost", code=error.code)
        except Exception:
            log.exception("run failed")
        finally:
            unended = self.run is run
            self._release(run)
        if unended:  # not by a step of its own: reading again ends it, here or at the next poll
            self.doubt()
            try:
                await self.refresh()
            except TurnbackError as error:
                log.warning("run not ended yet", code=error.code)

    # -- the run of an undo

    async def write_undo(self, run: UndoRun, step: UndoStep) -> None:
        """Make what a run has come to durable. Waits and raises as `append`."""
        await self.patiently(lambda: self._enqueue(lambda: self._write_undo(run, step)))

    async def _write_undo(self, run: UndoRun, step: UndoStep) -> None:
        await self._fresh()
        while True:
            under_way = self.memory.undo
            if self.undoing is not run or under_way is None or under_way.id != run.id:
                raise FencedOff("This undo has been ended or taken over by another process")
            plan = self._planner.undo_step(under_way, run.fence, step)
            if await self._write(plan, Asked(Stop(), self._service)):
                break
            await self._reload()  # says whether the run is ours still
            step = await self._planner.undoing.caught_up(step)
        if self.memory.undo is None:
            self._release_undo(run)

    def lease_until(self, run: UndoRun) -> int:
        """Until when nobody else takes a run of this process's, in ms since the epoch."""
        last = max(run.since, self._dao.leases.beaten)
        left = last + self._settings.lease_expiry - asyncio.get_running_loop().time()
        return round((time() + left) * 1000)

    @property
    def undo_planning(self) -> UndoPlanning:
        """What makes plans of what is to be undone here."""
        return self._planner.undoing

    def look(self, principal: Principal, frames: AsyncIterator[bytes]) -> None:
        """Tell who asked for a plan, and nobody else, what a look at the world finds.

        Whoever asks for another plan looks at that one.
        """

        async def tell() -> None:
            try:
                async for frame in frames:
                    self.hub.tell_one(principal, Reply(frame))
            except TurnbackError as error:
                log.warning("plan not looked at to the end", code=error.code)

        if (before := self._looks.get(principal)) is not None:
            before.cancel()
        self._looks[principal] = task = self._spawn(tell(), "look at a plan")
        task.add_done_callback(
            lambda done: self._looks.pop(principal) if self._looks.get(principal) is done else None
        )

    def step_of(self, *, turn_id: str | None, step_id: str | None) -> str:
        """The first step of a turn on the path, or a step on it. Raises as a revert does."""
        tree = self.memory.tree
        first = tree.step_on_path(step_id or "") if turn_id is None else tree.turn_on_path(turn_id)
        return first.id

    def _release_undo(self, run: UndoRun) -> None:
        if self.undoing is run:
            self.undoing = None
        run.lose()
        run.ended.set()

    def _begin_undo(self, undo_id: str, fence: int, since: float) -> None:
        self.memory.row = replace(self.memory.row, fence=fence)
        self.undoing = run = UndoRun(undo_id, fence, since)
        if self.memory.undo is not None and self.memory.undo.stopped:
            run.stop()
        self._spawn(self._carry_undo(run), f"undo {undo_id}")

    async def _carry_undo(self, run: UndoRun) -> None:
        try:
            if self._undo_failed:  # held meanwhile, so that nobody else fails at it as fast
                pause = min(LONGEST_PAUSE, 2.0**self._undo_failed)
                with suppress(TimeoutError):
                    await asyncio.wait_for(run.leave.wait(), timeout=pause)
            if self._undo is not None:
                hit("undo.committed")
                await self._undo(self, run)
                self._undo_failed = 0
        except TurnbackError as error:
            log.warning("undo lost", code=error.code)
        except Exception:
            self._undo_failed += 1
            log.exception("undo failed")
        finally:
            unended = self.undoing is run
            self._release_undo(run)
        if unended:  # another process goes on with it soon; this one, if there is no other
            with suppress(TurnbackError):
                await self._dao.leases.give_up(self.key, fence=run.fence)
            self.doubt()

    # -- one commit

    async def _write(self, plan: Plan, asked: Asked) -> bool:
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
        if committed.revision != self.memory.revision + len(commit.notices):
            await self._reload()  # another process wrote in between: read what it said, in order
            return True
        for told in self.memory.follow(commit, plan.after, committed.revision, via=plan.via):
            self._tell(told)
        if self.undoing is not None and self.memory.undo is not None and self.memory.undo.stopped:
            self.undoing.stop()
        if plan.change is not None and plan.change.deleted:
            self._gone()
        self._start_run(plan, committed.fence, began)
        return True

    def _start_run(self, plan: Plan, fence: int, since: float) -> None:
        """Carry what a plan that was made durable begins."""
        if plan.node_id is None:
            return
        if plan.undo is not None:
            self._begin_undo(plan.undo.run.id, fence, since)
        elif plan.turn_id is not None:
            self._begin(plan.turn_id, fence, plan.resumes)

    def _tell(self, told: Told) -> None:
        self._told = told.event_seq
        self.hub.tell(told)

    # -- memory and database

    async def _fresh(self) -> None:
        """Memory as the database has it. A busy session whose run nobody holds is ended."""
        for _ in range(ATTEMPTS):
            if self.settled:
                return
            await self._reload()
            if not self.unheld:
                return
            if not await self._dao.leases.is_gone(
                self.key, expiry=self._settings.lease_expiry, grace=self._settings.lease_grace
            ):
                return
            turn = self.memory.tree.running
            if self.memory.undo is not None:
                if self.draining:
                    return
                plan = await self._planner.undo_takeover()
            elif await self.opened() is not None:
                plan = self._planner.recovery()
            else:
                plan = self._planner.interruption()
            if await self._write(plan, Asked(Stop(), self._service)):
                metrics.TAKEOVERS.inc()
                log.warning("run taken over", session=self.key.id, turn=turn)

    async def _present(self) -> None:
        """Memory as the database has it now."""
        if await self._behind():
            self.doubt()
        await self._fresh()

    async def _behind(self) -> bool:
        """Whether another process has written what memory has not."""
        revisions = await self._dao.revisions([self.key])
        return revisions.get(self.key.id, math.inf) > self.memory.revision  # absent: deleted

    async def _reload(self) -> None:
        """Read the session again, whatever memory says; a run here follows what was read."""
        self.doubt()
        doubts = self._doubts  # what is doubted while it is read is read once more
        try:
            reading = await self.memory.read()
        except SessionNotFound:
            self._gone()  # deleted by another process, or by a commit whose answer was lost
            raise
        await self._adopt(reading)
        self._settled_doubts = doubts
        undoing, under_way = self.undoing, self.memory.undo
        if undoing is not None and (
            under_way is None
            or under_way.id != undoing.id
            or self.memory.row.fence != undoing.fence
        ):
            self.undoing = None  # it has ended, or another process has it
            undoing.lose()
        elif undoing is not None and under_way is not None and under_way.stopped:
            undoing.stop()
        run = self.run
        if run is not None and run.turn_id != self.memory.tree.running:
            self.run = None  # its last step is there, or another process has ended it
            run.stop.set()
        elif run is not None and self.memory.tree.state is State.STOPPING:
            run.stop.set()

    async def _adopt(self, reading: Reading) -> None:
        """Take what was read, and tell subscribers what they have missed of it."""
        revision = reading.row.revision
        missed = await self._missed(reading.row) if len(self.hub) else []
        self.memory.adopt(reading)
        if missed is None:
            self.hub.tell(BEHIND)
        else:
            for told in missed:
                self._tell(told)
        self._told = revision
        if self._away:
            self._away = False
            self.hub.tell(Availability(reading.row.state))

    async def _missed(self, row: SessionRow) -> list[Told] | None:
        """What subscribers have to be told up to the revision of `row`.

        None where some is not kept any more, or it is more than may wait for one of them: a new
        snapshot says it all.
        """
        settings, since, revision = self._settings, self._told, row.revision
        if row.events_floor > since or revision - since > settings.ws_queue:
            return None
        missed: list[Told] = []
        size = 0
        async for told in self.memory.replay(since=since, until=revision):
            size += told.size
            if missed and size > settings.ws_queue_size:
                return None
            missed.append(told)
        return missed if len(missed) == revision - since else None

    def _gone(self) -> None:
        self.deleted = True
        self.hub.end(DELETED)

    async def _settle(self, plan: Plan, commit: Commit, error: DatabaseUnavailable) -> None:
        """Find out whether a commit whose answer was lost has been made; raise if not."""
        since, began = self.memory.revision, asyncio.get_running_loop().time()
        self.away()
        for pause in SETTLE_PAUSES:
            await asyncio.sleep(pause)
            try:
                made = await self._dao.was_committed(commit, since=since)
                await self._reload()
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
            running, under_way = self.memory.tree.running, self.memory.undo
            if plan.undo is not None:
                if under_way is not None and under_way.id == plan.undo.run.id:
                    self._start_run(plan, self.memory.row.fence, began)
            elif plan.node_id is not None and running is not None and running == plan.turn_id:
                self._begin(running, self.memory.row.fence, plan.resumes)
            return
        raise DatabaseUnavailable(
            "The database cannot be reached, and whether this was saved is not known; "
            "look at the session when it is back",
            reached=False,
            in_doubt=True,
        ) from error


def _cut_off() -> DatabaseUnavailable:
    return DatabaseUnavailable(
        "The session left memory while this was being done, and whether it was saved is not known; "
        "look at the session before you try again",
        reached=True,
        in_doubt=True,
    )


def _left() -> QueueFull:
    return QueueFull("The session has just left memory; try again")
