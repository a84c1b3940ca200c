"""What the runs of a session make durable: a turn's steps and approvals, an undo's progress.

A database that is away for a moment is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from time import time
from typing import Any, TypeVar

from turnback.agent.steps import StepDraft
from turnback.core.approvals import Approval
from turnback.core.errors import DatabaseUnavailable, FencedOff
from turnback.core.principal import Principal
from turnback.core.tree import State
from turnback.sessions.broadcast import Delta, Hub
from turnback.sessions.commands import Asked, Stop
from turnback.sessions.durable import Durable
from turnback.sessions.memory import Memory
from turnback.sessions.planning import Planner
from turnback.sessions.queue import Queue
from turnback.sessions.runs import Run, Runs, UndoRun
from turnback.settings import Settings
from turnback.store.dao import Dao
from turnback.store.effect_reader import Logged
from turnback.store.effects import OpenStep
from turnback.store.ids import new_id
from turnback.undo.runner import Step as UndoStep

T = TypeVar("T")


class RunProgress:
    """How the runs of one session go on, for whoever carries them."""

    def __init__(
        self,
        *,
        dao: Dao,
        service: Principal,
        settings: Settings,
        memory: Memory,
        planner: Planner,
        queue: Queue,
        durable: Durable,
        runs: Runs,
        hub: Hub,
    ) -> None:
        self._dao = dao
        self._service = service
        self._settings = settings
        self._memory = memory
        self._planner = planner
        self._queue = queue
        self._durable = durable
        self._runs = runs
        self._hub = hub

    async def append(self, run: Run, step_id: str, draft: StepDraft) -> None:
        """Make the run's next step durable; with an end reason, its last.

        A database that is away for a moment is waited for. Raises `FencedOff` when the run is no
        longer this process's, `DatabaseUnavailable` when the database stays away.
        """
        await self._patiently(lambda: self._queue.do(lambda: self._append(run, step_id, draft)))

    async def open_step(
        self, run: Run, draft: Mapping[str, Any], *, is_secret: bool = False
    ) -> None:
        """Make the run's step durable before its calls are made. Waits and raises as `append`."""
        step = OpenStep(run.step_id, run.turn_id, draft, is_secret)
        head = self._memory.tree.head.step_id
        await self._patiently(
            lambda: self._dao.effects.open(
                self._memory.key, fence=run.fence, head_step=head, step=step
            )
        )
        run.is_open = True

    async def opened(self) -> OpenStep | None:
        """The step that is open. Raises `DatabaseUnavailable`."""
        return await self._dao.effects.opened(self._memory.key)

    async def logged(self, step_id: str) -> list[Logged]:
        """What the log has of a step's calls. Raises `DatabaseUnavailable`."""
        return await self._dao.effects.of_step(self._memory.key, step_id)

    async def wait(self, run: Run, approvals: tuple[Approval, ...]) -> None:
        """End the run where a person has to decide about calls. Waits and raises as `append`."""
        await self._patiently(lambda: self._queue.do(lambda: self._wait(run, approvals)))

    def tell_delta(self, run: Run, delta: Delta) -> None:
        """Tell a piece of the streaming step; it is provisional and not stored."""
        if self._runs.run is run:
            if delta.text is not None:
                run.text += delta.text
            delta.after = self._durable.told
            self._hub.tell(delta)

    async def write_undo(self, run: UndoRun, step: UndoStep) -> None:
        """Make what a run has come to durable. Waits and raises as `append`."""
        await self._patiently(lambda: self._queue.do(lambda: self._write_undo(run, step)))

    def lease_until(self, run: UndoRun) -> int:
        """Until when nobody else takes a run of this process's, in ms since the epoch."""
        last = max(run.since, self._dao.leases.beaten)
        left = last + self._settings.lease_expiry - asyncio.get_running_loop().time()
        return round((time() + left) * 1000)

    async def _patiently(self, act: Callable[[], Awaitable[T]]) -> T:
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

    async def _append(self, run: Run, step_id: str, draft: StepDraft) -> None:
        await self._durable.fresh()
        # It is there already if a commit in doubt had been made.
        while step_id not in self._memory.tree.steps:
            if self._runs.run is not run:
                raise FencedOff("This run has been ended by another process")
            plan = self._planner.step(
                run.fence, step_id, draft, draining=run.draining, closes=run.is_open
            )
            if not await self._durable.write(plan, Asked(Stop(), self._service)):
                # It says whether the step is there, or the run no longer ours.
                await self._durable.reload()
        run.step_id, run.text, run.is_open = new_id(), "", False
        if draft.end_reason is not None:
            self._runs.release(run)
        elif self._memory.tree.state is State.STOPPING:
            run.stop.set()

    async def _wait(self, run: Run, approvals: tuple[Approval, ...]) -> None:
        await self._durable.fresh()
        while not self._memory.tree.waits:
            if self._runs.run is not run:
                raise FencedOff("This run has been ended by another process")
            plan = self._planner.waits(run.fence, approvals)
            if not await self._durable.write(plan, Asked(Stop(), self._service)):
                await self._durable.reload()
        self._runs.release(run)
        if self._runs.unheld:
            self._memory.doubt()  # stopped at the same moment: whoever looks next closes it

    async def _write_undo(self, run: UndoRun, step: UndoStep) -> None:
        await self._durable.fresh()
        while True:
            under_way = self._memory.undo
            if self._runs.undo is not run or under_way is None or under_way.id != run.id:
                raise FencedOff("This undo has been ended or taken over by another process")
            plan = self._planner.undo_step(under_way, run.fence, step)
            if await self._durable.write(plan, Asked(Stop(), self._service)):
                break
            await self._durable.reload()  # says whether the run is ours still
            step = await self._planner.undoing.caught_up(step)
        if self._memory.undo is None:
            self._runs.release_undo(run)
