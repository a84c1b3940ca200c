"""Writing what the server sends: each message once per audience, stored JSON passed through.

A base client sees no + member at all (protocol.md 1); the two audiences' steps and frames are
written side by side here so that the difference can be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import lru_cache
from time import time
from typing import Any, assert_never

import orjson

from turnback.core.approvals import Approval, ApprovalStatus
from turnback.core.errors import TurnbackError
from turnback.core.lineage import ROOT_ID
from turnback.core.pending import PendingAction
from turnback.core.run_settings import RunSettingsChange
from turnback.core.tree import Role, Tree
from turnback.core.undo.progress import ItemTold, Progress
from turnback.core.workflow import Workflow
from turnback.sessions.broadcast import Availability, Closed, Delta, Message, Reply, Told
from turnback.sessions.commands import Done
from turnback.sessions.view import View
from turnback.store.outbox import (
    ApprovalTold,
    EffectTold,
    HeadChanged,
    OutOfStep,
    SessionChanged,
    Status,
    StepWritten,
    UndoTold,
)
from turnback.store.rows import Record
from turnback.telemetry import metrics

CONTENTS_KEPT = 4
"""Workflows whose bytes are kept: a step's content before it is that after the last one, and who
connects at once is sent the same."""


def text(message: Message, *, v1: bool) -> bytes | None:
    """The frame of a message for this audience; None: this audience is not told of it."""
    if isinstance(message, Reply):
        return message.text
    if isinstance(message, Closed):
        return None
    audience = "v1" if v1 else "base"
    if audience not in message.texts:
        frame = _frame(message, v1=v1)
        message.texts[audience] = b"" if frame is None else orjson.dumps(frame)
    return message.texts[audience] or None


def _frame(message: Told | Delta | Availability, *, v1: bool) -> dict[str, Any] | None:
    match message:
        case Told():
            return _told(message, v1=v1)
        case Delta():
            return _delta(message) if v1 else None
        case Availability(state):
            return {"type": "WsServerStatusEvent", "state": state} | _only(v1, waitingFor=[])
        case _:
            assert_never(message)


def _told(told: Told, *, v1: bool) -> dict[str, Any] | None:
    plus = _only(v1, eventSeq=told.event_seq)
    match told.notice:
        case Status(state, waiting_for):
            waiting = _only(v1, waitingFor=[_approval(approval) for approval in waiting_for])
            return {"type": "WsServerStatusEvent", "state": state} | waiting | plus
        case ApprovalTold(approval) if v1:
            return {
                "type": "WsServerApprovalEvent",
                "messageId": approval.turn_id,
                "stepId": approval.step_id,
                "approval": _approval(approval),
            } | plus
        case ApprovalTold(approval):
            if approval.status is not ApprovalStatus.WAITING:
                return None
            waits = f"The agent waits for somebody to approve a call of `{approval.shown_tool}`"
            return {"type": "WsServerErrorEvent", "error": waits}
        case StepWritten():
            assert told.record is not None
            written = (
                step(told.record)
                if v1
                else base_step(told.record, before=told.before, after=told.after)
            )
            return {"type": "WsServerStepEvent", "step": written} | plus
        case HeadChanged(head_id, _, redo_depth, redo_id, cause, by, effects):
            return (
                {
                    "type": "WsServerHeadChangeEvent",
                    "headId": head_id,
                    "workflowContent": content(told.after),
                    "canRedo": redo_depth > 0,
                }
                | _only(v1, redoDepth=redo_depth, redoId=redo_id)
                | _only(v1, cause=cause, by=by, effectsOutOfStep=out_of_step(effects))
                | plus
            )
        case EffectTold():
            frame = {"type": "WsServerEffectEvent", "effect": effect(told.notice)} | plus
            return frame if v1 else None
        case UndoTold(progress):
            return {"type": "WsServerUndoEvent"} | undo(progress) | plus if v1 else None
        case SessionChanged(change, name, archived, model, settings, visibility, pending, key):
            if not v1:
                return None
            values = {
                "name": name,
                "archived": archived,
                "model": model,
                "settings": None if settings is None else run_settings(settings),
                "visibility": visibility,
                "pending": pending or ("done" if change == "pendingAction" else None),
                "turnKey": key,
            }
            said = {key: value for key, value in values.items() if value is not None}
            return {"type": "WsServerSessionEvent", "change": change} | said | plus
        case _:
            assert_never(told.notice)


def _delta(delta: Delta) -> dict[str, Any]:
    frame: dict[str, Any] = {
        "type": "WsServerDeltaEvent",
        "messageId": delta.turn_id,
        "stepId": delta.step_id,
        "after": delta.after,
        "offset": delta.offset,
    }
    if delta.text is not None:
        return frame | {"text": delta.text}
    call = {
        "toolCallId": delta.tool_call_id,
        "toolName": delta.tool_name,
        "arguments": delta.arguments,
    }
    return frame | {"toolCall": call}


def out_of_step(effects: Iterable[OutOfStep]) -> list[dict[str, Any]]:
    """Effects that are not as the path to HEAD has them, as frames have them."""
    return [{"effectId": one.effect_id, "standing": one.standing} for one in effects]


def effect(told: EffectTold) -> dict[str, Any]:
    """What is known of an effect now, as frames have it."""
    return {
        "effectId": told.effect_id,
        "messageId": told.turn_id,
        "stepId": told.step_id,
        "toolCallId": told.tool_call_id,
        "toolName": told.tool,
        "state": told.state,
        "standing": told.standing,
        "holdUntil": told.hold_until,
    }


def undo(progress: Progress) -> dict[str, Any]:
    """A plan or a run as frames have it."""
    return {
        "undoId": progress.undo_id,
        "planId": progress.plan_id,
        "undoRevision": progress.revision,
        "phase": progress.phase,
        "by": progress.by,
        "turnIds": progress.turn_ids,
        "items": [_undo_item(item) for item in progress.items],
        "spent": asdict(progress.spent),
        "outcome": progress.outcome,
        "counts": progress.counts,
    }


def looked_at(progress: Progress) -> bytes:
    """The frame of a plan that is being looked at, for who asked for it."""
    return orjson.dumps({"type": "WsServerUndoEvent"} | undo(progress))


def _undo_item(item: ItemTold) -> dict[str, Any]:
    left = item.residue
    return {
        "effectId": item.effect_id,
        "messageId": item.turn_id,
        "verb": item.verb,
        "state": item.state,
        "reason": item.reason,
        "standing": item.standing,
        "check": item.check,
        "residue": None
        if left is None
        else {
            "residueId": left.residue_id,
            "template": left.template,
            "status": left.status,
            "settlesAt": left.settles_at,
        },
    }


def snapshot(
    view: View,
    records: Mapping[str, Record],
    branches: list[dict[str, Any]],
    undos: Iterable[Progress] = (),
    effects: Iterable[OutOfStep] = (),
    held: Iterable[EffectTold] = (),
    *,
    epoch: str,
    reset: bool,
) -> bytes:
    """The first frame of a v1 socket: light steps, no contents but the one at HEAD.

    `branches` are the `partings` of the same instant as `view`; `undos` are under way, or have left
    a residue that is open; `held` are the calls that are held back.
    """
    frame: dict[str, Any] = {
        "type": "WsServerSnapshotEvent",
        "state": view.state,
        "steps": [step(records[s.id]) for s in view.path if s.id in records],
        "headId": view.head_id,
        "workflowContent": content(view.workflow),
        "canRedo": view.redo_depth > 0,
        "eventSeq": view.revision,
        "streamEpoch": epoch,
        "name": view.name,
        "archived": view.archived,
        "model": view.model,
        "settings": run_settings(view.settings.members),
        "branches": branches,
        "redoDepth": view.redo_depth,
        "redoId": view.redo_id,
        "stepsCursor": view.path[0].id if view.older and view.path else view.older,
        "partial": None,
        "pendingAction": None if view.pending is None else _pending(view.pending),
        "effectsOutOfStep": out_of_step(effects),
        "undos": [undo(progress) for progress in undos],
        "held": [effect(told) for told in held],
        "waitingFor": [_approval(approval) for approval in view.waiting_for],
    }
    if view.partial is not None:
        turn_id, step_id, said = view.partial
        frame["partial"] = {"messageId": turn_id, "stepId": step_id, "text": said}
    if reset:
        frame["reset"] = True
    return orjson.dumps(frame)


def base_snapshot(
    view: View, records: list[Record], workflows: Mapping[str, Workflow], *, max_bytes: int
) -> dict[str, Any]:
    """The first frame of a base socket: every step in full, oldest first.

    Past `max_bytes` the older steps go without contents.
    """
    left = max_bytes - (view.workflow.size if view.workflow else 0)
    steps = []
    for record in reversed(records):
        before, after = workflows.get(record.step.before), workflows.get(record.step.after)
        left -= len(record.payload) + sum(w.size for w in (before, after) if w)
        steps.append(base_step(record, before=before, after=after, full=left > 0))
    return {
        "type": "WsServerSnapshotEvent",
        "state": view.state,
        "steps": steps[::-1],
        "headId": view.head_id,
        "workflowContent": content(view.workflow),
        "canRedo": view.redo_depth > 0,
    }


def partings(view: View, tree: Tree, *, choices: int) -> list[dict[str, Any]]:
    """Where lines part on the visible path shown, each with its newest `choices` tips.

    `onPath` is the index in `tips` of the line that HEAD is on, or goes back to; -1: none.
    """
    first = view.older or ROOT_ID
    on_path = [step.id for step in view.path]
    found = []
    for parent, following in zip([first, *on_path], [*on_path, None], strict=True):
        lines = tree.children.get(parent, [])[-choices:]
        if len(lines) < 2:
            continue
        tips = [tree.tip(line) for line in lines]
        index = lines.index(following) if following in lines else -1
        found.append({"stepId": parent, "onPath": index, "tips": tips})
    return found


def step(record: Record) -> dict[str, Any]:
    """A step as a v1 client sees it: no contents, and the + members."""
    held = record.step
    payload = orjson.loads(record.payload)
    attached = {name: payload[name] for name in ("attachments", "world") if name in payload}
    return (
        _step(record, payload)
        | attached
        | {
            "branchId": held.branch_id,
            "kind": "edit" if "edits" in payload else "prompt",
            "endReason": held.end_reason,
            "effects": payload.get("effects", []),
            "beforeHash": held.before,
            "afterHash": held.after,
            "by": record.principal,
        }
    )


def base_step(
    record: Record, *, before: Workflow | None, after: Workflow | None, full: bool = True
) -> dict[str, Any]:
    """A step as a base client sees it; without contents where not `full` or not readable."""
    written = _step(record, orjson.loads(record.payload))
    if full and before is not None and after is not None:
        written["beforeWorkflowContent"] = content(before)
        written["afterWorkflowContent"] = content(after)
    return written


def _approval(approval: Approval) -> dict[str, Any]:
    return {
        "toolCallId": approval.tool_call_id,
        "toolName": approval.shown_tool,
        "input": approval.args,
        "class": approval.class_,
        "because": approval.because,
        "argsHash": approval.hash,
        "askedAt": approval.asked_at,
        "expiresAt": approval.expires_at,
        "status": approval.status,
        "edited": approval.edited,
        "by": approval.by,
    }


def _pending(action: PendingAction) -> dict[str, Any]:
    return {
        "mode": action.mode,
        "draft": action.draft,
        "turnKey": action.turn_key,
        "state": action.state_at(round(time() * 1000)),
    }


def _step(record: Record, payload: dict[str, Any]) -> dict[str, Any]:
    held = record.step
    user = held.role is Role.USER
    written = {
        "id": held.id,
        "parentId": held.parent_id,
        "messageId": held.turn_id,
        "stepId": held.index,
        "timestamp": record.timestamp,
        "role": held.role,
        "content": payload["content"],
        "isBegin": user or held.index == 1,
        "isEnd": user or held.end_reason is not None,
    }
    for member in ("messageSource", "toolCalls", "toolResults", "usage"):
        if member in payload:
            written[member] = payload[member]
    return written


def run_settings(members: RunSettingsChange) -> dict[str, Any]:
    """A session's settings, or those of them that change."""
    return {_RUN_SETTINGS[name]: value for name, value in members.items()}


