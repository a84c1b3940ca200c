"""A client that stops reading is closed; the others lose nothing and wait for nothing."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from connected import connected, unread
from processes import Process, eventually, process
from scrape import scrape
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol
from whole import told_once
from wire import Client

MB = 2**20
Flood = Callable[[bytes], Awaitable[None]]
LARGE = 4 * MB  # of the workflow
LIMIT = 32 * MB  # of what may wait for one reader
CUT_WITHIN = 20.0
"""Seconds: to see that the peer takes nothing, to try to tell it, and to cut it."""


@asynccontextmanager
async def deaf(server: Process, session: str, *, v1: bool = True) -> AsyncIterator[Any]:
    """A client that reads nothing, and has hardly any room in its kernel either."""
    host, port = server.url.removeprefix("http://").split(":")
    there = socket.socket()
    there.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    there.connect((host, int(port)))
    there.setblocking(False)
    client: ClientConnection = await connect(
        f"{server.url.replace('http', 'ws')}/sessions/{session}/ws",
        sock=there,
        subprotocols=[Subprotocol("turnback.v1")] if v1 else None,
        max_queue=1,
        max_size=None,
        compression=None,
        ping_interval=None,
    )
    try:
        yield client
    finally:
        client.transport.abort()
        await client.wait_closed()


def memory(server: Process) -> int:
    """The bytes that a server's process has in use."""
    pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1])
    return pages * 4096


def cut(server: Process, client: ClientConnection) -> bool:
    """Whether the server has let go of this client's connection, whatever the client knows."""
    return not connected(server.url, client.local_address[1])


