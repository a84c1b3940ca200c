"""The words of reports: all of them in every language, bound, and with nobody's text in them."""

from __future__ import annotations

from string import Formatter

import pytest

from turnback.core.effects import Verb
from turnback.core.undo import residue
from turnback.core.undo.outcome import Count
from turnback.core.undo.rows import (
    UNDER_WAY,
    CompensationState,
    Fix,
    Outcome,
    Reason,
    ResidueRow,
)
from turnback.core.undo.words import (
    WORDS,
    Language,
    headline,
    language_of,
    residue_text,
    state_text,
)
from turnback.core.undo.words.shape import PLACEHOLDERS, Words

ENGLISH = WORDS[Language.ENGLISH]
SECRET = "the body of the mail"


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def left(template: str, **members: object) -> ResidueRow:
    defaults: dict[str, object] = {
        "run_id": "run",
        "effect_id": "e1",
        "verb": Verb.ACKNOWLEDGE,
        "template": template,
        "tool": "mail.send_email",
        "people": ("anna@example.org",),
        "names": (("subject", "Offer"), ("body", SECRET)),
        "reason": Reason.IRREVERSIBLE,
        "detail": "",
        "since": 1_700_000_000_000,
        "settles_at": None,
        "fix": Fix.PEOPLE,
        "claims": (),
    }
    return ResidueRow(**{**defaults, **members})  # type: ignore[arg-type]


@pytest.mark.parametrize("language", Language)
def test_every_language_says_everything(language: Language) -> None:
    words: Words = WORDS[language]
    assert words.residues.keys() == ENGLISH.residues.keys()
    for name, sentence in words.residues.items():
        assert (sentence.ahead is None) == (ENGLISH.residues[name].ahead is None), name
    assert set(words.fixes) == set(Fix)
    assert set(words.states) == set(CompensationState)
    assert set(words.reasons) == set(Reason)
    assert set(words.outcomes) == set(Outcome)
    assert set(words.counts) == set(Count)


@pytest.mark.parametrize("language", Language)
def test_every_placeholder_is_bound(language: Language) -> None:
    words = WORDS[language]
    for sentence in words.residues.values():
        assert placeholders(sentence.what) <= PLACEHOLDERS
        assert placeholders(sentence.saw) <= PLACEHOLDERS
        assert placeholders(sentence.ahead or "") <= placeholders(sentence.what)
    for name, sentence in words.residues.items():
        here = placeholders(sentence.what) | placeholders(sentence.saw)
        english = ENGLISH.residues[name]
        assert here == placeholders(english.what) | placeholders(english.saw), name
    assert placeholders(words.draft_subject) | placeholders(words.draft_body) <= PLACEHOLDERS
    assert placeholders(words.settles) == {"when"}
    assert placeholders(words.and_more) == {"named", "more"}
    for forms in words.counts.values():
        assert [placeholders(form) for form in forms] == [{"n"}, {"n"}]


def test_every_end_that_leaves_something_has_a_template() -> None:
    named = {*residue.TEMPLATE_OF_STATE.values(), *residue.TEMPLATE_OF_REASON.values()}
    assert named <= ENGLISH.residues.keys()
    clean = {CompensationState.REVERTED}
    ends = {state for state in CompensationState if state not in UNDER_WAY}
    assert residue.TEMPLATE_OF_STATE.keys() == residue.FIX_OF_STATE.keys() == ends - clean


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize("template", [*ENGLISH.residues, "a_contracts_own"])
def test_a_residue_and_its_draft_have_names_subject_and_date_and_no_body(
    language: Language, template: str
) -> None:
    text = residue_text(left(template), language, lambda _: "14 March")
    assert text.draft is not None
    assert text.draft.to == ("anna@example.org",)
    assert "Offer" in text.draft.subject
    assert "14 March" in text.draft.body
    said = repr(text)
    assert SECRET not in said
    assert "{" not in text.what + text.saw + text.how + text.draft.subject + text.draft.body


