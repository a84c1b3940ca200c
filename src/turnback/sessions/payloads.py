"""A record's payload: the members of the wire's step that no column holds (store/rows.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson

from turnback.agent.attached import PastFile
from turnback.agent.steps import Opened, PastStep, StepDraft, ToolCall, ToolResult
from turnback.core.attachments import Attachment
from turnback.core.edits import Edit, ReplaceWorkflow, describe
from turnback.core.tree import TurnKind
from turnback.sessions.world_told import told
from turnback.store.rows import Record


def of_prompt(
    content: str,
    message_source: str | None,
    attachments: Sequence[Attachment] = (),
    world: Sequence[Mapping[str, Any]] = (),
) -> str:
    """The payload of a user's message; `world` is its world note."""
    attached = [asdict(attachment) for attachment in attachments]
    return _dump(
        {
            "content": content,
            "messageSource": message_source,
            "attachments": attached or None,
            "world": world or None,
        }
    )


def of_edit(edits: Sequence[Edit], *, kept: bool = False) -> str:
    """The payload of a person's edit; a document put in whole is not repeated in it.

    `kept`: the edits were made before, in turns that were reverted.
    """
    text = describe(edits)
    return _dump(
        {
            "content": f"Kept from a revert: {text[0].lower()}{text[1:]}" if kept else text,
            "edits": [
                {"op": edit.op}
                if isinstance(edit, ReplaceWorkflow)
                else edit.model_dump(mode="json", exclude_unset=True)
                for edit in edits
            ],
        }
    )


def of_draft(draft: StepDraft) -> str:
    """The payload of an agent's step."""
    return _dump(
        {
            "content": draft.content,
            "toolCalls": _calls(draft.tool_calls),
            "toolResults": [
                {"toolCallId": r.call_id, "output": r.output, "isError": r.is_error}
                for r in draft.tool_results
            ],
            "usage": draft.usage,
            "effects": draft.effects or None,
        }
    )


def of_opened(opened: Opened) -> dict[str, Any]:
    """The payload of an agent's step whose calls are under way: as it is, without results."""
    hidden = None if opened.shown == opened.tool_calls else _calls(opened.shown)
    return {
        "content": opened.content,
        "toolCalls": _calls(opened.tool_calls),
        "shown": hidden,
        "usage": opened.usage,
    }


def opened_of(payload: Mapping[str, Any]) -> Opened:
    """The inverse of `of_opened`."""
    calls = _calls_of(payload["toolCalls"])
    shown = payload.get("shown")
    return Opened(
        content=payload["content"],
        tool_calls=calls,
        shown=calls if shown is None else _calls_of(shown),
        usage=payload["usage"],
    )


def of_note(content: str) -> str:
    """The payload of a last agent step that only says why the turn has ended."""
    return _dump({"content": content, "toolCalls": [], "toolResults": []})


def attachments_of(record: Record) -> list[Attachment]:
    """The files that a prompt is about, as they were."""
    if '"attachments"' not in record.payload:
        return []
    payload: dict[str, Any] = orjson.loads(record.payload)
    return [Attachment(**attached) for attached in payload.get("attachments", ())]


def past_step(record: Record, kind: TurnKind, files: tuple[PastFile, ...] = ()) -> PastStep:
    """What the model is told of an earlier step, `kind` being its turn's."""
    payload: dict[str, Any] = orjson.loads(record.payload)
    return PastStep(
        role=record.step.role,
        content=payload["content"] + _outside(payload),
        kind=kind,
        end_reason=record.step.end_reason,
        files=files,
        tool_calls=_calls_of(payload.get("toolCalls", ())),
        tool_results=tuple(
            ToolResult(r["toolCallId"], r["output"], r["isError"])
            for r in payload.get("toolResults", ())
        ),
    )


def _outside(payload: Mapping[str, Any]) -> str:
    """What a message's world note tells the model."""
    return told(payload["world"]) if "world" in payload else ""


def _calls(calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    return [{"toolName": call.name, "toolCallId": call.id, "input": call.input} for call in calls]


def _calls_of(written: Sequence[Mapping[str, Any]]) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(call["toolName"], call["toolCallId"], call["input"]) for call in written)


def _dump(payload: dict[str, Any]) -> str:
    return orjson.dumps({k: v for k, v in payload.items() if v is not None}).decode()
