"""The frames as a base client sees them: the public proposal's, and no + member (protocol.md 1).

These models describe: `api/frames.py` parses what comes, `api/encode.py` writes what goes. The
server's are closed, for good: what is new is for clients that ask for `turnback.v1`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from turnback.api.members import AgentState, StepMembers


class _Frame(BaseModel):
    model_config = ConfigDict(frozen=True)


class _ServerFrame(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BasePromptCommand(_Frame):
    """A user's message: the next turn. Refused while the agent is busy."""

    type: Literal["WsClientPromptCommand"]
    content: Annotated[str, Field(min_length=1)]
    messageSource: Literal["chat", "feedback"] | None = None


class BaseStopCommand(_Frame):
    """End the run that is under way; nothing if none is."""

    type: Literal["WsClientStopCommand"]


class BaseRevertCommand(_Frame):
    """HEAD and the workflow back to before a turn, which `messageId` names."""

    type: Literal["WsClientRevertCommand"]
    messageId: Annotated[str, Field(min_length=1)]


class BaseRedoCommand(_Frame):
    """Take the newest revert back."""

    type: Literal["WsClientRedoCommand"]


BaseClientFrame = Annotated[
    BasePromptCommand | BaseStopCommand | BaseRevertCommand | BaseRedoCommand,
    Field(discriminator="type"),
]


class BaseStep(StepMembers):
    """A step in full: the workflow before and after it, where a frame has room for them."""

    model_config = ConfigDict(extra="forbid")

    beforeWorkflowContent: dict[str, Any] | None = None
    afterWorkflowContent: dict[str, Any] | None = None


class BaseSnapshotEvent(_ServerFrame):
    """The first frame: everything there is, every branch's steps among it."""

    type: Literal["WsServerSnapshotEvent"]
    state: AgentState
    steps: list[BaseStep]
    headId: str
    workflowContent: dict[str, Any] | None
    canRedo: bool


class BaseStepEvent(_ServerFrame):
    """A finished step. HEAD is now this step."""

    type: Literal["WsServerStepEvent"]
    step: BaseStep


class BaseStatusEvent(_ServerFrame):
    """The agent's state has changed."""

    type: Literal["WsServerStatusEvent"]
    state: AgentState


class BaseHeadChangeEvent(_ServerFrame):
    """HEAD has moved without a new step: a revert, a redo, a checkout, or an edit."""

    type: Literal["WsServerHeadChangeEvent"]
    headId: str
    workflowContent: dict[str, Any] | None
    canRedo: bool


class BaseErrorEvent(_ServerFrame):
    """A sentence on what could not be done; nothing has changed."""

    type: Literal["WsServerErrorEvent"]
    error: str


BaseServerFrame = Annotated[
    BaseSnapshotEvent | BaseStepEvent | BaseStatusEvent | BaseHeadChangeEvent | BaseErrorEvent,
    Field(discriminator="type"),
]
