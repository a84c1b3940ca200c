"""Plans of a change of what a session's next runs are held to, over a stored session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from turnback.core.errors import Archived, NotStricter
from turnback.core.principal import LOCAL
from turnback.core.run_settings import RunSettings, RunSettingsChange
from turnback.core.workflow import EMPTY
from turnback.sessions.commands import Asked, Change
from turnback.sessions.memory import Memory
from turnback.sessions.planning import Planner
from turnback.sessions.plans import Plan
from turnback.settings import Settings
from turnback.store.dao import Dao
from turnback.store.database import Database
from turnback.store.ids import new_id
from turnback.store.outbox import SessionChanged
from turnback.store.rows import Alive, Idle, SessionChange

SETTINGS = Settings(max_steps=10)


@pytest.fixture
async def memory(fresh_database: str, tmp_path: Path) -> AsyncIterator[Memory]:
    """A session with a limit of its own, as just read."""
    database = await Database.open(fresh_database, size=2, connect_timeout=5, statement_timeout=10)
    dao = Dao(
        database, node_id=new_id(), max_redo_depth=3, directory_cache=100, attachments=tmp_path
    )
    key = await dao.create(
        LOCAL,
        session_id=new_id(),
        name="Orders",
        model="offline",
        workflow=EMPTY,
        now=datetime.now(UTC),
        settings={"max_steps": 5},
    )
    memory = Memory(dao=dao, service=LOCAL, settings=SETTINGS, key=key)
    memory.adopt(await memory.read())
    yield memory
    await database.close()


async def planned(memory: Memory, change: Change) -> Plan | None:
    planner = Planner(memory, SETTINGS, node_id=new_id())
    plan = await planner.plan(Asked(change, LOCAL), draining=False)
    assert plan is None or isinstance(plan, Plan)
    return plan


async def follow(memory: Memory, change: Change) -> None:
    """Make a change durable, and let memory follow."""
    plan = await planned(memory, change)
    assert plan is not None
    commit = Planner(memory, SETTINGS, node_id=new_id()).commit(plan, Asked(change, LOCAL))
    committed = await memory.dao.commit(commit)
    assert committed is not None
    memory.follow(commit, None, committed.revision)
    followed = memory.row
    memory.adopt(await memory.read())
    assert (followed.settings, followed.model) == (memory.row.settings, memory.row.model)
    assert followed.archived_at == memory.row.archived_at


async def test_a_plan_holds_what_changes_and_nothing_else(memory: Memory) -> None:
    same: list[Change] = [Change(), Change(settings={}), Change(settings={"max_steps": 5})]
    for change in [*same, Change(model="offline", settings={"disabled_tools": []})]:
        assert await planned(memory, change) is None
    settings: RunSettingsChange = {"max_steps": 5, "tool_timeout": 2.0}
    plan = await planned(memory, Change(name="Orders", model="openai:m", settings=settings))
    assert plan is not None
    assert plan.guard == Alive()  # a run under way is no reason to refuse it
    assert plan.change is not None
    assert plan.change.settings == {"tool_timeout": 2.0}
    assert plan.notices == (
        SessionChanged("model", model="openai:m"),
        SessionChanged("settings", settings={"tool_timeout": 2.0}),
    )


async def test_memory_follows_a_change_as_it_was_stored(memory: Memory) -> None:
    await follow(memory, Change(settings={"disabled_tools": ["getWorkflow"], "run_timeout": 2.5}))
    assert memory.row.settings == RunSettings(
        max_steps=5, run_timeout=2.5, disabled_tools=("getWorkflow",)
    )
    await follow(memory, Change(model="openai:m", settings={"max_steps": None}))
    assert memory.row.settings.max_steps is None
    assert memory.row.model == "openai:m"
    await follow(memory, Change(settings={"disabled_tools": [], "run_timeout": None}))
    assert memory.row.settings == RunSettings()


async def test_a_looser_setting_is_refused_with_all_that_was_asked_with_it(memory: Memory) -> None:
    with pytest.raises(NotStricter):
        await planned(memory, Change(name="other", settings={"max_steps": 11}))


async def test_an_archived_sessions_runs_are_changed_only_as_it_is_unarchived(
    memory: Memory,
) -> None:
    plan = await planned(memory, Change(archived=True, settings={"max_steps": 4}))
    assert plan is not None
    assert plan.guard == Idle(memory.revision)
    await follow(memory, Change(archived=True, settings={"max_steps": 4}))
    for change in (Change(settings={"max_steps": 3}), Change(model="openai:m", archived=True)):
        with pytest.raises(Archived):
            await planned(memory, change)
    assert await planned(memory, Change(settings={"max_steps": 4})) is None
    plan = await planned(memory, Change(archived=False, settings={"max_steps": 3}))
    assert plan is not None
    assert plan.change == SessionChange(archived=False, settings={"max_steps": 3})
