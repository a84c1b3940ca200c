"""The frames of the socket: what a client may send, parsed; what a server sends, described.

Names are the wire's (camelCase, protocol.md 1). The client's frames are a tagged union that parses
into `sessions.commands`; the server's are models that only describe: `api/encode.py` writes them.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from turnback.api.faults import first_fault
from turnback.core.approvals import Decision
from turnback.core.edits import Edit
from turnback.core.errors import (
    ContentRequired,
    InvalidFormat,
    InvalidWorkflow,
    MessageIdRequired,
    TooLarge,
    TurnbackError,
    UnknownType,
)
from turnback.core.principal import Principal
from turnback.core.values import DEEPEST, check
from turnback.core.values import parse as parse_json
from turnback.sessions.commands import (
    Acknowledge,
    Approve,
    Asked,
    Checkout,
    Command,
    EditWorkflow,
    Prompt,
    Redo,
    RevertStep,
    RevertTurn,
    Stop,
    Undo,
)

BASE = "turnback.base"
V1 = "turnback.v1"

Key = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]
"""A key that a client makes up."""

StepId = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]


class _Frame(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _ClientFrame(_Frame):
    model_config = ConfigDict(strict=True)

    requestId: Key | None = None
    expectedHeadId: StepId | None = None


class WsClientPromptCommand(_ClientFrame):
    """A user's message: the next turn. Refused while the agent is busy."""

    type: Literal["WsClientPromptCommand"]
    content: Annotated[str, Field(json_schema_extra={"minLength": 1, "pattern": r"\S"})]
    messageSource: Literal["chat", "feedback"] | None = None
    turnKey: Key | None = None
    attachmentIds: list[str] | None = None


class WsClientStopCommand(_ClientFrame):
    """End the run that is under way; nothing if none is."""

    type: Literal["WsClientStopCommand"]


def _names_what(schema: dict[str, Any]) -> None:
    """A revert names a turn or a step."""
    text = {"type": "string"}
    schema["anyOf"] = [
        {"required": [name], "properties": {name: text}} for name in ("messageId", "stepId")
    ]


class WsClientRevertCommand(_ClientFrame):
    """HEAD and the workflow back to before a turn, or a step."""

    model_config = ConfigDict(json_schema_extra=_names_what)

    type: Literal["WsClientRevertCommand"]
    messageId: StepId | None = None
    stepId: StepId | None = None
    effects: Literal["leave", "undo"] | None = None
    planId: Key | None = None
    confirm: bool | None = None
    keepEdits: bool | None = None


class WsClientUndoCommand(_ClientFrame):
    """Undo what was done outside as a plan has it; HEAD stays. One that is run is joined."""

    type: Literal["WsClientUndoCommand"]
    planId: Key


class WsClientAcknowledgeCommand(_ClientFrame):
    """Take note of what an undo has left; again, nothing changes."""

    type: Literal["WsClientAcknowledgeCommand"]
    residueId: Key


class WsClientRedoCommand(_ClientFrame):
    """Take the newest revert back, or all that can be."""

    type: Literal["WsClientRedoCommand"]
    all: bool = False


class WsClientCheckoutCommand(_ClientFrame):
    """HEAD to any step; `step-initial` is the empty conversation."""

    type: Literal["WsClientCheckoutCommand"]
    stepId: StepId


class WsClientEditWorkflowCommand(_ClientFrame):
    """A person's own edit, made on the workflow at `baseHeadId`: a turn of its own."""

    type: Literal["WsClientEditWorkflowCommand"]
    baseHeadId: StepId
    edits: Annotated[list[Edit], Field(min_length=1)]


class WsClientApproveCommand(_ClientFrame):
    """A person's decision about a call that waits; `argsHash` is that of what they were shown.

    `input` are other arguments to make the call with; the agent is told of them.
    """

    type: Literal["WsClientApproveCommand"]
    toolCallId: Key
    decision: Literal["approve", "deny"]
    argsHash: Annotated[str, Field(min_length=1, max_length=200)]
    input: dict[str, Any] | None = None


ClientFrame = Annotated[
    WsClientPromptCommand
    | WsClientStopCommand
    | WsClientRevertCommand
    | WsClientUndoCommand
    | WsClientAcknowledgeCommand
    | WsClientRedoCommand
    | WsClientCheckoutCommand
    | WsClientEditWorkflowCommand
    | WsClientApproveCommand,
    Field(discriminator="type"),
]

_client: TypeAdapter[Any] = TypeAdapter(ClientFrame)

BASE_TYPES = frozenset(
    {
        "WsClientPromptCommand",
        "WsClientStopCommand",
        "WsClientRevertCommand",
        "WsClientRedoCommand",
    }
)
BASE_FIELDS = frozenset({"type", "content", "messageSource", "messageId"})
"""What is read of a base client's frame; whatever else it holds means nothing there."""

