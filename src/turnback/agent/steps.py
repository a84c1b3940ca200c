"""What goes into a run and what comes out of it: past steps, deltas, step drafts, limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, TypedDict

from turnback.agent.attached import PastFile
from turnback.core.approvals import Approval
from turnback.core.errors import TooLarge
from turnback.core.run_settings import RunSettings
from turnback.core.tree import EndReason, Role, TurnKind
from turnback.core.workflow import Workflow
from turnback.settings import Settings


class Usage(TypedDict):
    """Tokens of one model call as its provider counted them; the keys are the wire's."""

    inputTokens: int
    outputTokens: int
    totalTokens: int


INVALID_JSON = "INVALID_JSON"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the model made it. Arguments that were no JSON object are under `INVALID_JSON`."""

    name: str
    id: str
    input: Mapping[str, Any]


ERROR = "[ERROR] "
"""What the output of a call that failed begins with."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call led to. The output of one that failed begins with `ERROR`."""

    call_id: str
    output: str
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PastStep:
    """A visible earlier step. `kind` is its turn's, `end_reason` is set on the last of a turn."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    kind: TurnKind = TurnKind.PROMPT
    end_reason: EndReason | None = None
    files: tuple[PastFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A piece of the step that is streaming; the finished step replaces all of its deltas.

    `step_index` is the step's place in its turn (the user's is 0). Either `text` is set, or `tool`:
    the call's id, its name, and a piece of its arguments as JSON text. `offset` is where the piece
    starts in that text or in those arguments, in UTF-16 units, as a page counts them.
    """

    step_index: int
    offset: int
    text: str | None = None
    tool: tuple[str, str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A step whose calls are to be made: it has to be durable before any of them is (undo.md 2).

    `shown` are the calls without their secrets, as the finished step has them.
    """

    content: str
    tool_calls: tuple[ToolCall, ...]
    shown: tuple[ToolCall, ...]
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Waits:
    """The turn goes on once a person has decided about these calls; the run ends here."""

    approvals: tuple[Approval, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDraft:
    """A finished step, not yet durable. One result per call; `end_reason` is set on the last.

    `effects` are the ids of what its calls did outside.
    """

    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    usage: Usage | None = None
    before: Workflow
    after: Workflow
    end_reason: EndReason | None = None
    effects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """What bounds one run. Seconds and bytes; the meanings are in settings.py."""

    max_steps: int
    run_timeout: float
    model_timeout: float
    model_idle_timeout: float
    tool_timeout: float
    max_tool_calls_per_step: int
    max_reply_bytes: int
    max_context_tokens: int
    max_context_turns: int
    model_retries: int
    max_retry_wait: float
    disabled_tools: frozenset[str]
    max_json_depth: int
    max_tool_output: int
    max_workflow_bytes: int

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The limits that the settings name; the fields have the settings' names."""
        return cls(**{name: getattr(settings, name) for name in cls.__dataclass_fields__})

    def within(self, own: RunSettings) -> Self:
        """These, made stricter by what a session has of its own."""
        return replace(self, **own.within(self))


def reply_too_large(max_reply_bytes: int) -> TooLarge:
    """A reply goes on beyond `max_reply_bytes`; the message is what the turn's last step says."""
    return TooLarge(
        f"an answer of more than {max_reply_bytes} bytes (`max_reply_bytes`).",
        limit="max_reply_bytes",
    )
