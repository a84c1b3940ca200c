"""A plan: members and their verbs, groups, order, what is in the way, and its digest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from undo_world import HOUR, LIMITS, Agent, World, thing

from turnback.core.effects import Call, CallState, Effect, EffectClass, Standing, Touch, Verb
from turnback.core.undo.budget import Budget, Spent, UndoLimits, default_budget
from turnback.core.undo.graph import Edge, dependencies, order
from turnback.core.undo.plan import Group, Plan, make_plan
from turnback.core.undo.rows import Because, Policy

ANNA, BERT = thing("anna"), thing("bert")


@pytest.fixture
def agent() -> Agent:
    world = World()
    for key in (ANNA, BERT):
        world.things[key] = {("phone",): "A", ("mail",): "M"}
    world.begin()
    return Agent(world)


def plan_of(agent: Agent, *asked: str, **options: Any) -> Plan:
    effects = list(agent.effects.values())
    defaults: dict[str, Any] = {
        "sessions": frozenset({agent.session}),
        "now": HOUR,
        "limits": LIMITS,
        "effects": effects,
    }
    return make_plan(asked or [effect.id for effect in effects], **{**defaults, **options})


def edges(agent: Agent) -> set[tuple[str, str, Because]]:
    found = dependencies(list(agent.effects.values()))
    return {(edge.first[-2:], edge.then[-2:], edge.why) for edge in found}


# Members


def test_members_are_what_still_stands_of_the_turns_and_effects_that_are_asked(
    agent: Agent,
) -> None:
    first = agent.set(ANNA, "phone", "B")
    agent.turn = "turn-2"
    second = agent.set(BERT, "phone", "B")
    third = agent.set(BERT, "mail", "N")
    agent.change(third, standing=Standing.REVERTED)
    assert [m.effect_id for m in plan_of(agent, "turn-2").members] == [second.id]
    assert [m.effect_id for m in plan_of(agent, first.id).members] == [first.id]
    assert len(plan_of(agent, "turn-1", "turn-2").members) == 2


@pytest.mark.parametrize(
    ("members", "verb", "group"),
    [
        ({}, Verb.REVERT, Group.REVERTED),
        ({"class_": EffectClass.COMPENSABLE}, Verb.COMPENSATE, Group.COMPENSATED),
        ({"class_": EffectClass.IRREVERSIBLE}, Verb.ACKNOWLEDGE, Group.STAYS),
        ({"inverse": None}, Verb.ACKNOWLEDGE, Group.STAYS),
        ({"inverse": ()}, Verb.ACKNOWLEDGE, Group.STAYS),
        ({"purged": True}, Verb.ACKNOWLEDGE, Group.STAYS),
        ({"cancel": (Call("x", {}),), "cancel_until": HOUR + 1}, Verb.CANCEL, Group.REVERTED),
        ({"cancel": (Call("x", {}),), "cancel_until": HOUR}, Verb.REVERT, Group.REVERTED),
        ({"state": CallState.HELD, "hold_until": HOUR + 1}, Verb.CANCEL, Group.REVERTED),
        ({"state": CallState.DONE, "hold_until": HOUR + 1}, Verb.REVERT, Group.REVERTED),
    ],
)
def test_the_verb_says_what_can_be_done_now(
    agent: Agent, members: dict[str, Any], verb: Verb, group: Group
) -> None:
    agent.change(agent.set(ANNA, "phone", "B"), **members)
    plan = plan_of(agent)
    assert (plan.members[0].verb, plan.members[0].group) == (verb, group)
    assert plan.plain == (verb in (Verb.REVERT, Verb.CANCEL))


def test_effects_of_another_session_are_listed_as_theirs_and_are_no_members(agent: Agent) -> None:
    other = replace(agent.set(ANNA, "phone", "B"), id="other", session_id="other")
    plan = plan_of(agent, "other", effects=[other])
    assert not plan.members
    assert [(one.effect_id, one.session_id) for one in plan.inherited] == [("other", "other")]


# Order


def test_the_same_resource_is_undone_newest_first(agent: Agent) -> None:
    agent.replace(ANNA, {"phone": "B"})
    agent.replace(ANNA, {"phone": "C"})
    assert edges(agent) == {("e2", "e1", Because.SAME_RESOURCE)}


def test_what_writes_other_leaves_than_a_narrow_inverse_does_not_depend_on_it(
    agent: Agent,
) -> None:
    agent.set(ANNA, "phone", "B")
    agent.set(ANNA, "mail", "N")
    assert not edges(agent)
    agent.replace(ANNA, {"phone": "C"})
    assert edges(agent) == {
        ("e3", "e1", Because.SAME_RESOURCE),
        ("e3", "e2", Because.SAME_RESOURCE),
    }


def test_what_a_call_in_doubt_wrote_may_be_any_leaf(agent: Agent) -> None:
    agent.set(ANNA, "phone", "B")
    doubt = agent.set(ANNA, "mail", "N")
    agent.change(doubt, state=CallState.IN_DOUBT, standing=Standing.IN_DOUBT)
    assert edges(agent) == {("e2", "e1", Because.SAME_RESOURCE)}


def test_an_output_that_is_used_as_an_input_is_a_dependency(agent: Agent) -> None:
    agent.call("tell", {"to": ["x"]}, result={"message": {"id": "msg-81f2"}})
    agent.call("tell", {"to": ["y"], "in_reply_to": "msg-81f2"})
    agent.call("tell", {"to": ["msg-81f3"]})
    assert edges(agent) == {("e2", "e1", Because.DATA_FLOW)}


def test_an_id_in_the_prose_of_a_reply_is_an_output_too(agent: Agent) -> None:
    agent.call("tell", {"to": ["x"]}, result={"text": "Created the event ev-4411."})
    agent.call("tell", {"to": ["y"], "event": "ev-4411"})
    assert edges(agent) == {("e2", "e1", Because.DATA_FLOW)}


def test_what_was_there_before_a_call_is_no_output_of_it(agent: Agent) -> None:
    agent.call("tell", {"to": ["anna"], "about": 17})
    agent.call("tell", {"to": ["bert"]}, result={"about": 17, "ok": True, "to": "bert"})
    agent.call("tell", {"to": ["bert"], "about": 17, "again": True})
    assert not edges(agent)


def test_what_lies_in_a_thing_is_undone_before_the_thing(agent: Agent) -> None:
    folder, file = thing("f", "folder"), thing("f/a", "file")
    agent.create(folder, {"there": True})
    agent.create(file, {"content": "x"}, inside=(folder,))
    assert edges(agent) == {("e2", "e1", Because.CONTAINMENT)}


def test_another_sessions_later_write_keeps_nothing_from_being_planned(agent: Agent) -> None:
    first = agent.set(ANNA, "phone", "B")
    theirs = replace(agent.set(ANNA, "phone", "C"), session_id="other", at=9_000)
    alone = plan_of(agent, first.id, effects=[first, theirs])
    assert alone.runnable
    both = frozenset({agent.session, "other"})
    together = plan_of(agent, first.id, theirs.id, effects=[first, theirs], sessions=both)
    assert [member.effect_id for member in together.members] == [theirs.id, first.id]


def test_a_cover_that_would_close_a_cycle_is_none(agent: Agent) -> None:
    made = agent.create(thing("c"), {"phone": "A"})
    between = agent.set(ANNA, "phone", "B", needs=(thing("c"),), result={"id": "between-1"})
    kept = agent.set_for_good(thing("c"), "phone", "between-1")
    plan = plan_of(agent)
    assert plan.runnable
    assert [member.effect_id for member in plan.members] == [kept.id, between.id, made.id]
    assert plan.members[0].verb is Verb.ACKNOWLEDGE


effects_and_edges = st.integers(1, 8).flatmap(
    lambda size: st.tuples(
        st.just(size),
        st.sets(st.tuples(st.integers(1, size), st.integers(1, size)), max_size=12),
    )
)


@given(effects_and_edges)
def test_each_goes_after_what_goes_first_or_a_cycle_is_named(
    given: tuple[int, set[tuple[int, int]]],
) -> None:
    size, pairs = given
    agent = Agent(World())
    effects = [agent.tell("x") for _ in range(size)]
    id_ = {n: effects[n - 1].id for n in range(1, size + 1)}
    made = [Edge(id_[a], id_[b], Because.EXPLICIT) for a, b in pairs if a != b]
    ordered, cycle = order(effects, made)
    place = {one: at for at, one in enumerate(ordered)}
    for edge in made:
        if edge.then in place:
            assert place[edge.first] < place[edge.then]
    if cycle:
        ring = {(edge.first, edge.then) for edge in made}
        assert all(pair in ring for pair in zip(cycle, (*cycle[1:], cycle[0]), strict=True))
    else:
        assert len(ordered) == size
    if not made:
        assert ordered == tuple(effect.id for effect in reversed(effects))


# The digest


def told(agent: Agent) -> Effect:
    return agent.tell("x", names={"subject": "s"})


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"standing": Standing.PARTLY}, True),
        ({"contract": "contract-2"}, True),
        ({"case": 1}, True),
        ({"people": ("y",)}, True),
        ({"inverse": (Call("x", {}),), "class_": EffectClass.COMPENSABLE}, True),
        ({"at": 5}, False),
        ({"names": {"subject": "t"}}, False),
        ({"result": {"text": "other"}}, False),
    ],
)
def test_the_digest_covers_what_is_agreed_to_and_no_more(
    agent: Agent, change: dict[str, Any], differs: bool
) -> None:
    effect = told(agent)
    digest = plan_of(agent).digest
    agent.change(effect, **change)
    assert (plan_of(agent).digest != digest) == differs


@pytest.mark.parametrize(
    "options",
    [
        {"policy": Policy.INDEPENDENT},
        {"budget": Budget(calls=1, reads=1, tokens=0, run_ms=1)},
        {"head_before": "step-1"},
        {"head_after": "step-1"},
        {"positions": {ANNA: 7}},
    ],
)
def test_the_digest_covers_policy_budget_head_and_ledger(
    agent: Agent, options: dict[str, Any]
) -> None:
    agent.set(ANNA, "phone", "B")
    assert plan_of(agent, **options).digest != plan_of(agent).digest


def test_the_digest_covers_edges_and_not_the_time_of_the_plan(agent: Agent) -> None:
    agent.set(ANNA, "phone", "B")
    second = agent.set(BERT, "phone", "B")
    digest = plan_of(agent).digest
    assert plan_of(agent, now=HOUR + 1).digest == digest
    agent.change(second, needs=(ANNA,))
    assert plan_of(agent).digest != digest


# The budget


def test_a_plan_may_make_two_calls_for_each_member_and_two_more() -> None:
    assert default_budget(5, UndoLimits()).calls == 12


def test_an_inverse_of_many_calls_can_be_paid_without_asking_for_more(agent: Agent) -> None:
    first = agent.set(ANNA, "phone", "B")
    agent.set(BERT, "phone", "B")
    assert plan_of(agent).budget.calls == 6
    agent.change(first, inverse=(Call("x", {}),) * 9)
    assert plan_of(agent).budget.calls == 12


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5)), max_size=20))
def test_no_more_is_ever_reserved_than_there_is(wanted: list[tuple[int, int, int]]) -> None:
    budget = Budget(calls=10, reads=10, tokens=10, run_ms=1)
    spent = Spent()
    for calls, reads, tokens in wanted:
        more = spent.reserve(budget, calls=calls, reads=reads, tokens=tokens)
        if more is not None:
            assert more.calls == spent.calls + calls
            spent = more
    assert max(spent.calls, spent.reads, spent.tokens) <= 10


def test_backoff_doubles_to_a_limit() -> None:
    limits = UndoLimits(backoff_ms=100, longest_backoff_ms=350)
    assert [limits.backoff(n) for n in (1, 2, 3, 99)] == [100, 200, 350, 350]


def test_what_nobody_read_is_covered_by_nothing(agent: Agent) -> None:
    agent.create(thing("c"), {"phone": "A"})
    blind = agent.set_for_good(thing("c"), "phone", "B")
    agent.change(blind, touches=(Touch(thing("c"), None, {}),))
    covered = {member.effect_id: member.covered_by for member in plan_of(agent).members}
    assert covered[blind.id] is None
