"""Carrying the run of an undo: the runner goes through the tools, the actor makes it durable."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from turnback.core.effects import Effect
from turnback.core.undo.actions import Delegated
from turnback.sessions.actor import Actor
from turnback.sessions.outside import OutsideTools
from turnback.sessions.runs import UndoRun
from turnback.sessions.undo_agent import UndoAgents
from turnback.sessions.undoing import undo_limits
from turnback.settings import Settings
from turnback.store.dao import Dao
from turnback.tools.settle import Place
from turnback.undo.gatekeeping import Gatekeeper
from turnback.undo.runner import RunnerLimits, Step, UndoRunner

if TYPE_CHECKING:
    from turnback.agent.models import ChatModel


class UndoCarrier:
    """Starts the runs of undos with the tools that this process reaches."""

    def __init__(
        self,
        dao: Dao,
        settings: Settings,
        outside: OutsideTools,
        model_for: Callable[[str], Awaitable[ChatModel]],
    ) -> None:
        self._dao = dao
        self._outside = outside
        self._agents = UndoAgents(settings, model_for, outside)
        self._runner = UndoRunner(
            reach=outside,
            locks=dao.locks,
            settling=outside.calls.settling,
            limits=RunnerLimits(
                tool_timeout=settings.tool_timeout,
                lock_expiry=settings.lock_expiry,
                lock_patience=settings.lock_patience,
                lease_expiry=settings.lease_expiry,
                undo=undo_limits(settings),
            ),
        )

    async def __call__(self, actor: Actor, run: UndoRun) -> None:
        """Carry a run on to its end, or until it is to be left.

        Raises as `RunProgress.write_undo`.
        """
        await self._outside.refresh()
        carried = await self._dao.undo_runs.carried(actor.key, run.id)
        touched = dict.fromkeys(
            touch.resource for one in carried.logged.values() for touch in one.effect.touches
        )
        ledger = await self._dao.ledger.entries(actor.project_id, touched)
        hands = _Hands(self._dao, actor, run, self._agents)
        await self._runner.carry(actor.key, actor.project_id, carried, hands, ledger=ledger)


class _Hands:
    """An actor, as the runner has it."""

    def __init__(self, dao: Dao, actor: Actor, run: UndoRun, agents: UndoAgents) -> None:
        self._agents = agents
        self.leave, self.stopping = run.leave, run.stopping
        self._dao = dao
        self._actor = actor
        self._run = run

    async def commit(self, step: Step) -> None:
        await self._actor.progress.write_undo(self._run, step)

    async def is_held(self) -> bool:
        return await self._dao.undo_runs.is_held(
            self._actor.key, self._run.id, fence=self._run.fence
        )

    def lease_until(self) -> int:
        return self._actor.progress.lease_until(self._run)

    def is_stopped(self) -> bool:
        under_way = self._actor.memory.undo
        return under_way is not None and under_way.id == self._run.id and under_way.stopped

    async def offset(self, effect: Effect, gate: Gatekeeper) -> Delegated:
        actor, stop = self._actor, asyncio.Event()
        place = Place(
            key=actor.key,
            project_id=actor.project_id,
            turn_id=effect.turn_id,
            step_id=effect.step_id,
            fence=self._run.fence,
            undo_id=self._run.id,
        )

        async def left() -> None:
            await self.leave.wait()
            stop.set()

        leaving = asyncio.create_task(left())
        try:
            model = actor.memory.row.model
            return await self._agents.offset(effect, place, gate, model=model, stop=stop)
        finally:
            leaving.cancel()

    async def pause(self, seconds: float) -> None:
        if self.is_stopped():
            self._run.woken.clear()  # the run knows it already
        with suppress(TimeoutError):
            await asyncio.wait_for(self._run.woken.wait(), timeout=seconds)
