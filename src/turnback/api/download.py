"""Sending a file: whole or a range of it, as something to save and never to run (RFC 9110, 6266).

One range is served. Of several, or of one that is not understood, the whole file is sent, as
RFC 9110 (14.2) leaves it to the server.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from turnback.api.head import is_head
from turnback.api.rest.conditions import is_known
from turnback.core.errors import RangeNotSatisfiable
from turnback.core.values import counted
from turnback.store.files import OpenFile

INERT = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox; default-src 'none'",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "private, no-cache",
}
"""Whatever a file holds, a browser that is shown it runs none of it, and asks again each time."""

RANGE: list[dict[str, Any]] = [
    {
        "name": "Range",
        "in": "header",
        "required": False,
        "description": "One range of bytes, as in `bytes=0-499`, `bytes=500-` or `bytes=-500`.",
        "schema": {"type": "string"},
    },
    {
        "name": "If-Range",
        "in": "header",
        "required": False,
        "description": "The `ETag` of what the client has a part of; if it is another, all comes.",
        "schema": {"type": "string"},
    },
]

_ONE_RANGE = re.compile(r"bytes=[ \t]*(\d*)-(\d*)[ \t]*", re.IGNORECASE | re.ASCII)
_PLAIN = re.compile(r"[A-Za-z0-9 !#$&+.^_`|~()\[\]{}@,;='-]+")


def download(request: Request, file: OpenFile, *, name: str, type_: str, etag: str) -> Response:
    """The answer to a request for a file, which is closed when it has been sent.

    `etag` comes without its quotes. Raises `RangeNotSatisfiable`; then nothing is left open.
    """
    tag = f'"{etag}"'
    headers = INERT | {
        "etag": tag,
        "accept-ranges": "bytes",
        "content-disposition": disposition(name),
        "content-type": f"{type_}; charset=utf-8" if type_.startswith("text/") else type_,
    }
    try:
        if is_known(request, tag):
            file.close()
            return Response(status_code=304, headers=INERT | {"etag": tag})
        part = None if is_head(request.scope) else _range(request, file.size, tag)
    except BaseException:
        file.close()
        raise
    if part is None:
        headers["content-length"] = str(file.size)
        return _Sending(file, 0, file.size - 1, status_code=200, headers=headers)
    first, last = part
    headers["content-range"] = f"bytes {first}-{last}/{file.size}"
    headers["content-length"] = str(last - first + 1)
    return _Sending(file, first, last, status_code=206, headers=headers)


def disposition(name: str) -> str:
    """`Content-Disposition` for saving under `name` (RFC 6266): plain, and in UTF-8 beside it."""
    if _PLAIN.fullmatch(name):
        return f'attachment; filename="{name}"'
    plain = "".join(c if _PLAIN.fullmatch(c) else "_" for c in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def _range(request: Request, size: int, tag: str) -> tuple[int, int] | None:
    """The first and the last byte that are asked for; None where all are."""
    asked = request.headers.getlist("range")
    if len(asked) != 1 or request.headers.getlist("if-range") not in ([], [tag]):
        return None
    found = _ONE_RANGE.fullmatch(asked[0])
    if found is None or not (found[1] or found[2]):
        return None
    # Longer numbers are behind the end of any file, and cost time to read.
    begin, end = (int(digits[:19]) if digits else None for digits in found.groups())
    if begin is None:
        assert end is not None
        first, last = max(0, size - end), size - 1
    else:
        if end is not None and end < begin:
            return None
        first, last = begin, size - 1 if end is None else min(end, size - 1)
    if first > last:
        raise RangeNotSatisfiable(f"The file has {counted(size, 'byte')}", size=size)
    return first, last


class _Sending(StreamingResponse):
    """A file on its way; however that ends, it is closed."""

    def __init__(self, file: OpenFile, first: int, last: int, **more: Any) -> None:
        super().__init__(_nothing() if last < first else file.pieces(first, last), **more)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if is_head(scope):
                self.body_iterator = _nothing()
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield
