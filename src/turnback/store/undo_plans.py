"""Undo plans that were shown: to whom, of what, and for how long each may be run (undo.md 5).

A plan is not carried out as stored: it is made again of what was asked, and has to come to the same
digest. What is stored of the plan itself says what its asker has seen.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import orjson

from turnback.core.errors import UnknownPlan
from turnback.core.undo.asked import AskedUndo
from turnback.core.undo.plan import Plan
from turnback.core.undo.rows import Policy
from turnback.store.database import Database
from turnback.store.effect_rows import dumped, ms_of
from turnback.store.ids import is_id, new_id
from turnback.store.rows import SessionKey

KEEP = """insert into undo_plans (root_id, id, session_id, principal, asked, plan, digest,
    created_at, expires_at)
values ($1::uuid, $2::uuid, $3::uuid, $4::text, $5::json, $6::json, $7::text, clock_timestamp(),
    clock_timestamp() + make_interval(secs => $8::float8))
returning expires_at"""

GET = """select asked, digest, expires_at, expires_at < clock_timestamp() as is_old from undo_plans
where root_id = $1::uuid and session_id = $2::uuid and id = $3::uuid and principal = $4::text"""

RUN_OF = """select id from undo_runs
where root_id = $1::uuid and session_id = $2::uuid and plan_id = $3::uuid"""

FORGET = "delete from undo_plans where expires_at < clock_timestamp() - interval '1 day'"


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan as its asker may have it run, until `expires_at`, in ms."""

    id: str
    asked: AskedUndo
    digest: str
    expires_at: int
    is_old: bool = False


class UndoPlans:
    """Keeps the plans of one database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def keep(
        self, key: SessionKey, *, by: str, asked: AskedUndo, plan: Plan, seconds: float
    ) -> StoredPlan:
        """Keep a plan for its asker, for so long. Raises `DatabaseUnavailable`."""
        id_ = new_id()
        what = (dumped(asdict(asked)), dumped(asdict(plan)), plan.digest)
        async with self._db.connection(writes=True) as connection:
            until = await connection.fetchval(KEEP, key.root_id, id_, key.id, by, *what, seconds)
        return StoredPlan(id_, asked, plan.digest, ms_of(until) or 0)

    async def get(self, key: SessionKey, plan_id: str, *, by: str) -> StoredPlan:
        """The plan of this id that this principal was shown. Raises `UnknownPlan`."""
        args = (key.root_id, key.id, plan_id, by)
        row = await self._db.run(lambda c: c.fetchrow(GET, *args)) if is_id(plan_id) else None
        if row is None:
            raise UnknownPlan("You have no undo plan of this id in this session; ask for one")
        return StoredPlan(
            plan_id,
            _asked(orjson.loads(row["asked"])),
            row["digest"],
            ms_of(row["expires_at"]) or 0,
            row["is_old"],
        )

    async def run_of(self, key: SessionKey, plan_id: str) -> str | None:
        """The run of a plan, whoever started it; None as long as nobody has."""
        if not is_id(plan_id):
            return None
        args = (key.root_id, key.id, plan_id)
        found: str | None = await self._db.run(lambda c: c.fetchval(RUN_OF, *args))
        return found

    async def forget(self) -> None:
        """Drop plans that have long been too old to run."""
        async with self._db.connection(writes=True) as connection:
            await connection.execute(FORGET)


def _asked(row: dict[str, Any]) -> AskedUndo:
    return AskedUndo(**row | {"ids": tuple(row["ids"]), "policy": Policy(row["policy"])})
