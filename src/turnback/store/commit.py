"""The hot statement: a whole commit in one round trip, without BEGIN (lineage.md 2).

The session row is updated under a guard; everything else is inserted from what that update
returned, so that zero rows mean: nothing was written. The text depends only on which parts a
commit has, so a connection prepares a handful of statements and keeps them.
"""

from __future__ import annotations

from typing import Any, assert_never

import orjson
import zstandard

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
    TurnStarted,
)
from turnback.store.outbox import StepWritten, to_row
from turnback.store.rows import (
    Alive,
    Commit,
    Generating,
    Holder,
    Idle,
    Request,
    SessionChange,
    Takeover,
)

_compress = zstandard.ZstdCompressor(level=3, write_content_size=True).compress


def step_key(step_id: str) -> str | None:
    """A step's id as a column holds it: the root sentinel is null."""
    return None if step_id == ROOT_ID else step_id


class _Statement:
    """SQL text and its arguments, written side by side."""

    def __init__(self) -> None:
        self.args: list[Any] = []
        self.ctes: list[str] = []

    def arg(self, value: Any, type_: str) -> str:
        self.args.append(value)
        return f"${len(self.args)}::{type_}"

    def add(self, name: str, sql: str) -> None:
        self.ctes.append(f"{name} as ({sql})")


def build(commit: Commit, *, max_redo_depth: int) -> tuple[str, list[Any]]:
    """The statement of `commit` and its arguments; its row is `(revision, state, fence)`."""
    s = _Statement()
    root = s.arg(commit.key.root_id, "uuid")
    session = s.arg(commit.key.id, "uuid")
    now = s.arg(commit.now, "timestamptz")
    who = s.arg(commit.principal, "text")
    told = len(commit.notices)
    sets = [f"revision = revision + {told}", f"updated_at = {now}"]
    rest = _Statement()
    rest.args = s.args

    for event in commit.events:
        match event:
            case BranchStarted(branch):
                _branch(rest, branch, root, session)
            case TurnStarted(turn):
                _turn(rest, turn, root, session, now, who)
            case TurnEnded(turn_id, status):
                rest.add(
                    "ended",
                    f"update turns set status = {rest.arg(status, 'text')}, sealed_at = {now}, "
                    f"last_seq = s.head_seq from s where turns.root_id = {root} "
                    f"and turns.id = {rest.arg(turn_id, 'uuid')} returning 1",
                )
                rest.add(
                    "released",
                    f"delete from run_leases using s where run_leases.root_id = {root} "
                    f"and run_leases.session_id = {session} returning 1",
                )
            case StateChanged(state):
                sets.append(f"state = {s.arg(state, 'text')}")
            case StepAppended(step):
                sets += _head(s, step.position, step.after)
                ordinal = 1 + commit.notices.index(StepWritten(step.id))
                _record(rest, step, commit, root, session, now, who, told - ordinal)
            case HeadMoved(to, workflow, _):
                if not any(isinstance(other, StepAppended) for other in commit.events):
                    sets += _head(s, to, workflow)
            case RedoPushed(position):
                depth = s.arg(max_redo_depth, "integer")
                sets += ["redo_top = redo_top + 1", f"redo_depth = least(redo_depth + 1, {depth})"]
                _redo(rest, position, root, session)
            case RedoPopped(count):
                popped = s.arg(count, "integer")
                sets += [f"redo_top = redo_top - {popped}", f"redo_depth = redo_depth - {popped}"]
            case RedoCleared():
                sets += ["redo_top = 0", "redo_depth = 0"]
            case _:
                assert_never(event)

    if commit.change is not None:
        sets += _change(s, commit.change, now)
    if isinstance(commit.guard, Takeover) or (
        isinstance(commit.guard, Idle) and commit.guard.claims
    ):
        sets.append("fence = fence + 1")
    if told:
        _events(rest, commit, root, session, now)
    if commit.blobs:
        _blobs(rest, commit, root)
    if commit.request is not None:
        _request(rest, commit.request, root, session, now, who)
    if commit.node_id is not None:
        _lease(rest, commit.node_id, root, session)

    where = _guard(s, commit)
    head = (
        f"update sessions set {', '.join(sets)} where root_id = {root} and id = {session} "
        f"and deleted_at is null{where} returning revision, state, fence, redo_top, head_seq"
    )
    parts = ", ".join([f"s as ({head})", *rest.ctes])
    return f"with {parts} select revision, state, fence from s", s.args


def _guard(s: _Statement, commit: Commit) -> str:
    match commit.guard:
        case Idle(revision, _):
            return f" and revision = {s.arg(revision, 'bigint')} and state = 'AVAILABLE'"
        case Holder(fence, head_step):
            return (
                f" and fence = {s.arg(fence, 'bigint')} and head_step = {s.arg(head_step, 'uuid')}"
                " and state <> 'AVAILABLE'"
            )
        case Generating():
            return " and state = 'GENERATING'"
        case Takeover(fence):
            return f" and fence = {s.arg(fence, 'bigint')} and state <> 'AVAILABLE'"
        case Alive():
            return ""
        case _:
            assert_never(commit.guard)


