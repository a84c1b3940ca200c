"""Undo runs and what they left, read; and residues settled when their time has come (undo.md 6).

Settling is one statement: the residue, the run's revision and the event that tells of it. It is
guarded by the run's revision, since the event has the whole of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import asyncpg
import orjson

from turnback.core.effects import Effect
from turnback.core.errors import Contended, UnknownResidue, UnknownUndo
from turnback.core.undo import progress as told
from turnback.core.undo.progress import Phase, Progress
from turnback.core.undo.residue import settled
from turnback.core.undo.rows import CompensationRow, ResidueRow, ResidueStatus, RunRow
from turnback.store import undo_rows
from turnback.store.database import Database
from turnback.store.effects import Effects
from turnback.store.ids import is_id, new_id
from turnback.store.outbox import UndoTold, to_row
from turnback.store.rows import SessionKey
from turnback.store.sealing import Sealer
from turnback.store.undo_rows import COMPENSATION, RESIDUE, RUN
from turnback.store.wakeups import Wakeups

ATTEMPTS = 5
"""Times that a residue is settled again because the run has gone on meanwhile."""

OF_SESSION = f"""select {RUN} from undo_runs where root_id = $1::uuid and session_id = $2::uuid
    and ($3::uuid is null or id < $3::uuid) order by id desc limit $4::bigint"""
"""Ids rise with time."""

OPEN = f"""select {RUN} from undo_runs u where root_id = $1::uuid and session_id = $2::uuid
    and (ended_at is null or exists (select from residues r where r.root_id = $1::uuid
        and r.session_id = $2::uuid and r.undo_id = u.id and r.status = 'open'))
order by id desc limit $3::bigint"""

BY_ID = f"""select {RUN} from undo_runs
where root_id = $1::uuid and session_id = $2::uuid and id = $3::uuid"""

MEMBERS = f"""select {COMPENSATION} from compensations
where root_id = $1::uuid and undo_id = any($2::uuid[]) order by n"""

LEFT = f"""select {RESIDUE} from residues where root_id = $1::uuid and undo_id = any($2::uuid[])
order by since, id"""

RESIDUES = f"""select {RESIDUE} from residues where root_id = $1::uuid and session_id = $2::uuid
    and ($3::text is null or status = $3::text) and ($4::uuid is null or id < $4::uuid)
order by id desc limit $5::bigint"""

RESIDUE_OF = """select undo_id from residues
where root_id = $1::uuid and session_id = $2::uuid and id = $3::uuid"""

SETTLE = """with u as (
    update undo_runs set revision = revision + 1 where root_id = $1::uuid
        and session_id = $2::uuid and id = $3::uuid and revision = $4::bigint returning id),
r as (
    update residues set status = 'settled', settled_at = clock_timestamp()
    from u where root_id = $1::uuid and residues.id = $5::uuid and status <> 'settled'
    returning residues.id),
s as (
    update sessions set revision = sessions.revision + 1, updated_at = clock_timestamp()
    from r where root_id = $1::uuid and sessions.id = $2::uuid and deleted_at is null
    returning sessions.revision)
