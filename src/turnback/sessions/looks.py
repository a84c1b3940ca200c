"""What looks at the world find of plans, told to who asked for each and to nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import structlog

from turnback.core.errors import TurnbackError
from turnback.core.principal import Principal
from turnback.sessions.broadcast import Hub, Reply
from turnback.sessions.tasks import Tasks

log = structlog.get_logger()


class Looks:
    """The looks that are under way for one session's subscribers, one each."""

    def __init__(self, hub: Hub, tasks: Tasks) -> None:
        self._hub = hub
        self._tasks = tasks
        self._looking: dict[Principal, asyncio.Task[None]] = {}

    def begin(self, principal: Principal, frames: AsyncIterator[bytes]) -> None:
        """Tell `principal` these frames as they come.

        Whoever asks for another plan looks at that one.
        """

        async def tell() -> None:
            try:
                async for frame in frames:
                    self._hub.tell_one(principal, Reply(frame))
            except TurnbackError as error:
                log.warning("plan not looked at to the end", code=error.code)

        looking = self._looking
        if (before := looking.get(principal)) is not None:
            before.cancel()
        looking[principal] = task = self._tasks.spawn(tell(), "look at a plan")
        task.add_done_callback(
            lambda done: looking.pop(principal) if looking.get(principal) is done else None
        )
