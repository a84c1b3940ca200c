"""The report of a run as it is read: what came of each effect, and what remains (undo.md 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from turnback.core.drift import LeafValues
from turnback.core.effects import Standing, Verb
from turnback.core.undo.budget import Budget, Spent
from turnback.core.undo.rows import (
    Claim,
    CompensationState,
    Fix,
    Outcome,
    Reason,
    ResidueStatus,
)


@dataclass(frozen=True, slots=True)
class Draft:
    """A message that a person may send, and nobody else does."""

    to: tuple[str, ...]
    subject: str
    date: int
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportItem:
    """One member of the run; `what` is the name that people know it by, `said` its end in words.

    `values` are shown where somebody else changed it.
    """

    effect_id: str
    tool: str
    what: str
    verb: Verb
    state: CompensationState
    reason: Reason | None
    said: str
    standing: Standing | None
    people: tuple[str, ...]
    values: tuple[LeafValues, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportResidue:
    """One residue in words; `since` and `settles_at` are in ms since the epoch."""

    residue_id: str
    effect_id: str
    verb: Verb
    what: str
    who: tuple[str, ...]
    saw: str
    since: int
    settles_at: int | None
    settles: str | None
    fix: Fix
    how: str
    draft: Draft | None
    status: ResidueStatus
    leaves: tuple[Claim, ...]
    values: tuple[LeafValues, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of a run. `counts` has the number of members per verb that was carried out, and
    of those that need a person."""

    undo_id: str
    outcome: Outcome | None
    headline: str
    counts: Mapping[str, int]
    items: tuple[ReportItem, ...]
    residues: tuple[ReportResidue, ...]
    spent: Spent
    budget: Budget
