"""Whatever an agent did, whoever else wrote, whatever failed: what a run says of the world is true.

Random histories, strangers before, between and during, faults of every kind, crashes at any moment.
Nothing is asserted on the way, only on the world and the report at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from undo_world import HOUR, LIMITS, Agent, Fault, Runner, Store, World, planned, thing

from turnback.core import drift
from turnback.core.effects import Standing, Verb
from turnback.core.undo import residue
from turnback.core.undo.actions import Action, Read, Settle, Wait
from turnback.core.undo.budget import Budget
from turnback.core.undo.rows import Claim, CompensationState, Outcome, Policy, Reason

IDS = ["anna", "bert", "carl"]
LEAVES = ["phone", "mail", "note"]

ids = st.sampled_from(IDS)
names = st.sampled_from(LEAVES)
values = st.sampled_from(["p", "q", "r"])
states = st.dictionaries(names, values, min_size=1)

ACTS = st.one_of(
    st.tuples(st.just("set"), ids, names, values),
    st.tuples(st.just("replace"), ids, states),
    st.tuples(st.just("remake"), ids, states),
    st.tuples(st.just("create"), ids, states),
    st.tuples(st.just("delete"), ids),
    st.tuples(st.just("set_for_good"), ids, names, values),
    st.tuples(st.just("tell")),
    st.tuples(st.just("charge")),
)
STRANGE = st.one_of(
    st.tuples(st.just("edit"), ids, st.frozensets(names, min_size=1)),
    st.tuples(st.just("remove"), ids),
    st.tuples(st.just("again"), ids, st.frozensets(names, min_size=1)),
    st.tuples(st.just("make"), ids, st.frozensets(names, min_size=1)),
)
"""What a stranger does. What is written and taken away again between two looks nobody can see."""


@dataclass(frozen=True)
class Story:
    """A history, and all that happens to its undo."""

    acts: tuple[Any, ...]
    late: tuple[Any, ...] = ()
    during: tuple[tuple[int, Any], ...] = ()
    faults: tuple[tuple[int, int, Fault], ...] = ()
    key_ms: int = HOUR
    verifies: bool = True
    policy: Policy = Policy.INDEPENDENT
    budget: int | None = None
    asked: frozenset[int] | None = None
    world: World = field(default_factory=World, compare=False)


@st.composite
def stories(draw: Callable[..., Any], *, strangers: bool = True, faults: bool = True) -> Story:
    between = st.one_of(ACTS, ACTS, ACTS, STRANGE) if strangers else ACTS
    acts = draw(st.lists(between, min_size=1, max_size=8))
    some = st.lists(STRANGE, max_size=2) if strangers else st.just([])
    moments = st.tuples(st.integers(0, 12), STRANGE)
    wrong = st.tuples(st.integers(1, 8), st.integers(1, 2), st.sampled_from(list(Fault)))
    return Story(
        acts=tuple(acts),
        late=tuple(draw(some)),
        during=tuple(draw(st.lists(moments, max_size=2))) if strangers else (),
        faults=tuple(draw(st.lists(wrong, max_size=3))) if faults else (),
        key_ms=draw(st.sampled_from([0, HOUR])),
        verifies=draw(st.booleans()),
        policy=draw(st.sampled_from(list(Policy))),
        budget=draw(st.one_of(st.none(), st.integers(0, 6))),
        asked=draw(st.one_of(st.none(), st.frozensets(st.integers(1, 8), min_size=1, max_size=3))),
    )


def live(story: Story) -> tuple[World, Agent]:
    """The world after the agent and the strangers of a story."""
    world = World()
    for id_ in IDS[:2]:
        world.things[thing(id_)] = {("phone",): "p", ("mail",): "q"}
    world.begin()
    agent = Agent(world, key_ms=story.key_ms)
    for at, act in enumerate(story.acts):
        agent.turn = f"turn-{at}"
        match act:
            case ("set" | "set_for_good" as name, id_, leaf, value):
                if thing(id_) in world.things:
                    getattr(agent, name)(thing(id_), leaf, value)
            case ("replace" | "remake" | "create" as name, id_, leaves):
                getattr(agent, name)(thing(id_), leaves)
            case ("delete", id_):
                agent.delete(thing(id_))
            case ("tell",):
                agent.tell("someone")
            case ("charge",):
                agent.charge(f"charge-{at}")
            case _:
                strange(world, act, late=False)
    for act in story.late:
        strange(world, act)
    return world, agent


def strange(world: World, act: Any, *, late: bool = True) -> None:
    """A stranger's act, with values that nobody else ever writes."""
    what, id_, *leaves = act
    key = thing(id_)
    new = {name: f"theirs-{next(world.born)}" for name in sorted(*leaves)} if leaves else {}
    there = world.things.get(key)
    if what == "make":
        if there is None:
            world.stranger(key, new, late=late)
    elif there is None:
        return
    elif what == "edit":
        world.stranger(key, new, late=late)
    elif not any(str(value).startswith("theirs") for value in there.values()):
        world.stranger(key, None, late=late)
        if what == "again":
            world.stranger(key, new, late=late)


