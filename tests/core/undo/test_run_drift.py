"""One undo run against a world in memory: what others have written meanwhile."""

from __future__ import annotations

import pytest
from undo_ended import ANNA, CARL, S, assert_clean, ended, value
from undo_world import HOUR, Agent, Fault, World, thing, undo

from turnback.core.drift import Source
from turnback.core.effects import EffectClass
from turnback.core.undo.actions import Action, Read, Why
from turnback.core.undo.budget import Budget
from turnback.core.undo.rows import Outcome, Reason


@pytest.mark.undo(14)
def test_the_same_field_changed_by_a_person_stays_and_both_values_are_shown(
    world: World, agent: Agent
) -> None:
    effect = agent.set(ANNA, "phone", "B")
    world.stranger(ANNA, {"phone": "theirs"})
    store = undo(world, agent)
    (leaf,) = store.compensations[effect.id].values
    assert (leaf.expected, leaf.now, leaf.goal) == ("B", "theirs", "A")
    assert value(world, ANNA, "phone") == "theirs"
    assert not world.calls
    assert store.run.outcome is Outcome.NOT_REVERTED


@pytest.mark.undo(15)
def test_another_field_changed_by_a_person_is_kept_and_ours_goes_back(
    world: World, agent: Agent
) -> None:
    agent.set(ANNA, "phone", "B")
    world.stranger(ANNA, {"mail": "theirs"})
    assert_clean(undo(world, agent), world)
    assert value(world, ANNA, "mail") == "theirs"


def test_an_inverse_that_writes_the_whole_thing_spares_another_field(
    world: World, agent: Agent
) -> None:
    effect = agent.replace(ANNA, {"phone": "B", "mail": "M"})
    world.stranger(ANNA, {"mail": "theirs"})
    store = undo(world, agent)
    assert ended(store, effect) == [S.NEEDS_REVIEW]
    assert value(world, ANNA, "mail") == "theirs"


def test_an_offset_that_may_not_have_been_made_is_not_made_again_over_a_persons_edit(
    world: World, agent: Agent
) -> None:
    effect = agent.replace(ANNA, {"phone": "B", "mail": "M"})
    agent.change(effect, class_=EffectClass.COMPENSABLE)

    def edited(action: Action) -> None:
        if isinstance(action, Read) and action.why is Why.READ_BACK:
            world.stranger(ANNA, {"mail": "theirs"})

    store = undo(world, agent, faults={(effect.id, 1): Fault.LOST_BEFORE}, before=edited)
    assert ended(store, effect) == [S.IN_DOUBT]
    assert value(world, ANNA, "mail") == "theirs"
    assert len(world.calls) == 1


@pytest.mark.undo(16)
def test_what_somebody_already_put_back_needs_no_call(world: World, agent: Agent) -> None:
    effect = agent.set(ANNA, "phone", "B")
    world.stranger(ANNA, {"phone": "A"})
    store = undo(world, agent)
    assert store.compensations[effect.id].reason is Reason.ALREADY
    assert not world.calls
    assert_clean(store, world)


@pytest.mark.undo(16)
def test_even_what_has_no_inverse_is_reverted_when_somebody_put_it_back(
    world: World, agent: Agent
) -> None:
    effect = agent.set_for_good(ANNA, "phone", "B")
    world.stranger(ANNA, {"phone": "A"})
    store = undo(world, agent)
    assert ended(store, effect) == [S.REVERTED]
    assert_clean(store, world)


def test_what_a_later_call_of_ours_removed_is_not_put_back_by_that(
    world: World, agent: Agent
) -> None:
    kept = agent.set_for_good(ANNA, "note", "x")
    gone = agent.delete(ANNA)
    poor = Budget(calls=0, reads=99, tokens=0, run_ms=HOUR)
    store = undo(world, agent, budget=poor)
    assert ended(store, gone, kept) == [S.NOT_STARTED, S.NEEDS_YOU]
    again = undo(world, agent, earlier=store)
    assert ended(again, gone, kept) == [S.REVERTED, S.NEEDS_YOU]
    assert again.run.outcome is Outcome.PARTIALLY_REVERTED


@pytest.mark.undo(17)
def test_a_thing_that_a_person_deleted_needs_no_delete_and_gets_no_update(
    world: World, agent: Agent
) -> None:
    made = agent.create(CARL, {"phone": "C"})
    written = agent.set(ANNA, "phone", "B")
    world.stranger(CARL, None)
    world.stranger(ANNA, None)
    store = undo(world, agent)
    assert ended(store, made, written) == [S.REVERTED, S.NEEDS_REVIEW]
    assert not world.calls


def test_what_a_later_call_of_ours_removed_for_good_is_no_strangers_doing(
    world: World, agent: Agent
) -> None:
    older = agent.set(ANNA, "mail", "N")
    written = agent.set(ANNA, "phone", "B")
    gone = agent.delete(ANNA, class_=EffectClass.IRREVERSIBLE)
    store = undo(world, agent)
    assert ended(store, gone, written, older) == [S.NEEDS_YOU, S.BLOCKED, S.BLOCKED]
    assert not world.calls
    for effect in (written, older):
        row = store.compensations[effect.id]
        assert (row.reason, row.because) == (Reason.LATER_CALL, gone.id)
        assert store.residues[effect.id].template == "later_call"
    claims = [claim for residue in store.residues.values() for claim in residue.claims]
    assert claims
    assert not any(claim.theirs for claim in claims)
    assert not any(entry.source is Source.STRANGER for entry in world.ledger[ANNA])


