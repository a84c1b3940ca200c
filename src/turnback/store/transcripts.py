"""Effective transcripts: the records that a reader sees at a HEAD, each page one statement.

What lies on the path to a HEAD never changes: branches and records are immutable (lineage.md 1).
So a page names the HEAD it is of, and stays the same page wherever HEAD has gone since. A page
proves its own completeness: its records are as many as its positions, or it is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from turnback.core.errors import HistoryMissing, SessionNotFound
from turnback.core.lineage import ROOT_ID, Position
from turnback.core.principal import Principal
from turnback.store.database import Database
from turnback.store.rows import SessionKey
from turnback.store.segments import segments

STATE = """select s.head_branch, s.head_seq, s.head_step, s.revision, f.family_epoch
from sessions s join families f on f.root_id = s.root_id
where s.root_id = $1::uuid and s.id = $2::uuid and s.deleted_at is null"""

_CUTOFF = """(select {} from session_lineage
    where root_id = $1::uuid and session_id = $2::uuid)"""
_INHERITED = segments(
    branch=_CUTOFF.format("cutoff_branch"),
    seq=_CUTOFF.format("cutoff_seq"),
    after="$4::integer - 1",
    until="$4::integer",
)

REACHABLE = f"""{_INHERITED}
select r.id from records r
join branches b on b.root_id = $1::uuid and b.id = r.branch_id
where r.root_id = $1::uuid and r.branch_id = $3::uuid and r.seq = $4::integer
    and (b.session_id = $2::uuid or exists (select from segments where src = r.branch_id
        and $4::integer > lo and $4::integer <= hi))"""

_PAGE = segments(branch="$2::uuid", seq="$3::integer", after="$4::integer", until="$5::integer")

PATH = f"""{_PAGE}
select string_agg(x.id::text, ' ' order by x.seq) from segments g cross join lateral (
    select id, seq from records where root_id = $1::uuid and branch_id = g.src
        and seq > g.lo and seq <= g.hi offset 0) x"""

RECORDS = """select id, branch_id, seq, session_id, turn_id, step_index, role, parent_id,
    before_hash, after_hash, end_reason, principal, created_at, payload
from records where root_id = $1::uuid and id = any($2::uuid[])"""

_COUNTS = """count(distinct turn_id) as turns, count(*) as steps,
    count(*) filter (where role = 'agent' and coalesce(end_reason, 'complete') = 'complete')
        as model_calls,
    coalesce(sum(json_array_length(payload -> 'toolCalls')), 0)::bigint as tool_calls,
    coalesce(sum((payload -> 'usage' ->> 'inputTokens')::bigint), 0)::bigint as input_tokens,
    coalesce(sum((payload -> 'usage' ->> 'outputTokens')::bigint), 0)::bigint as output_tokens,
    coalesce(sum((payload -> 'usage' ->> 'totalTokens')::bigint), 0)::bigint as total_tokens"""

_HEAD = "(select {} from sessions where root_id = $1::uuid and id = $2::uuid)"
_SHOWN = segments(
    branch=_HEAD.format("head_branch"),
    seq=_HEAD.format("head_seq"),
    after="0",
    until=_HEAD.format("head_seq"),
)

USAGE = f"""{_SHOWN},
visible as (select {_COUNTS} from segments g cross join lateral (
    select turn_id, role, end_reason, payload from records where root_id = $1::uuid
        and branch_id = g.src and seq > g.lo and seq <= g.hi offset 0) x),
spent as (select {_COUNTS} from records where root_id = $1::uuid and branch_id = any(
    array(select id from branches where root_id = $1::uuid and session_id = $2::uuid)))
select s.head_step, s.revision, visible, spent from sessions s, visible, spent
where s.root_id = $1::uuid and s.id = $2::uuid and s.deleted_at is null"""


@dataclass(frozen=True, slots=True)
class TranscriptState:
    """Where a session stands: what the `ETag` of its transcript is made of."""

    head: Position
    revision: int
    family_epoch: int


@dataclass(frozen=True, slots=True)
class Counts:
    """What a set of steps comes to. Tokens are those that providers reported."""

    turns: int
    steps: int
    model_calls: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    total_tokens: int


@dataclass(frozen=True, slots=True)
class Usage:
    """The counts of the visible steps, and of every step of the session, reverted ones included."""

    head_id: str
    revision: int
    visible: Counts
    spent: Counts


class Transcripts:
    """Reads of transcripts. The live session is not needed for them."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def state(self, principal: Principal, key: SessionKey) -> TranscriptState:
        """The session's HEAD and revision now. Raises `SessionNotFound`."""
        del principal  # the key was given by `Dao.key`, which has asked
        row = await self._db.run(lambda c: c.fetchrow(STATE, key.root_id, key.id))
        if row is None:
            raise SessionNotFound("Agent not found")
        head = Position(row["head_branch"], row["head_seq"], row["head_step"] or ROOT_ID)
        return TranscriptState(head, row["revision"], row["family_epoch"])

    async def head(
        self, principal: Principal, key: SessionKey, branch_id: str, seq: int
    ) -> Position | None:
        """The record at this place, as a HEAD; None where none is reachable from the session."""
        del principal
        args = (key.root_id, key.id, branch_id, seq)
        step_id = await self._db.run(lambda c: c.fetchval(REACHABLE, *args))
        return None if step_id is None else Position(branch_id, seq, step_id)

    async def path(
        self, principal: Principal, key: SessionKey, head: Position, *, after: int, until: int
    ) -> list[str]:
        """The ids of the steps with `after < seq <= until` on the path to `head`, in order.

        `until` is at most HEAD's own. Raises `HistoryMissing` where one of them is not there.
        """
        del principal
        if after >= until:
            return []
        args = (key.root_id, head.branch_id, head.seq, after, until)
        ids = (await self._db.run(lambda c: c.fetchval(PATH, *args)) or "").split()
        if len(ids) != until - after:
            raise HistoryMissing(
                f"{until - after - len(ids)} records of this transcript are missing from the "
                "database; nothing of it is shown rather than a part",
                after=after,
                until=until,
            )
        return ids

    async def records(
        self, principal: Principal, key: SessionKey, ids: Sequence[str]
    ) -> Sequence[asyncpg.Record]:
        """The rows of these steps, in any order, payloads as JSON text."""
        del principal
        rows: Sequence[asyncpg.Record] = await self._db.run(
            lambda c: c.fetch(RECORDS, key.root_id, ids)
        )
        return rows

    async def usage(self, principal: Principal, key: SessionKey) -> Usage:
        """What the session's steps come to, of one instant. Raises `SessionNotFound`."""
        del principal
        row = await self._db.run(lambda c: c.fetchrow(USAGE, key.root_id, key.id))
        if row is None:
            raise SessionNotFound("Agent not found")
        return Usage(
            row["head_step"] or ROOT_ID,
            row["revision"],
            _counts(row["visible"]),
            _counts(row["spent"]),
        )


def _counts(row: Any) -> Counts:
    return Counts(*row)
