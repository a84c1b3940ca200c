"""The public proposal's own addresses, `/api/agents…`: an agent there is a session here.

Bodies have the shapes that a panel for Apache Texera's agent service reads and writes: camelCase,
and an `error` sentence in what is refused. Nothing is done here that the socket or REST does not
do; `docs/decisions/0016` has what is left out and why.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, cast

import orjson
from fastapi import APIRouter, Request, Response, WebSocket
from pydantic import BaseModel, ConfigDict, Field

from turnback.agent.canvas import CANVAS_TOOLS
from turnback.agent.prompt import instructions, workflow_block, workflow_bytes
from turnback.api import encode, problems, socket, whole
from turnback.api.base_frames import BaseStep
from turnback.api.members import AgentState
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
from turnback.api.rest.settings import Steps, ToolOutput, ToolTime
from turnback.core.errors import NotAvailable, NotStricter
from turnback.core.lineage import ROOT_ID
from turnback.core.operators import CATALOG
from turnback.core.run_settings import RunSettings, RunSettingsChange
from turnback.sessions.commands import Asked, Change, Checkout, Delete, Stop
from turnback.settings import OFFLINE, CanvasTool, Settings
from turnback.store.keys import Answer
from turnback.store.rows import SessionRow


class Refused(Problem):
    """A problem, with its sentence as `error` too: there a panel looks for it."""

    error: str


REFUSED: dict[str, Any] = {
    "description": "Refused: `error` says why, `code` says it to a program.",
    "content": {"application/problem+json": {"schema": Refused.model_json_schema()}},
}


router = APIRouter(
    prefix=problems.DOOR,
    tags=["agents"],
    responses={422: REFUSED, "default": REFUSED},
)


class AgentSettings(Body):
    """The limits that the agent's next run has. Null: the server's; left out: not spoken of."""

    model_config = ConfigDict(extra="ignore", strict=True)

    maxOperatorResultCharLimit: ToolOutput | None = None
    toolTimeoutSeconds: ToolTime | None = None
    executionTimeoutMinutes: Annotated[float, Field(gt=0)] | None = None
    disabledTools: list[CanvasTool] | None = None
    maxSteps: Steps | None = None
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


SETTING = {
    "maxOperatorResultCharLimit": "max_tool_output",
    "toolTimeoutSeconds": "tool_timeout",
    "executionTimeoutMinutes": "run_timeout",
    "maxSteps": "max_steps",
}
"""Which setting each number among the proposal's is."""


def _settings(own: RunSettings, settings: Settings) -> dict[str, Any]:
    """What a run keeps to: the session's own where they are stricter than the server's."""
    kept = own.within(settings)
    return {
        "maxOperatorResultCharLimit": kept["max_tool_output"],
        "toolTimeoutSeconds": kept["tool_timeout"],
        "executionTimeoutMinutes": kept["run_timeout"] / 60,
        "disabledTools": sorted(kept["disabled_tools"]),
        "maxSteps": kept["max_steps"],
        "allowedOperatorTypes": list(CATALOG.types),
    }


def _change(asked: AgentSettings, own: RunSettings, settings: Settings) -> RunSettingsChange:
    """What a panel's dialog changes, which is saved whole, as it was shown.

    A number that is the server's is set back to that, so that it goes on following it. Raises
    `NotAvailable` for operator types that are not all, `NotStricter` for a tool switched on that
    the server switches off.
    """
    shown, servers = _settings(own, settings), _settings(RunSettings(), settings)
    change: dict[str, Any] = {}
    for name, value in asked.model_dump(exclude_unset=True).items():
        if isinstance(value, list):
            value = sorted(set(value))
        if name == "allowedOperatorTypes":
            if value is not None and value != sorted(shown[name]):
                raise NotAvailable(
                    f"`{name}` cannot be changed for one agent: they are all for this server",
                    setting=name,
                )
        elif value == shown[name]:
            pass
        elif name == "disabledTools":
            change["disabled_tools"] = [] if value is None else _own_tools(value, settings)
        elif value is None or value == servers[name]:
            change[SETTING[name]] = None
        else:
            change[SETTING[name]] = value * 60 if name == "executionTimeoutMinutes" else value
    return cast(RunSettingsChange, change)


def _own_tools(off: list[str], settings: Settings) -> list[str]:
    """Those of the tools that are `off` which the server does not switch off."""
    if on := settings.disabled_tools - set(off):
        raise NotStricter(
            f"`{min(on)}` is switched off for this server (`TURNBACK_DISABLED_TOOLS`); leave it "
            "among the disabled tools",
            limit="disabled_tools",
            value=sorted(settings.disabled_tools),
        )
    return sorted(set(off) - settings.disabled_tools)


def _agent(row: SessionRow, settings: Settings) -> dict[str, Any]:
    return {
        "id": row.key.id,
        "name": row.name,
        "modelType": row.model,
        "state": row.state,
        "createdAt": row.created_at,
        "settings": _settings(row.settings, settings),
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
            own: RunSettingsChange = {}
            if asked.settings is not None:
                own = _change(asked.settings, RunSettings(), settings)
            row = await created(
                request,
                claim.id,
                name=asked.name,
                model=_model(asked.modelType, settings),
                workflow=asked.workflow,
                settings=own,
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
    """The limits that this agent's next run has."""
    actor = await actor_of(request, agent_id)
    return json_answer(_settings(actor.memory.row.settings, sessions_of(request).settings))


@router.patch(
    "/{agent_id}/settings",
    response_model=AgentSettings,
    openapi_extra=body_of(AgentSettings),
)
async def change_settings(request: Request, agent_id: str) -> Response:
    """Change the limits of this agent's next run; each may only be stricter than the server's."""
    asked: AgentSettings = parsed(AgentSettings, await read_object(request))
    actor = await actor_of(request, agent_id)
    settings = sessions_of(request).settings
    change = _change(asked, actor.memory.row.settings, settings)
    await actor.ask(Asked(Change(settings=change), principal_of(request)))
    return json_answer(_settings(actor.memory.row.settings, settings))


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
    off = actor.memory.row.settings.within(settings)["disabled_tools"]
    most = workflow_bytes(settings.max_context_tokens)
    prompt = instructions(workflow_block(workflow, max_bytes=most), cut=False)
    tools = [
        {"name": tool.name, "description": tool.description, "inputSchema": tool.schema}
        for tool in CANVAS_TOOLS.values()
        if tool.name not in off
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
