"""Effective transcripts: the records that a reader sees at a HEAD, each page one statement.

What lies on the path to a HEAD never changes: branches and records are immutable (lineage.md 1).
So a page names the HEAD it is of, and stays the same page wherever HEAD has gone since. A page
proves its own completeness: its records are as many as its positions, or it is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import asyncpg

from turnback.core.errors import BadCursor, HistoryMissing, HistoryPurged, SessionNotFound
from turnback.core.lineage import ROOT_ID, Position
from turnback.core.principal import Principal
from turnback.core.values import counted
from turnback.store.database import Connection, Database
from turnback.store.rows import SessionKey
from turnback.store.segments import segments

STATE = """select s.head_branch, s.head_seq, s.head_step, s.revision, f.family_epoch
from sessions s join families f on f.root_id = s.root_id
where s.root_id = $1::uuid and s.id = $2::uuid and s.deleted_at is null"""

_HEAD = "(select {} from sessions where root_id = $1::uuid and id = $2::uuid)"
_WANTED = "(select {} from here)"

_PURGED = """segments g cross join lateral (
        select session_id from branches where root_id = $1::uuid and id = g.src offset 0) b
    cross join lateral (select from sessions where root_id = $1::uuid and id = b.session_id
        and purged_at is not null offset 0) o"""
"""The segments `g` that are of purged sessions; each look-up by its key."""

_LOST = f"exists (select from {_PURGED})"

_WALK = segments(
    branch=_WANTED.format("branch_id"),
    seq=_WANTED.format("seq"),
    after="$5::integer",
    until=_WANTED.format("until"),
)

PAGE = f"""{_WALK},
here as materialized (
    select s.head_branch, s.head_seq, s.head_step, s.revision, f.family_epoch,
        coalesce($3::uuid, s.head_branch) as branch_id, coalesce($4::integer, s.head_seq) as seq,
        least(coalesce($4::integer, s.head_seq), $5::integer + $6::integer) as until
    from sessions s join families f on f.root_id = s.root_id
    where s.root_id = $1::uuid and s.id = $2::uuid and s.deleted_at is null),
line(src, lo, hi, below, bound) as (
    select b.src, b.lo, b.hi, b.below, l.cutoff_seq from session_lineage l
    join branches b on b.root_id = $1::uuid and b.id = l.cutoff_branch
    where l.root_id = $1::uuid and l.session_id = $2::uuid and $4::integer <= l.cutoff_seq
    union all
    select b.src, b.lo, b.hi, b.below, line.lo[1] from line
    cross join lateral (select src, lo, hi, below from branches
        where root_id = $1::uuid and id = line.below offset 0) b
    where line.lo[1] >= $4::integer and b.lo[1] < line.lo[1])
select head_branch, head_seq, head_step, revision, family_epoch,
    $3::uuid is null or exists (
        select from records r
        join branches b on b.root_id = $1::uuid and b.id = r.branch_id and b.session_id = $2::uuid
        where r.root_id = $1::uuid and r.branch_id = $3::uuid and r.seq = $4::integer)
    or exists (
        select from line cross join lateral unnest(line.src, line.lo, line.hi) k(src, lo, hi)
        where k.src = $3::uuid and $4::integer > k.lo and $4::integer <= least(k.hi, line.bound))
    as is_reachable,
    family_epoch > 0 and {_LOST} as is_purged,
    h.is_held,
    case when h.is_held then (
        select count(*) from segments g cross join lateral (
            select from records where root_id = $1::uuid and branch_id = g.src
                and seq > g.lo and seq <= g.hi offset 0) x) end as count,
    case when not h.is_held then (
        select string_agg(x.id::text, ' ' order by x.seq) from segments g cross join lateral (
            select id, seq from records where root_id = $1::uuid and branch_id = g.src
                and seq > g.lo and seq <= g.hi offset 0) x) end as ids
from here cross join lateral (
    select (branch_id = $7::uuid and until = $8::integer) is true) h(is_held)"""
"""Where the session stands, and a page: of its HEAD, or of the one, `$3` and `$4`, that a listing
began at, which must be reachable. The page that is held in memory, `$7` and `$8`, is counted only.
"""

_REST = segments(branch="$2::uuid", seq="$3::integer", after="$4::integer", until="$3::integer")

LOST = f"""{_REST}
select g.lo, g.hi from {_PURGED} order by g.lo"""

RECORDS = """select id, branch_id, seq, session_id, turn_id, step_index, role, parent_id,
    before_hash, after_hash, end_reason, principal, created_at, payload, folded
from records where root_id = $1::uuid and id = any($2::uuid[])"""

_COUNTS = """count(distinct turn_id) as turns, count(*) as steps,
    count(*) filter (where role = 'agent' and coalesce(end_reason, 'complete') = 'complete')
        as model_calls,
    coalesce(sum(coalesce((payload ->> 'calls')::integer,
        json_array_length(payload -> 'toolCalls'))), 0)::bigint as tool_calls,
    coalesce(sum((payload -> 'usage' ->> 'inputTokens')::bigint), 0)::bigint as input_tokens,
    coalesce(sum((payload -> 'usage' ->> 'outputTokens')::bigint), 0)::bigint as output_tokens,
    coalesce(sum((payload -> 'usage' ->> 'totalTokens')::bigint), 0)::bigint as total_tokens"""

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
select s.head_step, s.head_seq, s.revision, visible, spent,
    f.family_epoch > 0 and {_LOST} as is_purged
from sessions s join families f on f.root_id = s.root_id cross join visible cross join spent
where s.root_id = $1::uuid and s.id = $2::uuid and s.deleted_at is null"""


