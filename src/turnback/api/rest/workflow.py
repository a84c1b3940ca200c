"""The workflow at HEAD: read it, put a host's document in its place."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from turnback.api.rest.answer import PROBLEMS, json_answer
from turnback.api.rest.commands import CommandAnswer
from turnback.api.rest.conditions import ANY, CONDITIONAL, IF_NONE_MATCH, TAGGED, is_known, tags
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


def tag_of(workflow: Workflow) -> str:
    """A workflow's `ETag`: its content address, as `afterHash` of a step has it."""
    return f'"{workflow.hash}"'


def document(request: Request, workflow: Workflow) -> Response:
    """A workflow as it is stored, with its content address as `ETag`; 304 where that is known."""
    headers = {"etag": tag_of(workflow)}
    if is_known(request, headers["etag"]):
        return Response(status_code=304, headers=headers)
    return Response(workflow.encoded(), media_type="application/json", headers=headers)


DOCUMENT: dict[str, Any] = {
    "responses": CONDITIONAL
    | {200: {"content": {"application/json": {"schema": SCHEMA}}, **TAGGED}},
    "openapi_extra": {"parameters": [IF_NONE_MATCH]},
}
"""A route that answers with `document`, as OpenAPI has it."""


@router.get("/sessions/{session_id}/workflow", **DOCUMENT)
async def get_workflow(request: Request, session_id: str) -> Response:
    """The workflow at HEAD: the save. Its `ETag` is its content address."""
    actor = await actor_of(request, session_id)
    workflow = await actor.memory.workflow_of(actor.memory.tree.workflow)
    return document(request, workflow)


@router.put(
    "/sessions/{session_id}/workflow",
    status_code=200,
    response_model=CommandAnswer,
    responses={
        200: TAGGED,
        204: {"description": "The document is equal to the one at HEAD.", **TAGGED},
    },
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
    """Put a host application's document in place of the one that `If-Match` names; 204 if equal.

    The answer's `ETag` is the document's own, for the next `If-Match`.
    """
    match = tags(request, "If-Match")
    if match is None:
        raise PreconditionRequired("Send `If-Match` with the `ETag` of the workflow you read")
    sessions, principal = sessions_of(request), principal_of(request)
    workflow = load_json(await read_body(request), **workflow_limits(sessions.settings))
    actor = await actor_of(request, session_id)
    # By the strong comparison: a weak tag is the address of no document.
    made_on = None if match == [ANY] else frozenset(tag.strip('"') for tag in match)
    done = await actor.ask(Asked(PutWorkflow(workflow, made_on), principal))
    headers = {"etag": tag_of(workflow)}
    if done.turn_id is None:
        return Response(status_code=204, headers=headers)
    answer = {"headId": done.head_id, "eventSeq": done.event_seq, "turnId": done.turn_id}
    return json_answer(answer, headers=headers)
