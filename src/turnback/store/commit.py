"""The hot statement: a whole commit in one round trip, without BEGIN (lineage.md 2).

The session row is updated under a guard; everything else is inserted from what that update
returned, so that zero rows mean: nothing was written. The text depends only on which parts a
commit has, so a connection prepares a handful of statements and keeps them.
"""

from __future__ import annotations

from typing import Any, assert_never

import orjson

from turnback.core.approvals import Approval, ApprovalStatus
from turnback.core.lineage import ROOT_ID, Branch, Position
from turnback.core.tree import (
    BranchStarted,
    HeadMoved,
    RedoCleared,
    RedoPopped,
    RedoPushed,
    StateChanged,
    Step,
    StepAppended,
    Turn,
    TurnEnded,
    TurnKind,
    TurnResumed,
    TurnStarted,
    TurnStatus,
    TurnWaits,
)
from turnback.core.undo.rows import RunStatus
from turnback.store import approvals, pending, undo_commit
from turnback.store.folding import fold
from turnback.store.outbox import StepWritten, to_row
from turnback.store.packing import pack
from turnback.store.rows import (
    Alive,
    Commit,
    Generating,
    Grant,
    Holder,
    Idle,
    Request,
    SessionChange,
    Takeover,
    Undoing,
    Unmoved,
    Waiting,
)
from turnback.store.sealing import Sealer
from turnback.store.statement import Statement
from turnback.telemetry.metrics import CommitKind


def step_key(step_id: str) -> str | None:
    """A step's id as a column holds it: the root sentinel is null."""
    return None if step_id == ROOT_ID else step_id


def build(
    commit: Commit, *, max_redo_depth: int, sealer: Sealer | None = None
) -> tuple[str, list[Any]]:
    """The statement of `commit` and its arguments; its row is `(revision, state, fence)`."""
    s = Statement(commit)
    s.sets += [f"revision = revision + {len(commit.notices)}", f"updated_at = {s.now}"]
    for event in commit.events:
        match event:
            case BranchStarted(branch):
                _branch(s, branch)
            case TurnStarted(turn):
                _turn(s, turn)
            case TurnWaits(turn_id):
                _status(s, turn_id, TurnStatus.WAITING)
                _release(s)
            case TurnResumed(turn_id):
                _status(s, turn_id, TurnStatus.RUNNING)
            case TurnEnded(turn_id, status):
                _end(s, turn_id, status)
            case StateChanged(state):
                s.sets.append(f"state = {s.arg(state, 'text')}")
            case StepAppended(step):
                _head(s, step.position, step.after)
                _record(s, step)
            case HeadMoved(to, workflow, _):
                if not any(isinstance(other, StepAppended) for other in commit.events):
                    _head(s, to, workflow)
            case RedoPushed(position):
                _push(s, position, max_redo_depth)
            case RedoPopped(count):
                n = s.arg(count, "integer")
                s.sets += [f"redo_top = redo_top - {n}", f"redo_depth = redo_depth - {n}"]
            case RedoCleared():
                s.sets += ["redo_top = 0", "redo_depth = 0"]
            case _:
                assert_never(event)
    if commit.change is not None:
        _change(s, commit.change)
    if isinstance(commit.guard, Takeover) or (
        isinstance(commit.guard, Idle | Waiting) and commit.guard.claims
    ):
        s.sets.append("fence = fence + 1")
    if commit.notices:
        _events(s)
    if commit.blobs:
        _blobs(s)
    if commit.request is not None:
        _request(s, commit.request)
    if commit.node_id is not None:
        _lease(s)
    if commit.undo is not None:
        undo_commit.add(s, commit.undo, sealer or Sealer(None))
        if commit.undo.run.status is RunStatus.ENDED and commit.undo.acknowledges is None:
            _release(s)
    if commit.closes:
        _close(s)
    for nth, approval in enumerate(commit.approvals):
        _approve(s, nth, approval)
    head = (
        f"update sessions set {', '.join(s.sets)} where root_id = {s.root} and id = {s.session} "
        f"and deleted_at is null{_guard(s, commit)} "
        "returning revision, state, fence, redo_top, head_seq, project_id, created_at"
    )
    parts = ", ".join([f"s as ({head})", *s.ctes])
    return f"with {parts} select revision, state, fence from s", s.args


