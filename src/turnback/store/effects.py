"""The log of calls outside: the open step, each call's intent and what came of it (undo.md 2).

Every write is one statement, and so one commit, under the fence of the run that makes it: a process
that has lost its run writes nothing more, and so sends nothing more, since a call is sent only
after its intent is committed. The intent also renews the locks that the call needs, or is refused.

The fence is read `for share`: a takeover, which raises it, waits for a write that is under way, and
what it then reads of the log is all there will be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any

import asyncpg
import orjson

from turnback.core.drift import LedgerEntry
from turnback.core.effects import CallState, Effect, Json, ResourceKey, Standing
from turnback.core.errors import FencedOff, ResourceBusy
from turnback.failpoints import hit
from turnback.store import ledger
from turnback.store.database import Database
from turnback.store.effect_rows import EFFECT, about, dumped, effect, states, time_of
from turnback.store.ids import new_id
from turnback.store.leases import is_running
from turnback.store.locks import Held
from turnback.store.outbox import EffectTold, to_row
from turnback.store.rows import SessionKey
from turnback.store.sealing import Sealer, Unsealable
from turnback.store.wakeups import Wakeups

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

_ENTRIES = {f"entry_{name}": type_ for name, type_ in ledger.COLUMNS.items()}
"""What the ledger gets with it."""

_ARGS = _TYPES | _INTENT | _ENDS | _ENTRIES


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


_OF_SESSION = "e.session_id is not distinct from %(session)s"
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
        columns = (f"%({name})s" for name in _ENTRIES)
        written = ledger.insert("s.project_id", columns, "%(ended_at)s", "changed, s")
        parts.append(f"""
written as ({written})""")
    changed = f"""
changed as (
    update effects e set {", ".join(sets)} from s
    where e.root_id = %(root)s and e.id = %(effect_id)s
        and {_OF_SESSION} and e.state = any(%(was)s)
    returning e.id)"""
    found = f"""s as (
    select project_id from sessions where root_id = %(root)s and id = %(session)s{owned}
        and deleted_at is null for share)"""
    found = _written_to(found) if telling else found
    return Statement.of(f"""with {found},{",".join([changed, *parts])}
select exists(select from changed) as changed, exists(select from s) as owned""")


_CLAIM = (
    "state", "standing", "about", "states", "secret", "class", "contract_case", "key_until", "at",
)  # fmt: skip
"""What is written of a call that was held back when it is about to be sent."""

CLAIM = Statement.of(f"""with s as (
    select id from sessions where root_id = %(root)s and id = %(session)s
        and deleted_at is null for no key update),
held as (
    update resource_locks
    set expires_at = clock_timestamp() + make_interval(secs => %(held_for)s)
    where holder = %(held_by)s and expires_at > clock_timestamp() returning 1)
update effects e set {", ".join(f"{name} = %({name})s" for name in _CLAIM)},
    number = (select coalesce(max(number), 0) + 1 from effects
        where root_id = %(root)s and session_id = %(session)s),
    claimed_by = %(node)s,
    claimed_until = clock_timestamp() + make_interval(secs => %(claimed_for)s)
from s where e.root_id = %(root)s and e.id = %(effect_id)s
    and {_OF_SESSION} and e.state = 'held'
    and (select count(*) from held) = %(held_count)s
    and not exists (select from effects o where o.root_id = %(root)s
        and o.session_id = %(session)s and o.id <> e.id
        and o.state in ('held', 'intent') and (
            o.state = 'held' and (o.hold_until, o.number) < (e.hold_until, e.number)
            or o.state = 'intent' and o.claimed_by is not null))
    and not exists (select from undo_runs u where u.root_id = %(root)s
        and u.session_id = %(session)s and u.ended_at is null)
returning e.number""")
"""Whoever gets a row of it sends the call, and nobody else: it is held back no more.

