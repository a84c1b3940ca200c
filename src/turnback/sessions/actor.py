"""A live session: one actor, its command queue, its memory, its subscribers.

The actor takes one command at a time. `Tree` decides, the DAO commits in one statement, memory
follows, the hub is told: nothing is told before it is durable (law 1), and a commit that fails
leaves memory as it was (law 5). Memory is a cache: where the database's guard says that it is
behind, or a lost connection leaves a commit in doubt, it is dropped and read again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, assert_never

import orjson
import structlog

from turnback.agent.steps import PastStep, StepDraft
from turnback.core.edits import Edit, ReplaceWorkflow
from turnback.core.errors import (
    Archived,
    Busy,
    ContentRequired,
    DatabaseUnavailable,
    Draining,
    EditConflict,
    FencedOff,
    PreconditionFailed,
    QueueFull,
    RequestConflict,
    SessionNotFound,
    SnapshotMissing,
    TooLarge,
    TurnbackError,
)
from turnback.core.operators import CATALOG
from turnback.core.principal import Principal
from turnback.core.tree import (
    EndReason,
    Event,
    HeadMoved,
    Limits,
    NewIds,
    RedoCleared,
    RedoPopped,
    RedoPushed,
    State,
    StateChanged,
    Step,
    StepAppended,
    Tree,
)
from turnback.core.workflow import Workflow, apply, conflicts
from turnback.sessions import payloads
from turnback.sessions.broadcast import (
    BEHIND,
    DELETED,
    Availability,
    Delta,
    Hub,
    Message,
    Subscriber,
    Told,
)
from turnback.sessions.commands import (
    Asked,
    Change,
    Checkout,
    Delete,
    Done,
    EditWorkflow,
    Prompt,
    PutWorkflow,
    Redo,
    RevertStep,
    RevertTurn,
    Stop,
)
from turnback.settings import Settings
from turnback.store.dao import Dao, RequestTaken, Stored, TurnKeyTaken
from turnback.store.database import lost, unreachable
from turnback.store.ids import new_id
from turnback.store.outbox import HeadChanged, Notice, SessionChanged, Status, StepWritten
from turnback.store.rows import (
    Alive,
    Commit,
    Generating,
    Guard,
    Holder,
    Idle,
    Record,
    Request,
    SessionChange,
    SessionKey,
    SessionRow,
    Takeover,
)

log = structlog.get_logger()

ATTEMPTS = 3
"""How often a command is decided again after its guard did not hold (lineage.md 3)."""

SETTLE_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Seconds before each look for a commit whose answer was lost."""

INTERRUPTED = "Interrupted: the run was cut off before it had ended."


