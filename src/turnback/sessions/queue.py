"""What waits for one session: one act at a time, in the order they were asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from turnback.core.errors import DatabaseUnavailable, QueueFull
from turnback.sessions.tasks import Tasks
from turnback.telemetry import context


@dataclass(slots=True, eq=False)
class Queued:
    """Something that waits for its turn, and who asked for it."""

    act: Callable[[], Awaitable[Any]]
    answer: asyncio.Future[Any]
    asker: context.Ids
    is_command: bool


class Queue:
    """The acts that wait for one session, and the one under way.

    `failed` turns what an act has raised into what its asker is told.
    """

    def __init__(
        self,
        session_id: str,
        tasks: Tasks,
        *,
        failed: Callable[[Exception], Exception],
    ) -> None:
        self.commands = 0
        """How many commands wait."""
        self.touched = asyncio.get_running_loop().time()
        """When it was last used, by the loop's clock."""
        self._session_id = session_id
        self._failed = failed
        self._queue: asyncio.Queue[Queued] = asyncio.Queue()
        self._newest: Queued | None = None  # in the queue
        self._acting = False
        self._closed = False
        tasks.spawn(self._serve(), f"session {session_id}")

    def touch(self) -> None:
        """Somebody is about to use it: the session stays in memory for a while."""
        self.touched = asyncio.get_running_loop().time()

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is under way."""
        return not (self._acting or self._queue.qsize())

    async def do(self, act: Callable[[], Awaitable[Any]], *, is_command: bool = False) -> Any:
        """Do `act` in its turn; what it returns. Cancelling the caller does not cancel it.

        Raises `QueueFull` once the queue is closed, and what `failed` makes of what `act` raises.
        """
        return await self._put(act, is_command=is_command).answer

    async def together(self, read: Callable[[], Awaitable[None]]) -> None:
        """Do `read` in its turn, once for all who ask for it with nothing asked in between.

        However many read at once, a command waits for one of them.
        """
        newest = self._newest
        if newest is None or newest.act != read or self._closed:
            newest = self._put(read)
        await asyncio.shield(newest.answer)

    def close(self) -> None:
        """Take nothing more in. What is under way ends with the session's tasks."""
        self._closed = True

    def drop(self) -> None:
        """Tell who still waits to try again."""
        while not self._queue.empty():
            answer = self._queue.get_nowait().answer
            if not answer.done():
                answer.set_exception(_left())

    def _put(self, act: Callable[[], Awaitable[Any]], *, is_command: bool = False) -> Queued:
        if self._closed:
            raise _left()
        self.touch()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda f: f.cancelled() or f.exception())  # its asker may be gone
        self._newest = Queued(act, answer, context.ids(), is_command)
        self.commands += is_command
        self._queue.put_nowait(self._newest)
        return self._newest

    async def _serve(self) -> None:
        while True:
            queued = await self._queue.get()
            if queued is self._newest:
                self._newest = None
            self.commands -= queued.is_command
            answer = queued.answer
            context.enter({**queued.asker, "session": self._session_id})
            self._acting = True
            try:
                result = await queued.act()
            except asyncio.CancelledError:
                if not answer.done():
                    answer.set_exception(_cut_off())
                raise
            except Exception as error:
                told = self._failed(error)
                if not answer.done():
                    answer.set_exception(told)
            else:
                if not answer.done():
                    answer.set_result(result)
            finally:
                self._acting = False
                self.touch()  # it may have taken long, and who waited for it is still to come


def _cut_off() -> DatabaseUnavailable:
    return DatabaseUnavailable(
        "The session left memory while this was being done, and whether it was saved is not known; "
        "look at the session before you try again",
        reached=True,
        in_doubt=True,
    )


def _left() -> QueueFull:
    return QueueFull("The session has just left memory; try again")
