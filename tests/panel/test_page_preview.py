"""A revert is looked at before it is done: what goes, what changes; exactly that then happens."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from desk import BUILD, REPORT, Service
from playwright.async_api import expect

from turnback.store.url import asyncpg_dsn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from desk import Desk

pytestmark = pytest.mark.browser

CHANGE = "Change op2 to amount > 100 then delete op1"
SORT = "Sort by amount"


async def test_an_older_turn_is_looked_at_first_and_then_reverted(
    service: Service, desk: Desk
) -> None:
    session_id = await service.session()
    await desk.open(session_id)
    await desk.ask(BUILD)
    built = await service.workflow(session_id)
    await desk.ask(CHANGE)
    await desk.ask(SORT)
    now = await service.workflow(session_id)

    button = desk.revert_button(CHANGE)
    await button.focus()
    await desk.page.keyboard.press("Enter")
    sheet = desk.sheet
    await expect(sheet.get_by_role("heading", level=2)).to_be_focused()
    await expect(sheet).to_contain_text("2 turns would leave the conversation")
    await expect(sheet.locator(".preview-turns li")).to_have_text([CHANGE, SORT])
    await expect(desk.page.locator(".turn.is-going")).to_have_count(2)
    marks = {"Load sales": "returns", "Keep real sales": "changes", "Sort by amount": "goes"}
    for name, mark in marks.items():
        await expect(desk.operator(name)).to_have_attribute("data-mark", mark)
    await expect(desk.operators).to_have_count(len({*REPORT, *marks}))
    await expect(desk.page.locator(".operator[data-mark]")).to_have_count(len(marks))
    await expect(desk.operator("Load sales")).to_contain_text("comes back")
    await expect(desk.page.locator(".react-flow__edge.mark-returns")).to_have_count(1)
    changed = sheet.locator(".change").filter(has_text="Keep real sales").first
    await expect(changed).to_contain_text(re.compile("predicates: amount > 100.*amount > 0"))

    first, second = sheet.locator(".change").nth(0), sheet.locator(".change").nth(1)
    await first.focus()
    await desk.page.keyboard.press("ArrowDown")
    await expect(second).to_be_focused()
    await expect(desk.page.locator(".react-flow__node.selected")).to_have_count(1)
    assert await service.workflow(session_id) == now

    await desk.page.keyboard.press("Escape")
    await expect(sheet).to_have_count(0)
    await expect(button).to_be_focused()
    await expect(desk.page.locator("[data-mark]")).to_have_count(0)

    await desk.page.keyboard.press("Enter")
    await sheet.get_by_role("button", name="Revert 2 turns").click()
    await expect(desk.prompts).to_have_text([BUILD])
    assert await service.workflow(session_id) == built
    await expect(desk.composer).to_be_focused()
    await expect(desk.composer).to_have_value(CHANGE)
    await expect(desk.said).to_have_text("Reverted 2 turns. Redo is available.")
    await expect(desk.dock).to_contain_text(f"Reverted 2 turns, to before “{CHANGE}”")
    await desk.page.reload()
    await expect(desk.dock).to_contain_text(f"Reverted 2 turns, to before “{CHANGE}”")
    await desk.redo.click()
    await expect(desk.prompts).to_have_text([BUILD, CHANGE, SORT])
    assert await service.workflow(session_id) == now


async def test_a_persons_edits_can_be_kept(service: Service, desk: Desk) -> None:
    session_id = await service.session()
    await desk.open(session_id)
    await desk.ask("Load sales.csv")
    await desk.ask(SORT)
    await desk.page.get_by_role("button", name="Note", exact=True).click()
    await expect(desk.prompts).to_have_count(3)
    await desk.revert_button(SORT).click()
    await expect(desk.sheet).to_contain_text("1 canvas edit made by hand would go too.")
    await desk.sheet.get_by_label("Keep my edits").check()
    await desk.sheet.get_by_role("button", name="Revert, keep the edits").click()
    await expect(desk.sheet).to_have_count(0)
    await expect(desk.operators).to_have_count(1)
    await expect(desk.page.locator(".comment")).to_have_count(1)
    await expect(desk.dock).to_have_count(0)
    document = json.loads(await service.workflow(session_id))
    assert len(document["operators"]) == len(document["commentBoxes"]) == 1


async def test_another_persons_edit_is_looked_at_before_it_is_taken_back(
    tmp_path: Path, fresh_database: str, desk_of: Callable[..., Any]
) -> None:
    shared = Service(tmp_path, delay_ms=4, env={"TURNBACK_DATABASE_URL": fresh_database})
    await shared.start()
    session_id = await shared.session()
    note = {"op": "addComment", "comment": {"commentBoxID": "note", "comments": []}}
    edit = {"type": "WsClientEditWorkflowCommand", "baseHeadId": "step-initial", "edits": [note]}
    await shared.command(session_id, **edit)
    await shared.drain()
    # There is one principal so far: the edit is given to another one while nobody holds it.
    connection = await asyncpg.connect(asyncpg_dsn(fresh_database))
    await connection.execute("update turns set principal = 'bob'")
    await connection.close()
    await shared.start()

    desk: Desk = await desk_of(shared)
    await desk.open(session_id)
    edited = "Added a comment"
    await desk.revert_button(edited).click()  # the newest turn: one's own would go at once
    await expect(desk.sheet).to_contain_text("1 canvas edit made by hand, some of them by bob,")
    await expect(desk.page.locator(".comment")).to_have_count(1)
    await desk.sheet.get_by_role("button", name="Revert their edits too").click()
    await expect(desk.sheet).to_have_count(0)
    await expect(desk.page.locator(".comment")).to_have_count(0)
    await expect(desk.dock).to_be_visible()
    await shared.stop()


async def test_what_was_agreed_to_is_what_happens(service: Service, desk: Desk) -> None:
    session_id = await service.session()
    await desk.open(session_id)
    await desk.ask("Load sales.csv")
    await desk.ask(SORT)
    sheet = await desk.look("Load sales.csv")
    await expect(sheet.get_by_role("button", name="Revert 2 turns")).to_be_enabled()
    await service.command(session_id, type="WsClientPromptCommand", content="Keep the first 3 rows")
    await expect(sheet).to_contain_text("The conversation has moved on.")
    await sheet.get_by_role("button", name="Revert 3 turns").click()
    await expect(desk.prompts).to_have_count(0)
    await expect(desk.dock).to_contain_text("Reverted 3 turns")


async def test_a_turn_can_be_reverted_to_before_one_of_its_steps(
    service: Service, desk: Desk
) -> None:
    session_id = await service.session()
    await desk.open(session_id)
    await desk.ask(BUILD)
    await desk.page.get_by_role("button", name=f"More for “{BUILD}”").press("Enter")
    await desk.page.get_by_role("menuitem", name="Revert to before step 3").click()
    await expect(desk.sheet).to_contain_text(f"Revert to before step 3 of “{BUILD}”?")
    await desk.sheet.get_by_role("button", name="Revert").last.click()
    await expect(desk.operators).to_have_count(2)
    await expect(desk.page.locator(".agent-step")).to_have_count(2)
    await expect(desk.dock).to_contain_text("Reverted to the middle of a turn")
    await expect(desk.composer).to_have_value("")
    await desk.redo.click()
    await expect(desk.operators).to_have_count(4)
