"""The bytes of attachments, in a local folder: `<project>/<sha256>`, and uploads under way.

The one place that knows where bytes lie; another kind of storage would be another class with these
methods. Whatever touches the disk runs in a thread. Processes that share a database share the
folder.
"""

from __future__ import annotations

import asyncio
import codecs
import hashlib
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, TypeVar

import structlog

from turnback.core.attachments import HEAD, sniffed
from turnback.core.errors import StorageFailed
from turnback.core.principal import NAME
from turnback.failpoints import hit
from turnback.store.ids import new_id

log = structlog.get_logger()

T = TypeVar("T")

UPLOADS = ".uploads"
"""The folder of what is still coming: no project's, for none begins with a dot."""

BLOCK = 1 << 20
"""Bytes that are written at once: all that an upload holds in memory."""

PIECE = 1 << 18
"""Bytes that are read at once."""

_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Received:
    """An upload that has come whole and lies in a file of its own. `sha256` in hexadecimal."""

    path: Path
    size: int
    sha256: str
    type: str


class OpenFile:
    """A file that is being read: what is opened can be read to its end, whoever removes it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = os.fstat(file.fileno()).st_size

    async def pieces(self, first: int, last: int) -> AsyncIterator[bytes]:
        """The bytes from `first` to `last`, both included."""
        at = first
        while at <= last:
            piece = await asyncio.to_thread(
                os.pread, self._file.fileno(), min(PIECE, last + 1 - at), at
            )
            if not piece:
                raise StorageFailed("A file is shorter than it was: its disk may be damaged")
            at += len(piece)
            yield piece

    async def read(self) -> bytes:
        """All of it; then it is closed."""
        try:
            return b"".join([piece async for piece in self.pieces(0, self.size - 1)])
        finally:
            self.close()

    def close(self) -> None:
        """Let go of it."""
        self._file.close()


class Files:
    """The folder. It is made with the first upload."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @asynccontextmanager
    async def receiving(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[Received]:
        """Take `chunks` to the disk while they come; the file goes at the end, unless it is kept.

        Raises `StorageFailed`, and whatever `chunks` raises.
        """
        path = self._folder / UPLOADS / new_id()
        try:
            writing = await self._on_disk(_Writing, path)
            try:
                waiting, size = [], 0
                async for chunk in chunks:
                    waiting.append(chunk)
                    size += len(chunk)
                    if size >= BLOCK:
                        await self._on_disk(writing.write, waiting)
                        hit("upload")
                        waiting, size = [], 0
                await self._on_disk(writing.write, waiting)
                received = await self._on_disk(writing.finish)
            finally:
                await asyncio.shield(asyncio.to_thread(writing.file.close))
            yield received
        finally:
            await asyncio.shield(asyncio.to_thread(path.unlink, missing_ok=True))

    async def keep(self, received: Received, project_id: str) -> None:
        """Put an upload in its place for good, over the same bytes if they are there already."""

        def keep() -> None:
            place = self._place(project_id, received.sha256)
            place.parent.mkdir(parents=True, exist_ok=True)
            os.replace(received.path, place)
            _sync(place.parent)

        await self._on_disk(keep)

    async def open(self, project_id: str, sha256: str) -> OpenFile | None:
        """The file of these bytes, to be closed; None where it is missing."""

        def opened() -> OpenFile | None:
            try:
                return OpenFile(self._place(project_id, sha256).open("rb"))
            except FileNotFoundError:
                return None

        return await self._on_disk(opened)

    async def remove(self, project_id: str, sha256: str) -> None:
        """Remove a file, if it is there."""
        await self._on_disk(self._place(project_id, sha256).unlink, True)

    async def forget_uploads(self, *, older_than: float) -> int:
        """Remove what crashes have left of uploads, if nothing came for `older_than` seconds."""

        def forget() -> int:
            before, removed = time.time() - older_than, 0
            with suppress(FileNotFoundError), os.scandir(self._folder / UPLOADS) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):
                        if entry.stat().st_mtime < before:
                            os.unlink(entry.path)
                            removed += 1
            return removed

        return await self._on_disk(forget)

    async def kept(self) -> list[tuple[str, list[str]]]:
        """The hashes of what lies in the folder, by project."""

        def listed() -> Iterator[tuple[str, list[str]]]:
            with suppress(FileNotFoundError):
                for project in sorted(self._folder.iterdir()):
                    if project.name != UPLOADS and project.is_dir():
                        names = [name for name in os.listdir(project) if _HASH.fullmatch(name)]
                        yield project.name, names

        return await self._on_disk(lambda: list(listed()))

    def _place(self, project_id: str, sha256: str) -> Path:
        assert NAME.fullmatch(project_id)
        assert _HASH.fullmatch(sha256)
        return self._folder / project_id / sha256

    async def _on_disk(self, act: Callable[..., T], *args: object) -> T:
        try:
            return await asyncio.to_thread(act, *args)
        except OSError as error:
            log.error("attachments not reachable", folder=str(self._folder), error=error.strerror)
            raise StorageFailed(
                "The files of attachments cannot be read or written; nothing has changed, try "
                "again later"
            ) from error


@dataclass(slots=True)
class _Writing:
    """An upload under way. Its methods block."""

    path: Path
    file: BinaryIO = field(init=False)
    head: bytes = b""
    size: int = 0
    is_text: bool = True

    def __post_init__(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.file = self.path.open("xb", buffering=0)

    _hash: hashlib._Hash = field(init=False, default_factory=hashlib.sha256)
    _decoder: codecs.IncrementalDecoder = field(
        init=False, default_factory=codecs.getincrementaldecoder("utf-8")
    )

    def write(self, chunks: list[bytes]) -> None:
        block = b"".join(chunks)
        self.head += block[: HEAD - len(self.head)]
        self.size += len(block)
        self._hash.update(block)
        self._look(block)
        left = memoryview(block)
        while left:
            left = left[self.file.write(left) :]

    def finish(self) -> Received:
        self._look(b"", final=True)
        os.fsync(self.file.fileno())
        return Received(
            path=self.path,
            size=self.size,
            sha256=self._hash.hexdigest(),
            type=sniffed(self.head, is_text=self.is_text),
        )

    def _look(self, block: bytes, *, final: bool = False) -> None:
        """Whether it is text still: UTF-8, without what no text holds."""
        if not self.is_text:
            return
        try:
            self._decoder.decode(block, final)
        except UnicodeDecodeError:
            self.is_text = False
        self.is_text = self.is_text and not block.translate(None, _IN_TEXT)


_IN_TEXT = bytes([*b"\t\n\f\r\x1b", *range(0x20, 0x7F), *range(0x80, 0x100)])


def _sync(folder: Path) -> None:
    """Make a new name in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
