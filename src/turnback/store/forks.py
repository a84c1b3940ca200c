"""Forks: one statement in one snapshot, at any history and depth (lineage.md 4).

No record is copied and no branch made: a fork is its row in the directory, its session's, its
lineage's, and what its reader may see of the prefix. The statement writes all of them or none, and
says of the same snapshot why none.

The family's row and the source's are locked `for key share`, which only a sweep or a purge waits
for. Stronger locks would read the source anew beside the old snapshot of everything else.
"""

from __future__ import annotations

from dataclasses import dataclass

import asyncpg

from turnback.core.errors import (
    BadInput,
    Contended,
    CountMismatch,
    DepthLimit,
    HistoryMissing,
    HistoryPurged,
    LineageConflict,
    NotOnPath,
    TurnbackError,
    TurnIncomplete,
)
from turnback.core.lineage import ROOT_ID, Boundary, Fork, Lineage, Position, Side
from turnback.core.values import counted
from turnback.store.attachments import INHERITED
from turnback.store.ids import is_id

LINEAGE = """parent_id, boundary_turn, boundary_position, inherited_turn_count, cutoff_branch,
    cutoff_seq, cutoff_step, depth, sources, description"""

SUFFIX = " (branch)"
LONGEST_NAME = 200
TRIES = 3
"""How often a fork is asked for that purges of its family make late."""

_FOUND = """with recursive family as materialized (
    select project_id, family_epoch, family_epoch is distinct from (
        select family_epoch from families where root_id = $1::uuid) as is_late
    from families where root_id = $1::uuid {family_lock}),
source as materialized (
    select s.project_id, s.name, s.model, s.head_branch, s.head_seq, s.initial_hash, s.run_settings,
        s.visibility, family_epoch, is_late
    from sessions s cross join family
    where s.root_id = $1::uuid and s.id = $2::uuid and s.deleted_at is null
        and (s.id = s.root_id or exists (select from session_lineage l
            where l.root_id = $1::uuid and l.session_id = $2::uuid)) {source_lock}),
turn as (
    select s.head_branch, s.head_seq, s.family_epoch, s.is_late, t.id as turn_id, t.kind,
        t.effective_index, t.first_branch, t.first_seq, t.last_seq,
        $5::text is distinct from 'before' as is_after
    from source s
    left join records h on $4::uuid is null and h.root_id = $1::uuid
        and h.branch_id = s.head_branch and h.seq = s.head_seq
    left join turns t on t.root_id = $1::uuid and t.id = coalesce($4::uuid, h.turn_id)),
chain(src, lo, hi, below, bound) as (
    select b.src, b.lo, b.hi, b.below, t.head_seq from turn t
    join branches b on b.root_id = $1::uuid and b.id = t.head_branch
    union all
    select b.src, b.lo, b.hi, b.below, c.lo[1] from chain c cross join turn t
    cross join lateral (select src, lo, hi, below from branches
        where root_id = $1::uuid and id = c.below offset 0) b
    where c.lo[1] > 0 and c.lo[1] >= coalesce(t.first_seq - 1, 0) and b.lo[1] < c.lo[1]),
segments as (
    select k.src, k.lo, least(k.hi, c.bound) as hi
    from chain c cross join lateral unnest(c.src, c.lo, c.hi) k(src, lo, hi)
    where k.lo < c.bound),
found as (
    select t.*, case when t.turn_id is null
            then case when t.head_seq = 0 and $4::uuid is null then 0 end
            when t.is_after then t.last_seq else t.first_seq - 1 end as cut,
        exists (select from segments g where g.src = t.first_branch
            and t.first_seq > g.lo and t.first_seq <= g.hi) as begins,
        exists (select from segments g where g.src = t.first_branch
            and t.last_seq > g.lo and t.last_seq <= g.hi) as ends
    from turn t),
cutoff as (
    select f.cut, g.src as branch_id, r.id, r.after_hash, b.session_id as holder
    from found f join segments g on f.cut > g.lo and f.cut <= g.hi
    cross join lateral (select id, after_hash from records
        where root_id = $1::uuid and branch_id = g.src and seq = f.cut offset 0) r
    cross join lateral (select session_id from branches
        where root_id = $1::uuid and id = g.src offset 0) b),
judged as (
    select f.*, c.branch_id as cutoff_branch, c.id as cutoff_step, c.holder, c.after_hash,
        coalesce(f.effective_index + f.is_after::int, 0) as inherited,
        1 + coalesce((select depth from session_lineage l
            where l.root_id = $1::uuid and l.session_id = $2::uuid), 0) as depth,
        p.id is not null as has_prompt, p.said as prompt,
        f.family_epoch > 0 and (exists (select from segments g
            join branches b on b.root_id = $1::uuid and b.id = g.src
            join sessions s on s.root_id = $1::uuid and s.id = b.session_id
            where s.purged_at is not null and (f.begins and (f.cut > g.lo and f.cut <= g.hi
                    or f.first_seq > g.lo and f.first_seq <= g.hi)
                or $4::uuid is null and f.head_seq > g.lo and f.head_seq <= g.hi))
            or f.turn_id is null and exists (select from segments g join purged_records p
                on p.root_id = $1::uuid and p.branch_id = g.src and p.seq > g.lo and p.seq <= g.hi
            where p.turn_id = $4::uuid)) as is_purged
    from found f left join cutoff c on true
    left join lateral (
        select id, case when $6::text is not null then payload ->> 'content' end as said
        from records where root_id = $1::uuid and branch_id = f.first_branch
        and seq = f.first_seq offset 0) p on true)"""
