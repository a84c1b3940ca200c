"""Undo runs, compensations and residues as their rows have them, and back (undo.md 5, 6).

The values that a review shows are in `detail` and `facts`; those of a secret state are sealed in
the column `secret` of the compensation, and are in no residue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import asyncpg
import orjson

from turnback.core.drift import Cell, LeafValues
from turnback.core.effects import ResourceKey, Verb
from turnback.core.undo.budget import Budget, Spent
from turnback.core.undo.rows import (
    Because,
    Claim,
    CompensationRow,
    CompensationState,
    Fix,
    Outcome,
    Policy,
    Reason,
    ResidueRow,
    ResidueStatus,
    RunRow,
    RunStatus,
    WaitsFor,
)
from turnback.store.effect_rows import dumped, ms_of, time_of
from turnback.store.sealing import Sealer, Unsealable

RUN = """id, plan_id, session_id, principal, generation, status, stopped, outcome, policy, budget,
    spent, revision, created_at, ended_at"""

COMPENSATION = """undo_id, effect_id, n, verb, state, reason, detail, secret, attempts"""

RESIDUE = """id, undo_id, effect_id, verb, template, facts, leaves, status, since, settles_at"""


def run(row: asyncpg.Record) -> RunRow:
    """The run of a row of `RUN`."""
    return RunRow(
        id=row["id"],
        plan_id=row["plan_id"],
        session_id=row["session_id"],
        generation=row["generation"],
        policy=Policy(row["policy"]),
        budget=Budget(**orjson.loads(row["budget"])),
        started_at=ms_of(row["created_at"]) or 0,
        spent=Spent(**orjson.loads(row["spent"])),
        status=RunStatus(row["status"]),
        stopped=row["stopped"],
        outcome=None if row["outcome"] is None else Outcome(row["outcome"]),
        ended_at=ms_of(row["ended_at"]),
    )


def run_values(run: RunRow) -> dict[str, tuple[Any, str]]:
    """The values of a run's columns and their types, but for what its row does not hold."""
    return {
        "id": (run.id, "uuid"),
        "plan_id": (run.plan_id, "uuid"),
        "generation": (run.generation, "integer"),
        "status": (run.status, "text"),
        "stopped": (run.stopped, "boolean"),
        "outcome": (run.outcome, "text"),
        "policy": (run.policy, "text"),
        "budget": (dumped(asdict(run.budget)), "json"),
        "spent": (dumped(asdict(run.spent)), "json"),
        "created_at": (time_of(run.started_at), "timestamptz"),
        "ended_at": (time_of(run.ended_at), "timestamptz"),
    }


def compensation(row: asyncpg.Record, sealer: Sealer) -> CompensationRow:
    """The compensation of a row of `COMPENSATION`; without values where they cannot be opened."""
    said: dict[str, Any] = orjson.loads(row["detail"])
    values = said.get("values", ())
    if row["secret"] is not None:
        try:
            values = orjson.loads(sealer.open(row["secret"], row=_sealed_for(row)))
        except Unsealable:
            values = ()
    return CompensationRow(
        run_id=row["undo_id"],
        effect_id=row["effect_id"],
        position=row["n"],
        verb=Verb(row["verb"]),
        waits_for=tuple(WaitsFor(id_, Because(why)) for id_, why in said.get("waits_for", ())),
        covered_by=said.get("covered_by"),
        state=CompensationState(row["state"]),
        reason=_reason(row["reason"]),
        because=said.get("because"),
        detail=said.get("detail", ""),
        attempts=row["attempts"],
        reads_failed=said.get("reads_failed", 0),
        seen=said.get("seen"),
        rest=said.get("rest"),
        left_as=said.get("left_as"),
        wait_until=said.get("wait_until"),
        confirmed=said.get("confirmed"),
        values=_values_of(values),
        claims=_claims_of(said.get("claims", ())),
        overwrites=_values_of(said.get("overwrites", ())),
    )


