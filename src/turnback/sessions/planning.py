"""From a command to the one commit it leads to: decided by the tree, refused, or nothing to do.

A plan changes nothing. Who makes it durable may find that its guard no longer holds, read the
session again and plan again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import assert_never

import orjson

from turnback.agent.steps import StepDraft
from turnback.core.edits import Edit, ReplaceWorkflow
from turnback.core.errors import (
    Archived,
    Busy,
    ConfirmationRequired,
    ContentRequired,
    Draining,
    EditConflict,
    PreconditionFailed,
    SnapshotMissing,
    TooLarge,
)
from turnback.core.operators import CATALOG
from turnback.core.tree import (
    EndReason,
    Event,
    HeadMoved,
    NewIds,
    RedoCleared,
    RedoPopped,
    RedoPushed,
    State,
    StateChanged,
    Step,
    StepAppended,
)
from turnback.core.workflow import Workflow, apply, conflicts, edits_between
from turnback.sessions import payloads
from turnback.sessions.commands import (
    Asked,
    Change,
    Checkout,
    Delete,
    Done,
    EditWorkflow,
    Prompt,
    PutWorkflow,
    Redo,
    RevertStep,
    RevertTurn,
    Stop,
)
from turnback.sessions.keeping import kept
from turnback.sessions.memory import Memory
from turnback.sessions.preview import described
from turnback.settings import Settings
from turnback.store.ids import new_id
from turnback.store.outbox import HeadChanged, Notice, SessionChanged, Status, StepWritten
from turnback.store.rows import (
    Alive,
    Commit,
    Generating,
    Guard,
    Holder,
    Idle,
    Request,
    SessionChange,
    Takeover,
)

INTERRUPTED = "Interrupted: the run was cut off before it had ended."


@dataclass(frozen=True, slots=True)
class Plan:
    """What a command leads to: one commit, not yet made.

    `after` is the workflow that it leads to, by way of `via` where HEAD moves twice.
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


