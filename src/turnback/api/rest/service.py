"""The service itself: what it offers, whether it is alive and ready."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel

from turnback import __version__
from turnback.api.frames import V1_TYPES
from turnback.api.rest.answer import PROBLEMS, json_answer
from turnback.api.rest.request import sessions_of
from turnback.core.operators import CATALOG
from turnback.telemetry import metrics

router = APIRouter(responses=PROBLEMS)


class OperatorTypes(BaseModel):
    """The operator types: `type`, ports, and the JSON Schema of the properties of each."""

    types: list[dict[str, Any]]


class Capabilities(BaseModel):
    """What this server offers: subprotocols, commands, features, limits by their setting's name."""

    version: str
    protocols: list[str]
    commands: list[str]
    features: list[str]
    model: str
    limits: dict[str, int | float]


class Health(BaseModel):
    """`ok` where it is alive, `ready` where it can serve."""

    status: Literal["ok", "ready"]


@router.get("/operator-types", response_model=OperatorTypes)
async def operator_types() -> Response:
    """The operator types, with their ports and the JSON Schemas of their properties."""
    return json_answer({"types": CATALOG.as_list()})


@router.get("/capabilities", response_model=Capabilities)
async def capabilities(request: Request) -> Response:
    """What this server offers; what it does not name answers `not_available`."""
    settings = sessions_of(request).settings
    return json_answer(
        {
            "version": __version__,
            "protocols": ["turnback.base", "turnback.v1"],
            "commands": sorted(V1_TYPES),
            "features": [
                "workflow.put",
                "since",
                "deltas",
                "branches",
                "diff",
                "revert-preview",
                "confirm",
                "keepEdits",
                "commands.wait",
                "idempotency",
                "transcript",
                "usage",
                "settings",
                "lineage.v1",
                "attachments",
                "keys",
                "approvals",
                "person",
                "effects",
                "undo",
                "residues",
                "tools",
            ],
            "model": settings.model,
            "limits": {
                "ws_max_size": settings.ws_max_size,
                "max_body": settings.max_body,
                "max_prompt_bytes": settings.max_prompt_bytes,
                "max_workflow_bytes": settings.max_workflow_bytes,
                "max_edits": settings.max_edits,
                "max_attachment_bytes": settings.max_attachment_bytes,
                "max_session_attachments": settings.max_session_attachments,
                "max_session_attachment_bytes": settings.max_session_attachment_bytes,
                "max_prompt_attachments": settings.max_prompt_attachments,
                "attachment_timeout": settings.attachment_timeout,
                "max_redo_depth": settings.max_redo_depth,
                "max_fork_depth": settings.max_fork_depth,
                "page_limit": settings.page_limit,
                "transcript_limit": settings.transcript_limit,
                "max_steps": settings.max_steps,
                "run_timeout": settings.run_timeout,
                "tool_timeout": settings.tool_timeout,
                "approval_ttl": settings.approval_ttl,
                "max_tool_output": settings.max_tool_output,
            },
        }
    )


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={200: {"description": "The metrics, in Prometheus' text format."}},
)
async def scrape(request: Request) -> Response:
    """What is counted and timed in this process."""
    now = sessions_of(request).census()
    # It takes some milliseconds, which nobody else need wait for.
    text = await asyncio.to_thread(metrics.render, now)
    return Response(text, media_type=metrics.CONTENT_TYPE)


@router.get("/healthz", response_model=Health)
async def healthz() -> Response:
    """Whether the process is alive."""
    return json_answer({"status": "ok"})


@router.get("/readyz", response_model=Health)
async def readyz(request: Request) -> Response:
    """Whether it can serve: the database answers, and it is not going down. 503 otherwise."""
    sessions = sessions_of(request)
    await sessions.ready()
    return json_answer({"status": "ready"})
