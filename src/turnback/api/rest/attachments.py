"""Attachments: upload, list, look at, download, remove (lineage.md 8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from datetime import datetime
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from turnback.api.download import RANGE, download
from turnback.api.rest.answer import CREATED, PROBLEMS, json_answer
from turnback.api.rest.conditions import IF_NONE_MATCH, TAGGED
from turnback.api.rest.cursors import bad_cursor
from turnback.api.rest.idempotency import IDEMPOTENCY_KEY, idempotent, response
from turnback.api.rest.request import page_size, principal_of, sessions_of, setting
from turnback.core.attachments import TYPES, cleaned
from turnback.core.errors import Archived, QueueFull, TooLarge, TooSlow
from turnback.core.principal import Right
from turnback.core.values import counted
from turnback.settings import Settings
from turnback.store.attachments import AttachmentRow, Room
from turnback.store.ids import ID, is_id
from turnback.store.keys import Answer
from turnback.store.rows import SessionKey

PAGE = 50
"""Attachments in a page where no `limit` is named."""

router = APIRouter(responses=PROBLEMS)

FILE = {"schema": {"type": "string", "format": "binary"}}
FILES = dict.fromkeys(sorted(TYPES), FILE)


class AttachmentBody(BaseModel):
    """A file. `session_id` is the session that it was attached in, `type` what its bytes say.

    `state` `removed`: what is said of it here is all that is left.
    """

    id: str
    session_id: str
    name: str
    type: str
    size: int
    sha256: str
    state: Literal["ready", "removed"]
    by: str
    created_at: datetime


class AttachmentList(BaseModel):
    """A page of the files that the session may read, newest first."""

    attachments: list[AttachmentBody]
    next_cursor: str | None


def _attachment(row: AttachmentRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "session_id": row.session_id,
        "name": row.name,
        "type": row.type,
        "size": row.size,
        "sha256": row.sha256,
        "state": "ready" if row.ready else "removed",
        "by": row.principal,
        "created_at": row.created_at,
    }


@router.post(
    "/sessions/{session_id}/attachments",
    status_code=201,
    response_model=AttachmentBody,
    responses={201: CREATED},
    openapi_extra={
        "requestBody": {"required": True, "content": {"application/octet-stream": FILE}},
        "parameters": [IDEMPOTENCY_KEY],
    },
)
async def upload(
    request: Request, session_id: str, name: Annotated[str, Query(max_length=1_000)]
) -> Response:
    """Attach a file: the body is its bytes, `name` what it is called.

    What type it is of is told by the bytes, and the name is cleaned. It has to come within
    `attachment_timeout`, and have `max_attachment_bytes` at most; prompts name it by its `id`.
    """
    sessions, principal = sessions_of(request), principal_of(request)
    settings, attachments = sessions.settings, sessions.dao.attachments
    key = await sessions.dao.key(principal, session_id, right=Right.RUN)
    row = await sessions.dao.session(principal, session_id)
    if row.archived_at is not None:
        raise Archived("The session is archived; unarchive it to go on")
    name = cleaned(name)
    with _place(request):
        async with (
            aclosing(_body(request, settings)) as body,
            attachments.files.receiving(body) as received,
            idempotent(request, f"{name}\n{received.sha256}".encode()) as claim,
        ):
            if claim.answer is None:
                # It may have come for long, and the right may be gone.
                await sessions.dao.key(principal, session_id, right=Right.RUN)
                added = await attachments.add(
                    principal,
                    key,
                    received,
                    attachment_id=claim.id,
                    name=name,
                    room=Room(
                        max_session_attachments=settings.max_session_attachments,
                        max_session_attachment_bytes=settings.max_session_attachment_bytes,
                    ),
                    now=sessions.now(),
                )
                path = f"/sessions/{session_id}/attachments/{added.id}"
                claim.answer = Answer(201, orjson.dumps(_attachment(added)).decode(), path)
            return response(claim.answer)


@router.get("/sessions/{session_id}/attachments", response_model=AttachmentList)
async def list_attachments(
    request: Request,
    session_id: str,
    cursor: Annotated[str | None, Query(json_schema_extra={"pattern": ID.pattern})] = None,
    limit: Annotated[int | None, Query(ge=1, json_schema_extra=setting("page_limit"))] = None,
) -> Response:
    """The files that the session may read, newest first: its own, and those it was forked with."""
    if cursor is not None and not is_id(cursor):
        raise bad_cursor()
    limit = page_size(request, limit, usual=PAGE)
    key = await _readable(request, session_id)
    rows = await sessions_of(request).dao.attachments.page(
        principal_of(request), key, before=cursor, limit=limit + 1
    )
    page = rows[:limit]
    return json_answer(
        {
            "attachments": [_attachment(row) for row in page],
            "next_cursor": page[-1].id if len(rows) > limit else None,
        }
    )


@router.get("/sessions/{session_id}/attachments/{attachment_id}", response_model=AttachmentBody)
async def get_attachment(request: Request, session_id: str, attachment_id: str) -> Response:
    """What is known of a file, of a removed one too."""
    key = await _readable(request, session_id)
    attachments = sessions_of(request).dao.attachments
    return json_answer(
        _attachment(await attachments.get(principal_of(request), key, attachment_id))
    )


@router.get(
    "/sessions/{session_id}/attachments/{attachment_id}/content",
    response_class=Response,
    responses={
        200: {"description": "The file.", "content": FILES, **TAGGED},
        206: {
            "description": "The range that was asked for.",
            "content": FILES,
            **TAGGED,
        },
        304: {"description": "It is as the client has it.", **TAGGED},
    },
    openapi_extra={"parameters": [IF_NONE_MATCH, *RANGE]},
)
async def content(request: Request, session_id: str, attachment_id: str) -> Response:
    """The bytes of a file, whole or a range of them, to be saved and not shown."""
    key = await _readable(request, session_id)
    attachments = sessions_of(request).dao.attachments
    row, file = await attachments.open(principal_of(request), key, attachment_id)
    return download(request, file, name=row.name, type_=row.type, etag=row.sha256)


@router.delete("/sessions/{session_id}/attachments/{attachment_id}", status_code=204)
async def remove_attachment(request: Request, session_id: str, attachment_id: str) -> Response:
    """Remove a file, for everyone who could read it: for the session's forks too."""
    dao, principal = sessions_of(request).dao, principal_of(request)
    key = await dao.key(principal, session_id, right=Right.RUN)
    await dao.session(principal, session_id)
    await dao.attachments.remove(principal, key, attachment_id)
    return Response(status_code=204)


