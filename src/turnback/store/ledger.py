"""The ledger: which leaves our calls have written to the things of the world, in order (undo.md 4).

Of a project and not of a session, because other sessions write the same world. Who writes to a
resource holds its lock, so that its entries are numbered one after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import asyncpg
import orjson

from turnback.core.drift import LedgerEntry, Source
from turnback.core.effects import ResourceKey
from turnback.store.database import Database
from turnback.store.effect_rows import (
    dumped,
    key_text,
    leaves_of,
    leaves_to_row,
)
from turnback.store.sealing import Sealer, Unsealable

COLUMNS = {
    "connection": "text[]",
    "kind": "text[]",
    "key": "text[]",
    "nth": "bigint[]",
    "source": "text[]",
    "session_id": "uuid[]",
    "effect_id": "uuid[]",
    "leaves": "text[]",
    "secret": "bytea[]",
}
"""What `to_columns` makes, with the types that they are given as."""


def insert(project: str, columns: Iterable[str], at: str, source: str) -> str:
    """SQL: insert entries for what `source` finds; `columns` are the arguments of `COLUMNS`.

    `project` and `at` are SQL expressions over `source`.
    """
    return f"""insert into ledger (project_id, connection, kind, key, n, source, session_id,
        effect_id, leaves, secret, at)
    select {project}, e.connection, e.kind, e.key, e.nth + coalesce((
            select max(l.n) from ledger l where l.project_id = {project}
                and l.connection = e.connection and l.kind = e.kind and l.key = e.key), 0),
        e.source, e.session_id, e.effect_id, e.leaves::json, e.secret, {at}
    from {source}, unnest({", ".join(columns)}) e({", ".join(COLUMNS)})"""


def newest(project: str, places: Iterable[str], most: str) -> str:
    """SQL: the newest entries of some resources, `most` of each; `nth` is whose they are.

    `places` are the arguments that say which: connections, kinds and keys.
    """
    return f"""select w.nth, l.n, l.source, l.session_id, l.effect_id, l.leaves, l.secret
from unnest({", ".join(places)}) with ordinality w(connection, kind, key, nth)
cross join lateral (select * from ledger l where l.project_id = {project}
    and l.connection = w.connection and l.kind = w.kind and l.key = w.key
    order by l.n desc limit {most}) l"""


ENTRIES = f"""{newest("$1::text", ("$2::text[]", "$3::text[]", "$4::text[]"), "$5::bigint")}
order by w.nth, l.n"""

POSITIONS = """select w.nth, coalesce((select max(l.n) from ledger l where l.project_id = $1::text
    and l.connection = w.connection and l.kind = w.kind and l.key = w.key), 0) as n
from unnest($2::text[], $3::text[], $4::text[]) with ordinality w(connection, kind, key, nth)"""


def to_columns(entries: Sequence[LedgerEntry], sealer: Sealer, *, secret: bool) -> list[list[Any]]:
    """Entries as the columns of `COLUMNS`. Raises `Unsealable` for a `secret` one without a key."""
    nth: Counter[ResourceKey] = Counter()
    rows = []
    for entry in entries:
        nth[entry.resource] += 1
        leaves = dumped(
            {
                "wrote": leaves_to_row(entry.wrote),
                "removed": sorted(entry.removed),
            }
        )
        sealed = sealer.seal(leaves.encode(), row=_row(entry.resource)) if secret else None
        rows.append(
            (
                entry.resource.connection,
                entry.resource.kind,
                key_text(entry.resource),
                nth[entry.resource],
                entry.source,
                entry.session_id,
                entry.effect_id,
                None if secret else leaves,
                sealed,
            )
        )
    return [[row[at] for row in rows] for at in range(len(COLUMNS))]


class Ledger:
    """Reads the ledger. What is written to it is written with an effect or a compensation."""

    def __init__(self, database: Database, sealer: Sealer) -> None:
        self._db = database
        self._sealer = sealer

    async def entries(
        self, project_id: str, resources: Iterable[ResourceKey], *, newest: int | None = None
    ) -> dict[ResourceKey, list[LedgerEntry]]:
        """The entries of each of these resources, in order; the `newest` of them, or all."""
        wanted = list(dict.fromkeys(resources))
        if not wanted:
            return {}
        columns = to_places(wanted)
        rows = await self._db.run(lambda c: c.fetch(ENTRIES, project_id, *columns, newest))
        return entries_of(wanted, rows, self._sealer)

    async def positions(
        self, project_id: str, resources: Iterable[ResourceKey]
    ) -> dict[ResourceKey, int]:
        """How many entries each of these resources has had."""
        wanted = list(dict.fromkeys(resources))
        if not wanted:
            return {}
        columns = to_places(wanted)
        rows = await self._db.run(lambda c: c.fetch(POSITIONS, project_id, *columns))
        return {wanted[row["nth"] - 1]: row["n"] for row in rows}


def to_places(resources: Sequence[ResourceKey]) -> tuple[list[str], list[str], list[str]]:
    """Resources as the arguments that `newest` is given."""
    return (
        [resource.connection for resource in resources],
        [resource.kind for resource in resources],
        [key_text(resource) for resource in resources],
    )


def entries_of(
    resources: Sequence[ResourceKey], rows: Iterable[asyncpg.Record], sealer: Sealer
) -> dict[ResourceKey, list[LedgerEntry]]:
    """The entries of each of these resources, of rows that `newest` has found, in order."""
    found: dict[ResourceKey, list[LedgerEntry]] = {resource: [] for resource in resources}
    for row in rows:
        if row["nth"] is not None:
            resource = resources[row["nth"] - 1]
            found[resource].append(_entry(resource, row, sealer))
    return found


def _entry(resource: ResourceKey, row: asyncpg.Record, sealer: Sealer) -> LedgerEntry:
    text = row["leaves"]
    if row["secret"] is not None:
        try:
            text = sealer.open(row["secret"], row=_row(resource))
        except Unsealable:
            text = b'{"wrote": [], "removed": []}'
    leaves = orjson.loads(text)
    return LedgerEntry(
        resource=resource,
        source=Source(row["source"]),
        wrote=leaves_of(leaves["wrote"]),
        removed=frozenset(tuple(path) for path in leaves["removed"]),
        effect_id=row["effect_id"],
        session_id=row["session_id"],
    )


def _row(resource: ResourceKey) -> str:
    """What a sealed entry is bound to."""
    return f"ledger {resource.connection} {resource.kind} {key_text(resource)}"
