"""How a compensation ends, and what that makes of its effect."""

from __future__ import annotations

from turnback.core import drift
from turnback.core.effects import CallState, Standing, Verb
from turnback.core.undo import inverses, residue
from turnback.core.undo.rows import (
    Because,
    CallPhase,
    CompensationRow,
    CompensationState,
    Reason,
)
from turnback.core.undo.run_rows import RunRows

LONGEST_DETAIL = 500
"""Characters of a tool's answer that are kept."""

TOOK_BACK = frozenset(
    {CompensationState.REVERTED, CompensationState.COMPENSATED, CompensationState.CANCELLED}
)
"""The ends after which an effect is no longer in force."""

STANDING_AFTER = {
    CompensationState.REVERTED: Standing.REVERTED,
    CompensationState.COMPENSATED: Standing.COMPENSATED,
    CompensationState.CANCELLED: Standing.CANCELLED,
    CompensationState.PARTLY: Standing.PARTLY,
}
"""What an end makes of an effect's standing; any other leaves it as it was."""


def blocked_by(run: RunRows, row: CompensationRow) -> str | None:
    """The member that had to be undone first and still stands, or may."""
    for wait in row.waits_for:
        first = run.compensations[wait.effect_id]
        if wait.why is Because.COVER or first.state in TOOK_BACK:
            continue
        if first.state is CompensationState.NEEDS_YOU:
            continue
        # What was looked at of the same resource is seen by this one's own check as well.
        looked = first.state is CompensationState.NEEDS_REVIEW or first.reason is Reason.LATER_CALL
        if looked and wait.why is Because.SAME_RESOURCE:
            continue
        return wait.effect_id
    return None


def is_barred(run: RunRows, row: CompensationRow) -> bool:
    """Whether it ends here, since a tool that it takes is not the one that was meant."""
    why = run.barred.get(row.effect_id)
    if why is None:
        return False
    row = run.write(row, detail=why[:LONGEST_DETAIL])
    if inverses.begun(run, row):
        give_up(run, row, Reason.TOOL_CHANGED)
    else:
        end(run, row, CompensationState.NEEDS_YOU, Reason.TOOL_CHANGED)
    return True


def end(
    run: RunRows,
    row: CompensationRow,
    state: CompensationState,
    reason: Reason | None = None,
    *,
    because: str | None = None,
    world: drift.State | None = None,
    values: tuple[drift.LeafValues, ...] = (),
    ledger: tuple[drift.LedgerEntry, ...] = (),
    missing: frozenset[drift.Cell] = frozenset(),
) -> None:
    """The end of a compensation; `world` is what was read last, `missing` what is not in it."""
    effect = run.effects[row.effect_id]
    basis = run.own(row)
    in_doubt = effect.state in (CallState.INTENT, CallState.IN_DOUBT)
    row = run.write(
        row,
        state=state,
        reason=reason,
        because=because,
        wait_until=None,
        values=values,
        claims=residue.claims(
            basis,
            state,
            world=world,
            strayed=_strayed(run, row, world)
            | missing
            | drift.not_back_within(basis, basis.expected if world is None else world),
            ours=_left_by_us(run, basis, world)
            | (basis.writes if state is CompensationState.PARTLY and row.attempts else frozenset()),
            earlier=row.claims,
            unknown=[touch.resource for touch in effect.touches if in_doubt],
        ),
    )
    run.ready = None
    run.wrote(ledger)
    standing = STANDING_AFTER.get(state)
    if state is CompensationState.IN_DOUBT and row.attempts:
        standing = Standing.IN_DOUBT
    if reason is Reason.NEVER_HAPPENED:
        run.stands(effect.id, None)
    elif standing is not None:
        run.stands(effect.id, standing)
    left = residue.of(effect, row)
    if left is not None:
        run.leave(left)


def _left_by_us(
    run: RunRows, basis: drift.Basis, world: drift.State | None
) -> frozenset[drift.Cell]:
    """Of leaves that are not as the effect left them, or not only by it, those that are ours."""
    if world is None:
        return frozenset()
    other = drift.differing(basis.part(world), basis.expected) | basis.marked
    return frozenset(cell for cell in other if drift.is_ours(cell, world, run.known))


