"""What foreign keys would prove, looked at all at once: for every night (lineage.md 2).

Records, events and blobs carry none, for each would cost a look-up per step. Nothing here changes
anything. What a purge or a sweep is at the moment removing is not told from what is missing: look
again before you act.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from turnback.core.workflow import Reach
from turnback.store.database import Connection, Database
from turnback.store.packing import unpack

SHOWN = 5
"""Ids named of what is wrong."""

BLOBS_AT_ONCE = 1_000

_HELD = """exists (select from records r where r.root_id = {root} and r.branch_id = {branch}
        and r.seq = {seq} and r.id = {id})
    or exists (select from purged_records p where p.root_id = {root} and p.branch_id = {branch}
        and p.seq = {seq} and p.id = {id})"""


def _lost(alias: str, branch: str, seq: str, id_: str) -> str:
    """SQL: whether `alias` names a record that neither is there nor was purged."""
    held = _HELD.format(
        root=f"{alias}.root_id",
        branch=f"{alias}.{branch}",
        seq=f"{alias}.{seq}",
        id=f"{alias}.{id_}",
    )
    return f"{alias}.{id_} is not null and not ({held})"


def _without(table: str, what: str, other: str, on: str, where: str = "true") -> str:
    return f"""select {what} from {table} x where {where}
    and not exists (select from {other} y where {on})"""


_SAME_ROOT = "y.root_id = x.root_id and "

CHECKS = {
    "sessions are in the directory": _without(
        "sessions", "x.id", "session_directory", _SAME_ROOT + "y.id = x.id"
    ),
    "sessions have a family": _without("sessions", "x.id", "families", "y.root_id = x.root_id"),
    "families have sessions": _without(
        "families", "x.root_id", "sessions", "y.root_id = x.root_id"
    ),
    "forks have a lineage": _without(
        "sessions",
        "x.id",
        "session_lineage",
        _SAME_ROOT + "y.session_id = x.id",
        "x.id <> x.root_id and x.erased_at is null",
    ),
    "lineages have a session": _without(
        "session_lineage", "x.session_id", "sessions", _SAME_ROOT + "y.id = x.session_id"
    ),
    "lineages have a parent": _without(
        "session_lineage", "x.session_id", "sessions", _SAME_ROOT + "y.id = x.parent_id"
    ),
    "lineages lead to the root": """with recursive up(root_id, session_id, at, n) as (
        select root_id, session_id, parent_id, 1 from session_lineage
        union all
        select up.root_id, up.session_id, l.parent_id, up.n + 1 from up
        join session_lineage l on l.root_id = up.root_id and l.session_id = up.at
        where up.at <> up.root_id and up.n < 1000)
    select l.session_id from session_lineage l where not exists (
        select from up where up.root_id = l.root_id and up.session_id = l.session_id
            and up.at = up.root_id)""",
    "cutoffs of forks are records": f"""select l.session_id from session_lineage l
    where {_lost("l", "cutoff_branch", "cutoff_seq", "cutoff_step")}""",
    "branches have a session": _without(
        "branches", "x.id", "sessions", _SAME_ROOT + "y.id = x.session_id"
    ),
    "branches go on in a branch": _without(
        "branches", "x.id", "branches", _SAME_ROOT + "y.id = x.below", "x.below is not null"
    ),
    "branches list the way to the root": """select b.id from branches b
    left join branches l on l.root_id = b.root_id and l.id = b.below
    where b.src[cardinality(b.src)] <> b.id or b.lo[cardinality(b.lo)] <> b.cutoff_seq
        or (b.below is null) <> (b.lo[1] = 0) or l.lo[1] >= b.lo[1]
        or exists (select from generate_series(2, cardinality(b.lo)) n
            where b.lo[n] <> b.hi[n - 1])""",
    "cutoffs of branches are records": f"""select b.id from branches b
    where {_lost("b", "cutoff_branch", "cutoff_seq", "cutoff_step")}""",
    "records have a branch": _without(
        "records", "x.id", "branches", _SAME_ROOT + "y.id = x.branch_id"
    ),
    "records have a turn": _without("records", "x.id", "turns", _SAME_ROOT + "y.id = x.turn_id"),
    "records of a branch are consecutive": """select b.id from branches b cross join lateral (
        select count(*) as n, max(seq) as last from (
            select seq from records where root_id = b.root_id and branch_id = b.id
            union
            select seq from purged_records where root_id = b.root_id and branch_id = b.id) held) r
    where r.n <> coalesce(r.last, b.cutoff_seq) - b.cutoff_seq""",
    "turns begin with a record": f"""select t.id from turns t
    where {_lost("t", "first_branch", "first_seq", "first_step")}""",
    "HEADs are records": f"""select s.id from sessions s where s.purged_at is null
    and {_lost("s", "head_branch", "head_seq", "head_step")}""",
    "redo lands on records": f"""select d.session_id from session_redo d
    join sessions s on s.root_id = d.root_id and s.id = d.session_id
        and d.n <= s.redo_top and d.n > s.redo_top - s.redo_depth
    where {_lost("d", "branch_id", "seq", "step_id")}""",
    "events have a session": _without(
        "session_events", "x.session_id", "sessions", _SAME_ROOT + "y.id = x.session_id"
    ),
    "files that records refer to are known": _without(
        "attachment_refs", "x.attachment_id", "attachments", _SAME_ROOT + "y.id = x.attachment_id"
    ),
    "readers of files are sessions": _without(
        "session_attachment_access", "x.attachment_id", "sessions",
        _SAME_ROOT + "y.id = x.session_id",
    ),
}  # fmt: skip
"""SQL by what it proves: it selects the ids of what is otherwise."""

ROOTS = "select root_id from families where root_id > $1::uuid order by root_id limit 1000"

NAMED = """select h.hash from records r
cross join lateral (values (r.before_hash), (r.after_hash)) h(hash)
where r.root_id = $1::uuid and exists (select from branches b join sessions s
    on s.root_id = $1::uuid and s.id = b.session_id
    where b.root_id = $1::uuid and b.id = r.branch_id and s.purged_at is null)
