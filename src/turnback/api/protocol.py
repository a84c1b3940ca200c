"""uvicorn's protocols, with the limits that it has not: on silence, on broken text, on deafness.

A peer that connects and never asks anything is cut after a while, and so is one whose request's
body does not end. Text that is not UTF-8 closes a
socket with 1007, as RFC 6455 (8.1) has it, and is no error of ours. And a peer that takes nothing
is cut: `transport.close` waits until the peer has taken what is left for it, one that has stopped
reading never does, and its kernel keeps the connection alive for ever.
"""

from __future__ import annotations

import asyncio
from functools import partial
from struct import pack
from typing import Any

import h11
from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.protocol import State

from turnback.settings import Settings

EXTENSION = "turnback.socket"

FIRST = 0x81
"""The first byte of a whole text frame (RFC 6455, 5.2); a server's frames are not masked."""

LINGER = 5.0
"""Seconds in which a peer has to take what is left for it when its socket is closed."""


def socket_of(scope: Scope) -> WebSocketProtocol:
    """The protocol that carries this socket."""
    protocol = scope["extensions"][EXTENSION]
    assert isinstance(protocol, WebSocketProtocol)
    return protocol


def options(settings: Settings) -> dict[str, Any]:
    """What `uvicorn.Config` takes of these settings for its protocols."""
    return {
        "http": partial(
            HttpProtocol,
            handshake_timeout=settings.handshake_timeout,
            answer_timeout=settings.answer_timeout,
        ),
        # A proxy or client that keeps it for as long sends into one that is just being closed.
        "timeout_keep_alive": settings.keep_alive_timeout,
        "ws": WebSocketProtocol,
        "ws_max_size": settings.ws_max_size,
        "ws_ping_interval": settings.ws_ping_interval,
        "ws_ping_timeout": settings.ws_ping_timeout,
        "ws_per_message_deflate": False,
    }


class HttpProtocol(H11Protocol):
    """A connection until it asks for a socket.

    A request's head has to come in time, and what is answered has to be taken. How long a body may
    take is up to the route that reads it; one that goes on after the answer is cut soon.
    """

    def __init__(
        self,
        *args: Any,
        handshake_timeout: float,
        answer_timeout: float,
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self._handshake_timeout = handshake_timeout
        self._answer_timeout = answer_timeout
        self._awaited: tuple[type[object] | None, bool] = None, False
        self._waiting: asyncio.TimerHandle | None = None
        self._taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait(h11.IDLE)

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a request, unless it is there."""
        super().data_received(data)
        if self.transport.get_protocol() is self:
            self._wait(self.conn.their_state)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        super().connection_lost(exc)
        self._wait(None)
        self._watch_no_more()

    def on_response_complete(self) -> None:
        """The answer is given; it may have come before its request was whole."""
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self._wait(h11.SEND_BODY)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """The connection becomes another protocol's."""
        self._wait(None)
        super().handle_websocket_upgrade(event)

    def pause_writing(self) -> None:
        """The peer is behind with taking its answer."""
        super().pause_writing()
        self._watch(None)

    def resume_writing(self) -> None:
        """The peer takes its answer."""
        super().resume_writing()
        self._watch_no_more()

    def timeout_keep_alive_handler(self) -> None:
        """No further request has come; the last answer may not have been taken yet."""
        super().timeout_keep_alive_handler()
        self._watch(None)

    def _wait(self, state: type[object] | None) -> None:
        """The peer is in this state of a request: how long it may be is counted from here."""
        awaited = state, self.conn.our_state is h11.DONE
        if awaited == self._awaited:
            return
        self._awaited = awaited
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        match awaited:
            case h11.IDLE, _:
                seconds = self._handshake_timeout
            case h11.SEND_BODY, True:
                seconds = LINGER
            case _:
                return
        self._waiting = self.loop.call_later(seconds, self.transport.abort)

    def _watch(self, before: int | None) -> None:
        """Cut a peer that has taken nothing since `before` bytes waited for it."""
        self._watch_no_more()
        left = self.transport.get_write_buffer_size()
        if before is not None and left >= before:
            self.transport.abort()
        elif left:
            self._taking = self.loop.call_later(self._answer_timeout, self._watch, left)

    def _watch_no_more(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """A socket. The app finds it in its scope, by `socket_of`, and may send through it directly."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._pong: list[bytes] = []

    async def run_asgi(self) -> None:
        """The app's whole life of one socket."""
        self.scope["extensions"][EXTENSION] = self  # type: ignore[assignment]
        await super().run_asgi()
        del self.scope["extensions"][EXTENSION]  # what refers to itself is freed late
        self._cut_soon()

    def put(self, text: bytes) -> bool:
        """Send a text frame now. False: the peer has to take what it was sent before, first.

        What is put into a socket that is closing or gone goes nowhere.
        """
        if self.close_sent or self.disconnected or self.transport.is_closing():
            return True
        if not self.writable.is_set():
            return False
        size = len(text)
        if size < 126:
            self.transport.write(pack("!BB", FIRST, size) + text)
        elif size < 2**16:
            self.transport.write(pack("!BBH", FIRST, 126, size) + text)
        else:
            self.transport.writelines([pack("!BBQ", FIRST, 127, size), text])
        return True

    async def send_text(self, text: bytes) -> None:
        """Send a text frame when there is room. Raises `ClientDisconnected`."""
        while not self.put(text):
            await self.writable.wait()
        if self.disconnected:
            raise ClientDisconnected

    def keepalive_timeout(self) -> None:
        """No pong has come. The app may be waiting for this very peer to read."""
        super().keepalive_timeout()
        self._cut_soon()

    def handle_cont(self, event: Frame) -> None:
        """A message goes on. However small its pieces are, it takes as much room as it is long."""
        [begun] = self.frames
        message = begun if isinstance(begun, bytearray) else bytearray(begun)
        message += event.data
        self.frames = [message]  # type: ignore[list-item]
        if event.fin:
            self.send_receive_event_to_app()

    def handle_ping(self) -> None:
        """Answer. A peer that is behind gets its newest answer when it has caught up.

        That is enough (RFC 6455, 5.5.3); what it has not taken yet must not grow with its pings.
        """
        if self.writable.is_set() or self.conn.state is not State.OPEN:
            super().handle_ping()
        else:
            self._pong = self.conn.data_to_send()[-1:] or self._pong

    def resume_writing(self) -> None:
        """The peer has caught up."""
        self.transport.writelines(self._pong)
        self._pong = []
        super().resume_writing()

    def send_receive_event_to_app(self) -> None:
        """A message is whole: text must be UTF-8."""
        if self.curr_msg_data_type == "text" and not self.close_sent:
            self.frames = [b"".join(self.frames)]
            try:
                self.frames[0].decode()
            except UnicodeDecodeError:
                self.frames = []
                self.conn.fail(1007, "not UTF-8")
                self.handle_parser_exception()
                return
        super().send_receive_event_to_app()

    def _cut_soon(self) -> None:
        self.loop.call_later(LINGER, self.transport.abort)