def _strayed(
    run: RunRows, row: CompensationRow, world: drift.State | None
) -> frozenset[drift.Cell]:
    """What has changed beside the leaves to be put back since the inverse was checked, or may have.

    An inverse of several calls that was left half-way, and not looked at since, may have taken
    away anything of its things; a narrow one writes nothing beside.
    """
    own = run.verified(row)
    if world is None:
        several = len(run.calls_of(row)) > 1 and not run.effects[row.effect_id].narrow
        half_way = several and row.attempts and inverses.begun(run, row)
        return frozenset(own.goal) | frozenset(own.expected) if half_way else frozenset()
    if row.rest is None or not row.attempts:
        return frozenset()
    part = own.part(world)
    if drift.digest(drift.beside(own, part)) == row.rest:
        return frozenset()
    return drift.differing(part, own.expected) - own.writes


def needs_you(run: RunRows, row: CompensationRow, state: drift.State | None = None) -> None:
    """Nothing takes it back: a person has to see to it."""
    purged = run.effects[row.effect_id].purged
    end(
        run,
        row,
        CompensationState.NEEDS_YOU,
        Reason.PURGED if purged else Reason.IRREVERSIBLE,
        world=state,
    )


def without_calls(run: RunRows, row: CompensationRow) -> None:
    """Nothing of its own takes it back, and what was to cover it has not."""
    cover = row.covered_by and run.compensations[row.covered_by]
    if cover and cover.state not in TOOK_BACK:
        end(run, row, CompensationState.BLOCKED, Reason.DEPENDENT, because=cover.effect_id)
        return
    needs_you(run, row)


def give_up(run: RunRows, row: CompensationRow, reason: Reason) -> None:
    """No call may be sent any more: what is known of those that were says how it ends."""
    phases = {call.phase for call in run.sent(row)}
    if phases & {CallPhase.UNKNOWN, CallPhase.DEFERRED, CallPhase.INTENT}:
        end(run, row, CompensationState.IN_DOUBT, reason)
        return
    world = run.looked_at(row)
    if CallPhase.APPLIED in phases:
        end(run, row, CompensationState.PARTLY, reason, world=world)
        return
    if row.attempts or reason is Reason.UNREADABLE:
        end(run, row, CompensationState.FAILED, reason, world=world)
        return
    end(run, row, CompensationState.NOT_STARTED, reason)


def cannot_read(run: RunRows, row: CompensationRow, reason: Reason, detail: str, now: int) -> None:
    """A look that is not to be had: what it was for decides."""
    row = run.write(row, reads_failed=0, wait_until=None, detail=detail or row.detail)
    checking = row.state is CompensationState.CHECKING
    if checking and row.verb is Verb.ACKNOWLEDGE:
        needs_you(run, row)
    elif checking and (because := blocked_by(run, row)) is not None:
        end(run, row, CompensationState.BLOCKED, Reason.DEPENDENT, because=because)
    elif checking:
        give_up(run, row, reason)
    elif row.state is CompensationState.VERIFYING and _all_answered(run, row):
        if row.verb is Verb.COMPENSATE and row.confirmed is False:
            end(run, row, CompensationState.PARTLY, Reason.AGENT)
        elif row.verb is Verb.COMPENSATE:
            end(run, row, CompensationState.COMPENSATED, Reason.UNCHECKED)
        elif row.verb is Verb.CANCEL and row.confirmed:
            end(run, row, CompensationState.CANCELLED)
        else:
            end(run, row, CompensationState.IN_DOUBT, reason)
    elif row.state is CompensationState.SENT and _may_repeat(run, row, now):
        run.ready = row.effect_id
    else:
        end(run, row, CompensationState.IN_DOUBT, reason)


def _all_answered(run: RunRows, row: CompensationRow) -> bool:
    return all(call.phase is CallPhase.APPLIED for call in run.sent(row))


def _may_repeat(run: RunRows, row: CompensationRow, now: int) -> bool:
    last = run.sent(row)[-1]
    return inverses.honoured(last, run.calls_of(row)[last.n - 1], now)
