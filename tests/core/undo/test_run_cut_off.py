"""One undo run against a world in memory: cut off, taken over, or beside another session."""

from __future__ import annotations

import pytest
from undo_ended import ANNA, S, assert_clean, ended, value
from undo_world import FAR, HOUR, Agent, Fault, Runner, World, planned, undo

from turnback.core.effects import Call, Standing
from turnback.core.undo.actions import Action, Read, Send, StandDown, Why
from turnback.core.undo.rows import Outcome


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
