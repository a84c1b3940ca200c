"""Approvals: a call that waits until a person has said yes or no (undo.md 2).

What is decided is exactly what was shown: tool, arguments, and how far the call can be taken back.
All of it is in the hash that the decision names, so that nobody decides on something else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from turnback.core.effects import EffectClass, Json


class ApprovalPolicy(StrEnum):
    """Which calls wait for a person: none, those that cannot be taken back, or all that write."""

    NEVER = "never"
    IRREVERSIBLE = "irreversible"
    WRITES = "writes"


class ApprovalStatus(StrEnum):
    """What has become of a question."""

    WAITING = "waiting"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    DROPPED = "dropped"


class Decision(StrEnum):
    """What a person may say."""

    APPROVE = "approve"
    DENY = "deny"


def needs_approval(policy: ApprovalPolicy, class_: EffectClass) -> bool:
    """Whether a call of this class, the worst still possible, waits for a person."""
    match policy:
        case ApprovalPolicy.NEVER:
            return False
        case ApprovalPolicy.IRREVERSIBLE:
            return class_ is EffectClass.IRREVERSIBLE
        case ApprovalPolicy.WRITES:
            return class_ is not EffectClass.READ


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """One question: may this call be made?

    `class_` is the worst that the call may still turn out to be; `because` says why it is worse
    than its contract has it. `args` are as the model proposed them, without secrets; `edited` as
    the person who approved has changed them. Times are in ms since the epoch.
    """

    step_id: str
    turn_id: str
    tool_call_id: str
    connection: str
    tool: str
    class_: EffectClass
    args: Mapping[str, Json]
    asked_at: int
    expires_at: int
    because: str | None = None
    status: ApprovalStatus = ApprovalStatus.WAITING
    edited: Mapping[str, Json] | None = None
    by: str | None = None
    hash: str = ""

    def __post_init__(self) -> None:
        if not self.hash:
            shown = [self.step_id, self.tool_call_id, self.connection, self.tool]
            text = json.dumps([*shown, self.class_, self.args], sort_keys=True)
            object.__setattr__(self, "hash", hashlib.sha256(text.encode()).hexdigest())

    @property
    def shown_tool(self) -> str:
        """The tool's name as a person reads it."""
        return f"{self.connection}.{self.tool}"

    @property
    def allows(self) -> Mapping[str, Json] | None:
        """The arguments that the call may be made with; None where it may not."""
        if self.status is not ApprovalStatus.APPROVED:
            return None
        return self.args if self.edited is None else self.edited
