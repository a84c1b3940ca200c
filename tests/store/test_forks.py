"""Forks against a real PostgreSQL: what one writes, what one refuses, and that it is one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from stored import NOW, Story, attach

from turnback.core import errors
from turnback.core.lineage import ROOT, Boundary, Branch, Fork, Position, Side, branch_off
from turnback.core.pending import PendingMode
from turnback.core.principal import LOCAL, Right, Visibility, service_of
from turnback.core.tree import EndReason
from turnback.core.workflow import load
from turnback.store import forks
from turnback.store.dao import Dao
from turnback.store.database import Database
from turnback.store.forks import Forked
from turnback.store.ids import new_id
from turnback.store.rows import Grant
from turnback.store.url import asyncpg_dsn

DEPTH = 128
SESSION = "select * from sessions where id = $1"


@pytest.fixture
async def database(fresh_database: str) -> AsyncIterator[Database]:
    database = await Database.open(fresh_database, size=4, connect_timeout=5, statement_timeout=10)
    yield database
    await database.close()


@pytest.fixture
def dao(database: Database, tmp_path: Path) -> Dao:
    return Dao(
        database, node_id=new_id(), max_redo_depth=3, directory_cache=100, attachments=tmp_path
    )


async def forked(dao: Dao, asked: Fork, *, max_depth: int = DEPTH) -> Forked:
    return await dao.fork(LOCAL, asked, now=NOW, max_depth=max_depth)


def asked_of(story: Story, turn: str | None = None, side: Side = Side.AFTER) -> Fork:
    boundary = None if turn is None else Boundary(turn, side)
    return Fork(story.key.id, new_id(), boundary)


FIRST = load({"operators": [], "said": "first"}, max_bytes=10**6, max_depth=50)


@pytest.mark.lineage(6, 24)
@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("kinds", ["prompt edit prompt", "edit prompt edit"])
async def test_a_fork_has_the_turns_up_to_its_boundary(
    dao: Dao, kinds: str, at: int, side: Side
) -> None:
    story = await Story.begin(dao, workflow=FIRST)
    turns = [
        await (story.edit() if kind == "edit" else story.prompt(f"one {n}", f"two {n}"))
        for n, kind in enumerate(kinds.split())
    ]
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
    assert row.initial_hash == FIRST.hash
    child = await Story.of(dao, asked.child_id)
    assert child.visible() == story.visible()[: row.head.seq]
    assert [turn for turn in turns if turn in child.tree.turns] == turns[:inherited]
    assert made.lineage.sources == ((story.key.id,) if inherited else ())
    assert row.key.root_id == story.key.id


async def test_without_a_boundary_all_that_is_visible_is_inherited(dao: Dao) -> None:
    story = await Story.begin(dao)
    newborn = asked_of(story)
    assert (await forked(dao, newborn)).lineage.inherited_turn_count == 0
    first, second = await story.prompt("one"), await story.prompt("two")
    await story.move(story.tree.revert(second))
    made = await forked(dao, asked := asked_of(story))
    assert made.lineage.cutoff == story.tree.steps[story.last[first]].position
    child = await Story.of(dao, asked.child_id)
    assert child.visible() == story.visible()
    assert child.tree.redo_stack == []


async def test_a_fork_of_all_is_the_same_whichever_statement_makes_it(
    dao: Dao, database: Database
) -> None:
    story = await Story.begin(dao)
    inherited = [await by_both(database, story)]
    await story.prompt("one", "two")
    inherited.append(await by_both(database, story))
    await story.edit()
    await story.move(story.tree.revert(await story.prompt("three")))
    inherited.append(await by_both(database, story))
    await forked(dao, asked := asked_of(story))
    inherited.append(await by_both(database, await Story.of(dao, asked.child_id)))
    assert inherited == [0, 1, 2, 2]


async def by_both(database: Database, story: Story) -> int:
    """How many turns a fork of all that the session shows inherits; both make the same rows."""
    made: list[list[dict[str, Any]]] = []
    for statement in (forks.WHOLE, forks.FORK):
        asked = asked_of(story)
        wishes = (None, None, None, "why", b"", NOW, DEPTH, None, LOCAL.id)
        async with database.connection() as c:
            row = await c.fetchrow(statement, *forks.place(story.key.root_id, asked), *wishes)
            assert row is not None
            assert row["parent_id"] == story.key.id
            lineage = "select * from session_lineage where session_id = $1"
            rows = [await c.fetchrow(text, asked.child_id) for text in (lineage, SESSION)]
        made.append([{**row, "id": None, "session_id": None} for row in rows])
    assert made[0] == made[1]
    count: int = made[0][0]["inherited_turn_count"]
    return count


@pytest.mark.parametrize("boundary", [False, True])
async def test_what_takes_more_than_a_look_at_head_is_forked_by_the_other_statement(
    dao: Dao, database: Database, boundary: bool
) -> None:
    story = await Story.begin(dao)
    turn = await story.prompt("one")
    if not boundary:
        async with database.connection() as c:
            await c.execute("update families set family_epoch = 1")
    for _ in range(2):
        made = await forked(dao, asked_of(story, turn if boundary else None))
        assert made.lineage.inherited_turn_count == 1


@pytest.mark.lineage(1, 5)
async def test_a_child_stays_what_its_parent_was_whatever_the_parent_does(dao: Dao) -> None:
    story = await Story.begin(dao)
    first = await story.prompt("one")
    reverted = await story.prompt("two")
    await story.move(story.tree.revert(reverted))
    await story.prompt("three")
    expected = story.visible()
    await forked(dao, asked := asked_of(story))
    before = (await Story.of(dao, asked.child_id)).tree
    await story.move(story.tree.revert(first))
    await story.edit()
    after = (await Story.of(dao, asked.child_id)).tree
    assert after == before
    assert list(after.steps) == expected
    with pytest.raises(errors.UnknownTurn):
        after.revert(reverted)
    for turn in after.turns.values():
        assert turn.key is None


@pytest.mark.lineage(8, 9)
async def test_forks_of_forks_go_on_by_themselves(dao: Dao) -> None:
    story = await Story.begin(dao)
    turns = [await story.prompt("one", "two"), await story.prompt("three")]
    path = story.visible()
    for n in range(1, 5):
        made = await forked(dao, asked := asked_of(story))
        assert made.lineage.depth == n
        newborn = asked_of(await Story.of(dao, asked.child_id))
        assert (await forked(dao, newborn)).lineage.sources == made.lineage.sources
        story = await Story.of(dao, asked.child_id)
        assert story.visible() == path
        turns.append(await story.prompt(f"of {n}"))
        path = story.visible()
        assert path[-2:] == [story.tree.turns[turns[-1]].first.step_id, story.last[turns[-1]]]
        again = await Story.of(dao, asked.child_id)
        assert again.tree == story.tree
        assert [again.tree.turns[turn].effective_index for turn in turns] == list(range(len(turns)))


async def test_every_place_of_the_prefix_can_be_gone_to_and_gone_on_from(dao: Dao) -> None:
    parent = await Story.begin(dao)
    turns = [await parent.prompt("one", "two"), await parent.edit(), await parent.prompt("three")]
    await forked(dao, asked := asked_of(parent))
    child = await Story.of(dao, asked.child_id)
    for step in ["step-initial", *parent.visible()]:
        await child.move(child.tree.checkout(step))
        turn = await child.prompt("from here")
        assert child.visible()[:-2] == [] if step == "step-initial" else child.visible()[-3] == step
        assert (await Story.of(dao, asked.child_id)).tree == child.tree
        await child.move(child.tree.revert(turn))
        await child.move(child.tree.redo())
        assert (await Story.of(dao, asked.child_id)).tree == child.tree
    await child.move(child.tree.checkout(parent.last[turns[2]]))
    await child.move(child.tree.revert(turns[0]))
    assert child.tree.head == ROOT
    await child.move(child.tree.redo())
    assert child.visible() == parent.visible()


async def test_an_edit_turn_is_a_boundary_and_counts(dao: Dao) -> None:
    story = await Story.begin(dao)
    edit = await story.edit()
    for side, count in ((Side.BEFORE, 0), (Side.AFTER, 1)):
        made = await forked(dao, asked_of(story, edit, side))
        assert made.lineage.inherited_turn_count == count
    with pytest.raises(errors.BadInput):
        await forked(dao, replace(asked_of(story, edit, Side.BEFORE), mode=PendingMode.EDIT))


async def test_a_cut_turn_is_a_boundary_before_it_alone(dao: Dao) -> None:
    story = await Story.begin(dao)
    cut = await story.prompt("one", "two", "three")
    middle = story.visible()[2]
    await story.move(story.tree.revert_step(middle))
    with pytest.raises(errors.TurnIncomplete):
        await forked(dao, asked_of(story))
    with pytest.raises(errors.TurnIncomplete):
        await forked(dao, asked_of(story, cut))
    after = await story.prompt("four")
    with pytest.raises(errors.TurnIncomplete):
        await forked(dao, asked_of(story, cut))
    made = await forked(dao, asked := asked_of(story, after))
    assert made.lineage.inherited_turn_count == 2
    assert (await Story.of(dao, asked.child_id)).visible() == story.visible()
    made = await forked(dao, asked_of(story, after, Side.BEFORE))
    assert (made.lineage.inherited_turn_count, made.lineage.cutoff.seq) == (1, 2)
    assert (await forked(dao, asked_of(story, cut, Side.BEFORE))).lineage.cutoff == ROOT


async def test_a_running_parent_is_forked_at_what_is_complete(dao: Dao) -> None:
    story = await Story.begin(dao)
    done = await story.prompt("one")
    running = await story.prompt("two", end=None)
    assert (await forked(dao, asked_of(story, done))).lineage.inherited_turn_count == 1
    made = await forked(dao, asked_of(story, running, Side.BEFORE))
    assert made.lineage.inherited_turn_count == 1
    for asked in (asked_of(story), asked_of(story, running)):
        with pytest.raises(errors.TurnIncomplete):
            await forked(dao, asked)
    await story.answer("three", EndReason.STOPPED)
    assert (await forked(dao, asked_of(story, running))).lineage.inherited_turn_count == 2


async def test_a_turn_off_the_path_is_no_boundary_whoever_has_it(dao: Dao) -> None:
    story, stranger = await Story.begin(dao), await Story.begin(dao)
    kept, gone = await story.prompt("one"), await story.prompt("two")
    await story.move(story.tree.revert(gone))
    await forked(dao, asked := asked_of(story))
    child = await Story.of(dao, asked.child_id)
    for turn in (gone, await stranger.prompt("x"), await child.prompt("y"), new_id(), "nothing"):
        for side in Side:
            with pytest.raises(errors.NotOnPath) as refused:
                await forked(dao, asked_of(story, turn, side))
            assert refused.value.data == {}
    assert (await forked(dao, asked_of(child, kept))).lineage.depth == 2


@pytest.mark.lineage(3)
async def test_a_count_checks_and_is_never_clamped(dao: Dao) -> None:
    story = await Story.begin(dao)
    turn = await story.prompt("one")
    for count in (0, 2, 999):
        with pytest.raises(errors.CountMismatch) as refused:
            await forked(dao, replace(asked_of(story, turn), count=count))
        assert refused.value.data == {"inherited_turn_count": 1}
    assert (await forked(dao, replace(asked_of(story, turn), count=1))).is_new


@pytest.mark.lineage(13)
async def test_a_retry_is_the_same_fork_and_anything_else_under_its_id_a_conflict(
    dao: Dao,
) -> None:
    story = await Story.begin(dao)
    turn = await story.prompt("one")
    asked = asked_of(story, turn)
    first = await forked(dao, asked)
    await story.move(story.tree.revert(turn))
    await story.prompt("other")
    again = await forked(dao, asked)
    assert (again.lineage, again.is_new) == (first.lineage, False)
    for other in (
        replace(asked, name="Other"),
        replace(asked, boundary=Boundary(turn, Side.BEFORE)),
        replace(asked, child_id=story.key.id),
        replace(asked, source_id=asked.child_id),
    ):
        with pytest.raises(errors.LineageConflict):
            await forked(dao, other)
    await story.change(deleted=True)
    assert await forked(dao, asked) == again
    with pytest.raises(errors.SessionNotFound):
        await forked(dao, replace(asked, child_id=new_id()))
    child = await Story.of(dao, asked.child_id)
    assert len(child.visible()) == 2
    for change in ({"archived": True}, {"deleted": True}):
        await child.change(**change)
        with pytest.raises(errors.LineageConflict):
            await forked(dao, asked)


async def test_many_ask_for_the_same_fork_at_once_and_one_makes_it(dao: Dao) -> None:
    story = await Story.begin(dao)
    asked = asked_of(story, await story.prompt("one"))
    made = await asyncio.gather(*(forked(dao, asked) for _ in range(12)))
    assert sorted(fork.is_new for fork in made) == [False] * 11 + [True]
    assert len({fork.lineage for fork in made}) == 1


async def test_the_limit_of_depth_is_kept(dao: Dao) -> None:
    story = await Story.begin(dao)
    for _ in range(3):
        asked = asked_of(story)
        await forked(dao, asked, max_depth=3)
        story = await Story.of(dao, asked.child_id)
    with pytest.raises(errors.DepthLimit) as refused:
        await forked(dao, asked_of(story), max_depth=3)
    assert refused.value.data == {"limit": "max_fork_depth", "value": 3}


@pytest.mark.parametrize(
    ("name", "forks"),
    [
        ("Orders", "Orders (branch)"),
        ("Orders (branch)", "Orders (branch)"),
        ("x" * 200, "x" * 191 + " (branch)"),
    ],
)
async def test_a_forks_name_says_so_once(dao: Dao, name: str, forks: str) -> None:
    story = await Story.begin(dao, name=name)
    await forked(dao, asked := asked_of(story))
    assert (await dao.session(LOCAL, asked.child_id)).name == forks
    await forked(dao, named := replace(asked_of(story), name="Mine"))
    assert (await dao.session(LOCAL, named.child_id)).name == "Mine"


TABLES = re.findall(r"insert into (\w+)", forks.FORK)


def test_a_fork_writes_in_these_tables_alone() -> None:
    assert sorted(TABLES) == [
        "session_attachment_access",
        "session_directory",
        "session_grants",
        "session_lineage",
        "sessions",
    ]


@pytest.mark.lineage(12)
@pytest.mark.parametrize("table", TABLES)
async def test_a_write_that_fails_leaves_nothing_of_the_fork(
    dao: Dao, database: Database, table: str
) -> None:
    story = await Story.begin(dao)
    await story.prompt("one", files=[await attach(dao, story.key)])
    async with database.connection() as c:
        await c.execute("insert into principals (id) values ('local')")
        await c.execute(
            "insert into session_grants"
            " values ($2, 'local', 'local', $1, '{read}', 'x', now(), now())",
            story.key.root_id,
            story.key.id,
        )
        before = [await c.fetchval(f"select count(*) from {name}") for name in TABLES]
        await c.execute(
            "create function fail() returns trigger language plpgsql as "
            "$$ begin raise exception 'the disk is gone'; end $$"
        )
        await c.execute(
            f"create trigger fails after insert on {table} for each row execute function fail()"
        )
    asked = asked_of(story)
    with pytest.raises(asyncpg.RaiseError):
        await forked(dao, asked)
    async with database.connection() as c:
        after = [await c.fetchval(f"select count(*) from {name}") for name in TABLES]
        await c.execute(f"drop trigger fails on {table}")
    assert after == before
    assert (await forked(dao, asked)).is_new
    async with database.connection() as c:
        made = [await c.fetchval(f"select count(*) from {name}") for name in TABLES]
    assert made == [count + 1 for count in before], "each of them is a write of this fork"


async def test_the_pending_action_holds_the_prompt_or_the_draft_and_a_key(dao: Dao) -> None:
    story = await Story.begin(dao)
    turn = await story.prompt(*"abcdefg")
    cut = []
    for mode in PendingMode:
        asked = replace(asked_of(story, turn, Side.BEFORE), mode=mode)
        made = await forked(dao, asked)
        cut.append((made.lineage.cutoff, made.lineage.inherited_turn_count))
        row = await dao.session(LOCAL, asked.child_id)
        assert row.pending is not None
        assert (row.pending.mode, row.pending.draft) == (mode, "hello")
        assert row.pending.claim is None
    assert cut == [(ROOT, 0)] * 2
    asked = replace(asked_of(story, turn, Side.BEFORE), mode=PendingMode.EDIT, draft="hello!")
    await forked(dao, asked)
    pending = (await dao.session(LOCAL, asked.child_id)).pending
    assert pending is not None
    assert (pending.draft, pending.turn_key) == ("hello!", asked.child_id)


async def test_the_lineage_is_checked_by_the_database_too(dao: Dao, database: Database) -> None:
    story = await Story.begin(dao)
    await story.prompt("one")
    await forked(dao, asked_of(story))
    async with database.connection() as c:
        for change in (
            "inherited_turn_count = 0",
            "inherited_turn_count = -1",
            "parent_id = session_id",
            "cutoff_step = null",
            "sources = '{}'",
            "boundary_turn = session_id",
        ):
            with pytest.raises(asyncpg.CheckViolationError):
                await c.execute(f"update session_lineage set {change}")


@pytest.mark.lineage(21)
async def test_a_parent_and_its_forks_have_spent_each_record_once(
    dao: Dao, database: Database
) -> None:
    family = [await Story.begin(dao)]
    for n in range(2):
        await family[0].prompt(f"one {n}", f"two {n}")
    alone = await dao.transcripts.usage(LOCAL, family[0].key)
    for n in range(10):  # of the parent, and of one another
        await forked(dao, asked := asked_of(family[n // 2]))
        family.append(await Story.of(dao, asked.child_id))
        await family[-1].prompt("more")
    used = [await dao.transcripts.usage(LOCAL, story.key) for story in family]
    assert used[0] == alone
    assert [usage.visible.steps for usage in used] == [len(story.visible()) for story in family]
    async with database.connection() as c:
        records = await c.fetchval("select count(*) from records")
    assert sum(usage.spent.steps for usage in used) == records == 6 + 10 * 2
    assert sum(usage.spent.turns for usage in used) == 2 + 10


@pytest.mark.lineage(23)
@pytest.mark.parametrize(
    "damage",
    [
        "update branches set below = id where below is not null",
        "delete from branches where cutoff_seq between 60 and 66",
        "delete from branches where cutoff_seq = 30",
        "delete from records where seq = 35",
        "update session_lineage set cutoff_branch = parent_id",
        "delete from session_lineage",
    ],
)
async def test_damaged_rows_end_in_a_typed_error_and_no_endless_walk(
    dao: Dao, database: Database, damage: str
) -> None:
    story = await Story.begin(dao)
    for _ in range(80):
        await story.edit()
        await story.move(story.tree.revert(await story.edit()))
    await forked(dao, asked := asked_of(story))
    async with database.connection() as c:
        await c.execute(damage)
    async with asyncio.timeout(8):
        with pytest.raises((errors.HistoryMissing, errors.SessionNotFound)):
            await whole(dao, asked.child_id)
        with suppress(errors.HistoryMissing, errors.SessionNotFound):
            await forked(dao, Fork(asked.child_id, grandchild := new_id()))
            await whole(dao, grandchild)


async def whole(dao: Dao, session_id: str) -> list[str]:
    """The steps of a transcript, by the tree and by the statement."""
    story = await Story.of(dao, session_id)
    told = (await dao.transcripts.page(LOCAL, story.key, after=0, limit=100_000)).ids or []
    assert told == story.visible()
    return told


@pytest.mark.lineage(10)
async def test_a_prefix_that_has_parted_often_is_loaded_whole(dao: Dao, database: Database) -> None:
    story = await Story.begin(dao)
    for _ in range(250):  # all of one instant
        await story.edit()
        await story.move(story.tree.revert(await story.edit()))
    await forked(dao, asked := asked_of(story))
    child = await Story.of(dao, asked.child_id)
    assert child.visible() == story.visible() == await whole(dao, asked.child_id)
    on_path = {step.branch_id for step in story.tree.path()}
    assert {id_: story.tree.branches[id_] for id_ in on_path} == child.tree.branches
    turn = await child.edit()
    branch = child.tree.branches[child.tree.turns[turn].first.branch_id or ""]
    assert branch.segment_count == 251
    assert await whole(dao, asked.child_id) == child.visible()


@pytest.mark.parametrize("visibility", Visibility)
async def test_a_fork_is_no_more_open_than_its_parent_and_keeps_the_forkers_own_grants(
    dao: Dao, visibility: Visibility
) -> None:
    make = dao.identities.make_key
    people = {}
    for name in ("ann", "bob", "eve"):
        _, text = await make(service_of("local"), name, name="", role=None, expires_at=None)
        people[name] = await dao.identities.by_key(text)
    story = await Story.begin(dao)
    asked = asked_of(story, await story.prompt("one"))
    every = frozenset({Right.READ, Right.RUN, Right.FORK})
    grants = {"ann": every - {Right.RUN}, "bob": every, "eve": every - {Right.FORK}}
    for name, rights in grants.items():
        await story.change(grant=Grant(name, rights))
    await story.change(visibility=visibility)
    made = await dao.fork(people["ann"], asked, now=NOW, max_depth=DEPTH)
    assert made.is_new
    row = await dao.session(LOCAL, asked.child_id)
    assert (row.owner, row.visibility) == ("ann", visibility)
    assert await dao.access.rights(people["ann"], row.key) == grants["ann"]
    assert await dao.access.rights(people["bob"], row.key) == frozenset()
    with pytest.raises(errors.NotAllowed):
        await dao.fork(people["eve"], asked_of(story), now=NOW, max_depth=DEPTH)
    with pytest.raises(errors.LineageConflict):
        await dao.fork(people["bob"], asked, now=NOW, max_depth=DEPTH)
    await story.change(grant=Grant("ann", frozenset()))
    assert await dao.access.rights(people["ann"], row.key) == frozenset()
    for child_id in (asked.child_id, new_id()):
        with pytest.raises(errors.SessionNotFound):
            await dao.fork(
                people["bob" if child_id == asked.child_id else "ann"],
                replace(asked, source_id=new_id(), child_id=child_id),
                now=NOW,
                max_depth=DEPTH,
            )


@pytest.mark.parametrize("count", [100, pytest.param(1_000, marks=pytest.mark.soak)])
async def test_forks_raced_against_a_writer_hold_whole_turns(dao: Dao, count: int) -> None:
    story = await Story.begin(dao)
    turns = [await story.prompt("first")]
    over = asyncio.Event()

    async def write() -> None:
        while not over.is_set():
            turns.append(await story.prompt("one", "two"))

    async def fork(n: int) -> str | None:
        asked = asked_of(story) if n % 2 else asked_of(story, turns[-1])
        with suppress(errors.TurnIncomplete):
            await forked(dao, asked)
            return asked.child_id
        return None

    writing = asyncio.create_task(write())
    made: list[str | None] = []
    for n in range(0, count, 5):
        made += await asyncio.gather(*(fork(n + k) for k in range(5)))
    over.set()
    await writing
    children = [child for child in made if child is not None]
    assert len(children) >= count // 2  # after a turn that is over nothing stands against it
    path = story.visible()
    for child_id in children[:: max(1, count // 100)]:
        child = await Story.of(dao, child_id)
        inherited = child.visible()
        assert inherited == path[: len(inherited)]
        assert (
            len(child.tree.turns)
            == child.tree.turns[child.tree.steps[inherited[-1]].turn_id].effective_index + 1
        )
        assert child.tree.steps[inherited[-1]].end_reason is EndReason.COMPLETE


@pytest.mark.soak
async def test_a_prefix_at_the_limit_of_segments_is_forked_loaded_and_gone_on_from(
    dao: Dao, fresh_database: str
) -> None:
    story = await Story.begin(dao)
    await parted(fresh_database, story.key.root_id, times=100_000)
    async with asyncio.timeout(60):
        await forked(dao, asked := Fork(story.key.id, new_id()))
        child = await Story.of(dao, asked.child_id)
        assert [step.seq for step in child.tree.path()] == list(range(100_000, 0, -1))
        middle = list(child.tree.steps)[50_000]
        await child.move(child.tree.checkout(middle))
        await child.edit()
        assert len(await whole(dao, asked.child_id)) == 50_002


async def parted(url: str, root: str, *, times: int) -> None:
    """A session whose line parts with each of its edits, as rows written at once."""
    rows: dict[str, Branch] = {}
    head, records, turns = ROOT, [], []
    for n in range(times):
        branch = branch_off(rows, head, branch_id=new_id(), session_id=root)
        rows[branch.id] = branch
        step, turn, before = new_id(), new_id(), None if head == ROOT else head.step_id
        head = Position(branch.id, n + 1, step)
        records.append((root, root, branch.id, n + 1, step, turn, 0, "user", before, b"", b"",
                        "complete", n + 1, "local", NOW, '{"content":"x"}'))  # fmt: skip
        turns.append((root, root, turn, "edit", "complete", branch.id, n + 1, step, n + 1, n,
                      "local", NOW, NOW))  # fmt: skip
    branches = (
        (root, b.id, root, b.cutoff.branch_id, b.cutoff.seq,
         None if b.cutoff == ROOT else b.cutoff.step_id, [s.source for s in b.segments],
         [s.lo for s in b.segments], [s.hi for s in b.segments], b.below, b.segment_count)
        for b in rows.values()
    )  # fmt: skip
    c = await asyncpg.connect(asyncpg_dsn(url))
    try:
        for table, columns, values in (
            ("branches", "root_id id session_id cutoff_branch cutoff_seq cutoff_step src lo hi "
             "below segment_count", branches),
            ("records", "root_id session_id branch_id seq id turn_id step_index role parent_id "
             "before_hash after_hash end_reason event_seq principal created_at payload", records),
            ("turns", "root_id session_id id kind status first_branch first_seq first_step "
             "last_seq effective_index principal created_at sealed_at", turns),
        ):  # fmt: skip
            await c.copy_records_to_table(table, records=values, columns=columns.split())
        await c.execute("analyze")
        await c.execute(
            "update sessions set head_branch = $2, head_seq = $3, head_step = $4 where id = $1",
            root, head.branch_id, head.seq, head.step_id,
        )  # fmt: skip
    finally:
        await c.close()
