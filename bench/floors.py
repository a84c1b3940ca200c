"""The floors: F, one committed row; E, one bare frame each way; Q, the bare rows as bytes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg

from bench.measure import Act
from bench.wire import Socket
from bench.world import bare

ROW = "x" * 1024


@asynccontextmanager
async def row(url: str) -> AsyncIterator[Act]:
    """F: one `INSERT` of a row of 1 KB by asyncpg, committed, `synchronous_commit` on."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("create table if not exists floor (id bigserial, data text)")
        assert await connection.fetchval("show synchronous_commit") == "on"
        insert = await connection.prepare("insert into floor (data) values ($1)")

        async def act() -> float:
            began = time.perf_counter()
            await insert.fetch(ROW)
            return time.perf_counter() - began

        yield act
    finally:
        await connection.close()


@asynccontextmanager
async def echo(command: bytes, answer_size: int) -> AsyncIterator[Act]:
    """E: the same bytes in and the same number out, by a bare Starlette WebSocket."""
    async with bare() as server:
        socket = await Socket.connect(server.port, f"/echo/{answer_size}")

        async def act() -> float:
            began = time.perf_counter()
            socket.send(command)
            await socket.frames.get()
            return time.perf_counter() - began

        yield act
        socket.close()


@asynccontextmanager
async def rows(url: str, query: str, *args: object) -> AsyncIterator[Act]:
    """Q: the rows of a query by asyncpg, joined to bytes."""
    connection = await asyncpg.connect(url)
    try:
        statement = await connection.prepare(query)

        async def act() -> float:
            began = time.perf_counter()
            joined(await statement.fetch(*args))
            return time.perf_counter() - began

        yield act
    finally:
        await connection.close()


def joined(found: Sequence[asyncpg.Record]) -> bytes:
    """All values of all rows, as bytes one after the other."""
    return "".join(str(value) for row in found for value in row.values()).encode()
