"""One undo run against a world in memory: inverses that fail, lie, or lose their reply."""

from __future__ import annotations

import pytest
from undo_ended import ANNA, BERT, S, assert_clean, ended
from undo_world import HOUR, Agent, Fault, World, undo

from turnback.core.drift import Cell
from turnback.core.effects import Standing
from turnback.core.undo.actions import Action, Read, Why
from turnback.core.undo.rows import Claim, Outcome, Reason


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
