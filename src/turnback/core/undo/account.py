"""What a call was about and what it leaves, in a few words for a plan or a list (undo.md 5, 6)."""

from __future__ import annotations

from turnback.core.effects import Effect, ResourceKey
from turnback.core.undo import residue as residues
from turnback.core.undo.plan import Group, Member
from turnback.core.undo.rows import (
    CompensationRow,
    CompensationState,
    Reason,
)
from turnback.core.undo.words import (
    Language,
    ResidueText,
    When,
    residue_text,
)
from turnback.core.values import shown

LONGEST_WHAT = 120


def what(effect: Effect) -> str:
    """What a call was about, in a few words: its subject, else the things it touched."""
    if subject := effect.names.get("subject"):
        return shown(subject, limit=LONGEST_WHAT)
    things = dict.fromkeys(thing(touch.resource) for touch in effect.touches)
    return shown("; ".join(things), limit=LONGEST_WHAT)


def thing(resource: ResourceKey) -> str:
    """A thing in the world as a person reads it: its kind, and its key there."""
    return shown(f"{resource.kind} {', '.join(str(part) for part in resource.key)}")


def foreseen(
    effect: Effect, member: Member, *, language: Language, when: When
) -> ResidueText | None:
    """What a member of a plan will leave as far as is known before; None where nothing."""
    if member.group is Group.REVERTED:
        return None
    row = CompensationRow(
        run_id="",
        effect_id=effect.id,
        position=0,
        verb=member.verb,
        state=CompensationState.COMPENSATED
        if member.group is Group.COMPENSATED
        else CompensationState.NEEDS_YOU,
        reason=_foreseen_reason(effect, member),
    )
    left = residues.of(effect, row)
    return None if left is None else residue_text(left, language, when, ahead=True)


def _foreseen_reason(effect: Effect, member: Member) -> Reason | None:
    if effect.purged:
        return Reason.PURGED
    if member.in_doubt and member.group is Group.STAYS:
        return Reason.FORWARD_IN_DOUBT
    return None
