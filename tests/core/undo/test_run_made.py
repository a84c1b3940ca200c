"""Inverses that bring a new thing into being: it is claimed, and "nothing changed" is not said."""

from __future__ import annotations

import pytest
from undo_ended import ANNA, sent
from undo_world import Agent, Fault, World, thing, undo

from turnback.core.effects import Call, Effect, EffectClass
from turnback.core.undo.rows import Claim, CompensationState, Outcome

S = CompensationState
NEW = thing("anna-2")


def removed(world: World, agent: Agent, class_: EffectClass) -> Effect:
    """Anna is deleted, and what would bring her back does so under a new id."""
    return agent.call(
        "delete",
        {"id": "anna"},
        touches=[ANNA],
        class_=class_,
        inverse=lambda _: [Call("create", {"id": "anna-2", "leaves": {"phone": "A", "mail": "M"}})],
        residue="left" if class_ is EffectClass.COMPENSABLE else None,
    )


@pytest.mark.parametrize(
    ("class_", "passes", "state"),
    [
        (EffectClass.COMPENSABLE, None, S.COMPENSATED),
        (EffectClass.COMPENSABLE, False, S.PARTLY),
        (EffectClass.REVERSIBLE, None, S.PARTLY),
    ],
)
def test_what_came_back_under_another_id_is_claimed_and_so_is_what_is_gone(
    world: World, agent: Agent, class_: EffectClass, passes: bool | None, state: S
) -> None:
    effect = removed(world, agent, class_)
    store = undo(world, agent, made=(NEW,), passes=passes)
    assert store.state(effect) is state
    assert store.run.outcome is Outcome.PARTIALLY_REVERTED
    claims = store.residues[effect.id].claims
    gone = {Claim(ANNA, ("phone",)), Claim(ANNA, ("mail",))}
    assert set(claims) == {Claim(NEW, (), made=True)} | gone


def test_it_is_not_made_once_more_by_a_later_undo(world: World, agent: Agent) -> None:
    effect = removed(world, agent, EffectClass.REVERSIBLE)
    first = undo(world, agent, made=(NEW,))
    again = undo(world, agent, made=(NEW,), earlier=first)
    assert sent(world) == ["create"]
    assert again.state(effect) is S.PARTLY
    assert Claim(NEW, (), made=True) in again.residues[effect.id].claims


def test_what_is_back_as_it_was_and_something_new_beside_it_is_not_reverted(
    world: World, agent: Agent
) -> None:
    effect = agent.set(ANNA, "phone", "B")
    store = undo(world, agent, made=(NEW,))
    assert store.state(effect) is S.PARTLY
    assert store.residues[effect.id].claims == (Claim(NEW, (), made=True),)


def test_what_is_back_under_its_own_id_is_nothing_new(world: World, agent: Agent) -> None:
    effect = agent.delete(ANNA)
    store = undo(world, agent, made=(ANNA,))
    assert store.state(effect) is S.REVERTED


@pytest.mark.parametrize(("doubt", "state"), [(True, S.IN_DOUBT), (False, S.FAILED)])
def test_a_refusal_that_may_have_made_something_is_in_doubt(
    world: World, agent: Agent, doubt: bool, state: S
) -> None:
    effect = removed(world, agent, EffectClass.COMPENSABLE)
    faults = {(effect.id, 1): Fault.REFUSED}
    store = undo(world, agent, may_have_made=doubt, faults=faults)
    assert store.state(effect) is state
    assert len(world.calls) == 1
