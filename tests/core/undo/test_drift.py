"""The judgement of drift, leaf by leaf: E, G, W, D, and what is never taken from the world."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnback.core import drift
from turnback.core.contracts.states import Observation
from turnback.core.drift import Already, Cell, DriftKind, Go, LedgerEntry, Reached, Review, Source
from turnback.core.effects import (
    CallState,
    Effect,
    EffectClass,
    LeafPath,
    Leaves,
    ResourceKey,
    Standing,
    Touch,
)
from turnback.core.undo import residue
from turnback.core.undo.rows import CompensationState

CONTACT = ResourceKey("desk", "contact", (17,))
PHONE, MAIL = ("phone",), ("mail",)


def effect(
    before: Leaves, after: Leaves, *, number: int = 1, resource: ResourceKey = CONTACT, **more: Any
) -> Effect:
    """An effect that led from these leaves to those."""
    touch = Touch(
        resource,
        before,
        {path: value for path, value in after.items() if before.get(path) != value},
        frozenset(before.keys() - after.keys()),
        **more,
    )
    return Effect(
        id=f"e{number}",
        session_id="session",
        turn_id="turn",
        step_id="step",
        number=number,
        tool_call_id="call",
        connection="desk",
        tool="set",
        contract=None,
        class_=EffectClass.REVERSIBLE,
        case=None,
        state=CallState.DONE,
        standing=Standing.IN_FORCE,
        args={},
        touches=(touch,),
    )


def seen(leaves: Leaves, resource: ResourceKey = CONTACT) -> drift.Seen:
    return {resource: Observation(leaves, {})}


WROTE = effect({PHONE: "A", MAIL: "M"}, {PHONE: "B", MAIL: "M"})


def test_expected_is_before_and_what_the_call_wrote() -> None:
    basis = drift.basis(WROTE)
    assert basis.expected == {Cell(CONTACT, PHONE): "B", Cell(CONTACT, MAIL): "M"}
    assert basis.goal == {Cell(CONTACT, PHONE): "A", Cell(CONTACT, MAIL): "M"}
    assert basis.writes == {Cell(CONTACT, PHONE)}


@pytest.mark.parametrize(
    ("now", "narrow", "verdict"),
    [
        ({PHONE: "B", MAIL: "M"}, False, Go),
        ({PHONE: "A", MAIL: "M"}, False, Already),
        ({PHONE: "A", MAIL: "theirs"}, False, Already),
        ({PHONE: "B", MAIL: "theirs"}, False, Review),
        ({PHONE: "B", MAIL: "theirs"}, True, Go),
        ({PHONE: "B"}, True, Go),
        ({PHONE: "theirs", MAIL: "M"}, True, Review),
        ({MAIL: "M"}, True, Review),
        ({}, True, Review),
    ],
)
def test_the_verdict(now: Leaves, narrow: bool, verdict: type) -> None:
    assert isinstance(drift.judge(drift.basis(WROTE), seen(now), narrow=narrow), verdict)


@pytest.mark.parametrize("narrow", [True, False])
def test_what_somebody_has_added_to_a_thing_that_an_inverse_takes_away_is_in_its_way(
    narrow: bool,
) -> None:
    made = drift.basis(effect({}, {PHONE: "B"}))
    assert isinstance(drift.judge(made, seen({PHONE: "B"}), narrow=narrow), Go)
    verdict = drift.judge(made, seen({PHONE: "B", MAIL: "theirs"}), narrow=narrow)
    assert isinstance(verdict, Review)
    (leaf,) = verdict.values
    assert (leaf.cell, leaf.now) == (Cell(CONTACT, MAIL), "theirs")


@pytest.mark.parametrize("narrow", [False, True])
def test_what_a_call_may_have_made_is_there_still_while_it_differs(narrow: bool) -> None:
    """Looked at long after the call, nobody knows whose `mail` is; nothing else was written."""
    late = effect({}, {}, unsure=frozenset({MAIL}))
    verdict = drift.judge(drift.basis(late), seen({MAIL: "M"}), narrow=narrow)
    assert not isinstance(verdict, Already)
    assert isinstance(drift.judge(drift.basis(late), seen({}), narrow=narrow), Already)


@pytest.mark.parametrize("world", [None, {Cell(CONTACT, MAIL): "M"}])
def test_what_a_call_may_have_written_is_claimed_while_it_differs(
    world: drift.State | None,
) -> None:
    late = drift.basis(effect({}, {}, unsure=frozenset({MAIL})))
    [claim] = residue.claims(late, CompensationState.NEEDS_REVIEW, world=world)
    assert (claim.resource, claim.path) == (CONTACT, MAIL)
    assert not residue.claims(late, CompensationState.NEEDS_REVIEW, world={})


@pytest.mark.parametrize(
    ("world", "is_theirs"),
    [
        ({}, False),
        ({MAIL: "M"}, False),
        ({("rules", "0"): "theirs"}, True),
        ({("rules",): ["theirs"]}, True),
    ],
)
def test_what_somebody_has_written_into_a_list_that_was_empty_before_and_removed_is_theirs(
    world: Leaves, is_theirs: bool
) -> None:
    gone = drift.basis(effect({("rules",): [], MAIL: "M"}, {MAIL: "M"}))
    left = residue.claims(
        gone, CompensationState.NEEDS_REVIEW, world=drift.state_of(seen({MAIL: "M"} | world))
    )
    assert [(claim.path, claim.theirs) for claim in left] == [(("rules",), is_theirs)]


def test_what_a_call_wrote_into_an_empty_list_is_ours_whoever_wrote_there_too() -> None:
    ours: Leaves = {("rules", "0"): "ours"}
    filled = drift.basis(effect({("rules",): []}, ours))
    world = drift.state_of(seen(ours | {("rules", "1"): "theirs"}))
    left = residue.claims(filled, CompensationState.NEEDS_REVIEW, world=world)
    assert {claim.path: claim.theirs for claim in left} == {
        ("rules",): False,
        ("rules", "0"): False,
    }


@pytest.mark.parametrize("narrow", [False, True])
def test_of_a_thing_of_which_nobody_saw_what_a_call_did_any_change_is_in_the_way(
    narrow: bool,
) -> None:
    hidden = drift.basis(effect({PHONE: "A"}, {PHONE: "A"}, unsure=frozenset({()})))
    verdict = drift.judge(hidden, seen({PHONE: "B"}), narrow=narrow)
    assert isinstance(verdict, Review)
    assert isinstance(drift.judge(hidden, seen({PHONE: "A"}), narrow=narrow), Already)
    [claim] = residue.claims(
        hidden, CompensationState.NEEDS_REVIEW, world={Cell(CONTACT, PHONE): "B"}
    )
    assert (claim.resource, claim.path) == (CONTACT, PHONE)
    [claim] = residue.claims(hidden, CompensationState.FAILED, world=None)
    assert (claim.resource, claim.path) == (CONTACT, ())


def test_a_go_names_the_strangers_leaves_that_it_spares() -> None:
    now = {PHONE: "B", MAIL: "theirs"}
    verdict = drift.judge(drift.basis(WROTE), seen(now), narrow=True)
    assert verdict == Go(beside=frozenset({Cell(CONTACT, MAIL)}))


def test_a_review_shows_what_was_expected_what_is_there_and_the_goal() -> None:
    verdict = drift.judge(drift.basis(WROTE), seen({MAIL: "M"}), narrow=True)
    assert isinstance(verdict, Review)
    (leaf,) = verdict.values
    assert (leaf.expected, leaf.is_expected, leaf.is_now, leaf.goal) == ("B", True, False, "A")


def test_numbers_are_equal_as_json_and_true_is_not_one() -> None:
    basis = drift.basis(effect({PHONE: 0}, {PHONE: 1}))
    assert isinstance(drift.judge(basis, seen({PHONE: 1.0}), narrow=False), Go)
    assert isinstance(drift.judge(basis, seen({PHONE: True}), narrow=False), Review)


def test_after_an_inverse_the_leaves_that_it_put_back_are_expected_there() -> None:
    before, after = {PHONE: "A", MAIL: "M"}, {PHONE: "B", MAIL: "N"}
    both = effect(before, after)
    half = LedgerEntry(CONTACT, Source.INVERSE, {PHONE: "A"}, effect_id="e1", session_id="session")
    basis = drift.basis(both, ledger={CONTACT: [half]})
    assert basis.writes == {Cell(CONTACT, MAIL)}
    assert isinstance(drift.judge(basis, seen({PHONE: "A", MAIL: "N"}), narrow=False), Go)
    assert isinstance(drift.judge(basis, seen({PHONE: "B", MAIL: "N"}), narrow=False), Review)


def test_what_an_inverse_is_said_to_have_written_is_its_goal_and_nothing_that_is_there() -> None:
    basis = drift.basis(effect({PHONE: "A", MAIL: "M"}, {PHONE: "B", MAIL: "N"}))
    now = drift.state_of(seen({PHONE: "A", MAIL: "theirs", ("note",): "theirs"}))
    (entry,) = drift.put_back(basis, now, WROTE)
    assert (entry.wrote, entry.removed, entry.source) == ({PHONE: "A"}, frozenset(), Source.INVERSE)


def test_a_leaf_that_a_stranger_wrote_since_stays_theirs_whatever_its_value() -> None:
    ledger = {
        CONTACT: [
            LedgerEntry(CONTACT, Source.EFFECT, {PHONE: "B"}, effect_id="e1"),
            LedgerEntry(CONTACT, Source.STRANGER, {PHONE: "X"}),
        ]
    }
    basis = drift.basis(WROTE, ledger=ledger)
    now = {PHONE: "B", MAIL: "M"}
    assert isinstance(drift.judge(basis, seen(now), narrow=True), Review)
    before_us = {CONTACT: ledger[CONTACT][::-1]}
    earlier = drift.basis(WROTE, ledger=before_us)
    assert isinstance(drift.judge(earlier, seen(now), narrow=True), Go)


def test_a_thing_is_another_one_by_what_identifies_it() -> None:
    made: LeafPath = ("made",)
    wrote = effect({PHONE: "A", made: 1}, {PHONE: "B", made: 1}, identity=frozenset({"made"}))
    verdict = drift.judge(drift.basis(wrote), seen({PHONE: "B", made: 2}), narrow=True)
    assert isinstance(verdict, Review)
    assert verdict.kind is DriftKind.RECREATED


def test_what_others_put_into_a_thing_keeps_it_and_what_was_made_with_it_does_not() -> None:
    folder, ours, theirs = (ResourceKey("desk", "file", (name,)) for name in "abc")
    made = effect({}, {("there",): True}, resource=folder)
    inside = Touch(ours, {}, {("text",): "as it came"})
    basis = drift.basis(replace(made, touches=(*made.touches, inside)))

    def judged(text: str, *children: ResourceKey) -> drift.Verdict:
        there = Observation({("there",): True}, {}, children=children)
        seen = {folder: there, ours: Observation({("text",): text}, {})}
        return drift.judge(basis, seen, narrow=False)

    assert isinstance(judged("as it came", ours), Go)
    edited = judged("edited", ours)
    assert isinstance(edited, Review)
    assert edited.kind is DriftKind.CHANGED
    occupied = judged("as it came", ours, theirs)
    assert isinstance(occupied, Review)
    assert occupied.kind is DriftKind.OCCUPIED


def test_what_nobody_has_looked_at_in_a_thing_keeps_it() -> None:
    folder, inside = (ResourceKey("desk", "file", (name,)) for name in "ab")
    basis = drift.basis(effect({}, {("there",): True}, resource=folder, children=(inside,)))
    there = Observation({("there",): True}, {}, children=(inside,))
    assert isinstance(drift.judge(basis, {folder: there}, narrow=False), Review)


def test_what_went_with_a_thing_is_back_only_if_it_is_in_it_again() -> None:
    folder, inside = (ResourceKey("desk", "file", (name,)) for name in "ab")
    basis = drift.basis(effect({("there",): True}, {}, resource=folder, children=(inside,)))
    lost = {drift.Cell(inside, ())}
    assert drift.not_back_within(basis, {}) == lost
    empty, full = (Observation({("there",): True}, {}, children=c) for c in ((), (inside,)))
    now = drift.cells(folder, empty.leaves)
    assert drift.not_back_within(basis, now, {folder: empty}) == lost
    assert not drift.not_back_within(basis, now, {folder: full})
    assert not drift.not_back_within(basis, now)


def test_without_a_state_before_it_nothing_is_already_as_before() -> None:
    blind = effect({}, {})
    touch = Touch(CONTACT, None, {})
    basis = drift.basis(Effect(**{**_members(blind), "touches": (touch,)}))
    assert basis.unread == (CONTACT,)
    assert isinstance(drift.judge(basis, {}, narrow=False), Go)


def _members(one: Effect) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


leaves = st.dictionaries(
    st.sampled_from([PHONE, MAIL, ("note",)]), st.sampled_from(["A", "B", 1, True, None])
)


@given(leaves, leaves, leaves, leaves)
def test_an_inverse_is_verified_by_its_goal_and_by_what_lay_beside_it(
    before: dict[LeafPath, Any],
    after: dict[LeafPath, Any],
    now: dict[LeafPath, Any],
    then: dict[LeafPath, Any],
) -> None:
    basis = drift.basis(effect(before, after))
    state, later = drift.state_of(seen(now)), drift.state_of(seen(then))
    rest = drift.digest(drift.beside(basis, state))
    reached = drift.verify(basis, later, seen=drift.digest(state), rest=rest)
    wanted = {**drift.beside(basis, state)}
    wanted.update({cell: basis.goal[cell] for cell in basis.writes if cell in basis.goal})
    assert (reached is Reached.GOAL) == (not drift.differing(later, wanted))
    if reached is Reached.NOTHING:
        assert not drift.differing(later, state)


@given(leaves, leaves)
def test_states_have_one_digest_if_they_are_equal(
    one: dict[LeafPath, Any], other: dict[LeafPath, Any]
) -> None:
    states = drift.state_of(seen(one)), drift.state_of(seen(other))
    equal = not drift.differing(*states)
    assert (drift.digest(states[0]) == drift.digest(states[1])) == equal


# The ledger

ENTRIES = [
    LedgerEntry(CONTACT, Source.EFFECT, {PHONE: "B"}, effect_id="e1", session_id="session"),
    LedgerEntry(CONTACT, Source.EFFECT, {}, frozenset({MAIL}), "e2", "session"),
]


def test_the_ledger_says_what_our_writes_have_left() -> None:
    assert drift.expected_leaves(ENTRIES, {PHONE: "A", MAIL: "M"}) == {PHONE: "B"}


def test_what_differs_before_a_call_of_ours_is_a_strangers() -> None:
    theirs = drift.strange(CONTACT, ENTRIES, {PHONE: "X", MAIL: "Y", ("note",): "ours to learn"})
    assert theirs is not None
    assert (theirs.wrote, theirs.removed) == ({PHONE: "X", MAIL: "Y"}, frozenset())
    gone = drift.strange(CONTACT, ENTRIES, {})
    assert gone is not None
    assert gone.removed == {PHONE}
    assert drift.strange(CONTACT, ENTRIES, {PHONE: "B"}) is None
    assert drift.strange(CONTACT, [*ENTRIES, theirs], {PHONE: "X", MAIL: "Y"}) is None


def test_a_leaf_is_ours_as_long_as_it_is_as_we_left_it() -> None:
    assert drift.writer(ENTRIES, PHONE, {PHONE: "B"}) == ENTRIES[0]
    assert drift.writer(ENTRIES, MAIL, {PHONE: "B"}) == ENTRIES[1]
    assert drift.writer(ENTRIES, PHONE, {PHONE: "X"}) is None
    assert drift.writer(ENTRIES, ("note",), {}) is None
    stranger = LedgerEntry(CONTACT, Source.STRANGER, {PHONE: "B"})
    assert drift.writer([*ENTRIES, stranger], PHONE, {PHONE: "B"}) is None


def test_theirs_may_be_overwritten_while_they_are_as_the_person_was_shown() -> None:
    verdict = drift.judge(drift.basis(WROTE), seen({PHONE: "X", MAIL: "M"}), narrow=True)
    assert isinstance(verdict, Review)
    shown = drift.state_of(seen({PHONE: "X", MAIL: "anything"}))
    assert drift.may_overwrite(verdict.values, shown)
    assert not drift.may_overwrite(verdict.values, drift.state_of(seen({PHONE: "Y"})))
    assert not drift.may_overwrite(verdict.values, {})


def test_a_narrow_inverse_writes_what_it_takes_from_before_changed_or_not() -> None:
    """A whole list that is set back would take a stranger's element with it (undo.md 4)."""
    ours, theirs, list_ = ("tags", '"ours"'), ("tags", '"theirs"'), ("tags",)
    wrote = effect({PHONE: "1"}, {PHONE: "1", ours: "ours"}, taken=frozenset({list_}))
    basis = drift.basis(wrote)
    beside = {PHONE: "2", ours: "ours"}
    assert isinstance(drift.judge(basis, seen(beside), narrow=True), Go)
    verdict = drift.judge(basis, seen({PHONE: "1", ours: "ours", theirs: "theirs"}), narrow=True)
    assert isinstance(verdict, Review)
    assert [leaf.cell.path for leaf in verdict.values] == [theirs]
    whole = replace(basis, taken=frozenset({Cell(CONTACT, ())}))
    assert isinstance(drift.judge(whole, seen(beside), narrow=True), Review)
