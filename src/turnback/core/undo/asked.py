"""What somebody wants undone, as a plan is made of it, and made of it again when it is run."""

from __future__ import annotations

from dataclasses import dataclass, replace

from turnback.core.undo.budget import Budget
from turnback.core.undo.rows import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedUndo:
    """`ids` are of effects, and of turns for all that they did.

    Of a revert, `to_before` is the step that HEAD would go back to before, and all that was done
    from there on is asked for. `with_dependents`: what depends on a member too. `calls` is the
    most that may be made, None: as many as are usual.
    """

    ids: tuple[str, ...] = ()
    to_before: str | None = None
    with_dependents: bool = False
    policy: Policy = Policy.STOP
    calls: int | None = None

    def within(self, budget: Budget) -> Budget:
        """The usual budget, with the calls that were asked for."""
        return budget if self.calls is None else replace(budget, calls=self.calls)
