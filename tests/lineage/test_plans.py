"""What forks and transcripts cost: statements, pages of the database, partitions; never seconds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import asyncpg
import pytest
from oracle_bulk import Long, long_session, touched
from stored import NOW, Story

from turnback.core.errors import DepthLimit
from turnback.core.lineage import Boundary, Fork, Side
from turnback.core.principal import LOCAL
from turnback.store import families, forks, prefixes, transcripts
from turnback.store.dao import Dao
from turnback.store.database import PLANNING, Connection, Database
from turnback.store.ids import new_id
from turnback.store.url import asyncpg_dsn

DEPTH = 128
PAGE = 20
TENS_OF_PAGES = 100
"""Of 8 KB. A descent of an index is three or four of them."""


@dataclass
class Counted:
    """A DAO, the statements that its one connection has been sent, and a connection beside it."""

    dao: Dao
    beside: Connection
    statements: list[str]


@pytest.fixture
async def counted(fresh_database: str) -> AsyncIterator[Counted]:
    database = await Database.open(fresh_database, size=1, connect_timeout=5, statement_timeout=60)
    dao = Dao(database, node_id=new_id(), max_redo_depth=3, directory_cache=100)
    beside = await planning(fresh_database)
    found = Counted(dao, beside, [])
    async with database.connection() as connection:
        connection.add_query_logger(lambda sent: found.statements.append(sent.query))
    yield found
    await beside.close()
    await database.close()


async def planning(url: str) -> Connection:
    """A connection that plans as the service's do."""
    return await asyncpg.connect(asyncpg_dsn(url), server_settings=PLANNING)


async def child_of(dao: Dao, source: str, turn: str | None = None) -> str:
    """A fork's id."""
    asked = Fork(source, new_id(), None if turn is None else Boundary(turn, Side.AFTER))
    await dao.fork(LOCAL, asked, now=NOW, max_depth=DEPTH)
    return asked.child_id


async def chain(dao: Dao, *, depth: int) -> list[str]:
    """A session of one turn and forks of forks of it, each with a turn more; their ids."""
    story = await Story.begin(dao)
    await story.prompt("one")
    ids = [story.key.id]
    for _ in range(depth):
        ids.append(await child_of(dao, ids[-1]))
        await (await Story.of(dao, ids[-1])).prompt("more")
    return ids


async def newest(dao: Dao, session: str) -> list[str]:
    """The newest page of a transcript, as ids."""
    key = await dao.key(LOCAL, session)
    after = max(0, (await dao.session(LOCAL, session)).head.seq - PAGE)
    page = await dao.transcripts.page(LOCAL, key, head=None, after=after, limit=PAGE, held=None)
    assert page.ids is not None
    return page.ids


async def pages_of_newest(connection: Connection, dao: Dao, session: str) -> int:
    """How many pages of the database the newest page of a transcript takes, in two statements."""
    row = await dao.session(LOCAL, session)
    root, nowhere = row.key.root_id, (None, None)
    after = max(0, row.head.seq - PAGE)
    args = (root, row.key.id, *nowhere, after, PAGE, *nowhere)
    page = await touched(connection, transcripts.PAGE, *args)
    records = await touched(connection, transcripts.RECORDS, root, await newest(dao, session))
    for statement in (page, records):
        assert len(statement.partitions("records")) == 1, statement
    return page.pages + records.pages


@pytest.mark.lineage(22)
async def test_a_page_is_one_statement_at_any_depth_and_touches_as_many_pages(
    counted: Counted,
) -> None:
    dao, statements = counted.dao, counted.statements
    ids = await chain(dao, depth=DEPTH)
    for depth in (0, 1, 5, DEPTH):
        key = await dao.key(LOCAL, ids[depth])
        length = 2 * (depth + 1)
        statements.clear()
        page = await dao.transcripts.page(LOCAL, key, head=None, after=0, limit=1_000, held=None)
        assert page.ids is not None
        assert (len(page.ids), page.until, len(statements)) == (length, length, 1)
        statements.clear()
        assert len(await dao.transcripts.records(LOCAL, key, page.ids)) == length
        assert len(statements) == 1
    await counted.beside.execute("analyze")
    costs = [await pages_of_newest(counted.beside, dao, ids[depth]) for depth in (20, 60, DEPTH)]
    assert max(costs) <= 1.5 * min(costs), costs


@pytest.mark.lineage(22)
async def test_the_fork_past_the_limit_of_depth_is_refused_and_says_which_limit(
    counted: Counted,
) -> None:
    story = await Story.begin(counted.dao)
    await story.prompt("one")
    last = story.key.id
    for depth in range(1, DEPTH + 1):
        asked = Fork(last, new_id())
        made = await counted.dao.fork(LOCAL, asked, now=NOW, max_depth=DEPTH)
        assert (made.lineage.depth, made.lineage.inherited_turn_count) == (depth, 1)
        last = asked.child_id
    asked = Fork(last, new_id())
    with pytest.raises(DepthLimit, match="max_fork_depth") as refused:
        await counted.dao.fork(LOCAL, asked, now=NOW, max_depth=DEPTH)
    assert (refused.value.status, refused.value.data["value"]) == (422, DEPTH)
    assert await newest(counted.dao, last) == story.visible()


