"""One undo run against a world in memory: doubts, cancelling, and compensating."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from undo_ended import ANNA, BERT, CARL, S, assert_clean, ended, value
from undo_world import FAR, HOUR, Agent, Fault, Runner, Store, World, planned, thing, undo

from turnback.core.drift import Cell
from turnback.core.effects import Call, CallState, Effect, EffectClass, Standing, Touch, Verb
from turnback.core.undo.account import foreseen
from turnback.core.undo.actions import Action, Finish, Send, Wait
from turnback.core.undo.budget import UndoLimits
from turnback.core.undo.outcome import Count, counts
from turnback.core.undo.plan import make_plan
from turnback.core.undo.rows import CallPhase, Claim, CompensationState, Outcome, Policy, Reason
from turnback.core.undo.run import Run
from turnback.core.undo.words import Language


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
    (member,) = store.plan.members
    ahead = foreseen(agent.effects[charge.id], member, language=Language.ENGLISH, when=str)
    assert ahead is not None
    assert "refunded" not in ahead.what


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
