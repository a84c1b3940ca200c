"""Histories made by SQL in bulk: as many records, forks and files as a row is measured over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache

import asyncpg

from bench import workload
from bench.world import Store
from turnback.core.lineage import ROOT, Boundary, Branch, Fork, Position, branch_off
from turnback.core.principal import LOCAL
from turnback.core.tree import Role
from turnback.core.workflow import Workflow
from turnback.sessions import payloads
from turnback.sessions.plans import now_ms
from turnback.store.folding import fold
from turnback.store.forks import Forked
from turnback.store.ids import new_id
from turnback.store.rows import SessionKey

MAX_DEPTH = 128

_BRANCH = """insert into branches (root_id, session_id, id, cutoff_branch, cutoff_seq, cutoff_step,
    src, lo, hi, below, segment_count)
values ($1::uuid, $2::uuid, $3::uuid, $4::uuid, $5, $6::uuid, $7::text[]::uuid[], $8, $9, $10::uuid,
    $11)"""

_RECORDS = """with steps as (
    select n, $4::integer + n as seq, $5::integer + (n - 1) / $7::integer as turn,
        (n - 1) % $7::integer as at
    from generate_series(1, $6::integer * $7::integer) n),
begun as (
    insert into turns (root_id, id, session_id, kind, status, first_branch, first_seq, first_step,
        last_seq, effective_index, principal, created_at, sealed_at)
    select $1::uuid, {turn}, $2::uuid, 'prompt', 'complete', $3::uuid, seq, {step},
        seq + $7::integer - 1, turn, 'local', $9::timestamptz, $9::timestamptz
    from steps where at = 0)
insert into records (root_id, branch_id, seq, id, session_id, turn_id, step_index, role, parent_id,
    before_hash, after_hash, end_reason, event_seq, principal, created_at, payload, folded)
select $1::uuid, $3::uuid, seq, {step}, $2::uuid, {turn}, at,
    case when at = 0 then 'user' else 'agent' end, case when n = 1 then $10::uuid else {before} end,
    $8::bytea, $8::bytea, case when at = $7::integer - 1 then 'complete' end, seq, 'local',
    $9::timestamptz, case when at = 0 then $11::json else $12::json end,
    case when at > 0 then $13::bytea end
from steps"""

_HEAD = """update sessions set head_branch = $3::uuid, head_seq = $4, head_step = $5::uuid,
    revision = revision + $6 where root_id = $1::uuid and id = $2::uuid"""

_FILES = """with file as (
    select n, md5(n::text || $2::text)::uuid as id from generate_series(1, $5::integer) n),
objects as (
    insert into attachment_objects (project_id, sha256)
    select 'local', sha256(id::text::bytea) from file),
files as (
    insert into attachments (root_id, id, session_id, project_id, name, type, size, sha256,
        principal, created_at)
    select $1::uuid, id, $2::uuid, 'local', n || '.csv', 'text/csv', 100, sha256(id::text::bytea),
        'local', $6::timestamptz from file),
refs as (
    insert into attachment_refs (root_id, branch_id, seq, attachment_id)
    select $1::uuid, $3::uuid, 1 + n % $4::integer, id from file)
