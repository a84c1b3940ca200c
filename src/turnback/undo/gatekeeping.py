"""The gate that an agentic compensation passes before each thought and call (undo.md 5).

What it is about to spend is reserved in the run's own budget, and durable, before it is spent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from turnback.core.errors import FencedOff
from turnback.core.undo.agentic import Denied, Gate
from turnback.core.undo.budget import Spent
from turnback.tools.settle import now_ms


class Gatekeeper:
    """One agent's gate. `spend` makes what the run has spent durable; `leave` ends it.

    `acted`: a call was let through. `held_up`: it wanted more than it may have.
    """

    def __init__(
        self, gate: Gate, spend: Callable[[Spent], Awaitable[None]], leave: asyncio.Event
    ) -> None:
        self.acted = False
        self.held_up = False
        self._gate = gate
        self._spend = spend
        self._leave = leave
        self._one = asyncio.Lock()

    async def call(self, tool: str) -> Denied | None:
        """Ask for a call of this tool. Raises `FencedOff`, `DatabaseUnavailable`."""
        async with self._one:
            return await self._passed(self._gate.call(tool, now=now_ms()), acts=True)

    async def think(self, tokens: int) -> Denied | None:
        """Ask for a model call of at most so many tokens. Raises as `call`."""
        async with self._one:
            return await self._passed(self._gate.think(tokens, now=now_ms()), acts=False)

    async def _passed(self, gate: Gate | Denied, *, acts: bool) -> Denied | None:
        if self._leave.is_set():
            raise FencedOff("This undo is carried on by another process")
        if isinstance(gate, Denied):
            self.held_up = self.held_up or gate is not Denied.TOOL
            return gate
        await self._spend(gate.spent)
        self._gate = gate
        self.acted = self.acted or acts
        return None
