"""The statements that write the log of calls outside, put together of what a call needs.

Every one is guarded by the fence of the run that makes the call. The fence is read `for share`: a
takeover, which raises it, waits for a write that is under way, and what it then reads of the log is
all there will be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import asyncpg

from turnback.store import ledger
from turnback.store.database import Database

_TYPES = {
    "root": "uuid",
    "session": "uuid",
    "at_fence": "bigint",
    "held_by": "uuid",
    "held_count": "bigint",
    "held_for": "float8",
    "effect_id": "uuid",
    "over_doubt": "boolean",
    "was": "text[]",
    "outcome": "text",
    "n": "integer",
    "project": "text",
    "places": "text[]",
    "kinds": "text[]",
    "keys": "text[]",
    "newest": "bigint",
    "commit_id": "uuid",
    "event_type": "text",
    "event_data": "json",
    "node": "uuid",
    "undo": "uuid",
    "claimed_for": "float8",
}
"""The types of what a statement's guard and parts are given, by name."""

_INTENT = {
    "id": "uuid",
    "turn_id": "uuid",
    "step_id": "uuid",
    "tool_call_id": "text",
    "connection": "text",
    "tool": "text",
    "contract": "text",
    "class": "text",
    "contract_case": "integer",
    "state": "text",
    "standing": "text",
    "args": "json",
    "proposed": "json",
    "about": "json",
    "states": "json",
    "secret": "bytea",
    "key": "text",
    "key_until": "timestamptz",
    "at": "timestamptz",
    "hold_until": "timestamptz",
}
"""What an intent says, by column."""

_ENDS = {
    "about": "json",
    "states": "json",
    "state": "text",
    "class": "text",
    "contract_case": "integer",
    "standing": "text",
    "secret": "bytea",
    "ended_at": "timestamptz",
    "hold_until": "timestamptz",
    "cancel_until": "timestamptz",
    "settles_at": "timestamptz",
}
"""What is known of a call once it has ended, by column."""

ENTRIES = {f"entry_{name}": type_ for name, type_ in ledger.COLUMNS.items()}
"""What the ledger gets with it."""

_ARGS = _TYPES | _INTENT | _ENDS | ENTRIES


class _Args(dict[str, str]):
    """What fills in the `%(name)s` of a statement: each name's place among its arguments."""

    def __missing__(self, name: str) -> str:
        self[name] = f"${len(self) + 1}::{_ARGS[name]}"
        return self[name]


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement's text, and the names of its arguments in their order."""

    text: str
    names: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Statement:
        """The statement of a text in which arguments stand as `%(name)s`."""
        args = _Args()
        return cls(text % args, tuple(args))

    def given(self, values: Mapping[str, Any]) -> list[Any]:
        """Its arguments."""
        return [values[name] for name in self.names]


def _told(source: str) -> str:
    """SQL: that the session's clients are told of what `source` has changed, which is one row."""
    return f"""
told as (
    update sessions set revision = sessions.revision + 1, updated_at = clock_timestamp()
    from {source} where sessions.root_id = %(root)s and sessions.id = %(session)s
    returning sessions.revision),
event as (
    insert into session_events (root_id, session_id, event_seq, commit_id, type, data, created_at)
    select %(root)s, %(session)s, told.revision, %(commit_id)s, %(event_type)s, %(event_data)s,
        clock_timestamp() from told)"""


_OWNED = """s as (
    select project_id from sessions where root_id = %(root)s and id = %(session)s
        and fence = %(at_fence)s and state <> 'AVAILABLE' and deleted_at is null for share)"""

_UNDOING = """s as (
    select project_id from sessions where root_id = %(root)s and id = %(session)s
        and fence = %(at_fence)s and deleted_at is null and exists (select from undo_runs u
            where u.root_id = %(root)s and u.id = %(undo)s and u.ended_at is null) for share)"""
"""Of a call that the agent of a compensation makes: the undo's run is owned, no step is open."""

OPEN = """with off as materialized (select set_config('synchronous_commit', 'off', true)),
s as (
    select project_id from sessions where root_id = $1::uuid and id = $2::uuid
        and fence = $3::bigint and head_step = $4::uuid and state <> 'AVAILABLE'
        and deleted_at is null for share)
insert into open_steps (root_id, session_id, fence, id, turn_id, draft, secret, opened_at)
select $1::uuid, $2::uuid, $3::bigint, $5::uuid, $6::uuid, $7::json, $8::bytea, clock_timestamp()
from off, s
on conflict (root_id, session_id) do update set fence = excluded.fence, id = excluded.id,
    turn_id = excluded.turn_id, draft = excluded.draft, secret = excluded.secret,
    opened_at = excluded.opened_at
returning true"""
"""It need not be on disk at once: the first intent that follows takes it along, and so does the
commit by which a turn waits. Where it is lost with its server, nothing was sent (decision 0067)."""

OPENED = """select id, turn_id, draft, secret from open_steps
where root_id = $1::uuid and session_id = $2::uuid"""


OF_SESSION = "e.session_id is not distinct from %(session)s"
"""Written so that an effect is not looked for by it: its id is enough, and a session has many."""


