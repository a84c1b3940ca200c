"""Forks: a session of one's own from a boundary of another, where sessions come from, and what a
fork was made for."""

from __future__ import annotations

from dataclasses import replace
from time import time
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from turnback.api.rest.answer import CREATED, PROBLEMS, json_answer
from turnback.api.rest.cursors import CURSOR, cursor_of, place_of
from turnback.api.rest.idempotency import IDEMPOTENCY_KEY, idempotent, response
from turnback.api.rest.request import (
    WHOLE,
    Body,
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
)
from turnback.api.rest.sessions import Name, SessionBody, session_body
from turnback.core.errors import BadInput, TooLarge
from turnback.core.lineage import Boundary, Fork, Lineage, Side
from turnback.core.pending import PendingAction, PendingMode
from turnback.core.values import counted
from turnback.sessions.commands import Asked, ClaimAction, ReleaseAction
from turnback.store.families import Family, Relative
from turnback.store.ids import ID, is_id
from turnback.store.keys import Answer

PAGE = 50
"""Children in a page where no `limit` is named."""

router = APIRouter(responses=PROBLEMS)

Id = Annotated[str, Field(json_schema_extra={"pattern": ID.pattern})]
ClaimId = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]


class BoundaryBody(Body):
    """Before or after a turn on the path to HEAD."""

    turn_id: Annotated[str, Field(max_length=200)]
    position: Literal["before", "after"]


class ForkSession(Body):
    """A fork. Without `boundary` it inherits everything that is visible at HEAD.

    `mode` leaves a pending action: the prompt that the boundary is before, or `draft` in its place,
    is to be sent again. `inherited_turn_count` is what the caller believes to be inherited; another
    count is refused. `target_session_id` makes a retry find the same fork, as `Idempotency-Key`
    does.
    """

    target_session_id: Id | None = None
    boundary: BoundaryBody | None = None
    mode: Literal["edit", "rerun"] | None = None
    draft: Annotated[str, Field(min_length=1, pattern=r"^[^\x00]+$")] | None = None
    name: Name | None = None
    description: Annotated[str, Field(max_length=2_000, pattern=r"^[^\x00]*$")] | None = None
    inherited_turn_count: Annotated[int, Field(ge=0, le=2**31 - 1), WHOLE] | None = None


class BoundaryAnswer(BaseModel):
    """The turn that a fork's caller named, and the side of it."""

    turn_id: str
    position: Literal["before", "after"]


class LineageBody(BaseModel):
    """Where a fork comes from; `depth` sessions are above it, `cutoff_id` is its last inherited
    step.

    `parent_id` is null where the parent may not be read; `boundary` where none was named.
    """

    parent_id: str | None
    boundary: BoundaryAnswer | None
    inherited_turn_count: int
    cutoff_id: str
    depth: int
    description: str | None


class PendingBody(BaseModel):
    """The prompt that is to be sent again, with `turn_key`; `claimed`: a client is at it."""

    mode: Literal["edit", "rerun"]
    draft: str
    turn_key: str
    state: Literal["pending", "claimed"]
    claimed_until: int | None


class ForkAnswer(BaseModel):
    """The fork, where it comes from, and what is pending."""

    session: SessionBody
    lineage: LineageBody
    pending_action: PendingBody | None


class LineageQuery(Body):
    """Which session's lineage, and which page of its children."""

    session_id: str
    cursor: Annotated[str, Field(json_schema_extra={"pattern": CURSOR.pattern})] | None = None
    limit: Annotated[int, Field(ge=1, json_schema_extra=setting("page_limit")), WHOLE] | None = None


class RelativeBody(BaseModel):
    """A session of the same family; `name` is null where it is deleted."""

    session_id: str
    name: str | None
    archived: bool
    deleted: bool


class ChildBody(RelativeBody):
    """A fork of the session, and where it leaves it."""

    boundary: BoundaryAnswer | None
    inherited_turn_count: int