One at a time of a session, in their order, and none while an undo is under way there: what that one
has agreed to take back is not sent behind its back.
"""

CLAIMED = """select exists (select from effects e
    join sessions s on s.root_id = e.root_id and s.id = e.session_id and s.deleted_at is null
    where e.root_id = $1::uuid and e.id = $2::uuid and e.state = 'intent'
        and e.claimed_by = $3::uuid and e.claimed_until > clock_timestamp())"""

DUE = """select e.root_id, e.session_id, e.id from effects e
join sessions s on s.root_id = e.root_id and s.id = e.session_id and s.deleted_at is null
where e.state = 'held' and e.hold_until <= clock_timestamp()
order by e.hold_until, e.number limit $1::bigint"""

NEXT = """select extract(epoch from min(e.hold_until) - clock_timestamp()) from effects e
join sessions s on s.root_id = e.root_id and s.id = e.session_id and s.deleted_at is null
where e.state = 'held'"""
"""Of those that `DUE` finds in their time, and by the same clock."""

ABANDONED = f"""select e.root_id, e.session_id, e.id from effects e
join sessions s on s.root_id = e.root_id and s.id = e.session_id and s.deleted_at is null
where e.state = 'intent' and e.claimed_by is not null and (
    e.claimed_until < clock_timestamp() or e.claimed_by <> $2::uuid
        and e.at < clock_timestamp() - make_interval(secs => $3::float8)
        and not {is_running("e.claimed_by::text")})
order by e.claimed_until limit $1::bigint"""
"""Calls whose sender is gone, or has had more time than any call may take."""


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

_LOGGED = f"{EFFECT}, key, key_until, proposed"

OF_STEP = f"""select {_LOGGED} from effects where root_id = $1::uuid and step_id = $2::uuid
order by number"""

OF_SESSION = f"""select {_LOGGED} from effects where root_id = $1::uuid and session_id = $2::uuid
    and number > $3::integer order by number limit $4::bigint"""

STANDING = f"""select {_LOGGED} from effects where root_id = $1::uuid and session_id = $2::uuid
    and standing = any($3::text[]) order by number"""

STANDS = """select string_agg(standing || ' ' || id, ',' order by session_id, number)
from effects where root_id = $1::uuid and standing is not null"""
"""One value for a whole family, since it is asked for at each move of HEAD."""

STAND_FOR = """select id, step_id, connection, tool from effects
where root_id = $1::uuid and id = any($2::uuid[])"""

HELD = f"""select {_LOGGED} from effects where root_id = $1::uuid and session_id = $2::uuid
    and state = 'held' order by number"""

OF_UNDO = f"""select {_LOGGED} from effects where root_id = $1::uuid and session_id = $2::uuid
    and undo_id = $3::uuid and state = 'intent' order by number"""

OF_TURNS = f"""select {_LOGGED} from effects where root_id = $1::uuid and session_id <> $2::uuid
    and standing is not null and (turn_id = any($3::uuid[]) or id = any($3::uuid[])
    or step_id = any($4::uuid[])) order by number"""

BY_ID = f"""select {_LOGGED} from effects where root_id = $1::uuid and id = any($2::uuid[])
order by number"""


class InDoubt(Exception):
    """The same call was made before, and nobody knows what it did; nothing was written.

    Of calls with secrets it is the same as far as it is shown.
    """

    def __init__(self, effect_ids: Sequence[str]) -> None:
        super().__init__(*effect_ids)
        self.effect_ids = effect_ids


UNREADABLE: Mapping[str, Any] = {
    "content": "[The calls of this step were sealed under another `TURNBACK_SECRET_KEY`]",
    "toolCalls": [],
    "usage": None,
}
"""The draft of an open step whose secrets cannot be opened."""


class Purpose(StrEnum):
    """What a further call about an effect was made for."""

    FIND = "find"
    REPLAY = "replay"
    CANCEL = "cancel"
    SETTLE = "settle"


class CallOutcome(StrEnum):
    """How a call ended, as its connection has it."""

    REPLIED = "replied"
    FAILED = "failed"
    NOT_SENT = "not_sent"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class OpenStep:
    """A model's reply whose calls are under way: `draft` is the payload of the step to be.

    `is_secret`: there are secrets in its calls.
    """

    id: str
    turn_id: str
    draft: Mapping[str, Any]
    is_secret: bool = False


@dataclass(frozen=True, slots=True)
class Stands:
    """Where an effect stands, and where it belongs; `tool` as it is shown.

    Its standing alone ever changes.
    """

    id: str
    step_id: str
    tool: str
    standing: Standing


@dataclass(slots=True)
class StandsKnown:
    """What somebody has read of a family last: as it was told, and what that says."""

    told: str = ""
    stands: tuple[Stands, ...] = ()


@dataclass(frozen=True, slots=True)
class Logged:
    """An effect as the log has it, and what only going on with its call needs.

    `before` is what its inverse is filled from, `key` the idempotency key it was sent with, good
    until `key_until` where the tool honours one, `proposed` the model's own arguments where a
    person has changed them.
    """

    effect: Effect
    before: Json
    key: str
    key_until: datetime | None
    proposed: Mapping[str, Json] | None
    is_secret: bool


@dataclass(frozen=True, slots=True)
class Intended:
    """An intent that is committed: its effect's number, and what the ledger had of its things."""

    number: int
    known: Mapping[ResourceKey, Sequence[LedgerEntry]]


