"""What a process needs to carry an undo's run, and to begin one: read from the rows alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import asyncpg

from turnback.core.undo.rows import (
    CallPhase,
    CompensationCallRow,
    CompensationRow,
    CompensationState,
)
from turnback.store import undo_rows
from turnback.store.database import Database
from turnback.store.effect_reader import Logged
from turnback.store.effect_rows import ms_of
from turnback.store.effects import Effects
from turnback.store.rows import SessionKey, UnderWay
from turnback.store.sealing import Sealer
from turnback.store.undo_rows import COMPENSATION
from turnback.store.undos import Undo, Undos

UNDER_WAY = """select id, plan_id, revision, stopped from undo_runs
where root_id = $1::uuid and session_id = $2::uuid and ended_at is null"""

CALLS = """select undo_id, effect_id, n, round, key, phase, attempts, detail, first_sent_at
from compensation_calls where root_id = $1::uuid and effect_id = any($2::uuid[])
order by undo_id, effect_id, n, round"""
"""Those of every run; the ids of runs rise with time."""

LAST = f"""select distinct on (effect_id) {COMPENSATION} from compensations
where root_id = $1::uuid and effect_id = any($2::uuid[]) order by effect_id, undo_id desc"""

GENERATION = """select coalesce(max(u.generation), 0) from undo_runs u
join compensations c on c.root_id = u.root_id and c.undo_id = u.id
where u.root_id = $1::uuid and c.effect_id = any($2::uuid[])"""

IS_HELD = """select exists (select from undo_runs u join sessions s
    on s.root_id = u.root_id and s.id = u.session_id
where u.root_id = $1::uuid and u.id = $2::uuid and u.ended_at is null and s.fence = $3::bigint)"""


def under_way(row: asyncpg.Record) -> UnderWay:
    """The run of a row of `UNDER_WAY`."""
    return UnderWay(row["id"], row["plan_id"], row["revision"], row["stopped"])


@dataclass(frozen=True, slots=True)
class Carried:
    """A run as it stands: its own calls, those of earlier runs, and its effects as logged.

    `cut_off` are the calls that an agent of it was making when its process died.
    """

    undo: Undo
    calls: tuple[CompensationCallRow, ...]
    prior: tuple[CompensationCallRow, ...]
    logged: Mapping[str, Logged]
    cut_off: tuple[Logged, ...] = ()


class UndoRuns:
    """Reads the runs of one database for who carries them on."""

    def __init__(self, database: Database, undos: Undos, effects: Effects, sealer: Sealer) -> None:
        self._db = database
        self._undos = undos
        self._effects = effects
        self._sealer = sealer

    async def carried(self, key: SessionKey, undo_id: str) -> Carried:
        """All of a run that its next action depends on. Raises `UnknownUndo`."""
        undo = await self._undos.get(key, undo_id)
        ids = [row.effect_id for row in undo.members]
        logged = {one.effect.id: one for one in await self._effects.by_id(key, ids)}
        rows = await self._db.run(lambda c: c.fetch(CALLS, key.root_id, ids))
        calls = [_call(row) for row in rows]
        by_agent = any(
            row.state is CompensationState.INTENT
            and logged[row.effect_id].effect.agentic is not None
            for row in undo.members
        )
        cut_off = await self._effects.under_way_of(key, undo_id) if by_agent else ()
        return Carried(
            undo,
            tuple(call for call in calls if call.run_id == undo_id),
            tuple(call for call in calls if call.run_id != undo_id),
            logged,
            tuple(cut_off),
        )

    async def earlier(
        self, key: SessionKey, effect_ids: Sequence[str]
    ) -> tuple[int, dict[str, CompensationRow]]:
        """How many runs were about these effects, at most; and each one's part in its last."""
        args = (key.root_id, list(effect_ids))
        generation = await self._db.run(lambda c: c.fetchval(GENERATION, *args))
        rows = await self._db.run(lambda c: c.fetch(LAST, *args))
        return generation, {
            row["effect_id"]: undo_rows.compensation(row, self._sealer) for row in rows
        }

    async def is_held(self, key: SessionKey, undo_id: str, *, fence: int) -> bool:
        """Whether the run has not ended, and nobody has taken it over."""
        args = (key.root_id, undo_id, fence)
        held: bool = await self._db.run(lambda c: c.fetchval(IS_HELD, *args))
        return held


def _call(row: asyncpg.Record) -> CompensationCallRow:
    return CompensationCallRow(
        run_id=row["undo_id"],
        effect_id=row["effect_id"],
        n=row["n"],
        round=row["round"],
        key=row["key"],
        phase=CallPhase(row["phase"]),
        attempts=row["attempts"],
        first_sent_at=ms_of(row["first_sent_at"]) or 0,
        detail=row["detail"],
    )
