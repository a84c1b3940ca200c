"""The list of sessions, and addresses that show none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

if TYPE_CHECKING:
    from pathlib import Path

    from desk import Desk, Service

pytestmark = pytest.mark.browser


async def test_a_file_that_cannot_be_held_is_refused_with_its_path(
    service: Service, desk: Desk, tmp_path: Path
) -> None:
    file = tmp_path / "bad.json"
    file.write_text('{"operators": [{"operatorID": "a", "operatorType": 7}]}')
    await desk.choose_file("Open a workflow file", file)
    note = desk.page.get_by_role("alert").locator(".toast")
    await expect(note).to_contain_text("/operators/0/operatorType")
    file.write_text("{")
    await desk.choose_file("Open a workflow file", file)
    await expect(note.last).to_contain_text("is not JSON")
    await expect(desk.page.get_by_role("heading", name="Sessions")).to_be_visible()


async def test_sessions_are_found_renamed_archived_and_deleted(
    service: Service, desk: Desk
) -> None:
    for name in ("Harvest plan", "Harvest report", "Trips"):
        await service.session(name=name)
    page = desk.page
    await page.reload()
    names = page.locator(".session-link")
    await page.get_by_label("Search sessions by name").fill("harvest")
    await expect(names).to_have_text(["Harvest report", "Harvest plan"])

    await page.get_by_role("button", name="More for Harvest plan").click()
    await page.get_by_role("menuitem", name="Rename").click()
    await page.get_by_role("textbox", name="Session name").fill("Harvest draft")
    await page.keyboard.press("Enter")
    await expect(names).to_have_text(["Harvest report", "Harvest draft"])

    await page.get_by_role("button", name="More for Harvest draft").click()
    await page.get_by_role("menuitem", name="Archive").click()
    await expect(names).to_have_text(["Harvest report"])
    await page.get_by_role("button", name="Archived").click()
    await expect(names).to_have_text(["Harvest draft"])
    await names.click()
    await expect(desk.status).to_have_text("Archived, read-only")
    await desk.composer.fill("hello")
    await expect(page.get_by_role("button", name="Send")).to_be_disabled()
    await page.get_by_role("link", name="All sessions").click()

    await page.get_by_label("Search sessions by name").fill("harvest")
    await page.get_by_role("button", name="More for Harvest report").click()
    await page.get_by_role("menuitem", name="Delete").click()
    await page.get_by_role("button", name="Delete", exact=True).click()
    await expect(page.get_by_text("No session is called “harvest”")).to_be_visible()


async def test_a_session_is_called_by_its_first_message_whatever_was_edited_before(
    service: Service, desk: Desk
) -> None:
    page, source = desk.page, await service.session()
    await desk.open(source)
    await page.get_by_role("button", name="Note", exact=True).click()
    await expect(desk.prompts).to_have_text(["Added a comment"])
    fork = await service.fork(source)
    for session_id, text in ((source, "Load sales.csv"), (fork, "Say what `Filter` does")):
        await desk.open(session_id)
        await desk.ask(text)
        name = text.replace("`", "")
        await expect(page.get_by_role("heading", name=name)).to_be_visible()
    await page.get_by_role("button", name="Note", exact=True).click()
    await expect(desk.prompts).to_have_count(3)
    await desk.ask("Sort by amount")
    await expect(page.get_by_role("heading", name=name)).to_be_visible()


async def test_an_address_that_is_no_text_shows_nothing(service: Service, desk: Desk) -> None:
    await desk.page.goto(f"{service.url}/s/%ff")
    await expect(desk.page.get_by_text("There is nothing at this address.")).to_be_visible()
