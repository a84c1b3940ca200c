"""What a live session is loaded from: its row and its tree, or what is new of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from turnback.core.approvals import Approval
from turnback.core.errors import SessionNotFound
from turnback.core.lineage import Branch, Position
from turnback.core.tree import Purged, State, Step, Turn
from turnback.store import approvals, prefixes, tree_rows
from turnback.store.database import Connection
from turnback.store.rows import SessionKey, SessionRow, UnderWay
from turnback.store.session_rows import SESSION, session_row
from turnback.store.undo_runs import UNDER_WAY, under_way

FAMILY_EPOCH = "select family_epoch from families where root_id = $1::uuid"

BRANCHES = f"""select {tree_rows.BRANCH} from branches
where root_id = $1::uuid and session_id = $2::uuid"""

TURNS = f"""select {tree_rows.TURN} from turns
where root_id = $1::uuid and session_id = $2::uuid"""

AMONG = " and id = any($3::uuid[])"

TURN_AT = f"""select {tree_rows.TURN} from turns where root_id = $1::uuid
and id = (select turn_id from records where root_id = $1::uuid and id = $2::uuid)"""
"""The turn of a step: it may be another than it was without a step of its own."""

STEPS = f"""select {tree_rows.STEP} from records where root_id = $1::uuid and branch_id = any(
    array(select id from branches where root_id = $1::uuid and session_id = $2::uuid))
order by event_seq"""

NEW_STEPS = f"""select {tree_rows.STEP} from records where root_id = $1::uuid and id = any(
    array(select coalesce((data ->> 'step')::uuid, commit_id) from session_events
        where root_id = $1::uuid and session_id = $2::uuid and event_seq > $3::bigint
        and type = 'step'))
order by event_seq"""

REDO = """select branch_id, seq, step_id from session_redo
where root_id = $1::uuid and session_id = $2::uuid and n > $3::integer and n <= $4::integer
order by n"""


@dataclass(frozen=True, slots=True)
class Stored:
    """A session as loaded: its row, and what its tree is made of, all of one snapshot.

    With `since`, branches, turns and steps are only those of the steps written after that revision.
    Otherwise those that a fork inherits come first, but for what is `purged`. `approvals` are
    those of the step that is open, `undo` is a run that has not ended.
    """

    row: SessionRow
    since: int | None
    branches: list[Branch]
    turns: list[Turn]
    steps: list[Step]
    redo: list[Position]
    purged: Mapping[str, Purged]
    approvals: list[Approval] = field(default_factory=list)
    undo: UnderWay | None = None


async def read(connection: Connection, key: SessionKey, *, since: int | None) -> Stored:
    """What a session's tree is made of, in one snapshot. Raises `SessionNotFound`.

    Everything, or what is new since the revision `since`, where the events still say what.
    """
    place = (key.root_id, key.id)
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        row = await connection.fetchrow(SESSION, *place)
        if row is None:
            raise SessionNotFound("Agent not found")
        top, depth = row["redo_top"], row["redo_depth"]
        known, prefix = since, prefixes.NONE
        if since is None or not row["events_floor"] <= since <= row["revision"]:
            epoch = await connection.fetchval(FAMILY_EPOCH, key.root_id)
            known, prefix = None, await prefixes.read(connection, key, family_epoch=epoch)
            branches = await connection.fetch(BRANCHES, *place)
            turns = await connection.fetch(TURNS, *place)
            steps = await connection.fetch(STEPS, *place)
        else:
            steps = await connection.fetch(NEW_STEPS, *place, since)
            of_branches = list({r["branch_id"] for r in steps})
            of_turns = list({r["turn_id"] for r in steps})
            branches = await connection.fetch(BRANCHES + AMONG, *place, of_branches)
            turns = await connection.fetch(TURNS + AMONG, *place, of_turns)
        waiting: list[Approval] = []
        if row["state"] != State.AVAILABLE:
            if known is not None:
                turns += await connection.fetch(TURN_AT, key.root_id, row["head_step"])
            waiting = await approvals.read(connection, key)
        undo = await connection.fetchrow(UNDER_WAY, *place)
        return Stored(
            undo=None if undo is None else under_way(undo),
            row=session_row(row),
            since=known,
            branches=prefix.branches + [tree_rows.branch(r) for r in branches],
            turns=prefix.turns + [tree_rows.turn(r) for r in turns],
            steps=prefix.steps + [tree_rows.step(r) for r in steps],
            purged=prefix.purged,
            approvals=waiting,
            redo=[
                tree_rows.position(r["branch_id"], r["seq"], r["step_id"])
                for r in await connection.fetch(REDO, *place, top - depth, top)
            ],
        )