def workflow(size: int) -> dict[str, Any]:
    """A workflow of about so many bytes."""
    return {
        "operators": [
            {
                "operatorID": f"op{n}",
                "operatorType": "TextInput",
                "operatorProperties": {"textInput": "x" * (size // 20)},
            }
            for n in range(20)
        ],
        "operatorPositions": {f"op{n}": {"x": 0, "y": n} for n in range(20)},
        "links": [],
        "commentBoxes": [],
    }


async def move(client: Client, n: int) -> None:
    """Move an operator."""
    edit = {"op": "moveOperator", "operatorID": "op1", "position": {"x": n, "y": n}}
    answer = await client.ask("EditWorkflow", baseHeadId=client.head, edits=[edit])
    assert answer["type"] == "WsServerAckEvent", answer


@pytest.mark.case(37)
async def test_nobody_waits_for_readers_that_take_nothing_and_they_are_cut_at_their_limit(
    fresh_database: str, tmp_path: Path
) -> None:
    # No ping may end them before their limit does.
    async with process(tmp_path, fresh_database, ws_queue=200, ws_ping_interval=600.0) as server:
        session = await server.session(workflow=workflow(20_000))
        async with (
            server.connect(session) as client,
            server.connect(session, v1=False) as base,
            deaf(server, session) as one,
            deaf(server, session, v1=False) as two,
        ):
            await client.snapshot()
            before = memory(server)
            moves = 0

            async def move_until(metric: str, value: int) -> None:
                """Each move is answered, and told to everyone who reads, before the next."""
                nonlocal moves
                while (await scrape(server))[metric] < value:
                    for _ in range(20):
                        moves += 1
                        await move(client, moves)
                    await eventually(lambda: len(base.frames) == len(client.durable) + 1)
                    told_once(client.durable)

            await move_until("turnback_send_queue_longest", 20)
            assert not cut(server, one)
            assert not cut(server, two)
            await move_until("turnback_slow_readers_total", 2)
            await eventually(lambda: cut(server, one) and cut(server, two), within=CUT_WITHIN)
            assert memory(server) - before < LIMIT
            assert len(client.durable) == 2 * moves
            assert (client.closed, base.closed) == (None, None)


async def test_what_waits_for_a_reader_is_bounded_in_bytes(
    fresh_database: str, tmp_path: Path
) -> None:
    async with process(tmp_path, fresh_database, ws_queue_size=LIMIT) as server:
        session = await server.session(workflow=workflow(LARGE))
        async with server.connect(session) as client:
            await client.snapshot()
            for n in range(1, 11):
                await move(client, n)
            async with deaf(server, session) as late:
                before = memory(server)
                most = 0
                for n in range(11, 51):
                    await move(client, n)
                    most = max(most, memory(server) - before)
                assert most < 3 * LIMIT
                await eventually(lambda: cut(server, late), within=CUT_WITHIN)
            told_once(client.durable)


@pytest.mark.parametrize("v1", [True, False])
async def test_a_reader_that_is_merely_late_is_told_why_it_was_closed(
    fresh_database: str, tmp_path: Path, v1: bool
) -> None:
    async with process(tmp_path, fresh_database, ws_queue=20) as server:
        session = await server.session(workflow=workflow(100_000))
        async with server.connect(session) as client:
            await client.snapshot()
            async with deaf(server, session, v1=v1) as late:
                moves = 0
                while not (await scrape(server))["turnback_slow_readers_total"]:
                    moves += 1
                    await move(client, moves)
                with suppress(ConnectionClosed):
                    async for _ in late:
                        pass
                assert (late.close_code, late.close_reason) == (1013, "slow reader")


@pytest.mark.case(37)
async def test_a_reader_that_takes_not_even_its_snapshot_is_cut(
    fresh_database: str, tmp_path: Path
) -> None:
    async with process(tmp_path, fresh_database, ws_queue=20) as server:
        session = await server.session(workflow=workflow(LARGE))
        async with server.connect(session) as client:
            await client.snapshot()
            async with deaf(server, session) as late:
                for n in range(1, 31):
                    await move(client, n)
                await eventually(lambda: cut(server, late), within=CUT_WITHIN)


async def test_a_client_that_floods_and_does_not_read_is_cut(
    fresh_database: str, tmp_path: Path
) -> None:
    async with process(tmp_path, fresh_database) as server:
        session = await server.session()
        async with server.connect(session) as client, deaf(server, session) as flood:
            await client.snapshot()
            before = memory(server)

            async def send() -> None:
                for n in range(200_000):
                    await flood.send(f'{{"type": "bogus{n}"}}')

            sending = asyncio.create_task(send())
            await eventually(lambda: cut(server, flood), within=60)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            assert memory(server) - before < LIMIT
            await client.prompt("add a CSVFileScan")


@asynccontextmanager
async def mute(server: Process, session: str) -> AsyncIterator[Flood]:
    """A socket by hand that reads nothing at all, not even what a library answers by itself."""
    host, port = server.url.removeprefix("http://").split(":")
    there = socket.socket()
    there.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    there.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(there, (host, int(port)))
    own = there.getsockname()[1]

    async def flood(data: bytes) -> None:
        await loop.sock_sendall(there, data)
        await eventually(lambda: not unread(server.url, own))

    try:
        await flood(
            f"GET /sessions/{session}/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
        )
        yield flood
        assert connected(server.url, own)
    finally:
        there.close()


async def test_pings_whose_answers_nobody_takes_take_no_room(
    fresh_database: str, tmp_path: Path
) -> None:
    ping = b"\x89\xfd\0\0\0\0" + b"x" * 125
    async with process(tmp_path, fresh_database, ws_ping_interval=600.0) as server:
        session = await server.session()
        async with server.connect(session) as client, mute(server, session) as flood:
            await client.snapshot()
            await flood(ping * 10_000)
            before = memory(server)
            for _ in range(12):
                await flood(ping * 10_000)
            assert memory(server) - before < LIMIT / 4
            await client.prompt("add a CSVFileScan")


async def test_a_message_in_tiny_pieces_takes_no_more_room_than_it_is_long(
    fresh_database: str, tmp_path: Path
) -> None:
    piece = b"\x00\x82\0\0\0\0xy"
    async with process(tmp_path, fresh_database, ws_ping_interval=600.0) as server:
        session = await server.session()
        async with server.connect(session) as client, mute(server, session) as flood:
            await client.snapshot()
            await flood(b"\x01\x81\0\0\0\0x" + piece * 10_000)
            before = memory(server)
            for _ in range(30):
                await flood(piece * 10_000)
            assert memory(server) - before < LIMIT / 4
            await client.prompt("add a CSVFileScan")


async def test_a_reader_that_takes_nothing_does_not_hold_up_the_end(
    fresh_database: str, tmp_path: Path
) -> None:
    async with process(tmp_path, fresh_database, drain_timeout=1.0) as server:
        session = await server.session(workflow=workflow(LARGE))
        async with deaf(server, session):
            await asyncio.sleep(0.5)
            began = time.monotonic()
            server.send(signal.SIGTERM)
            assert await server.end() == 0
            assert time.monotonic() - began < 8
