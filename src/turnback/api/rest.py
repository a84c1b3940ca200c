"""REST, for scripts: the same commands, and the reads (protocol.md 3).

Bodies are snake_case, but for what speaks in frames: a command's body and its answer, and a
workflow, which is passed through as it is. `snake` is the one place that renames.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turnback import __version__
from turnback.api import encode
from turnback.api.frames import V1_TYPES, Unparsed, parse_object
from turnback.core.errors import BadInput, InvalidFormat, PreconditionRequired, TooLarge
from turnback.core.lineage import ROOT_ID
from turnback.core.operators import CATALOG
from turnback.core.principal import LOCAL, Principal
from turnback.core.values import parse
from turnback.core.workflow import EMPTY, Diff, Workflow, diff, load, load_json
from turnback.sessions.actor import Actor
from turnback.sessions.commands import Asked, Change, Delete, PutWorkflow
from turnback.sessions.registry import Sessions
from turnback.settings import Settings
from turnback.store.ids import is_id, new_id
from turnback.store.rows import Record, SessionRow


class Problem(BaseModel):
    """An error, as RFC 9457 has it; `code` is the one that the socket would say."""

    type: Literal["about:blank"]
    title: str
    status: int
    detail: str
    code: str
    data: dict[str, Any]


PROBLEM: dict[str, Any] = {
    "description": "Refused: `code` says why.",
    "content": {"application/problem+json": {"schema": Problem.model_json_schema()}},
}
router = APIRouter(responses={422: PROBLEM, "default": PROBLEM})

Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]
Model = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class CreateSession(_Body):
    """A new session. `workflow` is the canvas document it begins with, an empty one if left out."""

    workflow: dict[str, Any] | None = None
    name: Name | None = None
    model: Model | None = None


class ChangeSession(_Body):
    """What to change of a session."""

    name: Name | None = None
    archived: bool | None = None


class SessionBody(BaseModel):
    """A session, as listed."""

    id: str
    name: str
    model: str
    state: Literal["AVAILABLE", "GENERATING", "STOPPING"]
    archived: bool
    head_id: str
    revision: int
    created_at: datetime
    updated_at: datetime


class SessionList(BaseModel):
    """A page of sessions, newest first; `next_cursor` is null on the last."""

    sessions: list[SessionBody]
    next_cursor: str | None


class CommandAnswer(BaseModel):
    """A command that has been carried out: HEAD and the last `eventSeq` after it."""

    headId: str
    eventSeq: int
    turnId: str | None = None


def _sessions(request: Request) -> Sessions:
    sessions: Sessions = request.app.state.sessions
    return sessions


def _principal(request: Request) -> Principal:
    return LOCAL


async def _actor(request: Request, session_id: str) -> Actor:
    actor = await _sessions(request).get(_principal(request), session_id)
    await actor.refresh()
    return actor


async def _body(request: Request) -> bytes:
    limit = _sessions(request).settings.max_body
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise TooLarge(
                f"A body may have {limit} bytes (`max_body`)", limit="max_body", value=limit
            )
        chunks.append(chunk)
    return b"".join(chunks)


async def _object(request: Request) -> dict[str, Any]:
    body = await _body(request)
    try:
        parsed = parse(body or b"{}")
    except ValueError as error:
        raise InvalidFormat(f"The body is not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise InvalidFormat("The body must be a JSON object")
    return parsed


def _parsed(model: type[_Body], body: dict[str, Any]) -> Any:
    try:
        return model.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        path = "/".join(str(part) for part in first["loc"])
        raise BadInput(f"`{path}`: {first['msg']}", path=f"/{path}") from None


def _json(value: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(
        orjson.dumps(value), status_code=status, media_type="application/json", headers=headers
    )


def _page_size(request: Request, limit: int) -> int:
    most = _sessions(request).settings.page_limit
    if limit > most:
        raise BadInput(
            f"A page may have {most} rows (`page_limit`)", limit="page_limit", value=most
        )
    return limit


def _etags(header: str, *, weak: bool) -> list[str]:
    """The tags that `If-Match` or `If-None-Match` lists; weak ones where they count."""
    tags = [tag.strip() for tag in header.split(",")]
    return [tag.removeprefix("W/").strip('"') for tag in tags if weak or not tag.startswith("W/")]


def _limits(settings: Settings) -> dict[str, int]:
    return {"max_bytes": settings.max_workflow_bytes, "max_depth": settings.max_json_depth}


# -- sessions


def _session(row: SessionRow) -> dict[str, Any]:
    return {
        "id": row.key.id,
        "name": row.name,
        "model": row.model,
        "state": row.state,
        "archived": row.archived_at is not None,
        "head_id": row.head.step_id,
        "revision": row.revision,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
    }


def _json_body(description: str) -> dict[str, Any]:
    """The OpenAPI part for a body that is described elsewhere."""
    schema = {"type": "object", "description": description}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _body_of(model: type[BaseModel]) -> dict[str, Any]:
    """The OpenAPI part for a body that is read by hand, within `max_body`."""
    schema = model.model_json_schema()
    return {"requestBody": {"content": {"application/json": {"schema": schema}}}}


@router.post(
    "/sessions",
    status_code=201,
    response_model=SessionBody,
    openapi_extra=_body_of(CreateSession),
)
async def create_session(request: Request) -> Response:
    """Create a session, with an initial workflow if one is given."""
    sessions, principal = _sessions(request), _principal(request)
    raw = await _object(request)
    body: CreateSession = _parsed(CreateSession, raw)
    workflow = EMPTY
    if body.workflow is not None:
        workflow = load(body.workflow, **_limits(sessions.settings))
    model = body.model or sessions.settings.model
    await sessions.model(model)
    session_id = new_id()
    await sessions.dao.create(
        principal,
        session_id=session_id,
        name=body.name or "Untitled",
        model=model,
        workflow=workflow,
        now=sessions.now(),
    )
    row = await sessions.dao.session(principal, session_id)
    return _json(_session(row), status=201, headers={"location": f"/sessions/{session_id}"})


@router.get("/sessions", response_model=SessionList)
async def list_sessions(
    request: Request,
    q: Annotated[str | None, Query(max_length=200)] = None,
    archived: bool = False,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1)] = 50,
) -> Response:
    """List and search sessions, newest first; `q` is a part of the name."""
    if cursor is not None and not is_id(cursor):
        raise BadInput("`cursor` is not one of this server's; begin again without it")
    query = (q or "").replace("\x00", "") or None
    limit = _page_size(request, limit)
    rows = await _sessions(request).dao.sessions(
        _principal(request), query=query, archived=archived, before=cursor, limit=limit + 1
    )
    page = rows[:limit]
    return _json(
        {
            "sessions": [_session(row) for row in page],
            "next_cursor": page[-1].key.id if len(rows) > limit else None,
        }
    )


@router.get("/sessions/{session_id}", response_model=SessionBody)
async def get_session(request: Request, session_id: str) -> Response:
    """One session."""
    row = await _sessions(request).dao.session(_principal(request), session_id)
    return _json(_session(row))


@router.patch(
    "/sessions/{session_id}",
    response_model=SessionBody,
    openapi_extra=_body_of(ChangeSession),
)
async def change_session(request: Request, session_id: str) -> Response:
    """Rename, archive or unarchive a session."""
    body: ChangeSession = _parsed(ChangeSession, await _object(request))
    actor = await _actor(request, session_id)
    await actor.ask(Asked(Change(body.name, body.archived), _principal(request)))
    row = await _sessions(request).dao.session(_principal(request), session_id)
    return _json(_session(row))


@router.delete("/sessions/{session_id}", status_code=204)
async def delete_session(request: Request, session_id: str) -> Response:
    """Delete a session: a run under way is stopped first, and every socket is told."""
    actor = await _actor(request, session_id)
    await actor.ask(Asked(Delete(), _principal(request)))
    return Response(status_code=204)


@router.post(
    "/sessions/{session_id}/commands",
    status_code=202,
    response_model=CommandAnswer,
    openapi_extra=_json_body("A client frame: `ClientFrame` in `frames.schema.json`."),
)
async def command(request: Request, session_id: str) -> Response:
    """Carry out a command: the body is a client frame of the socket.

    The answer's `turnId` is what a revert of that turn names as `messageId`.
    """
    raw = await _object(request)
    sessions, principal = _sessions(request), _principal(request)
    try:
        asked = parse_object(
            raw, principal=principal, v1=True, max_edits=sessions.settings.max_edits
        )
    except Unparsed as unparsed:
        raise unparsed.error from None
    done = await (await _actor(request, session_id)).ask(asked)
    answer = {"headId": done.head_id, "eventSeq": done.event_seq}
    if done.turn_id is not None:
        answer["turnId"] = done.turn_id
    return _json(answer, status=202)


# -- steps


def snake(value: dict[str, Any]) -> dict[str, Any]:
    """A step's members renamed for REST; what tools took and gave is left as it is."""
    renamed: dict[str, Any] = {}
    for name, member in value.items():
        if name in ("toolCalls", "toolResults"):
            member = [snake(item) for item in member]
        elif name == "usage" and member is not None:
            member = snake(member)
        renamed[re.sub(r"([A-Z])", lambda m: "_" + m[1].lower(), name)] = member
    return renamed


