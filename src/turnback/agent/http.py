"""The HTTP client for chat completions: nothing that a server sends may grow without a bound.

The provider's client gathers a line of a stream, and the whole of any other answer, before anyone
sees it, so the bound on a reply (reply.py) would come too late.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2

from turnback.core.errors import TooLarge

CONNECT_TIMEOUT = 5.0  # seconds; how long an answer may take is for the loop to say
ESCAPED = 6  # bytes that JSON may take for one: `\\u001f`


def client(*, max_reply_bytes: int) -> httpx2.AsyncClient:
    """A client whose answers raise `TooLarge` beyond what a reply of `max_reply_bytes` can be.

    Of a stream of events that is said of each event, of any other answer of the whole.
    """
    most = max_reply_bytes * ESCAPED

    async def bound(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        of_events = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = _Bounded(
            response.stream, most=most, of_events=of_events, named=max_reply_bytes
        )

    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
        follow_redirects=True,
        event_hooks={"response": [bound]},
    )


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
                raise TooLarge(
                    f"an answer of more than {self._named} bytes (`max_reply_bytes`).",
                    limit="max_reply_bytes",
                )
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
