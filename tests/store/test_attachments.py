"""Who may read which file, through forks; and a sweep that takes no file which somebody needs.

Against a real PostgreSQL and real files.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from stored import NOW, PLENTY, Story, attach, chunks, waiting

from turnback.core.attachments import UNNAMED
from turnback.core.errors import (
    AttachmentGone,
    AttachmentInherited,
    AttachmentNotFound,
    SessionNotFound,
    TurnbackError,
)
from turnback.core.lineage import Boundary, Fork, Side
from turnback.core.principal import LOCAL
from turnback.core.workflow import EMPTY
from turnback.store import forks
from turnback.store.attachments import AttachmentRow
from turnback.store.dao import Dao
from turnback.store.database import Database
from turnback.store.files import Received
from turnback.store.ids import new_id
from turnback.store.rows import SessionKey


@pytest.fixture
async def database(fresh_database: str) -> AsyncIterator[Database]:
    database = await Database.open(fresh_database, size=8, connect_timeout=5, statement_timeout=10)
    yield database
    await database.close()


@pytest.fixture
def dao(database: Database, tmp_path: Path) -> Dao:
    return Dao(
        database, node_id=new_id(), max_redo_depth=3, directory_cache=100, attachments=tmp_path
    )


async def prompt(story: Story, *files: AttachmentRow) -> str:
    """A turn whose prompt names these files, and its end; the turn's id."""
    return await story.prompt("done", files=files)


async def fork(dao: Dao, key: SessionKey, turn: str | None = None, side: Side = Side.AFTER) -> str:
    boundary = None if turn is None else Boundary(turn, side)
    asked = Fork(key.id, new_id(), boundary)
    await dao.fork(LOCAL, asked, now=NOW, max_depth=128)
    return asked.child_id


async def readable(dao: Dao, session_id: str) -> set[str]:
    key = await dao.key(LOCAL, session_id)
    rows = await dao.attachments.page(LOCAL, key, before=None, limit=1_000)
    return {row.id for row in rows}


async def content(dao: Dao, session_id: str, attachment_id: str) -> bytes:
    key = await dao.key(LOCAL, session_id)
    _, file = await dao.attachments.open(LOCAL, key, attachment_id)
    return await file.read()


async def sweep(dao: Dao, *, grace: float = 0, upload_grace: float = 3600) -> int:
    return await dao.attachments.sweep.run(grace=grace, upload_grace=upload_grace)


def kept_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def delete(database: Database, session_id: str, *, purge: bool = False) -> None:
    column = "deleted_at = now() - interval '1 day', purged_at = now()" if purge else (
        "deleted_at = now() - interval '1 day'"
    )  # fmt: skip
    async with database.connection() as connection:
        await connection.execute(f"update sessions set {column} where id = $1", session_id)


# -- through forks


async def test_a_fork_reads_what_its_prefix_refers_to_and_nothing_else(dao: Dao) -> None:
    story = await Story.begin(dao)
    first, second, never = [await attach(dao, story.key) for _ in range(3)]
    turns = [await prompt(story, first), await prompt(story), await prompt(story, second)]
    later = await attach(dao, story.key)
    wanted = [(set(), {first.id}), ({first.id}, {first.id}), ({first.id}, {first.id, second.id})]
    for turn, (before, after) in zip(turns, wanted, strict=True):
        assert await readable(dao, await fork(dao, story.key, turn, Side.BEFORE)) == before
        assert await readable(dao, await fork(dao, story.key, turn)) == after
    child = await fork(dao, story.key)
    assert await readable(dao, child) == {first.id, second.id}
    await prompt(story, later)
    assert await readable(dao, child) == {first.id, second.id}
    for unread in (never, later):
        with pytest.raises(AttachmentNotFound):
            await content(dao, child, unread.id)
    assert await content(dao, child, first.id) == first.id.encode()


async def test_what_a_reverted_turn_referred_to_is_not_inherited(dao: Dao) -> None:
    story = await Story.begin(dao)
    kept, reverted = [await attach(dao, story.key) for _ in range(2)]
    await prompt(story, kept)
    gone = await prompt(story, reverted)
    await story.move(story.tree.revert(gone))
    assert await readable(dao, await fork(dao, story.key)) == {kept.id}
    await prompt(story)  # on a branch of its own, at the place of the one that was taken back
    assert await readable(dao, await fork(dao, story.key)) == {kept.id}


async def test_a_fork_of_a_fork_reads_the_files_of_both(dao: Dao) -> None:
    story = await Story.begin(dao)
    old = await attach(dao, story.key)
    await prompt(story, old)
    child = await Story.of(dao, await fork(dao, story.key))
    assert await readable(dao, await fork(dao, child.key)) == {old.id}  # of a newborn one
    own = await attach(dao, child.key)
    turn = await prompt(child, own, old)
    grandchild = await fork(dao, child.key)
    assert await readable(dao, grandchild) == {old.id, own.id}
    assert await readable(dao, await fork(dao, child.key, turn, Side.BEFORE)) == {old.id}
    assert await readable(dao, story.key.id) == {old.id}
    key = await dao.key(LOCAL, grandchild)
    assert {
        row.id: row.session_id for row in await dao.attachments.named(LOCAL, key, [old.id, own.id])
    } == {old.id: story.key.id, own.id: child.key.id}