def _head(s: _Statement, head: Position, workflow: str) -> list[str]:
    return [
        f"head_branch = {s.arg(head.branch_id, 'uuid')}",
        f"head_seq = {s.arg(head.seq, 'integer')}",
        f"head_step = {s.arg(step_key(head.step_id), 'uuid')}",
        f"workflow_hash = {s.arg(bytes.fromhex(workflow), 'bytea')}",
    ]


def _change(s: _Statement, change: SessionChange, now: str) -> list[str]:
    sets = []
    if change.name is not None:
        sets.append(f"name = {s.arg(change.name, 'text')}")
    if change.archived is not None:
        sets.append(f"archived_at = {now}" if change.archived else "archived_at = null")
    if change.deleted:
        sets.append(f"deleted_at = {now}")
    return sets


def _branch(s: _Statement, branch: Branch, root: str, session: str) -> None:
    values = (
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
        f"src, lo, hi, below, segment_count) select {root}, {session}, "
        f"{', '.join(s.arg(*value) for value in values)} from s",
    )


def _turn(s: _Statement, turn: Turn, root: str, session: str, now: str, who: str) -> None:
    values = (
        (turn.id, "uuid"),
        (turn.key, "text"),
        (turn.kind, "text"),
        (turn.status, "text"),
        (turn.first.branch_id, "uuid"),
        (turn.first.seq, "integer"),
        (turn.first.step_id, "uuid"),
        (turn.effective_index, "integer"),
    )
    sealed = ("null", "null") if turn.status == "running" else (now, "s.head_seq")
    s.add(
        "begun",
        "insert into turns (root_id, session_id, id, turn_key, kind, status, first_branch, "
        "first_seq, first_step, effective_index, principal, created_at, sealed_at, last_seq) "
        f"select {root}, {session}, {', '.join(s.arg(*value) for value in values)}, "
        f"{who}, {now}, {sealed[0]}, {sealed[1]} from s",
    )


def _record(
    s: _Statement,
    step: Step,
    commit: Commit,
    root: str,
    session: str,
    now: str,
    who: str,
    back: int,
) -> None:
    values = (
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
        (commit.payload, "json"),
    )
    s.add(
        "recorded",
        "insert into records (root_id, session_id, branch_id, seq, id, turn_id, step_index, role, "
        "parent_id, before_hash, after_hash, end_reason, payload, event_seq, principal, "
        "created_at) "
        f"select {root}, {session}, {', '.join(s.arg(*value) for value in values)}, "
        f"s.revision - {back}, {who}, {now} from s",
    )


def _redo(s: _Statement, position: Position, root: str, session: str) -> None:
    s.add(
        "pushed",
        "insert into session_redo (root_id, session_id, n, branch_id, seq, step_id) "
        f"select {root}, {session}, s.redo_top, {s.arg(position.branch_id, 'uuid')}, "
        f"{s.arg(position.seq, 'integer')}, {s.arg(step_key(position.step_id), 'uuid')} from s "
        "on conflict (root_id, session_id, n) do update "
        "set branch_id = excluded.branch_id, seq = excluded.seq, step_id = excluded.step_id",
    )


def _events(s: _Statement, commit: Commit, root: str, session: str, now: str) -> None:
    rows = [to_row(notice) for notice in commit.notices]
    types = s.arg([type_ for type_, _ in rows], "text[]")
    data = s.arg([orjson.dumps(data).decode() for _, data in rows], "text[]")
    s.add(
        "told",
        "insert into session_events "
        "(root_id, session_id, event_seq, commit_id, type, data, created_at) "
        f"select {root}, {session}, s.revision - {len(rows)} + e.n, "
        f"{s.arg(commit.id, 'uuid')}, e.type, e.data::json, {now} "
        f"from s, unnest({types}, {data}) with ordinality e(type, data, n)",
    )


def _blobs(s: _Statement, commit: Commit, root: str) -> None:
    hashes = s.arg([bytes.fromhex(hash_) for hash_ in commit.blobs], "bytea[]")
    data = s.arg([_compress(blob) for blob in commit.blobs.values()], "bytea[]")
    s.add(
        "kept",
        f"insert into blobs (root_id, hash, data) select {root}, b.hash, b.data "
        f"from s, unnest({hashes}, {data}) b(hash, data) on conflict do nothing",
    )


def _request(s: _Statement, request: Request, root: str, session: str, now: str, who: str) -> None:
    s.add(
        "answered",
        "insert into session_requests (root_id, session_id, principal, request_id, fingerprint, "
        f"answer, event_seq, created_at) select {root}, {session}, {who}, "
        f"{s.arg(request.id, 'text')}, {s.arg(request.fingerprint, 'bytea')}, "
        f"{s.arg(request.answer, 'json')}, s.revision, {now} from s",
    )


def _lease(s: _Statement, node_id: str, root: str, session: str) -> None:
    s.add(
        "leased",
        "insert into run_leases (root_id, session_id, node_id, fence, heartbeat_at) "
        f"select {root}, {session}, {s.arg(node_id, 'uuid')}, s.fence, clock_timestamp() from s "
        "on conflict (root_id, session_id) do update set node_id = excluded.node_id, "
        "fence = excluded.fence, heartbeat_at = excluded.heartbeat_at",
    )