@dataclass(slots=True)
class Run:
    """The run that this process holds: its turn, fence, and the step now streaming."""

    turn_id: str
    fence: int
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    draining: bool = False
    step_id: str = field(default_factory=new_id)
    text: str = ""
    ended: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a command leads to: one commit, not yet made."""

    guard: Guard
    events: tuple[Event, ...] = ()
    payload: str | None = None
    after: Workflow | None = None
    blobs: dict[str, bytes] = field(default_factory=dict)
    node_id: str | None = None
    change: SessionChange | None = None
    notices: tuple[Notice, ...] = ()
    turn_id: str | None = None


@dataclass(frozen=True, slots=True)
class View:
    """The session as it is at one instant: what a snapshot frame is made of.

    `path` is the visible path, oldest first, at most as many steps as asked for; `older` is the
    step before the first of them that is visible too, where there is one.
    """

    key: SessionKey
    name: str
    state: State
    head_id: str
    workflow: Workflow | None
    revision: int
    floor: int
    redo_depth: int
    path: tuple[Step, ...]
    older: str | None
    partial: tuple[str, str, str] | None


Starter = Callable[["Actor", Run], Awaitable[None]]
"""What carries a run to its end; given in, so that the actor does not know the agent."""


class Actor:
    """One live session. Made by `Actor.open`; its coroutines may be called from any task."""

    def __init__(
        self, *, dao: Dao, principal: Principal, settings: Settings, key: SessionKey, start: Starter
    ) -> None:
        self.key = key
        self.hub = Hub()
        self.run: Run | None = None
        self.draining = False
        self.deleted = False
        self.touched = asyncio.get_running_loop().time()
        self._dao = dao
        self._owner = principal
        self._settings = settings
        self._agent = Principal("agent", principal.project_id)
        self._start = start
        self._queue: asyncio.Queue[tuple[Callable[[], Awaitable[Any]], asyncio.Future[Any]]]
        self._queue = asyncio.Queue()
        self._task = asyncio.create_task(self._serve(), name=f"session {key.id}")
        self._runs: set[asyncio.Task[None]] = set()
        self._cache: OrderedDict[str, Workflow] = OrderedDict()
        self._acting = False
        self._stale = True  # memory may be behind the database
        self._away = False  # the database could not be reached, and subscribers have been told
        self._trimmed: int | None = None
        self._told = -1  # the last revision that subscribers have been told of
        self.tree = Tree(key.id, "")
        self.row: SessionRow
        self.workflow: Workflow | None = None
        self.revision = 0

    @classmethod
    async def open(
        cls, *, dao: Dao, principal: Principal, settings: Settings, session_id: str, start: Starter
    ) -> Actor:
        """Load a session. A run whose holder is gone is ended as `interrupted` on the way.

        Raises `SessionNotFound`, `DatabaseUnavailable`.
        """
        key = await dao.key(principal, session_id)
        actor = cls(dao=dao, principal=principal, settings=settings, key=key, start=start)
        try:
            await actor.refresh()
        except BaseException:
            await actor.close()
            raise
        return actor

    # -- what others may ask

    async def ask(self, asked: Asked) -> Done:
        """Carry out a command, after those that were asked before it.

        The answer comes when the command is durable. Raises the refusals of its command,
        `QueueFull`, `DatabaseUnavailable`; then nothing has changed. Cancelling the caller does
        not cancel the command.
        """
        if self._queue.qsize() >= self._settings.command_queue:
            raise QueueFull(
                f"{self._settings.command_queue} commands wait for this session already; "
                "try again in a moment"
            )
        if isinstance(asked.command, Delete):
            await self._end_run()
        done: Done = await self._enqueue(lambda: self._perform(asked))
        return done

    async def refresh(self) -> None:
        """Read the session again if memory is behind, and end a run that nobody holds."""
        await self._enqueue(self._fresh)

    async def append(self, run: Run, step_id: str, draft: StepDraft) -> None:
        """Make the run's next step durable; with an end reason, its last.

        A database that is away for a moment is waited for. Raises `FencedOff` when the run is no
        longer this process's, `DatabaseUnavailable` when the database stays away.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.lease_expiry
        pause = 0.05
        while True:
            try:
                await self._enqueue(lambda: self._append(run, step_id, draft))
            except DatabaseUnavailable:
                if loop.time() > deadline:
                    raise
                await asyncio.sleep(pause)
                pause = min(1.0, pause * 2)
            else:
                return

    def join(self) -> tuple[Subscriber, int]:
        """A subscriber told everything after the revision returned."""
        self.touch()
        return self.hub.join(self._settings.ws_queue), self._told

    def leave(self, subscriber: Subscriber) -> None:
        """End a subscription."""
        self.touch()
        self.hub.leave(subscriber)

    def view(self, *, steps: int | None) -> View:
        """The session now, with the newest `steps` of the visible path (None: all)."""
        path: list[Step] = []
        older = None
        for step in self.tree.path():
            if steps is not None and len(path) == steps:
                older = step.id
                break
            path.append(step)
        run = self.run
        return View(
            key=self.key,
            name=self.row.name,
            state=State.UNAVAILABLE if self._away else self.tree.state,
            head_id=self.tree.head.step_id,
            workflow=self.workflow,
            revision=self._told,
            floor=self.row.events_floor,
            redo_depth=len(self.tree.redo_stack),
            path=tuple(reversed(path)),
            older=older,
            partial=(run.turn_id, run.step_id, run.text) if run and run.text else None,
        )

    def tell_delta(self, run: Run, delta: Delta) -> None:
        """Tell a piece of the streaming step; it is provisional and not stored."""
        if self.run is run:
            if delta.text is not None:
                run.text += delta.text
            delta.after = self._told
            self.hub.tell(delta)

    async def history(self, max_bytes: int) -> list[PastStep]:
        """The visible steps for the model, oldest first: the newest that fit in `max_bytes`."""
        path = list(self.tree.path())
        kinds = {step.id: self.tree.turns[step.turn_id].kind for step in path}
        newest: list[Record] = []
        size = 0
        for at in range(0, len(path), 100):
            ids = [step.id for step in path[at : at + 100]]
            records = await self._dao.records(self._owner, self.key, ids)
            newest += records
            size += sum(len(record.payload) for record in records)
            if size > max_bytes:
                break
        return [payloads.past_step(record, kinds[record.step.id]) for record in reversed(newest)]

    async def workflow_of(self, hash_: str) -> Workflow:
        """A workflow of this session by its content address. Raises `SnapshotMissing`."""
        if (held := self._cache.get(hash_)) is not None:
            self._cache.move_to_end(hash_)
            return held
        return self._hold(await self._dao.workflow(self._owner, self.key, hash_))

    def touch(self) -> None:
        """Somebody is about to use it: it stays in memory for a while."""
        self.touched = asyncio.get_running_loop().time()

    @property
    def unheld(self) -> bool:
        """Whether the session is busy with a run that this process does not carry.

        It has to be watched: its holder may die.
        """
        return self.run is None and self.tree.state is not State.AVAILABLE

    @property
    def settled(self) -> bool:
        """Whether memory is as the database was when last looked at, and nothing is `unheld`."""
        return not (self._stale or self.unheld)

    def doubt(self) -> None:
        """Memory may be behind the database: it is read again before it is used."""
        self._stale = True

    def away(self) -> None:
        """The database cannot be reached. Subscribers are told, once, until it is back."""
        self._stale = True
        if not self._away:
            self._away = True
            self.hub.tell(Availability(State.UNAVAILABLE))

    async def trim(self) -> None:
        """Drop events beyond the newest `events_kept` and older than `events_kept_days`."""
        keep = self._settings.events_kept
        if self._trimmed is None or self.revision - self._trimmed > keep // 10:
            floor = await self._dao.trim(self.key, keep=keep, days=self._settings.events_kept_days)
            self.row = replace(self.row, events_floor=floor)
            self._trimmed = self.revision

    @property
    def idle(self) -> bool:
        """Whether nobody would miss this actor in memory."""
        return not (len(self.hub) or self.run or self._acting or self._queue.qsize())

    def shut(self, closed: Message) -> None:
        """Close every subscriber."""
        self.hub.tell(closed)

    async def close(self) -> None:
        """End the actor's tasks; what is durable stays."""
        for task in (*self._runs, self._task):
            task.cancel()
        await asyncio.gather(*self._runs, self._task, return_exceptions=True)
        while not self._queue.empty():
            _, answer = self._queue.get_nowait()
            answer.cancel()

    # -- the queue

    async def _enqueue(self, act: Callable[[], Awaitable[Any]]) -> Any:
        if self._task.done():
            raise QueueFull("The session has just left memory; try again")
        self.touch()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait((act, answer))
        return await answer

    async def _serve(self) -> None:
        while True:
            act, answer = await self._queue.get()
            self._acting = True
            try:
                result = await act()
            except asyncio.CancelledError:
                answer.cancel()
                raise
            except Exception as error:
                if isinstance(error, DatabaseUnavailable) and unreachable(error):
                    self.away()
                elif not isinstance(error, TurnbackError):
                    log.exception("command failed", session=self.key.id)
                    self.doubt()
                if not answer.done():
                    answer.set_exception(error)
            else:
                if not answer.done():
                    answer.set_result(result)
            finally:
                self._acting = False

    # -- commands

    async def _perform(self, asked: Asked) -> Done:
        for _ in range(ATTEMPTS):
            try:
                await self._fresh()
                plan = await self._plan(asked)
                if not isinstance(plan, Plan):
                    again = await self._answer_again(asked)
                    return again or plan or Done(self.tree.head.step_id, self.revision)
                if await self._write(plan, asked):
                    return Done(self.tree.head.step_id, self.revision, plan.turn_id)
            except (TurnbackError, RequestTaken) as refusal:
                if not isinstance(refusal, DatabaseUnavailable):
                    again = await self._answer_again(asked)
                    if again is not None:
                        return again
                if isinstance(refusal, TurnbackError):
                    raise
            except TurnKeyTaken:
                pass
            self._stale = True
        raise Busy("The session is busy: it changed again and again meanwhile; try once more")

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
        return Done(stored.answer["headId"], stored.event_seq, stored.answer.get("turnId"))

    async def _plan(self, asked: Asked) -> Plan | Done | None:
        """What the command leads to; None: nothing; `Done`: it has been done before. Refuses."""
        command, tree = asked.command, self.tree
        if isinstance(command, Prompt) and command.turn_key in tree.turn_keys:
            return self._same_turn(tree.turn_keys[command.turn_key or ""])
        if self.row.archived_at is not None and not isinstance(command, Change | Delete | Stop):
            raise Archived("The session is archived; unarchive it to go on")
        tree.expect_head(asked.expected_head_id)
        ids = NewIds(turn=new_id(), step=new_id(), branch=new_id())
        match command:
            case Prompt():
                return self._plan_prompt(command, ids)
            case Stop():
                if self.run is not None:
                    self.run.stop.set()
                events = tree.stop()
                return Plan(guard=Generating(), events=events) if events else None
            case RevertTurn(turn_id):
                return await self._plan_move(tree.revert(turn_id))
            case RevertStep(step_id):
                return await self._plan_move(tree.revert_step(step_id))
            case Redo(all_):
                return await self._plan_move(tree.redo(all_=all_))
            case Checkout(step_id):
                return await self._plan_move(tree.checkout(step_id))
            case EditWorkflow(base_head_id, edits):
                return await self._plan_edit(base_head_id, edits, ids)
            case PutWorkflow(workflow, if_match):
                if if_match != tree.workflow:
                    raise PreconditionFailed(
                        "The workflow has changed since you read it; read it again",
                        etag=tree.workflow,
                    )
                if workflow.hash == tree.workflow:
                    return None
                edit = ReplaceWorkflow(op="replaceWorkflow", workflow=workflow.content())
                return self._plan_edited((edit,), workflow, ids)
            case Change(name, archived):
                return self._plan_change(name, archived)
            case Delete():
                if tree.state is not State.AVAILABLE:
                    raise Busy("Cannot delete while the agent is busy; stop it first")
                return Plan(
                    guard=Idle(self.revision),
                    change=SessionChange(deleted=True),
                    notices=(SessionChanged("deleted"),),
                )
            case _:
                assert_never(command)

    def _same_turn(self, turn_id: str) -> Done:
        return Done(self.tree.head.step_id, self.revision, turn_id)

    def _plan_prompt(self, command: Prompt, ids: NewIds) -> Plan:
        if not command.content.strip():
            raise ContentRequired("Message content is required")
        limit = self._settings.max_prompt_bytes
        if len(command.content.encode()) > limit:
            raise TooLarge(
                f"A prompt may have {limit} bytes (`max_prompt_bytes`)",
                limit="max_prompt_bytes",
                value=limit,
            )
        events = self.tree.prompt(ids, key=command.turn_key)
        if self.draining:
            raise Draining("The server is going down and starts no new run; try again in a moment")
        return Plan(
            guard=Idle(self.revision, claims=True),
            events=events,
            payload=payloads.of_prompt(command.content, command.message_source),
            after=self._present(),
            node_id=self._dao.node_id,
            turn_id=ids.turn,
        )

    async def _plan_move(self, events: tuple[Event, ...]) -> Plan:
        [moved] = [event for event in events if isinstance(event, HeadMoved)]
        return Plan(
            guard=Idle(self.revision),
            events=events,
            after=await self.workflow_of(moved.workflow),
        )

    async def _plan_edit(
        self, base_head_id: str, edits: tuple[Edit, ...], ids: NewIds
    ) -> Plan | None:
        self.tree.edit(ids, self.tree.workflow)  # busy is said before anything about the edit
        base_hash = self.tree.workflow_at(self.tree.position(base_head_id).step_id)
        here = self._present()
        if base_hash != here.hash:
            base = await self.workflow_of(base_hash)
            if both := conflicts(edits, base=base, head=here):
                raise EditConflict(
                    "What you edited has changed meanwhile; look at it again",
                    headId=self.tree.head.step_id,
                    baseHeadId=base_head_id,
                    conflicts=[{"kind": kind, "id": id_} for kind, id_ in sorted(both)],
                )
        after = apply(
            here,
            edits,
            new_link_id=new_link_id,
            known_types=CATALOG.known,
            max_bytes=self._settings.max_workflow_bytes,
            max_depth=self._settings.max_json_depth,
        )
        if after.hash == here.hash:
            return None
        return self._plan_edited(edits, after, ids)

    def _plan_edited(self, edits: tuple[Edit, ...], after: Workflow, ids: NewIds) -> Plan:
        return Plan(
            guard=Idle(self.revision),
            events=self.tree.edit(ids, after.hash),
            payload=payloads.of_edit(edits),
            after=after,
            blobs=after.blobs(since=self.workflow),
            turn_id=ids.turn,
        )

    def _plan_change(self, name: str | None, archived: bool | None) -> Plan | None:
        notices: list[Notice] = []
        if name is not None and name != self.row.name:
            notices.append(SessionChanged("name", name=name))
        if archived is not None and archived != (self.row.archived_at is not None):
            if archived and self.tree.state is not State.AVAILABLE:
                raise Busy("Cannot archive while the agent is busy; stop it first")
            notices.append(SessionChanged("archived", archived=archived))
        if not notices:
            return None
        return Plan(
            guard=Idle(self.revision) if archived else Alive(),
            change=SessionChange(name=name, archived=archived),
            notices=tuple(notices),
        )

    def _present(self) -> Workflow:
        if self.workflow is None:
            raise SnapshotMissing(
                "The stored workflow at HEAD is damaged; revert to an earlier turn, or check "
                "another step out"
            )
        return self.workflow

    async def _end_run(self) -> None:
        """Stop the run of this session, if there is one here, and wait for its end."""
        if (run := self.run) is not None:
            await self._enqueue(lambda: self._perform(Asked(Stop(), self._owner)))
            await run.ended.wait()

    # -- a run's steps

    async def _append(self, run: Run, step_id: str, draft: StepDraft) -> None:
        end, payload = draft.end_reason, payloads.of_draft(draft)
        if end is EndReason.STOPPED and run.draining:
            end, payload = EndReason.INTERRUPTED, payloads.of_note(INTERRUPTED)
        await self._fresh()
        while step_id not in self.tree.steps:  # it is there if a commit in doubt had been made
            if self.run is not run:
                raise FencedOff("This run has been ended by another process")
            plan = Plan(
                guard=Holder(run.fence, self.tree.head.step_id),
                events=self.tree.append(step_id, draft.after.hash, end),
                payload=payload,
                after=draft.after,
                blobs=draft.after.blobs(since=self.workflow)
                if draft.after is not self.workflow
                else {},
            )
            if not await self._write(plan, Asked(Stop(), self._agent)):
                await self._reload()  # says whether the step is there, or the run no longer ours
        run.step_id, run.text = new_id(), ""
        if end is not None:
            self._release(run)
        elif self.tree.state is State.STOPPING:
            run.stop.set()

    def _release(self, run: Run) -> None:
        if self.run is run:
            self.run = None
        run.ended.set()

    def _begin(self, run: Run) -> None:
        self.run = run
        task = asyncio.create_task(self._carry(run), name=f"run {run.turn_id}")
        self._runs.add(task)
        task.add_done_callback(self._runs.discard)

    async def _carry(self, run: Run) -> None:
        try:
            await self._start(self, run)
        except TurnbackError as error:
            log.warning("run lost", session=self.key.id, turn=run.turn_id, code=error.code)
        except Exception:
            log.exception("run failed", session=self.key.id, turn=run.turn_id)
        finally:
            unended = self.run is run
            self._release(run)
        if unended:  # not by a step of its own: reading again ends it, here or at the next poll
            self.doubt()
            try:
                await self.refresh()
            except TurnbackError as error:
                log.warning("run not ended yet", session=self.key.id, code=error.code)

    # -- one commit

    async def _write(self, plan: Plan, asked: Asked) -> bool:
        """Make a plan durable, follow it, tell it. False: its guard did not hold."""
        commit = self._commit(plan, asked)
        try:
            committed = await self._dao.commit(commit)
        except DatabaseUnavailable as error:
            if not lost(error):
                raise
            await self._settle(plan, commit, error)
            return True
        if committed is None:
            return False
        if committed.revision != self.revision + len(commit.notices):
            await self._reload()  # another process wrote in between: read what it said, in order
            return True
        self._follow(plan, commit, committed.revision)
        if plan.node_id is not None and plan.turn_id is not None:
            self._begin(Run(plan.turn_id, committed.fence))
        return True

    def _commit(self, plan: Plan, asked: Asked) -> Commit:
        request = None
        if asked.request_id is not None:
            head = next(
                (e for e in reversed(plan.events) if isinstance(e, StepAppended | HeadMoved)), None
            )
            head_id = self.tree.head.step_id
            if isinstance(head, StepAppended):
                head_id = head.step.id
            elif isinstance(head, HeadMoved):
                head_id = head.to.step_id
            answer = {"headId": head_id} | ({"turnId": plan.turn_id} if plan.turn_id else {})
            request = Request(asked.request_id, asked.fingerprint, orjson.dumps(answer).decode())
        return Commit(
            id=new_id(),
            key=self.key,
            principal=asked.principal.id,
            now=now_ms(),
            guard=plan.guard,
            events=plan.events,
            notices=plan.notices + self._notices(plan.events, asked.principal.id),
            payload=plan.payload,
            blobs=plan.blobs,
            request=request,
            node_id=plan.node_id,
            change=plan.change,
        )

    def _notices(self, events: Iterable[Event], by: str) -> tuple[Notice, ...]:
        """What is told of events, in their order (protocol.md, order)."""
        depth = len(self.tree.redo_stack)
        notices: list[Notice] = []
        for event in events:
            match event:
                case RedoPushed():
                    depth = min(depth + 1, self._settings.max_redo_depth)
                case RedoPopped(count):
                    depth -= count
                case RedoCleared():
                    depth = 0
                case StateChanged(state):
                    notices.append(Status(state))
                case StepAppended(step):
                    notices.append(StepWritten(step.id))
                case HeadMoved(to, workflow, cause):
                    notices.append(HeadChanged(to.step_id, workflow, depth, cause, by))
                case _:
                    pass  # bookkeeping that no client is told of
        return tuple(notices)

    def _follow(self, plan: Plan, commit: Commit, revision: int) -> None:
        before = self.workflow
        self.tree.apply(plan.events)
        if plan.after is not None:
            self.workflow = self._hold(plan.after)
        first = revision - len(commit.notices) + 1
        self.revision = revision
        for event_seq, notice in enumerate(commit.notices, first):
            told = Told(event_seq, notice, after=self.workflow)
            if isinstance(notice, StepWritten):
                step = self.tree.steps[notice.step_id]
                told.before = before
                told.record = Record(
                    step, commit.payload or "{}", commit.principal, event_seq, commit.now
                )
            self._tell(told)
        if plan.change is not None:
            self._change_row(plan.change, commit.now)

    def _change_row(self, change: SessionChange, now: datetime) -> None:
        if change.name is not None:
            self.row = replace(self.row, name=change.name)
        if change.archived is not None:
            self.row = replace(self.row, archived_at=now if change.archived else None)
        if change.deleted:
            self.deleted = True
            self.hub.tell(DELETED)

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
            if not await self._dao.holder_is_gone(self.key, expiry=self._settings.lease_expiry):
                return
            interrupted = Plan(
                guard=Takeover(self.row.fence, self.tree.head.step_id),
                events=self.tree.append(new_id(), self.tree.workflow, EndReason.INTERRUPTED),
                payload=payloads.of_note(INTERRUPTED),
            )
            await self._write(interrupted, Asked(Stop(), self._agent))

    async def _reload(self) -> None:
        """Read the session again, whatever memory says; a run here follows what was read."""
        self._stale = True
        try:
            stored = await self._dao.load(self._owner, self.key.id)
        except SessionNotFound:
            self.deleted = True  # by another process, or by a commit whose answer was lost
            self.hub.tell(DELETED)
            raise
        await self._adopt(stored)
        run = self.run
        if run is not None and run.turn_id != self.tree.running:
            self.run = None  # its last step is there, or another process has ended it
            run.stop.set()
        elif run is not None and self.tree.state is State.STOPPING:
            run.stop.set()

    async def _adopt(self, stored: Stored) -> None:
        """Take what was loaded, and tell subscribers what they have missed of it."""
        row = stored.row
        tree = Tree(
            self.key.id,
            row.initial_hash,
            limits=Limits(
                max_redo_depth=self._settings.max_redo_depth,
                max_branch_segments=self._settings.max_branch_segments,
            ),
            state=row.state,
            head=row.head,
            redo_stack=stored.redo,
        )
        tree.adopt(branches=stored.branches, turns=stored.turns, steps=stored.steps)
        try:
            workflow = await self.workflow_of(tree.workflow)
        except SnapshotMissing:
            workflow = None
        since = self._told if self._told >= 0 else row.revision
        missed = await self.replay(since=since, until=row.revision)
        self.tree, self.row, self.workflow = tree, row, workflow
        self.revision, self._stale = row.revision, False
        if len(missed) == row.revision - since:
            for told in missed:
                self._tell(told)
        else:
            self.hub.tell(BEHIND)  # they were forgotten: who connects again gets a snapshot
        self._told = row.revision
        if self._away:
            self._away = False
            self.hub.tell(Availability(tree.state))

    async def replay(self, *, since: int, until: int) -> list[Told]:
        """The durable notices with `since < eventSeq <= until`, with what their frames need."""
        if since >= until:
            return []
        events = await self._dao.events(self._owner, self.key, since=since, until=until)
        ids = [notice.step_id for _, notice in events if isinstance(notice, StepWritten)]
        records = {r.step.id: r for r in await self._dao.records(self._owner, self.key, ids)}
        hashes = {notice.workflow for _, notice in events if isinstance(notice, HeadChanged)}
        hashes |= {h for r in records.values() for h in (r.step.before, r.step.after)}
        found = await self._dao.workflows(self._owner, self.key, hashes)
        told = []
        for event_seq, notice in events:
            item = Told(event_seq, notice)
            if isinstance(notice, StepWritten):
                item.record = records[notice.step_id]
                item.before = found.get(item.record.step.before)
                item.after = found.get(item.record.step.after)
            elif isinstance(notice, HeadChanged):
                item.after = found.get(notice.workflow)
            told.append(item)
        return told

    async def _settle(self, plan: Plan, commit: Commit, error: DatabaseUnavailable) -> None:
        """Find out whether a commit whose answer was lost has been made; raise if not."""
        since = self.revision
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
            if plan.node_id is not None and plan.turn_id and plan.turn_id == self.tree.running:
                self._begin(Run(plan.turn_id, self.row.fence))
            return
        raise DatabaseUnavailable(
            "The database cannot be reached, and whether this was saved is not known; "
            "look at the session when it is back",
            reached=False,
            in_doubt=True,
        ) from error

    def _hold(self, workflow: Workflow) -> Workflow:
        held = self._cache.setdefault(workflow.hash, workflow)
        self._cache.move_to_end(held.hash)
        while len(self._cache) > self._settings.snapshot_cache:
            self._cache.popitem(last=False)
        return held


def now_ms() -> datetime:
    """The time, as records carry it: UTC, to the millisecond."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def new_link_id() -> str:
    """A link id that no workflow has or will have."""
    return f"link-{new_id()}"