class LineageAnswer(BaseModel):
    """A session's lineage (null: it is no fork), the sessions above it from its parent on, and a
    page of its forks, newest first. Only those that the caller may read are among them.
    """

    session_id: str
    lineage: LineageBody | None
    ancestors: list[RelativeBody]
    children: list[ChildBody]
    next_cursor: str | None


class PendingAnswer(BaseModel):
    """The session's pending action; null: it has none, or it is done."""

    pending_action: PendingBody | None


class ClaimBody(Body):
    """A claim, by an id of the client's own making."""

    claim_id: ClaimId


@router.post(
    "/sessions/{session_id}/fork",
    status_code=201,
    response_model=ForkAnswer,
    responses={
        200: {"model": ForkAnswer, "description": "It had been made before, by the same request."},
        201: CREATED,
    },
    openapi_extra=body_of(ForkSession) | {"parameters": [IDEMPOTENCY_KEY]},
)
async def fork_session(request: Request, session_id: str) -> Response:
    """Fork a session: one of your own that goes on from a boundary of it; nothing is copied.

    The same request again is answered 200 with the same fork, whatever has become of the session.
    """
    raw = await read_body(request)
    async with idempotent(request, raw) as claim:
        if claim.answer is None:
            asked = _fork(request, session_id, claim.id, parsed(ForkSession, object_of(raw)))
            sessions, principal = sessions_of(request), principal_of(request)
            made = await sessions.dao.fork(
                principal,
                asked,
                now=sessions.now(),
                max_depth=sessions.settings.max_fork_depth,
            )
            row = await sessions.dao.session(principal, asked.child_id)
            answer = {
                "session": await session_body(request, row),
                "lineage": _lineage(made.lineage),
            }
            body = orjson.dumps(answer).decode()
            claim.answer = Answer(201 if made.is_new else 200, body, f"/sessions/{row.key.id}")
        return response(await _with_pending(request, claim.answer))


@router.post(
    "/sessions/lineage/query", response_model=LineageAnswer, openapi_extra=body_of(LineageQuery)
)
async def query_lineage(request: Request) -> Response:
    """Where a session comes from, and a page of what was forked from it, newest first."""
    body: LineageQuery = parsed(LineageQuery, await read_object(request))
    before = place_of(body.cursor)
    limit = page_size(request, body.limit, usual=PAGE)
    dao, principal = sessions_of(request).dao, principal_of(request)
    key = await dao.key(principal, body.session_id)
    family = await dao.families.of(principal, key, before=before, limit=limit + 1)
    return json_answer({"session_id": key.id} | _family(family, limit))


@router.get("/sessions/{session_id}/pending-action", response_model=PendingAnswer)
async def get_pending_action(request: Request, session_id: str) -> Response:
    """What a fork was made for, until its first own turn is complete."""
    row = await sessions_of(request).dao.session(principal_of(request), session_id)
    return json_answer({"pending_action": _pending(row.pending)})


@router.post(
    "/sessions/{session_id}/pending-action/claim",
    response_model=PendingAnswer,
    openapi_extra=body_of(ClaimBody),
)
async def claim_pending_action(request: Request, session_id: str) -> Response:
    """Be at the pending action, for `pending_claim_time` or until the process ends.

    The same `claim_id` again is the same claim, for longer. Send the prompt with its `turn_key`.
    """
    body: ClaimBody = parsed(ClaimBody, await read_object(request))
    return await _asked(request, session_id, ClaimAction(body.claim_id))


@router.post(
    "/sessions/{session_id}/pending-action/release",
    response_model=PendingAnswer,
    openapi_extra=body_of(ClaimBody),
)
async def release_pending_action(request: Request, session_id: str) -> Response:
    """Leave the pending action to others; it stays as it was."""
    body: ClaimBody = parsed(ClaimBody, await read_object(request))
    return await _asked(request, session_id, ReleaseAction(body.claim_id))


