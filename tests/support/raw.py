"""A socket's bytes by hand: what no client library lets one send."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from wire import WAIT

CONTINUATION, TEXT, BINARY, CLOSE = 0x0, 0x1, 0x2, 0x8


class Raw:
    """One connection. `header` is what the server answered to the handshake."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.header = b""

    async def shake(self, path: str, **headers: str) -> None:
        """Ask for a socket."""
        asked = {
            "Host": "localhost",
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in asked.items())]
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        async with asyncio.timeout(WAIT):
            self.header = await self._reader.readuntil(b"\r\n\r\n")

    async def send(
        self, payload: bytes, *, opcode: int = TEXT, final: bool = True, reserved: int = 0
    ) -> None:
        """Send one frame, masked by zeros; `reserved` are its three reserved bits."""
        size = len(payload)
        first = final << 7 | reserved << 4 | opcode
        if size < 126:
            head = struct.pack("!BB", first, 0x80 | size)
        elif size < 2**16:
            head = struct.pack("!BBH", first, 0x80 | 126, size)
        else:
            head = struct.pack("!BBQ", first, 0x80 | 127, size)
        self._writer.write(head + b"\0\0\0\0" + payload)
        await self._writer.drain()

    async def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(data)
        await self._writer.drain()

    async def closed_with(self) -> int:
        """The close code that the server sends, after whatever it has sent before."""
        async with asyncio.timeout(WAIT):
            while True:
                first, second = await self._reader.readexactly(2)
                size = second & 0x7F
                if size == 126:
                    [size] = struct.unpack("!H", await self._reader.readexactly(2))
                elif size == 127:
                    [size] = struct.unpack("!Q", await self._reader.readexactly(8))
                payload = await self._reader.readexactly(size)
                if first & 0xF == CLOSE:
                    return int.from_bytes(payload[:2], "big")

    async def cut(self) -> None:
        """Wait until the server has let go of the connection."""
        async with asyncio.timeout(WAIT):
            try:
                await self._reader.read()
            except ConnectionError:
                pass


@asynccontextmanager
async def raw(url: str) -> AsyncIterator[Raw]:
    """A connection to the server at `url`, on which nothing is said yet."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=2**26)
    try:
        yield Raw(reader, writer)
    finally:
        writer.transport.abort()
