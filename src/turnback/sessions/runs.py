"""The runs that this process carries of one session: at most a turn's, or an undo's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import structlog

from turnback.core.errors import TurnbackError
from turnback.core.run_settings import RunSettings
from turnback.core.tree import State
from turnback.failpoints import hit
from turnback.sessions.memory import Memory
from turnback.sessions.plans import Plan, Resume
from turnback.sessions.tasks import Tasks
from turnback.store.ids import new_id
from turnback.store.leases import Leases
from turnback.telemetry import context

log = structlog.get_logger()

LONGEST_PAUSE = 60.0
"""Seconds between two tries to carry an undo that fails in a way that nobody has foreseen."""


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


async def _nothing(*_: object) -> None:
    """What is done where nothing is carried any more."""


class Runs:
    """What is carried here of one session, and what `memory` says is carried.

    `carry` and `carry_undo` take a run to its end, or until it is another process's; `reread`
    reads the session again, which ends a run that nobody holds.
    """

    def __init__(
        self,
        *,
        memory: Memory,
        leases: Leases,
        tasks: Tasks,
        carry: Callable[[Run], Awaitable[None]],
        carry_undo: Callable[[UndoRun], Awaitable[None]] | None,
        reread: Callable[[], Awaitable[None]],
    ) -> None:
        self.run: Run | None = None
        self.undo: UndoRun | None = None
        self.draining = False
        """Whether this process begins no run any more."""
        self._memory = memory
        self._leases = leases
        self._tasks = tasks
        self._carry = carry
        self._carry_undo = carry_undo
        self._reread = reread
        self._undo_failed = 0  # times in a row that carrying an undo has failed unforeseen

    def close(self) -> None:
        """Carry nothing more, and let go of who had it carried, who is freed at once then."""
        self._carry = self._carry_undo = self._reread = _nothing

    @property
    def busy(self) -> bool:
        """Whether a run is under way, here or elsewhere, as far as memory knows."""
        return self._memory.tree.state is not State.AVAILABLE

    @property
    def unheld(self) -> bool:
        """Whether the session is busy with a run that this process does not carry.

        It has to be watched: its holder may die. A turn that waits for a person has none, unless it
        was stopped just when it began to wait.
        """
        if self._memory.undo is not None:
            return self.undo is None
        waits = self._memory.tree.waits and self._memory.tree.state is State.GENERATING
        return self.run is None and self.busy and not waits

    def start(self, plan: Plan, fence: int, since: float) -> None:
        """Carry what a plan that was made durable begins."""
        if plan.node_id is None:
            return
        if plan.undo is not None:
            self.begin_undo(plan.undo.run.id, fence, since)
        elif plan.turn_id is not None:
            self.begin(plan.turn_id, fence, plan.resumes)

    def found(self, plan: Plan, since: float) -> None:
        """Carry what a plan begins that was found to be durable, if it still is under way."""
        running, under_way = self._memory.tree.running, self._memory.undo
        fence = self._memory.row.fence
        if plan.undo is not None:
            if under_way is not None and under_way.id == plan.undo.run.id:
                self.start(plan, fence, since)
        elif running is not None and running == plan.turn_id:
            self.start(plan, fence, since)

    def begin(self, turn_id: str, fence: int, resumes: Resume | None) -> None:
        """Carry a turn's run."""
        row = self._memory.row
        self.run = run = Run(turn_id, fence, row.model, row.settings, resumes)
        context.bind(turn=run.turn_id)
        self._tasks.spawn(self._to_its_end(run), f"run {run.turn_id}")

    def begin_undo(self, undo_id: str, fence: int, since: float) -> None:
        """Carry an undo's run, claimed at `since` by the loop's clock."""
        self._memory.row = replace(self._memory.row, fence=fence)
        self.undo = run = UndoRun(undo_id, fence, since)
        self.heed_stop()
        self._tasks.spawn(self._undo_to_its_end(run), f"undo {undo_id}")

    def heed_stop(self) -> None:
        """Begin nothing more of an undo that has been stopped."""
        under_way = self._memory.undo
        if self.undo is not None and under_way is not None and under_way.stopped:
            self.undo.stop()

    def follow(self) -> None:
        """What is carried here is what memory, just read, says is."""
        undo, under_way = self.undo, self._memory.undo
        if undo is not None and (
            under_way is None or under_way.id != undo.id or self._memory.row.fence != undo.fence
        ):
            self.undo = None  # it has ended, or another process has it
            undo.lose()
        self.heed_stop()
        run = self.run
        if run is not None and run.turn_id != self._memory.tree.running:
            self.run = None  # its last step is there, or another process has ended it
            run.stop.set()
        elif run is not None and self._memory.tree.state is State.STOPPING:
            run.stop.set()

    def release(self, run: Run) -> None:
        """It has ended, or waits for a person."""
        if self.run is run:
            self.run = None
        run.ended.set()

    def release_undo(self, run: UndoRun) -> None:
        """It has ended, or is another process's to carry."""
        if self.undo is run:
            self.undo = None
        run.lose()
        run.ended.set()

    async def _to_its_end(self, run: Run) -> None:
        try:
            await self._carry(run)
        except TurnbackError as error:
            log.warning("run lost", code=error.code)
        except Exception:
            log.exception("run failed")
        finally:
            unended = self.run is run
            self.release(run)
        if unended:  # not by a step of its own: reading again ends it, here or at the next poll
            self._memory.doubt()
            try:
                await self._reread()
            except TurnbackError as error:
                log.warning("run not ended yet", code=error.code)

    async def _undo_to_its_end(self, run: UndoRun) -> None:
        try:
            if self._undo_failed:  # held meanwhile, so that nobody else fails at it as fast
                pause = min(LONGEST_PAUSE, 2.0**self._undo_failed)
                with suppress(TimeoutError):
                    await asyncio.wait_for(run.leave.wait(), timeout=pause)
            if self._carry_undo is not None:
                hit("undo.committed")
                await self._carry_undo(run)
                self._undo_failed = 0
        except TurnbackError as error:
            log.warning("undo lost", code=error.code)
        except Exception:
            self._undo_failed += 1
            log.exception("undo failed")
        finally:
            unended = self.undo is run
            self.release_undo(run)
        if unended:  # another process goes on with it soon; this one, if there is no other
            with suppress(TurnbackError):
                await self._leases.give_up(self._memory.key, fence=run.fence)
            self._memory.doubt()
