"""The report of a run, the forecast of a plan, and the gate of an agentic compensation."""

from __future__ import annotations

from dataclasses import replace

from undo_ended import ANNA, BERT
from undo_world import HOUR, Agent, Runner, Store, World, planned, undo

from turnback.core.contracts.model import Agentic
from turnback.core.drift import Already, Go, Review
from turnback.core.effects import Standing
from turnback.core.undo import residue
from turnback.core.undo.agentic import Denied, Gate
from turnback.core.undo.budget import Budget, Spent
from turnback.core.undo.foresight import foreseen, resources
from turnback.core.undo.outcome import outcome_of
from turnback.core.undo.reporting import report_of
from turnback.core.undo.rows import CompensationState, Outcome, ResidueStatus
from turnback.core.undo.words import Language


def test_a_report_has_every_member_and_every_residue_in_words(world: World, agent: Agent) -> None:
    changed = agent.set(ANNA, "phone", "B", names={"subject": "Anna"})
    mail = agent.tell("x@example.org", names={"subject": "Offer"}, residue="mail_sent")
    charge = agent.charge("c1", settles_at=2 * HOUR)
    store = undo(world, agent)
    report = report_of(
        store.run,
        store.compensations.values(),
        {f"r-{id_}": left for id_, left in store.residues.items()},
        store.effects(),
        language=Language.ENGLISH,
        when=str,
    )
    assert report.outcome is Outcome.PARTIALLY_REVERTED
    assert report.headline == "Partially reverted: 1 needs you, 1 compensated, 1 reverted"
    assert list(report.counts) == ["needs_you", "compensate", "revert"]
    assert {item.effect_id for item in report.items} == {changed.id, mail.id, charge.id}
    named = {item.effect_id: (item.what, item.said, item.standing) for item in report.items}
    assert named[changed.id] == ("Anna", "reverted", Standing.REVERTED)
    assert named[mail.id] == ("Offer", "needs you: there is no way back", Standing.IN_FORCE)
    left = {one.effect_id: one for one in report.residues}
    assert left[mail.id].draft is not None
    assert left[charge.id].settles == f"It settles on {2 * HOUR}."
    assert (report.spent, report.budget) == (store.run.spent, store.run.budget)


def test_acknowledging_and_settling_raise_no_outcome(world: World, agent: Agent) -> None:
    mail = agent.tell("x")
    store = undo(world, agent)
    left = store.residues[mail.id]
    noted = residue.acknowledged(left)
    assert noted.status is ResidueStatus.ACKNOWLEDGED
    assert residue.settled(noted).status is ResidueStatus.SETTLED
    assert residue.acknowledged(residue.settled(left)).status is ResidueStatus.SETTLED
    assert outcome_of(store.compensations.values(), store.calls.values()) is store.run.outcome


# What the checks of a plan foresee


def forecast(world: World, store: Store) -> dict[str, type]:
    effects = store.effects()
    seen = {key: world.read(key) for key in resources(store.plan, effects)}
    return {
        member.effect_id: type(
            foreseen(member.effect_id, store.plan, effects, seen, ledger=world.ledger)
        )
        for member in store.plan.members
    }


def test_what_later_members_wrote_over_is_expected_to_be_there(world: World, agent: Agent) -> None:
    first, second = agent.set(ANNA, "phone", "B"), agent.set(ANNA, "phone", "C")
    apart = agent.set(ANNA, "mail", "N")
    told = agent.tell("x")
    assert forecast(world, planned(agent)) == {
        first.id: Go,
        second.id: Go,
        apart.id: Go,
        told.id: type(None),
    }


def test_a_strangers_writing_is_foreseen_where_it_is_in_the_way(world: World, agent: Agent) -> None:
    first = agent.set(ANNA, "phone", "B")
    world.stranger(ANNA, {"phone": "theirs"}, late=False)
    second = agent.set(ANNA, "phone", "C")
    apart = agent.set(ANNA, "mail", "N")
    back = agent.set(BERT, "phone", "B")
    world.stranger(BERT, {"phone": "A"})
    store = planned(agent)
    assert forecast(world, store) == {
        first.id: Review,
        second.id: Go,
        apart.id: Go,
        back.id: Already,
    }
    done = Runner(world, store).carry_out()
    assert done.state(first) is CompensationState.NEEDS_REVIEW


def test_what_cannot_be_read_is_not_foreseen(world: World, agent: Agent) -> None:
    effect = agent.set(ANNA, "phone", "B")
    world.unreadable[ANNA] = "500"
    assert forecast(world, planned(agent)) == {effect.id: type(None)}


# The gate of an agentic compensation

BOUNDS = Agentic(tools=("desk.set",), prompt="Put it right.", calls=2, tokens=100, seconds=1)
GATE = Gate(
    bounds=BOUNDS,
    budget=Budget(calls=10, reads=0, tokens=1_000, run_ms=HOUR),
    spent=Spent(),
    began_at=0,
)


def test_an_agent_may_call_what_its_contract_lists_and_so_often() -> None:
    assert GATE.call("desk.delete", now=0) is Denied.TOOL
    once = GATE.call("desk.set", now=0)
    assert isinstance(once, Gate)
    twice = once.call("desk.set", now=0)
    assert isinstance(twice, Gate)
    assert twice.spent.calls == 2
    assert twice.call("desk.set", now=0) is Denied.CALLS


def test_an_agent_may_think_and_take_so_much_and_so_long() -> None:
    assert GATE.think(101, now=0) is Denied.TOKENS
    thought = GATE.think(60, now=999)
    assert isinstance(thought, Gate)
    assert thought.think(41, now=999) is Denied.TOKENS
    assert GATE.think(1, now=1_000) is Denied.SECONDS
    assert GATE.call("desk.set", now=1_000) is Denied.SECONDS


def test_an_agents_calls_are_paid_from_the_runs_own_budget() -> None:
    poor = replace(GATE, spent=Spent(calls=10, tokens=950))
    assert poor.call("desk.set", now=0) is Denied.BUDGET
    assert poor.think(60, now=0) is Denied.BUDGET
