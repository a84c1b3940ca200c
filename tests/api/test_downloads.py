"""Downloads of attachments: ranges, conditions, and nothing that a browser would run."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from attaching import attached, files
from processes import eventually
from rest import problem
from serving import Server

CONTENT = bytes(range(256)) * 4
TAG = f'"{hashlib.sha256(CONTENT).hexdigest()}"'


@dataclass
class File:
    """A file on the server."""

    server: Server
    path: str

    async def get(self, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.server.http.get(self.path, headers=named)


@pytest.fixture(scope="module")
async def file(standing: Server) -> File:
    session = await standing.session()
    made = await attached(standing, session, CONTENT, name="all bytes.bin")
    return File(standing, f"/sessions/{session}/attachments/{made['id']}/content")


async def test_the_whole_file_is_sent_to_be_saved_and_not_run(file: File) -> None:
    answer = await file.get()
    assert (answer.status_code, answer.content) == (200, CONTENT)
    assert answer.headers["content-length"] == str(len(CONTENT))
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["etag"] == TAG
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["content-disposition"] == 'attachment; filename="all bytes.bin"'
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "private, no-cache"


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [
        ("bytes=0-0", 0, 0),
        ("bytes=0-", 0, 1023),
        ("bytes=10-19", 10, 19),
        ("bytes=1023-", 1023, 1023),
        ("bytes=1000-5000", 1000, 1023),
        ("bytes=1000-" + "9" * 400, 1000, 1023),
        ("bytes=-1", 1023, 1023),
        ("bytes=-5000", 0, 1023),
        ("BYTES= 5-6", 5, 6),
    ],
)
async def test_a_range_is_sent_as_what_it_is(file: File, asked: str, first: int, last: int) -> None:
    answer = await file.get(range=asked)
    assert (answer.status_code, answer.content) == (206, CONTENT[first : last + 1])
    assert answer.headers["content-range"] == f"bytes {first}-{last}/1024"
    assert answer.headers["content-length"] == str(last - first + 1)
    assert answer.headers["etag"] == TAG


@pytest.mark.parametrize("asked", ["bytes=1024-", "bytes=5000-6000", "bytes=-0"])
async def test_a_range_behind_the_end_is_refused_with_the_size(file: File, asked: str) -> None:
    answer = await file.get(range=asked)
    assert problem(answer, 416, "range_not_satisfiable")["data"] == {"size": 1024}
    assert answer.headers["content-range"] == "bytes */1024"


@pytest.mark.parametrize(
    "asked",
    [
        "bytes=5-4",
        "bytes=-",
        "bytes=a-b",
        "bytes=0-1,3-4",
        "bytes 0-1",
        "lines=0-1",
        "bytes=٣-٤",
        "",
    ],
)
async def test_what_is_no_single_range_is_answered_with_the_whole(file: File, asked: str) -> None:
    answer = await file.server.http.get(file.path, headers=[(b"range", asked.encode())])
    assert (answer.status_code, answer.content) == (200, CONTENT)


async def test_a_part_is_completed_only_if_it_is_a_part_of_this_file(file: File) -> None:
    assert (await file.get(range="bytes=5-", if_range=TAG)).status_code == 206
    for other in ('"other"', f"W/{TAG}", "Mon, 30 Nov 2026 10:00:00 GMT"):
        answer = await file.get(range="bytes=5-", if_range=other)
        assert (answer.status_code, answer.content) == (200, CONTENT)


async def test_who_has_it_is_not_sent_it_again(file: File) -> None:
    for known in (TAG, f"W/{TAG}", f'"other", {TAG}', "*"):
        answer = await file.get(if_none_match=known, range="bytes=0-1")
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["etag"] == TAG
    assert (await file.get(if_none_match='"other"')).status_code == 200


async def test_head_says_the_same_without_reading_the_file(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await file.get()
    monkeypatch.delattr("os.pread")
    for headers in ({}, {"range": "bytes=0-1"}):  # a range is for GET alone (RFC 9110, 14.2)
        answer = await file.server.http.head(file.path, headers=headers)
        assert (answer.status_code, answer.content) == (200, b"")
        said = [h for h in answer.headers.items() if h[0] not in ("date", "x-request-id")]
        assert dict(said).items() <= whole.headers.items()
        assert answer.headers["content-length"] == "1024"


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("a.txt", 'attachment; filename="a.txt"'),
        ("50% off.txt", "attachment; filename=\"50_ off.txt\"; filename*=UTF-8''50%25%20off.txt"),
        ("Ämter.txt", "attachment; filename=\"_mter.txt\"; filename*=UTF-8''%C3%84mter.txt"),
    ],
)
async def test_a_file_is_saved_under_its_name(standing: Server, name: str, header: str) -> None:
    session = await standing.session()
    made = await attached(standing, session, name=name)
    path = f"/sessions/{session}/attachments/{made['id']}/content"
    answer = await standing.http.get(path)
    assert answer.headers["content-disposition"] == header
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


async def test_an_empty_file_has_no_range(standing: Server) -> None:
    session = await standing.session()
    made = await attached(standing, session, b"")
    path = f"/sessions/{session}/attachments/{made['id']}/content"
    answer = await standing.http.get(path)
    assert (answer.status_code, answer.content) == (200, b"")
    for asked in ("bytes=0-", "bytes=-5"):
        answer = await standing.http.get(path, headers={"range": asked})
        problem(answer, 416, "range_not_satisfiable")


async def test_who_has_begun_a_download_gets_all_of_it_though_it_is_removed(
    server: Server,
) -> None:
    content = bytes(10_000_000)
    session = await server.session()
    made = await attached(server, session, content)
    path = f"/sessions/{session}/attachments/{made['id']}"
    async with server.http.stream("GET", f"{path}/content") as answer:
        chunks = answer.aiter_raw()
        got = len(await anext(chunks))
        assert (await server.http.delete(path)).status_code == 204
        server.settings.attachments_folder.joinpath("local", made["sha256"]).unlink()
        async for chunk in chunks:
            got += len(chunk)
    assert got == len(content)
    problem(await server.http.get(f"{path}/content"), 410, "attachment_gone")


async def test_a_download_that_is_broken_off_lets_go_of_the_file(server: Server) -> None:
    session = await server.session()
    made = await attached(server, session, bytes(20_000_000))
    path = f"/sessions/{session}/attachments/{made['id']}/content"
    [there] = files(server)
    for _ in range(3):
        async with server.http.stream("GET", path) as answer:
            await anext(answer.aiter_raw())
    await eventually(lambda: there not in opened())


def opened() -> list[Path]:
    """The files that this process, which is the server too, has open."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(entry.readlink())
    return found
