"""The public proposal's own addresses, `/api/agents…`: an agent there is a session here.

Bodies have the shapes that a panel for Apache Texera's agent service reads and writes: camelCase,
and an `error` sentence in what is refused. Nothing is done here that the socket or REST does not
do; `docs/decisions/0016` has what is left out and why.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, Literal

import orjson
from fastapi import APIRouter, Request, Response, WebSocket
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict

from turnback.agent.canvas import CANVAS_TOOLS
from turnback.agent.models import OFFLINE
from turnback.agent.prompt import instructions, workflow_block, workflow_bytes
from turnback.api import encode, problems, socket, whole
from turnback.api.base_frames import BaseStep
from turnback.api.frames import AgentState
from turnback.api.rest.answer import Problem, json_answer
from turnback.api.rest.idempotency import IDEMPOTENCY_KEY, idempotent, response
from turnback.api.rest.request import (
    Body,
    WorkflowDocument,
    actor_of,
    body_of,
    object_of,
    parsed,
    principal_of,
    read_body,
    read_object,
    sessions_of,
)
from turnback.api.rest.sessions import Model, Name, created
from turnback.core.errors import NotAvailable, TurnbackError
from turnback.core.lineage import ROOT_ID
from turnback.core.operators import CATALOG
from turnback.sessions.commands import Asked, Checkout, Delete, Stop
from turnback.settings import Settings
from turnback.store.keys import Answer
from turnback.store.rows import SessionRow


class Refused(Problem):
    """A problem, with its sentence as `error` too: there a panel looks for it."""

    error: str


REFUSED: dict[str, Any] = {
    "description": "Refused: `error` says why, `code` says it to a program.",
    "content": {"application/problem+json": {"schema": Refused.model_json_schema()}},
}


class _Route(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_refusals(request: Request) -> Response:
            try:
                return await handle(request)
            except TurnbackError as error:
                answer = problems.response(error)
                body = problems.problem(error) | {"error": error.message}
                answer.body = orjson.dumps(body, default=str)
                answer.headers["content-length"] = str(len(answer.body))
                return answer

        return handle_refusals


router = APIRouter(
    prefix="/api/agents",
    tags=["agents"],
    route_class=_Route,
    responses={422: REFUSED, "default": REFUSED},
)


class AgentSettings(Body):
    """The limits that a run has. A member left out is not spoken of."""

    model_config = ConfigDict(extra="ignore", strict=True)

    maxOperatorResultCharLimit: int | None = None
    toolTimeoutSeconds: float | None = None
    executionTimeoutMinutes: float | None = None
    disabledTools: list[str] | None = None
    maxSteps: int | None = None
    allowedOperatorTypes: list[str] | None = None


class CreateAgent(Body):
    """A new agent. `modelType` is a model's name as `TURNBACK_MODEL` has it, or the bare name of
    one behind `TURNBACK_MODEL_BASE_URL`; left out, the server's model.

    `workflow` is the canvas document it begins with. A `workflowId` or `computingUnitId` of a host
    application is no concern of this service: the host gives it the document.
    """

    model_config = ConfigDict(extra="ignore", strict=True)

    modelType: Model | None = None
    name: Name | None = None
    workflow: WorkflowDocument | None = None
    settings: AgentSettings | None = None


class Agent(BaseModel):
    """An agent, as listed."""

    id: str
    name: str
    modelType: str
    state: AgentState
    createdAt: datetime
    settings: AgentSettings


class AgentList(BaseModel):
    """The newest agents that are not archived, at most `page_limit`."""

    agents: list[Agent]


class WholeAgent(Agent):
    """An agent with its workflow at HEAD and how many steps it has, on all branches."""

    workflow: dict[str, Any] | None
    stepCount: int


class ReactSteps(BaseModel):
    """Every step, on all branches, as a base socket's snapshot has them."""

    steps: list[BaseStep]
    state: AgentState


class Tool(BaseModel):
    """A tool as the model is told of it."""

    name: str
    description: str
    inputSchema: dict[str, Any]


