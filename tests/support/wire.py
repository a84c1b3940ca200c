"""A client of the socket for tests: it keeps what it saw, and waits for what it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Self

import orjson
from frame_schema import check
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

Frame = dict[str, Any]

WAIT = 15.0


class Gone(AssertionError):
    """The socket is closed, and what was waited for has not come."""


class Client:
    """One socket. `frames` are all frames seen, in order, `texts` the same as they came.

    A frame that is not as the published schema has it fails the test that goes on with the client.
    """

    def __init__(
        self, url: str, *, v1: bool = True, offers: Sequence[str] | None = None, **options: Any
    ) -> None:
        self.url = url
        self.v1 = v1
        self.offers = (["turnback.v1"] if v1 else []) if offers is None else offers
        self.frames: list[Frame] = []
        self.texts: list[str] = []
        self.closed: int | None = None
        self._options = options
        self._taken = 0
        self._ids = count(1)
        self._socket: ClientConnection
        self._reader: asyncio.Task[None]
        self._arrived = asyncio.Event()

    async def __aenter__(self) -> Self:
        protocols = [Subprotocol(name) for name in self.offers] or None
        self._socket = await connect(
            self.url, subprotocols=protocols, max_size=2**27, compression=None, **self._options
        )
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._socket.close()
        await self._reader

    async def _read(self) -> None:
        try:
            async for text in self._socket:
                self.texts.append(str(text))
                self.frames.append(orjson.loads(text))
                check(self.frames[-1], v1=self.took == "turnback.v1")
                self._arrived.set()
        except ConnectionClosed:
            pass
        finally:
            self.closed = self._socket.close_code
            self._arrived.set()

    @property
    def took(self) -> str | None:
        """The subprotocol that the server took."""
        return self._socket.subprotocol

    # -- sending

    async def send(self, type_: str, **fields: Any) -> None:
        """Send a frame `WsClient…Command`, named without its affixes."""
        await self.send_raw(orjson.dumps({"type": f"WsClient{type_}Command", **fields}).decode())

    async def send_raw(self, text: str | bytes) -> None:
        """Send text as a text frame, bytes as a binary one."""
        await self._socket.send(text)

    async def send_text(self, data: bytes) -> None:
        """Send bytes as a text frame, whether they are text or not."""
        await self._socket.send(data, text=True)

    async def ask(self, type_: str, **fields: Any) -> Frame:
        """Send a command with a `requestId` and wait for its ack or error."""
        request_id = fields.setdefault("requestId", f"{id(self)}-{next(self._ids)}")
        seen = len(self.frames)
        await self.send(type_, **fields)
        return await self.wait(lambda f: f.get("requestId") == request_id, since=seen)

    async def prompt(self, content: str, **fields: Any) -> list[Frame]:
        """Prompt, and wait for the run's end; the frames it led to."""
        seen = len(self.frames)
        await self.send("Prompt", content=content, **fields)
        await self.wait(is_status("GENERATING"), since=seen)
        await self.wait(is_status("AVAILABLE"), since=seen)
        return self.frames[seen:]

    # -- waiting

    async def wait(self, which: Callable[[Frame], bool], *, since: int = 0) -> Frame:
        """The first frame at or after index `since` that `which` holds for."""
        at = since
        async with asyncio.timeout(WAIT):
            while True:
                while at < len(self.frames):
                    if which(self.frames[at]):
                        return self.frames[at]
                    at += 1
                if self._reader.done():
                    await self._reader  # it may have failed
                if self.closed is not None:
                    raise Gone(f"closed with {self.closed}; saw {self.frames[since:]}")
                self._arrived.clear()
                await self._arrived.wait()

    async def next(self) -> Frame:
        """The next frame that has not been taken by `next`."""
        frame = await self.wait(lambda _: True, since=self._taken)
        self._taken += 1
        return frame

    async def snapshot(self) -> Frame:
        """The first frame, which must be a snapshot."""
        frame = await self.wait(lambda _: True)
        assert frame["type"] == "WsServerSnapshotEvent", frame
        return frame

    async def until_closed(self) -> int:
        """The close code, when the server has closed."""
        async with asyncio.timeout(WAIT):
            await self._reader
        assert self.closed is not None
        return self.closed

    # -- what a client makes of it

    @property
    def head(self) -> str:
        """HEAD, as the frames have told it."""
        head = ""
        for frame in self.frames:
            match frame["type"]:
                case "WsServerSnapshotEvent" | "WsServerHeadChangeEvent":
                    head = frame["headId"]
                case "WsServerStepEvent":
                    head = frame["step"]["id"]
        return head

    @property
    def steps(self) -> dict[str, Frame]:
        """Every step seen, by id."""
        steps: dict[str, Frame] = {}
        for frame in self.frames:
            if frame["type"] == "WsServerSnapshotEvent":
                steps |= {step["id"]: step for step in frame["steps"]}
            elif frame["type"] == "WsServerStepEvent":
                steps[frame["step"]["id"]] = frame["step"]
        return steps

    @property
    def path(self) -> list[Frame]:
        """The visible path, oldest first."""
        path, at, steps = [], self.head, self.steps
        while at != "step-initial":
            path.append(steps[at])
            at = steps[at]["parentId"]
        return path[::-1]

    @property
    def durable(self) -> list[Frame]:
        """The frames that carry an `eventSeq`, snapshots aside."""
        return [f for f in self.frames if f["type"] != "WsServerSnapshotEvent" and "eventSeq" in f
                and f["type"] != "WsServerAckEvent"]  # fmt: skip


def is_status(state: str) -> Callable[[Frame], bool]:
    """Whether a frame tells this state."""
    return lambda f: f["type"] == "WsServerStatusEvent" and f["state"] == state


def is_error(frame: Frame) -> bool:
    return bool(frame["type"] == "WsServerErrorEvent")


def is_head(frame: Frame) -> bool:
    return bool(frame["type"] == "WsServerHeadChangeEvent")


def is_step(frame: Frame) -> bool:
    return bool(frame["type"] == "WsServerStepEvent")
