"""What frames are made of: steps, effects, undos, approvals, as the wire names them.

These models only describe; `api/encode.py` writes them.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Frame(BaseModel):
    """A frame, or a part of one. Members that are not known are passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class ToolCallFrame(Frame):
    """A tool call as the model made it."""

    toolName: str
    toolCallId: str
    input: dict[str, Any]


class ToolResultFrame(Frame):
    """What a tool call led to."""

    toolCallId: str
    output: str
    isError: bool


class UsageFrame(Frame):
    """Tokens of one model call, as its provider counted them."""

    inputTokens: int
    outputTokens: int
    totalTokens: int


class AttachedFrame(Frame):
    """A file that a prompt is about, as it was then; whether it is still there, REST says."""

    id: str
    name: str
    type: str
    size: int


class StepMembers(Frame):
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


class WorldFrame(Frame):
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


class PartingFrame(Frame):
    """Where lines part on the visible path: after `stepId`, one line per `tips`, oldest first."""

    stepId: str
    onPath: int
    tips: list[str]


class PartialFrame(Frame):
    """The text of the step that is being made."""

    messageId: str
    stepId: str
    text: str


class RunSettingsFrame(Frame):
    """What the session's runs are held to beside the server's settings; null: the server's.

    Seconds, and characters of a tool's output. The tools are off beside those that the server's
    own setting switches off.
    """

    maxSteps: int | None
    runTimeout: float | None
    toolTimeout: float | None
    maxToolOutput: int | None
    disabledTools: list[str]


class ChangedRunSettings(Frame):
    """Those of the session's settings that have changed; null: the server's again."""

    maxSteps: int | None = None
    runTimeout: float | None = None
    toolTimeout: float | None = None
    maxToolOutput: int | None = None
    disabledTools: list[str] | None = None


class PendingActionFrame(Frame):
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


class ApprovalFrame(Frame):
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


class EffectStandingFrame(Frame):
    """Where an effect stands that is not as the visible path has it.

    On the path and no longer in force, or off it and still so.
    """

    effectId: str
    standing: StandingFrame


class EffectFrame(Frame):
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


class ResidueFrame(Frame):
    """What is left of an effect: `template` names the sentence, which REST has. Times in ms."""

    residueId: str
    template: str
    status: Literal["open", "acknowledged", "settled"]
    settlesAt: int | None


class UndoItemFrame(Frame):
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


class SpentFrame(Frame):
    """What an undo has used of its budget: calls that change something, reads, tokens."""

    calls: int
    reads: int
    tokens: int


class UndoFrame(Frame):
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