_RUN_SETTINGS = {
    "max_steps": "maxSteps",
    "run_timeout": "runTimeout",
    "tool_timeout": "toolTimeout",
    "max_tool_output": "maxToolOutput",
    "disabled_tools": "disabledTools",
}


def content(workflow: Workflow | None) -> orjson.Fragment | None:
    """A workflow's content, as it is stored; null where it cannot be read."""
    return None if workflow is None else orjson.Fragment(_encoded(workflow))


@lru_cache(maxsize=CONTENTS_KEPT)
def _encoded(workflow: Workflow) -> bytes:
    return workflow.encoded()


def error_frame(error: TurnbackError, *, v1: bool, request_id: str | None = None) -> dict[str, Any]:
    """An error as a frame: the sentence; for v1 also the code, the request and its data."""
    metrics.error(error.code)
    frame: dict[str, Any] = {"type": "WsServerErrorEvent", "error": error.message}
    if v1:
        frame |= {"code": error.code, "data": error.data}
        if request_id is not None:
            frame["requestId"] = request_id
    return frame


def remains_frame(tools: Iterable[str]) -> dict[str, Any]:
    """What a base client is told when its revert has left something in force outside."""
    named = ", ".join(f"`{tool}`" for tool in tools)
    sentence = f"The conversation is reverted, and what was done outside remains in force: {named}"
    return {"type": "WsServerErrorEvent", "error": sentence}


def ack_frame(request_id: str, done: Done) -> dict[str, Any]:
    """The answer to a command that carried a `requestId`."""
    frame = {
        "type": "WsServerAckEvent",
        "requestId": request_id,
        "headId": done.head_id,
        "eventSeq": done.event_seq,
    }
    frame |= {"messageId": done.turn_id} if done.turn_id else {}
    return frame | ({"undoId": done.undo_id} if done.undo_id else {})


def _only(v1: bool, **members: Any) -> dict[str, Any]:
    return members if v1 else {}
