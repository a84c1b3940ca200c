"""From a command to the plan of the one commit it leads to: decided, refused, or nothing to do.

A plan changes nothing. Who makes it durable may find that its guard no longer holds, read the
session again and plan again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, assert_never

from turnback.agent.steps import StepDraft
from turnback.core.approvals import Approval, ApprovalStatus, Decision
from turnback.core.errors import (
    AlreadyDecided,
    ApprovalChanged,
    Archived,
    BadInput,
    Busy,
    CallsHeld,
    ContentRequired,
    Draining,
    NoPendingAction,
    NoSuchApproval,
    TooLarge,
)
from turnback.core.lineage import Position
from turnback.core.pending import ActionClaim, PendingAction, PendingState
from turnback.core.principal import GRANTABLE, Principal, Right, named
from turnback.core.run_settings import refuse_looser
from turnback.core.tree import (
    BranchStarted,
    EndReason,
    HeadMoved,
    NewIds,
    State,
)
from turnback.core.values import counted
from turnback.sessions import payloads, standing, world
from turnback.sessions.commands import (
    Acknowledge,
    Approve,
    Asked,
    Change,
    Checkout,
    ClaimAction,
    Delete,
    Done,
    EditWorkflow,
    Expire,
    Overwrite,
    Prompt,
    PutWorkflow,
    Redo,
    ReleaseAction,
    RevertStep,
    RevertTurn,
    Share,
    Stop,
    Undo,
)
from turnback.sessions.editing import edited, put
from turnback.sessions.memory import Memory
from turnback.sessions.moving import moved, reverted
from turnback.sessions.plans import Plan, Resume, commit_of, now_ms
from turnback.sessions.undoing import Begun, UndoPlanning
from turnback.settings import Settings
from turnback.store.ids import new_id
from turnback.store.outbox import ApprovalTold, Notice, SessionChanged, Status
from turnback.store.rows import (
    Alive,
    Commit,
    Generating,
    Grant,
    Holder,
    Idle,
    SessionChange,
    Takeover,
    UnderWay,
    Undoing,
    UndoWrite,
    Unmoved,
    Waiting,
)
from turnback.undo.runner import Step as UndoStep

INTERRUPTED = "Interrupted: the run was cut off before it had ended."


_UNDOES = (RevertTurn, RevertStep, Undo)
_NOT_WHILE_UNDOING = (
    Prompt, EditWorkflow, PutWorkflow, RevertTurn, RevertStep, Undo, Overwrite, Redo, Checkout,
    Delete,
)  # fmt: skip
"""What is refused while an undo is under way; reading, forking and stopping are not."""

Check = Callable[[Approval, Mapping[str, Any]], None]
"""Raises `InvalidArguments` where what waits cannot be called with these arguments."""


class Planner:
    """Plans over one session's memory. `node_id` is the process that would hold a new run.

    `check` judges arguments that a person has changed; without one there is no tool to call.
    """

    def __init__(
        self, memory: Memory, settings: Settings, *, node_id: str, check: Check | None = None
    ) -> None:
        self._check = check
        self._memory = memory
        self.undoing = UndoPlanning(memory, settings)
        self._settings = settings
        self._node_id = node_id

    async def plan(self, asked: Asked, *, draining: bool) -> Plan | Done | None:
        """What the command leads to; None: nothing; `Done`: it has been done before. Refuses.

        While `draining` no run is begun.
        """
        plan_id = asked.command.plan_id if isinstance(asked.command, _UNDOES) else None
        if plan_id is not None and (undo_id := await self.undoing.joined(plan_id)) is not None:
            return Done(self._memory.tree.head.step_id, self._memory.revision, undo_id=undo_id)
        if isinstance(asked.command, _NOT_WHILE_UNDOING):
            self.undoing.refuse_while_under_way()
        plan = await self._plan(asked, draining=draining)
        if not isinstance(plan, Plan):
            return plan
        move = next((e for e in reversed(plan.events) if isinstance(e, HeadMoved)), None)
        return plan if move is None else await self._moved(plan, move.to)

    async def _moved(self, plan: Plan, to: Position) -> Plan:
        """With what is out of step with the new HEAD."""
        memory = self._memory
        tree, stands = memory.tree, await standing.of_family(memory)
        begun = [event.branch for event in plan.events if isinstance(event, BranchStarted)]
        return replace(
            plan,
            out_of_step=standing.out_of_step(tree, stands, head=to, begun=begun),
            remains=()
            if plan.undo is not None
            else standing.remaining(tree, stands, head=tree.head, after=to, begun=begun),
        )

    async def _plan(self, asked: Asked, *, draining: bool) -> Plan | Done | None:
        command, tree = asked.command, self._memory.tree
        if isinstance(command, Prompt) and command.turn_key in tree.turn_keys:
            turn_id = tree.turn_keys[command.turn_key or ""]
            return Done(tree.head.step_id, self._memory.revision, turn_id)
        if self._memory.row.archived_at is not None and not isinstance(
            command, Change | Share | Delete | Stop | Expire
        ):
            raise Archived("The session is archived; unarchive it to go on")
        tree.expect_head(asked.expected_head_id)
        ids, by = NewIds(turn=new_id(), step=new_id(), branch=new_id()), asked.principal.id
        match command:
            case Prompt():
                return await self._prompt(command, asked.principal, ids, draining=draining)
            case Stop():
                stopped = await self.undoing.stopping()
                return self._stop(by) if stopped is None else self._begun(stopped)
            case Approve():
                return self._decide(command, by, draining=draining)
            case Expire(before):
                return self._expire(before, draining=draining)
            case RevertTurn() | RevertStep():
                plan = await reverted(self._memory, self._settings, command, ids, by)
                if not command.undo:
                    return plan
                return await self._undoing(plan, command, by, draining=draining)
            case Undo(plan_id):
                if tree.state is not State.AVAILABLE:
                    raise Busy("Cannot undo while the agent is busy", state=tree.state.value)
                begun = await self.undoing.beginning(plan_id, by=by)
                return None if begun is None else self._runs(self._begun(begun), draining=draining)
            case Overwrite(residue_id):
                if tree.state is not State.AVAILABLE:
                    raise Busy("Cannot undo while the agent is busy", state=tree.state.value)
                begun = await self.undoing.overwriting(residue_id, by=by)
                return self._runs(self._begun(begun), draining=draining)
            case Acknowledge(residue_id):
                noted = await self.undoing.acknowledging(residue_id)
                return None if noted is None else replace(self._begun(noted), guard=self._unmoved())
            case Redo(all_):
                return await moved(self._memory, tree.redo(all_=all_))
            case Checkout(step_id):
                return await moved(self._memory, tree.checkout(step_id))
            case EditWorkflow():
                return await edited(self._memory, self._settings, command, ids, by)
            case PutWorkflow():
                return put(self._memory, self._settings, command, ids, by)
            case Change():
                return await self._change(command)
            case Share():
                return _shared(command)
            case ClaimAction() | ReleaseAction():
                return await self._pending(command, by)
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

    # -- undo

    async def _undoing(
        self, plan: Plan, command: RevertTurn | RevertStep, by: str, *, draining: bool
    ) -> Plan:
        """A revert's plan, and with it the undo of what was done outside since then."""
        tree = self._memory.tree
        first = (
            tree.turn_on_path(command.turn_id)
            if isinstance(command, RevertTurn)
            else tree.step_on_path(command.step_id)
        )
        begun = await self.undoing.beginning_with(first, command.plan_id, by=by)
        if begun is None:
            return plan
        return self._runs(replace(plan, undo=begun.write, told=begun.told), draining=draining)

    def _unmoved(self) -> Unmoved:
        return Unmoved(self._memory.revision)

    def _begun(self, begun: Begun) -> Plan:
        return Plan(guard=Idle(self._memory.revision), undo=begun.write, told=begun.told)

    def _runs(self, plan: Plan, *, draining: bool = False) -> Plan:
        """The plan, with this process carrying the undo's run from then on."""
        if draining:
            raise Draining("The server is going down and starts no undo; try again in a moment")
        return replace(plan, guard=Idle(self._memory.revision, claims=True), node_id=self._node_id)

    async def undo_takeover(self) -> Plan:
        """The run of an undo whose holder is gone, carried on by this process."""
        return self._runs(self._begun(await self.undoing.taking_over()))

    def undo_step(self, undo: UnderWay, fence: int, step: UndoStep) -> Plan:
        """What the run of an undo that holds `fence` has come to."""
        revision = undo.revision + 1
        return Plan(
            guard=Undoing(self._memory.revision, fence),
            undo=UndoWrite(
                run=step.run,
                revision=revision,
                changes=step.changes,
                residues=step.residues,
                secret=step.secret,
                lets_go=step.lets_go,
            ),
            told=replace(step.told, revision=revision),
        )

    async def _prompt(
        self, command: Prompt, principal: Principal, ids: NewIds, *, draining: bool
    ) -> Plan:
        if not command.content.strip():
            raise ContentRequired("Message content is required")
        limit = self._settings.max_prompt_bytes
        if len(command.content.encode()) > limit:
            raise TooLarge(
                f"A prompt may have {counted(limit, 'byte')} (`max_prompt_bytes`)",
                limit="max_prompt_bytes",
                value=limit,
            )
        most = self._settings.max_prompt_attachments
        if len(command.attachment_ids) > most:
            raise TooLarge(
                f"A prompt may name {counted(most, 'file')} (`max_prompt_attachments`)",
                limit="max_prompt_attachments",
                value=most,
            )
        events = self._memory.tree.prompt(ids, by=principal.id, key=command.turn_key)
        if draining:
            raise Draining("The server is going down and starts no new run; try again in a moment")
        attached = await self._memory.attached(principal, command.attachment_ids)
        return Plan(
            guard=Idle(self._memory.revision, claims=True),
            events=events,
            payload=payloads.of_prompt(
                command.content,
                command.message_source,
                attached,
                world=await world.note(self._memory),
            ),
            attachments=command.attachment_ids,
            after=self._memory.present,
            node_id=self._node_id,
            turn_id=ids.turn,
        )

    async def _pending(self, command: ClaimAction | ReleaseAction, by: str) -> Plan | None:
        """A claim as the database has it: the process that gave it may have ended since."""
        if self._memory.tree.state is not State.AVAILABLE:
            raise Busy("The agent is busy; wait for its end or stop it")
        held = await self._memory.pending()
        if held is None:
            raise NoPendingAction("The session has no pending action, or none any more")
        now, claim_id = round(now_ms().timestamp() * 1000), command.claim_id
        if isinstance(command, ClaimAction):
            until = now + round(self._settings.pending_claim_time * 1000)
            action = held.claimed(ActionClaim(claim_id, by, self._node_id, until), now=now)
        else:
            action = held.released(claim_id, by=by, now=now)
        if action == held:
            return None
        return Plan(
            guard=Idle(self._memory.revision),
            change=SessionChange(pending=action),
            notices=(_told(action, action.state_at(now)),),
        )

    async def _change(self, command: Change) -> Plan | None:
        name, archived, model = command.name, command.archived, command.model
        row, notices = self._memory.row, list[Notice]()
        if name is not None and name != row.name:
            notices.append(SessionChanged("name", name=name))
        if archived is not None and archived != (row.archived_at is not None):
            if archived and self._memory.tree.state is not State.AVAILABLE:
                raise Busy("Cannot archive while the agent is busy; stop it first")
            if archived:
                await self._refuse_unfinished()
            notices.append(SessionChanged("archived", archived=archived))
        of_runs = self._changed_runs(command)
        if of_runs and row.archived_at is not None and archived is not False:
            raise Archived("The session is archived; unarchive it to change its runs")
        notices += of_runs
        visibility = command.visibility
        if visibility is not None and visibility is not row.visibility:
            notices.append(SessionChanged("visibility", visibility=visibility))
        if not notices:
            return None
        settings = next((n.settings for n in of_runs if n.settings is not None), None)
        return Plan(
            guard=Idle(self._memory.revision) if archived else Alive(),
            change=SessionChange(
                name=name,
                archived=archived,
                model=model,
                settings=settings,
                visibility=visibility,
            ),
            notices=tuple(notices),
        )

    async def _refuse_unfinished(self) -> None:
        """Raise while something goes on outside that could not be stopped in the archive."""
        self.undoing.refuse_while_under_way()
        held = await self._memory.dao.effects.held(self._memory.key)
        if held:
            raise CallsHeld(
                "The session holds back calls that would still be made; cancel them first, or"
                " archive it once they are sent",
                effectIds=[effect.id for effect in held],
                until=max(effect.hold_until or 0 for effect in held),
            )

    def _changed_runs(self, command: Change) -> list[SessionChanged]:
        """What changes of the session's next runs; one under way goes on as it began."""
        row, notices = self._memory.row, list[SessionChanged]()
        if command.model is not None and command.model != row.model:
            notices.append(SessionChanged("model", model=command.model))
        if command.settings is not None:
            refuse_looser(command.settings, self._settings)
            if news := row.settings.news(command.settings):
                notices.append(SessionChanged("settings", settings=news))
        return notices

    # -- what waits for a person

    def _decide(self, command: Approve, by: str, *, draining: bool) -> Plan:
        held = {approval.tool_call_id: approval for approval in self._memory.approvals}
        approval = held.get(command.tool_call_id)
        if approval is None:
            raise NoSuchApproval("No call of this id waits for approval; look at the session again")
        if approval.status is not ApprovalStatus.WAITING:
            who = "" if approval.by is None else f" by `{approval.by}`"
            raise AlreadyDecided(
                f"The call was {approval.status}{who} already",
                status=approval.status,
                by=approval.by,
            )
        if approval.hash != command.args_hash:
            raise ApprovalChanged(
                "What waits is not what you decided about; look at it again",
                argsHash=approval.hash,
            )
        edited = None
        if command.decision is Decision.APPROVE and command.input not in (None, approval.args):
            edited = command.input
            if self._check is not None:
                self._check(approval, edited or {})
        status = {Decision.APPROVE: ApprovalStatus.APPROVED, Decision.DENY: ApprovalStatus.DENIED}
        decided = replace(approval, status=status[command.decision], edited=edited, by=by)
        return self._decided((decided,), draining=draining)

    def _expire(self, before: int, *, draining: bool) -> Plan | None:
        late = [a for a in self._memory.waiting_for if a.expires_at < before]
        if not late:
            return None
        expired = tuple(replace(approval, status=ApprovalStatus.EXPIRED) for approval in late)
        return self._decided(expired, draining=draining)

    def _decided(self, decided: tuple[Approval, ...], *, draining: bool) -> Plan:
        """The turn goes on, in this process, once there is nothing left to decide."""
        ids = {approval.tool_call_id for approval in decided}
        left = tuple(a for a in self._memory.waiting_for if a.tool_call_id not in ids)
        told: tuple[Notice, ...] = (
            *map(ApprovalTold, decided),
            Status(self._memory.tree.state, left),
        )
        plan = Plan(guard=Waiting(self._memory.revision), approvals=decided, notices=told)
        return plan if left else self._resumed(plan, Resume.GO_ON, draining=draining)

    def _resumed(self, plan: Plan, resume: Resume, *, draining: bool = False) -> Plan:
        if draining:
            raise Draining("The server is going down and starts no new run; try again in a moment")
        tree = self._memory.tree
        return replace(
            plan,
            guard=Waiting(self._memory.revision, claims=True),
            events=plan.events or tree.resume(),
            node_id=self._node_id,
            turn_id=tree.running,
            resumes=resume,
        )

    def _stop(self, by: str) -> Plan | None:
        """A turn that waits has no run to stop: this process begins one, which closes it."""
        tree = self._memory.tree
        events = tree.stop()
        if not events:
            return None
        plan = Plan(guard=Generating(), events=events)
        if not tree.waits:
            return plan
        dropped = tuple(
            replace(approval, status=ApprovalStatus.DROPPED, by=by)
            for approval in self._memory.waiting_for
        )
        told = tuple(map(ApprovalTold, dropped))
        return self._resumed(replace(plan, approvals=dropped, notices=told), Resume.STOP)

    # -- a run's steps

    def waits(self, fence: int, approvals: tuple[Approval, ...]) -> Plan:
        """The run that holds `fence` ends: a person has to decide about these calls first."""
        tree = self._memory.tree
        return Plan(
            guard=Holder(fence, tree.head.step_id),
            events=tree.wait(),
            approvals=approvals,
            notices=(*map(ApprovalTold, approvals), Status(tree.state, approvals)),
        )

    def step(
        self, fence: int, step_id: str, draft: StepDraft, *, draining: bool, closes: bool = False
    ) -> Plan:
        """The next step of the run that holds `fence`; `closes`: it was the open one.

        A run that was stopped because the server is `draining` was interrupted: no person did it.
        """
        end, payload = draft.end_reason, payloads.of_draft(draft)
        if end is EndReason.STOPPED and draining:
            end, payload = EndReason.INTERRUPTED, payloads.of_note(INTERRUPTED)
        tree, here = self._memory.tree, self._memory.workflow
        change, notices = self._pending_after(end)
        return Plan(
            guard=Holder(fence, tree.head.step_id),
            change=change,
            notices=notices,
            events=tree.append(step_id, draft.after.hash, end),
            payload=payload,
            after=draft.after,
            blobs={} if draft.after is here else draft.after.blobs(since=here),
            closes=closes,
        )

    def recovery(self) -> Plan:
        """A run that closes the open step of one whose holder is gone, and ends its turn.

        What that holder had sent may still have to be found out, so it takes a run of its own.
        """
        tree = self._memory.tree
        return Plan(
            guard=Takeover(self._memory.row.fence, tree.head.step_id),
            events=tree.resume(),
            node_id=self._node_id,
            turn_id=tree.running,
            resumes=Resume.STOP if tree.state is State.STOPPING else Resume.INTERRUPT,
        )

    def interruption(self) -> Plan:
        """The end of a run whose holder is gone."""
        tree = self._memory.tree
        change, notices = self._pending_after(EndReason.INTERRUPTED)
        return Plan(
            guard=Takeover(self._memory.row.fence, tree.head.step_id),
            change=change,
            notices=notices,
            events=tree.append(new_id(), tree.workflow, EndReason.INTERRUPTED),
            payload=payloads.of_note(INTERRUPTED),
        )

    def _pending_after(
        self, end: EndReason | None
    ) -> tuple[SessionChange | None, tuple[Notice, ...]]:
        """What becomes of the pending action with the next step, which may end the turn so.

        It is done with the fork's first turn that is complete.
        """
        held, tree = self._memory.row.pending, self._memory.tree
        if end is None or held is None:
            return None, ()
        if end is EndReason.COMPLETE:
            return SessionChange(ends_pending=True), (SessionChanged("pendingAction"),)
        if tree.turn_keys.get(held.turn_key) != tree.running:
            return None, ()
        again = held.again(new_id())
        return SessionChange(pending=again), (_told(again, PendingState.PENDING),)

    def commit(self, plan: Plan, asked: Asked) -> Commit:
        """The commit of a plan, as asked."""
        limit = self._settings.max_redo_depth
        return commit_of(plan, asked, self._memory, max_redo_depth=limit)


def _told(action: PendingAction, state: PendingState) -> SessionChanged:
    return SessionChanged("pendingAction", pending=state, turn_key=action.turn_key)


def _shared(command: Share) -> Plan:
    """Grants are what the database has, not memory: the same again is written again."""
    named(command.principal_id)
    if command.rights and (Right.READ not in command.rights or command.rights - GRANTABLE):
        raise BadInput("A grant is of `read`, and with it of `run` and `fork`")
    return Plan(
        guard=Alive(),
        change=SessionChange(grant=Grant(command.principal_id, command.rights)),
        notices=(SessionChanged("grants"),),
    )