V1_TYPES = BASE_TYPES | {
    "WsClientUndoCommand",
    "WsClientAcknowledgeCommand",
    "WsClientCheckoutCommand",
    "WsClientEditWorkflowCommand",
    "WsClientApproveCommand",
}


class Unparsed(TurnbackError):
    """A frame that is no command; `request_id` is what it named, for the answer."""

    def __init__(self, error: TurnbackError, request_id: str | None) -> None:
        super().__init__(error.message, **error.data)
        self.error = error
        self.request_id = request_id


def parse(text: str | bytes, *, principal: Principal, v1: bool, max_edits: int) -> Asked:
    """A frame as a command. Raises `Unparsed`, which carries the typed error."""
    try:
        frame = parse_json(text.encode() if isinstance(text, str) else text)
    except ValueError:
        raise Unparsed(InvalidFormat("Invalid message format"), None) from None
    return parse_object(frame, principal=principal, v1=v1, max_edits=max_edits)


def parse_object(frame: object, *, principal: Principal, v1: bool, max_edits: int) -> Asked:
    """As `parse`, of what has been read as JSON already."""
    if not isinstance(frame, dict):
        raise Unparsed(InvalidFormat("Invalid message format"), None)
    request_id = _named(frame)
    try:
        _check_held(frame)
        if not v1:
            frame = {name: value for name, value in frame.items() if name in BASE_FIELDS}
        model = _validated(frame, V1_TYPES if v1 else BASE_TYPES, v1=v1)
        command = _command(model, v1=v1, max_edits=max_edits)
    except TurnbackError as error:
        raise Unparsed(error, request_id) from None
    return Asked(
        command=command,
        principal=principal,
        request_id=model.requestId if v1 else None,
        fingerprint=_fingerprint(frame) if v1 and model.requestId else b"",
        expected_head_id=model.expectedHeadId if v1 else None,
    )


def _named(frame: dict[str, Any]) -> str | None:
    """The frame's `requestId`, where it is fit to be said again."""
    named = frame.get("requestId")
    if not isinstance(named, str) or not 0 < len(named) <= 200:
        return None
    try:
        check(named, (), 0)
    except InvalidWorkflow:
        return None
    return named


def _check_held(frame: dict[str, Any]) -> None:
    """Refuse what can be neither stored nor said again: NUL, numbers beyond 64 bits, and such."""
    try:
        check(frame, (), DEEPEST)
    except InvalidWorkflow as error:
        raise InvalidFormat("Invalid message format", reason=error.message, **error.data) from None


def _validated(frame: dict[str, Any], types: frozenset[str], *, v1: bool) -> Any:
    type_ = frame.get("type")
    if not isinstance(type_, str):
        raise UnknownType(f"Unknown message type: {_shown(type_)}")
    if type_ not in types:
        raise UnknownType(f"Unknown message type: {_shown(type_)}")
    if type_ == "WsClientPromptCommand" and (
        not isinstance(frame.get("content"), str) or not frame["content"].strip()
    ):
        raise ContentRequired("Message content is required")
    if type_ == "WsClientRevertCommand" and not (
        frame.get("messageId") or (v1 and frame.get("stepId"))
    ):
        raise MessageIdRequired("messageId is required to revert")
    try:
        return _client.validate_python(frame)
    except ValidationError as error:
        path, reason = first_fault(error, frame)
        raise InvalidFormat("Invalid message format", path=path, reason=reason) from None


def _command(model: Any, *, v1: bool, max_edits: int) -> Command:
    match model:
        case WsClientPromptCommand():
            attached = tuple(dict.fromkeys(model.attachmentIds or ()))
            return Prompt(model.content, model.messageSource, model.turnKey, attached)
        case WsClientStopCommand():
            return Stop()
        case WsClientRevertCommand():
            undo = model.effects == "undo"
            if model.planId is not None and not undo:
                raise InvalidFormat(
                    'Invalid message format: `planId` goes with `effects: "undo"`', path="/planId"
                )
            # A base client asks its user itself (protocol.md, rules of HEAD).
            confirm, keep_edits = bool(model.confirm) or not v1, bool(model.keepEdits)
            if model.stepId is not None:
                return RevertStep(model.stepId, confirm, keep_edits, undo, model.planId)
            return RevertTurn(model.messageId or "", confirm, keep_edits, undo, model.planId)
        case WsClientUndoCommand():
            return Undo(model.planId)
        case WsClientAcknowledgeCommand():
            return Acknowledge(model.residueId)
        case WsClientRedoCommand():
            return Redo(model.all)
        case WsClientCheckoutCommand():
            return Checkout(model.stepId)
        case WsClientEditWorkflowCommand():
            if len(model.edits) > max_edits:
                raise TooLarge(
                    f"One command may hold {max_edits} edits (`max_edits`)",
                    limit="max_edits",
                    value=max_edits,
                )
            return EditWorkflow(model.baseHeadId, tuple(model.edits))
        case WsClientApproveCommand():
            decision = Decision(model.decision)
            return Approve(model.toolCallId, decision, model.argsHash, model.input)
        case _:
            raise UnknownType(f"Unknown message type: {model.type}")