def _step(record: Record) -> dict[str, Any]:
    step = snake(encode.step(record))
    step["turn_id"] = step.pop("message_id")
    step["record_index"] = step.pop("step_id")
    return step


@router.get("/sessions/{session_id}/steps")
async def steps(
    request: Request,
    session_id: str,
    before: str | None = None,
    limit: Annotated[int, Query(ge=1)] = 50,
    all: bool = False,
) -> Response:
    """The visible path, or with `all` every step, in pages from the newest; each oldest first.

    `before` is the `next_cursor` of the page before: a step's id, which stays good when HEAD moves.
    """
    limit = _page_size(request, limit)
    actor = await _actor(request, session_id)
    tree = actor.memory.tree
    if all:
        ids = list(tree.steps)
        end = ids.index(tree.step(before).id) if before else len(ids)
        page = ids[max(0, end - limit) : end]
        cursor = page[0] if end > limit else None
    else:
        start = tree.head if before is None else tree.position(tree.step(before).parent_id)
        found = [step.id for _, step in zip(range(limit + 1), tree.path(start), strict=False)]
        page = found[:limit][::-1]
        cursor = page[0] if len(found) > limit else None
    records = await _sessions(request).dao.records(_principal(request), actor.key, page)
    return _json({"steps": [_step(record) for record in records], "next_cursor": cursor})