async def _with_pending(request: Request, kept: Answer) -> Answer:
    """The answer with what is pending now. What is kept of it quotes no prompt: that may be purged,
    and a turn that failed has given the action another key."""
    members = orjson.loads(kept.body)
    row = await sessions_of(request).dao.session(principal_of(request), members["session"]["id"])
    body = orjson.dumps(members | {"pending_action": _pending(row.pending)}).decode()
    return replace(kept, body=body)


async def _asked(
    request: Request, session_id: str, command: ClaimAction | ReleaseAction
) -> Response:
    actor, principal = await actor_of(request, session_id), principal_of(request)
    await actor.ask(Asked(command, principal))
    row = await sessions_of(request).dao.session(principal, session_id)
    return json_answer({"pending_action": _pending(row.pending)})


def _fork(request: Request, session_id: str, reserved: str, body: ForkSession) -> Fork:
    """The fork as asked. Raises `BadInput`, `TooLarge`."""
    if body.target_session_id is not None and not is_id(body.target_session_id):
        raise BadInput("`target_session_id` must be a UUID in lower case")
    boundary = None
    if body.boundary is not None:
        boundary = Boundary(body.boundary.turn_id, Side(body.boundary.position))
    if body.mode is not None and (boundary is None or boundary.position is not Side.BEFORE):
        raise BadInput("`mode` needs a `boundary` that is `before` the prompt to send again")
    if body.draft is not None and body.mode is None:
        raise BadInput("`draft` needs a `mode`, which says what is to be done with it")
    limit = sessions_of(request).settings.max_prompt_bytes
    if len((body.draft or "").encode()) > limit:
        raise TooLarge(
            f"A prompt may have {counted(limit, 'byte')} (`max_prompt_bytes`)",
            limit="max_prompt_bytes",
            value=limit,
        )
    return Fork(
        source_id=session_id,
        child_id=body.target_session_id or reserved,
        boundary=boundary,
        mode=None if body.mode is None else PendingMode(body.mode),
        draft=body.draft,
        name=body.name,
        description=body.description,
        count=body.inherited_turn_count,
    )


def _boundary(boundary: Boundary | None) -> dict[str, Any] | None:
    if boundary is None:
        return None
    return {"turn_id": boundary.turn_id, "position": boundary.position}


def _lineage(lineage: Lineage, *, parent_hidden: bool = False) -> dict[str, Any]:
    return {
        "parent_id": None if parent_hidden else lineage.parent_id,
        "boundary": _boundary(lineage.boundary),
        "inherited_turn_count": lineage.inherited_turn_count,
        "cutoff_id": lineage.cutoff.step_id,
        "depth": lineage.depth,
        "description": lineage.description,
    }


def _pending(action: PendingAction | None) -> dict[str, Any] | None:
    if action is None:
        return None
    now = round(time() * 1000)
    claim = action.claim_at(now)
    return {
        "mode": action.mode,
        "draft": action.draft,
        "turn_key": action.turn_key,
        "state": action.state_at(now),
        "claimed_until": None if claim is None else claim.until,
    }


def _relative(relative: Relative) -> dict[str, Any]:
    return {
        "session_id": relative.id,
        "name": relative.name,
        "archived": relative.is_archived,
        "deleted": relative.is_deleted,
    }


def _family(family: Family, limit: int) -> dict[str, Any]:
    lineage, page = family.lineage, family.children[:limit]
    return {
        "lineage": None
        if lineage is None
        else _lineage(lineage, parent_hidden=family.parent_hidden),
        "ancestors": [_relative(relative) for relative in family.ancestors],
        "children": [
            _relative(child)
            | {
                "boundary": _boundary(child.lineage.boundary),
                "inherited_turn_count": child.lineage.inherited_turn_count,
            }
            for child in page
        ],
        "next_cursor": cursor_of(page[-1].place) if len(family.children) > limit else None,
    }
