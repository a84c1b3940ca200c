"""What an undo leaves of an effect: which template says it, whom it concerns, which leaves.

A residue is facts and the name of a template; the sentences are in `words`, made when somebody with
the right reads them. It claims every leaf that differs, or may (undo.md 6).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from turnback.core import drift
from turnback.core.effects import (
    CallState,
    Effect,
    EffectClass,
    ResourceKey,
    Standing,
    Verb,
    lies_under,
)
from turnback.core.undo.rows import (
    Claim,
    CompensationRow,
    CompensationState,
    Fix,
    Reason,
    ResidueRow,
    ResidueStatus,
)

TEMPLATE_OF_STATE = {
    CompensationState.COMPENSATED: "compensated",
    CompensationState.CANCELLED: "cancelled_left",
    CompensationState.NEEDS_YOU: "needs_you",
    CompensationState.NEEDS_REVIEW: "needs_review",
    CompensationState.IN_DOUBT: "in_doubt",
    CompensationState.PARTLY: "partly",
    CompensationState.BLOCKED: "blocked",
    CompensationState.FAILED: "failed",
    CompensationState.NOOP_INVERSE: "noop_inverse",
    CompensationState.NOT_STARTED: "not_started",
}
"""What is said of an end where the contract has no word of its own for it."""

TEMPLATE_OF_REASON = {
    Reason.PURGED: "purged",
    Reason.TOO_LATE: "too_late",
    Reason.TOOL_CHANGED: "tool_changed",
    Reason.RESTORED: "restored",
    Reason.FORWARD_IN_DOUBT: "forward_in_doubt",
    Reason.RECREATED: "recreated",
    Reason.OCCUPIED: "occupied",
    Reason.LATER_CALL: "later_call",
    Reason.UNCHECKED: "unchecked",
}
"""What is said for a reason that needs words of its own."""

FIX_OF_STATE = {
    CompensationState.COMPENSATED: Fix.PEOPLE,
    CompensationState.CANCELLED: Fix.YOU,
    CompensationState.NEEDS_YOU: Fix.YOU,
    CompensationState.NEEDS_REVIEW: Fix.YOU,
    CompensationState.IN_DOUBT: Fix.YOU,
    CompensationState.PARTLY: Fix.YOU,
    CompensationState.BLOCKED: Fix.LATER_UNDO,
    CompensationState.FAILED: Fix.LATER_UNDO,
    CompensationState.NOOP_INVERSE: Fix.ADMINISTRATOR,
    CompensationState.NOT_STARTED: Fix.LATER_UNDO,
}


def of(effect: Effect, row: CompensationRow) -> ResidueRow | None:
    """What is left of an effect whose compensation has ended; None where nothing is."""
    state = row.state
    if state is CompensationState.REVERTED:
        return None
    if state is CompensationState.CANCELLED and not row.claims:
        return None
    return ResidueRow(
        run_id=row.run_id,
        effect_id=effect.id,
        verb=Verb.ACKNOWLEDGE if state is CompensationState.NEEDS_YOU else row.verb,
        template=_template(effect, row),
        tool=f"{effect.connection}.{effect.tool}",
        people=effect.people,
        names=tuple(sorted(effect.names.items())),
        reason=row.reason,
        detail=row.detail,
        since=effect.at,
        settles_at=effect.settles_at,
        fix=_fix(effect, state),
        claims=row.claims,
        values=row.values,
    )


def _template(effect: Effect, row: CompensationRow) -> str:
    if row.reason in TEMPLATE_OF_REASON:
        return TEMPLATE_OF_REASON[row.reason]
    if row.state in _NOT_BEGUN and effect.standing is Standing.IN_DOUBT:
        forward = effect.state in (CallState.INTENT, CallState.IN_DOUBT)
        return "forward_in_doubt" if forward else "in_doubt"
    own = effect.residue if row.state in _SAID_BY_CONTRACTS else None
    if own is not None and not _offset_only(effect, row):
        return own
    if row.state is CompensationState.NEEDS_YOU and effect.contract is None:
        return "undeclared"
    if row.state is CompensationState.NEEDS_YOU and effect.tells:
        return "told"
    return TEMPLATE_OF_STATE[row.state]


def _offset_only(effect: Effect, row: CompensationRow) -> bool:
    """Whether the contract's word says that this effect was offset, and it was not."""
    return (
        row.state is CompensationState.NEEDS_YOU
        and effect.class_ is EffectClass.COMPENSABLE
        and effect.residue in _OF_OFFSETS
    )


