"""What waits for a person, as rows: asked and decided in the commits of the session's turn."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import asyncpg
import orjson

from turnback.core.approvals import Approval, ApprovalStatus
from turnback.core.effects import EffectClass
from turnback.store.database import Connection, Database
from turnback.store.effect_rows import dumped, ms_of, time_of
from turnback.store.rows import SessionKey

APPROVAL = """step_id, turn_id, tool_call_id, connection, tool, class, args, args_hash, because,
    edited, status, asked_at, expires_at, decided_by"""

OF_SESSION = f"""select {APPROVAL} from approvals
where root_id = $1::uuid and session_id = $2::uuid and step_id = (
    select id from open_steps where root_id = $1::uuid and session_id = $2::uuid)
order by asked_at, tool_call_id"""
"""Those of the step that is open: the others are history."""

WAITING = """select k.id from unnest($1::uuid[], $2::uuid[]) k(root_id, id)
where exists (select from approvals a
    where a.root_id = k.root_id and a.session_id = k.id and a.status = 'waiting')"""

EXPIRED = """select root_id, session_id from approvals
where status = 'waiting' and expires_at < $1::timestamptz order by expires_at limit $2::bigint"""


async def read(connection: Connection, key: SessionKey) -> list[Approval]:
    """The approvals of a session's open step, within the caller's transaction."""
    rows = await connection.fetch(OF_SESSION, key.root_id, key.id)
    return [_approval(row) for row in rows]


class Approvals:
    """Reads approvals. They are written by commits (`store/commit.py`)."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def waiting(self, keys: Sequence[SessionKey]) -> frozenset[str]:
        """The ids of those of these sessions in which something waits for a person."""
        if not keys:
            return frozenset()
        places = ([key.root_id for key in keys], [key.id for key in keys])
        rows = await self._db.run(lambda c: c.fetch(WAITING, *places))
        return frozenset(row["id"] for row in rows)

    async def expired(self, *, limit: int) -> list[SessionKey]:
        """Sessions in which something has waited for too long."""
        now = datetime.now(UTC)
        rows = await self._db.run(lambda c: c.fetch(EXPIRED, now, limit))
        return list(dict.fromkeys(SessionKey(row["root_id"], row["session_id"]) for row in rows))


def to_values(approval: Approval) -> tuple[tuple[Any, str], ...]:
    """An approval's values and their types, in the order of `APPROVAL`."""
    return (
        (approval.step_id, "uuid"),
        (approval.turn_id, "uuid"),
        (approval.tool_call_id, "text"),
        (approval.connection, "text"),
        (approval.tool, "text"),
        (approval.class_, "text"),
        (dumped(dict(approval.args)), "json"),
        (approval.hash, "text"),
        (approval.because, "text"),
        (None if approval.edited is None else dumped(dict(approval.edited)), "json"),
        (approval.status, "text"),
        (time_of(approval.asked_at), "timestamptz"),
        (time_of(approval.expires_at), "timestamptz"),
        (approval.by, "text"),
    )


def _approval(row: asyncpg.Record) -> Approval:
    return Approval(
        step_id=row["step_id"],
        turn_id=row["turn_id"],
        tool_call_id=row["tool_call_id"],
        connection=row["connection"],
        tool=row["tool"],
        class_=EffectClass(row["class"]),
        args=orjson.loads(row["args"]),
        asked_at=ms_of(row["asked_at"]) or 0,
        expires_at=ms_of(row["expires_at"]) or 0,
        because=row["because"],
        status=ApprovalStatus(row["status"]),
        edited=None if row["edited"] is None else orjson.loads(row["edited"]),
        by=row["decided_by"],
        hash=row["args_hash"],
    )
