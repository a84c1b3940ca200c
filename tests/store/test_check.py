"""`turnback check` against rows damaged by hand: each finding, and none where nothing is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from stored import NOW, Story

from turnback.core.errors import HistoryMissing, NotOnPath, SessionNotFound
from turnback.core.lineage import Fork
from turnback.core.principal import LOCAL
from turnback.store.check import CHECKS, examine
from turnback.store.dao import Dao
from turnback.store.database import Database
from turnback.store.ids import new_id

DAMAGE = {
    "sessions are in the directory": "delete from session_directory where id = '{child}'",
    "sessions have a family": "delete from families",
    "families have sessions": "insert into families values (gen_random_uuid(), 'local', 0)",
    "forks have a lineage": "delete from session_lineage where session_id = '{child}'",
    "lineages have a session": "delete from sessions where id = '{leaf}'",
    "lineages have a parent": "delete from sessions where id = '{child}'",
    "lineages lead to the root":
        "update session_lineage set parent_id = '{leaf}' where session_id = '{child}'",
    "cutoffs of forks are records": "delete from records where id = '{cutoff}'",
    "branches have a session": "delete from sessions where id = '{leaf}'",
    "branches go on in a branch":
        "update branches set below = gen_random_uuid() where session_id = '{child}'",
    "branches list the way to the root":
        "update branches set hi[1] = hi[1] - 1 where session_id = '{leaf}'",
    "cutoffs of branches are records": "delete from records where id = '{cutoff}'",
    "records have a branch": "delete from branches where session_id = '{leaf}'",
    "records have a turn": "delete from turns where session_id = '{leaf}'",
    "records of a branch are consecutive":
        "delete from records where session_id = '{child}' and step_index = 1",
    "turns begin with a record":
        "delete from records where session_id = '{leaf}' and step_index = 0",
    "HEADs are records": "delete from records where id = '{head}'",
    "redo lands on records": "delete from records where session_id = '{redone}'",
    "events have a session": "delete from sessions where id = '{leaf}'",
    "files that records refer to are known":
        "insert into attachment_refs select root_id, branch_id, seq, id from records limit 1",
    "readers of files are sessions":
        "with a as (insert into attachments (root_id, id, session_id, project_id, name, type, size,"
        " sha256, principal, created_at) values ('{root}', '{head}', '{root}', 'local', 'x', 'x',"
        " 0, '', 'local', now()) returning id) insert into session_attachment_access"
        " select '{root}', gen_random_uuid(), id, '{root}', now() from a",
    "workflows have all their blobs":
        "delete from blobs where hash = (select after_hash from records where id = '{head}')",
}  # fmt: skip


@pytest.fixture
async def database(fresh_database: str) -> AsyncIterator[Database]:
    database = await Database.open(fresh_database, size=8, connect_timeout=5, statement_timeout=10)
    yield database
    await database.close()


@pytest.fixture
async def names(database: Database) -> dict[str, str]:
    """A session, its fork, the fork of that, each with turns, one of them with a revert to redo."""
    dao = Dao(database, node_id=new_id(), max_redo_depth=3, directory_cache=100)
    stories = [await Story.begin(dao)]
    await stories[0].prompt("one", "two")
    for _ in range(3):
        asked = Fork(stories[-1].key.id, new_id())
        await dao.fork(LOCAL, asked, now=NOW, max_depth=128)
        stories.append(await Story.of(dao, asked.child_id))
        last = await stories[-1].prompt("three", "four")
    root, child, leaf, redone = stories
    await redone.move(redone.tree.revert(last))
    return {
        "root": root.key.id,
        "child": child.key.id,
        "leaf": leaf.key.id,
        "redone": redone.key.id,
        "cutoff": root.tree.head.step_id,
        "head": leaf.tree.head.step_id,
    }


async def wrong(database: Database) -> list[str]:
    return [finding.proves async for finding in examine(database) if finding.wrong]


def test_each_look_has_its_damage() -> None:
    assert DAMAGE.keys() == CHECKS.keys() | {"workflows have all their blobs"}


@pytest.mark.parametrize("proves", DAMAGE)
async def test_what_is_missing_its_other_half_is_found(
    database: Database, names: dict[str, str], proves: str
) -> None:
    assert await wrong(database) == []
    await database.run(lambda c: c.execute(DAMAGE[proves].format(**names)))
    assert proves in await wrong(database)


@pytest.mark.lineage(23)
@pytest.mark.parametrize(
    "damage",
    [
        "update session_lineage set parent_id = '{leaf}' where session_id = '{child}'",
        "update branches set below = id, lo = array[1], src = array[id], hi = array[9]",
        "update branches set below = (select max(id::text) from branches b)::uuid",
        "delete from session_lineage where session_id = '{child}'",
        "delete from branches where session_id = '{root}'",
        "delete from records where id = '{cutoff}'",
        "update session_lineage set cutoff_branch = gen_random_uuid()",
    ],
)
async def test_whatever_is_damaged_ends_in_a_typed_error_for_reads_forks_purges_and_sweeps(
    database: Database, names: dict[str, str], damage: str
) -> None:
    dao = Dao(database, node_id=new_id(), max_redo_depth=3, directory_cache=100)
    await database.run(lambda c: c.execute(damage.format(**names)))
    for id_ in (names["child"], names["leaf"]):
        key = await dao.key(LOCAL, id_)
        for ask in (
            dao.families.of(LOCAL, key, before=None, limit=100),
            dao.transcripts.page(LOCAL, key, after=0, limit=1_000),
            dao.transcripts.usage(LOCAL, key),
            dao.load(LOCAL, id_),
            dao.fork(LOCAL, Fork(id_, new_id()), now=NOW, max_depth=128),
        ):
            with suppress(HistoryMissing, SessionNotFound, NotOnPath):
                async with asyncio.timeout(8):
                    await ask
    deleted = "update sessions set deleted_at = now() - interval '1 day' where id = any($1::uuid[])"
    await database.run(lambda c: c.execute(deleted, [names["child"], names["redone"]]))
    await dao.purge(LOCAL, names["child"], batch=2)
    assert await dao.sweeper.run(grace=3_600, batch=2) is not None
    assert await wrong(database) != []
