"""Databases at any migration, what is in them, and what a server of an earlier one had written."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import asyncpg
from alembic import command
from alembic.config import Config

from turnback.store.embedded import binaries
from turnback.store.migrate import scripts

WRITTEN_AT = "0003"
FOLDER = Path(__file__).parents[1] / "data" / "database_0003"
WRITTEN = (FOLDER / "rows.sql").read_text()
READ: dict[str, Any] = json.loads((FOLDER / "read.json").read_text())
"""What that server answered of its sessions: by session, then by what follows its path."""
STATEMENTS: list[str] = json.loads((FOLDER / "statements.json").read_text())
"""What it said to the database, as that has logged it: commits, reads, lists, leases, keys."""

SHAPES: dict[str, str] = json.loads((FOLDER.parent / "migrations.json").read_text())
"""The `shape` that each migration leads to, as it was when it was written."""


def to(url: str, revision: str) -> None:
    """Bring the database to this migration, up or down, as `turnback migrate` would."""
    config = Config()
    config.set_main_option("script_location", str(scripts()))
    config.attributes.update(database_url=url, timeout=60.0)
    at = query(url, "select version_num from alembic_version") if _is_used(url) else []
    going = command.downgrade if at and at[0] > (revision,) else command.upgrade
    going(config, revision)


def written(url: str) -> None:
    """Write what that server had written, statement for statement."""
    run(url, WRITTEN)


def query(url: str, text: str) -> list[tuple[Any, ...]]:
    """The rows of one statement."""

    async def asking() -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(url)
        try:
            return [tuple(row) for row in await connection.fetch(text)]
        finally:
            await connection.close()

    return asyncio.run(asking())


def run(url: str, text: str) -> None:
    """Run statements, all or none."""

    async def running() -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(text)
        finally:
            await connection.close()

    asyncio.run(running())


def schema(url: str) -> str:
    """All that the database defines, as SQL."""
    return re.sub(r"\\(un)?restrict .*", "", _dumped(url, "--schema-only"))


def shape(url: str) -> str:
    """A hash of the database's columns, indexes and constraints."""
    made = query(
        url,
        """select 'column', attrelid::regclass::text, attname::text, atttypid::regtype::text,
            attnotnull, (select pg_get_expr(adbin, adrelid) from pg_attrdef
                where adrelid = attrelid and adnum = attnum)
        from pg_attribute join pg_class on oid = attrelid
        where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and attnum > 0
            and not attisdropped
        union all
        select 'index', indexdef, indexname, '', false, '' from pg_indexes
        where schemaname = 'public'
        union all
        select 'constraint', conrelid::regclass::text, conname::text, pg_get_constraintdef(oid),
            convalidated, '' from pg_constraint
        where connamespace = 'public'::regnamespace and contype in ('c', 'f', 'p', 'u')
        order by 1, 2, 3""",
    )
    return hashlib.sha256(repr(made).encode()).hexdigest()[:16]


def columns(url: str) -> dict[str, list[str]]:
    """The columns of each table that is no partition and holds sessions."""
    found: dict[str, list[str]] = {}
    for table, column in query(
        url,
        """select c.relname, a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid
        where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
        and not c.relispartition and a.attnum > 0 and not a.attisdropped
        and c.relname not in ('alembic_version', 'installation') order by 1, a.attnum""",
    ):
        found.setdefault(table, []).append(column)
    return found


def rows(url: str, of: dict[str, list[str]]) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of these columns."""
    return {
        table: query(url, f"select row({', '.join(names)})::text from {table} order by 1")
        for table, names in of.items()
    }


def psql(url: str, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script as an administrator would, up to its first error."""
    command_line = [str(binaries() / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url]
    return subprocess.run(command_line, input=script, capture_output=True, text=True, check=False)


def _dumped(url: str, *options: str) -> str:
    command_line = [str(binaries() / "pg_dump"), *options, "-d", url]
    return subprocess.run(command_line, capture_output=True, text=True, check=True).stdout


def _is_used(url: str) -> bool:
    [(name,)] = query(url, "select to_regclass('alembic_version')::text")
    return name is not None