def kind(commit: Commit) -> CommitKind:
    """What a commit is counted as."""
    if isinstance(commit.guard, Takeover):
        return "interrupt"
    found: CommitKind = "change"
    for event in commit.events:
        match event:
            case TurnEnded():
                return "end"
            case TurnWaits() | TurnResumed():
                found = "approval"
            case TurnStarted(turn):
                return "prompt" if turn.kind is TurnKind.PROMPT else "edit"
            case StepAppended():
                found = "step"
            case HeadMoved(_, _, cause):
                found = cause.value
            case StateChanged() if found == "change":
                found = "stop"
            case _:
                pass
    return found


def _guard(s: Statement, commit: Commit) -> str:
    more = "" if commit.undo is None else undo_commit.guard(s, commit.undo)
    return _guarded(s, commit) + more


def _guarded(s: Statement, commit: Commit) -> str:
    match commit.guard:
        case Idle(revision, _):
            return f" and revision = {s.arg(revision, 'bigint')} and state = 'AVAILABLE'"
        case Undoing(revision, fence):
            return (
                f" and revision = {s.arg(revision, 'bigint')} and fence = {s.arg(fence, 'bigint')}"
                " and state = 'AVAILABLE'"
            )
        case Holder(fence, head_step) | Takeover(fence, head_step):
            return (
                f" and fence = {s.arg(fence, 'bigint')} and head_step = {s.arg(head_step, 'uuid')}"
                " and state <> 'AVAILABLE'"
            )
        case Generating():
            return " and state = 'GENERATING'"
        case Waiting(revision, _):
            return f" and revision = {s.arg(revision, 'bigint')} and state = 'GENERATING'"
        case Alive():
            return ""
        case Unmoved(revision):
            return f" and revision = {s.arg(revision, 'bigint')}"
        case _:
            assert_never(commit.guard)


def _head(s: Statement, head: Position, workflow: str) -> None:
    s.sets += [
        f"head_branch = {s.arg(head.branch_id, 'uuid')}",
        f"head_seq = {s.arg(head.seq, 'integer')}",
        f"head_step = {s.arg(step_key(head.step_id), 'uuid')}",
        f"workflow_hash = {s.arg(bytes.fromhex(workflow), 'bytea')}",
    ]


def _change(s: Statement, change: SessionChange) -> None:
    if change.name is not None:
        s.sets.append(f"name = {s.arg(change.name, 'text')}")
    if change.archived is not None:
        s.sets.append(f"archived_at = {s.now}" if change.archived else "archived_at = null")
    if change.model is not None:
        s.sets.append(f"model = {s.arg(change.model, 'text')}")
    if change.settings is not None:
        # Merged there, so that two who change different ones at once both do.
        changed = s.arg(orjson.dumps(change.settings).decode(), "jsonb")
        merged = f"coalesce(run_settings, '{{}}') || {changed}"
        s.sets.append(f"run_settings = jsonb_strip_nulls({merged})")
    if change.visibility is not None:
        s.sets.append(f"visibility = {s.arg(change.visibility, 'text')}")
    if change.grant is not None:
        _grant(s, change.grant)
    if change.pending is not None:
        # What is gone stays so: a run does not compare revisions, and a purge may have taken it.
        again = s.arg(pending.to_row(change.pending), "json")
        s.sets.append(f"pending_action = case when pending_action is not null then {again} end")
    if change.ends_pending:
        s.sets.append("pending_action = null")
    if change.deleted:
        s.sets.append(f"deleted_at = {s.now}")