@dataclass(frozen=True, slots=True)
class TranscriptState:
    """Where a session stands: what the `ETag` of its transcript is made of."""

    head: Position
    revision: int
    family_epoch: int


class Place(NamedTuple):
    """A record's key without its id.

    Of the page that it ends: all pages that begin at the same place and end there are the same, for
    what lies on the path to a record never changes.
    """

    branch_id: str | None
    seq: int


NOWHERE = (None, None)
NOBODY = "00000000-0000-0000-0000-000000000000"
"""The id of no session."""


@dataclass(frozen=True, slots=True)
class Page:
    """The steps with `after < seq <= until` on the path to `head`, and where the session stands.

    `ids` is None where they are those of the page that the caller holds. Where some of them were
    purged there are none, and `purged` are the places `(after, until)` of the first that were, from
    `after` on.
    """

    state: TranscriptState
    head: Place
    after: int
    until: int
    ids: list[str] | None
    purged: tuple[int, int] | None = None


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
        return _state(row)

    async def page(
        self,
        principal: Principal,
        key: SessionKey,
        *,
        after: int,
        limit: int,
        head: Place | None = None,
        held: Place | None = None,
    ) -> Page:
        """The session now, and the steps after the place `after` on the path to a HEAD.

        That is the session's own, or the one that a listing began at. `held` is where a page ends
        that the caller has in memory, of the same `after`: its ids are not read again. One
        statement, whatever the session's history and however deep a fork it is.

        Raises `SessionNotFound`; `BadCursor` for a `head` that is not reachable; `HistoryMissing`.
        """
        del principal  # the key was given by `Dao.key`, which has asked
        args = (key.root_id, key.id, *(head or NOWHERE), after, limit, *(held or NOWHERE))
        row = await self._db.run(lambda c: c.fetchrow(PAGE, *args))
        if row is None:
            raise SessionNotFound("Agent not found")
        if not row["is_reachable"]:
            raise BadCursor("`cursor` is not one of this transcript's; begin again without it")
        state = _state(row)
        of = head or Place(state.head.branch_id, state.head.seq)
        until = max(after, min(of.seq, after + limit))
        if row["is_purged"]:
            return Page(state, of, after, until, [], await self._purged(key, of, after))
        ids = (row["ids"] or "").split()
        count = row["count"] if row["is_held"] else len(ids)
        if count != until - after:
            raise HistoryMissing(
                f"The database lacks {counted(until - after - count, 'record')} of this transcript;"
                " nothing of it is shown rather than a part",
                after=after,
                until=until,
            )
        return Page(state, of, after, until, None if row["is_held"] else ids)

    async def plan(self) -> None:
        """Have a connection plan what a reading asks: the first would wait for it."""

        async def ask(connection: Connection) -> None:
            await connection.fetch(PAGE, NOBODY, NOBODY, *NOWHERE, 0, 1, *NOWHERE)
            await connection.fetch(RECORDS, NOBODY, [])

        await self._db.run(ask)

    async def _purged(self, key: SessionKey, head: Place, after: int) -> tuple[int, int]:
        rows = await self._db.run(lambda c: c.fetch(LOST, key.root_id, *head, after))
        first, last = rows[0]["lo"], rows[0]["hi"]
        for row in rows[1:]:
            if row["lo"] == last:
                last = row["hi"]
        return first, last

    async def records(
        self, principal: Principal, key: SessionKey, ids: Sequence[str]
    ) -> Sequence[asyncpg.Record]:
        """The rows of these steps, in any order, as `RECORDS` has them."""
        del principal
        rows: Sequence[asyncpg.Record] = await self._db.run(
            lambda c: c.fetch(RECORDS, key.root_id, ids)
        )
        return rows

    async def usage(self, principal: Principal, key: SessionKey) -> Usage:
        """What the session's steps come to, of one instant.

        Raises `SessionNotFound`, and `HistoryPurged` or `HistoryMissing` where some are not there.
        """
        del principal
        row = await self._db.run(lambda c: c.fetchrow(USAGE, key.root_id, key.id))
        if row is None:
            raise SessionNotFound("Agent not found")
        if row["is_purged"]:
            raise HistoryPurged("A part of this conversation was purged; it cannot be counted")
        if _counts(row["visible"]).steps != row["head_seq"]:
            raise HistoryMissing(
                "Records of this conversation are missing from the database; they cannot be counted"
            )
        return Usage(
            row["head_step"] or ROOT_ID,
            row["revision"],
            _counts(row["visible"]),
            _counts(row["spent"]),
        )


def _state(row: asyncpg.Record) -> TranscriptState:
    head = Position(row["head_branch"], row["head_seq"], row["head_step"] or ROOT_ID)
    return TranscriptState(head, row["revision"], row["family_epoch"])


def _counts(row: Any) -> Counts:
    return Counts(*row)
