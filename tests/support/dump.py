"""Everything that a database holds, as text."""

from __future__ import annotations

import asyncpg

TABLES = """select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'public' and c.relkind in ('r', 'p') and not c.relispartition"""


async def dumped(url: str) -> dict[str, str]:
    """The rows of each table."""
    connection = await asyncpg.connect(url)
    try:
        tables = [row["relname"] for row in await connection.fetch(TABLES)]
        return {
            table: await connection.fetchval(
                f"select coalesce(string_agg(t::text, e'\\n'), '') from \"{table}\" t"
            )
            for table in tables
        }
    finally:
        await connection.close()


def holding(dump: dict[str, str], *marks: str) -> list[str]:
    """The tables that hold one of these texts, in the clear or as bytes."""
    return [
        table
        for table, rows in dump.items()
        if any(mark in rows or mark.encode().hex() in rows for mark in marks)
    ]
