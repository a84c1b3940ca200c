"""Wake-ups: ids, each once, to everyone else, over connections that may be lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import asyncpg
import pytest
from processes import eventually

from turnback.store.database import Database
from turnback.store.ids import new_id
from turnback.store.url import asyncpg_dsn
from turnback.store.wakeups import Wakeups


class Node:
    """A process's wake-ups, and what it has heard."""

    def __init__(self, database: Database) -> None:
        self.wakeups = Wakeups(database, node_id=new_id())
        self.heard: list[str] = []
        self.batches = 0
        self.missed = 0

    def hear(self, ids: frozenset[str]) -> None:
        self.heard += ids
        self.batches += 1

    def miss(self) -> None:
        self.missed += 1


@contextmanager
def running(node: Node, *, interval: float = 0.005, idle: float = 60.0) -> Iterator[Node]:
    task = asyncio.create_task(
        node.wakeups.run(heard=node.hear, missed=node.miss, interval=interval, idle=idle)
    )
    try:
        yield node
    finally:
        task.cancel()


@pytest.fixture
async def database(fresh_database: str) -> AsyncIterator[Database]:
    database = await Database.open(fresh_database, size=1, connect_timeout=5, statement_timeout=10)
    yield database
    await database.close()


@pytest.fixture
async def pair(database: Database) -> AsyncIterator[tuple[Node, Node]]:
    with running(Node(database)) as one, running(Node(database)) as two:
        await eventually(lambda: one.missed and two.missed)
        yield one, two


async def cut(url: str) -> None:
    """Cut every connection that carries wake-ups."""
    connection = await asyncpg.connect(asyncpg_dsn(url))
    await connection.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
        "where datname = current_database() and application_name = 'turnback wakeups'"
    )
    await connection.close()


async def test_a_written_session_is_heard_of_by_the_others_and_not_by_oneself(
    pair: tuple[Node, Node],
) -> None:
    one, two = pair
    one.wakeups.written("a")
    await eventually(lambda: two.heard == ["a"])
    two.wakeups.written("b")
    await eventually(lambda: one.heard == ["b"])
    assert two.heard == ["a"]


async def test_a_session_written_many_times_at_once_is_named_once(database: Database) -> None:
    with running(Node(database), interval=0.2) as one, running(Node(database)) as two:
        await eventually(lambda: one.missed and two.missed)
        for _ in range(100):
            one.wakeups.written("a")
            await asyncio.sleep(0)
        await eventually(lambda: len(two.heard) >= 2)  # at once, and after the interval
        assert two.heard == ["a", "a"]


async def test_more_ids_than_one_notification_holds_are_all_heard(
    pair: tuple[Node, Node],
) -> None:
    one, two = pair
    ids = [new_id() for _ in range(1000)]
    for id_ in ids:
        one.wakeups.written(id_)
    await eventually(lambda: len(two.heard) == len(ids))
    assert sorted(two.heard) == sorted(ids)
    assert two.batches == 5  # 215 ids of 36 bytes fit in 7,999


async def test_what_was_written_while_the_connection_was_lost_is_heard_and_all_is_doubted_once(
    fresh_database: str, pair: tuple[Node, Node]
) -> None:
    one, two = pair
    await cut(fresh_database)
    one.wakeups.written("a")
    await eventually(lambda: one.missed == two.missed == 2)
    # Who connects first may speak before the other listens; then it doubts whatever it holds.
    one.wakeups.written("b")
    await eventually(lambda: "b" in two.heard)
    assert (one.missed, two.missed) == (2, 2)


async def test_a_connection_that_is_lost_while_nothing_is_written_is_made_again(
    fresh_database: str, pair: tuple[Node, Node]
) -> None:
    one, two = pair
    await cut(fresh_database)
    await eventually(lambda: one.missed == two.missed == 2)
    one.wakeups.written("a")
    await eventually(lambda: two.heard == ["a"])