def test_what_a_person_wrote_before_our_call_removed_it_is_still_a_persons(
    world: World, agent: Agent
) -> None:
    written = agent.set(ANNA, "phone", "B")
    world.stranger(ANNA, {"phone": "X"})
    gone = agent.delete(ANNA, class_=EffectClass.IRREVERSIBLE)
    store = undo(world, agent)
    assert ended(store, gone, written) == [S.NEEDS_YOU, S.NEEDS_REVIEW]


@pytest.mark.undo(16, 17)
def test_what_a_person_took_away_is_as_before_though_what_depends_on_it_needs_review(
    world: World, agent: Agent
) -> None:
    made = agent.create(CARL, {"phone": "C"})
    changed = agent.set(CARL, "phone", "D")
    other = agent.set(ANNA, "phone", "B", needs=(CARL,))
    world.stranger(CARL, None)
    world.stranger(ANNA, {"phone": "X"})
    store = undo(world, agent)
    assert ended(store, other, changed, made) == [S.NEEDS_REVIEW, S.BLOCKED, S.REVERTED]
    assert store.compensations[made.id].reason is Reason.ALREADY
    assert not world.calls


def test_what_depends_on_a_reviewed_effect_and_is_not_as_before_stays_blocked(
    world: World, agent: Agent
) -> None:
    made = agent.create(CARL, {"phone": "C"})
    other = agent.set(ANNA, "phone", "B", needs=(CARL,))
    world.stranger(ANNA, {"phone": "X"})
    store = undo(world, agent)
    assert ended(store, other, made) == [S.NEEDS_REVIEW, S.BLOCKED]
    assert store.compensations[made.id].because == other.id
    assert not world.calls
    assert CARL in world.things


@pytest.mark.undo(17)
def test_a_leaf_is_not_written_into_a_thing_that_is_gone(world: World, agent: Agent) -> None:
    effect = agent.set(ANNA, "phone", None)
    world.stranger(ANNA, None)
    store = undo(world, agent)
    assert ended(store, effect) == [S.NEEDS_REVIEW]
    assert ANNA not in world.things


@pytest.mark.undo(18)
def test_a_thing_made_again_under_its_id_is_not_deleted(world: World, agent: Agent) -> None:
    ticket = thing("t", "ticket")
    effect = agent.create(ticket, {"title": "x"})
    world.stranger_again(ticket, {"title": "x"})
    store = undo(world, agent)
    assert ended(store, effect) == [S.NEEDS_REVIEW]
    assert store.compensations[effect.id].reason is Reason.RECREATED
    assert ticket in world.things


@pytest.mark.undo(18)
def test_a_thing_made_again_under_its_id_is_not_written_to(world: World, agent: Agent) -> None:
    ticket = thing("t", "ticket")
    world.things[ticket] = {("title",): "x", ("made",): 0}
    world.begin()
    effect = agent.set(ticket, "title", "y")
    world.stranger_again(ticket, {"title": "y"})
    store = undo(world, agent)
    assert ended(store, effect) == [S.NEEDS_REVIEW]
    assert value(world, ticket, "title") == "y"


@pytest.mark.undo(19)
def test_a_field_written_twice_gets_its_first_value_back(world: World, agent: Agent) -> None:
    agent.set(ANNA, "phone", "B")
    agent.set(ANNA, "phone", "C")
    assert_clean(undo(world, agent), world)
    assert value(world, ANNA, "phone") == "A"


@pytest.mark.undo(20)
def test_a_person_who_wrote_between_two_writes_of_ours_is_found(world: World, agent: Agent) -> None:
    first = agent.set(ANNA, "phone", "B")
    world.stranger(ANNA, {"phone": "theirs"}, late=False)
    second = agent.set(ANNA, "phone", "D")
    store = undo(world, agent)
    assert ended(store, second, first) == [S.REVERTED, S.NEEDS_REVIEW]
    assert value(world, ANNA, "phone") == "theirs"
    assert [claim.theirs for claim in store.compensations[first.id].claims] == [True]
    assert store.run.outcome is Outcome.PARTIALLY_REVERTED


def test_a_stranger_who_wrote_our_older_value_again_is_not_overwritten(
    world: World, agent: Agent
) -> None:
    first = agent.set(ANNA, "phone", "B")
    second = agent.set(ANNA, "phone", "C")
    world.stranger(ANNA, {"phone": "B"})
    store = undo(world, agent)
    assert ended(store, second, first) == [S.REVERTED, S.NEEDS_REVIEW]
    assert store.compensations[second.id].reason is Reason.ALREADY
    again = undo(world, agent, earlier=store)  # it stays theirs
    assert ended(again, first) == [S.NEEDS_REVIEW]
    for one in (store, again):
        assert [claim.theirs for claim in one.compensations[first.id].claims] == [True]
    assert value(world, ANNA, "phone") == "B"
    assert not world.calls


def test_a_stranger_who_wrote_over_the_newer_value_keeps_the_older_one_too(
    world: World, agent: Agent
) -> None:
    first = agent.set(ANNA, "phone", "B")
    world.stranger(ANNA, {"phone": "X"}, late=False)
    second = agent.set(ANNA, "phone", "C")
    world.stranger(ANNA, {"phone": "B"})
    store = undo(world, agent)
    assert ended(store, second, first) == [S.NEEDS_REVIEW, S.NEEDS_REVIEW]
    assert value(world, ANNA, "phone") == "B"


@pytest.mark.undo(21)
def test_what_is_not_part_of_the_state_is_no_drift(world: World, agent: Agent) -> None:
    # `updated_at` is not among the leaves that its contract reads.
    agent.replace(ANNA, {"phone": "B", "mail": "M"})
    store = undo(world, agent)
    assert_clean(store, world)
    assert not any(row.values for row in store.compensations.values())
