"""Telling a session's subscribers, each through a bounded queue of its own.

A slow subscriber is marked and dropped; the others never wait for it (protocol.md 4, limits).
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from turnback.core.errors import TurnbackError
from turnback.core.tree import State
from turnback.core.workflow import Workflow
from turnback.store.outbox import Notice
from turnback.store.rows import Record


@dataclass(slots=True)
class Told:
    """A durable notice with what its frame is made of. `texts` caches one encoding per audience."""

    event_seq: int
    notice: Notice
    record: Record | None = None
    before: Workflow | None = None
    after: Workflow | None = None
    texts: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Delta:
    """A piece of the step now streaming, provisional until the step itself is told.

    `offset` counts the characters of this text, or of this call's arguments, before it.
    """

    turn_id: str
    step_id: str
    after: int
    offset: int
    text: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    arguments: str | None = None
    texts: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Availability:
    """The state as it is right now, told without being stored: the database is lost or back."""

    state: State
    texts: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Failure:
    """A run itself has failed in a way that no step could say."""

    error: TurnbackError
    texts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """A frame for one subscriber alone, in its order among the others."""

    text: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The end: the subscriber's socket is to be closed with this code."""

    code: int
    reason: str


Message = Told | Delta | Availability | Failure | Reply | Closed

SLOW_READER = Closed(1013, "slow reader")
DRAINING = Closed(1012, "the server is restarting")
BEHIND = Closed(1013, "more was missed than is kept; connect again")
DELETED = Closed(4410, "the session was deleted")


class Subscriber:
    """One reader's queue. `limit` counts messages."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._messages: deque[Message] = deque()
        self._arrived = asyncio.Event()
        self.closed = False
        self.overflowed = asyncio.Event()

    def put(self, message: Message) -> None:
        """Queue a message; past the limit the reader is closed as slow instead."""
        if self.closed:
            return
        if isinstance(message, Closed):
            self.closed = True
        elif len(self._messages) >= self._limit:
            self._messages.clear()
            message = SLOW_READER
            self.closed = True
            self.overflowed.set()
        self._messages.append(message)
        self._arrived.set()

    async def get(self) -> Message:
        """The next message, waiting for it."""
        while not self._messages:
            self._arrived.clear()
            await self._arrived.wait()
        return self._messages.popleft()


class Hub:
    """A session's subscribers."""

    def __init__(self) -> None:
        self._subscribers: set[Subscriber] = set()

    def __len__(self) -> int:
        return len(self._subscribers)

    def join(self, limit: int) -> Subscriber:
        """A new subscriber, told everything from now on."""
        subscriber = Subscriber(limit)
        self._subscribers.add(subscriber)
        return subscriber

    def leave(self, subscriber: Subscriber) -> None:
        """Tell it nothing more."""
        self._subscribers.discard(subscriber)

    def tell(self, message: Message) -> None:
        """Queue a message for everyone."""
        for subscriber in tuple(self._subscribers):
            subscriber.put(message)
            if subscriber.closed:
                self._subscribers.discard(subscriber)
