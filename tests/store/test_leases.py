"""Who carries a run: alive by its lock or by its heartbeat, gone when both have failed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import asyncpg
import pytest
from processes import eventually

from turnback.store.database import Database
from turnback.store.ids import new_id
from turnback.store.leases import Leases
from turnback.store.rows import SessionKey
from turnback.store.url import asyncpg_dsn

LONG = 60.0
GRACE = 0.3


@pytest.fixture
async def database(fresh_database: str) -> AsyncIterator[Database]:
    database = await Database.open(fresh_database, size=4, connect_timeout=5, statement_timeout=10)
    yield database
    await database.close()


@pytest.fixture
async def holder(database: Database) -> AsyncIterator[Leases]:
    leases = Leases(database, node_id=new_id())
    await leases.hold()
    yield leases
    await leases.drop()


@pytest.fixture
def other(database: Database) -> Leases:
    return Leases(database, node_id=new_id())


async def lease(database: Database, holder: Leases) -> SessionKey:
    """A run that `holder` has just begun."""
    key = SessionKey(new_id(), new_id())
    await database.run(
        lambda c: c.execute(
            "insert into run_leases values ($1, $2, $3, 1, clock_timestamp())",
            key.root_id, key.id, holder._node_id,
        )
    )  # fmt: skip
    return key


async def cut_locks(url: str) -> None:
    """Cut the connections that hold the processes' locks, and no other."""
    connection = await asyncpg.connect(asyncpg_dsn(url))
    await connection.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
        "where datname = current_database() and application_name = 'turnback node'"
    )
    await connection.close()


@contextmanager
def keeping(holder: Leases, keys: list[SessionKey], *, heartbeat: float) -> Iterator[None]:
    """Within it, `holder` keeps its lock and beats for these runs."""
    task = asyncio.create_task(holder.keep(lambda: keys, heartbeat=heartbeat, grace=GRACE))
    try:
        yield
    finally:
        task.cancel()


async def test_a_dead_processs_runs_are_seen_to_have_ended_after_the_grace_and_not_before(
    database: Database, holder: Leases, other: Leases
) -> None:
    key = await lease(database, holder)
    assert await other.ended(expiry=LONG, grace=GRACE) == []
    assert not other.suspecting
    await holder.drop()
    began = asyncio.get_running_loop().time()

    async def ended() -> bool:
        return await other.ended(expiry=LONG, grace=GRACE) == [key]

    await eventually(ended, within=5)
    assert asyncio.get_running_loop().time() - began >= GRACE
    assert other.suspecting
    assert await other.is_gone(key, expiry=LONG, grace=GRACE)


async def test_a_lock_that_is_taken_again_within_the_grace_ends_nothing(
    fresh_database: str, database: Database, holder: Leases, other: Leases
) -> None:
    key = await lease(database, holder)
    with keeping(holder, [key], heartbeat=LONG):
        await asyncio.sleep(0.05)
        for _ in range(3):
            await cut_locks(fresh_database)
            for _ in range(10):
                assert await other.ended(expiry=LONG, grace=GRACE) == []
                assert not await other.is_gone(key, expiry=LONG, grace=GRACE)
                await asyncio.sleep(GRACE / 10)
        await asyncio.sleep(GRACE)
        assert await other.ended(expiry=LONG, grace=GRACE) == []
        assert not other.suspecting


async def test_a_process_that_cannot_take_its_lock_again_lives_by_its_heartbeats(
    fresh_database: str, database: Database, holder: Leases, other: Leases
) -> None:
    key = await lease(database, holder)
    with keeping(holder, [key], heartbeat=LONG):
        await asyncio.sleep(0.05)
        database.dsn = "postgresql://nowhere@127.0.0.1:1/none"  # what the pool has stays open
        await cut_locks(fresh_database)
        for _ in range(10):
            assert await other.ended(expiry=LONG, grace=GRACE) == []
            await asyncio.sleep(GRACE / 4)
        assert other.suspecting


async def test_a_frozen_processs_run_expires_by_the_databases_clock_though_it_has_its_lock(
    database: Database, holder: Leases, other: Leases
) -> None:
    key = await lease(database, holder)
    await asyncio.sleep(0.05)
    assert await other.is_gone(key, expiry=0.01, grace=LONG)
    assert await other.ended(expiry=0.01, grace=LONG) == [key]
    await holder.beat([key])
    assert not await other.is_gone(key, expiry=5, grace=LONG)
    assert await other.ended(expiry=5, grace=LONG) == []


async def test_a_run_without_a_lease_or_with_ones_own_has_nobody_else_to_end_it(
    database: Database, holder: Leases, other: Leases
) -> None:
    key = await lease(database, holder)
    assert await holder.is_gone(key, expiry=LONG, grace=LONG)
    assert await other.is_gone(SessionKey(new_id(), new_id()), expiry=LONG, grace=LONG)