insert into session_events (root_id, session_id, event_seq, commit_id, type, data, created_at)
select $1::uuid, $2::uuid, s.revision, $6::uuid, $7::text, $8::json, clock_timestamp() from s
returning event_seq"""

DUE = """select r.root_id, r.session_id, r.id from residues r
join sessions s on s.root_id = r.root_id and s.id = r.session_id and s.deleted_at is null
where r.settles_at < clock_timestamp() and r.status <> 'settled'
order by r.settles_at limit $1::bigint"""
"""A deleted session's are nobody's to be told of."""


@dataclass(frozen=True, slots=True)
class Undo:
    """A run with all that its report is made of; `residues` by id, `secret` effects by id."""

    run: RunRow
    by: str
    revision: int
    members: tuple[CompensationRow, ...]
    effects: Mapping[str, Effect]
    residues: Mapping[str, ResidueRow]
    secret: frozenset[str]

    def progress(self, phase: Phase | None = None) -> Progress:
        """It as everybody is told of it."""
        return told.progress(
            self.run,
            self.members,
            self.effects,
            self.residues.items(),
            revision=self.revision,
            by=self.by,
            phase=phase,
        )


class Undos:
    """Reads the runs of one database, and settles what they left."""

    def __init__(
        self, database: Database, effects: Effects, sealer: Sealer, wakeups: Wakeups
    ) -> None:
        self._db = database
        self._effects = effects
        self._sealer = sealer
        self._wakeups = wakeups

    async def of_session(
        self, key: SessionKey, *, before: str | None = None, limit: int
    ) -> list[Undo]:
        """A session's runs, newest first, those older than `before`."""
        args = (key.root_id, key.id, before, limit)
        return await self._whole(key, await self._db.run(lambda c: c.fetch(OF_SESSION, *args)))

    async def open(self, key: SessionKey, *, limit: int) -> list[Undo]:
        """Its newest runs that are under way or have left a residue that is open."""
        args = (key.root_id, key.id, limit)
        return await self._whole(key, await self._db.run(lambda c: c.fetch(OPEN, *args)))

    async def get(self, key: SessionKey, undo_id: str) -> Undo:
        """One run of the session. Raises `UnknownUndo`."""
        rows: Sequence[asyncpg.Record] = ()
        if is_id(undo_id):
            args = (key.root_id, key.id, undo_id)
            rows = await self._db.run(lambda c: c.fetch(BY_ID, *args))
        if not rows:
            raise UnknownUndo("This session has no undo of this id")
        return (await self._whole(key, rows))[0]

    async def residues(
        self,
        key: SessionKey,
        *,
        status: ResidueStatus | None = None,
        before: str | None = None,
        limit: int,
    ) -> list[tuple[str, ResidueRow]]:
        """What the session's undos have left, with ids, newest first."""
        args = (key.root_id, key.id, status, before, limit)
        rows = await self._db.run(lambda c: c.fetch(RESIDUES, *args))
        return [(row["id"], undo_rows.residue(row)) for row in rows]

    async def due(self, *, limit: int) -> list[tuple[SessionKey, str]]:
        """Residues whose time to be settled has come, of every session."""
        rows = await self._db.run(lambda c: c.fetch(DUE, limit))
        return [(SessionKey(row["root_id"], row["session_id"]), row["id"]) for row in rows]

    async def of_residue(self, key: SessionKey, residue_id: str) -> Undo:
        """The run that has left this. Raises `UnknownResidue`."""
        undo_id = None
        if is_id(residue_id):
            args = (key.root_id, key.id, residue_id)
            undo_id = await self._db.run(lambda c: c.fetchval(RESIDUE_OF, *args))
        if undo_id is None:
            raise UnknownResidue("This session has no residue of this id")
        return await self.get(key, undo_id)

    async def settle(self, key: SessionKey, residue_id: str) -> None:
        """Note that a residue is settled; no outcome is raised by it.

        Raises `UnknownResidue`, `Contended`, `DatabaseUnavailable`.
        """
        for _ in range(ATTEMPTS):
            undo = await self.of_residue(key, residue_id)
            undo_id, residue = undo.run.id, undo.residues[residue_id]
            if residue.status is ResidueStatus.SETTLED:
                return
            residue = settled(residue)
            after = replace(
                undo,
                revision=undo.revision + 1,
                residues={**undo.residues, residue_id: residue},
            )
            ended = undo.run.ended_at is not None
            commit_id = new_id()
            told = UndoTold(after.progress(Phase.SETTLED if ended else None))
            type_, data = to_row(told, commit_id)
            guard = (key.root_id, key.id, undo_id, undo.revision, residue_id)
            event = (commit_id, type_, orjson.dumps(data).decode())
            async with self._db.connection(writes=True) as connection:
                done = await connection.fetchval(SETTLE, *guard, *event)
            if done is not None:
                await self._wakeups.changed([key.id])
                return
        raise Contended("The undo goes on too fast to be written to; send it again")

    async def _whole(self, key: SessionKey, rows: Sequence[asyncpg.Record]) -> list[Undo]:
        if not rows:
            return []
        ids = [row["id"] for row in rows]
        members = await self._db.run(lambda c: c.fetch(MEMBERS, key.root_id, ids))
        left = await self._db.run(lambda c: c.fetch(LEFT, key.root_id, ids))
        named = list(dict.fromkeys(row["effect_id"] for row in members))
        logged = {one.effect.id: one for one in await self._effects.by_id(key, named)}
        return [
            Undo(
                run=undo_rows.run(row),
                by=row["principal"],
                revision=row["revision"],
                members=tuple(
                    undo_rows.compensation(member, self._sealer)
                    for member in members
                    if member["undo_id"] == row["id"]
                ),
                effects={id_: one.effect for id_, one in logged.items()},
                residues={
                    one["id"]: undo_rows.residue(one) for one in left if one["undo_id"] == row["id"]
                },
                secret=frozenset(id_ for id_, one in logged.items() if one.is_secret),
            )
            for row in rows
        ]
