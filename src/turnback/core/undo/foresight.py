"""What the checks of a plan say before it is run: each member against the world as it is now.

A forecast, shown while the sheet is open. The run looks again, right before each call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from turnback.core import drift
from turnback.core.contracts.states import Observation
from turnback.core.effects import Effect, ResourceKey, Verb
from turnback.core.undo.plan import Plan
from turnback.core.undo.rows import Because


def resources(plan: Plan, effects: Mapping[str, Effect]) -> tuple[ResourceKey, ...]:
    """What is to be read for the checks of a plan, each resource once."""
    return tuple(
        dict.fromkeys(
            touch.resource
            for member in plan.members
            for touch in effects[member.effect_id].touches
            if touch.before is not None
        )
    )


def foreseen(
    effect_id: str,
    plan: Plan,
    effects: Mapping[str, Effect],
    seen: drift.Seen,
    *,
    ledger: Mapping[ResourceKey, Sequence[drift.LedgerEntry]],
) -> drift.Verdict | None:
    """The verdict that a member will come to if nothing else happens; None: nothing can be read.

    What later members wrote over the same leaves will have been taken back by then, or covered,
    so it is expected to be there now; and what they made in the thing will be out of it.
    """
    effect = effects[effect_id]
    over = [
        effects[edge.first]
        for edge in plan.edges
        if edge.then == effect_id and edge.why is Because.SAME_RESOURCE
    ]
    covered = [
        effects[member.effect_id] for member in plan.members if member.covered_by == effect_id
    ]
    basis = drift.basis(effect, with_=[*over, *covered], ledger=ledger)
    if not basis.resources or any(
        not isinstance(seen.get(resource), Observation) for resource in basis.resources
    ):
        return None
    basis = replace(basis, ours=basis.ours | _taken_out(effect_id, plan, effects))
    here = {resource: seen[resource] for resource in basis.resources}
    return drift.judge(basis, here, narrow=effect.narrow and not effect.restored)


def _taken_out(effect_id: str, plan: Plan, effects: Mapping[str, Effect]) -> frozenset[ResourceKey]:
    """What the members before this one have made, and take away again."""
    acting = {member.effect_id for member in plan.members if member.verb is not Verb.ACKNOWLEDGE}
    return frozenset(
        touch.resource
        for edge in plan.edges
        if edge.then == effect_id and edge.first in acting
        for touch in effects[edge.first].touches
        if touch.before == {}
    )
