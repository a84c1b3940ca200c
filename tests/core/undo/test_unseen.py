"""Calls that were made and left the things that they touch as they were: nothing shows them back.

Only a reversible call promises that its things show all that it does.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from undo_ended import ANNA
from undo_world import FAR, HOUR, Agent, Fault, World, planned, undo

from turnback.core.drift import Cell
from turnback.core.effects import Call, CallState, Effect, EffectClass, Standing
from turnback.core.undo.actions import Action, Finish, Wait
from turnback.core.undo.budget import UndoLimits
from turnback.core.undo.rows import Claim, CompensationState, Outcome, Reason

S = CompensationState


@pytest.fixture
def world() -> World:
    return _world()


def _world() -> World:
    there = World()
    there.things[ANNA] = {("phone",): "A"}
    there.begin()
    return there


def called(
    agent: Agent, class_: EffectClass = EffectClass.IRREVERSIBLE, *, key_ms: int = 0
) -> Effect:
    """A call about Anna that nothing of Anna shows."""
    compensable = class_ is EffectClass.COMPENSABLE
    effect = agent.call(
        "tell",
        {"to": ["anna"]},
        touches=[ANNA],
        class_=class_,
        inverse=(lambda _: [Call("tell", {"to": ["anna, sorry"]}, key_ms=key_ms)])
        if compensable
        else None,
        residue="notice_sent" if compensable else None,
    )
    return agent.change(effect, state=CallState.DONE, standing=Standing.IN_FORCE)


def test_an_irreversible_call_that_nothing_shows_is_not_found_reverted(
    world: World, agent: Agent
) -> None:
    effect = called(agent)
    store = undo(world, agent)
    assert (store.state(effect), store.run.outcome) == (S.NEEDS_YOU, Outcome.NOT_REVERTED)
    assert store.residues[effect.id].claims == ()


def test_what_a_late_look_shows_of_it_is_claimed(world: World, agent: Agent) -> None:
    effect = called(agent)
    world.things[ANNA]["phone",] = "B"  # its reads lag behind its writes
    store = undo(world, agent)
    assert store.state(effect) is S.NEEDS_YOU
    assert [(c.resource, c.path) for c in store.residues[effect.id].claims] == [(ANNA, ("phone",))]


def test_its_offset_is_sent_and_said_to_be_unchecked(world: World, agent: Agent) -> None:
    effect = called(agent, EffectClass.COMPENSABLE)
    store = undo(world, agent)
    assert world.told == ["anna", "anna, sorry"]
    assert store.state(effect) is S.COMPENSATED
    assert store.compensations[effect.id].reason is Reason.UNCHECKED


def test_what_its_contract_tests_is_checked(world: World, agent: Agent) -> None:
    effect = called(agent, EffectClass.COMPENSABLE)
    assert undo(world, agent, passes=True).compensations[effect.id].reason is None
    again = called(agent, EffectClass.COMPENSABLE)
    assert undo(world, agent, passes=False).state(again) is S.NOOP_INVERSE


@pytest.mark.parametrize(
    ("fault", "key_ms", "ends", "told"),
    [
        (Fault.REFUSED, 0, S.FAILED, 1),
        (Fault.LOST_AFTER, 0, S.IN_DOUBT, 2),
        (Fault.LOST_BEFORE, 0, S.IN_DOUBT, 1),
        (Fault.LOST_AFTER, 10**12, S.COMPENSATED, 2),
        (Fault.LOST_BEFORE, 10**12, S.COMPENSATED, 2),
    ],
)
def test_an_offset_that_went_wrong_is_not_said_to_be_made(
    world: World, agent: Agent, fault: Fault, key_ms: int, ends: CompensationState, told: int
) -> None:
    effect = called(agent, EffectClass.COMPENSABLE, key_ms=key_ms)
    store = undo(world, agent, faults={(effect.id, 1): fault})
    assert (store.state(effect), len(world.told)) == (ends, told)


def test_it_is_not_covered_by_what_only_writes_the_same_thing(world: World, agent: Agent) -> None:
    written = agent.replace(ANNA, {"phone": "B"})
    effect = called(agent)
    store = undo(world, agent)
    assert (store.state(written), store.state(effect)) == (S.REVERTED, S.NEEDS_YOU)
    assert store.run.outcome is Outcome.PARTIALLY_REVERTED


def test_what_it_may_have_done_is_claimed_where_nobody_could_look(
    world: World, agent: Agent
) -> None:
    effect = called(agent)
    world.unreadable[ANNA] = "down"
    store = undo(world, agent)
    assert store.residues[effect.id].claims == (Claim(ANNA, ()),)


@given(st.sampled_from([EffectClass.IRREVERSIBLE, EffectClass.COMPENSABLE]), st.booleans())
def test_none_is_ever_fully_reverted(class_: EffectClass, changed: bool) -> None:
    world = _world()
    agent = Agent(world)
    effect = called(agent, class_)
    if changed:
        world.things[ANNA]["phone",] = "B"
    store = undo(world, agent)
    assert store.run.outcome is not Outcome.FULLY_REVERTED
    claimed = {Cell(c.resource, c.path) for c in store.residues[effect.id].claims}
    assert world.differing({effect.id}) == claimed


def answered_unshown(agent: Agent, *, at: int) -> Effect:
    """A reversible call that was answered, and a look after it still showed what was before."""
    effect = agent.set(ANNA, "phone", "B")
    (touch,) = effect.touches
    return agent.change(effect, at=at, touches=(replace(touch, wrote={}, unsure=frozenset({()})),))


def test_a_call_whose_look_may_have_been_late_is_not_looked_at_before_reads_have_caught_up(
    world: World, agent: Agent
) -> None:
    effect = answered_unshown(agent, at=HOUR - 1_000)
    shown = world.things[ANNA]
    world.things[ANNA] = {("phone",): "A"}

    def caught_up(action: Action) -> None:
        if isinstance(action, Wait):
            assert action.until == HOUR + 4_000
            world.things[ANNA] = shown

    store = undo(world, agent, before=caught_up, limits=UndoLimits(read_lag_ms=5_000))
    assert (store.state(effect), store.run.outcome) == (S.NEEDS_REVIEW, Outcome.NOT_REVERTED)
    assert [claim.resource for claim in store.residues[effect.id].claims] == [ANNA]


def test_a_stop_while_reads_catch_up_leaves_the_call_unbegun(world: World, agent: Agent) -> None:
    effect = answered_unshown(agent, at=HOUR)
    store = planned(agent, limits=UndoLimits(read_lag_ms=5_000))
    run = store.load()
    assert run.next(HOUR + 1, lease_until=FAR) == Wait(HOUR + 5_000)
    run.stop()
    assert isinstance(run.next(HOUR + 2, lease_until=FAR), Finish)
    assert run.compensations[effect.id].reason is Reason.STOPPED


@pytest.mark.parametrize("at", [HOUR - 5_000, HOUR + 60_000])
def test_nobody_waits_for_reads_that_have_had_their_time_or_by_a_clock_that_went_back(
    world: World, agent: Agent, at: int
) -> None:
    effect = answered_unshown(agent, at=at)
    world.things[ANNA] = {("phone",): "A"}

    def waits(action: Action) -> None:
        assert not isinstance(action, Wait)

    store = undo(world, agent, before=waits, limits=UndoLimits(read_lag_ms=5_000))
    assert store.state(effect) is S.REVERTED