insert into session_attachment_access (root_id, session_id, attachment_id, source, granted_at)
select $1::uuid, $2::uuid, id, $2::uuid, $6::timestamptz from file"""


def _uuid(mark: str, number: str) -> str:
    """SQL: the uuid of a number of the branch $3, of this kind."""
    return f"(left($3::text, 24) || '{mark}' || lpad(to_hex({number}), 11, '0'))::uuid"


_RECORDS = _RECORDS.format(
    turn=_uuid("a", "turn"), step=_uuid("b", "seq"), before=_uuid("b", "seq - 1")
)


@dataclass(frozen=True)
class Line:
    """A session, what it shows at HEAD, and the branches of its path. `turns` are all it shows."""

    key: SessionKey
    workflow: Workflow
    head: Position = ROOT
    branches: Mapping[str, Branch] = field(default_factory=dict)
    turns: int = 0

    @property
    def last_turn(self) -> str:
        """The turn that HEAD ends."""
        assert self.head.branch_id is not None, "something was said"
        return f"{self.head.branch_id[:24]}a{self.turns - 1:011x}"


@dataclass(frozen=True)
class Bulk:
    """Writes histories on `connection`, into the database of `store`."""

    store: Store
    connection: asyncpg.Connection

    async def session(self) -> Line:
        """A session with the workload's workflow, and nothing said."""
        workflow = _workflow()
        return Line(await self.store.session(workflow), workflow)

    async def said(self, line: Line, *, turns: int, records: int = 10) -> Line:
        """As many turns more, of so many records each: a prompt, and steps by the agent."""
        head, branches = line.head, dict(line.branches)
        root, session = line.key.root_id, line.key.id
        if head.branch_id is None or branches[head.branch_id].session_id != session:
            made = branch_off(branches, head, branch_id=new_id(), session_id=session)
            await self._branch(root, made)
            branches[made.id] = made
            branch = made.id
        else:
            branch = head.branch_id
        last = head.seq + turns * records
        step = workload.step(line.workflow)
        await self.connection.execute(
            _RECORDS,
            *(root, session, branch, head.seq, line.turns, turns, records),
            bytes.fromhex(line.workflow.hash),
            now_ms(),
            None if head.branch_id is None else head.step_id,
            payloads.of_prompt("Raise the bounds of the next two filters, please.", None),
            *fold(Role.AGENT, payloads.of_draft(step)),
        )
        head = Position(branch, last, f"{branch[:24]}b{last:011x}")
        place = (root, session, branch, last, head.step_id)
        await self.connection.execute(_HEAD, *place, turns * records)
        return replace(line, head=head, branches=branches, turns=line.turns + turns)

    async def attached(self, line: Line, *, files: int) -> None:
        """So many files of the session, referred to by the records of its newest branch."""
        await self.connection.execute(
            _FILES,
            *(line.key.root_id, line.key.id, line.head.branch_id, line.head.seq, files, now_ms()),
        )

    async def forked(self, line: Line, *, depth: int = 1, turns: int = 0, records: int = 2) -> Line:
        """A fork of a fork, `depth` times, of all that is shown, each with so many turns more."""
        for _ in range(depth):
            asked, _ = await fork(self.store, line.key.id)
            line = replace(line, key=SessionKey(line.key.root_id, asked.child_id))
            if turns:
                line = await self.said(line, turns=turns, records=records)
        return line

    async def _branch(self, root: str, branch: Branch) -> None:
        cutoff, segments = branch.cutoff, branch.segments
        await self.connection.execute(
            _BRANCH,
            *(root, branch.session_id, branch.id, cutoff.branch_id, cutoff.seq),
            cutoff.step_id if cutoff.branch_id else None,
            [segment.source for segment in segments],
            [segment.lo for segment in segments],
            [segment.hi for segment in segments],
            *(branch.below, branch.segment_count),
        )


async def fork(
    store: Store, source_id: str, boundary: Boundary | None = None
) -> tuple[Fork, Forked]:
    """Fork a session of the store's, at its HEAD unless at a boundary."""
    asked = Fork(source_id, new_id(), boundary)
    made = await store.dao.fork(LOCAL, asked, now=now_ms(), max_depth=MAX_DEPTH)
    return asked, made


@cache
def _workflow() -> Workflow:
    return workload.workflow()


@asynccontextmanager
async def writing(store: Store) -> AsyncIterator[Bulk]:
    """A connection for histories in the store's database. What it leaves is analysed at the end."""
    connection = await asyncpg.connect(store.url)
    try:
        yield Bulk(store, connection)
        await connection.execute("analyze")
    finally:
        await connection.close()
