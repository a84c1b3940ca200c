"""Calls that are held back: sent once their time has come, or taken back before it (undo.md 1).

The intent is committed and the turn has gone on. What becomes of the call is decided by one
compare-and-set on its row: whoever gets it out of `held` has it, and that is either the one process
that sends it or who takes it back. What is sent is looked at again first, as if it were new: the
world may have moved on while it was held.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

from turnback.core.approvals import needs_approval
from turnback.core.contracts.choose import Before
from turnback.core.effects import CallState, Effect, ResourceKey, Standing, worst
from turnback.failpoints import hit
from turnback.store.effect_reader import Logged
from turnback.store.effects import CallOutcome, Effects
from turnback.store.held_back import HeldBack
from turnback.store.locks import Held
from turnback.store.rows import SessionKey
from turnback.tools.arguments import check_arguments
from turnback.tools.calls import Calls
from turnback.tools.connection import Connection
from turnback.tools.making import MAY_HAVE_LOST_ITS_RUN, Making, key_of
from turnback.tools.registry import Tool
from turnback.tools.settle import PATIENCE, REMEMBERED, Place, now_ms

TAKEN_BACK = "taken back by a person before it was sent"


async def take_back(
    effects: Effects, key: SessionKey, logged: Logged, *, because: str = TAKEN_BACK
) -> Effect | None:
    """The effect, cancelled: it was not sent, and never will be. None: it is held back no more.

    Raises `DatabaseUnavailable`.
    """
    hit("held.cancel")
    never = replace(
        logged.effect,
        state=CallState.FAILED_CLEAN,
        standing=Standing.CANCELLED,
        result={"text": f"Not sent: {because}"},
    )
    done = await effects.end(
        key,
        never,
        fence=None,
        outcome=CallOutcome.NOT_SENT,
        before=logged.before,
        at=datetime.now(UTC),
        was=(CallState.HELD,),
        secret=logged.is_secret and effects.can_seal,
        tells=True,
    )
    hit("held.cancelled")
    return never if done else None


async def send(
    calls: Calls,
    rows: HeldBack,
    connection: Connection,
    tool: Tool,
    logged: Logged,
    place: Place,
    *,
    stop: asyncio.Event,
) -> Effect | None:
    """The effect as its call has left it. None: not now, or it is another's to send.

    One that would by now need a person who was not asked is not sent, and is taken back. Raises
    `InvalidArguments`, `ResourceBusy`, `Stopped`, `FencedOff`, `DatabaseUnavailable`.
    """
    effect = logged.effect
    check_arguments(tool, effect.args)
    making = Making(calls, connection, tool, effect.args, place, effect.tool_call_id, None, stop)

    async def act(before: Before, held: Held, things: tuple[ResourceKey, ...]) -> Effect | None:
        decision = making.decide(before)
        asks = needs_approval(calls.limits.approval, decision.class_)
        if asks and worst((effect.class_, decision.class_)) is not effect.class_:
            because = f"it would be {decision.class_} by now, and nobody has agreed to that"
            return await take_back(calls.effects, place.key, logged, because=because)
        intent = replace(effect, state=CallState.INTENT, standing=Standing.IN_DOUBT, at=now_ms())
        intent, kept = making.intended(intent, before, decision)
        hit("held.claim")
        began = asyncio.get_running_loop().time()
        known = await calls.ledger.entries(place.project_id, things, newest=REMEMBERED)
        number = await rows.claim(
            place.key,
            intent,
            held=held,
            lock_expiry=calls.limits.lock_expiry,
            key_until=making.key_until(intent),
            before=kept,
            secret=making.seals,
            expiry=calls.limits.tool_timeout + calls.limits.lease_expiry,
        )
        if number is None:
            return None
        intent = replace(intent, number=number)
        hit("held.claimed")
        late = asyncio.get_running_loop().time() - began > MAY_HAVE_LOST_ITS_RUN
        if late and not await rows.is_claimed(place.key, effect.id):
            return None
        outcome, reply, reason = await making.send(key_of(effect))
        hit("held.replied")
        ended = await making.end(intent, before, kept, outcome, reply, reason, known, held)
        hit("held.done")
        return ended

    return await making.holding(effect.id, act, patience=PATIENCE)
