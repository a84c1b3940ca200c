"""What a language has to say: one `Words`, with the same templates in each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from turnback.core.undo.outcome import Count
from turnback.core.undo.rows import CompensationState, Fix, Outcome, Reason

PLACEHOLDERS = frozenset({"tool", "who", "subject", "since", "detail", "because"})
"""What a sentence about a residue, or a draft, may have in it."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One template: what is left, and what those concerned have seen of it.

    `ahead` is what will be left, said before anything was done; None where `what` is as true then.
    """

    what: str
    saw: str
    ahead: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """All sentences of one language. `counts` has the form for one and the form for more."""

    residues: Mapping[str, Sentence]
    fixes: Mapping[Fix, str]
    states: Mapping[CompensationState, str]
    reasons: Mapping[Reason, str]
    outcomes: Mapping[Outcome, str]
    counts: Mapping[Count, tuple[str, str]]
    settles: str
    seen: str
    nobody_told: str
    nobody_named: str
    and_more: str
    no_detail: str
    draft_subject: str
    draft_body: str
