"""One undo run against a world in memory: its budget, its stop, and what it does not claim."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from undo_ended import ANNA, BERT, S, assert_clean, ended
from undo_world import FAR, HOUR, Agent, Fault, Runner, Store, World, planned, thing, undo

from turnback.core.drift import Cell
from turnback.core.effects import (
    Call,
    CallState,
    Effect,
    EffectClass,
    Json,
    ResourceKey,
    Standing,
    Verb,
)
from turnback.core.undo.actions import Finish, Send
from turnback.core.undo.budget import Budget, UndoLimits
from turnback.core.undo.plan import Group
from turnback.core.undo.rows import Claim, Outcome, Policy, Reason


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
            world, agent, faults={(effect.id, 1): Fault.BUSY}, busy=99, limits=limits, earlier=store
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
