"""What a run came to: its outcome and its counts, computed and never set (undo.md 6)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from turnback.core.undo.rows import (
    CallPhase,
    CompensationCallRow,
    CompensationRow,
    CompensationState,
    Outcome,
)


class Count(StrEnum):
    """What is counted, in the order in which a headline says it: what needs a person first."""

    NEEDS_YOU = "needs_you"
    NEEDS_REVIEW = "needs_review"
    IN_DOUBT = "in_doubt"
    FAILED = "failed"
    NOT_STARTED = "not_started"
    COMPENSATE = "compensate"
    CANCEL = "cancel"
    REVERT = "revert"


_COUNT_OF = {
    CompensationState.REVERTED: Count.REVERT,
    CompensationState.COMPENSATED: Count.COMPENSATE,
    CompensationState.CANCELLED: Count.CANCEL,
    CompensationState.NEEDS_YOU: Count.NEEDS_YOU,
    CompensationState.NEEDS_REVIEW: Count.NEEDS_REVIEW,
    CompensationState.IN_DOUBT: Count.IN_DOUBT,
    CompensationState.PARTLY: Count.FAILED,
    CompensationState.FAILED: Count.FAILED,
    CompensationState.NOOP_INVERSE: Count.FAILED,
    CompensationState.BLOCKED: Count.NOT_STARTED,
    CompensationState.NOT_STARTED: Count.NOT_STARTED,
}

_SURE = frozenset({CallPhase.NOT_SENT, CallPhase.NOT_APPLIED})


def outcome_of(
    members: Iterable[CompensationRow], calls: Iterable[CompensationCallRow]
) -> Outcome | None:
    """The outcome of a run whose members have all ended; None where it has none.

    Fully: each is reverted, or cancelled with nothing left. Not at all: each is known to be
    untouched, that is, none of its calls was made, or it is known that none took effect.
    """
    rows = list(members)
    if not rows:
        return None
    if all(is_clean(row) for row in rows):
        return Outcome.FULLY_REVERTED
    acted = {call.effect_id for call in calls if call.phase not in _SURE}
    if all(_untouched(row) and row.effect_id not in acted for row in rows):
        return Outcome.NOT_REVERTED
    return Outcome.PARTIALLY_REVERTED


def is_clean(row: CompensationRow) -> bool:
    """Whether nothing of the effect is left: reverted, or cancelled with no leaf that differs."""
    if row.state is CompensationState.CANCELLED:
        return not row.claims
    return row.state is CompensationState.REVERTED


def _untouched(row: CompensationRow) -> bool:
    return row.state not in (
        CompensationState.REVERTED,
        CompensationState.COMPENSATED,
        CompensationState.CANCELLED,
        CompensationState.PARTLY,
    )


def counts(members: Iterable[CompensationRow]) -> dict[Count, int]:
    """How many came to what, in the order of a headline; what is none is left out.

    Those that have not ended are not counted.
    """
    found = dict.fromkeys(Count, 0)
    for row in members:
        if row.state in _COUNT_OF:
            found[_COUNT_OF[row.state]] += 1
    return {count: number for count, number in found.items() if number}
