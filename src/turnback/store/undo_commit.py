"""An undo's part of a session's commit: its run, compensations, calls, residues, what follows.

Everything is inserted from what the update of the session's row returned, as all of a commit is, so
that a process that has lost the session's fence writes none of it (lineage.md 3). What a plan is
digested from, and other sessions write too, is compared in the same statement (undo.md 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnback.core.drift import LedgerEntry
from turnback.core.undo.rows import CompensationCallRow, CompensationState, RunStatus
from turnback.store import ledger, undo_rows
from turnback.store.effect_rows import dumped, key_text, time_of
from turnback.store.rows import UndoWrite
from turnback.store.sealing import Sealer
from turnback.store.statement import Statement

Row = dict[str, tuple[Any, str]]
"""Values by column, each with its type."""


def guard(s: Statement, write: UndoWrite) -> str:
    """SQL: that effects stand, and their resources' ledgers, as when the plan was made."""
    if write.begins is None:
        return ""
    standing = list(write.begins.standings)
    ids = s.arg([id_ for id_, _ in standing], "uuid[]")
    stood = s.arg([was for _, was in standing], "text[]")
    places = [resource for resource, _ in write.begins.positions]
    columns = (
        s.arg([place.connection for place in places], "text[]"),
        s.arg([place.kind for place in places], "text[]"),
        s.arg([key_text(place) for place in places], "text[]"),
        s.arg([position for _, position in write.begins.positions], "bigint[]"),
    )
    return f""" and not exists (select from unnest({ids}, {stood}) w(id, standing)
            left join effects e on e.root_id = {s.root} and e.id = w.id
            where e.standing is distinct from w.standing)
        and not exists (select from unnest({", ".join(columns)}) w(connection, kind, key, n)
            where w.n <> coalesce((select max(l.n) from ledger l
                where l.project_id = sessions.project_id and l.connection = w.connection
                and l.kind = w.kind and l.key = w.key), 0))"""


def add(s: Statement, write: UndoWrite, sealer: Sealer) -> None:
    """Add what an undo writes to a statement."""
    if write.acknowledges is not None:
        _acknowledge(s, write, write.acknowledges)
        return
    _run(s, write)
    changes, ended = write.changes, write.run.status is RunStatus.ENDED
    secret = write.secret
    compensations = [
        undo_rows.compensation_values(row, sealer, secret=row.effect_id in secret)
        | {"is_active": (not ended, "boolean")}
        for row in changes.compensations
    ]
    _upsert(s, "compensated", "compensations", compensations, "root_id, undo_id, effect_id")
    calls = [_call(call) for call in changes.calls]
    _upsert(s, "called", "compensation_calls", calls, "root_id, undo_id, effect_id, n, round")
    left = [
        undo_rows.residue_values(row, secret=row.effect_id in secret) | {"id": (id_, "uuid")}
        for id_, row in write.residues
    ]
    _upsert(s, "left_over", "residues", left, None)
    if standings := dict(changes.standings):
        ids = s.arg(list(standings), "uuid[]")
        now = s.arg(list(standings.values()), "text[]")
        s.add(
            "stands",
            f"update effects e set standing = w.standing from s, unnest({ids}, {now}) "
            f"w(id, standing) where e.root_id = {s.root} and e.id = w.id",
        )
    back = [
        row.effect_id for row in changes.compensations if row.state is CompensationState.REVERTED
    ]
    if back and write.run.generation > 1:
        s.add(
            "due",
            f"update residues set settles_at = {s.now} from s where residues.root_id = {s.root} "
            f"and residues.effect_id = any({s.arg(back, 'uuid[]')}) and residues.status = 'open'",
        )
    if write.lets_go:
        holder, fences = s.arg(write.run.id, "uuid"), s.arg(list(write.lets_go), "bigint[]")
        s.add(
            "let_go",
            "delete from resource_locks l using s "
            f"where l.holder = {holder} and l.fence = any({fences})",
        )
    if changes.ledger:
        _ledger(s, changes.ledger, sealer, secret=_is_secret(write))


