"""The report of a run, put together from its rows for one reader in one language."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from turnback.core.effects import Effect
from turnback.core.undo.account import what
from turnback.core.undo.outcome import counts
from turnback.core.undo.report import Report, ReportItem, ReportResidue
from turnback.core.undo.rows import CompensationRow, ResidueRow, RunRow
from turnback.core.undo.words import Language, When, headline, named, residue_text, state_text


def report_of(
    run: RunRow,
    compensations: Iterable[CompensationRow],
    residues: Mapping[str, ResidueRow],
    effects: Mapping[str, Effect],
    *,
    language: Language,
    when: When,
    secret: frozenset[str] = frozenset(),
) -> Report:
    """What came of a run. `residues` are by their ids, `effects` as they stand now.

    Of those effects that are `secret` no value is in it. It names people and shows values, so it
    is for who has the right `run`.
    """
    rows = sorted(compensations, key=lambda row: row.position)
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
        residues=tuple(
            residue_of(id_, residue, language=language, when=when)
            for id_, residue in residues.items()
        ),
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
        people=named(effect.people),
        values=() if hidden else row.values,
    )


def residue_of(id_: str, residue: ResidueRow, *, language: Language, when: When) -> ReportResidue:
    """One residue in words."""
    text = residue_text(residue, language, when)
    return ReportResidue(
        residue_id=id_,
        effect_id=residue.effect_id,
        verb=residue.verb,
        what=text.what,
        who=named(residue.people),
        saw=text.saw,
        since=residue.since,
        settles_at=residue.settles_at,
        settles=text.settles,
        fix=residue.fix,
        how=text.how,
        draft=text.draft,
        status=residue.status,
        leaves=residue.claims,
        values=residue.values,
    )