async def test_files_far_down_a_path_that_parts_again_and_again_are_inherited(dao: Dao) -> None:
    story = await Story.begin(dao)
    files = []
    for n in range(150):  # beyond what one row of segments holds
        named = [await attach(dao, story.key)] if n % 50 == 0 else []
        files += named
        await prompt(story, *named)
        gone = await prompt(story, *files[:1])
        await story.move(story.tree.revert(gone))
    assert story.tree.branches[story.tree.head.branch_id or ""].segment_count > 128
    assert await readable(dao, await fork(dao, story.key)) == {file.id for file in files}


async def test_a_fork_with_a_hundred_files_is_still_one_statement(
    dao: Dao, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = await Story.begin(dao)
    files = [await attach(dao, story.key) for _ in range(100)]
    for at in range(0, 100, 20):
        await prompt(story, *files[at : at + 20])
    written = []
    write = dao._write
    monkeypatch.setattr(
        dao,
        "_write",
        lambda text, args, **more: (written.append(text), write(text, args, **more))[1],
    )
    await fork(dao, story.key)
    assert written == [forks.WHOLE, forks.FORK], "the former makes none where there are files"
    written.clear()
    child = await fork(dao, story.key)
    assert written == [forks.FORK], "and is not asked again"
    assert len(await readable(dao, child)) == 100
    async with database.connection() as connection:
        added = await connection.fetchval(
            "select count(*) from attachments where session_id = $1", child
        )
    assert added == 0


@pytest.mark.lineage(18)
async def test_a_child_cannot_remove_an_inherited_file_and_its_owner_can(dao: Dao) -> None:
    story = await Story.begin(dao)
    file = await attach(dao, story.key)
    await prompt(story, file)
    child = await dao.key(LOCAL, await fork(dao, story.key))
    with pytest.raises(AttachmentInherited):
        await dao.attachments.remove(LOCAL, child, file.id)
    assert await content(dao, story.key.id, file.id) == await content(dao, child.id, file.id)
    await dao.attachments.remove(LOCAL, story.key, file.id)
    for session in (story.key.id, child.id):
        with pytest.raises(AttachmentGone):
            await content(dao, session, file.id)
    assert await readable(dao, await fork(dao, story.key)) == set()
    row = await dao.attachments.get(LOCAL, child, file.id)
    assert row == replace(file, ready=False)


@pytest.mark.lineage(16)
async def test_an_inherited_file_outlives_its_session_but_not_a_purge(
    dao: Dao, database: Database
) -> None:
    story = await Story.begin(dao)
    file = await attach(dao, story.key)
    await prompt(story, file)
    child = await fork(dao, story.key)
    await delete(database, story.key.id)
    assert await sweep(dao) == 0
    assert await content(dao, child, file.id) == file.id.encode()
    await delete(database, story.key.id, purge=True)
    with pytest.raises(AttachmentGone):
        await content(dao, child, file.id)
    assert await sweep(dao) == 1
    row = await dao.attachments.get(LOCAL, await dao.key(LOCAL, child), file.id)
    assert (row.ready, row.name) == (False, "file")


async def test_the_sessions_of_another_project_share_no_bytes(dao: Dao, tmp_path: Path) -> None:
    story = await Story.begin(dao)
    await attach(dao, story.key, b"same")
    stranger = replace(LOCAL, project_id="other")
    key = await dao.create(
        stranger, session_id=new_id(), name="x", model="offline", workflow=EMPTY, now=NOW
    )
    async with dao.attachments.files.receiving(chunks(b"same")) as received:
        await dao.attachments.add(
            stranger, key, received, attachment_id=new_id(), name="x", room=PLENTY, now=NOW
        )
    places = sorted(path.parent.name for path in kept_files(tmp_path))
    assert places == ["local", "other"]
    with pytest.raises(SessionNotFound):
        await dao.key(stranger, story.key.id)


# -- the sweep


@pytest.mark.lineage(15)
async def test_a_sweep_takes_what_nothing_refers_to_and_only_that(
    dao: Dao, database: Database, tmp_path: Path
) -> None:
    story, gone = await Story.begin(dao), await Story.begin(dao)
    kept, removed = await attach(dao, story.key), await attach(dao, story.key)
    unread = await attach(dao, gone.key)
    both = await attach(dao, story.key, b"both")
    await attach(dao, gone.key, b"both")
    await dao.attachments.remove(LOCAL, story.key, removed.id)
    await delete(database, gone.key.id)
    orphan = tmp_path / "local" / ("ab" * 32)
    orphan.write_bytes(b"left by a crash")
    cut_off = tmp_path / ".uploads" / new_id()
    cut_off.write_bytes(b"left by another")
    assert await sweep(dao, grace=3600) == 0
    assert len(kept_files(tmp_path)) == 6
    assert await sweep(dao, upload_grace=-1) == 4  # the orphan had a row by then
    left = {path.name for path in kept_files(tmp_path)}
    assert left == {kept.sha256, both.sha256}
    assert await sweep(dao) == 0
    for file in (kept, both):
        await content(dao, story.key.id, file.id)
    with pytest.raises(AttachmentGone):
        await content(dao, gone.key.id, unread.id)


async def test_a_purge_waits_for_an_upload_and_takes_its_file_too(
    dao: Dao, database: Database
) -> None:
    other, story = await Story.begin(dao), await Story.begin(dao)
    await attach(dao, other.key, b"the same")
    async with asyncio.timeout(30), database.connection() as holder:
        holding = holder.transaction()
        await holding.start()
        await holder.execute("select from attachment_objects for update")
        upload = asyncio.create_task(attach(dao, story.key, b"the same"))
        await waiting(database, 1)
        await story.delete()
        purge = asyncio.create_task(dao.purge(LOCAL, story.key.id, batch=10))
        both = asyncio.create_task(waiting(database, 2))
        await asyncio.wait({purge, both}, return_when=asyncio.FIRST_COMPLETED)
        await holding.rollback()
        await asyncio.gather(upload, purge, both)
    assert (await purge).attachments == 1
    text = "select name, deleted_at is not null from attachments where session_id = $1::uuid"
    [left] = await database.run(lambda c: c.fetch(text, story.key.id))
    assert tuple(left) == (UNNAMED, True)


async def test_a_sweep_in_the_middle_of_an_upload_of_the_same_bytes_leaves_its_file(
    dao: Dao, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = await Story.begin(dao)
    file = await attach(dao, story.key, b"same")
    await dao.attachments.remove(LOCAL, story.key, file.id)
    keep, sweeps = dao.attachments.files.keep, []

    async def keep_and_sweep(received: Received, project_id: str) -> None:
        await keep(received, project_id)
        sweeps.append(asyncio.create_task(sweep(dao)))
        await asyncio.wait(sweeps, timeout=0.5)

    monkeypatch.setattr(dao.attachments.files, "keep", keep_and_sweep)
    again = await attach(dao, story.key, b"same")
    assert await asyncio.gather(*sweeps) == [0]
    assert await content(dao, story.key.id, again.id) == b"same"


async def test_a_sweep_raced_against_uploads_of_the_same_bytes_loses_no_file(
    dao: Dao, database: Database
) -> None:
    story = await Story.begin(dao)
    stop = asyncio.Event()
    swept = 0

    async def sweeping() -> None:
        nonlocal swept
        while not stop.is_set():
            swept += await sweep(dao)

    sweepers = [asyncio.create_task(sweeping()) for _ in range(2)]
    for n in range(40):
        made = await asyncio.gather(*(attach(dao, story.key, b"same") for _ in range(3)))
        for file in made:
            assert await content(dao, story.key.id, file.id) == b"same"
        await asyncio.gather(*(dao.attachments.remove(LOCAL, story.key, file.id) for file in made))
        await asyncio.sleep(0.002 * (n % 3))
    stop.set()
    await asyncio.gather(*sweepers)
    assert swept > 5


@pytest.mark.lineage(17)
async def test_a_sweep_raced_against_forks_and_deletes_loses_no_file(
    dao: Dao, database: Database
) -> None:
    made_or_not: list[bool] = []
    for n in range(15):
        story = await Story.begin(dao)
        file = await attach(dao, story.key)
        await prompt(story, file)

        async def forked(key: SessionKey = story.key) -> str | None:
            try:
                return await fork(dao, key)
            except TurnbackError:  # it was deleted first
                return None

        forks = [asyncio.create_task(forked()) for _ in range(4)]
        await asyncio.sleep(0.001 * (n % 4))
        _, _, *made = await asyncio.gather(delete(database, story.key.id), sweep(dao), *forks)
        await sweep(dao)
        for child in made:
            if child is not None:
                assert await content(dao, child, file.id) == file.id.encode()
        made_or_not += [child is not None for child in made]
    assert set(made_or_not) == {True, False}, "no race"


async def test_what_is_swept_while_the_disk_refuses_goes_the_next_time(
    dao: Dao, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = await Story.begin(dao)
    file = await attach(dao, story.key)
    await dao.attachments.remove(LOCAL, story.key, file.id)

    def refuse(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "unlink", refuse)
        with pytest.raises(TurnbackError, match="cannot be read or written"):
            await sweep(dao)
    assert (tmp_path / "local" / file.sha256).exists()
    assert await sweep(dao) == 1
    assert not (tmp_path / "local" / file.sha256).exists()