class Planner:
    """Plans over one session's memory. `node_id` is the process that would hold a new run."""

    def __init__(self, memory: Memory, settings: Settings, *, node_id: str) -> None:
        self._memory = memory
        self._settings = settings
        self._node_id = node_id

    async def plan(self, asked: Asked, *, draining: bool) -> Plan | Done | None:
        """What the command leads to; None: nothing; `Done`: it has been done before. Refuses.

        While `draining` no run is begun.
        """
        command, tree = asked.command, self._memory.tree
        if isinstance(command, Prompt) and command.turn_key in tree.turn_keys:
            turn_id = tree.turn_keys[command.turn_key or ""]
            return Done(tree.head.step_id, self._memory.revision, turn_id)
        if self._memory.row.archived_at is not None and not isinstance(
            command, Change | Delete | Stop
        ):
            raise Archived("The session is archived; unarchive it to go on")
        tree.expect_head(asked.expected_head_id)
        ids = NewIds(turn=new_id(), step=new_id(), branch=new_id())
        match command:
            case Prompt():
                return self._prompt(command, ids, asked.principal.id, draining=draining)
            case Stop():
                events = tree.stop()
                return Plan(guard=Generating(), events=events) if events else None
            case RevertTurn(turn_id):
                plan = await self._move(tree.revert(turn_id))
                return await self._revert(plan, tree.turn_on_path(turn_id), asked, ids)
            case RevertStep(step_id):
                plan = await self._move(tree.revert_step(step_id))
                return await self._revert(plan, tree.step_on_path(step_id), asked, ids)
            case Redo(all_):
                return await self._move(tree.redo(all_=all_))
            case Checkout(step_id):
                return await self._move(tree.checkout(step_id))
            case EditWorkflow(base_head_id, edits):
                return await self._edit(base_head_id, edits, ids, asked.principal.id)
            case PutWorkflow(workflow, if_match):
                # Busy is said before anything about the document.
                tree.edit(ids, tree.workflow, by=asked.principal.id)
                if if_match is not None and tree.workflow not in if_match:
                    raise PreconditionFailed(
                        "The workflow has changed since you read it; read it again",
                        etag=tree.workflow,
                    )
                if workflow.hash == tree.workflow:
                    return None
                return self._put(workflow, ids, asked.principal.id)
            case Change(name, archived):
                return self._change(name, archived)
            case Delete():
                if tree.state is not State.AVAILABLE:
                    raise Busy("Cannot delete while the agent is busy; stop it first")
                return Plan(
                    guard=Idle(self._memory.revision),
                    change=SessionChange(deleted=True),
                    notices=(SessionChanged("deleted"),),
                )
            case _:
                assert_never(command)

    def _prompt(self, command: Prompt, ids: NewIds, by: str, *, draining: bool) -> Plan:
        if not command.content.strip():
            raise ContentRequired("Message content is required")
        limit = self._settings.max_prompt_bytes
        if len(command.content.encode()) > limit:
            raise TooLarge(
                f"A prompt may have {limit} bytes (`max_prompt_bytes`)",
                limit="max_prompt_bytes",
                value=limit,
            )
        events = self._memory.tree.prompt(ids, by=by, key=command.turn_key)
        if draining:
            raise Draining("The server is going down and starts no new run; try again in a moment")
        return Plan(
            guard=Idle(self._memory.revision, claims=True),
            events=events,
            payload=payloads.of_prompt(command.content, command.message_source),
            after=self._present(),
            node_id=self._node_id,
            turn_id=ids.turn,
        )

    async def _move(self, events: tuple[Event, ...]) -> Plan:
        [moved] = [event for event in events if isinstance(event, HeadMoved)]
        return Plan(
            guard=Idle(self._memory.revision),
            events=events,
            after=await self._memory.workflow_of(moved.workflow),
        )

    def _put(self, workflow: Workflow, ids: NewIds, by: str) -> Plan:
        """A document in place of the one at HEAD, told as the edits that it comes to."""
        whole: tuple[Edit, ...] = (ReplaceWorkflow(workflow=workflow.content()),)
        here = self._memory.workflow
        edits = whole if here is None else edits_between(here, workflow)
        if len(edits) > self._settings.max_edits:
            edits = whole
        return self._edited(edits, workflow, ids, by)

    async def _revert(self, plan: Plan, first: Step, asked: Asked, ids: NewIds) -> Plan:
        """The plan of a revert to before `first`, if it need not be confirmed or has been.

        Where edits are kept that change something there, the plan of both in one.
        """
        command, tree, by = asked.command, self._memory.tree, asked.principal.id
        assert isinstance(command, RevertTurn | RevertStep)
        target = plan.after
        assert target is not None
        if command.keep_edits:
            edits = tree.edits_since(first)
            after = await kept(self._memory, edits, target, self._settings)
            if after == target:
                return plan
            return Plan(
                guard=plan.guard,
                events=tree.revert_keeping(first, ids, after.hash, by=by),
                payload=payloads.of_edit(edits_between(target, after), kept=True),
                via=target,
                after=after,
                blobs=after.blobs(since=target),
                turn_id=ids.turn,
            )
        crossed = tree.crossed(first, by=by)
        if crossed and not command.confirm:
            shown = [(turn, 1) for turn in crossed[-self._settings.preview_turns :]]
            raise ConfirmationRequired(
                "This takes back what others have edited; send it again with `confirm`, or with "
                "`keepEdits`",
                headId=tree.head.step_id,
                count=len(crossed),
                edits=[
                    {
                        "messageId": left.turn.id,
                        "by": left.turn.by,
                        "content": left.content,
                        "timestamp": left.timestamp,
                    }
                    for left in await described(self._memory, shown)
                ],
            )
        return plan

    async def _edit(
        self, base_head_id: str, edits: tuple[Edit, ...], ids: NewIds, by: str
    ) -> Plan | None:
        tree = self._memory.tree
        tree.edit(ids, tree.workflow, by=by)  # busy is said before anything about the edit
        base_hash = tree.workflow_at(tree.position(base_head_id).step_id)
        here = self._present()
        if base_hash != here.hash:
            base = await self._memory.workflow_of(base_hash)
            if both := conflicts(edits, base=base, head=here):
                raise EditConflict(
                    "What you edited has changed meanwhile; look at it again",
                    headId=tree.head.step_id,
                    baseHeadId=base_head_id,
                    conflicts=[{"kind": kind, "id": id_} for kind, id_ in sorted(both)],
                )
        after = apply(
            here,
            edits,
            new_link_id=new_link_id,
            known_types=CATALOG.known,
            max_bytes=self._settings.max_workflow_bytes,
            max_depth=self._settings.max_json_depth,
        )
        if after.hash == here.hash:
            return None
        return self._edited(edits, after, ids, by)

    def _edited(self, edits: tuple[Edit, ...], after: Workflow, ids: NewIds, by: str) -> Plan:
        return Plan(
            guard=Idle(self._memory.revision),
            events=self._memory.tree.edit(ids, after.hash, by=by),
            payload=payloads.of_edit(edits),
            after=after,
            blobs=after.blobs(since=self._memory.workflow),
            turn_id=ids.turn,
        )

    def _change(self, name: str | None, archived: bool | None) -> Plan | None:
        notices: list[Notice] = []
        if name is not None and name != self._memory.row.name:
            notices.append(SessionChanged("name", name=name))
        if archived is not None and archived != (self._memory.row.archived_at is not None):
            if archived and self._memory.tree.state is not State.AVAILABLE:
                raise Busy("Cannot archive while the agent is busy; stop it first")
            notices.append(SessionChanged("archived", archived=archived))
        if not notices:
            return None
        return Plan(
            guard=Idle(self._memory.revision) if archived else Alive(),
            change=SessionChange(name=name, archived=archived),
            notices=tuple(notices),
        )

    def _present(self) -> Workflow:
        if self._memory.workflow is None:
            raise SnapshotMissing(
                "The stored workflow at HEAD is damaged; revert to an earlier turn, or check "
                "another step out"
            )
        return self._memory.workflow

    # -- a run's steps

    def step(self, fence: int, step_id: str, draft: StepDraft, *, draining: bool) -> Plan:
        """The next step of the run that holds `fence`.

        A run that was stopped because the server is `draining` was interrupted: no person did it.
        """
        end, payload = draft.end_reason, payloads.of_draft(draft)
        if end is EndReason.STOPPED and draining:
            end, payload = EndReason.INTERRUPTED, payloads.of_note(INTERRUPTED)
        tree, here = self._memory.tree, self._memory.workflow
        return Plan(
            guard=Holder(fence, tree.head.step_id),
            events=tree.append(step_id, draft.after.hash, end),
            payload=payload,
            after=draft.after,
            blobs={} if draft.after is here else draft.after.blobs(since=here),
        )

    def interruption(self) -> Plan:
        """The end of a run whose holder is gone."""
        tree = self._memory.tree
        return Plan(
            guard=Takeover(self._memory.row.fence, tree.head.step_id),
            events=tree.append(new_id(), tree.workflow, EndReason.INTERRUPTED),
            payload=payloads.of_note(INTERRUPTED),
        )

    # -- from a plan to its commit

    def commit(self, plan: Plan, asked: Asked) -> Commit:
        """The commit of a plan, as asked: with the answer to its `requestId`, and what is told."""
        request = None
        if asked.request_id is not None:
            head = next(
                (e for e in reversed(plan.events) if isinstance(e, StepAppended | HeadMoved)), None
            )
            head_id = self._memory.tree.head.step_id
            if isinstance(head, StepAppended):
                head_id = head.step.id
            elif isinstance(head, HeadMoved):
                head_id = head.to.step_id
            answer = {"headId": head_id} | ({"turnId": plan.turn_id} if plan.turn_id else {})
            request = Request(asked.request_id, asked.fingerprint, orjson.dumps(answer).decode())
        return Commit(
            id=new_id(),
            key=self._memory.key,
            principal=asked.principal.id,
            now=now_ms(),
            guard=plan.guard,
            events=plan.events,
            notices=plan.notices + self._notices(plan.events, asked.principal.id),
            payload=plan.payload,
            blobs=plan.blobs,
            request=request,
            node_id=plan.node_id,
            change=plan.change,
        )

    def _notices(self, events: Iterable[Event], by: str) -> tuple[Notice, ...]:
        """What is told of events, in their order (protocol.md, order)."""
        stack = self._memory.tree.redo_stack
        notices: list[Notice] = []
        for event in events:
            match event:
                case RedoPushed(position):
                    stack = [*stack, position][-self._settings.max_redo_depth :]
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
                        HeadChanged(to.step_id, workflow, len(stack), redo_id, cause, by)
                    )
                case _:
                    pass  # bookkeeping that no client is told of
        return tuple(notices)


def now_ms() -> datetime:
    """The time, as records carry it: UTC, to the millisecond."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def new_link_id() -> str:
    """A link id that no workflow has or will have."""
    return f"link-{new_id()}"