_NOT_BEGUN = (CompensationState.BLOCKED, CompensationState.NOT_STARTED)
"""The ends of which the words say that an effect took place and stays: of a doubt, too much."""

_SAID_BY_CONTRACTS = (CompensationState.COMPENSATED, CompensationState.NEEDS_YOU)
_OF_OFFSETS = ("notice_sent", "payment_refunded")


def _fix(effect: Effect, state: CompensationState) -> Fix:
    if state is CompensationState.NEEDS_YOU and effect.tells:
        return Fix.PEOPLE
    if state is CompensationState.COMPENSATED and not effect.tells:
        return Fix.NOBODY
    return FIX_OF_STATE[state]


def acknowledged(residue: ResidueRow) -> ResidueRow:
    """It after a person took note of it; what is settled stays so. No outcome is raised by it."""
    if residue.status is ResidueStatus.SETTLED:
        return residue
    return replace(residue, status=ResidueStatus.ACKNOWLEDGED)


def settled(residue: ResidueRow) -> ResidueRow:
    """It after its time, found to be settled. No outcome is raised by it."""
    return replace(residue, status=ResidueStatus.SETTLED)


def claims(
    basis: drift.Basis,
    state: CompensationState,
    *,
    world: drift.State | None,
    strayed: frozenset[drift.Cell] = frozenset(),
    ours: frozenset[drift.Cell] = frozenset(),
    earlier: Iterable[Claim] = (),
    unknown: Iterable[ResourceKey] = (),
) -> tuple[Claim, ...]:
    """The leaves of an effect that differ from what they were before it, or may.

    `world` is what was read of them last; without it all that the effect wrote, or may have
    written, may differ. A resource that was never read is claimed as a whole. `strayed` are leaves
    beside them that are no longer as our writes left them, after an inverse of ours, or may not be;
    `ours` are leaves that a later call of ours left as they are; `earlier` are the claims of an
    earlier run, of which those hold that are not known to be as before, and what an inverse has
    made, in this run too. `unknown` are the resources
    of a call that may have changed anything of them: each is claimed as a whole.
    """
    if state is CompensationState.REVERTED:
        return ()
    earlier = tuple(earlier)
    made = tuple(claim for claim in earlier if claim.made)
    if state is CompensationState.CANCELLED and world is None:
        return made
    before = frozenset(drift.Cell(claim.resource, claim.path) for claim in earlier if claim.path)
    left = basis.writes | basis.unsure | before
    theirs: frozenset[drift.Cell] = frozenset()
    if world is not None:
        if basis.unseen:
            left |= drift.differing(basis.part(world), basis.goal)
        other = drift.differing(world, basis.goal)
        left = frozenset(cell for cell in other if cell in left or basis.is_unsure(cell))
        not_ours = drift.differing(world, basis.expected) | basis.marked
        theirs = (left | strayed) & not_ours - ours
        theirs |= {cell for cell in left if _is_filled(cell, basis, world, ours)}
    left |= strayed
    if basis.unseen and world is None:
        unknown = (*unknown, *basis.resources)
    whole = () if state is CompensationState.CANCELLED else (*basis.unread, *unknown)
    return (
        *made,
        *(Claim(resource, ()) for resource in dict.fromkeys(whole)),
        *(Claim(cell.resource, cell.path, cell in theirs) for cell in drift.in_order(left)),
    )


def _is_filled(
    cell: drift.Cell, basis: drift.Basis, world: drift.State, ours: frozenset[drift.Cell]
) -> bool:
    """Whether somebody else has written into what was empty before and gone after the effect.

    An empty list or object is a leaf, and none once something is in it.
    """
    within = [other for other in world if _lies_in(other, cell)]
    expected = any(_lies_in(other, cell) for other in basis.expected)
    return bool(within) and not expected and ours.isdisjoint(within)


def _lies_in(cell: drift.Cell, other: drift.Cell) -> bool:
    return cell.resource == other.resource and lies_under(cell.path, (other.path,))