def _shown(type_: object) -> str:
    if type_ is None:
        return "undefined"
    return str(type_)[:100]


def _fingerprint(frame: dict[str, Any]) -> bytes:
    content = {name: value for name, value in frame.items() if name != "requestId"}
    packed = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(packed, digest_size=20).digest()


# -- what the server sends; these models describe, `api/encode.py` writes


class ToolCallFrame(_Frame):
    """A tool call as the model made it."""

    toolName: str
    toolCallId: str
    input: dict[str, Any]


class ToolResultFrame(_Frame):
    """What a tool call led to."""

    toolCallId: str
    output: str
    isError: bool


class UsageFrame(_Frame):
    """Tokens of one model call, as its provider counted them."""

    inputTokens: int
    outputTokens: int
    totalTokens: int


class AttachedFrame(_Frame):
    """A file that a prompt is about, as it was then; whether it is still there, REST says."""

    id: str
    name: str
    type: str
    size: int


class StepMembers(_Frame):
    """The members of a step that every client sees."""

    id: str
    parentId: str
    messageId: str
    stepId: int
    timestamp: int
    role: Literal["user", "agent"]
    content: str
    isBegin: bool
    isEnd: bool
    messageSource: Literal["chat", "feedback"] | None = None
    toolCalls: list[ToolCallFrame] | None = None
    toolResults: list[ToolResultFrame] | None = None
    usage: UsageFrame | None = None


class WorldFrame(_Frame):
    """An effect that stood otherwise than the conversation had it when the message was sent.

    `things` are what it touched, by kind and key; `people` how many it told. `at` is in ms.
    """

    effectId: str
    standing: Literal["in_force", "reverted", "compensated", "cancelled", "in_doubt", "partly"]
    tool: str
    things: list[str]
    people: int
    at: int


class StepFrame(StepMembers):
    """A step as a v1 client sees it: without the workflows, which are read by the step's id."""

    attachments: list[AttachedFrame] | None = None
    world: list[WorldFrame] | None = None
    branchId: str
    kind: Literal["prompt", "edit"]
    endReason: Literal["complete", "stopped", "failed", "limit", "interrupted"] | None
    effects: list[str]
    beforeHash: str
    afterHash: str
    by: str


AgentState = Literal["AVAILABLE", "GENERATING", "STOPPING", "UNAVAILABLE"]


class PartingFrame(_Frame):
    """Where lines part on the visible path: after `stepId`, one line per `tips`, oldest first."""

    stepId: str
    onPath: int
    tips: list[str]


class PartialFrame(_Frame):
    """The text of the step that is being made."""

    messageId: str
    stepId: str
    text: str


class RunSettingsFrame(_Frame):
    """What the session's runs are held to beside the server's settings; null: the server's.

    Seconds, and characters of a tool's output. The tools are off beside those that the server's
    own setting switches off.
    """

    maxSteps: int | None
    runTimeout: float | None
    toolTimeout: float | None
    maxToolOutput: int | None
    disabledTools: list[str]


class ChangedRunSettings(_Frame):
    """Those of the session's settings that have changed; null: the server's again."""

    maxSteps: int | None = None
    runTimeout: float | None = None
    toolTimeout: float | None = None
    maxToolOutput: int | None = None
    disabledTools: list[str] | None = None


class PendingActionFrame(_Frame):
    """The prompt that the fork was made to send again; it is sent with this `turnKey`.

    It stays until a turn of the fork's own is complete. `claimed`: a client is at it.
    """

    mode: Literal["edit", "rerun"]
    draft: str
    turnKey: str
    state: Literal["pending", "claimed"]


ClassFrame = Literal["read", "reversible", "compensable", "irreversible"]
StandingFrame = Literal["in_force", "reverted", "compensated", "cancelled", "in_doubt", "partly"]
VerbFrame = Literal["revert", "compensate", "cancel", "acknowledge"]


class ApprovalFrame(_Frame):
    """A call that waits, or waited, for a person.

    `toolName` is the connection's name and the tool's. `class` is how far the call can be taken
    back at worst, `because` why that is worse than the tool's contract has it. `argsHash` is what
    a decision names. `edited` are the arguments that it was approved with, where they are others
    than `input`. It waits until `expiresAt`; times in ms.
    """

    toolCallId: str
    toolName: str
    input: dict[str, Any]
    class_: ClassFrame = Field(alias="class")
    because: str | None
    argsHash: str
    askedAt: int
    expiresAt: int
    status: Literal["waiting", "approved", "denied", "expired", "dropped"]
    edited: dict[str, Any] | None
    by: str | None


