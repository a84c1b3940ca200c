"""The frames that a client may send, parsed into `sessions.commands`.

Names are the wire's (camelCase, protocol.md 1). `server_frames.py` has those that a server sends.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

import orjson
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from turnback.api.faults import first_fault
from turnback.api.members import Frame
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


class _ClientFrame(Frame):
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