def _acknowledge(s: Statement, write: UndoWrite, residue_id: str) -> None:
    s.add(
        "undone",
        f"update undo_runs set revision = {s.arg(write.revision, 'bigint')} from s "
        f"where undo_runs.root_id = {s.root} and undo_runs.id = {s.arg(write.run.id, 'uuid')}",
    )
    s.add(
        "acknowledged",
        f"update residues set status = 'acknowledged', acknowledged_by = {s.who}, "
        f"acknowledged_at = {s.now} from s where residues.root_id = {s.root} "
        f"and residues.id = {s.arg(residue_id, 'uuid')} and residues.status = 'open'",
    )


def _run(s: Statement, write: UndoWrite) -> None:
    run, node = write.run, "null" if s.commit.node_id is None else s.node
    if write.begins is not None:
        values = undo_rows.run_values(run)
        given = ", ".join(s.arg(value, type_) for value, type_ in values.values())
        s.add(
            "undone",
            "insert into undo_runs (root_id, session_id, principal, plan, revision, node_id, "
            f"fence, heartbeat_at, {', '.join(values)}) select {s.root}, {s.session}, {s.who}, "
            f"{s.arg(dumped(write.begins.plan), 'json')}, {s.arg(write.revision, 'bigint')}, "
            f"{node}, s.fence, clock_timestamp(), {given} from s",
        )
        if (residue_id := write.begins.overwrites) is not None:
            s.add(
                "overwritten",
                f"update residues set overwritten_by = {s.who}, overwritten_at = {s.now} from s "
                f"where residues.root_id = {s.root} and residues.id = {s.arg(residue_id, 'uuid')}",
            )
        return
    sets = [
        f"revision = {s.arg(write.revision, 'bigint')}",
        f"stopped = undo_runs.stopped or {s.arg(run.stopped, 'boolean')}",
    ]
    if write.changes.run is not None:
        values = undo_rows.run_values(run)
        sets += [
            f"{name} = {s.arg(*values[name])}"
            for name in ("status", "outcome", "spent", "ended_at")
        ]
    if s.commit.node_id is not None:
        sets += [f"node_id = {node}", "fence = s.fence", "heartbeat_at = clock_timestamp()"]
    s.add(
        "undone",
        f"update undo_runs set {', '.join(sets)} from s where undo_runs.root_id = {s.root} "
        f"and undo_runs.id = {s.arg(run.id, 'uuid')}",
    )


def _call(call: CompensationCallRow) -> Row:
    return {
        "undo_id": (call.run_id, "uuid"),
        "effect_id": (call.effect_id, "uuid"),
        "n": (call.n, "integer"),
        "round": (call.round, "integer"),
        "key": (call.key, "text"),
        "phase": (call.phase, "text"),
        "attempts": (call.attempts, "integer"),
        "detail": (call.detail, "text"),
        "first_sent_at": (time_of(call.first_sent_at), "timestamptz"),
    }


def _upsert(s: Statement, name: str, table: str, rows: Sequence[Row], key: str | None) -> None:
    """Rows of one table, whole; one that is there by its `key` becomes this one."""
    if not rows:
        return
    columns = list(rows[0])
    types = {column: rows[0][column][1] for column in columns}
    arrays = [
        s.arg([row[column][0] for row in rows], f"{_plain(types[column])}[]") for column in columns
    ]
    values = ", ".join(f"w.{column}::{types[column]}" for column in columns)
    more, now = ("", "") if table != "compensations" else (", updated_at", f", {s.now}")
    then = ""
    if key is not None:
        parts = key.split(", ")
        changed = [column for column in columns if column not in parts]
        sets = ", ".join(f"{column} = excluded.{column}" for column in changed)
        then = f" on conflict ({key}) do update set {sets}"
    s.add(
        name,
        f"insert into {table} (root_id, session_id, {', '.join(columns)}{more}) "
        f"select {s.root}, {s.session}, {values}{now} "
        f"from s, unnest({', '.join(arrays)}) w({', '.join(columns)}){then}",
    )


def _plain(type_: str) -> str:
    return "text" if type_ == "json" else type_


def _is_secret(write: UndoWrite) -> bool:
    acted_on = {row.effect_id for row in write.changes.compensations}
    return bool(acted_on & write.secret)


def _ledger(s: Statement, entries: Sequence[LedgerEntry], sealer: Sealer, *, secret: bool) -> None:
    values = ledger.to_columns(entries, sealer, secret=secret)
    columns = [
        s.arg(value, type_) for value, type_ in zip(values, ledger.COLUMNS.values(), strict=True)
    ]
    s.add("written", ledger.insert("s.project_id", columns, s.now, "s"))
