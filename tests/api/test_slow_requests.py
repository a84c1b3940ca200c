"""REST clients that are slow: a body has to come in time, and an answer has to be taken."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import orjson
import pytest
from connected import connected
from processes import eventually
from serving import Server, serving

HEAD = "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n"
BODY = b'{"name": "at last"}'


@asynccontextmanager
async def connection(
    server: Server, *, room: int | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection of which the kernel keeps `room` bytes for us, or as many as it likes."""
    there = socket.socket()
    if room is not None:
        there.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    there.setblocking(False)
    host, port = server.url.removeprefix("http://").split(":")
    await asyncio.get_running_loop().sock_connect(there, (host, int(port)))
    reader, writer = await asyncio.open_connection(sock=there, limit=1024)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def trickle(writer: asyncio.StreamWriter) -> None:
    """A byte now and a byte then, until the server has let go."""
    with suppress(ConnectionError):
        while not writer.transport.is_closing():
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.05)


async def answer_of(reader: asyncio.StreamReader) -> tuple[int, dict[str, Any]]:
    """The next answer's status and JSON."""
    async with asyncio.timeout(15):
        head = await reader.readuntil(b"\r\n\r\n")
        [size] = [line.split(b":")[1] for line in head.lower().split(b"\r\n")
                  if line.startswith(b"content-length:")]  # fmt: skip
        return int(head.split()[1]), orjson.loads(await reader.readexactly(int(size)))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/sessions"),
        ("PATCH", "/sessions/{id}"),
        ("POST", "/sessions/{id}/commands"),
        ("POST", "/sessions/transcript/query"),
        ("POST", "/api/agents"),
    ],
)
async def test_a_body_that_trickles_in_is_refused_and_nothing_has_changed(
    fresh_database: str, method: str, path: str
) -> None:
    async with serving(fresh_database, body_timeout=0.5) as server:
        session = await server.session(name="before")
        async with connection(server) as (reader, writer):
            head = HEAD.format(method=method, path=path.format(id=session), size=1000)
            writer.write(head.encode() + BODY)
            trickling = asyncio.create_task(trickle(writer))
            status, problem = await answer_of(reader)
            trickling.cancel()
            assert (status, problem["code"]) == (408, "too_slow")
            assert problem["data"] == {"limit": "body_timeout", "value": 0.5}
        listed = (await server.http.get("/sessions")).json()["sessions"]
        assert [s["name"] for s in listed] == ["before"]


async def test_a_body_that_nobody_reads_has_to_end_as_well(
    fresh_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnback.api.protocol.LINGER", 0.5)
    async with serving(fresh_database, body_timeout=0.5) as server, connection(server) as wire:
        reader, writer = wire
        writer.write(HEAD.format(method="POST", path="/nowhere", size=10**9).encode())
        assert (await answer_of(reader))[0] == 404
        async with asyncio.timeout(15):
            await trickle(writer)


async def test_a_slow_body_that_ends_in_time_is_taken_and_so_is_the_next_one(
    fresh_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnback.api.protocol.LINGER", 0.0)
    async with serving(fresh_database, body_timeout=3.0) as server, connection(server) as wire:
        reader, writer = wire
        for _ in range(3):  # longer than one of them may take
            writer.write(HEAD.format(method="POST", path="/sessions", size=len(BODY)).encode())
            for n in range(len(BODY)):
                writer.write(BODY[n : n + 1])
                await asyncio.sleep(1.2 / len(BODY))
            status, made = await answer_of(reader)
            assert (status, made["name"]) == (201, "at last")


async def test_a_connection_is_kept_between_two_requests_for_so_long(
    fresh_database: str,
) -> None:
    ask = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with (
        serving(fresh_database, keep_alive_timeout=0.2) as hurried,
        serving(fresh_database, keep_alive_timeout=600.0) as patient,
        connection(hurried) as (closed, hurry),
        connection(patient) as (kept, wait),
    ):
        for reader, writer in ((closed, hurry), (kept, wait)):
            writer.write(ask)
            assert (await answer_of(reader))[0] == 200
        async with asyncio.timeout(15):
            assert await closed.read() == b""
        wait.write(ask)
        assert (await answer_of(kept))[0] == 200


LARGE = {"operators": [], "operatorPositions": {}, "links": [], "commentBoxes": [],
         "settings": {"note": "x" * 6_000_000}}  # fmt: skip


async def test_who_takes_nothing_of_an_answer_is_cut_and_who_takes_it_slowly_is_not(
    fresh_database: str,
) -> None:
    async with serving(fresh_database, answer_timeout=1.0) as server:
        session = await server.session(workflow=LARGE)
        ask = f"GET /sessions/{session}/workflow HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        async with (
            connection(server, room=4096) as (_, deaf),
            connection(server, room=4096) as (slow, asking),
        ):
            port = deaf.get_extra_info("sockname")[1]
            deaf.write(ask)
            asking.write(ask)
            await slow.readuntil(b"\r\n\r\n")
            assert connected(server.url, port)
            clock = asyncio.get_running_loop().time
            began, taken = clock(), 0
            while taken < 6_000_000:
                async with asyncio.timeout(15):
                    piece = await slow.read(2**16)
                assert piece, "it was cut"
                taken += len(piece)
                early = 4.0 * taken / 6_000_000 - (clock() - began)
                await asyncio.sleep(max(0.0, early))
            await eventually(lambda: not connected(server.url, port))
