"""Telling a session's subscribers, each through a bounded queue of its own.

What waits in a queue is the frame as it will be sent, written once for all who get the same, so
that its bytes can be counted. A slow subscriber is marked and dropped; the others never wait for it
(protocol.md 4, limits).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from turnback.core.principal import Principal
from turnback.core.tree import State
from turnback.core.workflow import Workflow
from turnback.store.outbox import HeadChanged, Notice
from turnback.store.rows import Record
from turnback.telemetry import metrics


@dataclass(slots=True)
class Told:
    """A durable notice with what its frame is made of. `texts` caches one encoding per audience."""

    event_seq: int
    notice: Notice
    record: Record | None = None
    before: Workflow | None = None
    after: Workflow | None = None
    texts: dict[str, bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """About how many bytes its v1 frame has."""
        size = 0 if self.record is None else len(self.record.payload)
        if isinstance(self.notice, HeadChanged) and self.after is not None:
            size += self.after.size
        return size


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
    texts: dict[str, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Availability:
    """The state as it is right now, told without being stored: the database is lost or back."""

    state: State
    texts: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """A frame for one subscriber alone, in its order among the others."""

    text: bytes


@dataclass(frozen=True, slots=True)
class Closed:
    """The end: the subscriber's socket is to be closed with this code."""

    code: int
    reason: str


Message = Told | Delta | Availability | Reply | Closed
Write = Callable[[Message], bytes | None]
"""How a subscriber's frames are written; None: it is not told of this."""

SLOW_READER = Closed(1013, "slow reader")
DRAINING = Closed(1012, "the server is restarting")
RESTORED = Closed(1012, "the database was restored; connect again")
BEHIND = Closed(1013, "more was missed than is kept; connect again")
DELETED = Closed(4410, "the session was deleted")
SIGNED_OUT = Closed(4401, "the API key, sign-in or ticket is no good, or no longer")
NOT_ALLOWED = Closed(4403, "you may no longer read this session")
EVICTED = Closed(1013, "the session has just left memory; connect again")


class Subscriber:
    """One reader's queue: `frames` at most, and `size` bytes, though always one frame.

    While nothing waits, a frame goes to `direct`, where one is set: it sends the frame at once, or
    says that it cannot, and then the frame waits. `on_overflow` is called when the reader is found
    to be slow. `whole`: it is told every kind of frame.
    """

    def __init__(
        self, write: Write, principal: Principal, *, frames: int, size: int, whole: bool = False
    ) -> None:
        self.principal = principal
        self.whole = whole
        self._write = write
        self._max_frames = frames
        self._max_size = size
        self._size = 0
        self._queue: deque[bytes | Closed] = deque()
        self._arrived = asyncio.Event()
        self.closed = False
        self.overflowed = False
        self.direct: Callable[[bytes], bool] | None = None
        self.on_overflow: Callable[[], object] | None = None

    def put(self, message: Message) -> None:
        """Send or queue a message; past a limit the reader is closed as slow instead."""
        if self.closed:
            return
        frame = message if isinstance(message, Closed) else self._write(message)
        if frame is None:
            return
        if isinstance(frame, bytes):
            if not self._queue and self.direct is not None and self.direct(frame):
                return
            self._size += len(frame)
            if self._queue and (
                len(self._queue) >= self._max_frames or self._size > self._max_size
            ):
                self._queue.clear()
                self.overflowed = True
                metrics.SLOW_READERS.inc()
                frame = SLOW_READER
        self.closed = isinstance(frame, Closed)
        self._queue.append(frame)
        self._arrived.set()
        if self.overflowed and self.on_overflow is not None:
            self.on_overflow()

    def __len__(self) -> int:
        return len(self._queue)

    async def get(self) -> bytes | Closed:
        """The next frame, or the end, waiting for it."""
        while not self._queue:
            self._arrived.clear()
            await self._arrived.wait()
        frame = self._queue.popleft()
        if isinstance(frame, bytes):
            self._size -= len(frame)
        return frame


class Hub:
    """A session's subscribers."""

    def __init__(self) -> None:
        self._subscribers: set[Subscriber] = set()
        self._end: Closed | None = None

    def __len__(self) -> int:
        return len(self._subscribers)

    def waiting(self) -> list[int]:
        """How many frames wait for each subscriber."""
        return [len(subscriber) for subscriber in self._subscribers]

    def principals(self) -> set[Principal]:
        """As whom they read."""
        return {subscriber.principal for subscriber in self._subscribers}

    def dismiss(self, principal: Principal, closed: Closed) -> None:
        """Close those who read as this principal."""
        for subscriber in tuple(self._subscribers):
            if subscriber.principal == principal:
                subscriber.put(closed)
                self._subscribers.discard(subscriber)

    def join(self, subscriber: Subscriber) -> None:
        """Tell it everything from now on; after the end, that alone."""
        if self._end is not None:
            subscriber.put(self._end)
        else:
            self._subscribers.add(subscriber)

    def leave(self, subscriber: Subscriber) -> None:
        """Tell it nothing more."""
        self._subscribers.discard(subscriber)

    def tell(self, message: Message) -> None:
        """Queue a message for everyone."""
        for subscriber in tuple(self._subscribers):
            subscriber.put(message)
            if subscriber.closed:
                self._subscribers.discard(subscriber)

    def tell_one(self, principal: Principal, reply: Reply) -> None:
        """Queue a frame for those who read as this principal and speak our protocol in full."""
        for subscriber in tuple(self._subscribers):
            if subscriber.principal == principal and subscriber.whole:
                subscriber.put(reply)
                if subscriber.closed:
                    self._subscribers.discard(subscriber)

    def end(self, closed: Closed) -> None:
        """Tell everyone, and whoever joins later, that this is the end. The first one stands."""
        self._end = self._end or closed
        self.tell(closed)