def test_before_anything_was_done_it_is_said_as_what_will_be() -> None:
    refunded = left("payment_refunded")
    ahead = residue_text(refunded, Language.ENGLISH, lambda _: "14 March", ahead=True)
    assert ahead.what == (
        "The payment “Offer” of 14 March will be refunded; both stay on the statement."
    )
    assert "was refunded" in residue_text(refunded, Language.ENGLISH, str).what
    sent = left("mail_sent")
    assert residue_text(sent, Language.ENGLISH, str, ahead=True) == residue_text(
        sent, Language.ENGLISH, str
    )


def test_nobody_is_written_to_who_was_not_told() -> None:
    assert residue_text(left("told", people=()), Language.ENGLISH, str).draft is None
    assert residue_text(left("file_left", fix=Fix.YOU), Language.ENGLISH, str).draft is None


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize("template", ["payment_refunded", "compensated", "unchecked"])
def test_of_what_told_nobody_it_is_not_said_that_somebody_may_have_seen_it(
    language: Language, template: str
) -> None:
    words = WORDS[language]
    offset = residue_text(left(template, people=(), fix=Fix.NOBODY), language, str)
    assert offset.saw == words.nobody_told
    told = residue_text(left(template, people=(), fix=Fix.PEOPLE), language, str)
    assert words.nobody_named.lower() in told.saw.lower()


@pytest.mark.parametrize("language", Language)
def test_who_is_not_named_begins_a_sentence_as_words_do_and_a_name_stays_as_it_is(
    language: Language,
) -> None:
    nobody = residue_text(left("compensated", people=()), language, str).saw
    assert nobody[0].isupper()
    assert residue_text(left("compensated"), Language.ENGLISH, str).saw.startswith("anna@")


def test_a_long_list_of_people_is_counted_and_a_strangers_text_is_bounded() -> None:
    people = tuple(f"p{n}" for n in range(40))
    names = (("subject", "long\n" * 1000),)
    text = residue_text(left("told", people=people, names=names), Language.ENGLISH, str)
    assert "35 more" in text.what
    assert text.draft is not None
    assert "\n" not in text.draft.subject
    assert len(text.draft.subject) < 200
    assert text.draft.to == people


def test_settling_is_said_where_there_is_a_time_for_it() -> None:
    text = residue_text(left("payment_refunded", settles_at=5), Language.GERMAN, lambda ms: f"{ms}")
    assert text.settles == "Es wird am 5 endgültig."
    assert residue_text(left("payment_refunded"), Language.GERMAN, str).settles is None


def test_a_name_cannot_hide_or_turn_round_what_a_sentence_says() -> None:
    text = residue_text(left("told", people=("a\0\u202e@x",)), Language.ENGLISH, str)
    assert all(said.isprintable() for said in (text.what, text.saw))
    assert "a\\x00\\u202e@x" in text.what + text.saw
    assert text.draft is not None
    assert text.draft.to == ("a\\x00\\u202e@x",)


def test_a_headline_names_what_needs_you_first() -> None:
    counts = {Count.REVERT: 7, Count.NEEDS_YOU: 1, Count.COMPENSATE: 2}
    said = headline(Outcome.PARTIALLY_REVERTED, counts, Language.ENGLISH)
    assert said == "Partially reverted: 1 needs you, 2 compensated, 7 reverted"
    assert headline(None, {}, Language.ENGLISH) == ""


@pytest.mark.parametrize("language", Language)
def test_nothing_is_ever_called_undone(language: Language) -> None:
    words = WORDS[language]
    sentences = [
        *(part for one in words.residues.values() for part in (one.what, one.saw, one.ahead or "")),
        *words.states.values(),
        *words.reasons.values(),
        *words.outcomes.values(),
        *(form for forms in words.counts.values() for form in forms),
    ]
    banned = ("undone", "ungeschehen", "rückgängig")
    assert not [text for text in sentences if any(word in text.lower() for word in banned)]


def test_a_member_says_its_state_and_why() -> None:
    said = state_text(CompensationState.REVERTED, Reason.ALREADY, Language.ENGLISH)
    assert said == "reverted: already as before"
    assert state_text(CompensationState.REVERTED, None, Language.GERMAN) == "zurückgenommen"


def test_the_readers_language_is_taken_where_there_are_words_in_it() -> None:
    assert language_of(["fr", "de-AT", "en"]) is Language.GERMAN
    assert language_of(["fr"]) is Language.ENGLISH
    assert language_of([]) is Language.ENGLISH