class SystemInfo(BaseModel):
    """What the model is told ahead of the conversation, with the workflow at HEAD in it."""

    systemPrompt: str
    tools: list[Tool]


class AgentOperatorType(BaseModel):
    """An operator type that the agent may add."""

    type: str
    description: str


class Deleted(BaseModel):
    """The agent is gone."""

    deleted: Literal[True]


class Stopping(BaseModel):
    """The run ends, if there is one; the socket tells when it has."""

    status: Literal["stopping"]


class Cleared(BaseModel):
    """The conversation is empty again; the steps stay in the tree."""

    status: Literal["cleared"]


def _settings(settings: Settings) -> dict[str, Any]:
    return {
        "maxOperatorResultCharLimit": settings.max_tool_output,
        "toolTimeoutSeconds": settings.tool_timeout,
        "executionTimeoutMinutes": settings.run_timeout / 60,
        "disabledTools": sorted(settings.disabled_tools),
        "maxSteps": settings.max_steps,
        "allowedOperatorTypes": list(CATALOG.types),
    }


SETTING = {
    "maxOperatorResultCharLimit": "TURNBACK_MAX_TOOL_OUTPUT",
    "toolTimeoutSeconds": "TURNBACK_TOOL_TIMEOUT",
    "executionTimeoutMinutes": "TURNBACK_RUN_TIMEOUT",
    "maxSteps": "TURNBACK_MAX_STEPS",
}
"""Which of this server's settings a member of the proposal's settings is."""


def _refuse_changes(asked: AgentSettings, settings: Settings) -> None:
    """Raise `NotAvailable` where `asked` is not as it is: the limits are the server's."""
    held = _settings(settings)
    for name, value in asked.model_dump(exclude_none=True).items():
        if isinstance(value, list):
            same = sorted(value) == sorted(held[name])
        else:
            same = value == held[name]
        if not same:
            who = f"an administrator sets `{SETTING[name]}`" if name in SETTING else "they are all"
            raise NotAvailable(
                f"`{name}` cannot be changed for one agent: {who} for this server", setting=name
            )


def _agent(row: SessionRow, settings: Settings) -> dict[str, Any]:
    return {
        "id": row.key.id,
        "name": row.name,
        "modelType": row.model,
        "state": row.state,
        "createdAt": row.created_at,
        "settings": _settings(settings),
    }


def _model(model_type: str | None, settings: Settings) -> str:
    """A model's name: one behind the base URL may come bare, as a gateway lists it."""
    if model_type is None:
        return settings.model
    bare = model_type != OFFLINE and ":" not in model_type
    return f"openai:{model_type}" if bare and settings.model_base_url else model_type


@router.post(
    "",
    response_model=Agent,
    openapi_extra=body_of(CreateAgent) | {"parameters": [IDEMPOTENCY_KEY]},
)
async def create_agent(request: Request) -> Response:
    """Create an agent, with an initial workflow if one is given."""
    raw, settings = await read_body(request), sessions_of(request).settings
    async with idempotent(request, raw) as claim:
        if claim.answer is None:
            asked: CreateAgent = parsed(CreateAgent, object_of(raw))
            if asked.settings is not None:
                _refuse_changes(asked.settings, settings)
            model = _model(asked.modelType, settings)
            row = await created(
                request, claim.id, name=asked.name, model=model, workflow=asked.workflow
            )
            claim.answer = Answer(200, orjson.dumps(_agent(row, settings)).decode())
        return response(claim.answer)


@router.get("", response_model=AgentList)
async def list_agents(request: Request) -> Response:
    """The newest agents, at most `page_limit`; `GET /sessions` has pages of all."""
    sessions = sessions_of(request)
    rows = await sessions.dao.sessions(
        principal_of(request),
        query=None,
        archived=False,
        before=None,
        limit=sessions.settings.page_limit,
    )
    return json_answer({"agents": [_agent(row, sessions.settings) for row in rows]})


