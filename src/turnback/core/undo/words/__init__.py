"""The sentences of an undo, in the languages there are: made from facts when somebody reads them.

A text has names, subjects and dates in it, and never what was written: no body of a mail, no
argument, no value. Dates are written by the caller, who knows the reader's calendar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from turnback.core.undo.outcome import Count
from turnback.core.undo.report import Draft
from turnback.core.undo.rows import CompensationState, Fix, Outcome, Reason, ResidueRow
from turnback.core.undo.words import de, en
from turnback.core.undo.words.shape import Words
from turnback.core.values import shown

NAMED_AT_MOST = 5
"""People that one sentence names; of more, the rest is counted."""

LONGEST_SUBJECT = 120
LONGEST_NAME = 200
LONGEST_DETAIL = 200


class Language(StrEnum):
    """The languages that reports are written in."""

    ENGLISH = "en"
    GERMAN = "de"


WORDS: Mapping[Language, Words] = {Language.ENGLISH: en.WORDS, Language.GERMAN: de.WORDS}

When = Callable[[int], str]
"""A moment, in ms since the epoch, as the reader writes it."""


@dataclass(frozen=True, slots=True)
class ResidueText:
    """A residue in words. `settles` and `draft` are None where there is neither."""

    what: str
    saw: str
    how: str
    settles: str | None
    draft: Draft | None


def language_of(accepted: Iterable[str]) -> Language:
    """The first language that there are words in, of tags such as `de-AT`; else English."""
    for tag in accepted:
        for language in Language:
            if tag.lower().partition("-")[0] == language:
                return language
    return Language.ENGLISH


def named(names: Iterable[str]) -> tuple[str, ...]:
    """People's names as a tool gave them, fit to be read: bounded, nothing unprintable in them."""
    return tuple(shown(name, limit=LONGEST_NAME) for name in names)


def people(names: tuple[str, ...], words: Words) -> str:
    """Those who were told, as a sentence names them."""
    if not names:
        return words.nobody_named
    some = ", ".join(named(names[:NAMED_AT_MOST]))
    more = len(names) - NAMED_AT_MOST
    return words.and_more.format(named=some, more=more) if more > 0 else some


def residue_text(
    residue: ResidueRow, language: Language, when: When, *, ahead: bool = False
) -> ResidueText:
    """What a residue says to the person who reads it; `ahead`: before anything was done."""
    words = WORDS[language]
    template = words.residues.get(residue.template) or words.residues[_fallback(residue)]
    names = dict(residue.names)
    facts = {
        "tool": residue.tool,
        "who": people(residue.people, words),
        "subject": shown(names.get("subject") or residue.tool, limit=LONGEST_SUBJECT),
        "since": when(residue.since),
        "detail": shown(residue.detail, limit=LONGEST_DETAIL) or words.no_detail,
        "because": words.reasons[residue.reason] if residue.reason else "",
    }
    settles = None
    if residue.settles_at is not None:
        settles = words.settles.format(when=when(residue.settles_at))
    draft = None
    if residue.fix is Fix.PEOPLE and residue.people:
        draft = Draft(
            to=named(residue.people),
            subject=words.draft_subject.format(**facts),
            date=residue.since,
            body=words.draft_body.format(**facts),
        )
    told_nobody = residue.fix is Fix.NOBODY and not residue.people and template.saw == words.seen
    saw = (words.nobody_told if told_nobody else template.saw).format(**facts)
    if not residue.people:
        saw = saw[:1].upper() + saw[1:]  # a name keeps its letters, these words begin a sentence
    return ResidueText(
        what=((template.ahead if ahead else None) or template.what).format(**facts),
        saw=saw,
        how=words.fixes[residue.fix],
        settles=settles,
        draft=draft,
    )


def _fallback(residue: ResidueRow) -> str:
    """The template for a contract's own word that there are no words for."""
    return "left" if residue.fix is Fix.NOBODY else "told" if residue.people else "needs_you"


def state_text(state: CompensationState, reason: Reason | None, language: Language) -> str:
    """What came of one member, in a few words."""
    words = WORDS[language]
    said = words.states[state]
    return f"{said}: {words.reasons[reason]}" if reason is not None else said


def headline(outcome: Outcome | None, counts: Mapping[Count, int], language: Language) -> str:
    """One line over a report; what needs a person comes first."""
    words = WORDS[language]
    parts = []
    for count in Count:
        number = counts.get(count, 0)
        if number:
            one, more = words.counts[count]
            parts.append((one if number == 1 else more).format(n=number))
    if outcome is not None:
        lead = words.outcomes[outcome]
        return f"{lead}: {', '.join(parts)}" if parts else lead
    return ", ".join(parts)