@router.get("/sessions/{session_id}/steps/{step_id}/workflow")
async def step_workflow(
    request: Request,
    session_id: str,
    step_id: str,
    side: Literal["before", "after"] = "after",
) -> Response:
    """The workflow before or after a step; `step-initial` is the session's initial one."""
    actor = await _actor(request, session_id)
    hash_ = actor.memory.tree.workflow_at(actor.memory.tree.position(step_id).step_id)
    if side == "before" and step_id != ROOT_ID:
        hash_ = actor.memory.tree.step(step_id).before
    return _document(await actor.memory.workflow_of(hash_))


@router.get("/sessions/{session_id}/branches")
async def branches(request: Request, session_id: str) -> Response:
    """Where lines part: for each such step, the lines that follow it and the tip of each."""
    actor = await _actor(request, session_id)
    tree = actor.memory.tree
    parted = {
        line: {
            "step_id": line,
            "parent_id": parent,
            "turn_id": tree.steps[line].turn_id,
            "tip": tree.tip(line),
            "on_path": tree.is_visible(tree.steps[line]),
        }
        for parent, lines in tree.children.items()
        if len(lines) > 1
        for line in lines
    }
    records = await _sessions(request).dao.records(_principal(request), actor.key, list(parted))
    return _json(
        {
            "branches": [
                parted[record.step.id] | {"content": orjson.loads(record.payload)["content"][:200]}
                for record in records
            ]
        }
    )


# -- the workflow


