"""The HTTP client for chat completions: nothing that a server sends may grow without a bound.

The provider's client gathers a line of a stream, and the whole of any other answer, before anyone
sees it, so the bound on a reply (reply.py) would come too late.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2

from turnback.agent.steps import reply_too_large
from turnback.core.errors import ModelFailed

CONNECT_TIMEOUT = 5.0  # seconds; how long an answer may take is for the loop to say
PLAIN = "identity"  # the coding of what is not compressed (RFC 9110, 12.5.3)
ESCAPED = 6  # bytes that JSON may take for one: `\\u001f`


def client(*, max_reply_bytes: int) -> httpx2.AsyncClient:
    """A client whose answers raise `TooLarge` beyond what a reply of `max_reply_bytes` can be.

    Of a stream of events that is said of each event, of any other answer of the whole. Answers come
    as they are: a compressed one has no bound until it has been unfolded, and fails unread.
    """
    most = max_reply_bytes * ESCAPED

    async def bound(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        if response.headers.pop("content-encoding", PLAIN) != PLAIN:
            response.stream = _Unread(response.stream, failed=response.is_error)
            return
        of_events = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = _Bounded(
            response.stream, most=most, of_events=of_events, named=max_reply_bytes
        )

    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
        headers={"accept-encoding": PLAIN},
        follow_redirects=True,
        event_hooks={"response": [bound]},
    )


class _Unread(httpx2.AsyncByteStream):
    """An answer whose body nobody reads; of an error its status says enough."""

    def __init__(self, stream: httpx2.AsyncByteStream, *, failed: bool) -> None:
        self._stream = stream
        self._failed = failed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if not self._failed:
            raise ModelFailed(
                "the model's provider compresses its answers though it is asked not to; see to "
                "that at `TURNBACK_MODEL_BASE_URL`."
            )
        yield b""

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Bounded(httpx2.AsyncByteStream):
    def __init__(
        self, stream: httpx2.AsyncByteStream, *, most: int, of_events: bool, named: int
    ) -> None:
        self._stream = stream
        self._most = most
        self._of_events = of_events
        self._named = named

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        ended = b""
        async for chunk in self._stream:
            size += len(chunk)
            if self._of_events:
                # An event ends with an empty line, whose two breaks may come in two chunks.
                seen = (ended + chunk).replace(b"\r\n", b"\n")
                if (at := seen.rfind(b"\n\n")) >= 0:
                    size = len(seen) - at - 2
                ended = (ended + chunk)[-3:]
            if size > self._most:
                raise reply_too_large(self._named)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
