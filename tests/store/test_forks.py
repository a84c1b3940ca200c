"""Forks against a real PostgreSQL: what one writes, what one refuses, and that it is one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from stored import NOW, Story

from turnback.core.lineage import ROOT, Boundary, Fork, Side
from turnback.core.principal import LOCAL
from turnback.store.dao import Dao
from turnback.store.database import Database
from turnback.store.forks import Forked
from turnback.store.ids import new_id

DEPTH = 128


@pytest.fixture
async def database(fresh_database: str) -> AsyncIterator[Database]:
    database = await Database.open(fresh_database, size=4, connect_timeout=5, statement_timeout=10)
    yield database
    await database.close()


@pytest.fixture
def dao(database: Database) -> Dao:
    return Dao(database, node_id=new_id(), max_redo_depth=3, directory_cache=100)


async def forked(dao: Dao, asked: Fork, *, max_depth: int = DEPTH) -> Forked:
    return await dao.fork(LOCAL, asked, now=NOW, max_depth=max_depth)


def asked_of(story: Story, turn: str | None = None, side: Side = Side.AFTER) -> Fork:
    boundary = None if turn is None else Boundary(turn, side)
    return Fork(story.key.id, new_id(), boundary)


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("at", [0, 1, 2])
async def test_a_fork_has_the_turns_up_to_its_boundary(dao: Dao, at: int, side: Side) -> None:
    story = await Story.begin(dao)
    turns = [await story.prompt("one", "two"), await story.edit(), await story.prompt("three")]
    asked = asked_of(story, turns[at], side)
    made = await forked(dao, asked)
    inherited = at + (side is Side.AFTER)
    assert made.is_new
    assert made.lineage.inherited_turn_count == inherited
    assert made.lineage.boundary == asked.boundary
    assert made.lineage.parent_id == story.key.id
    row = await dao.session(LOCAL, asked.child_id)
    ends = [ROOT, *(story.tree.steps[story.last[turn]].position for turn in turns)]
    assert row.head == made.lineage.cutoff == ends[inherited]
    assert row.workflow_hash == story.tree.workflow_at(ends[inherited].step_id)
    assert made.lineage.sources == ((story.key.id,) if inherited else ())
    assert row.key.root_id == story.key.id
