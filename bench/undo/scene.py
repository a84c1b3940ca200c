"""One world with a session that acts on it, and the undo of what it did; all of it by the service.

The agent's calls go the way of every call: the loop, the open step, the log, the locks. Undo goes
over the routes that a client has: a plan, a click on it, the report.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

from bench.undo.dojo import Arrived, Dojo, Leaves, Task, ToolCall, differing
from bench.undo.service import Service, Undone
from turnback.core.contracts.model import Contract
from turnback.tools import overlays

HERE = File(__file__).parent
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Tier:
    """What tools there are beside a suite's own, and what is declared of all of them, by suite.

    `keeps_keys`: the world knows a call again by its key.
    """

    name: str
    contracts: Mapping[str, Mapping[str, Contract]]
    adapters: Mapping[str, Mapping[str, Callable[..., Any]]] = field(default_factory=dict)
    keeps_keys: bool = False


def read(name: str) -> dict[str, Mapping[str, Contract]]:
    """The contracts of a file beside this one, by suite."""
    return {suite: of.contracts for suite, of in overlays.read(HERE / name).items()}


@dataclass
class Scene:
    """A world, and a session that acts on it; `before` is the world as it was at first.

    `theirs` is what strangers have left at each path that they wrote, None where it is gone.
    `residues` has what the last undo of each effect has left of it.
    """

    task: Task
    dojo: Dojo
    service: Service
    session: str
    before: Leaves
    reads: frozenset[str] = frozenset()
    turns: list[str] = field(default_factory=list)
    theirs: Leaves = field(default_factory=dict)
    residues: dict[str, Any] = field(default_factory=dict)

    async def make(self, *calls: ToolCall) -> None:
        """One turn, in which the agent makes these calls."""
        began = len(self.dojo.arrived)
        self.turns.append(await self.service.turn(self.session, self.dojo.name, calls))
        arrived = {one.tool for one in self.dojo.arrived[began:]}
        missing = {name for name, _ in calls} - arrived
        assert not missing, f"{self.task.id}: the turn did not come to {missing}"
        assert not self.service.refused(self.dojo.name), self.service.refused(self.dojo.name)
        self.reads = self.service.reads(self.dojo.name)

    def stranger(self, act: Callable[[Any], object]) -> None:
        """Somebody else does something to the world."""
        before = self.dojo.leaves
        act(self.dojo.environment)
        after = self.dojo.leaves
        self.theirs |= {path: after.get(path) for path in differing(before, after)}

    async def undo(self, **asked: Any) -> Undone | None:
        """All that the session did, taken back; None where nothing stands."""
        return await self.service.undo(self.session, turn_ids=self.turns, **asked)

    def writes(self, since: int) -> list[Arrived]:
        """The calls, no reads, that reached the world after the first `since` of all."""
        return [one for one in self.dojo.arrived[since:] if one.tool not in self.reads]


@asynccontextmanager
async def scene(
    service: Service, task: Task, tier: Tier, *, shared: Scene | None = None
) -> AsyncIterator[Scene]:
    """A task's world, fresh or another scene's, and a session in it that has done nothing yet."""
    if shared is not None:
        yield Scene(task, shared.dojo, service, await service.session(), shared.before)
        return
    name = f"{task.suite}_{next(_numbers)}"  # the ledger of one is none of another's
    dojo = Dojo(name, task.make(), task.functions, tier.adapters.get(task.suite, {}))
    async with service.connected(dojo, tier.contracts[task.suite]):
        yield Scene(task, dojo, service, await service.session(), dojo.leaves)
