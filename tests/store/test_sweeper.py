"""The sweeper against a real PostgreSQL: exactly what goes, and never what somebody needs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from as_found import AS_FOUND
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stored import NOW, Story

from turnback.core.errors import LineageConflict, SessionNotFound, SettingsInvalid
from turnback.core.lineage import Boundary, Fork, Side
from turnback.core.principal import LOCAL
from turnback.environment import load_settings
from turnback.store.check import examine
from turnback.store.dao import Dao
from turnback.store.database import Database
from turnback.store.ids import new_id
from turnback.store.sweeper import ALONE, DONE, Swept

GRACE = 3_600.0
LONG_AGO = "update sessions set deleted_at = now() - interval '1 day' where id = any($1::uuid[])"
EVERYTHING = (
    "records", "turns", "branches", "session_events", "session_requests", "blobs", "sessions",
    "session_lineage", "families", "attachments", "session_attachment_access", "purged_records",
)  # fmt: skip


@pytest.fixture
async def database(fresh_database: str) -> AsyncIterator[Database]:
    database = await Database.open(fresh_database, size=8, connect_timeout=5, statement_timeout=10)
    yield database
    await database.close()


@pytest.fixture
def dao(database: Database) -> Dao:
    return Dao(database, node_id=new_id(), max_redo_depth=3, directory_cache=1_000)


async def fork(dao: Dao, session_id: str) -> str:
    asked = Fork(session_id, new_id())
    await dao.fork(LOCAL, asked, now=NOW, max_depth=128)
    return asked.child_id


async def delete(dao: Dao, database: Database, *ids: str, long_ago: bool = True) -> None:
    for id_ in ids:
        await (await Story.of(dao, id_)).delete()
    if long_ago:
        await database.run(lambda c: c.execute(LONG_AGO, ids))


async def sweep(dao: Dao, *, batch: int = 3) -> Swept:
    swept = await dao.sweeper.run(grace=GRACE, batch=batch)
    assert swept is not None
    return swept


async def rows(database: Database, table: str) -> int:
    return int(await database.run(lambda c: c.fetchval(f"select count(*) from {table}")))


async def wrong(database: Database) -> list[str]:
    return [finding.proves async for finding in examine(database) if finding.wrong]


async def chain(dao: Dao, *, length: int) -> list[str]:
    """A session, its fork, the fork of that, each with a turn of its own."""
    story = await Story.begin(dao)
    ids = [story.key.id]
    await story.prompt("one")
    for n in range(1, length):
        ids.append(await fork(dao, ids[-1]))
        await (await Story.of(dao, ids[-1])).prompt(f"one {n}")
    return ids


@pytest.mark.lineage(15)
async def test_exactly_the_sessions_that_nothing_living_comes_from_go(
    dao: Dao, database: Database
) -> None:
    root, middle, leaf = await chain(dao, length=3)
    side = await fork(dao, root)
    recent = await fork(dao, side)
    other = await chain(dao, length=2)
    lone = await chain(dao, length=1)
    await delete(dao, database, root, leaf, side, *other)
    await delete(dao, database, recent, long_ago=False)
    swept = await sweep(dao)
    assert set(swept.sessions) == {leaf, *other}, "recent was deleted within the grace"
    assert swept.families == [other[0]]
    assert await wrong(database) == []
    assert len((await Story.of(dao, middle)).visible()) == 4
    assert await sweep(dao) == Swept()
    await database.run(lambda c: c.execute(LONG_AGO, [recent]))
    assert set((await sweep(dao)).sessions) == {side, recent}
    await delete(dao, database, middle)
    swept = await sweep(dao)
    assert (set(swept.sessions), swept.families) == ({root, middle}, [root])
    assert await wrong(database) == []
    assert await rows(database, "sessions") == 1
    assert len((await Story.of(dao, lone[0])).visible()) == 2


async def test_a_swept_family_leaves_nothing_but_that_its_ids_are_taken(
    dao: Dao, database: Database
) -> None:
    ids = await chain(dao, length=3)
    await delete(dao, database, *ids)
    assert set((await sweep(dao)).sessions) == set(ids)
    assert {table: await rows(database, table) for table in EVERYTHING} == dict.fromkeys(
        EVERYTHING, 0
    )
    other = await Story.begin(dao)
    elsewhere = Boundary(new_id(), Side.AFTER)
    for boundary in (None, elsewhere):
        with pytest.raises(LineageConflict):
            await dao.fork(LOCAL, Fork(other.key.id, ids[1], boundary), now=NOW, max_depth=128)


async def test_what_a_swept_session_shared_with_its_family_stays(
    dao: Dao, database: Database
) -> None:
    root, leaf = await chain(dao, length=2)
    story = await Story.of(dao, root)
    await (await Story.of(dao, leaf)).prompt("same", "other")
    await story.prompt("same")
    kept = await rows(database, "blobs")
    await delete(dao, database, leaf)
    await sweep(dao)
    assert await rows(database, "blobs") < kept
    for step in story.tree.steps.values():
        await dao.workflow(LOCAL, story.key, step.after)
    assert await wrong(database) == []


async def test_a_purge_that_nobody_finished_is_finished_by_the_sweeper(
    dao: Dao, database: Database
) -> None:
    root, leaf = await chain(dao, length=2)
    await delete(dao, database, root, long_ago=False)
    key = await dao.key(LOCAL, root)
    await dao._purge.close(key)
    assert await sweep(dao) == Swept()
    owned = f"select count(*) from records where session_id = '{root}'"
    assert await database.run(lambda c: c.fetchval(owned)) == 0
    assert [s.seq for s in (await Story.of(dao, leaf)).tree.remaining_path()] == [4, 3]
    assert await wrong(database) == []


async def test_one_process_sweeps_at_a_time(dao: Dao, database: Database) -> None:
    async with database.apart() as another:
        assert await another.fetchval(ALONE)
        assert await dao.sweeper.run(grace=GRACE, batch=3) is None
        assert await another.fetchval(DONE)
        assert await sweep(dao) == Swept()


async def test_a_family_whose_lineage_is_lost_is_left_alone(dao: Dao, database: Database) -> None:
    root, middle, leaf = await chain(dao, length=3)
    await delete(dao, database, root, middle)
    lost = f"delete from session_lineage where session_id = '{leaf}'"
    await database.run(lambda c: c.execute(lost))
    assert await sweep(dao) == Swept()
    assert await rows(database, "records") == 6
    assert "forks have a lineage" in await wrong(database)


async def forks_until_gone(dao: Dao, source: str) -> list[str]:
    made: list[str] = []
    with suppress(SessionNotFound):
        while True:
            made.append(await fork(dao, source))
    return made


async def deletes_and_sweeps(dao: Dao, *ids: str) -> None:
    await asyncio.sleep(0.004)
    for id_ in ids:
        await (await Story.of(dao, id_)).delete()
    for _ in range(3):
        await dao.sweeper.run(grace=0.0, batch=100)


@pytest.mark.lineage(17)
async def test_forks_raced_against_sweeps_are_whole_or_not_made(
    dao: Dao, database: Database
) -> None:
    made = 0
    for _ in range(12):
        root, leaf = await chain(dao, length=2)
        one, two, _ = await asyncio.gather(
            forks_until_gone(dao, root),
            forks_until_gone(dao, root),
            deletes_and_sweeps(dao, leaf, root),
        )
        for id_ in one + two:
            assert len((await Story.of(dao, id_)).visible()) == 2
        made += len(one + two)
    assert made > 0, "no race"
    assert await wrong(database) == []


async def test_a_family_goes_on_writing_while_it_is_swept_of_blobs(
    dao: Dao, database: Database
) -> None:
    root = (await chain(dao, length=1))[0]
    story = await Story.of(dao, root)
    others = [await Story.of(dao, await fork(dao, root)) for _ in range(6)]
    for n, other in enumerate(others):
        await other.prompt(f"shared {n}", f"own {n}")

    async def writes() -> None:
        for n in range(6):
            await story.prompt(f"shared {n}", f"again {n}")

    async def sweeps() -> None:
        for other in others:
            await other.delete()
            await dao.purge(LOCAL, other.key.id, batch=2)

    await asyncio.gather(writes(), sweeps())
    for step in story.tree.steps.values():
        await dao.workflow(LOCAL, story.key, step.after)
    assert await wrong(database) == []


def test_the_grace_is_longer_than_a_statement_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNBACK_SWEEP_GRACE", "30")
    with pytest.raises(SettingsInvalid, match="TURNBACK_DB_STATEMENT_TIMEOUT"):
        load_settings()


# -- against a model


@dataclass
class Model:
    """Sessions as a tree of parents; what is deleted, and what that was long ago."""

    parents: dict[int, int | None] = field(default_factory=dict)
    deleted: dict[int, bool] = field(default_factory=dict)

    def doomed(self) -> set[int]:
        """Deleted long ago, and so is all that comes from them, one by one."""

        def goes(n: int) -> bool:
            children = [child for child, parent in self.parents.items() if parent == n]
            return self.deleted.get(n, False) and all(goes(child) for child in children)

        return {n for n in self.parents if goes(n)}


ACTS = st.lists(
    st.tuples(st.sampled_from(["fork", "delete", "forget", "sweep"]), st.integers(0, 9)),
    min_size=4,
    max_size=14,
)


@given(acts=ACTS)
@settings(
    max_examples=12,
    deadline=None,
    phases=AS_FOUND,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
async def test_sweeps_take_what_a_naive_model_says(
    dao: Dao, database: Database, acts: list[tuple[str, int]]
) -> None:
    story = await Story.begin(dao)
    await story.prompt("one")
    ids, model = {0: story.key.id}, Model({0: None})
    for act, chosen in [*acts, ("sweep", 0)]:
        n = chosen % (max(ids) + 1)
        living = n in model.parents and n not in model.deleted
        if act == "fork" and living:
            ids[new := max(ids) + 1] = await fork(dao, ids[n])
            model.parents[new] = n
        elif act in ("delete", "forget") and living:
            await delete(dao, database, ids[n], long_ago=act == "forget")
            model.deleted[n] = act == "forget"
        elif act == "sweep":
            doomed = model.doomed()
            mine = [id_ for id_ in (await sweep(dao)).sessions if id_ in ids.values()]
            assert set(mine) == {ids[m] for m in doomed}
            for m in doomed:
                del model.parents[m]
            for m in model.parents.keys() - model.deleted.keys():
                assert len((await Story.of(dao, ids[m])).visible()) == 2
    assert await wrong(database) == []