def _grant(s: Statement, grant: Grant) -> None:
    to = s.arg(grant.principal_id, "text")
    if not grant.rights:
        s.add(
            "granted",
            f"delete from session_grants using s where session_id = {s.session} "
            f"and principal_id = {to}",
        )
        return
    s.add("named", f"insert into principals (id) select {to} from s on conflict do nothing")
    s.add(
        "granted",
        "insert into session_grants (session_id, principal_id, project_id, root_id, rights, "
        f"granted_by, created_at, session_created_at) select {s.session}, {to}, s.project_id, "
        f"{s.root}, {s.arg(sorted(grant.rights), 'text[]')}, {s.who}, {s.now}, s.created_at from s "
        "on conflict (session_id, principal_id) do update set rights = excluded.rights, "
        "granted_by = excluded.granted_by, created_at = excluded.created_at",
    )


def _branch(s: Statement, branch: Branch) -> None:
    values = s.row(
        (branch.id, "uuid"),
        (branch.cutoff.branch_id, "uuid"),
        (branch.cutoff.seq, "integer"),
        (step_key(branch.cutoff.step_id), "uuid"),
        ([segment.source for segment in branch.segments], "uuid[]"),
        ([segment.lo for segment in branch.segments], "integer[]"),
        ([segment.hi for segment in branch.segments], "bigint[]"),
        (branch.below, "uuid"),
        (branch.segment_count, "integer"),
    )
    s.add(
        "branched",
        "insert into branches (root_id, session_id, id, cutoff_branch, cutoff_seq, cutoff_step, "
        f"src, lo, hi, below, segment_count) select {s.root}, {s.session}, {values} from s",
    )


def _turn(s: Statement, turn: Turn) -> None:
    values = s.row(
        (turn.id, "uuid"),
        (turn.key, "text"),
        (turn.kind, "text"),
        (turn.status, "text"),
        (turn.first.branch_id, "uuid"),
        (turn.first.seq, "integer"),
        (turn.first.step_id, "uuid"),
        (turn.effective_index, "integer"),
        (turn.by, "text"),
    )
    sealed = "null, null" if turn.status is TurnStatus.RUNNING else f"{s.now}, s.head_seq"
    s.add(
        "begun",
        "insert into turns (root_id, session_id, id, turn_key, kind, status, first_branch, "
        "first_seq, first_step, effective_index, principal, created_at, sealed_at, last_seq) "
        f"select {s.root}, {s.session}, {values}, {s.now}, {sealed} from s",
    )


def _end(s: Statement, turn_id: str, status: TurnStatus) -> None:
    s.add(
        "ended",
        f"update turns set status = {s.arg(status, 'text')}, sealed_at = {s.now}, "
        f"last_seq = s.head_seq from s where turns.root_id = {s.root} "
        f"and turns.id = {s.arg(turn_id, 'uuid')}",
    )
    _release(s)


def _status(s: Statement, turn_id: str, status: TurnStatus) -> None:
    s.add(
        "turned",
        f"update turns set status = {s.arg(status, 'text')} from s "
        f"where turns.root_id = {s.root} and turns.id = {s.arg(turn_id, 'uuid')}",
    )


def _close(s: Statement) -> None:
    s.add(
        "closed",
        f"delete from open_steps using s where open_steps.root_id = {s.root} "
        f"and open_steps.session_id = {s.session}",
    )


def _approve(s: Statement, nth: int, approval: Approval) -> None:
    values = s.row(*approvals.to_values(approval))
    decided = "null" if approval.status is ApprovalStatus.WAITING else s.now
    columns = f"{approvals.APPROVAL}, decided_at"
    names = [name.strip() for name in columns.split(",")]
    sets = ", ".join(f"{name} = excluded.{name}" for name in names)
    s.add(
        f"approval_{nth}",
        f"insert into approvals (root_id, session_id, {columns}) "
        f"select {s.root}, {s.session}, {values}, {decided} from s "
        f"on conflict (root_id, step_id, tool_call_id) do update set {sets}",
    )


def _release(s: Statement) -> None:
    s.add(
        "released",
        f"delete from run_leases using s where run_leases.root_id = {s.root} "
        f"and run_leases.session_id = {s.session}",
    )


