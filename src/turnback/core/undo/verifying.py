"""What the look after a call comes to: taken back, not, or in between."""

from __future__ import annotations

from turnback.core import drift
from turnback.core.effects import EffectClass, Verb
from turnback.core.undo import ends, inverses
from turnback.core.undo.actions import Observed
from turnback.core.undo.rows import CallPhase, CompensationRow, CompensationState, Reason
from turnback.core.undo.run_rows import RunRows


def on_read_back(run: RunRows, row: CompensationRow, event: Observed, now: int) -> None:
    """What the world says of a call whose answer nobody has, or that said not now."""
    own = run.verified(row)
    state = drift.state_of(event.seen)
    last = run.sent(row)[-1]
    call = run.calls_of(row)[last.n - 1]
    assert row.rest is not None
    reversible = run.effects[row.effect_id].class_ is EffectClass.REVERSIBLE
    several = len(run.calls_of(row)) > 1
    progress = drift.progress(own, state, rest=row.rest)
    gone = progress is drift.Progress.GONE
    if progress is drift.Progress.GOAL or (event.passes and not several):
        for sent in run.sent(row):
            run.write_call(sent, phase=CallPhase.APPLIED)
        run.write(row, state=CompensationState.VERIFYING)
    elif drift.digest(own.part(state)) == row.seen:
        if last.phase is CallPhase.DEFERRED:
            run.write_call(last, phase=CallPhase.NOT_APPLIED)
        elif not reversible and not inverses.honoured(last, call, now):
            # It may still come to act, and to act twice would not be the same.
            ends.end(run, row, CompensationState.IN_DOUBT, Reason.LOST, world=state)
            return
        run.ready = row.effect_id
    elif row.verb is not Verb.REVERT:
        # It has no goal that would tell its own writing from a stranger's: made again by its key
        # it does nothing if it was made, and if it was not it would write over what is there now,
        # unless all that it does is something new.
        narrow = run.effects[row.effect_id].narrow
        again = last.phase is CallPhase.UNKNOWN and inverses.honoured(last, call, now)
        if again and (event.adds or not drift.in_its_way(own, state, narrow=narrow)):
            run.ready = row.effect_id
        else:
            ends.end(run, row, CompensationState.IN_DOUBT, Reason.LOST, world=state)
    elif progress is drift.Progress.FOREIGN or (gone and not several):
        _foreign(run, row, event, state)
    elif inverses.honoured(last, call, now):
        run.ready = row.effect_id
    else:
        run.write_call(last, phase=CallPhase.APPLIED)
        if inverses.next_call(run, row) is None:
            run.write(row, state=CompensationState.VERIFYING)


def _foreign(run: RunRows, row: CompensationRow, event: Observed, state: drift.State) -> None:
    """Somebody else has written meanwhile: nothing more is, and both values are shown."""
    verdict = drift.judge(run.whole(row), event.seen, narrow=False)
    values = verdict.values if isinstance(verdict, drift.Review) else ()
    ends.end(run, row, CompensationState.NEEDS_REVIEW, Reason.DRIFT, world=state, values=values)


