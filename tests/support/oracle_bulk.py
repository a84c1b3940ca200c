"""Long conversations made by SQL in bulk; the pages and partitions that a statement touches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import md5
from typing import Any
from uuid import UUID

import asyncpg

from turnback.core.workflow import EMPTY
from turnback.store.ids import new_id
from turnback.store.packing import pack

ROWS = """
with steps as (
    select n, $2::uuid as root, (n - 1) / $5::integer as turn, (n - 1) % $5::integer as index
    from generate_series(1, $4::integer * $5::integer) n),
talk as (
    insert into turns (root_id, id, session_id, kind, status, first_branch, first_seq, first_step,
        last_seq, effective_index, principal, created_at, sealed_at)
    select root, {turn}, $2::uuid, 'prompt', 'complete', $3::uuid, n, {step}, n + $5::integer - 1,
        turn, 'local', $6::timestamptz, $6::timestamptz from steps where index = 0)
insert into records (root_id, branch_id, seq, id, session_id, turn_id, step_index, role, parent_id,
    before_hash, after_hash, end_reason, event_seq, principal, created_at, payload)
select root, $3::uuid, n, {step}, $2::uuid, {turn}, index,
    case when index = 0 then 'user' else 'agent' end,
    case when n > 1 then {before} end, $1::bytea, $1::bytea,
    case when index = $5::integer - 1 then 'complete' end, n, 'local', $6::timestamptz,
    json_build_object('content', 'said ' || n || repeat('.', 200)) from steps"""


def _uuid(mark: str, number: str) -> str:
    """SQL: the uuid of a number, of this kind and of no other root's; `Long` has the same."""
    return f"md5(root || '{mark}' || {number})::uuid"


ROWS = ROWS.format(turn=_uuid("a", "turn"), step=_uuid("b", "n"), before=_uuid("b", "(n - 1)"))


@dataclass(frozen=True)
class Long:
    """A session of many turns, `answers + 1` records each, all of one branch and one instant.

    Their ids say nothing of their order.
    """

    id: str
    turns: int
    records: int

    def turn(self, number: int) -> str:
        """The id of a turn, from 0."""
        return self._uuid("a", number)

    def steps(self) -> list[str]:
        """The ids of its records, in order."""
        return [self._uuid("b", n) for n in range(1, self.records + 1)]

    def _uuid(self, mark: str, number: int) -> str:
        return str(UUID(md5(f"{self.id}{mark}{number}".encode()).hexdigest()))


async def long_session(
    connection: asyncpg.Connection, *, turns: int, answers: int, now: datetime
) -> Long:
    """Write a session of so many turns, whole and idle."""
    id_, branch = new_id(), new_id()
    records = turns * (answers + 1)
    empty = bytes.fromhex(EMPTY.hash)
    long = Long(id_, turns, records)
    async with connection.transaction():
        await connection.execute(
            "insert into session_directory values ($1::uuid, 'local', $1::uuid)", id_
        )
        await connection.execute(
            "insert into families (root_id, project_id) values ($1::uuid, 'local')", id_
        )
        await connection.executemany(
            "insert into blobs values ($1::uuid, $2, $3)",
            [(id_, bytes.fromhex(hash_), pack(blob)) for hash_, blob in EMPTY.blobs().items()],
        )
        await connection.execute(
            "insert into branches values ($1::uuid, $2::uuid, $1::uuid, null, 0,"
            " null, array[$2::uuid], '{0}', array[$3::bigint], null, 1)",
            id_, branch, 2**62,
        )  # fmt: skip
        await connection.execute(
            ROWS,
            empty, id_, branch, turns, answers + 1, now,
        )  # fmt: skip
        await connection.execute(
            "insert into sessions (root_id, id, project_id, owner, name, model, head_branch,"
            " head_seq, head_step, workflow_hash, initial_hash, created_at, updated_at)"
            " values ($1::uuid, $1::uuid, 'local', 'local', 'Long', 'offline',"
            " $2::uuid, $3, $4::uuid, $5, $5, $6, $6)",
            id_, branch, records, long.steps()[-1], empty, now,
        )  # fmt: skip
    return long


@dataclass(frozen=True)
class Touched:
    """What a statement touched: pages of the database, tables by name, and those it read whole."""

    pages: int
    tables: frozenset[str]
    whole: frozenset[str]

    def partitions(self, table: str) -> set[str]:
        """The partitions of `table` among them."""
        return {
            name for name in self.tables if name.startswith(f"{table}_") and name[-2:].isdigit()
        }


async def touched(connection: asyncpg.Connection, statement: str, *args: Any) -> Touched:
    """Run a statement as the service does, by a generic plan, and take back what it wrote."""
    await connection.execute(f"prepare looked_at as {statement}")
    try:
        transaction = connection.transaction()
        await transaction.start()
        values = f"({', '.join(map(_literal, args))})" if args else ""
        try:
            found = await connection.fetchval(
                f"explain (analyze, buffers, timing off, format json) execute looked_at{values}"
            )
        finally:
            await transaction.rollback()
    finally:
        await connection.execute("deallocate looked_at")
    plan = json.loads(found)[0]["Plan"]
    nodes = [node for node in _nodes(plan) if "Relation Name" in node and node["Actual Loops"]]
    whole = [node for node in nodes if node["Node Type"] == "Seq Scan"]
    return Touched(
        plan["Shared Hit Blocks"] + plan["Shared Read Blocks"],
        frozenset(str(node["Relation Name"]) for node in nodes),
        frozenset(str(node["Relation Name"]) for node in whole),
    )


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _literal(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool() | int():
            return str(value).lower()
        case bytes():
            return f"'\\x{value.hex()}'"
        case list():
            return f"array[{', '.join(map(_literal, value))}]::text[]::uuid[]"
        case _:
            text = str(value).replace("'", "''")
            return f"'{text}'"