@pytest.mark.lineage(22)
async def test_a_page_of_a_sessions_forks_is_read_in_their_order(counted: Counted) -> None:
    story = await Story.begin(counted.dao)
    await counted.beside.execute(
        """with forks as (
            insert into sessions (root_id, id, project_id, owner, name, model, workflow_hash,
                initial_hash, created_at, updated_at)
            select $1::uuid, gen_random_uuid(), 'local', 'local', 'Fork', 'offline', '', '',
                $2::timestamptz + n * interval '1 second', now()
            from generate_series(1, 5000) n returning id, created_at)
        insert into session_lineage (root_id, session_id, parent_id, inherited_turn_count,
            cutoff_seq, depth, sources, fingerprint, created_at)
        select $1::uuid, id, $1::uuid, 0, 0, 1, '{}', '', created_at from forks""",
        story.key.id, NOW,
    )  # fmt: skip
    await counted.beside.execute("analyze")
    place = (LOCAL.credential, LOCAL.id, LOCAL.project_id, story.key.id, story.key.id)
    found = await touched(counted.beside, families.CHILDREN, *place, None, None, PAGE)
    assert found.pages < 10 * PAGE


# -- a long parent


@pytest.fixture(scope="module")
async def dao(standing_database: str) -> AsyncIterator[Dao]:
    database = await Database.open(
        standing_database, size=2, connect_timeout=5, statement_timeout=60
    )
    yield Dao(database, node_id=new_id(), max_redo_depth=3, directory_cache=100)
    await database.close()


@pytest.fixture(scope="module")
async def connection(standing_database: str) -> AsyncIterator[Connection]:
    opened = await planning(standing_database)
    yield opened
    await opened.close()


@pytest.fixture(scope="module")
async def long(connection: Connection) -> Long:
    """A session of 100,000 records."""
    made = await long_session(connection, turns=50_000, answers=1, now=NOW)
    await connection.execute("analyze")
    return made


def fork_args(asked: Fork) -> tuple[object, ...]:
    """The arguments of `forks.FORK`, for a session that is no fork."""
    wishes = (asked.mode, asked.draft, asked.name, asked.description, asked.fingerprint, NOW)
    place = forks.place(asked.source_id, asked)
    return (*place, *wishes, DEPTH, asked.count, LOCAL.id)


@pytest.mark.lineage(22)
@pytest.mark.parametrize("turn", [0, 1, 24_999, 49_999])
@pytest.mark.parametrize("side", Side)
async def test_a_fork_anywhere_in_100_000_records_touches_tens_of_pages_and_one_partition(
    connection: Connection, long: Long, turn: int, side: Side
) -> None:
    asked = Fork(long.id, new_id(), Boundary(long.turn(turn), side))
    found = await touched(connection, forks.FORK, *fork_args(asked))
    assert found.pages < TENS_OF_PAGES
    assert len(found.partitions("records")) <= 1
    refused = replace(asked, child_id=new_id(), count=1_000_000)
    why = await touched(connection, forks.FORK, *fork_args(refused))
    assert why.pages < TENS_OF_PAGES
    assert len(why.partitions("records")) <= 1


@pytest.mark.lineage(22)
async def test_a_fork_of_all_of_100_000_records_touches_few_pages_and_one_partition(
    connection: Connection, long: Long
) -> None:
    found = await touched(connection, forks.WHOLE, *fork_args(Fork(long.id, new_id())))
    assert found.pages < TENS_OF_PAGES
    assert len(found.partitions("records")) == 1


@pytest.mark.lineage(22)
async def test_a_child_of_two_turns_of_100_000_records_is_read_from_tens_of_pages(
    connection: Connection, dao: Dao, long: Long
) -> None:
    child = await child_of(dao, long.id, long.turn(1))
    assert await newest(dao, child) == long.steps()[:4]
    assert await pages_of_newest(connection, dao, child) < TENS_OF_PAGES
    whole = await child_of(dao, long.id)
    assert await newest(dao, whole) == long.steps()[-PAGE:]
    assert await pages_of_newest(connection, dao, whole) < TENS_OF_PAGES


@pytest.mark.lineage(22)
async def test_a_child_of_two_turns_of_100_000_records_is_loaded_from_tens_of_pages(
    connection: Connection, dao: Dao, long: Long
) -> None:
    child = await child_of(dao, long.id, long.turn(1))
    head = (await dao.session(LOCAL, child)).head
    place = (long.id, head.branch_id, head.seq)
    turns = [long.turn(0), long.turn(1)]
    for statement, args in (
        (forks.OF, (long.id, child)),
        (prefixes.BRANCHES, place),
        (prefixes.STEPS, place),
        (prefixes.TURNS, (long.id, turns)),
    ):
        found = await touched(connection, statement, *args)
        assert found.pages < TENS_OF_PAGES, statement
        assert len(found.partitions("records")) <= 1, statement


@pytest.mark.lineage(22)
async def test_a_path_of_10_000_records_is_read_whole_forked_whole_and_goes_on(dao: Dao) -> None:
    async with dao._db.connection() as connection:
        parent = await long_session(connection, turns=2_500, answers=3, now=NOW)
    child = await Story.of(dao, await child_of(dao, parent.id))
    assert child.visible() == parent.steps()
    await child.prompt("more")
    key = child.key
    page = await dao.transcripts.page(LOCAL, key, head=None, after=0, limit=20_000, held=None)
    assert page.ids == child.visible()
    assert (page.ids[:10_000], len(page.ids)) == (parent.steps(), 10_002)
