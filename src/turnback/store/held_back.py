"""Calls that are held back: which are due, and who sends them (undo.md 1).

What becomes of one is decided by a compare-and-set on its row: who gets it out of `held` has it.
"""

from __future__ import annotations

from turnback.core.effects import Effect, Json
from turnback.store.database import Database
from turnback.store.effect_rows import end_values, time_of
from turnback.store.effect_statements import OF_SESSION, Statement, numbered
from turnback.store.leases import is_running
from turnback.store.locks import Held
from turnback.store.rows import SessionKey
from turnback.store.sealing import Sealer

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
    and {OF_SESSION} and e.state = 'held'
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


class HeldBack:
    """Calls of every session that are held back, for this process, `node_id`."""

    def __init__(self, database: Database, sealer: Sealer, *, node_id: str) -> None:
        self._db = database
        self._sealer = sealer
        self._node_id = node_id

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
        values = end_values(effect, before, self._sealer, secret=secret) | {
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
        rows = await numbered(self._db, CLAIM, values)
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
