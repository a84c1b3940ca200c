"""The workflow at HEAD: read it, put a host's document in its place."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from turnback.api.rest.answer import PROBLEMS, json_answer
from turnback.api.rest.commands import CommandAnswer
from turnback.api.rest.request import (
    actor_of,
    described_by,
    principal_of,
    read_body,
    sessions_of,
    workflow_limits,
)
from turnback.core.errors import PreconditionRequired
from turnback.core.workflow import SCHEMA, Workflow, load_json
from turnback.sessions.commands import Asked, PutWorkflow

router = APIRouter(responses=PROBLEMS)


def tags(header: str, *, weak: bool) -> list[str]:
    """The tags that `If-Match` or `If-None-Match` lists; weak ones where they count."""
    tags = [tag.strip() for tag in header.split(",")]
    return [tag.removeprefix("W/").strip('"') for tag in tags if weak or not tag.startswith("W/")]


def document(workflow: Workflow) -> Response:
    """A workflow as it is stored, with its content address as `ETag`."""
    return Response(
        workflow.encoded(),
        media_type="application/json",
        headers={"etag": f'"{workflow.hash}"'},
    )


@router.get("/sessions/{session_id}/workflow")
async def get_workflow(request: Request, session_id: str) -> Response:
    """The workflow at HEAD: the save. Its `ETag` is its content address."""
    actor = await actor_of(request, session_id)
    workflow = await actor.memory.workflow_of(actor.memory.tree.workflow)
    known = tags(request.headers.get("if-none-match", ""), weak=True)
    if workflow.hash in known or "*" in known:
        return Response(status_code=304, headers={"etag": f'"{workflow.hash}"'})
    return document(workflow)


@router.put(
    "/sessions/{session_id}/workflow",
    status_code=200,
    response_model=CommandAnswer,
    responses={204: {"description": "The document is equal to the one at HEAD."}},
    openapi_extra=described_by(SCHEMA)
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
    sessions, principal = sessions_of(request), principal_of(request)
    workflow = load_json(await read_body(request), **workflow_limits(sessions.settings))
    actor = await actor_of(request, session_id)
    known, here = tags(match, weak=False), actor.memory.tree.workflow
    made_on = here if here in known or "*" in known else known[0] if known else ""
    done = await actor.ask(Asked(PutWorkflow(workflow, made_on), principal))
    if done.turn_id is None:
        return Response(status_code=204)
    return json_answer({"headId": done.head_id, "eventSeq": done.event_seq, "turnId": done.turn_id})
