"""The report of a run, put together from its rows in the reader's language (undo.md 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from turnback.core.effects import Effect
from turnback.core.undo.outcome import counts
from turnback.core.undo.report import Report, ReportItem, ReportResidue
from turnback.core.undo.rows import CompensationRow, ResidueRow, RunRow
from turnback.core.undo.words import Language, When, headline, residue_text, state_text
from turnback.core.values import shown

LONGEST_WHAT = 120


def report(
    run: RunRow,
    members: Iterable[CompensationRow],
    effects: Mapping[str, Effect],
    residues: Iterable[tuple[str, ResidueRow]],
    *,
    language: Language,
    when: When,
    secret: frozenset[str] = frozenset(),
) -> Report:
    """The report; `residues` are with their ids, `effects` by id.

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
        residues=tuple(residue(id_, row, language=language, when=when) for id_, row in residues),
        spent=run.spent,
        budget=run.budget,
    )


def _item(
    row: CompensationRow, effect: Effect, language: Language, *, hidden: bool
) -> ReportItem:
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
    things = dict.fromkeys(
        f"{touch.resource.kind} {', '.join(str(part) for part in touch.resource.key)}"
        for touch in effect.touches
    )
    return shown("; ".join(things), limit=LONGEST_WHAT)


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