def on_verified(run: RunRows, row: CompensationRow, event: Observed) -> None:
    """Whether every resource, read again, equals its goal; if not, how far it came."""
    effect = run.effects[row.effect_id]
    own = run.verified(row)
    state = drift.state_of(event.seen)
    refused = any(call.phase is not CallPhase.APPLIED for call in run.sent(row))
    if not own.resources or own.unseen:
        _without_reading(run, row, state, event.passes, refused=refused)
        return
    assert row.seen is not None
    assert row.rest is not None
    reached = drift.verify(own, state, seen=row.seen, rest=row.rest)
    back = drift.put_back(own, state, effect)
    missing = drift.not_back_within(own, state, event.seen)
    made = inverses.has_made(row)
    if reached is drift.Reached.NOTHING and any(
        call.phase is CallPhase.DEFERRED for call in run.sent(row)
    ):  # what it may have made no look at these things shows
        ends.end(run, row, CompensationState.IN_DOUBT, Reason.LOST, world=state)
    elif reached is drift.Reached.NOTHING and not made and not _half_way(run, row, own, state):
        for call in run.sent(row):
            run.write_call(call, phase=CallPhase.NOT_APPLIED)
        _nothing(run, row, state, refused=refused)
    elif row.verb is Verb.COMPENSATE and not refused and event.passes is not False:
        tested = event.passes or not own.unread
        ends.end(
            run,
            row,
            CompensationState.COMPENSATED,
            None if tested else Reason.UNCHECKED,
            world=state,
            ledger=drift.offset(own, state, effect),
        )
    elif row.verb is Verb.CANCEL and row.confirmed is False:
        ends.end(run, row, CompensationState.NEEDS_YOU, Reason.TOO_LATE, world=state)
    elif row.verb is Verb.CANCEL and (row.confirmed or reached is drift.Reached.GOAL):
        ends.end(run, row, CompensationState.CANCELLED, world=state, ledger=back)
    elif reached is drift.Reached.GOAL and row.verb is Verb.COMPENSATE:
        ends.end(run, row, CompensationState.COMPENSATED, world=state, ledger=back)
    elif reached is drift.Reached.GOAL and any(
        own.is_unsure(cell) for cell in drift.differing(state, own.goal)
    ):
        ends.end(run, row, CompensationState.PARTLY, world=state, ledger=back)  # maybe by us
    elif reached is drift.Reached.GOAL and (missing or made):
        ends.end(run, row, CompensationState.PARTLY, world=state, ledger=back, missing=missing)
    elif reached is drift.Reached.GOAL and not own.unread:
        ends.end(run, row, CompensationState.REVERTED, world=state, ledger=back)
    elif reached is drift.Reached.GOAL:
        ends.end(
            run, row, CompensationState.COMPENSATED, Reason.UNCHECKED, world=state, ledger=back
        )
    else:
        if reached is drift.Reached.NOTHING and not made:
            run.write_call(run.sent(row)[-1], phase=CallPhase.NOT_APPLIED)
        row = run.write(row, seen=drift.digest(own.part(state)))
        ends.end(
            run,
            row,
            CompensationState.PARTLY,
            Reason.REFUSED if refused else None,
            world=state,
            ledger=back,
        )


def _half_way(run: RunRows, row: CompensationRow, own: drift.Basis, state: drift.State) -> bool:
    """Whether an earlier call of the same inverse has changed something."""
    assert row.rest is not None
    begun = inverses.begins_at(run, row) > 1 or len(run.sent(row)) > 1
    return begun and drift.progress(own, state, rest=row.rest) is not drift.Progress.NONE


def _nothing(run: RunRows, row: CompensationRow, state: drift.State, *, refused: bool) -> None:
    """Read back, and nothing has changed."""
    if row.verb is Verb.CANCEL:
        ends.end(run, row, CompensationState.NEEDS_YOU, Reason.TOO_LATE, world=state)
    elif refused:
        ends.end(run, row, CompensationState.FAILED, Reason.REFUSED, world=state)
    else:
        ends.end(run, row, CompensationState.NOOP_INVERSE, Reason.NOTHING_CHANGED, world=state)


def _without_reading(
    run: RunRows,
    row: CompensationRow,
    state: drift.State,
    passes: bool | None,
    *,
    refused: bool,
) -> None:
    """All that is known is what the tool answered, and what its contract's test says."""

    def ends_as(how: CompensationState, why: Reason | None = None) -> None:
        ends.end(run, row, how, why, world=state if run.own(row).resources else None)

    if row.verb is Verb.CANCEL:
        if row.confirmed:
            ends_as(CompensationState.CANCELLED)
        elif refused or row.confirmed is False:
            ends_as(CompensationState.NEEDS_YOU, Reason.TOO_LATE)
        else:
            ends_as(CompensationState.IN_DOUBT, Reason.UNCHECKED)
    elif any(call.phase is CallPhase.DEFERRED for call in run.sent(row)):
        ends_as(CompensationState.IN_DOUBT, Reason.LOST)
    elif refused and len(run.sent(row)) == 1 and inverses.begins_at(run, row) == 1:
        ends_as(CompensationState.FAILED, Reason.REFUSED)
    elif refused:
        ends_as(CompensationState.PARTLY, Reason.REFUSED)
    elif passes is False and inverses.has_made(row):
        ends_as(CompensationState.PARTLY)
    elif passes is False:
        ends_as(CompensationState.NOOP_INVERSE, Reason.NOTHING_CHANGED)
    else:
        ends_as(CompensationState.COMPENSATED, None if passes else Reason.UNCHECKED)
