"""What can be asked of a live session, parsed and typed; and what is answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from turnback.core.approvals import Decision
from turnback.core.edits import Edit
from turnback.core.principal import Principal, Right, Visibility
from turnback.core.run_settings import RunSettingsChange
from turnback.core.workflow import Workflow


@dataclass(frozen=True, slots=True)
class Prompt:
    """A user's message, and the files it is about. `turn_key` makes a retry the same turn."""

    content: str
    message_source: str | None = None
    turn_key: str | None = None
    attachment_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stop:
    """End the run, if one is under way."""


@dataclass(frozen=True, slots=True)
class Approve:
    """A person's decision about a call that waits, which `args_hash` names as they saw it.

    `input` are the arguments to make it with, where they are to be others.
    """

    tool_call_id: str
    decision: Decision
    args_hash: str
    input: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Expire:
    """Nobody has decided in time about what waits since before `before`, in ms."""

    before: int


@dataclass(frozen=True, slots=True)
class RevertTurn:
    """HEAD to before a turn.

    `confirm`: though another person's edits are taken back. `keep_edits`: people's edits are made
    again there, as one. `undo`: what was done outside since then is undone too, by the plan
    `plan_id`; without one, only if nobody needs to look at it first.
    """

    turn_id: str
    confirm: bool = False
    keep_edits: bool = False
    undo: bool = False
    plan_id: str | None = None


@dataclass(frozen=True, slots=True)
class RevertStep:
    """HEAD to before a step; `confirm` and `keep_edits` as of a turn."""

    step_id: str
    confirm: bool = False
    keep_edits: bool = False
    undo: bool = False
    plan_id: str | None = None


@dataclass(frozen=True, slots=True)
class Undo:
    """Undo what was done outside as this plan has it; HEAD stays."""

    plan_id: str


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Put an effect back over what somebody else has written, as this residue shows it."""

    residue_id: str


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Take note of a residue; no outcome is raised by it."""

    residue_id: str


@dataclass(frozen=True, slots=True)
class Redo:
    """HEAD forward again, once or all the way."""

    all: bool = False


@dataclass(frozen=True, slots=True)
class Checkout:
    """HEAD to any reachable step."""

    step_id: str


@dataclass(frozen=True, slots=True)
class EditWorkflow:
    """A person's own edit, made on the workflow at `base_head_id`."""

    base_head_id: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class PutWorkflow:
    """The host application's document, in place of one with an address in `if_match`; None: any."""

    workflow: Workflow
    if_match: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Change:
    """A new name, archived or not, model and settings of the next run, who sees it; None: as it is.

    `visibility`: everyone with a role in its project, or its owner alone.
    """

    name: str | None = None
    archived: bool | None = None
    model: str | None = None
    settings: RunSettingsChange | None = None
    visibility: Visibility | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """Let a principal do this with the session, in place of what was granted to it before.

    No rights: its grant is taken back.
    """

    principal_id: str
    rights: frozenset[Right]


@dataclass(frozen=True, slots=True)
class ClaimAction:
    """Be at the fork's pending action, so that no other client is."""

    claim_id: str


@dataclass(frozen=True, slots=True)
class ReleaseAction:
    """Leave the fork's pending action to others."""

    claim_id: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Out of every list, at once."""


Command = (
    Prompt
    | Stop
    | Approve
    | Expire
    | RevertTurn
    | RevertStep
    | Undo
    | Overwrite
    | Acknowledge
    | Redo
    | Checkout
    | EditWorkflow
    | PutWorkflow
    | Change
    | Share
    | ClaimAction
    | ReleaseAction
    | Delete
)


def right_of(command: Command) -> Right:
    """The right that a command needs (protocol.md 4)."""
    match command:
        case Share() | Delete():
            return Right.MANAGE
        case Change(visibility=Visibility()):
            return Right.MANAGE
        case (
            Prompt()
            | Stop()
            | Approve()
            | Expire()
            | RevertTurn()
            | RevertStep()
            | Undo()
            | Overwrite()
            | Acknowledge()
            | Redo()
            | Checkout()
            | EditWorkflow()
            | PutWorkflow()
            | Change()
            | ClaimAction()
            | ReleaseAction()
        ):
            return Right.RUN
        case _:
            assert_never(command)


def is_decision(command: Command) -> bool:
    """Whether it has to be a person's own, and never the agent's or its tools' (protocol.md 4)."""
    match command:
        case Approve() | Undo() | Overwrite() | Acknowledge():
            return True
        case RevertTurn(undo=undo) | RevertStep(undo=undo):
            return undo
        case (
            Prompt()
            | Stop()
            | Expire()
            | Redo()
            | Checkout()
            | EditWorkflow()
            | PutWorkflow()
            | Change()
            | Share()
            | ClaimAction()
            | ReleaseAction()
            | Delete()
        ):
            return False
        case _:
            assert_never(command)


@dataclass(frozen=True, slots=True)
class Asked:
    """A command with who asks it, and under which conditions.

    `request_id` makes it run once; `fingerprint` is the hash of its content, so that the same id
    with other content is refused.
    """

    command: Command
    principal: Principal
    request_id: str | None = None
    fingerprint: bytes = b""
    expected_head_id: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """HEAD and the last `eventSeq` after a command; the turn and the undo it began, if it did.

    `remains` names the tools whose effects outside a revert has left in force.
    """

    head_id: str
    event_seq: int
    turn_id: str | None = None
    undo_id: str | None = None
    remains: tuple[str, ...] = ()
