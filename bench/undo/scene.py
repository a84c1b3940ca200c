"""One task in one world: its calls made by the real call path, and what they did taken back."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

from agentdojo.functions_runtime import FunctionCall

from bench.undo.carrying import Ended, carry
from bench.undo.dojo import Dojo, Leaves, Task
from bench.world import ByHand, Store
from turnback.core.contracts.model import Contract
from turnback.core.drift import LedgerEntry
from turnback.core.effects import Effect, Json, ResourceKey
from turnback.sessions.actor import Actor, Run
from turnback.store.effects import Logged
from turnback.store.ids import new_id
from turnback.tools import overlays
from turnback.tools.calls import Answered, CallLimits, Calls
from turnback.tools.registry import Registry
from turnback.tools.settle import Place

HERE = File(__file__).parent
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Tier:
    """What tools there are beside a suite's own, and what is declared of all of them, by suite."""

    name: str
    contracts: Mapping[str, Mapping[str, Contract]]
    adapters: Mapping[str, Mapping[str, Callable[..., Any]]] = field(default_factory=dict)


def read(name: str) -> dict[str, Mapping[str, Contract]]:
    """The contracts of a file beside this one, by suite."""
    return {suite: of.contracts for suite, of in overlays.read(HERE / name).items()}


@dataclass
class Scene:
    """A task's world, the session that acts on it, and the worlds before and after the calls."""

    task: Task
    dojo: Dojo
    store: Store
    actor: Actor
    run: Run
    registry: Registry
    calls: Calls
    before: Leaves
    after: Leaves = field(default_factory=dict)
    steps: dict[str, Leaves] = field(default_factory=dict)

    async def forward(self) -> None:
        """Make the task's ground-truth calls, each with nothing known but what the log has."""
        for call in self.task.calls(self.dojo.environment):
            await self.make(call.function, _plain(call.args))
        self.after = self.dojo.leaves

    async def make(self, name: str, args: Mapping[str, Json]) -> Answered:
        """Make one call."""
        tool = self.registry.get(self.dojo.name, name)
        assert tool is not None, name
        assert tool.why is None, tool.why
        place = Place(
            key=self.actor.key,
            project_id=self.actor.project_id,
            turn_id=self.run.turn_id,
            step_id=self.run.step_id,
            fence=self.run.fence,
        )
        tool_call_id = new_id()
        answer = await self.calls.call(
            self.dojo,
            tool,
            args,
            place,
            tool_call_id=tool_call_id,
            approval=None,
            stop=asyncio.Event(),
        )
        assert isinstance(answer, Answered)
        self.steps[tool_call_id] = self.dojo.leaves
        return answer

    async def effects(self) -> list[Logged]:
        """What the log has of them that stands."""
        return await self.store.dao.effects.standing(self.actor.key)

    async def ledger(self, effects: list[Effect]) -> dict[ResourceKey, list[LedgerEntry]]:
        """The ledger of what they touched."""
        touched = {touch.resource for effect in effects for touch in effect.touches}
        return await self.store.dao.ledger.entries(self.actor.project_id, touched)

    async def undo(self, earlier: Ended | None = None, **options: Any) -> Ended:
        """Plan for all that stands, and carry the plan out."""
        return await carry(self, earlier, **options)


def _plain(args: Mapping[str, Any]) -> dict[str, Json]:
    assert not any(isinstance(value, FunctionCall) for value in args.values())
    return {name: list(v) if isinstance(v, tuple) else v for name, v in args.items()}


@asynccontextmanager
async def scene(
    store: Store, task: Task, tier: Tier, *, shared: Scene | None = None
) -> AsyncIterator[Scene]:
    """A task's world, fresh or another scene's, and a session at a step that may call tools."""
    name = f"{task.suite}_{next(_numbers)}"  # the ledger of one is none of another's
    adapters = tier.adapters.get(task.suite, {})
    dojo = Dojo(name, task.make(), task.functions, adapters) if shared is None else shared.dojo
    name = dojo.name
    registry = Registry(overlays={name: tier.contracts[task.suite]})
    registry.put(name, await dojo.tools())
    settings = store.settings.model_copy(update={"approval": "never"})
    dao = store.dao
    calls = Calls(
        effects=dao.effects, ledger=dao.ledger, locks=dao.locks, limits=CallLimits.of(settings)
    )
    hand = ByHand()
    session = await store.session()
    async with store.actor(session, hand.start) as actor:
        run = await hand.prompt(actor)
        await actor.open_step(run, {"content": "", "toolCalls": []})
        before = dojo.leaves
        yield Scene(task, dojo, store, actor, run, registry, calls, before)
