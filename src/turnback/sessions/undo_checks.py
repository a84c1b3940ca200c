"""What a look at the world finds of a plan that is shown, before anybody has it run (undo.md 5).

By declared reads alone, one thing after the other, each told as soon as it is known. A forecast:
the run looks again right before each call. A doubt is settled where such a read can (undo.md 2):
that is told to the whole session, and the plan is another then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import assert_never

from turnback.core import drift
from turnback.core.contracts.states import Observation, Unreadable
from turnback.core.effects import CallState, Effect, ResourceKey
from turnback.core.undo.foresight import foreseen as verdict_of
from turnback.core.undo.progress import Check, ItemTold, Phase, Progress
from turnback.core.undo.rows import CompensationState
from turnback.sessions.actor import Actor
from turnback.sessions.outside import OutsideTools
from turnback.sessions.undoing import ShownPlan


async def look(
    actor: Actor, outside: OutsideTools | None, shown: ShownPlan, *, by: str
) -> AsyncIterator[Progress]:
    """The plan again and again, as more of it has been looked at; the last time, all of it.

    Raises `DatabaseUnavailable`.
    """
    plan, effects = shown.foreseen.plan, shown.foreseen.effects
    told = Progress(
        plan_id=shown.stored.id,
        undo_id=None,
        revision=1,
        phase=Phase.PLAN,
        by=by,
        items=tuple(
            ItemTold(
                effect_id=member.effect_id,
                turn_id=member.turn_id,
                verb=member.verb,
                state=CompensationState.PENDING,
                standing=member.standing,
            )
            for member in plan.members
        ),
    )
    yield told
    if outside is None:
        return
    seen: dict[ResourceKey, Observation | Unreadable] = {}
    resources = [t.resource for m in plan.members for t in effects[m.effect_id].touches]
    ledger = await actor.memory.dao.ledger.entries(actor.project_id, resources)
    for at, member in enumerate(plan.members):
        effect = effects[member.effect_id]
        if effect.state is CallState.IN_DOUBT:
            effect = await _settled(actor, outside, effect)
            effects = {**effects, effect.id: effect}
        wanted = [t.resource for t in effect.touches if t.before is not None]
        wanted = [resource for resource in wanted if resource not in seen]
        seen.update((await outside.observe(effect, wanted)).observed)
        if effect.state is CallState.HELD:
            check = Check.GO  # nothing of it is out there
        elif effect.standing is None:
            check = Check.ALREADY  # it never happened
        else:
            check = _check(verdict_of(effect.id, plan, effects, seen, ledger=ledger))
        item = replace(told.items[at], check=check, standing=effect.standing)
        items = (*told.items[:at], item, *told.items[at + 1 :])
        told = replace(told, items=items, revision=told.revision + 1)
        yield told


async def _settled(actor: Actor, outside: OutsideTools, effect: Effect) -> Effect:
    """An effect in doubt, as it is known by now; a run that is under way sees to it itself.

    Nothing is sent again for it, since nobody has agreed to a call yet.
    """
    if actor.runs.busy or actor.memory.undo is not None:
        return effect
    key = actor.key
    for logged in await actor.memory.dao.effects.by_id(key, [effect.id]):
        if logged.effect.session_id == key.id and logged.effect.state is CallState.IN_DOUBT:
            return await outside.found_out(key, actor.project_id, logged, replays=False)
        return logged.effect
    return effect


def _check(verdict: drift.Verdict | None) -> Check:
    match verdict:
        case None:
            return Check.UNREADABLE
        case drift.Already():
            return Check.ALREADY
        case drift.Go():
            return Check.GO
        case drift.Review():
            return Check.REVIEW
        case _:
            assert_never(verdict)
