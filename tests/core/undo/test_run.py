"""One undo run against a world in memory: order, failure, doubt, drift, budget, and what is left.

The numbered cases of undo that are rules are examples here; each looks at the world at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from undo_world import FAR, HOUR, Agent, Fault, Runner, Store, World, planned, thing, undo

from turnback.core.drift import Cell, Source
from turnback.core.effects import (
    Call,
    CallState,
    Effect,
    EffectClass,
    Json,
    ResourceKey,
    Standing,
    Touch,
    Verb,
)
from turnback.core.undo.actions import Action, Finish, Read, Send, StandDown, Wait, Why
from turnback.core.undo.budget import Budget, UndoLimits
from turnback.core.undo.outcome import Count, counts
from turnback.core.undo.plan import Group, make_plan
from turnback.core.undo.rows import (
    CallPhase,
    Claim,
    CompensationState,
    Outcome,
    Policy,
    Reason,
)
from turnback.core.undo.run import Run

ANNA, BERT, CARL = thing("anna"), thing("bert"), thing("carl")
FOLDER, FILE = thing("f", "folder"), thing("f/a", "file")

S = CompensationState


@pytest.fixture
def world() -> World:
    there = World()
    for key in (ANNA, BERT):
        there.things[key] = {("phone",): "A", ("mail",): "M"}
    there.begin()
    return there


@pytest.fixture
def agent(world: World) -> Agent:
    return Agent(world)


def value(world: World, key: ResourceKey, leaf: str) -> Json:
    return world.things[key][leaf,]


def sent(world: World) -> list[str]:
    return [tool for tool, _ in world.calls]


def ended(store: Store, *effects: Effect) -> list[CompensationState]:
    return [store.state(effect) for effect in effects]


def assert_clean(store: Store, world: World) -> None:
    assert store.run.outcome is Outcome.FULLY_REVERTED
    assert world.differing(set(store.effects())) == set()
    assert not store.residues


# Order


@pytest.mark.undo(1)
def test_an_inverse_that_needs_another_waits_for_it_though_a_third_is_newer(
    world: World, agent: Agent
) -> None:
    agent.tell()
    agent.tell()
    third = agent.set(ANNA, "phone", "B")
    agent.tell()
    fifth = agent.set(BERT, "phone", "B", needs=(ANNA,))
    sixth = agent.create(CARL, {"phone": "C"})
    order: list[str] = []
    store = undo(
        world,
        agent,
        before=lambda action: order.append(action.effect_id) if isinstance(action, Read) else None,
    )
    assert order.index(sixth.id) < order.index(fifth.id)
    last_of_fifth = len(order) - 1 - order[::-1].index(fifth.id)
    assert last_of_fifth < order.index(third.id)
    assert not world.differing(store.members)


@pytest.mark.undo(1)
def test_an_older_effect_goes_first_where_the_newer_one_is_needed_by_its_inverse(
    world: World, agent: Agent
) -> None:
    # The inverse of the third makes a relation to what the fifth removed.
    third = agent.set(ANNA, "phone", "B", needs=(BERT,))
    fifth = agent.delete(BERT)
    sixth = agent.create(CARL, {"phone": "C"})
    store = planned(agent)
    assert [member.effect_id for member in store.plan.members] == [sixth.id, fifth.id, third.id]


@pytest.mark.undo(2, 7)
def test_what_a_failed_inverse_depends_on_is_blocked_and_stays(world: World, agent: Agent) -> None:
    made = agent.create(CARL, {"phone": "C"})
    used = agent.set(CARL, "phone", "D")
    apart = agent.set(ANNA, "phone", "B")
    store = undo(world, agent, faults={(used.id, 1): Fault.REFUSED}, policy=Policy.INDEPENDENT)
    assert ended(store, made, used, apart) == [S.BLOCKED, S.FAILED, S.REVERTED]
    assert store.compensations[made.id].because == used.id
    assert value(world, CARL, "phone") == "D"
    assert sent(world).count("set") == 2  # one attempt, and the one of the other
    assert store.run.outcome is Outcome.PARTIALLY_REVERTED


@pytest.mark.undo(3)
def test_a_folder_with_a_persons_file_in_it_stays_and_needs_review(
    world: World, agent: Agent
) -> None:
    made = agent.create(FOLDER, {"there": True})
    world.stranger(FILE, {"content": "theirs"})
    store = undo(world, agent)
    assert ended(store, made) == [S.NEEDS_REVIEW]
    assert store.compensations[made.id].reason is Reason.OCCUPIED
    assert store.residues[made.id].template == "occupied"
    assert FOLDER in world.things
    assert world.things[FILE]["content",] == "theirs"
    assert not world.calls


def test_a_folder_with_our_own_file_goes_after_the_file(world: World, agent: Agent) -> None:
    agent.create(FOLDER, {"there": True})
    agent.create(FILE, {"content": "ours"}, inside=(FOLDER,))
    assert_clean(undo(world, agent), world)


@pytest.mark.undo(4)
def test_a_cycle_is_named_and_nothing_is_called(world: World, agent: Agent) -> None:
    # In one session the newer goes first; two sessions' clocks may disagree on which that is.
    other = Agent(world, session="session-2")
    one = agent.set(ANNA, "phone", "B", needs=(CARL,))
    two = agent.set(BERT, "phone", "B", needs=(ANNA,))
    three = other.create(CARL, {"phone": "C"}, needs=(BERT,))
    for effect, at in ((one, 30), (three, 20)):
        (agent if effect is one else other).change(effect, at=at)
    agent.change(two, at=10)
    plan = planned(agent, other).plan
    assert not plan.runnable
    assert set(plan.cycle) == {one.id, two.id, three.id}


@pytest.mark.undo(5)
def test_what_a_later_turn_made_of_it_goes_with_it_or_the_plan_is_refused(
    world: World, agent: Agent
) -> None:
    made = agent.create(CARL, {"phone": "C"})
    agent.turn = "turn-2"
    used = agent.set(CARL, "phone", "D")
    refused = planned(agent, asked=["turn-1"]).plan
    assert not refused.runnable
    assert [edge.first for edge in refused.missing] == [used.id]
    store = undo(world, agent, asked=["turn-1"], with_dependents=True)
    assert ended(store, made, used) == [S.REVERTED, S.REVERTED]
    assert_clean(store, world)


@pytest.mark.undo(6)
def test_one_removal_covers_a_membership_and_the_message_is_residue(
    world: World, agent: Agent
) -> None:
    user, channel = thing("user", "folder"), thing("channel", "folder")
    member = thing("user/channel", "member")
    invite = agent.create(user, {"there": True}, covers=(member,), result={"user": "U-17"})
    agent.change(
        invite,
        inverse=(Call("delete_tree", {"id": "user", "kind": "folder"}, key_ms=HOUR),),
    )
    room = agent.create(channel, {"there": True})
    joined = agent.set_for_good  # no tool takes a member out of a channel
    world.things[member] = {}
    added = joined(member, "there", True)
    message = agent.tell("U-17")
    store = undo(world, agent)
    assert ended(store, invite, room, added, message) == [
        S.REVERTED,
        S.REVERTED,
        S.REVERTED,
        S.NEEDS_YOU,
    ]
    assert store.compensations[added.id].reason is Reason.COVERED
    assert sent(world).count("delete_tree") == 1
    assert list(store.residues) == [message.id]
    assert store.run.outcome is Outcome.PARTIALLY_REVERTED
    assert not world.differing(store.members)


def test_a_cover_that_does_not_cover_is_found_out(world: World, agent: Agent) -> None:
    user, member = thing("user", "folder"), thing("other/channel", "member")
    agent.create(user, {"there": True}, covers=(member,))
    world.things[member] = {}
    added = agent.set_for_good(member, "there", True)
    store = undo(world, agent)
    assert ended(store, added) == [S.NEEDS_YOU]
    assert Claim(member, ("there",)) in store.residues[added.id].claims
    assert store.run.outcome is Outcome.PARTIALLY_REVERTED


def test_a_message_that_went_with_its_inbox_claims_no_leaf(world: World, agent: Agent) -> None:
    inbox = agent.create(thing("inbox", "folder"), {"there": True})
    told = agent.set_for_good(thing("inbox", "folder"), "message", "hello")
    agent.change(told, tells=True, people=("anna",))
    store = undo(world, agent)
    assert ended(store, inbox, told) == [S.REVERTED, S.COMPENSATED]
    assert store.residues[told.id].people == ("anna",)
    assert store.residues[told.id].claims == ()
    assert not world.differing(store.members)


def test_what_was_done_for_good_to_a_thing_goes_with_the_thing(world: World, agent: Agent) -> None:
    made = agent.create(CARL, {"phone": "C"})
    written = agent.set_for_good(CARL, "mail", "x")
    store = undo(world, agent)
    assert ended(store, made, written) == [S.REVERTED, S.REVERTED]
    assert sent(world) == ["delete"]
    assert_clean(store, world)


def test_a_stranger_between_a_thing_and_what_was_done_to_it_keeps_it(
    world: World, agent: Agent
) -> None:
    made = agent.create(CARL, {"phone": "C"})
    world.stranger(CARL, {"phone": "theirs"}, late=False)
    written = agent.set_for_good(CARL, "phone", "D")
    store = undo(world, agent)
    assert ended(store, made, written) == [S.NEEDS_REVIEW, S.BLOCKED]
    assert not world.calls


# Failure


@pytest.mark.undo(7)
def test_a_failure_for_good_is_tried_once_and_starts_nothing_new(
    world: World, agent: Agent
) -> None:
    older = agent.set(ANNA, "phone", "B")
    newer = agent.set(BERT, "phone", "B")
    store = undo(world, agent, faults={(newer.id, 1): Fault.REFUSED})
    assert ended(store, newer, older) == [S.FAILED, S.NOT_STARTED]
    assert store.compensations[older.id].reason is Reason.POLICY
    assert len(world.calls) == 1
    assert store.run.outcome is Outcome.NOT_REVERTED


@pytest.mark.undo(8)
def test_a_busy_server_gets_one_key_and_acts_once(world: World, agent: Agent) -> None:
    effect = agent.set(ANNA, "phone", "B")
    store = undo(world, agent, faults={(effect.id, 1): Fault.BUSY}, busy=3)
    assert_clean(store, world)
    assert [key for _, key in world.calls] == [f"c:{effect.id}:1:1"] * 4
    assert len(world.acted) == 1


@pytest.mark.undo(8)
def test_a_busy_server_that_acted_all_the_same_is_not_asked_twice(
    world: World, agent: Agent
) -> None:
    effect = agent.set(ANNA, "phone", "B")
    store = undo(world, agent, faults={(effect.id, 1): Fault.BUSY_AFTER})
    assert_clean(store, world)
    assert len(world.calls) == 1


@pytest.mark.undo(9)
def test_an_error_in_the_body_of_a_success_is_a_failure(world: World, agent: Agent) -> None:
    effect = agent.set(ANNA, "phone", "B")
    store = undo(world, agent, faults={(effect.id, 1): Fault.ERROR_BODY})
    assert ended(store, effect) == [S.FAILED]
    assert store.compensations[effect.id].detail == '{"error": "no"}'
    assert store.run.outcome is Outcome.NOT_REVERTED


@pytest.mark.undo(10)
def test_updated_and_nothing_changed_is_no_revert(world: World, agent: Agent) -> None:
    effect = agent.set(ANNA, "phone", "B")
    store = undo(world, agent, faults={(effect.id, 1): Fault.LIE})
    assert ended(store, effect) == [S.NOOP_INVERSE]
    assert store.residues[effect.id].claims == (Claim(ANNA, ("phone",)),)
    assert store.run.outcome is Outcome.NOT_REVERTED


@pytest.mark.parametrize("fault", [Fault.WRONG, Fault.COLLATERAL])
def test_an_inverse_that_wrote_something_else_is_partly_and_claims_it(
    world: World, agent: Agent, fault: Fault
) -> None:
    effect = agent.set(ANNA, "phone", "B")
    store = undo(world, agent, faults={(effect.id, 1): fault})
    assert ended(store, effect) == [S.PARTLY]
    claimed = {Cell(claim.resource, claim.path) for claim in store.residues[effect.id].claims}
    assert world.differing(store.members) <= claimed
    assert store.run.outcome is Outcome.PARTIALLY_REVERTED


@pytest.mark.undo(11)
@pytest.mark.parametrize("key_ms", [0, HOUR])
def test_applied_and_the_reply_lost_is_read_back(world: World, agent: Agent, key_ms: int) -> None:
    agent.key_ms = key_ms
    effect = agent.set(ANNA, "phone", "B")
    store = undo(world, agent, faults={(effect.id, 1): Fault.LOST_AFTER})
    assert_clean(store, world)
    assert len(world.calls) == 1


@pytest.mark.undo(12)
def test_without_key_and_without_reading_a_lost_reply_is_a_doubt(
    world: World, agent: Agent
) -> None:
    agent.key_ms = 0
    charge = agent.charge("c1")
    agent.change(charge, touches=())
    store = undo(world, agent, faults={(charge.id, 1): Fault.LOST_AFTER})
    assert ended(store, charge) == [S.IN_DOUBT]
    assert len(world.calls) == 1
    assert store.effects()[charge.id].standing is Standing.IN_DOUBT
    assert store.run.outcome is Outcome.PARTIALLY_REVERTED
    again = undo(world, agent, earlier=store)
    assert ended(again, charge) == [S.IN_DOUBT]
    assert len(world.calls) == 1


def test_with_a_key_a_lost_reply_is_asked_for_again(world: World, agent: Agent) -> None:
    charge = agent.charge("c1")
    agent.change(charge, touches=())
    store = undo(world, agent, faults={(charge.id, 1): Fault.LOST_AFTER})
    assert ended(store, charge) == [S.COMPENSATED]
    assert len(world.calls) == 2
    assert len(world.acted) == 1


def test_a_key_that_is_no_longer_honoured_counts_for_nothing(world: World, agent: Agent) -> None:
    agent.key_ms = 1  # forgotten before the backoff is over
    charge = agent.charge("c1")
    agent.change(charge, touches=())
    store = undo(world, agent, faults={(charge.id, 1): Fault.LOST_AFTER})
    assert ended(store, charge) == [S.IN_DOUBT]
    assert len(world.calls) == 1


@pytest.mark.undo(13)
def test_without_the_right_to_read_it_fails_with_the_reason_and_can_be_tried_later(
    world: World, agent: Agent
) -> None:
    older = agent.set(BERT, "phone", "B")
    newer = agent.set(ANNA, "phone", "B")
    world.unreadable[ANNA] = "401: the token was revoked"
    store = undo(world, agent)
    assert ended(store, newer, older) == [S.FAILED, S.NOT_STARTED]
    assert store.compensations[newer.id].reason is Reason.UNREADABLE
    assert "revoked" in store.residues[newer.id].detail
    world.unreadable.clear()
    again = undo(world, agent, earlier=store)
    assert again.run.generation == 2
    assert_clean(again, world)


def test_an_inverse_whose_goal_cannot_be_read_afterwards_is_in_doubt(
    world: World, agent: Agent
) -> None:
    effect = agent.set(ANNA, "phone", "B")

    def blind(action: Action) -> None:
        if isinstance(action, Read) and action.why is Why.VERIFY:
            world.unreadable[ANNA] = "500"

    store = undo(world, agent, before=blind)
    assert ended(store, effect) == [S.IN_DOUBT]
    assert store.residues[effect.id].claims == (Claim(ANNA, ("phone",)),)
    assert store.run.outcome is Outcome.PARTIALLY_REVERTED


# Drift


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


# Concurrency


@pytest.mark.undo(24)
@pytest.mark.parametrize("key_ms", [0, HOUR])
def test_a_toggle_that_was_applied_before_a_crash_is_not_flipped_twice(
    world: World, agent: Agent, key_ms: int
) -> None:
    world.things[ANNA]["on",] = True
    world.begin()
    effect = agent.set(ANNA, "on", False)
    toggle = Call("toggle", {"id": "anna", "leaf": "on"}, key_ms=key_ms)
    agent.change(effect, inverse=(toggle,))
    store = planned(agent)
    run = store.load()
    read = run.next(HOUR, lease_until=FAR)
    runner = Runner(world, store)
    run.feed(runner.perform(read), HOUR)
    send = run.next(HOUR, lease_until=FAR)
    assert isinstance(send, Send)
    store.commit(run.take())
    runner.perform(send)  # and the process ends before it says so
    assert_clean(runner.carry_out(), world)
    assert value(world, ANNA, "on") is True
    assert len(world.acted) == 1


@pytest.mark.undo(27)
def test_past_its_lease_a_process_sends_nothing(world: World, agent: Agent) -> None:
    agent.set(ANNA, "phone", "B")
    store = planned(agent)
    run = store.load()
    runner = Runner(world, store)
    run.feed(runner.perform(run.next(HOUR, lease_until=HOUR + 1)), HOUR)
    assert isinstance(run.next(HOUR + 1, lease_until=HOUR + 1), StandDown)
    assert not run.take().calls
    assert not world.calls
    assert_clean(runner.carry_out(), world)  # another process
    assert isinstance(run.next(2 * HOUR, lease_until=HOUR + 1), StandDown)
    assert len(world.calls) == 1


@pytest.mark.undo(38)
@pytest.mark.parametrize("key_ms", [0, HOUR])
@pytest.mark.parametrize("moment", range(24))
def test_an_inverse_of_two_calls_is_gone_on_with_wherever_it_was_cut_off(
    world: World, agent: Agent, key_ms: int, moment: int
) -> None:
    agent.key_ms = key_ms
    agent.remake(ANNA, {"phone": "B"})
    store = undo(world, agent, crash_at=frozenset({moment}))
    assert world.acted == list(dict.fromkeys(world.acted))
    if key_ms:
        assert_clean(store, world)
    else:
        assert store.run.outcome is not Outcome.NOT_REVERTED
        assert (store.run.outcome is Outcome.FULLY_REVERTED) == (not world.differing(store.members))


def test_another_run_goes_on_where_an_inverse_of_two_calls_failed(
    world: World, agent: Agent
) -> None:
    effect = agent.remake(ANNA, {"phone": "B"})
    store = undo(world, agent, faults={(effect.id, 2): Fault.REFUSED})
    assert ended(store, effect) == [S.PARTLY]
    assert ANNA not in world.things
    again = undo(world, agent, earlier=store)
    assert [tool for tool, _ in world.calls] == ["delete", "create", "create"]
    assert world.calls[-1][1] == f"c:{effect.id}:2:2"  # the refusal itself would be replayed
    assert_clean(again, world)


@pytest.mark.undo(39)
def test_what_another_session_wrote_to_the_same_record_stands(world: World) -> None:
    first, second = Agent(world, "session-1"), Agent(world, "session-2")
    ours = first.set(ANNA, "phone", "B")
    theirs = second.set(ANNA, "phone", "C")
    store = undo(world, first)
    assert ended(store, ours) == [S.NEEDS_REVIEW]
    assert value(world, ANNA, "phone") == "C"
    assert second.effects[theirs.id].standing is Standing.IN_FORCE


@pytest.mark.undo(39)
def test_both_sessions_are_undone_by_who_may_run_both_and_plans_both(world: World) -> None:
    first, second = Agent(world, "session-1"), Agent(world, "session-2")
    first.set(ANNA, "phone", "B")
    second.change(second.set(ANNA, "phone", "C"), at=9_000)
    assert_clean(undo(world, first, second), world)


@pytest.mark.undo(40)
def test_an_edit_between_two_inverses_of_one_run_is_kept(world: World, agent: Agent) -> None:
    first = agent.replace(ANNA, {"phone": "B", "mail": "M"})
    second = agent.replace(ANNA, {"phone": "B", "mail": "N"})

    def person(action: Action) -> None:
        if isinstance(action, Read) and (action.effect_id, action.why) == (first.id, Why.CHECK):
            world.stranger(ANNA, {"phone": "theirs"})

    store = undo(world, agent, before=person)
    assert ended(store, second, first) == [S.REVERTED, S.NEEDS_REVIEW]
    assert value(world, ANNA, "phone") == "theirs"


# Budget and honesty


@pytest.mark.undo(28)
def test_of_twelve_effects_under_a_cap_of_five_the_rest_is_residue(
    world: World, agent: Agent
) -> None:
    for n in range(12):
        agent.create(thing(f"n{n}"), {"phone": "x"})
    budget = Budget(calls=5, reads=1000, tokens=0, run_ms=HOUR)
    store = undo(world, agent, budget=budget)
    assert len(world.calls) == 5
    assert len(store.residues) == 7
    assert {residue.reason for residue in store.residues.values()} == {Reason.BUDGET}
    assert store.run.outcome is Outcome.PARTIALLY_REVERTED
    assert store.run.spent.calls == 5


@pytest.mark.undo(29)
def test_attempts_are_counted_against_the_budget(world: World, agent: Agent) -> None:
    effects = [agent.create(thing(f"n{n}"), {"phone": "x"}) for n in range(3)]
    faults = {(effect.id, 1): Fault.BUSY for effect in effects}
    store = undo(world, agent, faults=faults, busy=3, policy=Policy.INDEPENDENT)
    assert store.run.budget.calls == 8
    assert len(world.calls) == store.run.spent.calls == 8
    assert sorted(ended(store, *effects)) == ["not_started", "reverted", "reverted"]


def test_an_effect_is_tried_so_often_over_all_runs_and_no_more(world: World, agent: Agent) -> None:
    effect = agent.set(ANNA, "phone", "B")
    limits = UndoLimits(attempts=2, effect_attempts=3)
    store: Store | None = None
    for _ in range(4):
        store = undo(
            world,
            agent,
            faults={(effect.id, 1): Fault.BUSY},
            busy=99,
            limits=limits,
            earlier=store,
        )
    assert len(world.calls) == 3
    assert store is not None
    assert store.compensations[effect.id].reason is Reason.ATTEMPTS
    assert ended(store, effect) == [S.NOT_STARTED]


def test_an_inverse_of_two_calls_is_not_begun_with_one_left(world: World, agent: Agent) -> None:
    effect = agent.remake(ANNA, {"phone": "B"})
    store = undo(world, agent, budget=Budget(calls=1, reads=99, tokens=0, run_ms=HOUR))
    assert ended(store, effect) == [S.NOT_STARTED]
    assert not world.calls


def two_leaves(agent: Agent, *, narrow: bool = True) -> Effect:
    """Two leaves of one thing, each put back by a call of its own."""

    def one_by_one(before: Mapping[ResourceKey, Mapping[tuple[str, ...], Json]]) -> list[Call]:
        return [
            Call("set", {"id": "anna", "kind": "contact", "leaves": {leaf: before[ANNA][leaf,]}})
            for leaf in ("phone", "mail")
        ]

    args: dict[str, Json] = {"phone": "B", "mail": "N"}
    return agent.call(
        "set",
        {"id": "anna", "kind": "contact", "leaves": args},
        touches=[ANNA],
        inverse=one_by_one,
        narrow=narrow,
    )


@pytest.mark.parametrize("narrow", [True, False])
def test_what_is_given_up_half_way_claims_what_the_last_look_saw(
    world: World, agent: Agent, narrow: bool
) -> None:
    world.things[ANNA]["note",] = "beside"
    world.begin()
    effect = two_leaves(agent, narrow=narrow)
    faults = {(effect.id, 2): Fault.BUSY}
    budget = Budget(calls=2, reads=99, tokens=0, run_ms=HOUR)
    store = undo(world, agent, faults=faults, budget=budget)
    assert ended(store, effect) == [S.PARTLY]
    assert store.compensations[effect.id].reason is Reason.BUDGET
    assert store.compensations[effect.id].claims == (Claim(ANNA, ("mail",)),)
    assert world.differing(store.members) == {Cell(ANNA, ("mail",))}


def test_a_narrow_inverse_that_is_not_looked_at_again_claims_nothing_beside(
    world: World, agent: Agent
) -> None:
    world.things[ANNA]["note",] = "beside"
    world.begin()
    effect = two_leaves(agent)
    budget = Budget(calls=4, reads=3, tokens=0, run_ms=HOUR)
    store = undo(world, agent, faults={(effect.id, 2): Fault.LOST_BEFORE}, budget=budget)
    assert ended(store, effect) == [S.IN_DOUBT]
    claims = store.compensations[effect.id].claims
    assert {claim.path for claim in claims} == {("phone",), ("mail",)}


def test_when_the_time_is_used_up_nothing_more_is_started(world: World, agent: Agent) -> None:
    older, newer = agent.set(ANNA, "phone", "B"), agent.set(BERT, "phone", "B")
    faults = {(newer.id, 1): Fault.BUSY}
    budget = Budget(calls=99, reads=99, tokens=0, run_ms=400)
    store = undo(world, agent, faults=faults, budget=budget, policy=Policy.INDEPENDENT)
    assert ended(store, newer, older) == [S.FAILED, S.NOT_STARTED]
    assert store.compensations[older.id].reason is Reason.DEADLINE
    assert len(world.calls) == 1


@pytest.mark.undo(30)
def test_an_undeclared_tool_is_never_offered_as_a_revert(world: World, agent: Agent) -> None:
    effect = agent.call("tell", {"to": ["x"]}, class_=EffectClass.IRREVERSIBLE)
    agent.change(effect, contract=None, case=None)
    store = undo(world, agent)
    (member,) = store.plan.members
    assert (member.verb, member.group) == (Verb.ACKNOWLEDGE, Group.STAYS)
    assert store.residues[effect.id].template == "undeclared"
    assert not world.calls


@pytest.mark.undo(33)
def test_a_step_that_failed_cleanly_is_no_member(world: World, agent: Agent) -> None:
    failed = agent.create(ANNA, {"phone": "B"})
    assert failed.state is CallState.FAILED_CLEAN
    store = planned(agent)
    assert not store.plan.members
    assert isinstance(store.load().next(HOUR, lease_until=FAR), Finish)
    done = Runner(world, store).carry_out()
    assert done.run.outcome is None
    assert not done.residues


def test_a_step_that_failed_and_changed_something_is_put_back(world: World, agent: Agent) -> None:
    effect = agent.set(ANNA, "phone", "B")
    agent.change(effect, state=CallState.FAILED_DIRTY, standing=Standing.PARTLY)
    assert_clean(undo(world, agent), world)


@pytest.mark.undo(43)
def test_what_was_undone_is_in_no_later_plan(world: World, agent: Agent) -> None:
    effect = agent.set(ANNA, "phone", "B")
    store = undo(world, agent)
    assert store.effects()[effect.id].standing is Standing.REVERTED
    again = planned(agent, earlier=store)
    assert not again.plan.members
    Runner(world, again).carry_out()
    assert len(world.calls) == 1


def test_a_finished_run_says_the_same_again_and_calls_nothing(world: World, agent: Agent) -> None:
    agent.set(ANNA, "phone", "B")
    store = undo(world, agent)
    rows = (store.run, dict(store.compensations))
    Runner(world, store).carry_out()
    assert (store.run, store.compensations) == rows
    assert len(world.calls) == 1


def test_a_stop_starts_no_further_compensation_and_ends_the_one_under_way(
    world: World, agent: Agent
) -> None:
    older, newer = agent.set(ANNA, "phone", "B"), agent.set(BERT, "phone", "B")
    told = agent.tell("x")
    store = planned(agent)
    run = store.load()
    runner = Runner(world, store)
    while not isinstance(action := run.next(HOUR, lease_until=FAR), Finish):
        if isinstance(action, Send):
            run.stop()
        run.feed(runner.perform(action), HOUR)
    store.commit(run.take())
    assert ended(store, newer, older, told) == [S.REVERTED, S.NOT_STARTED, S.NEEDS_YOU]
    assert store.compensations[older.id].reason is Reason.STOPPED


# Doubt, cancelling, compensating


@pytest.mark.parametrize(
    ("state", "end", "reason"),
    [
        (CallState.DONE, S.REVERTED, None),
        (CallState.FAILED_CLEAN, S.REVERTED, Reason.NEVER_HAPPENED),
        (CallState.IN_DOUBT, S.IN_DOUBT, Reason.FORWARD_IN_DOUBT),
    ],
)
def test_a_call_in_doubt_is_found_out_about_first(
    world: World, agent: Agent, state: CallState, end: CompensationState, reason: Reason | None
) -> None:
    effect = agent.set(ANNA, "phone", "B")
    if state is not CallState.DONE:
        world.things[ANNA]["phone",] = "A"
    agent.change(effect, state=CallState.IN_DOUBT, standing=Standing.IN_DOUBT)
    store = undo(world, agent, settled=lambda effect: replace(effect, state=state))
    assert ended(store, effect) == [end]
    assert store.compensations[effect.id].reason is reason
    assert len(world.calls) == (1 if state is CallState.DONE else 0)
    assert (store.run.outcome is Outcome.FULLY_REVERTED) == (end is S.REVERTED)
    if end is S.IN_DOUBT:  # it may have changed anything of it
        assert Claim(ANNA, ()) in store.residues[effect.id].claims


def test_what_a_settled_doubt_turns_out_to_be_is_not_done_unless_agreed_to(
    world: World, agent: Agent
) -> None:
    charge = agent.charge("c1")
    agent.change(charge, state=CallState.INTENT, standing=Standing.IN_DOUBT, inverse=None)
    store = undo(world, agent, settled=lambda _: charge)
    assert store.plan.members[0].verb is Verb.ACKNOWLEDGE
    assert ended(store, charge) == [S.NEEDS_YOU]
    assert not world.calls


def sent_all_the_same(effect: Effect) -> Effect:
    return replace(effect, state=CallState.DONE, standing=Standing.IN_FORCE)


def test_a_call_that_is_held_back_is_taken_off_without_a_call(world: World, agent: Agent) -> None:
    mail = agent.tell("x")
    agent.change(mail, state=CallState.HELD, hold_until=2 * HOUR)
    store = undo(world, agent)
    assert store.plan.plain
    assert ended(store, mail) == [S.CANCELLED]
    assert store.run.outcome is Outcome.FULLY_REVERTED
    assert not world.calls
    assert not store.residues


def test_a_call_that_was_sent_before_it_was_taken_off_is_too_late(
    world: World, agent: Agent
) -> None:
    mail = agent.tell("x")
    agent.change(mail, state=CallState.HELD, hold_until=2 * HOUR)
    store = undo(world, agent, held=sent_all_the_same)
    assert ended(store, mail) == [S.NEEDS_YOU]
    assert store.run.outcome is not Outcome.FULLY_REVERTED
    assert store.residues


def test_a_call_that_was_sent_before_it_was_taken_off_is_reverted_where_it_can_be(
    world: World, agent: Agent
) -> None:
    phone = agent.set(ANNA, "phone", "B")
    agent.change(phone, state=CallState.HELD, hold_until=2 * HOUR)
    store = undo(world, agent, held=sent_all_the_same)
    assert ended(store, phone) == [S.REVERTED]
    assert store.run.outcome is Outcome.FULLY_REVERTED


MOMENTS = 7
"""At least as many as a run of one effect has in which a process can end."""


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_what_was_found_out_by_a_process_that_died_ends_as_if_it_had_lived(
    world: World, agent: Agent, moment: int
) -> None:
    done, never = agent.set(ANNA, "phone", "B"), agent.tell("x")
    made = agent.create(thing("new"), {"phone": "1"})
    charge, held = agent.charge("c1"), agent.tell("y")
    logged = {effect.id: effect for effect in (done, made, charge)}
    doubt = {"state": CallState.IN_DOUBT, "standing": Standing.IN_DOUBT}
    agent.change(done, **doubt)
    # Its inverse would be a call that nothing could be read of: it is not to be made.
    agent.change(
        never, **doubt, class_=EffectClass.COMPENSABLE, inverse=(Call("tell", {"to": []}),)
    )
    agent.change(made, **doubt, inverse=None)
    agent.change(charge, **doubt, inverse=None)
    agent.change(held, state=CallState.HELD, hold_until=2 * HOUR)

    def settled(effect: Effect) -> Effect:
        return logged.get(effect.id) or replace(effect, state=CallState.FAILED_CLEAN)

    crashes = frozenset(range(moment, 40, MOMENTS))
    store = undo(world, agent, settled=settled, crash_at=crashes)
    assert ended(store, done, never, made, charge, held) == [
        S.REVERTED,
        S.REVERTED,
        S.REVERTED,
        S.NEEDS_YOU,
        S.CANCELLED,
    ]
    assert store.compensations[never.id].reason is Reason.NEVER_HAPPENED
    assert sorted(call for call, _ in world.calls) == ["delete", "set"]
    assert not world.differing(store.members - {charge.id})


def test_what_takes_a_tool_that_is_another_by_now_is_a_persons_and_half_of_it_stays_half(
    world: World, agent: Agent
) -> None:
    world.things[BERT] = {("phone",): "A"}
    whole, half = agent.set(ANNA, "phone", "B"), agent.remake(BERT, {"phone": "B"})
    agent.change(half, narrow=False)
    store = planned(agent)
    runner = Runner(world, store)
    run = store.load()
    while not isinstance(action := run.next(HOUR, lease_until=FAR), Send):
        run.feed(runner.perform(action), HOUR)
    store.commit(run.take())
    run.feed(runner.perform(action), HOUR)  # the first of two calls
    store.commit(run.take())
    barred = dict.fromkeys(store.members, "`desk.set` has changed since")
    run = barred_run(store, barred)
    while not isinstance(action := run.next(HOUR, lease_until=FAR), Finish):
        run.feed(runner.perform(action), HOUR)
    store.commit(run.take())
    assert ended(store, half, whole) == [S.PARTLY, S.NOT_STARTED]
    assert len(world.calls) == 1


def test_what_takes_a_tool_that_is_another_by_now_is_not_begun(world: World, agent: Agent) -> None:
    effect, other = agent.set(ANNA, "phone", "B"), agent.set(BERT, "phone", "B")
    store = planned(agent)
    run = barred_run(store, {effect.id: "`desk.set` has changed since"})
    runner = Runner(world, store)
    while not isinstance(action := run.next(HOUR, lease_until=FAR), Finish):
        run.feed(runner.perform(action), HOUR)
    store.commit(run.take())
    assert ended(store, effect, other) == [S.NEEDS_YOU, S.REVERTED]
    assert store.compensations[effect.id].reason is Reason.TOOL_CHANGED
    assert store.residues[effect.id].detail == "`desk.set` has changed since"
    assert [claim.path for claim in store.residues[effect.id].claims] == [("phone",)]
    assert len(world.calls) == 1


def barred_run(store: Store, barred: Mapping[str, str]) -> Run:
    """The run as a process finds it whose tools are others."""
    members = store.effects()
    return Run(
        store.run,
        [members[id_] for id_ in store.members],
        store.compensations.values(),
        store.calls.values(),
        limits=store.limits,
        ledger=store.ledger,
        barred=barred,
    )


@pytest.mark.parametrize(
    ("confirms", "end"), [(True, S.CANCELLED), (False, S.NEEDS_YOU), (None, S.IN_DOUBT)]
)
def test_a_vendors_cancel_counts_by_the_vendors_word(
    world: World, agent: Agent, confirms: bool | None, end: CompensationState
) -> None:
    mail = agent.tell("x")
    unsend = (Call("tell", {"to": []}),)
    agent.change(mail, cancel=unsend, cancel_until=2 * HOUR)
    store = undo(world, agent, confirms=confirms)
    assert store.plan.members[0].verb is Verb.CANCEL
    assert ended(store, mail) == [end]
    assert (store.run.outcome is Outcome.FULLY_REVERTED) == (end is S.CANCELLED)


def test_a_window_that_closed_since_the_plan_is_too_late(world: World, agent: Agent) -> None:
    mail = agent.tell("x")
    agent.change(mail, cancel=(Call("tell", {"to": []}),), cancel_until=HOUR + 5)
    store = Runner(world, planned(agent), now=HOUR + 5).carry_out()
    assert ended(store, mail) == [S.NEEDS_YOU]
    assert store.compensations[mail.id].reason is Reason.TOO_LATE
    assert not world.calls


def test_a_refund_is_a_compensation_and_leaves_residue(world: World, agent: Agent) -> None:
    charge = agent.charge("c1")
    store = undo(world, agent)
    assert ended(store, charge) == [S.COMPENSATED]
    assert store.residues[charge.id].template == "payment_refunded"
    assert store.effects()[charge.id].standing is Standing.COMPENSATED
    assert store.run.outcome is Outcome.PARTIALLY_REVERTED
    claimed = {Cell(claim.resource, claim.path) for claim in store.residues[charge.id].claims}
    assert claimed == world.differing(store.members)


def test_what_was_not_refunded_is_not_said_to_be(world: World, agent: Agent) -> None:
    charge = agent.charge("c1")
    agent.change(charge, inverse=None)
    store = undo(world, agent)
    assert ended(store, charge) == [S.NEEDS_YOU]
    assert store.residues[charge.id].template == "needs_you"


def test_a_compensation_that_was_not_found_to_work_is_not_called_one(
    world: World, agent: Agent
) -> None:
    charge = agent.charge("c1")
    agent.change(charge, touches=())
    assert ended(undo(world, agent, passes=False), charge) == [S.NOOP_INVERSE]


def test_a_compensation_that_cannot_be_read_says_unchecked(world: World, agent: Agent) -> None:
    charge = agent.charge("c1")
    agent.change(charge, touches=(Touch(thing("c1", "charge"), None, {}),))
    store = undo(world, agent)
    assert ended(store, charge) == [S.COMPENSATED]
    assert store.residues[charge.id].template == "unchecked"
    assert store.residues[charge.id].claims == (Claim(thing("c1", "charge"), ()),)


def test_a_refund_whose_reply_is_lost_is_not_made_twice_without_a_key(
    world: World, agent: Agent
) -> None:
    agent.key_ms = 0
    charge = agent.charge("c1")
    store = undo(world, agent, faults={(charge.id, 1): Fault.LOST_BEFORE})
    assert ended(store, charge) == [S.IN_DOUBT]
    assert len(world.calls) == 1


def test_a_round_rises_only_when_it_is_known_that_nothing_happened(
    world: World, agent: Agent
) -> None:
    effect = agent.set(ANNA, "phone", "B")
    refused = undo(world, agent, faults={(effect.id, 1): Fault.REFUSED})
    assert refused.calls[effect.id, 1].phase is CallPhase.NOT_APPLIED
    assert_clean(undo(world, agent, earlier=refused), world)
    assert [key for _, key in world.calls] == [f"c:{effect.id}:1:1", f"c:{effect.id}:1:2"]


def test_a_doubt_keeps_its_key_into_the_next_run(world: World, agent: Agent) -> None:
    charge = agent.charge("c1")
    agent.change(charge, touches=())
    limits = UndoLimits(attempts=1)
    lost = undo(world, agent, faults={(charge.id, 1): Fault.LOST_AFTER}, limits=limits)
    assert ended(lost, charge) == [S.IN_DOUBT]
    again = undo(world, agent, earlier=lost)
    assert ended(again, charge) == [S.COMPENSATED]
    assert {key for _, key in world.calls} == {f"c:{charge.id}:1:1"}
    assert len(world.acted) == 1


def test_a_person_who_writes_while_a_busy_server_is_waited_for_is_seen(
    world: World, agent: Agent
) -> None:
    effect = agent.set(ANNA, "phone", "B")

    def person(action: Action) -> None:
        if isinstance(action, Wait):
            world.stranger(ANNA, {"phone": "theirs"})

    store = undo(world, agent, faults={(effect.id, 1): Fault.BUSY}, before=person)
    assert ended(store, effect) == [S.NEEDS_REVIEW]
    assert value(world, ANNA, "phone") == "theirs"
    assert len(world.calls) == 1


@pytest.mark.undo(44)
def test_inherited_effects_are_named_with_who_can_and_without_values(world: World) -> None:
    parent, child = Agent(world, "parent"), Agent(world, "child")
    theirs = parent.set(ANNA, "phone", "secret-number")
    plan = make_plan(
        [theirs.turn_id],
        effects=[theirs],
        sessions=frozenset({child.session}),
        now=HOUR,
        limits=UndoLimits(),
    )
    assert not plan.members
    (inherited,) = plan.inherited
    assert (inherited.effect_id, inherited.session_id) == (theirs.id, "parent")
    assert "secret-number" not in repr(plan)


@pytest.mark.undo(32)
def test_what_a_read_of_ours_changed_all_the_same_is_found_by_the_check(
    world: World, agent: Agent
) -> None:
    world.things[ANNA]["unread",] = True
    world.begin()
    effect = agent.replace(ANNA, {"phone": "B", "mail": "M", "unread": True})
    # A tool that was declared a read is in no log, and clears the flag.
    world.things[ANNA]["unread",] = False
    store = undo(world, agent)
    assert ended(store, effect) == [S.NEEDS_REVIEW]
    (leaf,) = store.compensations[effect.id].values
    assert (leaf.cell.path, leaf.expected, leaf.now) == (("unread",), True, False)
    assert not world.calls


def test_drift_and_what_needs_you_stop_nothing(world: World, agent: Agent) -> None:
    older = agent.set(BERT, "phone", "B")
    drifted = agent.set(ANNA, "phone", "B")
    told = agent.tell("x")
    doubt = agent.create(CARL, {"phone": "C"})
    agent.change(doubt, state=CallState.IN_DOUBT, standing=Standing.IN_DOUBT)
    world.stranger(ANNA, {"phone": "theirs"})
    store = undo(world, agent, policy=Policy.STOP)
    ends = [S.IN_DOUBT, S.NEEDS_YOU, S.NEEDS_REVIEW, S.REVERTED]
    assert ended(store, doubt, told, drifted, older) == ends


def test_counts_name_what_needs_a_person_first(world: World, agent: Agent) -> None:
    agent.set(ANNA, "phone", "B")
    agent.tell("x")
    agent.charge("c1")
    store = undo(world, agent)
    assert list(counts(store.compensations.values()).items()) == [
        (Count.NEEDS_YOU, 1),
        (Count.COMPENSATE, 1),
        (Count.REVERT, 1),
    ]
