"""What the look before an inverse comes to: it may be made, needs not be, or may not."""

from __future__ import annotations

from dataclasses import replace

from turnback.core import drift
from turnback.core.effects import STANDING_OF_CALL, CallState, Effect, EffectClass, Standing, Verb
from turnback.core.undo import ends, inverses, residue
from turnback.core.undo.actions import Observed
from turnback.core.undo.plan import covers, verb_of
from turnback.core.undo.rows import CompensationRow, CompensationState, Reason
from turnback.core.undo.run_rows import RunRows

REASON_OF_DRIFT = {
    drift.DriftKind.CHANGED: Reason.DRIFT,
    drift.DriftKind.RECREATED: Reason.RECREATED,
    drift.DriftKind.OCCUPIED: Reason.OCCUPIED,
}


def on_settled(run: RunRows, row: CompensationRow, effect: Effect, now: int) -> None:
    """What became of a call in doubt, or held back. Nothing is done that was not agreed to."""
    if effect.standing is Standing.CANCELLED:
        run.effects[effect.id] = effect
        ends.end(run, row, CompensationState.CANCELLED)
        return
    known = effect.state not in (CallState.INTENT, CallState.IN_DOUBT)
    if not known:
        ends.end(run, row, CompensationState.IN_DOUBT, Reason.FORWARD_IN_DOUBT)
        return
    effect = replace(effect, standing=STANDING_OF_CALL[effect.state])
    run.settle(effect)
    if effect.standing is not None:
        run.stands(effect.id, effect.standing)
    as_agreed(run, row, now)


def as_agreed(run: RunRows, row: CompensationRow, now: int) -> CompensationRow | None:
    """The row, with what its effect has turned out to be since the run began; None: it ends.

    It says so too where a process has settled a doubt and died before it went on. An effect
    without a standing never happened: those that have none when a run begins are no members.
    """
    effect = run.effects[row.effect_id]
    if effect.standing is None:
        ends.end(run, row, CompensationState.REVERTED, Reason.NEVER_HAPPENED)
        return None
    verb = verb_of(effect, now=now)
    if verb is row.verb or (row.verb is Verb.CANCEL and effect.cancel):
        return row
    if verb is Verb.REVERT:
        return run.write(row, verb=verb)
    cover = row.covered_by and run.effects[row.covered_by]
    if cover and covers(cover, effect, now=now):
        return row
    if row.verb is Verb.CANCEL:  # it was sent before it was taken back
        ends.end(run, row, CompensationState.NEEDS_YOU, Reason.TOO_LATE)
    else:
        ends.needs_you(run, row)
    return None


def on_checked(run: RunRows, row: CompensationRow, event: Observed) -> None:
    """Whether the world still is as we left it, so that the inverse may be made."""
    effect = run.effects[row.effect_id]
    state = drift.state_of(event.seen)
    whole = run.whole(row)
    # What was done beside it since a backup was made is nobody's to be written around.
    narrow = effect.narrow and not effect.restored
    verdict = drift.judge(whole, event.seen, narrow=narrow)
    theirs = drift.theirs(whole, state, run.known)
    own = run.verified(row)
    part = own.part(state)
    half_way = inverses.begins_at(run, row) > 1 and row.left_as == drift.digest(part)
    if isinstance(verdict, drift.Already) and not half_way:
        ours = _made_so_by(run, row, whole, state)
        if ours is None:
            _found_so(run, row, state, theirs)
        elif row.verb is Verb.ACKNOWLEDGE:
            ends.needs_you(run, row)
        else:
            ends.end(run, row, CompensationState.BLOCKED, Reason.DEPENDENT, because=ours)
        return
    if row.verb is Verb.ACKNOWLEDGE:
        ends.needs_you(run, row, state)
        return
    if (because := ends.blocked_by(run, row)) is not None:
        reason = Reason.DEPENDENT
        ends.end(run, row, CompensationState.BLOCKED, reason, because=because, world=state)
        return
    if effect.restored and event.passes:
        ends.end(run, row, CompensationState.NEEDS_REVIEW, Reason.RESTORED, world=state)
        return
    agreed = bool(row.overwrites) and drift.may_overwrite(row.overwrites, state)
    if isinstance(verdict, drift.Review) and not half_way and not agreed:
        later = _in_the_way(run, row, verdict, marked=whole.marked, state=state)
        if later is not None:
            reason = Reason.LATER_CALL
            ends.end(run, row, CompensationState.BLOCKED, reason, because=later, world=state)
            return
        ends.end(
            run,
            row,
            CompensationState.NEEDS_REVIEW,
            REASON_OF_DRIFT[verdict.kind],
            world=state,
            values=verdict.values,
            ledger=theirs,
        )
        return
    if row.verb is Verb.REVERT and inverses.has_made(row) and not half_way:
        # Made again, it would make another one.
        ends.end(run, row, CompensationState.PARTLY, world=state)
        return
    # Of a thing that is gone until the next call, what lay beside is what our writes left.
    there = own.expected if half_way and not part else part
    run.write(
        row,
        seen=drift.digest(part),
        rest=drift.digest(drift.beside(own, there)),
    )
    run.ready = effect.id


