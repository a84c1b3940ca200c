"""Waiting for a turn's end, whichever process runs it."""

from __future__ import annotations

import asyncio

from turnback.core.errors import Draining, SessionNotFound
from turnback.core.principal import Principal
from turnback.core.tree import TurnStatus
from turnback.sessions.broadcast import DELETED, DRAINING, Closed, Message, Told
from turnback.sessions.registry import Sessions

PAUSE = 0.05
"""Seconds before a session that has just left memory is looked for again."""


async def until_ended(
    sessions: Sessions, principal: Principal, session_id: str, turn_id: str
) -> None:
    """Return when the turn has ended and is durable.

    Raises `SessionNotFound` when the session is deleted, `Draining` when this server goes down
    while another process runs the turn, `UnknownTurn`.
    """
    while True:
        actor = await sessions.get(principal, session_id)
        subscriber, _ = actor.join(_durable, principal=principal)
        ending: Closed | None = None
        try:
            await actor.catch_up()
            while actor.memory.tree.turn(turn_id).status is TurnStatus.RUNNING:
                told = await subscriber.get()
                if isinstance(told, Closed):
                    ending = told
                    break
            else:
                return
        finally:
            actor.leave(subscriber)
        if ending is DELETED:
            raise SessionNotFound("Agent not found")
        if ending is DRAINING:
            raise Draining("The server is going down; the turn goes on elsewhere")
        await asyncio.sleep(PAUSE)


def _durable(message: Message) -> bytes | None:
    """Something durable was told, whatever it says; deltas do not end a turn."""
    return b"" if isinstance(message, Told) else None
