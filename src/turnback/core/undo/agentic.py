"""The gate of a compensation that is an agent: what it may call, and how much (undo.md 5).

A compensation starts no other and no agent, unless its contract says `agentic`. Then each call that
the agent wants passes here first. Whatever it does, its effect is at best compensated.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from turnback.core.contracts.model import Agentic
from turnback.core.undo.budget import Budget, Spent


class Denied(StrEnum):
    """Why the agent may not go on."""

    TOOL = "tool"
    CALLS = "calls"
    TOKENS = "tokens"
    SECONDS = "seconds"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """How far one agentic compensation has come; `began_at` in ms.

    `spent` is the whole run's: what the agent does is paid from the same budget.
    """

    bounds: Agentic
    budget: Budget
    spent: Spent
    began_at: int
    own: Spent = field(default_factory=Spent)

    def call(self, tool: str, *, now: int) -> Gate | Denied:
        """The gate after a call of this tool, which the caller may then make."""
        if tool not in self.bounds.tools:
            return Denied.TOOL
        if self.own.calls >= self.bounds.calls:
            return Denied.CALLS
        return self._after(now=now, calls=1)

    def think(self, tokens: int, *, now: int) -> Gate | Denied:
        """The gate after a model call of at most so many tokens."""
        if self.own.tokens + tokens > self.bounds.tokens:
            return Denied.TOKENS
        return self._after(now=now, tokens=tokens)

    def _after(self, *, now: int, calls: int = 0, tokens: int = 0) -> Gate | Denied:
        if now - self.began_at >= self.bounds.seconds * 1_000:
            return Denied.SECONDS
        spent = self.spent.reserve(self.budget, calls=calls, tokens=tokens)
        if spent is None:
            return Denied.BUDGET
        own = replace(self.own, calls=self.own.calls + calls, tokens=self.own.tokens + tokens)
        return replace(self, spent=spent, own=own)
