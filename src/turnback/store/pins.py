"""Pins of tools: the hashes under which somebody has looked at what they say (undo.md 1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from turnback.store.database import Database

ALL = "select connection, tool, array_agg(pin) from tool_pins group by connection, tool"

FIRST = """insert into tool_pins (connection, tool, pin)
select n.connection, n.tool, n.pin
from unnest($1::text[], $2::text[], $3::text[]) n(connection, tool, pin)
where not exists (select from tool_pins p
    where p.connection = n.connection and p.tool = n.tool)
on conflict do nothing"""

LOOKED = """insert into tool_pins (connection, tool, pin) values ($1::text, $2::text, $3::text)
on conflict (connection, tool, pin) do update set looked_at = clock_timestamp()"""


class ToolPins:
    """Reads and keeps pins; every method raises `DatabaseUnavailable`."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def all(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """The pins by connection and tool."""
        rows = await self._db.run(lambda connection: connection.fetch(ALL))
        return {(row[0], row[1]): frozenset(row[2]) for row in rows}

    async def first(self, seen: Iterable[tuple[str, str, str]]) -> None:
        """Pin tools (connection, name, pin) that have no pin yet as they are."""
        columns = [list(column) for column in zip(*seen, strict=True)]
        if not columns:
            return
        async with self._db.connection(writes=True) as connection:
            await connection.execute(FIRST, *columns)

    async def looked(self, connection: str, tool: str, pin: str) -> None:
        """Pin a tool as it is now, for somebody has looked at it."""
        async with self._db.connection(writes=True) as link:
            await link.execute(LOOKED, connection, tool, pin)
