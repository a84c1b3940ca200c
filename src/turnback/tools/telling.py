"""What a model is told of a call: of its reply, of what the log has of it, never its secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import orjson

from turnback.core.approvals import Approval, ApprovalStatus
from turnback.core.contracts import secrets, states
from turnback.core.contracts.model import Contract
from turnback.core.effects import CallState, Effect, Json
from turnback.store.effects import CallOutcome
from turnback.tools.connection import Reply

HELD = (
    "Held back until {} UTC and not sent yet. It is sent then, without anybody asking again, unless"
    " a person takes it back before."
)

UNKNOWN = "Outcome unknown: sent, no reply; check before repeating."


@dataclass(frozen=True, slots=True)
class Answered:
    """What the model is told of a call, and the effect that it had or may have had."""

    output: str
    is_error: bool = False
    effect_id: str | None = None


def told(reply: Reply, contract: Contract, args: Mapping[str, Json], *, most: int) -> str:
    """What a reply says; `most` characters of it."""
    text = reply.text
    if contract.secret:
        answer = states.body(reply.text, reply.structured)
        text = _without_secrets(contract, args, answer)
    if not text and reply.structured is not None:
        text = orjson.dumps(reply.structured).decode()
    return cut(text, most)


def answer(
    effect: Effect,
    contract: Contract,
    reply: Reply | None,
    outcome: CallOutcome,
    reason: str,
    *,
    most: int,
) -> Answered:
    """What has come of a call that was logged; without a reply, for which `reason`."""
    if reply is not None:
        is_error = outcome is not CallOutcome.REPLIED
        output = told(reply, contract, effect.args, most=most)
        if effect.state is CallState.FAILED_DIRTY:
            output = f"{output}\n[It failed, and yet something has changed]"
        return Answered(output, is_error=is_error, effect_id=effect.id)
    if effect.state is CallState.FAILED_DIRTY:
        output = "No reply came, and what it touches has changed; look before you go on."
        return Answered(output, is_error=True, effect_id=effect.id)
    return Answered(without_reply(outcome, reason), is_error=True, effect_id=effect.id)


def said(result: Json) -> str:
    """A result as it was said: the text that it was, or JSON."""
    if isinstance(result, dict) and result.keys() == {"text"} and isinstance(result["text"], str):
        return result["text"]
    return orjson.dumps(result).decode()


def told_of(effect: Effect, most: int, contract: Contract | None) -> Answered:
    """What a model is told of a call that the log has; `most` characters of its output.

    Without the `contract` that it was made under nobody knows what is secret of its result.
    """
    output = None
    if effect.result is not None and contract is not None:
        output = _without_secrets(contract, effect.args, effect.result)
    match effect.state:
        case CallState.HELD:
            until = datetime.fromtimestamp((effect.hold_until or 0) / 1000, UTC)
            return Answered(HELD.format(f"{until:%Y-%m-%d %H:%M:%S}"), effect_id=effect.id)
        case CallState.INTENT | CallState.IN_DOUBT:
            return Answered(output or UNKNOWN, is_error=True, effect_id=effect.id)
        case CallState.DONE | CallState.DONE_UNCHANGED:
            text = "Done. What it answered is not known." if output is None else output
            return Answered(cut(text, most), effect_id=effect.id)
        case CallState.FAILED_CLEAN:
            text = output or "It surely did not take effect."
            return Answered(cut(text, most), is_error=True, effect_id=effect.id)
        case CallState.FAILED_DIRTY:
            text = output or "What it answered is not known, and what it touches has changed."
            return Answered(cut(text, most), is_error=True, effect_id=effect.id)


def _without_secrets(contract: Contract, args: Mapping[str, Json], result: Json) -> str:
    """What a call has answered, as it may be shown."""
    text = said(secrets.shown_result(contract, args, result))
    return secrets.without_secrets(contract, args, text) if contract.secret else text


def cut(text: str, most: int) -> str:
    """A tool's output, as much as a model is told."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[{len(text) - most} more characters are left out (`max_tool_output`)]"


def without_reply(outcome: CallOutcome, reason: str) -> str:
    if outcome is CallOutcome.NOT_SENT:
        return f"Not sent, nothing was done: {reason}"
    return f"{UNKNOWN} ({reason})"


def not_allowed(approval: Approval) -> str:
    match approval.status:
        case ApprovalStatus.DENIED:
            return "Not run: a person denied it. Do without it, or ask what they want instead."
        case ApprovalStatus.EXPIRED:
            return "Not run: nobody approved it in time."
        case _:
            return "Not run."
