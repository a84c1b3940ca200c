"""Calls that are held back, once their time has come: one process sends each (undo.md 1).

Every process looks, and whoever gets a call's row out of `held` sends it. Before that, whether it
may still be made is asked anew: who began its turn has to have the right to run the session, and
its tool has to be there, on, and what it was. A call whose sender died is settled like any other
doubt. Of one session they are sent one after the other, in the order of the turn.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import time

import structlog

from turnback.core.contracts.secrets import are_left_out
from turnback.core.effects import CallState
from turnback.core.errors import (
    DatabaseUnavailable,
    FencedOff,
    InvalidArguments,
    ResourceBusy,
    SessionNotFound,
    TurnbackError,
)
from turnback.sessions.outside import OutsideTools
from turnback.settings import Settings
from turnback.store.dao import Dao
from turnback.store.effect_reader import Logged
from turnback.store.rows import SessionKey
from turnback.tools import held
from turnback.tools.making import Stopped
from turnback.tools.settle import Place

log = structlog.get_logger()

AT_ONCE = 100
"""Calls looked at in one round, and sessions of which calls are being sent by one process."""


class HeldCalls:
    """This process's part in sending what was held back. `run` until cancelled; `drain` before."""

    def __init__(self, dao: Dao, outside: OutsideTools, settings: Settings) -> None:
        self._dao = dao
        self._outside = outside
        self._settings = settings
        self._sending: dict[SessionKey, asyncio.Task[None]] = {}
        self._stop = asyncio.Event()

    async def look(self) -> float:
        """Begin to send what is due, and to settle what others have left; seconds until the next.

        Raises `DatabaseUnavailable`.
        """
        rows, settings = self._dao.held_back, self._settings
        left = await rows.abandoned(limit=AT_ONCE, grace=settings.lease_grace)
        found: dict[SessionKey, list[str]] = {}
        for key, effect_id in (*left, *await rows.due(limit=AT_ONCE)):
            found.setdefault(key, []).append(effect_id)
        for key, ids in found.items():
            if key not in self._sending and len(self._sending) < AT_ONCE:
                self._sending[key] = task = asyncio.create_task(self._of_session(key, ids))
                task.add_done_callback(lambda _, key=key: self._sending.pop(key))  # type: ignore[misc]
        following = await rows.next_due()
        if following is None or found:
            return settings.poll_interval
        return min(settings.poll_interval, max(0.0, following))

    async def run(self) -> None:
        """Look, for ever."""
        while True:
            pause = self._settings.poll_interval
            try:
                pause = await self.look()
            except DatabaseUnavailable:
                log.warning("database away", during="sending what was held back")
            await asyncio.sleep(pause)

    async def drain(self, seconds: float) -> None:
        """Wait for the calls that are being sent, but not for longer than this."""
        tasks = list(self._sending.values())
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
            self._stop.set()
            await asyncio.wait(tasks, timeout=2 * self._settings.tool_stop_grace)

    async def close(self) -> None:
        """End what is still being sent; another process finds out what became of it."""
        tasks = list(self._sending.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _of_session(self, key: SessionKey, ids: list[str]) -> None:
        try:
            await self._outside.refresh()
            project_id = await self._dao.project(key.id)
            for logged in await self._dao.effects.by_id(key, ids):
                await self._one(key, project_id, logged)
        except (ResourceBusy, Stopped):
            pass  # the next round tries again
        except (FencedOff, SessionNotFound):
            pass  # it was deleted meanwhile
        except TurnbackError as error:
            log.warning("held call not sent yet", session=key.id, code=error.code)
        except Exception:
            log.exception("held call failed", session=key.id)

    async def _one(self, key: SessionKey, project_id: str, logged: Logged) -> None:
        effect = logged.effect
        place = Place(
            key=key,
            project_id=project_id,
            turn_id=effect.turn_id,
            step_id=effect.step_id,
            fence=None,
        )
        if effect.state is not CallState.HELD:
            await self._outside.found_out(key, project_id, logged, abandoned=True)
            return
        because = await self._refusal(key, logged)
        found = self._outside.tool(effect.connection, effect.tool)
        if because is None and found is not None:
            with suppress(InvalidArguments):
                connection, tool = found
                calls, stop = self._outside.calls, self._stop
                await held.send(
                    calls, self._dao.held_back, connection, tool, logged, place, stop=stop
                )
                return
            because = "its tool takes other arguments by now"
        if because is not None:
            await held.take_back(self._dao.effects, key, logged, because=because)

    async def _refusal(self, key: SessionKey, logged: Logged) -> str | None:
        """Why a call is not to be sent after all; None: it may be."""
        effect, settings = logged.effect, self._settings
        if time() > (effect.hold_until or 0) / 1000 + settings.hold_patience:
            return "it could not be sent for longer than `hold_patience` after its hold"
        if not await self._dao.access.still_runs(key, effect.turn_id):
            return "who began its turn may not run the session any more"
        connection, _ = await self._outside.of(effect)
        if connection is None:
            return "its connection is not configured any more"
        found = self._outside.tool(effect.connection, effect.tool)
        if found is None:
            return None  # its server is away; it is tried again
        _, tool = found
        if tool.disabled:
            return "its tool is switched off"
        if tool.version != effect.contract:
            return "its tool, or its contract, is not what it was"
        if are_left_out(tool.contract, effect.args):
            return "its secrets were sealed under another `TURNBACK_SECRET_KEY`"
        return None
