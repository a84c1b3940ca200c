"""uvicorn's WebSocket protocol, which cuts a peer that takes nothing.

`transport.close` waits until the peer has taken what is left for it. A peer that has stopped
reading never does, and its kernel keeps the connection alive for ever; so every close is followed
by a cut.
"""

from __future__ import annotations

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

LINGER = 5.0
"""Seconds in which a peer has to take what is left for it when its socket is closed."""


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """For `uvicorn.Config(ws=…)`."""

    async def run_asgi(self) -> None:
        """The app's whole life of one socket."""
        await super().run_asgi()
        self._cut_soon()

    def keepalive_timeout(self) -> None:
        """No pong has come. The app may be waiting for this very peer to read."""
        super().keepalive_timeout()
        self._cut_soon()

    def _cut_soon(self) -> None:
        self.loop.call_later(LINGER, self.transport.abort)
