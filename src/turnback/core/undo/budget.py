"""The budget of a run: all is reserved before it is spent, and attempts count (undo.md 5)."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoLimits:
    """The named limits of the settings, as the rules need them; times in ms.

    `reads_per_member` also bounds how often one is looked at again; `attempts` are sendings of one
    compensation in one run, `effect_attempts` those of one effect over all generations. For
    `read_lag_ms` after a call a look may still show what was before it.
    """

    reads_per_member: int = 16
    tokens: int = 0
    run_ms: int = 10 * 60_000
    attempts: int = 4
    effect_attempts: int = 12
    backoff_ms: int = 500
    longest_backoff_ms: int = 20_000
    read_lag_ms: int = 0

    def backoff(self, attempt: int) -> int:
        """How long to wait after the `attempt`-th that came to nothing, in ms: it doubles."""
        return min(self.backoff_ms << min(attempt - 1, 20), self.longest_backoff_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one run may spend: effect calls, reads, tokens, and ms of wall clock."""

    calls: int
    reads: int
    tokens: int
    run_ms: int


def default_budget(members: int, limits: UndoLimits, *, calls: int = 0) -> Budget:
    """The budget of a plan that names none: two calls for each member, and two more.

    Where its inverses have more `calls` than twice as many as there are members, these and two
    more: one is begun only where all of it can be paid, and so it would never be.
    """
    return Budget(
        calls=max(2 * members, calls) + 2,
        reads=limits.reads_per_member * (max(members, calls) + 1),
        tokens=limits.tokens,
        run_ms=limits.run_ms,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a run has reserved so far. It only grows: what is reserved is never given back."""

    calls: int = 0
    reads: int = 0
    tokens: int = 0

    def reserve(
        self, budget: Budget, *, calls: int = 0, reads: int = 0, tokens: int = 0
    ) -> Spent | None:
        """What is spent with these too; None where the budget has not that much left."""
        more = replace(
            self,
            calls=self.calls + calls,
            reads=self.reads + reads,
            tokens=self.tokens + tokens,
        )
        within = (
            more.calls <= budget.calls
            and more.reads <= budget.reads
            and more.tokens <= budget.tokens
        )
        return more if within else None
