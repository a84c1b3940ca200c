"""What a fork was made for: a prompt to be sent again, kept until a first turn is complete.

Clients come and go, so the server keeps it (lineage.md 4). Who is about to send it claims it first,
so that two do not; a claim has an end, and ends with the process that gave it. Whoever sends it
takes its `turn_key`, which makes a retry the same turn. A turn that ends without being complete
leaves it with another key: under its own it would be answered with that turn for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from turnback.core.errors import PendingActionClaimed


class PendingMode(StrEnum):
    """Whether the prompt is to be edited first, or sent as it was."""

    EDIT = "edit"
    RERUN = "rerun"


class PendingState(StrEnum):
    """Whether somebody is at it."""

    PENDING = "pending"
    CLAIMED = "claimed"


@dataclass(frozen=True, slots=True)
class ActionClaim:
    """Who is at it: an id of the client's making, its principal; until when, in ms."""

    id: str
    by: str
    node_id: str
    until: int


@dataclass(frozen=True, slots=True)
class PendingAction:
    """The prompt that waits, as `draft`, and the key of the turn that it becomes.

    `is_quoted`: the draft is the prompt that was forked at, word for word, and goes with it when
    that is purged.
    """

    mode: PendingMode
    draft: str
    turn_key: str
    is_quoted: bool
    claim: ActionClaim | None = None

    def claim_at(self, now: int) -> ActionClaim | None:
        """The claim that holds at this time, in ms."""
        return self.claim if self.claim is not None and now < self.claim.until else None

    def state_at(self, now: int) -> PendingState:
        """Whether somebody is at it at this time."""
        return PendingState.PENDING if self.claim_at(now) is None else PendingState.CLAIMED

    def claimed(self, claim: ActionClaim, *, now: int) -> PendingAction:
        """It with this claim, or with the same one for longer. Raises `PendingActionClaimed`."""
        self._refuse_other(claim.id, claim.by, now)
        return replace(self, claim=claim)

    def released(self, claim_id: str, *, by: str, now: int) -> PendingAction:
        """It without that claim. Raises `PendingActionClaimed` where another one holds."""
        self._refuse_other(claim_id, by, now)
        return replace(self, claim=None)

    def again(self, turn_key: str) -> PendingAction:
        """It after a turn with its key has ended and is not complete: to be sent once more."""
        return replace(self, turn_key=turn_key, claim=None)

    def _refuse_other(self, claim_id: str, by: str, now: int) -> None:
        held = self.claim_at(now)
        if held is not None and (held.id, held.by) != (claim_id, by):
            raise PendingActionClaimed(
                "Another client is at this; look again when it has ended",
                retryAfterMs=held.until - now,
            )