def carried_out(
    story: Story, *, crash_at: frozenset[int] = frozenset(), room: int = 0
) -> tuple[World, Store]:
    """A story's end; the plan takes in what depends on what is asked.

    `room` is how many attempts more than by default its limits allow for.
    """
    world, agent = live(story)
    asked = None
    if story.asked is not None:
        asked = [f"session-1-e{n}" for n in story.asked]
    budget = None
    if story.budget is not None:
        budget = Budget(calls=story.budget, reads=200, tokens=0, run_ms=HOUR)
    elif room:
        budget = Budget(calls=100 + room, reads=1_000, tokens=0, run_ms=HOUR)
    limits = replace(LIMITS, attempts=LIMITS.attempts + room)
    store = planned(
        agent,
        asked=asked,
        policy=story.policy,
        budget=budget,
        limits=limits,
        with_dependents=True,
    )
    assert store.plan.runnable
    during = dict(story.during)
    seen = iter(range(10_000))

    def come(action: Action) -> None:
        if isinstance(action, Read | Wait | Settle) and (at := next(seen)) in during:
            world.watched = False
            strange(world, during[at])

    faults = {(f"session-1-e{number}", n): fault for number, n, fault in story.faults}
    runner = Runner(
        world, store, faults=faults, before=come, crash_at=crash_at, verifies=story.verifies
    )
    return world, runner.carry_out()


def assert_true(world: World, store: Store, *, cut_off: bool = False) -> None:
    """What the run said is what the world shows.

    One that was cut off may have reserved calls that it did not come to make.
    """
    left = world.differing(store.members)
    claimed = {
        (claim.resource, claim.path)
        for residue in store.residues.values()
        for claim in residue.claims
    }
    unclaimed = {
        cell
        for cell in left
        if (cell.resource, cell.path) not in claimed and (cell.resource, ()) not in claimed
    }
    assert not unclaimed, "a leaf that differs, and no residue claims it"
    if store.run.outcome is Outcome.FULLY_REVERTED:
        assert not left
        assert not store.residues
        assert not any(
            member.verb is Verb.ACKNOWLEDGE and store.effects()[member.effect_id].tells
            for member in store.plan.members
        )
    if store.run.outcome is Outcome.NOT_REVERTED and world.watched:
        assert not world.acted
    overwritten = {cell for cell, value in world.late.items() if world.state().get(cell) != value}
    assert not overwritten, "a stranger's leaf was overwritten"
    assert len(world.calls) <= store.run.spent.calls <= store.run.budget.calls
    assert cut_off or len(world.calls) == store.run.spent.calls
    assert not any(("twice",) in leaves for leaves in world.things.values())
    before = list(world.calls), deepcopy(world.things), dict(store.compensations)
    Runner(world, store).carry_out()
    assert (world.calls, world.things, store.compensations) == before
    for row in store.compensations.values():
        ended = row.state not in (CompensationState.PENDING, CompensationState.CHECKING)
        assert ended


FEW = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
MANY = settings(FEW, max_examples=2_000, derandomize=False)


@FEW
@given(stories())
def test_no_report_is_cleaner_than_the_world(story: Story) -> None:
    assert_true(*carried_out(story))


@pytest.mark.soak
@MANY
@given(stories())
def test_no_report_is_cleaner_than_the_world_at_length(story: Story) -> None:
    assert_true(*carried_out(story))