class Effects:
    """Writes and reads the log of one database."""

    def __init__(
        self, database: Database, sealer: Sealer, wakeups: Wakeups, *, node_id: str
    ) -> None:
        self._db = database
        self._sealer = sealer
        self._wakeups = wakeups
        self._node_id = node_id

    @property
    def can_seal(self) -> bool:
        """Whether a secret state can be stored."""
        return self._sealer.can_seal

    # -- the open step

    async def open(self, key: SessionKey, *, fence: int, head_step: str, step: OpenStep) -> None:
        """Commit a model's reply before anything outside is asked, looked at or run for it.

        Again under the same id, it is the same step. One with secrets is sealed, where there is a
        key. Raises `FencedOff`, `DatabaseUnavailable`.
        """
        hit("open.before")
        draft, sealed = dumped(step.draft), None
        if step.is_secret and self.can_seal:
            sealed = self._sealer.seal(draft.encode(), row=f"open {step.id}")
        args = (step.id, step.turn_id, draft if sealed is None else None, sealed)
        async with self._db.connection(writes=True) as connection:
            done = await connection.fetchval(OPEN, key.root_id, key.id, fence, head_step, *args)
        if not done:
            raise _fenced()
        hit("open.after")

    async def opened(self, key: SessionKey) -> OpenStep | None:
        """The session's open step, if there is one.

        Where its secrets cannot be opened any more it has no calls, and says so.
        """
        row = await self._db.run(lambda c: c.fetchrow(OPENED, key.root_id, key.id))
        if row is None:
            return None
        if row["secret"] is None:
            return OpenStep(row["id"], row["turn_id"], orjson.loads(row["draft"]))
        try:
            draft = self._sealer.open(row["secret"], row=f"open {row['id']}")
        except Unsealable:
            return OpenStep(row["id"], row["turn_id"], UNREADABLE, is_secret=True)
        return OpenStep(row["id"], row["turn_id"], orjson.loads(draft), is_secret=True)

    # -- one call

    async def intend(
        self,
        key: SessionKey,
        effect: Effect,
        *,
        fence: int,
        held: Held,
        lock_expiry: float,
        call_key: str,
        key_until: int | None = None,
        before: Json = None,
        shown: Mapping[str, Json],
        proposed: Mapping[str, Json] | None = None,
        secret: bool = False,
        over_doubt: bool = False,
        project_id: str | None = None,
        resources: Sequence[ResourceKey] = (),
        newest: int | None = None,
        undo_id: str | None = None,
    ) -> Intended:
        """Commit that a call is about to be sent. `key_until` is in ms.

        `shown` and `proposed` are its arguments without their secrets; those that it is sent with
        are sealed, with the rest of a `secret` one.

        Of one that is `HELD` it is committed that it is held back, and the session is told. The
        locks are held for `lock_expiry` seconds from now, or nearly. The ledger of the project is
        asked for the `newest` entries of these resources, which nobody else writes to while the
        locks are held. Raises `InDoubt` where the same call of the session was made before and
        nobody knows what it did, unless it is to be made `over_doubt`, `FencedOff` where the run is
        not this process's any more or its step is not open, `ResourceBusy` where a lock was lost,
        `DatabaseUnavailable`; in all of these the call must not be sent. With an `undo_id`
        the run is that undo's.
        """
        values = self._states(effect, before, secret=secret) | {
            "root": key.root_id,
            "session": key.id,
            "at_fence": fence,
            "held_by": held.holder,
            "held_count": held.count,
            "held_for": lock_expiry,
            "over_doubt": over_doubt,
            "id": effect.id,
            "turn_id": effect.turn_id,
            "step_id": effect.step_id,
            "tool_call_id": effect.tool_call_id,
            "connection": effect.connection,
            "tool": effect.tool,
            "contract": effect.contract,
            "args": dumped(dict(shown)),
            "proposed": None if proposed is None else dumped(dict(proposed)),
            "key": call_key,
            "key_until": time_of(key_until),
            "at": time_of(effect.at),
            "project": project_id,
            "newest": newest,
            "undo": undo_id,
        }
        values["places"], values["kinds"], values["keys"] = ledger.to_places(resources)
        telling = effect.state is CallState.HELD
        values |= _event(effect) if telling else {}
        statement = intend(
            locked=held.count > 0,
            renewing=not held.lasts(lock_expiry),
            knowing=bool(resources),
            telling=telling,
            undoing=undo_id is not None,
        )
        rows = await self._numbered(statement, values)
        row = rows[0]
        if row["number"] is None:
            if row["owned"] and row["doubtful"] and not over_doubt:
                raise InDoubt(row["doubtful"])
            if row["owned"] and not row["held"]:
                raise ResourceBusy("A lock of this call was lost before it was sent; try again")
            raise _fenced()
        if telling:
            await self._wakeups.changed([key.id])
        known = ledger.entries_of(resources, rows, self._sealer) if resources else {}
        return Intended(row["number"], known)

    async def claim(
        self,
        key: SessionKey,
        effect: Effect,
        *,
        held: Held,
        lock_expiry: float,
        key_until: int | None,
        before: Json,
        secret: bool,
        expiry: float,
    ) -> int | None:
        """Commit that this process is about to send a call that was held back; its new number.

        `effect` is as it is then; the claim is good for `expiry` seconds. None: it is not to be
        sent now, or was taken back, or another process sends it.
        """
        values = self._states(effect, before, secret=secret) | {
            "root": key.root_id,
            "session": key.id,
            "effect_id": effect.id,
            "held_by": held.holder,
            "held_count": held.count,
            "held_for": lock_expiry,
            "node": self._node_id,
            "claimed_for": expiry,
            "key_until": time_of(key_until),
            "at": time_of(effect.at),
        }
        rows = await self._numbered(CLAIM, values)
        return int(rows[0]["number"]) if rows else None

    async def is_claimed(self, key: SessionKey, effect_id: str) -> bool:
        """Whether this process is still the one to send a call that was held back."""
        args = (key.root_id, effect_id, self._node_id)
        return bool(await self._db.run(lambda c: c.fetchval(CLAIMED, *args)))

    async def due(self, *, limit: int) -> list[tuple[SessionKey, str]]:
        """Calls, of every session, that need not be held back any more, in their order."""
        rows = await self._db.run(lambda c: c.fetch(DUE, limit))
        return [(SessionKey(row["root_id"], row["session_id"]), row["id"]) for row in rows]

    async def next_due(self) -> float | None:
        """In how many seconds the next held back call is to be sent; None: there is none."""
        found = await self._db.run(lambda c: c.fetchval(NEXT))
        return None if found is None else float(found)

    async def abandoned(self, *, limit: int, grace: float) -> list[tuple[SessionKey, str]]:
        """Calls that were held back and whose sender is gone, for `grace` seconds."""
        args = (limit, self._node_id, grace)
        rows = await self._db.run(lambda c: c.fetch(ABANDONED, *args))
        return [(SessionKey(row["root_id"], row["session_id"]), row["id"]) for row in rows]

    async def _numbered(
        self, statement: Statement, values: Mapping[str, Any]
    ) -> list[asyncpg.Record]:
        """The rows of a statement that gives an effect the session's next number.

        Beside a run's calls one that was held back may be given the same: then once more.
        """
        while True:
            try:
                async with self._db.connection(writes=True) as connection:
                    rows: list[asyncpg.Record] = await connection.fetch(
                        statement.text, *statement.given(values)
                    )
                    return rows
            except asyncpg.UniqueViolationError as error:
                if error.constraint_name != "effects_number":
                    raise

    async def confirm(
        self, key: SessionKey, effect_id: str, *, fence: int, undo_id: str | None = None
    ) -> None:
        """Raise `FencedOff` unless the run is still this process's, and nobody has given it up."""
        statement = CONFIRM if undo_id is None else CONFIRM_UNDOING
        args = statement.given(
            {
                "root": key.root_id,
                "session": key.id,
                "at_fence": fence,
                "effect_id": effect_id,
                "undo": undo_id,
            }
        )
        if not await self._db.run(lambda c: c.fetchval(statement.text, *args)):
            raise _fenced()

    async def end(
        self,
        key: SessionKey,
        effect: Effect,
        *,
        fence: int | None,
        outcome: CallOutcome | None,
        held: Held | None = None,
        before: Json = None,
        ledger_entries: Sequence[LedgerEntry] = (),
        at: datetime,
        n: int = 0,
        was: Sequence[CallState] = (CallState.INTENT, CallState.IN_DOUBT),
        secret: bool = False,
        tells: bool = False,
    ) -> bool:
        """Commit what came of a call: the effect as it is now, and what it wrote to the ledger.

        Where it `tells`, the session's clients are told of it. With it the locks are dropped. False
        where it had ended otherwise already. Without a `fence` no run is under way: a doubt is
        settled, or what was held back is sent or taken back. `outcome` is that
        of the effect's own call, or of the further one that is its `n`th. Raises `FencedOff`,
        `DatabaseUnavailable`.
        """
        values = self._states(effect, before, secret=secret) | {
            "root": key.root_id,
            "session": key.id,
            "at_fence": fence,
            "held_by": None if held is None else held.holder,
            "effect_id": effect.id,
            "was": list(was),
            "outcome": outcome,
            "n": n,
            "ended_at": at,
        }
        if ledger_entries:
            columns = ledger.to_columns(ledger_entries, self._sealer, secret=secret)
            values |= zip(_ENTRIES, columns, strict=True)
        statement = end(
            fenced=fence is not None,
            locked=held is not None and held.count > 0,
            writing=bool(ledger_entries),
            again=n > 0,
            telling=tells,
        )
        values |= _event(effect) if tells else {}
        async with self._db.connection(writes=True) as connection:
            row = await connection.fetchrow(statement.text, *statement.given(values))
        assert row is not None
        if not row["owned"]:
            raise _fenced()
        if row["changed"] and held is not None:
            held.is_dropped = True
        if row["changed"] and tells:
            await self._wakeups.changed([key.id])
        return bool(row["changed"])

    async def call_again(
        self, key: SessionKey, effect_id: str, *, purpose: Purpose, tool: str, call_key: str | None
    ) -> int | None:
        """Commit that a doubtful effect's fate is being looked for by one more call; its ordinal.

        None where there is no doubt any more.
        """
        args = (key.root_id, key.id, effect_id, purpose, tool, call_key)
        async with self._db.connection(writes=True) as connection:
            n: int | None = await connection.fetchval(AGAIN, *args)
        return n

    async def stand(
        self, key: SessionKey, effect_id: str, *, was: Standing, now: Standing | None
    ) -> bool:
        """Set where an effect stands, if it stood so. Raises `DatabaseUnavailable`."""
        args = (key.root_id, key.id, effect_id, was, now)
        async with self._db.connection(writes=True) as connection:
            return bool(await connection.fetchval(STAND, *args))

    # -- reading

    async def of_step(self, key: SessionKey, step_id: str) -> list[Logged]:
        """The effects of a step, in the order of their intents."""
        return await self._logged(OF_STEP, key.root_id, step_id)

    async def of_session(self, key: SessionKey, *, after: int = 0, limit: int) -> list[Logged]:
        """A session's own effects, those numbered above `after`, at most `limit` of them."""
        return await self._logged(OF_SESSION, key.root_id, key.id, after, limit)

    async def standing(
        self, key: SessionKey, *, among: Iterable[Standing] = tuple(Standing)
    ) -> list[Logged]:
        """A session's own effects that stand in one of these ways."""
        return await self._logged(STANDING, key.root_id, key.id, list(among))

    async def held(self, key: SessionKey) -> list[Effect]:
        """A session's own calls that are held back, in order."""
        return [logged.effect for logged in await self._logged(HELD, key.root_id, key.id)]

    async def under_way_of(self, key: SessionKey, undo_id: str) -> list[Logged]:
        """Calls that the agents of an undo's run have made, and of which no end is known."""
        return await self._logged(OF_UNDO, key.root_id, key.id, undo_id)

    async def stands(self, key: SessionKey, known: StandsKnown) -> Sequence[Stands]:
        """Where every effect of the family stands that has a standing, each session's in order.

        Of whom is read only what is new to `known`, which is brought up to date.
        """
        read = await self._db.run(lambda c: c.fetchval(STANDS, key.root_id))
        told = read or ""
        if told == known.told:
            return known.stands
        parts = told.split(",") if told else []
        now = [(id_, standing) for standing, id_ in map(str.split, parts)]
        by_id = {one.id: one for one in known.stands}
        if new := [id_ for id_, _ in now if id_ not in by_id]:
            for row in await self._db.run(lambda c: c.fetch(STAND_FOR, key.root_id, new)):
                tool = f"{row['connection']}.{row['tool']}"
                by_id[row["id"]] = Stands(row["id"], row["step_id"], tool, Standing.IN_FORCE)
        known.stands = tuple(
            one if one.standing == standing else replace(one, standing=Standing(standing))
            for id_, standing in now
            if (one := by_id.get(id_)) is not None
        )
        known.told = told
        return known.stands

    async def of_others(
        self, key: SessionKey, ids: Sequence[str], *, steps: Sequence[str]
    ) -> list[Logged]:
        """What other sessions of the family did: of these ids, turns or steps, still standing."""
        return await self._logged(OF_TURNS, key.root_id, key.id, list(ids), list(steps))

    async def by_id(self, key: SessionKey, ids: Sequence[str]) -> list[Logged]:
        """These effects of the family, in the order of their intents."""
        return await self._logged(BY_ID, key.root_id, list(ids)) if ids else []

    async def _logged(self, text: str, *args: Any) -> list[Logged]:
        rows = await self._db.run(lambda c: c.fetch(text, *args))
        return [
            Logged(
                *effect(row, self._sealer),
                key=row["key"],
                key_until=row["key_until"],
                proposed=None if row["proposed"] is None else orjson.loads(row["proposed"]),
                is_secret=row["secret"] is not None,
            )
            for row in rows
        ]

    def _states(self, effect: Effect, before: Json, *, secret: bool) -> dict[str, Any]:
        """The columns that change when a call ends."""
        held = dumped(states(effect, before) | ({"args": effect.args} if secret else {}))
        return {
            "about": dumped(about(effect)),
            "states": None if secret else held,
            "secret": self._sealer.seal(held.encode(), row=effect.id) if secret else None,
            "state": effect.state,
            "class": effect.class_,
            "contract_case": effect.case,
            "standing": effect.standing,
            "hold_until": time_of(effect.hold_until),
            "cancel_until": time_of(effect.cancel_until),
            "settles_at": time_of(effect.settles_at),
        }


def _event(effect: Effect) -> dict[str, Any]:
    """What a session is told of an effect."""
    commit_id = new_id()
    type_, data = to_row(EffectTold.of(effect), commit_id)
    return {"commit_id": commit_id, "event_type": type_, "event_data": dumped(data)}


def _written_to(part: str) -> str:
    """SQL: the part that locks the session's row, which the statement is to update as well."""
    return part.replace("for share", "for no key update")


def _fenced() -> FencedOff:
    return FencedOff("This run has been ended by another process")