def _record(s: Statement, step: Step) -> None:
    told_after = len(s.commit.notices) - 1 - s.commit.notices.index(StepWritten(step.id))
    assert s.commit.payload is not None, "a step says something"
    payload, folded = fold(step.role, s.commit.payload)
    values = s.row(
        (step.branch_id, "uuid"),
        (step.seq, "integer"),
        (step.id, "uuid"),
        (step.turn_id, "uuid"),
        (step.index, "integer"),
        (step.role, "text"),
        (step_key(step.parent_id), "uuid"),
        (bytes.fromhex(step.before), "bytea"),
        (bytes.fromhex(step.after), "bytea"),
        (step.end_reason, "text"),
        (payload, "json"),
        (folded, "bytea"),
    )
    s.add(
        "recorded",
        "insert into records (root_id, session_id, branch_id, seq, id, turn_id, step_index, role, "
        "parent_id, before_hash, after_hash, end_reason, payload, folded, event_seq, principal, "
        f"created_at) select {s.root}, {s.session}, {values}, s.revision - {told_after}, "
        f"{s.who}, {s.now} from s",
    )
    if s.commit.attachments:
        ids = s.arg(list(s.commit.attachments), "uuid[]")
        place = s.row((step.branch_id, "uuid"), (step.seq, "integer"))
        s.add(
            "referred",
            "insert into attachment_refs (root_id, branch_id, seq, attachment_id) "
            f"select {s.root}, {place}, a.id from s, unnest({ids}) a(id)",
        )


def _push(s: Statement, position: Position, max_redo_depth: int) -> None:
    depth = s.arg(max_redo_depth, "integer")
    s.sets += ["redo_top = redo_top + 1", f"redo_depth = least(redo_depth + 1, {depth})"]
    values = s.row(
        (position.branch_id, "uuid"),
        (position.seq, "integer"),
        (step_key(position.step_id), "uuid"),
    )
    s.add(
        "pushed",
        "insert into session_redo (root_id, session_id, n, branch_id, seq, step_id) "
        f"select {s.root}, {s.session}, s.redo_top, {values} from s "
        "on conflict (root_id, session_id, n) do update "
        "set branch_id = excluded.branch_id, seq = excluded.seq, step_id = excluded.step_id",
    )


def _events(s: Statement) -> None:
    rows = [to_row(notice, s.commit.id) for notice in s.commit.notices]
    types = s.arg([type_ for type_, _ in rows], "text[]")
    data = s.arg([orjson.dumps(data).decode() for _, data in rows], "text[]")
    s.add(
        "told",
        "insert into session_events "
        "(root_id, session_id, event_seq, commit_id, type, data, created_at) "
        f"select {s.root}, {s.session}, s.revision - {len(rows)} + e.n, "
        f"{s.arg(s.commit.id, 'uuid')}, e.type, e.data::json, {s.now} "
        f"from s, unnest({types}, {data}) with ordinality e(type, data, n)",
    )


def _blobs(s: Statement) -> None:
    hashes = s.arg([bytes.fromhex(hash_) for hash_ in s.commit.blobs], "bytea[]")
    data = s.arg([pack(blob) for blob in s.commit.blobs.values()], "bytea[]")
    s.add(
        "kept",
        f"insert into blobs (root_id, hash, data) select {s.root}, b.hash, b.data "
        f"from s, unnest({hashes}, {data}) b(hash, data) on conflict do nothing",
    )


def _request(s: Statement, request: Request) -> None:
    values = s.row((request.id, "text"), (request.fingerprint, "bytea"), (request.answer, "json"))
    s.add(
        "answered",
        "insert into session_requests (root_id, session_id, principal, request_id, fingerprint, "
        f"answer, event_seq, created_at) select {s.root}, {s.session}, {s.who}, {values}, "
        f"s.revision, {s.now} from s",
    )


def _lease(s: Statement) -> None:
    s.add(
        "leased",
        "insert into run_leases (root_id, session_id, node_id, fence, heartbeat_at) "
        f"select {s.root}, {s.session}, {s.node}, s.fence, clock_timestamp() "
        "from s on conflict (root_id, session_id) do update set node_id = excluded.node_id, "
        "fence = excluded.fence, heartbeat_at = excluded.heartbeat_at",
    )