@FEW
@given(stories(strangers=False, faults=False))
def test_undisturbed_all_that_has_a_way_back_goes_back(story: Story) -> None:
    world, store = carried_out(story)
    assert_true(world, store)
    if store.run.budget.calls > 2 * len(store.plan.members):
        for member in store.plan.members:
            state = store.compensations[member.effect_id].state
            if member.verb is Verb.REVERT:
                assert state is CompensationState.REVERTED
            elif member.verb is Verb.COMPENSATE:
                assert state is CompensationState.COMPENSATED


def ends(store: Store) -> Any:
    """What a report is made of."""
    return (
        store.run.outcome,
        {id_: (row.state, row.claims) for id_, row in store.compensations.items()},
        {id_: (left.template, left.claims) for id_, left in store.residues.items()},
        {id_: effect.standing for id_, effect in store.effects().items()},
    )


TIMELESS = [Fault.REFUSED, Fault.ERROR_BODY, Fault.LIE]
"""What goes wrong with every attempt, and does not look like a stranger's writing afterwards."""


USED_UP = (Reason.ATTEMPTS, Reason.BUDGET)
"""Why a run that was cut off may end otherwise than an undisturbed one: attempts count, and what is
not known to have been made may have been."""


def same_as_undisturbed(story: Story, moments: frozenset[int]) -> None:
    """Where its limits leave room for being cut off; without, it says what it has used up."""
    story = Story(
        acts=story.acts,
        late=story.late,
        verifies=story.verifies,
        faults=tuple(fault for fault in story.faults if fault[2] in TIMELESS),
        policy=story.policy,
        asked=story.asked,
    )
    world, store = carried_out(story)
    again, resumed = carried_out(story, crash_at=moments, room=len(moments))
    assert ends(resumed) == ends(store)
    assert again.things == world.things
    assert again.acted == world.acted
    third, limited = carried_out(story, crash_at=moments)
    assert_true(third, limited, cut_off=True)
    rows = limited.compensations.values()
    assert ends(limited) == ends(store) or any(row.reason in USED_UP for row in rows)


@FEW
@given(stories(), st.frozensets(st.integers(0, 60), max_size=3))
def test_a_run_that_was_cut_off_comes_to_the_same_where_keys_are_honoured(
    story: Story, moments: frozenset[int]
) -> None:
    same_as_undisturbed(story, moments)


@pytest.mark.soak
@MANY
@given(stories(), st.frozensets(st.integers(0, 60), max_size=5))
def test_a_run_that_was_cut_off_comes_to_the_same_at_length(
    story: Story, moments: frozenset[int]
) -> None:
    same_as_undisturbed(story, moments)


@pytest.mark.parametrize("verifies", [True, False])
def test_a_refund_of_which_nobody_has_the_answer_comes_to_the_same(verifies: bool) -> None:
    for moment in range(12):
        same_as_undisturbed(Story(acts=(("charge",),), verifies=verifies), frozenset({moment}))


@pytest.mark.parametrize("act", [("charge",), ("set", "anna", "phone", "r")])
def test_a_run_that_is_cut_off_at_every_attempt_says_that_it_has_no_more(act: Any) -> None:
    story, moments = Story(acts=(act,)), frozenset({3, 7, 11, 15})
    same_as_undisturbed(story, moments)
    _, store = carried_out(story, crash_at=moments)
    [row] = store.compensations.values()
    assert (row.state, row.reason) == (CompensationState.IN_DOUBT, Reason.ATTEMPTS)
    assert store.run.outcome is Outcome.PARTIALLY_REVERTED


@FEW
@given(stories(), st.frozensets(st.integers(0, 60), min_size=1, max_size=3))
def test_without_keys_a_run_that_was_cut_off_is_still_true(
    story: Story, moments: frozenset[int]
) -> None:
    world, agent_store = carried_out(story, crash_at=moments)
    left = world.differing(agent_store.members)
    if agent_store.run.outcome is Outcome.FULLY_REVERTED:
        assert not left
    assert not any(("twice",) in leaves for leaves in world.things.values())
    assert len(world.calls) <= agent_store.run.budget.calls


