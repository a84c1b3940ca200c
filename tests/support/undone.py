"""A report made by hand: the rows that a run would leave about the effects of a session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import time
from typing import Any

from turnback.core.drift import Cell, LeafValues
from turnback.core.effects import Effect, Standing, Verb
from turnback.core.principal import LOCAL
from turnback.core.undo import residue
from turnback.core.undo.budget import UndoLimits, default_budget
from turnback.core.undo.outcome import outcome_of
from turnback.core.undo.rows import (
    Claim,
    CompensationRow,
    CompensationState,
    Policy,
    Reason,
    RunRow,
    RunStatus,
)
from turnback.store import undo_rows
from turnback.store.dao import Dao
from turnback.store.database import Connection, Database
from turnback.store.ids import new_id
from turnback.store.rows import SessionKey
from turnback.store.sealing import Sealer


@dataclass(frozen=True)
class End:
    """How one compensation ended; `theirs` is a value that somebody else has written."""

    state: CompensationState
    verb: Verb = Verb.REVERT
    reason: Reason | None = None
    theirs: str | None = None


NEEDS_YOU = End(CompensationState.NEEDS_YOU, Verb.ACKNOWLEDGE, Reason.IRREVERSIBLE)
COMPENSATED = End(CompensationState.COMPENSATED, Verb.COMPENSATE)
REVERTED = End(CompensationState.REVERTED)
REVIEW = End(CompensationState.NEEDS_REVIEW, Verb.REVERT, Reason.DRIFT, theirs="Somebody else’s")

_STANDING = {
    CompensationState.REVERTED: Standing.REVERTED,
    CompensationState.COMPENSATED: Standing.COMPENSATED,
}


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[tuple[Dao, Database]]:
    """The store of a database that a server of its own serves."""
    database = await Database.open(url, size=2, connect_timeout=5, statement_timeout=10)
    try:
        yield Dao(database, node_id=new_id(), max_redo_depth=3, directory_cache=9), database
    finally:
        await database.close()


async def undone(
    url: str, session_id: str, ends: Mapping[str, End], *, otherwise: End = REVERTED
) -> str:
    """An undo of every effect in force, whose tools came to these `ends`; its id."""
    async with opened(url) as (dao, database):
        key = await dao.key(LOCAL, session_id)
        effects = [one.effect for one in await dao.effects.standing(key)]
        run_id = new_id()
        rows = [
            _row(run_id, at, effect, ends.get(effect.tool, otherwise))
            for at, effect in enumerate(reversed(effects))
        ]
        now = round(time() * 1000)
        run = RunRow(
            id=run_id,
            plan_id=new_id(),
            session_id=session_id,
            generation=1,
            policy=Policy.STOP,
            budget=default_budget(len(rows), UndoLimits()),
            started_at=now,
            status=RunStatus.ENDED,
            outcome=outcome_of(rows, ()),
            ended_at=now,
        )
        async with database.connection(writes=True) as connection:
            await _write(connection, key, run, rows, {effect.id: effect for effect in effects})
        await dao.wakeups.changed([session_id])
    return run_id


def _row(run_id: str, position: int, effect: Effect, end: End) -> CompensationRow:
    cells = [Cell(touch.resource, path) for touch in effect.touches for path in touch.wrote]
    values: tuple[LeafValues, ...] = ()
    if end.theirs is not None:
        cell = cells[0]
        before = next(t.before for t in effect.touches if t.resource == cell.resource) or {}
        is_goal = cell.path in before
        goal = before.get(cell.path)
        values = (LeafValues(cell, None, end.theirs, goal, False, True, is_goal),)
    is_left = end.state is not CompensationState.REVERTED
    return CompensationRow(
        run_id=run_id,
        effect_id=effect.id,
        position=position,
        verb=end.verb,
        state=end.state,
        reason=end.reason,
        values=values,
        claims=tuple(Claim(*cell) for cell in cells) if is_left else (),
    )


async def _write(
    connection: Connection,
    key: SessionKey,
    run: RunRow,
    rows: list[CompensationRow],
    effects: Mapping[str, Effect],
) -> None:
    of = {"root_id": (key.root_id, "uuid"), "session_id": (key.id, "uuid")}
    more = {"principal": ("local", "text"), "plan": ("{}", "json"), "revision": (1, "bigint")}
    await _insert(connection, "undo_runs", of | undo_rows.run_values(run) | more)
    for row in rows:
        effect = effects[row.effect_id]
        values = undo_rows.compensation_values(row, Sealer(None), secret=False)
        now = {
            "updated_at": (undo_rows.time_of(run.started_at), "timestamptz"),
            "is_active": (False, "boolean"),
        }
        await _insert(connection, "compensations", of | values | now)
        left = residue.of(effect, row)
        if left is not None:
            values = undo_rows.residue_values(left, secret=False)
            await _insert(connection, "residues", of | values | {"id": (new_id(), "uuid")})
        if (standing := _STANDING.get(row.state)) is not None:
            await connection.execute(
                "update effects set standing = $3::text where root_id = $1::uuid and id = $2::uuid",
                key.root_id,
                row.effect_id,
                standing,
            )


async def _insert(
    connection: Connection, table: str, values: Mapping[str, tuple[Any, str]]
) -> None:
    columns = ", ".join(values)
    marks = ", ".join(f"${n}::{type_}" for n, (_, type_) in enumerate(values.values(), 1))
    await connection.execute(
        f"insert into {table} ({columns}) values ({marks})",
        *(value for value, _ in values.values()),
    )
