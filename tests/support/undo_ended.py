"""What a run of an undo in memory is about, and what it has come to."""

from __future__ import annotations

from undo_world import Store, World, thing

from turnback.core.effects import Effect, Json, ResourceKey
from turnback.core.undo.rows import CompensationState, Outcome

ANNA, BERT, CARL = thing("anna"), thing("bert"), thing("carl")
FOLDER, FILE = thing("f", "folder"), thing("f/a", "file")

S = CompensationState


def value(world: World, key: ResourceKey, leaf: str) -> Json:
    """What this leaf is now."""
    return world.things[key][leaf,]


def sent(world: World) -> list[str]:
    """The tools that were called, in their order."""
    return [tool for tool, _ in world.calls]


def ended(store: Store, *effects: Effect) -> list[CompensationState]:
    """How the compensations of these effects ended."""
    return [store.state(effect) for effect in effects]


def assert_clean(store: Store, world: World) -> None:
    """All is as before, and nothing is left."""
    assert store.run.outcome is Outcome.FULLY_REVERTED
    assert world.differing(set(store.effects())) == set()
    assert not store.residues