@cache
def intend(
    *, locked: bool, renewing: bool, knowing: bool, telling: bool, undoing: bool = False
) -> Statement:
    """Commits an intent, if the run is owned, its step open, no like of it in doubt.

    `locked`: and if its locks are held, which are renewed where it is `renewing`. `knowing`: it
    also finds the ledger's newest entries of some resources, a row for each; one row in any case.
    `telling`: the session is told, since the call is held back. `undoing`: the run is an undo's.
    """
    owned, told = _UNDOING if undoing else _OWNED, ""
    columns, values = ", ".join(_INTENT), ", ".join(f"%({name})s" for name in _INTENT)
    step = """s, open_steps o
    where o.root_id = %(root)s and o.session_id = %(session)s and o.id = %(step_id)s"""
    if undoing:
        columns, values, step = f"undo_id, {columns}", f"%(undo)s, {values}", "s where true"
    if telling:
        owned, told = _written_to(owned), f",{_told('made')}"
    held, is_held = "", "true"
    if locked:
        held = """
held as (
    select 1 from resource_locks where holder = %(held_by)s and expires_at > clock_timestamp()),"""
        is_held = "(select count(*) from held) = %(held_count)s"
    if locked and renewing:
        held = """
held as (
    update resource_locks
    set expires_at = clock_timestamp() + make_interval(secs => %(held_for)s)
    where holder = %(held_by)s and expires_at > clock_timestamp() returning 1),"""
    found = f"""select (select number from made) as number, exists(select from s) as owned,
    {is_held} as held, array(select id from doubtful) as doubtful"""
    if knowing:
        places = (f"%({name})s" for name in ("places", "kinds", "keys"))
        entries = ledger.newest("%(project)s", places, "%(newest)s")
        found = f"""select * from ({found}) g left join lateral ({entries}) l on true
order by l.nth, l.n"""
    return Statement.of(f"""with {owned},{held}
doubtful as (
    select e.id from effects e where e.root_id = %(root)s and e.session_id = %(session)s
        and e.state in ('intent', 'in_doubt') and e.connection = %(connection)s
        and e.tool = %(tool)s and e.args::jsonb = %(args)s::jsonb),
made as (
    insert into effects (root_id, session_id, fence, number, {columns})
    select %(root)s, %(session)s, %(at_fence)s, (
            select coalesce(max(number), 0) + 1 from effects
            where root_id = %(root)s and session_id = %(session)s),
        {values}
    from {step}
        and {is_held} and (%(over_doubt)s or not exists (select from doubtful))
    returning number){told}
{found}""")


@cache
def end(*, fenced: bool, locked: bool, writing: bool, again: bool, telling: bool) -> Statement:
    """Commits what came of a call, if the run is owned and it has not ended otherwise.

    `fenced`: by a run. `locked`: its locks are dropped. `writing`: the ledger gets entries.
    `again`: it was found out by the effect's `n`th further call, which ends with it. `telling`: the
    session is told of it, for its step tells of it no more.
    """
    owned = " and fence = %(at_fence)s and state <> 'AVAILABLE'" if fenced else ""
    sets = [f"{name} = %({name})s" for name in _ENDS]
    parts = []
    if again:
        parts.append("""
ended as (
    update effect_calls c set outcome = %(outcome)s, ended_at = %(ended_at)s from changed
    where c.root_id = %(root)s and c.effect_id = %(effect_id)s and c.n = %(n)s
        and c.outcome is null)""")
    else:
        sets.append("outcome = %(outcome)s")
    if locked:
        parts.append("""
released as (delete from resource_locks using changed where holder = %(held_by)s)""")
    if telling:
        parts.append(_told("changed"))
    if writing:
        columns = (f"%({name})s" for name in ENTRIES)
        written = ledger.insert("s.project_id", columns, "%(ended_at)s", "changed, s")
        parts.append(f"""
written as ({written})""")
    changed = f"""
changed as (
    update effects e set {", ".join(sets)} from s
    where e.root_id = %(root)s and e.id = %(effect_id)s
        and {OF_SESSION} and e.state = any(%(was)s)
    returning e.id)"""
    found = f"""s as (
    select project_id from sessions where root_id = %(root)s and id = %(session)s{owned}
        and deleted_at is null for share)"""
    found = _written_to(found) if telling else found
    return Statement.of(f"""with {found},{",".join([changed, *parts])}
select exists(select from changed) as changed, exists(select from s) as owned""")


CONFIRM, CONFIRM_UNDOING = (
    Statement.of(f"""with {owned}
select exists (select from s) and exists (select from effects
    where root_id = %(root)s and id = %(effect_id)s and state = 'intent')""")
    for owned in (_OWNED, _UNDOING)
)

AGAIN = """with e as (
    select id from effects where root_id = $1::uuid and id = $3::uuid
        and session_id is not distinct from $2::uuid and state in ('intent', 'in_doubt')),
numbered as (
    select coalesce(max(n), 0) + 1 as n from effect_calls
    where root_id = $1::uuid and effect_id = $3::uuid)
insert into effect_calls (root_id, effect_id, n, session_id, purpose, tool, key, sent_at)
select $1::uuid, e.id, numbered.n, $2::uuid, $4::text, $5::text, $6::text, clock_timestamp()
from e, numbered returning n"""

STAND = """update effects set standing = $5::text
where root_id = $1::uuid and session_id is not distinct from $2::uuid and id = $3::uuid
    and standing = $4::text returning true"""


def _written_to(part: str) -> str:
    """SQL: the part that locks the session's row, which the statement is to update as well."""
    return part.replace("for share", "for no key update")


async def numbered(
    database: Database, statement: Statement, values: Mapping[str, Any]
) -> list[asyncpg.Record]:
    """The rows of a statement that gives an effect the session's next number.

    Beside a run's calls one that was held back may be given the same: then once more.
    """
    while True:
        try:
            async with database.connection(writes=True) as connection:
                rows: list[asyncpg.Record] = await connection.fetch(
                    statement.text, *statement.given(values)
                )
                return rows
        except asyncpg.UniqueViolationError as error:
            if error.constraint_name != "effects_number":
                raise