union
select h.hash from sessions s
cross join lateral (values (s.workflow_hash), (s.initial_hash)) h(hash)
where s.root_id = $1::uuid and s.purged_at is null"""

BLOBS = "select hash, data from blobs where root_id = $1::uuid and hash = any($2::bytea[])"


HELD = "select hash from blobs where root_id = $1::uuid and hash = any($2::bytea[])"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a look was for, how many things are otherwise, and some of their ids."""

    proves: str
    wrong: int
    some: list[str]


async def examine(database: Database) -> AsyncIterator[Finding]:
    """Every check of the whole database. Raises `DatabaseUnavailable`."""
    async with database.connection() as connection:
        for proves, text in CHECKS.items():
            asked = f"""select count(*) as wrong, (array_agg(what::text))[1:{SHOWN}] as some
            from ({text}) found(what)"""
            row = await connection.fetchrow(asked)
            assert row is not None, "an aggregate has a row"
            yield Finding(proves, row["wrong"], row["some"] or [])
        yield await _workflows(connection)


async def _workflows(connection: Connection) -> Finding:
    """Whether every workflow that is named can be put together."""
    missing: list[str] = []
    after = "00000000-0000-0000-0000-000000000000"
    while roots := [row["root_id"] for row in await connection.fetch(ROOTS, after)]:
        for root_id in roots:
            missing += await _missing(connection, root_id)
        after = roots[-1]
    return Finding("workflows have all their blobs", len(missing), missing[:SHOWN])


async def _missing(connection: Connection, root_id: str) -> list[str]:
    reach, missing = Reach(), list[str]()
    wanted = reach.want(row["hash"] for row in await connection.fetch(NAMED, root_id))
    while wanted:
        some, wanted = wanted[:BLOBS_AT_ONCE], wanted[BLOBS_AT_ONCE:]
        rows = await connection.fetch(BLOBS, root_id, some)
        found = {row["hash"] for row in rows}
        missing += [hash_.hex() for hash_ in some if hash_ not in found]
        manifests, values = reach.named(unpack(row["data"]) for row in rows)
        wanted += manifests
        for at in range(0, len(values), BLOBS_AT_ONCE):
            part = values[at : at + BLOBS_AT_ONCE]
            held = await connection.fetch(HELD, root_id, part)
            missing += [hash_.hex() for hash_ in set(part) - {row["hash"] for row in held}]
    return missing
