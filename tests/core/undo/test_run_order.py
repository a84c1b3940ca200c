"""One undo run against a world in memory: in which order, and what goes with what."""

from __future__ import annotations

import pytest
from undo_ended import ANNA, BERT, CARL, FILE, FOLDER, S, assert_clean, ended, sent, value
from undo_world import HOUR, Agent, Fault, World, planned, thing, undo

from turnback.core.effects import Call, CallState, Standing
from turnback.core.undo.actions import Read
from turnback.core.undo.rows import Claim, Outcome, Policy, Reason


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


def test_a_doubt_that_is_blocked_is_not_said_to_have_taken_effect(
    world: World, agent: Agent
) -> None:
    made = agent.create(CARL, {"phone": "C"})
    used = agent.set(CARL, "phone", "D")
    agent.change(made, state=CallState.IN_DOUBT, standing=Standing.IN_DOUBT)
    store = undo(world, agent, faults={(used.id, 1): Fault.REFUSED}, policy=Policy.INDEPENDENT)
    assert ended(store, made, used) == [S.BLOCKED, S.FAILED]
    assert store.residues[made.id].template == "forward_in_doubt"
    assert Claim(CARL, ()) in store.residues[made.id].claims


def test_a_doubt_about_an_inverse_that_is_left_at_that_is_said_again(
    world: World, agent: Agent
) -> None:
    first = agent.set(ANNA, "phone", "B")
    second = agent.set(BERT, "phone", "B")
    agent.change(first, standing=Standing.IN_DOUBT)
    store = undo(world, agent, faults={(second.id, 1): Fault.REFUSED}, policy=Policy.STOP)
    assert ended(store, first, second) == [S.NOT_STARTED, S.FAILED]
    assert store.residues[first.id].template == "in_doubt"


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
        invite, inverse=(Call("delete_tree", {"id": "user", "kind": "folder"}, key_ms=HOUR),)
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