class EffectStandingFrame(_Frame):
    """Where an effect stands that is not as the visible path has it.

    On the path and no longer in force, or off it and still so.
    """

    effectId: str
    standing: StandingFrame


class EffectFrame(_Frame):
    """What is known of an effect now. `stepId` is the id of its step.

    `held`: it is sent at `holdUntil` (ms), unless it is taken back before. `standing` is null where
    it turned out that nothing had happened.
    """

    effectId: str
    messageId: str
    stepId: str
    toolCallId: str
    toolName: str
    state: Literal[
        "held", "intent", "done", "done_unchanged", "failed_clean", "failed_dirty", "in_doubt"
    ]
    standing: StandingFrame | None
    holdUntil: int | None


class ResidueFrame(_Frame):
    """What is left of an effect: `template` names the sentence, which REST has. Times in ms."""

    residueId: str
    template: str
    status: Literal["open", "acknowledged", "settled"]
    settlesAt: int | None


class UndoItemFrame(_Frame):
    """One effect of an undo: what is done with it, and how that stands.

    `check` is what a plan's look at the world has found; afterwards `state` says more. `standing`
    is where the effect stands in the world, null where it turned out that nothing had happened.
    """

    effectId: str
    messageId: str
    verb: VerbFrame
    state: Literal[
        "pending",
        "checking",
        "intent",
        "sent",
        "verifying",
        "reverted",
        "compensated",
        "cancelled",
        "needs_you",
        "needs_review",
        "in_doubt",
        "partly",
        "blocked",
        "failed",
        "noop_inverse",
        "not_started",
    ]
    reason: str | None
    standing: StandingFrame | None
    check: Literal["unchecked", "go", "already", "review", "unreadable"]
    residue: ResidueFrame | None


class SpentFrame(_Frame):
    """What an undo has used of its budget: calls that change something, reads, tokens."""

    calls: int
    reads: int
    tokens: int


class UndoFrame(_Frame):
    """An undo at one instant, whole: of two with the same ids the higher `undoRevision` counts.

    `undoId` is null as long as it is a plan that nobody has started. `counts` has how many members
    came to what: `needs_you`, `needs_review`, `in_doubt`, `failed`, `not_started`, `compensate`,
    `cancel`, `revert`.
    """

    undoId: str | None
    planId: str
    undoRevision: int
    phase: Literal["plan", "run", "ended", "settled"]
    by: str
    turnIds: list[str]
    items: list[UndoItemFrame]
    spent: SpentFrame
    outcome: Literal["fully_reverted", "partially_reverted", "not_reverted"] | None
    counts: dict[str, int]


class WsServerSnapshotEvent(_Frame):
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


class WsServerStepEvent(_Frame):
    """A finished step. HEAD is now this step."""

    type: Literal["WsServerStepEvent"]
    step: StepFrame
    eventSeq: int


class WsServerStatusEvent(_Frame):
    """`eventSeq` is missing where the state is the server's view and not stored: UNAVAILABLE."""

    type: Literal["WsServerStatusEvent"]
    state: AgentState
    waitingFor: list[ApprovalFrame]
    eventSeq: int | None = None


class WsServerApprovalEvent(_Frame):
    """A call waits for a person, or waits no more: `approval` says how it stands."""

    type: Literal["WsServerApprovalEvent"]
    messageId: str
    stepId: str
    approval: ApprovalFrame
    eventSeq: int


class WsServerHeadChangeEvent(_Frame):
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


class WsServerEffectEvent(_Frame):
    """What is known of a call outside is another: held back, sent or taken back, or no longer in
    doubt.
    """

    type: Literal["WsServerEffectEvent"]
    effect: EffectFrame
    eventSeq: int


class WsServerErrorEvent(_Frame):
    """A command that was not carried out, to its sender; `code` says why."""

    type: Literal["WsServerErrorEvent"]
    error: str
    code: str
    requestId: str | None = None
    data: dict[str, Any]


class ToolDelta(_Frame):
    """A piece of a tool call's arguments, which are JSON."""

    toolCallId: str
    toolName: str
    arguments: str


class WsServerDeltaEvent(_Frame):
    """A provisional piece. `offset` counts UTF-16 units of the text, or of the call's arguments."""

    type: Literal["WsServerDeltaEvent"]
    messageId: str
    stepId: str
    after: int
    offset: int
    text: str | None = None
    toolCall: ToolDelta | None = None


class WsServerSessionEvent(_Frame):
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


class WsServerAckEvent(_Frame):
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