def may_be_back(run: RunRows, row: CompensationRow, blocked_by: str | None) -> bool:
    """Whether what is blocked is looked at all the same, since somebody may have put it back.

    So it is where nothing was sent for what blocks it, nor for what blocks that: then there is
    nothing of ours that could still come to act.
    """
    effect = run.effects[row.effect_id]
    first = None if blocked_by is None else run.compensations[blocked_by]
    while first is not None and first.state is CompensationState.BLOCKED and first.because:
        first = run.compensations.get(first.because)
    states = (CompensationState.NEEDS_REVIEW, CompensationState.NEEDS_YOU)
    if first is None or first.state not in states or first.attempts:
        return False
    if row.covered_by is not None or row.verb not in (Verb.REVERT, Verb.COMPENSATE):
        return False
    if effect.state in (CallState.INTENT, CallState.IN_DOUBT) or effect.restored:
        return False
    whole = run.whole(row)
    return bool(whole.resources) and not whole.unread and run.affords(reads=len(whole.resources))


def _in_the_way(
    run: RunRows,
    row: CompensationRow,
    review: drift.Review,
    *,
    marked: frozenset[drift.Cell],
    state: drift.State,
) -> str | None:
    """A later effect of this session, still standing, where nobody else's is in an inverse's way.

    What a stranger had written before it did stays the stranger's: `marked`.
    """
    effect, found = run.effects[row.effect_id], None
    for values in review.values:
        if values.cell in marked:
            return None
        left = drift.left_by(values.cell, state, run.known)
        if left is None or left.session_id != effect.session_id:
            return None
        if not drift.is_later(left, effect.id, run.known):
            return None
        found = found or left.effect_id
    return found


def _made_so_by(
    run: RunRows, row: CompensationRow, whole: drift.Basis, state: drift.State
) -> str | None:
    """The later effect of this session, still standing, that left things as they were before.

    When that one is taken back, this one's writing is there again: it is not reverted.
    """
    effect = run.effects[row.effect_id]
    inside = {effect.id, *(covered.id for covered in run.covered(row))}
    for cell in drift.in_order(whole.writes):
        if drift.left_by(cell, state, run.known) is None:
            continue
        for id_, entry in drift.still_written(cell, effect.id, run.known).items():
            if entry.session_id == effect.session_id and id_ not in inside:
                return id_
    return None


def _found_so(
    run: RunRows,
    row: CompensationRow,
    state: drift.State,
    theirs: tuple[drift.LedgerEntry, ...],
) -> None:
    """The world is as before the call. What it told people stays told."""
    effect = run.effects[row.effect_id]
    damaged = residue.claims(
        run.own(row), CompensationState.PARTLY, world=state, earlier=row.claims
    )
    if damaged:
        # An earlier run of ours has left something beside it that still is not as before.
        ends.end(run, row, CompensationState.PARTLY, world=state, ledger=theirs)
    elif not effect.tells and effect.class_ is not EffectClass.COMPENSABLE:
        ends.end(run, row, CompensationState.REVERTED, Reason.ALREADY, world=state, ledger=theirs)
    elif row.verb is Verb.ACKNOWLEDGE:
        ends.needs_you(run, row, state)
    else:
        ends.end(
            run, row, CompensationState.COMPENSATED, Reason.ALREADY, world=state, ledger=theirs
        )


def on_covered(run: RunRows, row: CompensationRow, event: Observed) -> None:
    """What was to cover it has been taken back: is this one back too?"""
    assert row.covered_by is not None
    effect = run.effects[row.effect_id]
    state = drift.state_of(event.seen)
    whole = run.whole(run.compensations[row.covered_by])
    if not drift.differing(state, whole.goal) & run.own(row).writes:
        back = row.verb is Verb.REVERT and not effect.tells
        ends.end(
            run,
            row,
            CompensationState.REVERTED if back else CompensationState.COMPENSATED,
            Reason.COVERED,
            because=row.covered_by,
            world=state,
            ledger=drift.put_back(run.own(row), state, effect),
        )
    elif run.calls_of(row):
        run.write(row, covered_by=None)
    else:
        ends.needs_you(run, row, state)