"""What a fork would leave, `judged`: one row, or none where the source is gone.

`ends`: the turn has ended, or it would not know its last record, and its end is on the path.

`is_purged`: its boundary is in a part that was purged. Without a family epoch nothing ever was. A
boundary after such a part is as good as the source is: its fork inherits what is left.

`is_late`: a purge has ended while the lock was waited for. The lock has the family's row as it is
now and the rest of the statement is older, so it would read, and write down, what is purged.

What is looked up by key is in a subquery of its own (`offset 0`): otherwise a plan made while a
table was small may join it whole, and a fork would cost as much as the family is large.
"""

_ALLOWED = """
    select * from judged where not is_late and not is_purged
        and (cut = 0 or cutoff_step is not null)
        and (turn_id is null or begins)
        and (turn_id is null or not is_after or ends)
        and depth <= $12::integer and ($13::integer is null or inherited = $13::integer)
        and ($6::text is null or kind = 'prompt' and (has_prompt or $7::text is not null))"""

_PENDING = """case when $6::text is not null then json_build_object('mode', $6::text,
            'turn_key', d.id, 'draft', coalesce($7::text, a.prompt),
            'quoted', $7::text is null) end"""

_FILES = INHERITED.format(now="$11::timestamptz") + ",\n"


def _make(pending: str, files: str) -> str:
    """SQL: makes a fork of `source` as `allowed` has it, if it has; its lineage is `inherits`."""
    return f"""directory as (
    insert into session_directory (id, project_id, root_id)
    select $3::uuid, project_id, $1::uuid from allowed cross join source
    on conflict do nothing returning id),
made as (
    insert into sessions (root_id, id, project_id, owner, name, model, head_branch, head_seq,
        head_step, workflow_hash, initial_hash, run_settings, visibility, pending_action,
        created_at, updated_at)
    select $1::uuid, d.id, s.project_id, $14::text, coalesce($8::text, case
            when s.name like '%{SUFFIX}' then s.name
            else left(s.name, {LONGEST_NAME - len(SUFFIX)}) || '{SUFFIX}' end),
        s.model, a.cutoff_branch, a.cut, a.cutoff_step, coalesce(a.after_hash, s.initial_hash),
        s.initial_hash, s.run_settings, s.visibility,
        {pending}, $11::timestamptz, $11::timestamptz
    from allowed a cross join source s cross join directory d),
granted as (
    insert into session_grants (session_id, principal_id, project_id, root_id, rights, granted_by,
        created_at, session_created_at)
    select d.id, g.principal_id, g.project_id, g.root_id, g.rights, g.granted_by, $11::timestamptz,
        $11::timestamptz
    from directory d cross join session_grants g
    where g.session_id = $2::uuid and g.principal_id = $14::text),
{files}inherits as (
    insert into session_lineage (root_id, session_id, {LINEAGE}, fingerprint, created_at)
select $1::uuid, d.id, $2::uuid, $4::uuid, $5::text, a.inherited, a.cutoff_branch, a.cut,
    a.cutoff_step, a.depth, case when a.holder is null then '{{}}' else coalesce((
        select sources from session_lineage l
        where l.root_id = $1::uuid and l.session_id = a.holder), '{{}}') || a.holder end,
    $9::text, $10::bytea, $11::timestamptz
from allowed a cross join directory d
    returning {LINEAGE})"""


FORK = f"""{_FOUND.format(family_lock="for key share", source_lock="for key share of s")},
allowed as ({_ALLOWED}),
{_make(_PENDING, _FILES)}
select i.*, j.turn_id, j.kind, j.is_after, j.begins, j.ends, j.cut, j.inherited,
    j.depth as would_be, j.is_late, j.is_purged, j.has_prompt,
    j.cutoff_step is not null as is_whole,
    exists (select from session_directory where id = $3::uuid) as is_taken
from judged j left join inherits i on true
"""

