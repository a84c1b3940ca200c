"""The gate of a compensation that is an agent: what it may call, and how much (undo.md 5).

A compensation starts no other and no agent, unless its contract says `agentic`. Then each call that
the agent wants passes here first. Whatever it does, its effect is at best compensated.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from turnback.core import drift
from turnback.core.contracts.model import Agentic
from turnback.core.effects import Effect, Verb
from turnback.core.undo import ends
from turnback.core.undo.actions import Delegated, Observed
from turnback.core.undo.budget import Budget, Spent
from turnback.core.undo.rows import CompensationRow, CompensationState, Reason
from turnback.core.undo.run_rows import RunRows


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


def bounds_of(effect: Effect) -> Agentic:
    """The bounds of the agent that may offset an effect."""
    return Agentic.model_validate(effect.agentic)


def is_agents(run: RunRows, row: CompensationRow) -> bool:
    """Whether a compensation is an agent's."""
    return row.verb is Verb.COMPENSATE and run.effects[row.effect_id].agentic is not None


def on_delegated(run: RunRows, row: CompensationRow, event: Delegated) -> None:
    """The agent has come to its end, or was held up; what it did is in the log."""
    if not event.finished and not event.acted:
        ends.end(run, row, CompensationState.FAILED, Reason.AGENT)
        return
    run.write(row, state=CompensationState.VERIFYING, confirmed=event.finished, detail=event.detail)


def on_verified(run: RunRows, row: CompensationRow, event: Observed) -> None:
    """What an agent has come to: at best compensated, whatever the world looks like.

    One that was cut off is no more asked what it did: the contract's test says it, or nobody does.
    """
    state = drift.state_of(event.seen) if run.verified(row).resources else None
    if event.passes:
        ends.end(run, row, CompensationState.COMPENSATED, world=state)
    elif event.passes is None and row.confirmed:
        ends.end(run, row, CompensationState.COMPENSATED, Reason.UNCHECKED, world=state)
    else:
        ends.end(run, row, CompensationState.PARTLY, Reason.AGENT, world=state)
