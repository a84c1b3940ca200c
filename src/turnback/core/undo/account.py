"""The report of a run, put together from its rows in the reader's language (undo.md 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from turnback.core.effects import Effect, ResourceKey
from turnback.core.undo import residue as residues
from turnback.core.undo.outcome import counts
from turnback.core.undo.plan import Group, Member
from turnback.core.undo.report import Report, ReportItem, ReportResidue
from turnback.core.undo.rows import (
    CompensationRow,
    CompensationState,
    Reason,
    ResidueRow,
    RunRow,
)
from turnback.core.undo.words import (
    Language,
    ResidueText,
    When,
    headline,
    residue_text,
    state_text,
)
from turnback.core.values import shown

LONGEST_WHAT = 120


def report(
    run: RunRow,
    members: Iterable[CompensationRow],
    effects: Mapping[str, Effect],
    left: Iterable[tuple[str, ResidueRow]],
    *,
    language: Language,
    when: When,
    secret: frozenset[str] = frozenset(),
) -> Report:
    """The report; what is `left` comes with its ids, `effects` by id.

    Of the effects that are `secret` no value is shown.
    """
    rows = sorted(members, key=lambda row: row.position)
    counted = counts(rows)
    return Report(
        undo_id=run.id,
        outcome=run.outcome,
        headline=headline(run.outcome, counted, language),
        counts={count.value: number for count, number in counted.items()},
        items=tuple(
            _item(row, effects[row.effect_id], language, hidden=row.effect_id in secret)
            for row in rows
        ),
        residues=tuple(residue(id_, row, language=language, when=when) for id_, row in left),
        spent=run.spent,
        budget=run.budget,
    )


def _item(row: CompensationRow, effect: Effect, language: Language, *, hidden: bool) -> ReportItem:
    return ReportItem(
        effect_id=effect.id,
        tool=f"{effect.connection}.{effect.tool}",
        what=what(effect),
        verb=row.verb,
        state=row.state,
        reason=row.reason,
        said=state_text(row.state, row.reason, language),
        standing=effect.standing,
        people=effect.people,
        values=() if hidden else row.values,
    )


def what(effect: Effect) -> str:
    """What a call was about, in a few words: its subject, else the things it touched."""
    if subject := effect.names.get("subject"):
        return shown(subject, limit=LONGEST_WHAT)
    things = dict.fromkeys(thing(touch.resource) for touch in effect.touches)
    return shown("; ".join(things), limit=LONGEST_WHAT)


def thing(resource: ResourceKey) -> str:
    """A thing in the world as a person reads it: its kind, and its key there."""
    return shown(f"{resource.kind} {', '.join(str(part) for part in resource.key)}")


def residue(residue_id: str, row: ResidueRow, *, language: Language, when: When) -> ReportResidue:
    """One residue in words."""
    text = residue_text(row, language, when)
    return ReportResidue(
        residue_id=residue_id,
        effect_id=row.effect_id,
        verb=row.verb,
        what=text.what,
        who=row.people,
        saw=text.saw,
        since=row.since,
        settles_at=row.settles_at,
        settles=text.settles,
        fix=row.fix,
        how=text.how,
        draft=text.draft,
        status=row.status,
        leaves=row.claims,
    )


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
        reason=Reason.PURGED if effect.purged else None,
    )
    left = residues.of(effect, row)
    return None if left is None else residue_text(left, language, when)
