"""Uploads that break off, trickle, are huge, or come all at once; a kill in the middle of one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from attaching import attached, files, upload
from processes import Process, eventually, process
from rest import get
from serving import Server, serving

HEAD = "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n"
GB = 10**9


@asynccontextmanager
async def sending(
    server: Server, session: str, *, size: int
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """An upload of which only the head has been sent."""
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    path = f"/sessions/{session}/attachments?name=big"
    writer.write(HEAD.format(path=path, size=size).encode())
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def answer_of(reader: asyncio.StreamReader) -> tuple[int, dict[str, Any]]:
    async with asyncio.timeout(15):
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        found = re.search(rb"content-length: (\d+)", head)
        assert found is not None, head
        return int(head.split()[1]), orjson.loads(await reader.readexactly(int(found[1])))


async def test_a_huge_upload_is_refused_before_any_of_it_is_sent(server: Server) -> None:
    session = await server.session()
    async with sending(server, session, size=100 * GB) as (reader, _):
        status, said = await answer_of(reader)
    assert (status, said["code"]) == (413, "too_large")
    assert said["data"]["limit"] == "max_attachment_bytes"
    assert files(server) == []


async def test_who_goes_on_sending_what_was_refused_is_cut(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnback.api.protocol.LINGER", 0.3)
    session = await server.session()
    async with sending(server, session, size=100 * GB) as (reader, writer):
        assert (await answer_of(reader))[0] == 413
        async with asyncio.timeout(15):
            with suppress(ConnectionError):
                while not writer.transport.is_closing():
                    writer.write(bytes(100_000))
                    await writer.drain()
                    await asyncio.sleep(0.001)
    await attached(server, session)


async def test_an_upload_that_trickles_in_is_refused_when_its_time_is_up(
    fresh_database: str,
) -> None:
    async with serving(fresh_database, attachment_timeout=0.5, attachment_grace=1.0) as server:
        session = await server.session()
        async with sending(server, session, size=1000) as (reader, writer):
            writer.write(b"a little")
            status, said = await answer_of(reader)
            assert (status, said["code"]) == (408, "too_slow")
            assert said["data"] == {"limit": "attachment_timeout", "value": 0.5}
        assert files(server) == []


async def test_an_upload_may_take_longer_than_other_bodies_may(
    fresh_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnback.api.protocol.LINGER", 0.1)
    async with serving(fresh_database, body_timeout=0.2) as server:
        session = await server.session()
        async with sending(server, session, size=8) as (reader, writer):
            for _ in range(8):
                await asyncio.sleep(0.15)
                writer.write(b"x")
            status, made = await answer_of(reader)
            assert (status, made["size"]) == (201, 8)


async def test_an_upload_that_breaks_off_leaves_nothing_and_its_key_is_free(
    server: Server,
) -> None:
    session = await server.session()
    async with sending(server, session, size=10_000_000) as (_, writer):
        writer.write(bytes(3_000_000))
        await writer.drain()
        await eventually(lambda: files(server))
    await eventually(lambda: not files(server))
    listed = await get(server, f"/sessions/{session}/attachments")
    assert listed["attachments"] == []

    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise OSError

    with suppress(OSError):
        await server.http.post(
            f"/sessions/{session}/attachments?name=orders.csv",
            content=broken(),
            headers={"idempotency-key": "k"},
        )
    assert (await upload(server, session, key="k")).status_code == 201


@pytest.mark.kill
@pytest.mark.parametrize(
    "failpoint", ["upload@2", pytest.param("keep.before", marks=pytest.mark.soak), "keep.after"]
)
async def test_a_kill_in_an_upload_leaves_no_file_that_is_listed_and_a_sweep_clears_up(
    fresh_database: str, tmp_path: Path, failpoint: str
) -> None:
    settings = {"attachment_timeout": 0.9, "attachment_grace": 1.0, "forget_interval": 0.2}
    folder = tmp_path / "attachments"
    content = bytes(range(256)) * 9_000
    async with process(tmp_path, fresh_database, failpoint=failpoint, attachment_timeout=9) as one:
        session = await one.session()
        with pytest.raises(httpx.HTTPError):
            await upload(one, session, content, key="k")
        await one.end()
    assert kept(folder)
    async with process(tmp_path, fresh_database, **settings) as two:
        listed = await get(two, f"/sessions/{session}/attachments")
        assert listed["attachments"] == []
        await eventually(lambda: not kept(folder))
        made = await attached(two, session, content, key="k")
        path = f"/sessions/{session}/attachments/{made['id']}/content"
        assert (await two.http.get(path)).content == content
        await asyncio.sleep(1.5)  # some sweeps later
        assert (await two.http.get(path)).content == content


def kept(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_eight_uploads_at_once_keep_memory_flat(fresh_database: str, tmp_path: Path) -> None:
    piece = bytes(100_000)

    async def large(first: bytes) -> AsyncIterator[bytes]:
        yield first
        for _ in range(300):
            yield piece

    async with process(
        tmp_path, fresh_database, max_attachment_bytes=100_000_000,
        max_session_attachment_bytes=GB,
    ) as server:  # fmt: skip
        session = await server.session()
        path = f"/sessions/{session}/attachments?name=x"
        assert (await server.http.post(path, content=large(b"!"))).status_code == 201
        before = peak(server)
        answers = await asyncio.gather(
            *(server.http.post(path, content=large(b"%d" % n)) for n in range(8))
        )
        assert {answer.json()["size"] for answer in answers} == {30_000_001}
        grown = peak(server) - before
    assert grown < 8 * 5_000_000, f"{grown:,} bytes for eight uploads of 30 MB"


def peak(server: Process) -> int:
    """The most memory that the process has had, in bytes."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024
