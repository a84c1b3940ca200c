"""Sessions: create, list and search, get, rename, archive, delete."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from turnback.api.rest.answer import CREATED, PROBLEMS, json_answer
from turnback.api.rest.cursors import CURSOR, cursor_of, place_of
from turnback.api.rest.idempotency import IDEMPOTENCY_KEY, idempotent, response
from turnback.api.rest.request import (
    Body,
    WorkflowDocument,
    actor_of,
    body_of,
    object_of,
    page_size,
    parsed,
    principal_of,
    read_body,
    read_object,
    sessions_of,
    setting,
    workflow_limits,
)
from turnback.api.rest.settings import ChangeRunSettings, RunSettingsBody
from turnback.core.principal import Right, Visibility
from turnback.core.run_settings import RunSettingsChange, refuse_looser
from turnback.core.tree import State
from turnback.core.workflow import EMPTY, load
from turnback.sessions.commands import Asked, Change, Delete
from turnback.store.dao import SessionTaken
from turnback.store.keys import Answer
from turnback.store.rows import SessionRow

PAGE = 50
"""Sessions in a page where no `limit` is named."""

router = APIRouter(responses=PROBLEMS)

Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]
Model = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]


class CreateSession(Body):
    """A new session. `workflow` is the canvas document it begins with, an empty one if left out."""

    workflow: WorkflowDocument | None = None
    name: Name | None = None
    model: Model | None = None
    settings: ChangeRunSettings | None = None


class ChangeSession(Body):
    """What to change of a session; a run under way keeps its model and settings to its end.

    `visibility`: `project` for everyone with a role in it, `private` for its owner alone; both
    beside who has a grant, and the project's owners.
    """

    name: Name | None = None
    archived: bool | None = None
    model: Model | None = None
    settings: ChangeRunSettings | None = None
    visibility: Literal["project", "private"] | None = None


class SessionBody(BaseModel):
    """A session, as listed. `rights`: what the caller may do with it.

    `waiting`: a call of the turn under way waits for a person.
    """

    id: str
    name: str
    model: str
    state: Literal["AVAILABLE", "GENERATING", "STOPPING"]
    waiting: bool
    owner: str
    visibility: Literal["project", "private"]
    rights: list[Literal["read", "run", "fork", "manage"]]
    archived: bool
    head_id: str
    revision: int
    settings: RunSettingsBody
    created_at: datetime
    updated_at: datetime


class SessionList(BaseModel):
    """A page of sessions, newest first; `next_cursor` is null on the last."""

    sessions: list[SessionBody]
    next_cursor: str | None


async def session_body(request: Request, row: SessionRow) -> dict[str, Any]:
    """A session as its caller sees it."""
    [body] = await session_bodies(request, [row])
    return body


async def session_bodies(request: Request, rows: Sequence[SessionRow]) -> list[dict[str, Any]]:
    """Sessions as their caller sees them."""
    dao, principal = sessions_of(request).dao, principal_of(request)
    rights = await dao.access.each(principal, [row.key for row in rows])
    busy = [row.key for row in rows if row.state is not State.AVAILABLE]
    waiting = await dao.approvals.waiting(busy)
    return [_session(row, rights[row.key], waiting=row.key.id in waiting) for row in rows]


def _session(row: SessionRow, rights: frozenset[Right], *, waiting: bool) -> dict[str, Any]:
    return {
        "id": row.key.id,
        "name": row.name,
        "model": row.model,
        "state": row.state,
        "waiting": waiting,
        "owner": row.owner,
        "visibility": row.visibility,
        "rights": [right for right in Right if right in rights],
        "archived": row.archived_at is not None,
        "head_id": row.head.step_id,
        "revision": row.revision,
        "settings": row.settings.members,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
    }


@router.post(
    "/sessions",
    status_code=201,
    response_model=SessionBody,
    responses={201: CREATED},
    openapi_extra=body_of(CreateSession) | {"parameters": [IDEMPOTENCY_KEY]},
)
async def create_session(request: Request) -> Response:
    """Create a session, with an initial workflow if one is given."""
    raw = await read_body(request)
    async with idempotent(request, raw) as claim:
        if claim.answer is None:
            asked: CreateSession = parsed(CreateSession, object_of(raw))
            row = await created(
                request,
                claim.id,
                name=asked.name,
                model=asked.model,
                workflow=asked.workflow,
                settings=asked.settings.change() if asked.settings else {},
            )
            body = orjson.dumps(await session_body(request, row)).decode()
            claim.answer = Answer(201, body, f"/sessions/{row.key.id}")
        return response(claim.answer)


async def created(
    request: Request,
    session_id: str,
    *,
    name: str | None,
    model: str | None,
    workflow: dict[str, Any] | None,
    settings: RunSettingsChange,
) -> SessionRow:
    """Make the session of this id, unless it has been made.

    Raises what `load` and `model` do, and `NotStricter`.
    """
    sessions, principal = sessions_of(request), principal_of(request)
    document = EMPTY
    if workflow is not None:
        document = load(workflow, **workflow_limits(sessions.settings))
    refuse_looser(settings, sessions.settings)
    model = model or sessions.settings.model
    await sessions.model(model)
    with suppress(SessionTaken):  # by an attempt with the same key that was cut off
        await sessions.dao.create(
            principal,
            session_id=session_id,
            name=name or "Untitled",
            model=model,
            workflow=document,
            now=sessions.now(),
            settings=settings,
        )
    return await sessions.dao.session(principal, session_id)


@router.get("/sessions", response_model=SessionList)
async def list_sessions(
    request: Request,
    q: Annotated[str | None, Query(max_length=200)] = None,
    archived: bool = False,
    cursor: Annotated[str | None, Query(json_schema_extra={"pattern": CURSOR.pattern})] = None,
    limit: Annotated[int | None, Query(ge=1, json_schema_extra=setting("page_limit"))] = None,
) -> Response:
    """List and search sessions, newest first; `q` is a part of the name."""
    before = place_of(cursor)
    query = (q or "").replace("\x00", "") or None
    limit = page_size(request, limit, usual=PAGE)
    rows = await sessions_of(request).dao.sessions(
        principal_of(request), query=query, archived=archived, before=before, limit=limit + 1
    )
    page = rows[:limit]
    return json_answer(
        {
            "sessions": await session_bodies(request, page),
            "next_cursor": cursor_of(page[-1].place) if len(rows) > limit else None,
        }
    )


@router.get("/sessions/{session_id}", response_model=SessionBody)
async def get_session(request: Request, session_id: str) -> Response:
    """One session."""
    row = await sessions_of(request).dao.session(principal_of(request), session_id)
    return json_answer(await session_body(request, row))


@router.patch(
    "/sessions/{session_id}",
    response_model=SessionBody,
    openapi_extra=body_of(ChangeSession),
)
async def change_session(request: Request, session_id: str) -> Response:
    """Rename, archive or unarchive a session; another model or other settings for its next run;
    who sees it, for who manages it. All of it or nothing."""
    body: ChangeSession = parsed(ChangeSession, await read_object(request))
    actor = await actor_of(request, session_id)
    if body.model is not None:
        await sessions_of(request).model(body.model)
    settings = body.settings.change() if body.settings else None
    visibility = None if body.visibility is None else Visibility(body.visibility)
    command = Change(body.name, body.archived, body.model, settings, visibility)
    await actor.ask(Asked(command, principal_of(request)))
    row = await sessions_of(request).dao.session(principal_of(request), session_id)
    return json_answer(await session_body(request, row))


@router.delete("/sessions/{session_id}", status_code=204)
async def delete_session(request: Request, session_id: str) -> Response:
    """Delete a session: a run under way is stopped first, and every socket is told."""
    actor = await actor_of(request, session_id)
    await actor.ask(Asked(Delete(), principal_of(request)))
    return Response(status_code=204)


class PurgeAnswer(BaseModel):
    """What a purge has removed: rows of each kind, and workflow parts that nothing else needs."""

    records: int
    turns: int
    events: int
    requests: int
    attachments: int
    blobs: int


@router.post("/sessions/{session_id}/purge", response_model=PurgeAnswer)
async def purge_session(request: Request, session_id: str) -> Response:
    """Remove for good what a deleted session has said; its forks lose what they inherit of it."""
    sessions = sessions_of(request)
    erased = await sessions.dao.purge(
        principal_of(request), session_id, batch=sessions.settings.sweep_batch
    )
    return json_answer(asdict(erased))
