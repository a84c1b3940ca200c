"""A plan: the one commit that a command leads to, not yet made; and from a plan to that commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

import orjson

from turnback.core.approvals import Approval
from turnback.core.lineage import Position
from turnback.core.tree import (
    Event,
    HeadMoved,
    RedoCleared,
    RedoPopped,
    RedoPushed,
    StateChanged,
    StepAppended,
)
from turnback.core.undo.progress import Progress
from turnback.core.workflow import Workflow
from turnback.sessions.commands import Asked
from turnback.sessions.memory import Memory
from turnback.store.ids import new_id
from turnback.store.outbox import (
    HeadChanged,
    Notice,
    OutOfStep,
    Status,
    StepWritten,
    UndoTold,
)
from turnback.store.rows import Commit, Guard, Request, SessionChange, UndoWrite


class Resume(StrEnum):
    """What a run that is begun at an open step is to do with it.

    Go on with its calls, or close it with what is known of them and end the turn: stopped by a
    person, or interrupted by the end of the process that held it.
    """

    GO_ON = "go_on"
    STOP = "stop"
    INTERRUPT = "interrupt"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a command leads to: one commit, not yet made.

    `after` is the workflow that it leads to, by way of `via` where HEAD moves twice. With `node_id`
    it begins a run of the turn `turn_id`, at the open step where it `resumes`. `closes`: its step
    is the open one. `approvals` are asked for, or decided. `undo` is written of an undo's run, and
    `told` what is told of it; with `node_id` this process carries that run. `out_of_step` are the
    effects that are not as the path to the new HEAD has them, `remains` the tools of those that a
    revert leaves in force.
    """

    guard: Guard
    events: tuple[Event, ...] = ()
    payload: str | None = None
    after: Workflow | None = None
    via: Workflow | None = None
    blobs: dict[str, bytes] = field(default_factory=dict)
    node_id: str | None = None
    change: SessionChange | None = None
    notices: tuple[Notice, ...] = ()
    turn_id: str | None = None
    attachments: tuple[str, ...] = ()
    resumes: Resume | None = None
    closes: bool = False
    approvals: tuple[Approval, ...] = ()
    undo: UndoWrite | None = None
    told: Progress | None = None
    out_of_step: tuple[OutOfStep, ...] = ()
    remains: tuple[str, ...] = ()


def commit_of(plan: Plan, asked: Asked, memory: Memory, *, max_redo_depth: int) -> Commit:
    """The commit of a plan, as asked: with the answer to its `requestId`, and what is told."""
    request = None
    written = next((e.step.id for e in plan.events if isinstance(e, StepAppended)), None)
    if asked.request_id is not None:
        head = next(
            (e for e in reversed(plan.events) if isinstance(e, StepAppended | HeadMoved)), None
        )
        head_id = memory.tree.head.step_id
        if isinstance(head, StepAppended):
            head_id = head.step.id
        elif isinstance(head, HeadMoved):
            head_id = head.to.step_id
        answer = {"headId": head_id} | ({"turnId": plan.turn_id} if plan.turn_id else {})
        if plan.undo is not None:
            answer["undoId"] = plan.undo.run.id
        request = Request(asked.request_id, asked.fingerprint, orjson.dumps(answer).decode())
    return Commit(
        id=written or new_id(),
        key=memory.key,
        principal=asked.principal.id,
        now=now_ms(),
        guard=plan.guard,
        events=plan.events,
        notices=plan.notices
        + _notices(plan, asked.principal.id, memory.tree.redo_stack, max_redo_depth),
        payload=plan.payload,
        blobs=plan.blobs,
        request=request,
        node_id=plan.node_id,
        change=plan.change,
        attachments=plan.attachments,
        closes=plan.closes,
        approvals=plan.approvals,
        undo=plan.undo,
    )


def _notices(plan: Plan, by: str, stack: list[Position], max_redo_depth: int) -> tuple[Notice, ...]:
    """What is told of a plan's events, in their order (protocol.md, order), then of its undo."""
    notices: list[Notice] = []
    for event in plan.events:
        match event:
            case RedoPushed(position):
                stack = [*stack, position][-max_redo_depth:]
            case RedoPopped(count):
                stack = stack[:-count]
            case RedoCleared():
                stack = []
            case StateChanged(state):
                notices.append(Status(state))
            case StepAppended(step):
                notices.append(StepWritten(step.id))
            case HeadMoved(to, workflow, cause):
                redo_id = stack[-1].step_id if stack else None
                notices.append(
                    HeadChanged(
                        to.step_id, workflow, len(stack), redo_id, cause, by, plan.out_of_step
                    )
                )
            case _:
                pass  # bookkeeping that no client is told of
    if plan.told is not None:
        notices.append(UndoTold(plan.told))
    return tuple(notices)


def now_ms() -> datetime:
    """The time, as records carry it: UTC, to the millisecond."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)