@router.get("/{agent_id}", response_model=WholeAgent)
async def get_agent(request: Request, agent_id: str) -> Response:
    """An agent with its workflow."""
    actor = await actor_of(request, agent_id)
    settings = sessions_of(request).settings
    view = actor.view(steps=0)
    whole_agent = _agent(actor.memory.row, settings) | {
        "name": view.name,
        "state": view.state,
        "workflow": encode.content(view.workflow),
        "stepCount": len(actor.memory.tree.steps),
    }
    return json_answer(whole_agent)


@router.delete("/{agent_id}", response_model=Deleted)
async def delete_agent(request: Request, agent_id: str) -> Response:
    """Delete an agent: a run under way is stopped first, and every socket is told."""
    actor = await actor_of(request, agent_id)
    await actor.ask(Asked(Delete(), principal_of(request)))
    return json_answer({"deleted": True})


@router.get("/{agent_id}/react-steps", response_model=ReactSteps)
async def react_steps(request: Request, agent_id: str) -> Response:
    """Every step, as the socket's first frame has them."""
    actor = await actor_of(request, agent_id)
    sessions = sessions_of(request)
    frame = await whole.base_snapshot(
        sessions.dao, principal_of(request), actor, max_bytes=sessions.settings.ws_max_send
    )
    return json_answer({"steps": frame["steps"], "state": frame["state"]})


@router.get("/{agent_id}/settings", response_model=AgentSettings)
async def get_settings(request: Request, agent_id: str) -> Response:
    """The limits that this agent's runs have: the server's."""
    await actor_of(request, agent_id)
    return json_answer(_settings(sessions_of(request).settings))


@router.patch(
    "/{agent_id}/settings",
    response_model=AgentSettings,
    openapi_extra=body_of(AgentSettings),
)
async def change_settings(request: Request, agent_id: str) -> Response:
    """Settings that are as they are already; `not_available` where one is to be changed."""
    asked: AgentSettings = parsed(AgentSettings, await read_object(request))
    await actor_of(request, agent_id)
    settings = sessions_of(request).settings
    _refuse_changes(asked, settings)
    return json_answer(_settings(settings))


@router.post("/{agent_id}/stop", response_model=Stopping)
async def stop(request: Request, agent_id: str) -> Response:
    """End the run that is under way; nothing if none is."""
    await (await actor_of(request, agent_id)).ask(Asked(Stop(), principal_of(request)))
    return json_answer({"status": "stopping"})


@router.post("/{agent_id}/clear", response_model=Cleared)
async def clear(request: Request, agent_id: str) -> Response:
    """The empty conversation and the initial workflow: a checkout, nothing is removed."""
    command = Asked(Checkout(ROOT_ID), principal_of(request))
    await (await actor_of(request, agent_id)).ask(command)
    return json_answer({"status": "cleared"})


@router.get("/{agent_id}/system-info", response_model=SystemInfo)
async def system_info(request: Request, agent_id: str) -> Response:
    """What the model is told ahead of the conversation, and the tools it has."""
    actor = await actor_of(request, agent_id)
    workflow = await actor.memory.workflow_of(actor.memory.tree.workflow)
    settings = sessions_of(request).settings
    most = workflow_bytes(settings.max_context_tokens)
    prompt = instructions(workflow_block(workflow, max_bytes=most), cut=False)
    tools = [
        {"name": tool.name, "description": tool.description, "inputSchema": tool.schema}
        for tool in CANVAS_TOOLS.values()
        if tool.name not in settings.disabled_tools
    ]
    return json_answer({"systemPrompt": prompt, "tools": tools})


@router.get("/{agent_id}/operator-types", response_model=list[AgentOperatorType])
async def operator_types(request: Request, agent_id: str) -> Response:
    """The operator types that the agent may add; `GET /operator-types` has their schemas."""
    await actor_of(request, agent_id)
    return json_answer(
        [{"type": kind.type, "description": kind.description} for kind in CATALOG.types.values()]
    )


@router.websocket("/{agent_id}/react")
async def react(websocket: WebSocket, agent_id: str) -> None:
    """The socket, as at `/sessions/{id}/ws`."""
    await socket.serve(websocket, agent_id)
