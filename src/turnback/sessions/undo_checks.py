"""What a look at the world finds of a plan that is shown, before anybody has it run (undo.md 5).

By declared reads alone, one thing after the other, each told as soon as it is known. A forecast:
the run looks again right before each call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import assert_never

from turnback.core import drift
from turnback.core.contracts.states import Observation, Unreadable
from turnback.core.effects import CallState, ResourceKey
from turnback.core.undo.foresight import foreseen as verdict_of
from turnback.core.undo.progress import Check, ItemTold, Phase, Progress
from turnback.core.undo.rows import CompensationState
from turnback.sessions.actor import Actor
from turnback.sessions.outside import OutsideTools
from turnback.sessions.undoing import ShownPlan
from turnback.settings import Settings
from turnback.tools import observing

NOT_CONNECTED = Unreadable("its connection is not configured any more")


async def look(
    actor: Actor, outside: OutsideTools | None, settings: Settings, shown: ShownPlan, *, by: str
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
        connection, contract = await outside.of(effect)
        wanted = [t.resource for t in effect.touches if t.before is not None]
        wanted = [resource for resource in wanted if resource not in seen]
        if connection is None:
            seen.update(dict.fromkeys(wanted, NOT_CONNECTED))
        elif wanted:
            before = await observing.observe(
                connection,
                contract,
                wanted,
                seconds=settings.tool_timeout,
                max_bytes=settings.max_before,
            )
            seen.update(before.observed)
        if effect.state is CallState.HELD:
            check = Check.GO  # nothing of it is out there
        else:
            check = _check(verdict_of(effect.id, plan, effects, seen, ledger=ledger))
        item = replace(told.items[at], check=check)
        items = (*told.items[:at], item, *told.items[at + 1 :])
        told = replace(told, items=items, revision=told.revision + 1)
        yield told


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