def the_rest_is_true(story: Story) -> None:
    """The rest of a run is tried in another one, when nothing fails any more.

    Who takes away what an inverse has just put back, before it is looked at, cannot be told from a
    tool that lied; so nobody comes during these runs.
    """
    world, first = carried_out(replace(story, during=()))
    (agent,) = first.agents
    second = planned(agent, policy=Policy.INDEPENDENT, earlier=first)
    acted = list(world.acted)
    Runner(world, second).carry_out()
    members = first.members | second.members
    residues = {**first.residues, **second.residues}
    gone = {id_ for id_ in members if second.effects()[id_].standing in BACK}
    claims = [claim for id_, left in residues.items() if id_ not in gone for claim in left.claims]
    claimed = {(claim.resource, claim.path) for claim in claims}
    assert not {cell for cell in world.differing(members) if tuple(cell) not in claimed}
    state = world.state()
    assert not {cell for cell, value in world.late.items() if state.get(cell) != value}
    assert len(set(world.acted)) == len(world.acted), "an inverse was made twice under one key"
    assert world.acted[: len(acted)] == acted
    assert not any(("twice",) in leaves for leaves in world.things.values())


BACK = (Standing.REVERTED, Standing.CANCELLED)


@FEW
@given(stories())
def test_the_rest_of_a_run_is_true_as_well(story: Story) -> None:
    the_rest_is_true(story)


@pytest.mark.soak
@MANY
@given(stories())
def test_the_rest_of_a_run_is_true_at_length(story: Story) -> None:
    the_rest_is_true(story)


# With a rule taken out, these same assertions fail


def no_check(basis: drift.Basis, seen: drift.Seen, *, narrow: bool) -> drift.Verdict:
    return drift.Go()


def no_verification(*_: Any, **__: Any) -> drift.Reached:
    return drift.Reached.GOAL


def no_strangers(*_: Any) -> tuple[drift.LedgerEntry, ...]:
    return ()


def no_claims(*_: Any, **__: Any) -> tuple[Claim, ...]:
    return ()


EDITED = Story(acts=(("set", "anna", "phone", "r"),), late=(("edit", "anna", {"phone"}),))
MADE = Story(acts=(("create", "carl", {"phone": "p"}),), late=(("edit", "carl", {"mail"}),))
LIED_TO = Story(acts=(("set", "anna", "phone", "r"),), faults=((1, 1, Fault.LIE),))
WRONGED = Story(acts=(("set", "anna", "phone", "r"),), faults=((1, 1, Fault.WRONG),))
SPARED = Story(acts=(("set_for_good", "anna", "phone", "r"),))
AGAIN = Story(
    acts=(("delete", "anna"), ("create", "anna", {"phone": "p"})), late=(("remove", "anna"),)
)


@pytest.mark.parametrize(
    ("module", "rule", "without", "story"),
    [
        (drift, "judge", no_check, EDITED),
        (drift, "judge", no_check, MADE),
        (drift, "verify", no_verification, LIED_TO),
        (drift, "verify", no_verification, WRONGED),
        (drift, "theirs", no_strangers, AGAIN),
        (residue, "claims", no_claims, SPARED),
    ],
)
def test_without_a_rule_the_world_says_so(
    monkeypatch: pytest.MonkeyPatch, module: Any, rule: str, without: Any, story: Story
) -> None:
    assert_true(*carried_out(story))
    monkeypatch.setattr(module, rule, without)
    with pytest.raises(AssertionError):
        assert_true(*carried_out(story))


@pytest.mark.parametrize("n", [1, 2])
def test_an_inverse_that_the_budget_ends_half_way_claims_all_that_it_may_have_taken(n: int) -> None:
    made_anew = Story(
        acts=(("set", "anna", "phone", "p"), ("remake", "anna", {"phone": "p"})),
        faults=((2, n, Fault.BUSY),),
        key_ms=0,
        policy=Policy.STOP,
    )
    world, store = carried_out(made_anew)
    assert_true(world, store)
    assert world.differing(store.members)


def test_without_reading_back_a_refund_is_made_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    paid = Story(acts=(("charge",),), faults=((1, 1, Fault.BUSY_AFTER),), key_ms=0)
    assert_true(*carried_out(paid))
    monkeypatch.setattr(drift, "digest", lambda _: "the same for all")
    with pytest.raises(AssertionError):
        assert_true(*carried_out(paid))
