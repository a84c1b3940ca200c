"""The calls of an inverse: which comes next, under which key, and whether it may be made again."""

from __future__ import annotations

from collections.abc import Iterable

from turnback.core.effects import Call, ResourceKey
from turnback.core.undo.rows import CallPhase, Claim, CompensationCallRow, CompensationRow, Reason
from turnback.core.undo.run_rows import RunRows


def key_of(effect_id: str, n: int, round_: int) -> str:
    """The idempotency key of the n-th call of an effect's inverse (undo.md 2)."""
    return f"c:{effect_id}:{n}:{round_}"


def begins_at(run: RunRows, row: CompensationRow) -> int:
    """The first call that an earlier run has not made; the first of all if it made them all.

    All made and still a member: they came to less than the goal, and are made again.
    """
    calls = run.calls_of(row)
    for n in range(1, len(calls) + 1):
        prior = run.prior.get((row.effect_id, n))
        if prior is None or prior.phase is not CallPhase.APPLIED:
            return n
    return 1


def next_call(run: RunRows, row: CompensationRow) -> int | None:
    """The ordinal of the call to be made next; None: all are made."""
    for n in range(begins_at(run, row), len(run.calls_of(row)) + 1):
        call = run.calls.get((row.effect_id, n))
        if call is None or call.phase is not CallPhase.APPLIED:
            return n
    return None


def begun(run: RunRows, row: CompensationRow) -> bool:
    """Whether a call of it, in this run or an earlier one, has or may have acted."""
    return begins_at(run, row) > 1 or any(
        call.phase in (CallPhase.APPLIED, CallPhase.UNKNOWN, CallPhase.DEFERRED)
        for call in run.sent(row)
    )


def with_made(run: RunRows, row: CompensationRow, made: Iterable[ResourceKey]) -> tuple[Claim, ...]:
    """The claims of a compensation with what its call has made, which nothing will take away.

    A thing that the effect touched, or what it covers, is not new by being there again.
    """
    effects = (run.effects[row.effect_id], *run.covered(row))
    touched = {touch.resource for effect in effects for touch in effect.touches}
    new = (Claim(thing, (), made=True) for thing in made if thing not in touched)
    return tuple(dict.fromkeys((*row.claims, *new)))


def has_made(row: CompensationRow) -> bool:
    """Whether an inverse of it, in this run or an earlier one, has made something new."""
    return any(claim.made for claim in row.claims)


def _round_of(run: RunRows, effect_id: str, n: int, now: int) -> tuple[int, int]:
    """The round of a call's next attempt, and when that round began.

    It rises only when the last run's attempt is known: not applied, or applied and come to
    less than the goal. Within a run it never does.
    """
    call = run.calls.get((effect_id, n))
    if call is not None:
        return call.round, call.first_sent_at
    prior = run.prior.get((effect_id, n))
    if prior is None:
        return 1, now
    if prior.phase in (CallPhase.NOT_APPLIED, CallPhase.APPLIED):
        return prior.round + 1, now
    return prior.round, prior.first_sent_at


def intent(run: RunRows, effect_id: str, n: int, now: int) -> CompensationCallRow:
    """The row of a call's next attempt, to be committed before it is sent."""
    before = run.calls.get((effect_id, n))
    round_, first_sent_at = _round_of(run, effect_id, n, now)
    return CompensationCallRow(
        run_id=run.row.id,
        effect_id=effect_id,
        n=n,
        round=round_,
        key=key_of(effect_id, n, round_),
        phase=CallPhase.INTENT,
        attempts=1 if before is None else before.attempts + 1,
        first_sent_at=first_sent_at,
    )


def honoured(sent: CompensationCallRow, call: Call, now: int) -> bool:
    """Whether the tool still knows the key, so that sending again cannot act twice."""
    return now - sent.first_sent_at < call.key_ms


def may_send_first(run: RunRows, row: CompensationRow, n: int, call: Call, now: int) -> bool:
    """Whether a call whose earlier run was in doubt may be made again in this one.

    By its key, or since a read has just shown that it did not take effect.
    """
    prior = run.prior.get((row.effect_id, n))
    if prior is None or prior.phase not in (CallPhase.UNKNOWN, CallPhase.DEFERRED):
        return True
    return honoured(prior, call, now) or bool(run.whole(row).resources)


def no_more(run: RunRows, row: CompensationRow, n: int, now: int) -> Reason | None:
    """Why a call may not be sent any more."""
    sent = run.calls.get((row.effect_id, n))
    attempts = 0 if sent is None else sent.attempts
    earlier = run.earlier_attempts.get((row.effect_id, n), 0)
    if attempts >= run.limits.attempts or attempts + earlier >= run.limits.effect_attempts:
        return Reason.ATTEMPTS
    if now >= run.row.started_at + run.row.budget.run_ms:
        return Reason.DEADLINE
    # An inverse is begun only where all of it, and the look at it afterwards, can be paid.
    left = len(run.calls_of(row)) - n + 1
    looks = left * max(1, len(run.whole(row).resources))
    calls = 1 if run.sent(row) else left
    return None if run.affords(calls=calls, reads=looks) else Reason.BUDGET