WHOLE = f"""with family as materialized (
    select family_epoch from families where root_id = $1::uuid for key share),
source as materialized (
    select s.project_id, s.name, s.model, s.head_branch, s.head_seq, s.head_step, s.workflow_hash,
        s.initial_hash, s.run_settings, s.visibility, 1 + coalesce(l.depth, 0) as depth
    from sessions s join family on family_epoch = 0
    left join session_lineage l on l.root_id = $1::uuid and l.session_id = $2::uuid
    where s.root_id = $1::uuid and s.id = $2::uuid and s.deleted_at is null
        and (s.id = s.root_id or l.session_id is not null)
        and not exists (select from session_attachment_access
            where root_id = $1::uuid and session_id = $2::uuid)
    for key share of s),
allowed as (
    select s.head_branch as cutoff_branch, s.head_seq as cut, s.head_step as cutoff_step,
        s.workflow_hash as after_hash, s.depth, b.session_id as holder,
        coalesce(t.effective_index + 1, 0) as inherited
    from source s
    left join records h on h.root_id = $1::uuid and h.branch_id = s.head_branch
        and h.seq = s.head_seq
    left join turns t on t.root_id = $1::uuid and t.id = h.turn_id
    left join branches b on b.root_id = $1::uuid and b.id = s.head_branch
    where $4::uuid is null and $5::text is null and $6::text is null and $7::text is null
        and s.depth <= $12::integer
        and ($13::integer is null or coalesce(t.effective_index + 1, 0) = $13::integer)
        and (s.head_seq = 0 or b.id is not null and t.first_branch = s.head_branch
            and t.last_seq = s.head_seq)),
{_make("null", "")}
select * from inherits
"""
"""A fork of all that is shown, where HEAD ends a turn, nothing of the family was ever purged and
there are no files to inherit: what `FORK` makes then, with nothing to find or to judge.

Otherwise it makes none, and `FORK` is asked. Parts of a statement cost their preparation even where
they find nothing (decision 51).
"""

MADE = f"""select s.owner, s.archived_at, s.deleted_at, l.fingerprint, {LINEAGE}
from session_directory d
join sessions s on s.root_id = d.root_id and s.id = d.id
left join session_lineage l on l.root_id = d.root_id and l.session_id = d.id
where d.id = $1::uuid and d.project_id = $2::text"""

OF = f"select {LINEAGE} from session_lineage where root_id = $1::uuid and session_id = $2::uuid"


@dataclass(frozen=True, slots=True)
class Forked:
    """A fork's lineage; `is_new` where this call has made it, and not one before."""

    lineage: Lineage
    is_new: bool


def place(root_id: str, asked: Fork) -> tuple[str | None, ...]:
    """The first arguments of `FORK`. Raises `NotOnPath`."""
    turn_id = position = None
    if asked.boundary is not None:
        turn_id, position = asked.boundary.turn_id, asked.boundary.position
        if not is_id(turn_id):
            raise _off_path()
    return root_id, asked.source_id, asked.child_id, turn_id, position


def refusal(row: asyncpg.Record, asked: Fork, *, max_depth: int) -> TurnbackError | None:
    """Why a fork was not made, from the row of `FORK`; None: its id was taken in that moment."""
    if row["is_taken"]:
        return conflict()
    if row["is_late"]:
        return Contended("Others purged sessions of this family meanwhile; fork it once more")
    if row["would_be"] > max_depth:
        return DepthLimit(
            f"A session may be a fork of a fork {counted(max_depth, 'time')} (`max_fork_depth`); "
            "go on in a new session",
            limit="max_fork_depth",
            value=max_depth,
        )
    purged = HistoryPurged("This part of the conversation was purged; fork from after it")
    if row["is_purged"]:
        return purged
    if asked.boundary is not None and not row["begins"]:
        return _off_path()
    if row["turn_id"] is not None and row["is_after"] and not row["ends"]:
        return TurnIncomplete(
            "The turn is not complete on this conversation's path; fork before it, or when it has "
            "ended"
        )
    if asked.mode is not None and row["kind"] != "prompt":
        return BadInput(f"`mode` `{asked.mode}` needs a boundary at a prompt; this is an edit")
    lacks_draft = asked.mode and asked.draft is None and not row["has_prompt"]
    if lacks_draft or row["cut"] is None or (row["cut"] and not row["is_whole"]):
        return HistoryMissing(
            "Records that the fork would inherit are missing from the database; it is not made"
        )
    if asked.count not in (None, row["inherited"]):
        return CountMismatch(
            f"The fork would inherit {counted(row['inherited'], 'turn')}, not {asked.count}; "
            "look at the conversation again",
            inherited_turn_count=row["inherited"],
        )
    return None


def conflict() -> LineageConflict:
    """What is said of an id that cannot become this fork's."""
    return LineageConflict("This id is taken, or was used for another fork; take a new one")


def _off_path() -> NotOnPath:
    return NotOnPath("Turn is not on the current conversation path")


def lineage_of(row: asyncpg.Record) -> Lineage:
    """A row of `session_lineage`."""
    boundary = None
    if row["boundary_turn"] is not None:
        boundary = Boundary(row["boundary_turn"], Side(row["boundary_position"]))
    return Lineage(
        parent_id=row["parent_id"],
        boundary=boundary,
        inherited_turn_count=row["inherited_turn_count"],
        cutoff=Position(row["cutoff_branch"], row["cutoff_seq"], row["cutoff_step"] or ROOT_ID),
        depth=row["depth"],
        sources=tuple(row["sources"]),
        description=row["description"],
    )