async def _readable(request: Request, session_id: str) -> SessionKey:
    row = await sessions_of(request).dao.session(principal_of(request), session_id)
    return row.key


async def _body(request: Request, settings: Settings) -> AsyncGenerator[bytes, None]:
    """The body as it comes. Raises `TooLarge` without reading on, `TooSlow`."""
    limit, seconds = settings.max_attachment_bytes, settings.attachment_timeout
    too_large = TooLarge(
        f"A file may have {counted(limit, 'byte')} (`max_attachment_bytes`)",
        limit="max_attachment_bytes",
        value=limit,
    )
    said = request.headers.get("content-length", "")
    if said.isascii() and said.isdigit() and int(said[:19]) > limit:
        raise too_large
    deadline = asyncio.get_running_loop().time() + seconds
    chunks, size = aiter(request.stream()), 0
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                chunk = await anext(chunks)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise TooSlow(
                f"A file may take {seconds:g} seconds to come (`attachment_timeout`)",
                limit="attachment_timeout",
                value=seconds,
            ) from None
        size += len(chunk)
        if size > limit:
            raise too_large
        yield chunk


@contextmanager
def _place(request: Request) -> Iterator[None]:
    """Within it, one more file is coming to this process. Raises `QueueFull`."""
    state, most = request.app.state, sessions_of(request).settings.max_uploads
    coming: int = getattr(state, "uploads", 0)
    if coming >= most:
        raise QueueFull(
            f"{counted(most, 'file')} may be coming at once (`max_uploads`); try again in a moment"
        )
    state.uploads = coming + 1
    try:
        yield
    finally:
        state.uploads -= 1