def compensation_values(
    row: CompensationRow, sealer: Sealer, *, secret: bool
) -> dict[str, tuple[Any, str]]:
    """The values of a compensation's columns and their types; `secret`: its effect's states are."""
    values = _values_to_row(row.values)
    said = {
        "waits_for": [[waits.effect_id, waits.why] for waits in row.waits_for],
        "covered_by": row.covered_by,
        "because": row.because,
        "detail": row.detail,
        "reads_failed": row.reads_failed,
        "seen": row.seen,
        "rest": row.rest,
        "left_as": row.left_as,
        "wait_until": row.wait_until,
        "confirmed": row.confirmed,
        "values": [] if secret else values,
        "claims": _claims_to_row(row.claims),
        "overwrites": [] if secret else _values_to_row(row.overwrites),
    }
    sealed = None
    if secret and values:
        text = orjson.dumps(values)
        sealed = sealer.seal(text, row=f"{row.run_id} {row.effect_id}")
    return {
        "undo_id": (row.run_id, "uuid"),
        "effect_id": (row.effect_id, "uuid"),
        "n": (row.position, "integer"),
        "verb": (row.verb, "text"),
        "state": (row.state, "text"),
        "reason": (row.reason, "text"),
        "detail": (dumped({k: v for k, v in said.items() if v not in (None, "", 0, [])}), "json"),
        "secret": (sealed, "bytea"),
        "attempts": (row.attempts, "integer"),
    }


def residue(row: asyncpg.Record) -> ResidueRow:
    """The residue of a row of `RESIDUE`."""
    facts: dict[str, Any] = orjson.loads(row["facts"])
    return ResidueRow(
        run_id=row["undo_id"],
        effect_id=row["effect_id"],
        verb=Verb(row["verb"]),
        template=row["template"],
        tool=facts["tool"],
        people=tuple(facts.get("people", ())),
        names=tuple((name, value) for name, value in facts.get("names", ())),
        reason=_reason(facts.get("reason")),
        detail=facts.get("detail", ""),
        since=ms_of(row["since"]) or 0,
        settles_at=ms_of(row["settles_at"]),
        fix=Fix(facts["fix"]),
        claims=_claims_of(orjson.loads(row["leaves"])),
        values=_values_of(facts.get("values", ())),
        status=ResidueStatus(row["status"]),
    )


def residue_values(row: ResidueRow, *, secret: bool) -> dict[str, tuple[Any, str]]:
    """The values of a residue's columns and their types; `secret`: its effect's states are."""
    facts = {
        "tool": row.tool,
        "people": row.people,
        "names": row.names,
        "reason": row.reason,
        "detail": row.detail,
        "fix": row.fix,
        "values": [] if secret else _values_to_row(row.values),
    }
    return {
        "undo_id": (row.run_id, "uuid"),
        "effect_id": (row.effect_id, "uuid"),
        "verb": (row.verb, "text"),
        "template": (row.template, "text"),
        "facts": (dumped(facts), "json"),
        "leaves": (dumped(_claims_to_row(row.claims)), "json"),
        "status": (row.status, "text"),
        "since": (time_of(row.since), "timestamptz"),
        "settles_at": (time_of(row.settles_at), "timestamptz"),
    }


def _sealed_for(row: asyncpg.Record) -> str:
    return f"{row['undo_id']} {row['effect_id']}"


def _reason(text: str | None) -> Reason | None:
    return None if text is None else Reason(text)


def _resource_to_row(resource: ResourceKey) -> list[Any]:
    return [resource.connection, resource.kind, resource.key]


def _resource_of(row: Iterable[Any]) -> ResourceKey:
    connection, kind, key = row
    return ResourceKey(connection, kind, tuple(key))


def _claims_to_row(claims: Iterable[Claim]) -> list[Any]:
    return [
        [_resource_to_row(claim.resource), claim.path, claim.theirs, claim.made] for claim in claims
    ]


def _claims_of(rows: Iterable[Any]) -> tuple[Claim, ...]:
    return tuple(Claim(_resource_of(resource), tuple(path), *how) for resource, path, *how in rows)


def _values_to_row(values: Iterable[LeafValues]) -> list[dict[str, Any]]:
    return [
        {
            "resource": _resource_to_row(leaf.cell.resource),
            "path": leaf.cell.path,
            "expected": leaf.expected,
            "now": leaf.now,
            "goal": leaf.goal,
            "is_expected": leaf.is_expected,
            "is_now": leaf.is_now,
            "is_goal": leaf.is_goal,
        }
        for leaf in values
    ]


def _values_of(rows: Iterable[Mapping[str, Any]]) -> tuple[LeafValues, ...]:
    return tuple(
        LeafValues(
            cell=Cell(_resource_of(row["resource"]), tuple(row["path"])),
            **{name: value for name, value in row.items() if name not in ("resource", "path")},
        )
        for row in rows
    )
