"""What is tried once more, and what is not."""

from __future__ import annotations

import asyncpg
import pytest

from turnback.core.errors import DatabaseUnavailable
from turnback.store.database import Connection, Database


async def test_what_took_too_long_is_not_sent_again(fresh_database: str) -> None:
    database = await Database.open(fresh_database, size=1, connect_timeout=5, statement_timeout=0.2)
    sent = 0

    async def slow(connection: Connection) -> None:
        nonlocal sent
        sent += 1
        await connection.execute("select pg_sleep(5)")

    with pytest.raises(DatabaseUnavailable, match="nothing was saved"):
        await database.run(slow)
    assert sent == 1
    await database.close()


async def test_what_met_a_connection_that_had_died_is_sent_again(fresh_database: str) -> None:
    database = await Database.open(fresh_database, size=1, connect_timeout=5, statement_timeout=5)
    pid = await database.run(lambda c: c.fetchval("select pg_backend_pid()"))
    other = await asyncpg.connect(fresh_database)
    assert await other.fetchval("select pg_terminate_backend($1, 5000)", pid)
    await other.close()
    assert await database.run(lambda c: c.fetchval("select pg_backend_pid()")) != pid
    await database.close()
