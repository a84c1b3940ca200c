"""Purging against a real PostgreSQL: what goes, what stays, and what its forks still are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from stored import NOW, Story, tree_of, waiting

from turnback.core.errors import (
    HistoryPurged,
    NotDeleted,
    SessionNotFound,
    TurnbackError,
    UnknownStep,
    UnknownTurn,
)
from turnback.core.lineage import Boundary, Fork, PendingMode, Side
from turnback.core.principal import LOCAL, service_of
from turnback.core.tree import EndReason, NewIds, Purged
from turnback.store.check import examine
from turnback.store.dao import Dao
from turnback.store.database import Database
from turnback.store.ids import new_id
from turnback.store.purge import LOCK_FAMILY, Erased

BATCH = 3
STRANGER = service_of("elsewhere")


@pytest.fixture
async def database(fresh_database: str) -> AsyncIterator[Database]:
    database = await Database.open(fresh_database, size=8, connect_timeout=5, statement_timeout=10)
    yield database
    await database.close()


@pytest.fixture
def dao(database: Database) -> Dao:
    return Dao(database, node_id=new_id(), max_redo_depth=3, directory_cache=100)


async def fork(dao: Dao, story: Story, turn: str | None, side: Side = Side.AFTER) -> str:
    boundary = None if turn is None else Boundary(turn, side)
    asked = Fork(story.key.id, new_id(), boundary)
    await dao.fork(LOCAL, asked, now=NOW, max_depth=128)
    return asked.child_id


async def purged(dao: Dao, story: Story) -> Erased:
    await story.delete()
    return await dao.purge(LOCAL, story.key.id, batch=BATCH)


async def rows(database: Database, table: str, root_id: str) -> int:
    text = f"select count(*) from {table} where root_id = $1::uuid"
    return int(await database.run(lambda c: c.fetchval(text, root_id)))


async def wrong(database: Database) -> list[str]:
    """What the nightly check finds."""
    return [finding.proves async for finding in examine(database) if finding.wrong]


async def test_a_purge_leaves_nothing_of_what_a_session_without_forks_has_said(
    dao: Dao, database: Database
) -> None:
    story = await Story.begin(dao)
    for n in range(4):
        await story.prompt(f"one {n}", f"two {n}")
    erased = await purged(dao, story)
    assert (erased.records, erased.turns) == (12, 4)
    for table in ("records", "turns", "session_events", "session_requests", "blobs"):
        assert await rows(database, table, story.key.root_id) == 0
    assert await wrong(database) == []


async def test_a_living_session_is_not_purged(dao: Dao) -> None:
    story = await Story.begin(dao)
    await story.prompt("one")
    with pytest.raises(NotDeleted):
        await dao.purge(LOCAL, story.key.id, batch=BATCH)
    assert story.visible() == (await Story.of(dao, story.key.id)).visible()


async def test_another_projects_session_and_none_are_refused_alike(dao: Dao) -> None:
    story = await Story.begin(dao)
    await story.delete()
    told = set()
    for id_, who in ((story.key.id, STRANGER), (new_id(), LOCAL), ("nothing", LOCAL)):
        with pytest.raises(SessionNotFound) as refused:
            await dao.purge(who, id_, batch=BATCH)
        told.add(refused.value.message)
    assert len(told) == 1


async def test_a_fork_goes_on_without_what_was_purged_of_its_beginning(
    dao: Dao, database: Database
) -> None:
    parent = await Story.begin(dao)
    first, second = await parent.prompt("one", "two"), await parent.prompt("three")
    lost = parent.visible()
    child = await Story.of(dao, await fork(dao, parent, second))
    own = [await child.prompt("four"), await child.prompt("five", "six")]
    before = await dao.load(LOCAL, child.key.id)
    await purged(dao, parent)
    after = await dao.load(LOCAL, child.key.id, since=before.row.revision)
    assert after.since is None, "what was told before counts as forgotten"
    assert set(after.purged) == set(lost)
    tree = tree_of(after)
    assert [step.id for step in tree.remaining_path()] == child.visible_of(own)[::-1]
    for step_id in lost:
        for asked in (tree.step, tree.checkout, tree.revert_step):
            with pytest.raises(HistoryPurged):
                asked(step_id)
    for turn_id in (first, second):
        with pytest.raises(HistoryPurged):
            tree.revert(turn_id)
    with pytest.raises(HistoryPurged):
        tree.revert(own[0])
    with pytest.raises(UnknownStep):
        tree.step(new_id())
    with pytest.raises(UnknownTurn):
        tree.turn(new_id())
    assert await wrong(database) == []
    child = await Story.of(dao, child.key.id)
    await child.prompt("seven")
    await child.move(child.tree.revert(own[1]))
    await child.move(child.tree.checkout("step-initial"))
    await child.prompt("eight")
    assert len(child.visible()) == 2
    assert await wrong(database) == []


async def test_a_fork_whose_head_was_purged_goes_on_from_its_workflow(
    dao: Dao, database: Database
) -> None:
    parent = await Story.begin(dao)
    turns = [await parent.prompt("one"), await parent.prompt("two"), await parent.prompt("three")]
    newborn = await fork(dao, parent, turns[1])
    reverted = await Story.of(dao, await fork(dao, parent, turns[2]))
    await reverted.move(reverted.tree.revert(turns[1]))
    kept = {
        id_: (await dao.session(LOCAL, id_)).workflow_hash for id_ in (newborn, reverted.key.id)
    }
    await purged(dao, parent)
    for id_, inherited in ((newborn, 2), (reverted.key.id, 1)):
        child = await Story.of(dao, id_)
        assert child.tree.workflow == kept[id_]
        await dao.workflow(LOCAL, child.key, kept[id_])
        turn = await child.prompt("four")
        assert child.tree.turns[turn].effective_index == inherited
        again = await Story.of(dao, id_)
        assert [s.id for s in again.tree.remaining_path()] == child.visible_of([turn])[::-1]
        with pytest.raises(HistoryPurged):
            again.tree.redo() if again.tree.can_redo else again.tree.revert(turn)
    assert await wrong(database) == []


async def test_a_fork_with_a_boundary_in_what_was_purged_is_refused_and_one_after_it_is_made(
    dao: Dao,
) -> None:
    parent = await Story.begin(dao)
    first, second = await parent.prompt("one"), await parent.prompt("two")
    newborn = await fork(dao, parent, second)
    child = await Story.of(dao, await fork(dao, parent, second))
    own = [await child.prompt("three"), await child.prompt("four")]
    await purged(dao, parent)
    for turn, side in (
        (first, Side.BEFORE), (first, Side.AFTER), (second, Side.BEFORE), (second, Side.AFTER),
        (own[0], Side.BEFORE),
    ):  # fmt: skip
        with pytest.raises(HistoryPurged):
            await fork(dao, child, turn, side)
    with pytest.raises(HistoryPurged):
        await fork(dao, await Story.of(dao, newborn), None)
    for turn, side in ((own[0], Side.AFTER), (own[1], Side.BEFORE), (own[1], Side.AFTER)):
        grandchild = await Story.of(dao, await fork(dao, child, turn, side))
        with pytest.raises(HistoryPurged):
            list(grandchild.tree.path())
        made = await grandchild.prompt("five")
        assert made in grandchild.tree.turns
    with pytest.raises(TurnbackError) as unknown:
        await fork(dao, child, new_id())
    assert unknown.value.code == "not_on_path"


async def test_what_others_of_the_family_need_stays(dao: Dao, database: Database) -> None:
    root = await Story.begin(dao)
    first = await root.prompt("one")
    middle = await Story.of(dao, await fork(dao, root, first))
    second = await middle.prompt("two")
    child = await Story.of(dao, await fork(dao, middle, second))
    await child.prompt("two", "three")  # the first of which is as one that goes
    await purged(dao, middle)
    tree = tree_of(await dao.load(LOCAL, child.key.id))
    for step in tree.steps.values():
        await dao.workflow(LOCAL, child.key, step.after)
    assert [step.seq for step in tree.steps.values()] == [1, 2, 5, 6, 7]
    assert (await Story.of(dao, root.key.id)).visible() == root.visible()
    assert await wrong(database) == []


async def test_a_command_that_was_decided_before_a_purge_does_not_take_effect(dao: Dao) -> None:
    parent = await Story.begin(dao)
    first = await parent.prompt("one")
    child = await Story.of(dao, await fork(dao, parent, first))
    await child.prompt("two")
    await purged(dao, parent)
    with pytest.raises(AssertionError, match="the guard holds"):
        await child.move(child.tree.revert(first))


async def test_a_run_under_way_in_a_fork_goes_on_through_a_purge(dao: Dao) -> None:
    parent = await Story.begin(dao)
    first = await parent.prompt("one")
    child = await Story.of(dao, await fork(dao, parent, first))
    turn = await child.prompt()
    await purged(dao, parent)
    await child.answer("two", EndReason.COMPLETE)
    again = await Story.of(dao, child.key.id)
    assert [step.turn_id for step in again.tree.remaining_path()] == [turn, turn]
    assert again.tree.prompt(NewIds(new_id(), new_id(), new_id()), by="local")


async def test_nothing_is_shown_from_the_moment_that_a_purge_has_begun(
    dao: Dao, database: Database
) -> None:
    parent = await Story.begin(dao)
    first, second = await parent.prompt("one"), await parent.prompt("two")
    child = await Story.of(dao, await fork(dao, parent, second))
    own = await child.prompt("three")
    await parent.delete()
    assert await dao._purge.close(parent.key) == [child.key.id]
    assert await rows(database, "records", parent.key.root_id) == 6, "nothing has gone yet"
    stored = await dao.load(LOCAL, child.key.id)
    assert stored.purged == {
        step.id: Purged(step.turn_id, parent.tree.turns[step.turn_id].effective_index)
        for step in parent.tree.steps.values()
    }
    assert [step.turn_id for step in stored.steps] == [own, own]
    assert [turn.id for turn in stored.turns] == [own]
    page = await dao.transcripts.page(LOCAL, child.key, after=0, limit=1_000)
    assert (page.ids, page.purged) == ([], (0, 4))
    assert (await dao.transcripts.page(LOCAL, child.key, after=4, limit=1_000)).purged is None
    with pytest.raises(HistoryPurged):
        await dao.transcripts.usage(LOCAL, child.key)
    for turn in (first, second):
        asked = Fork(child.key.id, new_id(), Boundary(turn, Side.BEFORE), PendingMode.EDIT)
        with pytest.raises(HistoryPurged):
            await dao.fork(LOCAL, asked, now=NOW, max_depth=128)
    assert await dao._purge.close(parent.key) == [], "it has begun already"


async def test_what_a_fork_was_called_and_made_for_goes_with_it(
    dao: Dao, database: Database
) -> None:
    parent = await Story.begin(dao)
    turn = await parent.prompt("one")
    boundary = Boundary(turn, Side.BEFORE)
    asked = Fork(
        parent.key.id, new_id(), boundary, PendingMode.EDIT, "a draft", "a name", "a description"
    )
    await dao.fork(LOCAL, asked, now=NOW, max_depth=128)
    await purged(dao, await Story.of(dao, asked.child_id))
    left = """select s.name, s.pending_action, l.description from sessions s
    join session_lineage l on l.session_id = s.id where s.id = $1::uuid"""
    row = await database.run(lambda c: c.fetchrow(left, asked.child_id))
    assert tuple(row) == ("", None, None)


@pytest.mark.parametrize("at", [0, 1])
async def test_a_prompt_that_waits_in_forks_goes_with_the_session_that_said_it(
    dao: Dao, database: Database, at: int
) -> None:
    parent = await Story.begin(dao)
    boundary = Boundary([await parent.prompt("one"), await parent.prompt("two")][at], Side.BEFORE)
    between = await Story.of(dao, await fork(dao, parent, None))
    made = {}
    for name, source, draft in (
        ("quoting", parent, None), ("through a fork", between, None), ("deleted", parent, None),
        ("own words", parent, "mine"), ("running", parent, None),
    ):  # fmt: skip
        asked = Fork(source.key.id, new_id(), boundary, PendingMode.EDIT, draft)
        await dao.fork(LOCAL, asked, now=NOW, max_depth=128)
        made[name] = await Story.of(dao, asked.child_id)
    await made["deleted"].delete()
    running = made["running"]
    before = (await dao.session(LOCAL, running.key.id)).pending
    assert before is not None
    assert before.is_quoted
    await running.prompt()
    await purged(dao, parent)
    left = dict(await database.run(lambda c: c.fetch("select id, pending_action from sessions")))
    kept = {name for name, story in made.items() if left[story.key.id] is not None}
    assert kept == {"own words"}

    # A run that was under way knows of no purge, and gives nothing back.
    await running.change(pending=before.again(new_id()))
    assert (await dao.session(LOCAL, running.key.id)).pending is None


async def test_two_purges_at_once_leave_what_one_leaves(dao: Dao, database: Database) -> None:
    parent = await Story.begin(dao)
    turns = [await parent.prompt(f"one {n}", f"two {n}") for n in range(8)]
    child = await Story.of(dao, await fork(dao, parent, turns[-1]))
    await child.prompt("three")
    await parent.delete()
    both = await asyncio.gather(*(dao.purge(LOCAL, parent.key.id, batch=BATCH) for _ in range(2)))
    assert sum(one.records for one in both) == 24
    stored = await dao.load(LOCAL, child.key.id)
    indexes = [left.effective_index for left in stored.purged.values()]
    assert sorted(indexes) == [n for n in range(8) for _ in range(3)]
    assert await wrong(database) == []


async def test_the_parts_of_a_transcript_around_what_was_purged_are_read(dao: Dao) -> None:
    root = await Story.begin(dao)
    middle = await Story.of(dao, await fork(dao, root, await root.prompt("one")))
    leaf = await Story.of(dao, await fork(dao, middle, await middle.prompt("two")))
    await leaf.prompt("three")
    whole = (await dao.transcripts.page(LOCAL, leaf.key, after=0, limit=6)).ids
    assert whole is not None
    await purged(dao, middle)

    async def ids(after: int, limit: int) -> list[str] | tuple[int, int] | None:
        page = await dao.transcripts.page(LOCAL, leaf.key, after=after, limit=limit)
        return page.purged or page.ids

    assert await ids(0, 2) == whole[:2]
    assert await ids(0, 3) == await ids(0, 6) == await ids(1, 2) == (2, 4)
    assert await ids(3, 1) == await ids(3, 3) == (3, 4)
    assert await ids(4, 2) == whole[4:]


async def test_a_fork_that_waited_for_a_purge_says_nothing_of_what_it_has_removed(
    dao: Dao, database: Database
) -> None:
    """It began before, and its statement sees the records still."""
    parent = await Story.begin(dao)
    first = await parent.prompt("secret", "words")
    child = await Story.of(dao, await fork(dao, parent, first))
    await parent.delete()
    asked = [
        Fork(child.key.id, new_id(), Boundary(first, Side.BEFORE), PendingMode.EDIT),
        Fork(child.key.id, new_id(), Boundary(first, Side.AFTER)),
        Fork(child.key.id, new_id()),
    ]
    async with database.connection() as holder:
        holding = holder.transaction()
        await holding.start()
        await holder.execute(LOCK_FAMILY, parent.key.root_id)
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            purge = group.create_task(dao.purge(LOCAL, parent.key.id, batch=BATCH))
            await waiting(database, 1)
            forks = [group.create_task(forked(dao, fork)) for fork in asked]
            await waiting(database, 1 + len(asked))
            await holding.rollback()
    assert purge.result().records == 3
    assert [task.result() for task in forks] == [HistoryPurged] * len(asked)
    assert await wrong(database) == []


async def forked(dao: Dao, asked: Fork) -> type[TurnbackError] | None:
    """How a fork was refused; None: it was made."""
    try:
        await dao.fork(LOCAL, asked, now=NOW, max_depth=128)
    except TurnbackError as error:
        return type(error)
    return None
