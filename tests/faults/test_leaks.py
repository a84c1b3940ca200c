"""Thousands of connections that end in every way leave nothing: no descriptor, task or gauge."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from processes import Process, eventually, process
from raw import raw
from scrape import scrape
from serving import Server, serving

Where = Server | Process
PROMPT = b'{"type": "WsClientPromptCommand", "content": "hello"}'


async def comes_and_goes(server: Where, session: str) -> None:
    async with server.connect(session) as client:
        await client.snapshot()


async def base_comes_and_is_gone(server: Where, session: str) -> None:
    async with raw(server.url) as wire:
        await wire.shake(f"/sessions/{session}/ws")


async def is_gone_in_mid_frame(server: Where, session: str) -> None:
    async with raw(server.url) as wire:
        await wire.shake(f"/sessions/{session}/ws", Sec_WebSocket_Protocol="turnback.v1")
        await wire.write(b"\x81\xfe\x40\x00\0\0\0\0half")


async def is_gone_before_its_answer(server: Where, session: str) -> None:
    async with raw(server.url) as wire:
        await wire.shake(f"/sessions/{session}/ws", Sec_WebSocket_Protocol="turnback.v1")
        await wire.send(PROMPT)


async def is_gone_before_its_snapshot(server: Where, session: str) -> None:
    async with raw(server.url) as wire:
        await wire.write(
            f"GET /sessions/{session}/ws?since=0 HTTP/1.1\r\nHost: localhost\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
        )


async def finds_no_session(server: Where, session: str) -> None:
    async with server.connect("nothing") as client:
        assert await client.until_closed() == 4404


async def says_nothing(server: Where, session: str) -> None:
    async with raw(server.url):
        pass


async def is_gone_in_its_head(server: Where, session: str) -> None:
    async with raw(server.url) as wire:
        await wire.write(b"GET /sessions HTTP/1.1\r\nHost: loc")


async def is_gone_in_its_body(server: Where, session: str) -> None:
    async with raw(server.url) as wire:
        head = b"POST /sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
        await wire.write(head + b'{"name": "ha')


async def is_gone_before_its_page(server: Where, session: str) -> None:
    async with raw(server.url) as wire:
        path = f"/sessions/{session}/commands?wait=end"
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(PROMPT)}\r\n\r\n"
        await wire.write(head.encode() + PROMPT)


WAYS: list[Callable[[Where, str], Awaitable[None]]] = [
    comes_and_goes,
    base_comes_and_is_gone,
    is_gone_in_mid_frame,
    is_gone_before_its_answer,
    is_gone_before_its_snapshot,
    finds_no_session,
    says_nothing,
    is_gone_in_its_head,
    is_gone_in_its_body,
    is_gone_before_its_page,
]


async def come_and_go(server: Where, session: str, times: int) -> None:
    """Every way, `times` times, many at once."""
    for _ in range(times):
        for result in await asyncio.gather(
            *(way(server, session) for way in WAYS), return_exceptions=True
        ):
            if isinstance(result, BaseException) and not isinstance(result, OSError | EOFError):
                raise result


async def quiet(server: Where) -> None:
    """Wait until nothing is open, waits or runs."""

    async def all_is_gone() -> bool:
        now = await scrape(server)
        names = (
            'sockets{dialect="v1"}',
            'sockets{dialect="base"}',
            "frames_waiting",
            "commands_waiting",
            "runs",
        )
        return not any(now[f"turnback_{name}"] for name in names)

    await eventually(all_is_gone)


@pytest.mark.parametrize("times", [30, pytest.param(1_000, marks=pytest.mark.soak)])
async def test_connections_that_end_in_every_way_leave_no_descriptor_and_no_gauge(
    fresh_database: str, tmp_path: Path, times: int
) -> None:
    async with process(tmp_path, fresh_database) as server:
        session = await server.session()

        async def descriptors() -> int:
            """All but those of the database's pool, which grows as it is needed."""
            now = await scrape(server)
            pool = sum(now[f'turnback_db_connections{{state="{s}"}}'] for s in ("used", "idle"))
            return len(os.listdir(f"/proc/{server.pid}/fd")) - int(pool)

        async def as_before() -> bool:
            return await descriptors() <= before

        await come_and_go(server, session, 5)
        await quiet(server)
        before = await descriptors()
        await come_and_go(server, session, times)
        await quiet(server)
        await eventually(as_before)


async def test_connections_that_end_in_every_way_leave_no_task(fresh_database: str) -> None:
    async with serving(fresh_database) as server:
        session = await server.session()
        await come_and_go(server, session, 3)
        await quiet(server)
        before = len(asyncio.all_tasks())
        await come_and_go(server, session, 10)
        await quiet(server)
        await eventually(lambda: len(asyncio.all_tasks()) <= before)
