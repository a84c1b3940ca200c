"""Transcripts: the records that a reader sees at HEAD, oldest first; and what they come to.

A listing is of one HEAD: its cursors name the one it began at. A page is complete or an error.
The live session is not asked: the database has all of it.
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import asdict
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from turnback.api.rest.answer import PROBLEMS, json_answer
from turnback.api.rest.conditions import CONDITIONAL, IF_NONE_MATCH, is_known
from turnback.api.rest.records import RecordBody
from turnback.api.rest.request import (
    WHOLE,
    Body,
    body_of,
    page_size,
    parsed,
    principal_of,
    read_object,
    records_of,
    sessions_of,
    setting,
    waiting,
)
from turnback.core.errors import BadCursor, HistoryPurged, TranscriptNotReady
from turnback.store.ids import is_id
from turnback.store.rows import SessionKey
from turnback.store.transcripts import Place, TranscriptState

PAGE = 200
"""Records in a page where no `limit` is named."""

LOOK_AGAIN = 0.05
"""Seconds between two looks for `min_revision`."""

HIGHEST = 2**31 - 1

Limit = Annotated[int, Field(ge=1, json_schema_extra=setting("transcript_limit")), WHOLE]

router = APIRouter(responses=PROBLEMS)


class TranscriptQuery(Body):
    """Which session's transcript, and which page of it.

    `min_revision` is an `eventSeq` that the reader has been told of: what it reads is no older.
    """

    session_id: str
    cursor: Annotated[str, Field(max_length=400)] | None = None
    limit: Limit | None = None
    min_revision: Annotated[int, Field(ge=0, le=2**53 - 1), WHOLE] | None = None


class TranscriptPage(BaseModel):
    """A page, oldest first; `count` records. `next_cursor` is null on the last."""

    session_id: str
    count: int
    records: list[RecordBody]
    next_cursor: str | None


class UsageCounts(BaseModel):
    """What steps come to; tokens are those that the model's provider reported."""

    turns: int
    steps: int
    model_calls: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    total_tokens: int


class UsageAnswer(BaseModel):
    """The counts at HEAD, and of every step of the session, reverted ones included."""

    head_id: str
    revision: int
    visible: UsageCounts
    spent: UsageCounts


@router.post(
    "/sessions/transcript/query",
    response_model=TranscriptPage,
    openapi_extra=body_of(TranscriptQuery),
)
async def query_transcript(request: Request) -> Response:
    """A page of the effective transcript, oldest first."""
    body: TranscriptQuery = parsed(TranscriptQuery, await read_object(request))
    limit = _limit(request, body.limit)
    key = await sessions_of(request).dao.key(principal_of(request), body.session_id)
    if body.min_revision:
        await _wait(request, key, body.min_revision)
        # Rights may have gone while it waited.
        key = await sessions_of(request).dao.key(principal_of(request), body.session_id)
    return await _page(request, key, cursor=body.cursor, limit=limit)


@router.get(
    "/sessions/{session_id}/transcript",
    response_model=TranscriptPage,
    responses=CONDITIONAL,
    openapi_extra={"parameters": [IF_NONE_MATCH]},
)
async def get_transcript(
    request: Request,
    session_id: str,
    cursor: Annotated[str | None, Query(max_length=400)] = None,
    limit: Annotated[int | None, Query(ge=1, json_schema_extra=setting("transcript_limit"))] = None,
) -> Response:
    """A page of the effective transcript, oldest first; 304 where `If-None-Match` has its tag."""
    limit = _limit(request, limit)
    key = await sessions_of(request).dao.key(principal_of(request), session_id)
    if "if-none-match" in request.headers:
        etag = _etag(await sessions_of(request).dao.transcripts.state(principal_of(request), key))
        if is_known(request, etag):
            return Response(status_code=304, headers={"etag": etag})
    return await _page(request, key, cursor=cursor, limit=limit, tagged=True)


@router.get("/sessions/{session_id}/usage", response_model=UsageAnswer)
async def get_usage(request: Request, session_id: str) -> Response:
    """What the visible steps come to, and every step of the session."""
    dao, principal = sessions_of(request).dao, principal_of(request)
    key = await dao.key(principal, session_id)
    return json_answer(asdict(await dao.transcripts.usage(principal, key)))


def _limit(request: Request, limit: int | None) -> int:
    return page_size(request, limit, usual=PAGE, named="transcript_limit")


def _etag(state: TranscriptState) -> str:
    return f'"{state.head.step_id}.{state.revision}.{state.family_epoch}"'


async def _wait(request: Request, key: SessionKey, min_revision: int) -> None:
    """Wait until the session has come to `min_revision`.

    Raises `TranscriptNotReady` where it does not, `TooManyWaits`.
    """
    sessions, principal = sessions_of(request), principal_of(request)
    state = await sessions.dao.transcripts.state(principal, key)
    if state.revision >= min_revision:
        return
    loop = asyncio.get_running_loop()
    deadline = loop.time() + sessions.settings.transcript_wait
    with waiting(request):
        while loop.time() < deadline:
            await asyncio.sleep(LOOK_AGAIN)
            state = await sessions.dao.transcripts.state(principal, key)
            if state.revision >= min_revision:
                return
    raise TranscriptNotReady(
        f"The session is at revision {state.revision}, and not at {min_revision} yet; ask again in "
        "a moment",
        revision=state.revision,
    )


async def _page(
    request: Request, key: SessionKey, *, cursor: str | None, limit: int, tagged: bool = False
) -> Response:
    head, after = (None, 0) if cursor is None else _place(key, cursor)
    page, records = await records_of(request).page(
        principal_of(request), key, head=head, after=after, limit=limit
    )
    if page.purged is not None:
        first, last = page.purged
        raise HistoryPurged(
            "A part of this conversation was purged; it can be read up to there, and from after it",
            after=first,
            until=last,
            next_cursor=_cursor(key, page.head, last) if last < page.head.seq else None,
        )
    count, until = page.until - page.after, page.until
    next_cursor = _cursor(key, page.head, until) if until < page.head.seq else None
    before = b'{"session_id":%b,"count":%d,"records":[' % (orjson.dumps(key.id), count)
    body = b"".join((before, records, b'],"next_cursor":%b}' % orjson.dumps(next_cursor)))
    headers = {"etag": _etag(page.state)} if tagged else {}
    return Response(body, media_type="application/json", headers=headers)


# -- cursors: the session, the HEAD that the listing is of, and the last record given


def _cursor(key: SessionKey, head: Place, after: int) -> str:
    packed = orjson.dumps([key.id, head.branch_id, head.seq, after])
    return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()


def _place(key: SessionKey, cursor: str) -> tuple[Place, int]:
    """The HEAD that a listing began at, and the last record given. The store says whether that HEAD
    is reachable.
    """
    found = _unpacked(cursor)
    if found is None or found[0] != key.id:
        raise BadCursor("`cursor` is not one of this transcript's; begin again without it")
    _, branch_id, seq, after = found
    return Place(branch_id, seq), after


def _unpacked(cursor: str) -> tuple[str, str, int, int] | None:
    try:
        padded = cursor.encode() + b"=" * (-len(cursor) % 4)
        found: Any = orjson.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        session_id, branch_id, seq, after = found
    except (ValueError, TypeError):
        return None
    texts = isinstance(session_id, str) and isinstance(branch_id, str) and is_id(branch_id)
    numbers = type(seq) is int and type(after) is int and 0 <= after < seq <= HIGHEST
    return (session_id, branch_id, seq, after) if texts and numbers else None
