"""The frames that a server sends, described; `api/encode.py` writes them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from turnback.api.members import (
    AgentState,
    ApprovalFrame,
    ChangedRunSettings,
    EffectFrame,
    EffectStandingFrame,
    Frame,
    PartialFrame,
    PartingFrame,
    PendingActionFrame,
    RunSettingsFrame,
    StepFrame,
    UndoFrame,
)


class WsServerSnapshotEvent(Frame):
    """Everything as it is now: the first frame, unless what was missed is replayed."""

    type: Literal["WsServerSnapshotEvent"]
    state: AgentState
    steps: list[StepFrame]
    headId: str
    workflowContent: dict[str, Any] | None
    canRedo: bool
    eventSeq: int
    streamEpoch: str
    name: str
    archived: bool
    model: str
    settings: RunSettingsFrame
    branches: list[PartingFrame]
    redoDepth: int
    redoId: str | None
    stepsCursor: str | None
    partial: PartialFrame | None
    pendingAction: PendingActionFrame | None
    effectsOutOfStep: list[EffectStandingFrame]
    undos: list[UndoFrame]
    held: list[EffectFrame] = Field(default_factory=list)
    waitingFor: list[ApprovalFrame]
    reset: bool | None = None


class WsServerStepEvent(Frame):
    """A finished step. HEAD is now this step."""

    type: Literal["WsServerStepEvent"]
    step: StepFrame
    eventSeq: int


class WsServerStatusEvent(Frame):
    """`eventSeq` is missing where the state is the server's view and not stored: UNAVAILABLE."""

    type: Literal["WsServerStatusEvent"]
    state: AgentState
    waitingFor: list[ApprovalFrame]
    eventSeq: int | None = None


class WsServerApprovalEvent(Frame):
    """A call waits for a person, or waits no more: `approval` says how it stands."""

    type: Literal["WsServerApprovalEvent"]
    messageId: str
    stepId: str
    approval: ApprovalFrame
    eventSeq: int


class WsServerHeadChangeEvent(Frame):
    """HEAD has moved: a revert, a redo, a checkout, or an edit."""

    type: Literal["WsServerHeadChangeEvent"]
    headId: str
    workflowContent: dict[str, Any] | None
    canRedo: bool
    redoDepth: int
    redoId: str | None
    cause: Literal["revert", "redo", "checkout", "edit"]
    by: str
    effectsOutOfStep: list[EffectStandingFrame]
    eventSeq: int


class WsServerUndoEvent(UndoFrame):
    """An undo has gone on, has ended, or what it left is another: `phase` says which.

    A plan's (`plan`) go to who asked for it, and have no `eventSeq`.
    """

    type: Literal["WsServerUndoEvent"]
    eventSeq: int | None = None


class WsServerEffectEvent(Frame):
    """What is known of a call outside is another: held back, sent or taken back, or no longer in
    doubt.
    """

    type: Literal["WsServerEffectEvent"]
    effect: EffectFrame
    eventSeq: int


class WsServerErrorEvent(Frame):
    """A command that was not carried out, to its sender; `code` says why."""

    type: Literal["WsServerErrorEvent"]
    error: str
    code: str
    requestId: str | None = None
    data: dict[str, Any]


class ToolDelta(Frame):
    """A piece of a tool call's arguments, which are JSON."""

    toolCallId: str
    toolName: str
    arguments: str


class WsServerDeltaEvent(Frame):
    """A provisional piece. `offset` counts UTF-16 units of the text, or of the call's arguments."""

    type: Literal["WsServerDeltaEvent"]
    messageId: str
    stepId: str
    after: int
    offset: int
    text: str | None = None
    toolCall: ToolDelta | None = None


class WsServerSessionEvent(Frame):
    """The session has another name, model, settings, visibility or grants, is archived or not, or
    is deleted; or its pending action is claimed, free again (`turnKey` may be another), or done.
    """

    type: Literal["WsServerSessionEvent"]
    change: Literal[
        "name",
        "archived",
        "model",
        "settings",
        "visibility",
        "grants",
        "pendingAction",
        "deleted",
    ]
    name: str | None = None
    archived: bool | None = None
    model: str | None = None
    settings: ChangedRunSettings | None = None
    visibility: Literal["project", "private"] | None = None
    pending: Literal["pending", "claimed", "done"] | None = None
    turnKey: str | None = None
    eventSeq: int


class WsServerAckEvent(Frame):
    """A command that carried a `requestId` is durable."""

    type: Literal["WsServerAckEvent"]
    requestId: str
    headId: str
    eventSeq: int
    messageId: str | None = None
    undoId: str | None = None


ServerFrame = Annotated[
    WsServerSnapshotEvent
    | WsServerStepEvent
    | WsServerStatusEvent
    | WsServerApprovalEvent
    | WsServerHeadChangeEvent
    | WsServerUndoEvent
    | WsServerEffectEvent
    | WsServerErrorEvent
    | WsServerDeltaEvent
    | WsServerSessionEvent
    | WsServerAckEvent,
    Field(discriminator="type"),
]
