"""A client that costs next to nothing: it counts frames and does not read what is in them.

What a client takes is in both the measured thing and its floor, and would make every ratio look
better than it is.
"""

from __future__ import annotations

import asyncio
import base64
import os
import struct
from dataclasses import dataclass, field
from typing import Self

MASK = b"\0\0\0\0"  # a mask that changes nothing: the server unmasks all the same


class Socket(asyncio.Protocol):
    """A WebSocket. `frames` waits for what comes."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._open = False
        self._opened = asyncio.get_running_loop().create_future()
        self.frames: asyncio.Queue[bytes] = asyncio.Queue()

    @classmethod
    async def connect(cls, port: int, path: str, *, subprotocol: str | None = None) -> Self:
        """Connect to a server of this machine."""
        loop = asyncio.get_running_loop()
        transport, socket = await loop.create_connection(cls, "127.0.0.1", port)
        socket.transport = transport
        offered = f"Sec-WebSocket-Protocol: {subprotocol}\r\n" if subprotocol else ""
        key = base64.b64encode(os.urandom(16)).decode()
        transport.write(
            (
                f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\n"
                "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                f"Sec-WebSocket-Key: {key}\r\n{offered}\r\n"
            ).encode()
        )
        await socket._opened
        return socket

    def send(self, data: bytes) -> None:
        """Send a text frame."""
        self.transport.write(b"".join((*_head(0x1, len(data)), MASK, data)))

    async def until(self, mark: bytes) -> bytes:
        """The next frame that holds `mark`; those before it are dropped."""
        while mark not in (frame := await self.frames.get()):
            pass
        return frame

    def close(self) -> None:
        """Leave without a word."""
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._open:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            if b" 101 " not in self._buffer[:20]:
                self._opened.set_exception(ConnectionError(bytes(self._buffer[:end]).decode()))
                return
            del self._buffer[: end + 4]
            self._open = True
            self._opened.set_result(None)
        while self._frame():
            pass

    def connection_lost(self, error: Exception | None) -> None:
        if not self._opened.done():
            self._opened.set_exception(error or ConnectionError("closed"))

    def _frame(self) -> bool:
        buffer = self._buffer
        if len(buffer) < 2:
            return False
        at, size = 2, buffer[1]
        if size == 126:
            if len(buffer) < 4:
                return False
            at, [size] = 4, struct.unpack_from("!H", buffer, 2)
        elif size == 127:
            if len(buffer) < 10:
                return False
            at, [size] = 10, struct.unpack_from("!Q", buffer, 2)
        if len(buffer) < at + size:
            return False
        opcode, payload = buffer[0] & 15, bytes(buffer[at : at + size])
        del buffer[: at + size]
        if opcode == 0x9:
            self.transport.write(b"".join((*_head(0xA, size), MASK, payload)))
        elif opcode == 0x1:
            self.frames.put_nowait(payload)
        elif opcode == 0x8:
            self.frames.put_nowait(b"closed: " + payload)
        return True

    transport: asyncio.Transport


def _head(opcode: int, size: int) -> tuple[bytes, ...]:
    first = bytes([0x80 | opcode])
    if size < 126:
        return first, bytes([0x80 | size])
    if size < 65536:
        return first, struct.pack("!BH", 0x80 | 126, size)
    return first, struct.pack("!BQ", 0x80 | 127, size)


@dataclass
class Http:
    """One kept connection over HTTP/1.1, for one request at a time."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    port: int
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    async def connect(cls, port: int) -> Self:
        """Connect to a server of this machine."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**26)
        return cls(reader, writer, port)

    async def request(
        self, method: str, path: str, body: bytes = b"", **headers: str
    ) -> tuple[int, bytes]:
        """The status and the body of the answer; its headers are in `headers`."""
        said = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        self.writer.write(
            (
                f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
                f"Content-Length: {len(body)}\r\n{said}\r\n"
            ).encode()
            + body
        )
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        self.headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])
        }
        size = int(self.headers.get("content-length", "0"))
        return int(head[0].split(" ")[1]), await self.reader.readexactly(size)

    def close(self) -> None:
        """Close the connection."""
        self.writer.close()
