"""The rows that a session's tree is made of: their columns, and what they become in the core."""

from __future__ import annotations

import asyncpg

from turnback.core.lineage import ROOT_ID, Branch, Position, Segment, Stub
from turnback.core.tree import EndReason, Role, Step, Turn, TurnKind, TurnStatus

STUB = "id, session_id, cutoff_branch, cutoff_seq, cutoff_step, below, segment_count"
BRANCH = f"{STUB}, src, lo, hi"
TURN = "id, kind, status, turn_key, first_branch, first_seq, first_step, effective_index, principal"
STEP = """id, branch_id, seq, parent_id, turn_id, step_index, role, before_hash, after_hash,
    end_reason"""


def position(branch_id: str | None, seq: int, step_id: str | None) -> Position:
    """A record's key as three columns have it; null is the root."""
    return Position(branch_id, seq, step_id or ROOT_ID)


def stub(row: asyncpg.Record) -> Stub:
    """A branch without its segments."""
    return Stub(
        id=row["id"],
        session_id=row["session_id"],
        cutoff=position(row["cutoff_branch"], row["cutoff_seq"], row["cutoff_step"]),
        below=row["below"],
        segment_count=row["segment_count"],
    )


def branch(row: asyncpg.Record) -> Branch:
    """A branch."""
    return Branch(
        id=row["id"],
        session_id=row["session_id"],
        cutoff=position(row["cutoff_branch"], row["cutoff_seq"], row["cutoff_step"]),
        segments=tuple(
            Segment(src, lo, hi)
            for src, lo, hi in zip(row["src"], row["lo"], row["hi"], strict=True)
        ),
        below=row["below"],
        segment_count=row["segment_count"],
    )


def turn(row: asyncpg.Record) -> Turn:
    """A turn."""
    return Turn(
        id=row["id"],
        kind=TurnKind(row["kind"]),
        status=TurnStatus(row["status"]),
        first=position(row["first_branch"], row["first_seq"], row["first_step"]),
        effective_index=row["effective_index"],
        by=row["principal"],
        key=row["turn_key"],
    )


def step(row: asyncpg.Record) -> Step:
    """The light half of a record."""
    return Step(
        id=row["id"],
        branch_id=row["branch_id"],
        seq=row["seq"],
        parent_id=row["parent_id"] or ROOT_ID,
        turn_id=row["turn_id"],
        index=row["step_index"],
        role=Role(row["role"]),
        before=row["before_hash"].hex(),
        after=row["after_hash"].hex(),
        end_reason=None if row["end_reason"] is None else EndReason(row["end_reason"]),
    )