def _document(workflow: Workflow) -> Response:
    return Response(
        workflow.encoded(),
        media_type="application/json",
        headers={"etag": f'"{workflow.hash}"'},
    )


@router.get("/sessions/{session_id}/workflow")
async def get_workflow(request: Request, session_id: str) -> Response:
    """The workflow at HEAD: the save. Its `ETag` is its content address."""
    actor = await _actor(request, session_id)
    workflow = await actor.memory.workflow_of(actor.memory.tree.workflow)
    known = _etags(request.headers.get("if-none-match", ""), weak=True)
    if workflow.hash in known or "*" in known:
        return Response(status_code=304, headers={"etag": f'"{workflow.hash}"'})
    return _document(workflow)


@router.put(
    "/sessions/{session_id}/workflow",
    status_code=200,
    response_model=CommandAnswer,
    responses={204: {"description": "The document is equal to the one at HEAD."}},
    openapi_extra=_json_body("The workflow document.")
    | {
        "parameters": [
            {
                "name": "If-Match",
                "in": "header",
                "required": True,
                "description": "The `ETag` of the workflow that was read, or `*`.",
                "schema": {"type": "string"},
            }
        ]
    },
)
async def put_workflow(request: Request, session_id: str) -> Response:
    """Put a host application's document in place of the one that `If-Match` names; 204 if equal."""
    match = request.headers.get("if-match")
    if match is None:
        raise PreconditionRequired("Send `If-Match` with the `ETag` of the workflow you read")
    sessions, principal = _sessions(request), _principal(request)
    workflow = load_json(await _body(request), **_limits(sessions.settings))
    actor = await _actor(request, session_id)
    known, here = _etags(match, weak=False), actor.memory.tree.workflow
    made_on = here if here in known or "*" in known else known[0] if known else ""
    done = await actor.ask(Asked(PutWorkflow(workflow, made_on), principal))
    if done.turn_id is None:
        return Response(status_code=204)
    return _json({"headId": done.head_id, "eventSeq": done.event_seq, "turnId": done.turn_id})


@router.get("/sessions/{session_id}/diff")
async def get_diff(
    request: Request,
    session_id: str,
    from_: Annotated[str, Query(alias="from")],
    to: str,
) -> Response:
    """What differs between the workflows after two steps: operators by property, and the rest."""
    actor = await _actor(request, session_id)
    tree = actor.memory.tree
    before = await actor.memory.workflow_of(tree.workflow_at(tree.position(from_).step_id))
    after = await actor.memory.workflow_of(tree.workflow_at(tree.position(to).step_id))
    return _json(_diff(diff(before, after)))


def _diff(found: Diff) -> dict[str, Any]:
    written = asdict(found)
    written["touched"] = sorted(found.touched)
    return written


# -- the server


@router.get("/operator-types")
async def operator_types() -> Response:
    """The operator types, with their ports and the JSON Schemas of their properties."""
    return _json({"types": CATALOG.as_list()})


@router.get("/capabilities")
async def capabilities(request: Request) -> Response:
    """What this server offers; what it does not name answers `not_available`."""
    settings = _sessions(request).settings
    return _json(
        {
            "version": __version__,
            "protocols": ["turnback.base", "turnback.v1"],
            "commands": sorted(V1_TYPES),
            "features": ["workflow.put", "since", "deltas", "branches", "diff"],
            "model": settings.model,
            "limits": {
                "ws_max_size": settings.ws_max_size,
                "max_body": settings.max_body,
                "max_prompt_bytes": settings.max_prompt_bytes,
                "max_workflow_bytes": settings.max_workflow_bytes,
                "max_edits": settings.max_edits,
                "max_redo_depth": settings.max_redo_depth,
            },
        }
    )


@router.get("/healthz")
async def healthz() -> Response:
    """Whether the process is alive."""
    return _json({"status": "ok"})


@router.get("/readyz")
async def readyz(request: Request) -> Response:
    """Whether it can serve: the database answers, and it is not going down. 503 otherwise."""
    sessions = _sessions(request)
    await sessions.ready()
    return _json({"status": "ready"})
