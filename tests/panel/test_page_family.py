"""A family: seen from the session and from the list, walked and opened by the keyboard."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from desk import Desk, Service

pytestmark = pytest.mark.browser


async def test_a_family_is_a_tree_to_walk_by_the_keyboard(service: Service, desk: Desk) -> None:
    root = await service.session(name="Grandmother")
    mother = await service.fork(root, name="Mother")
    await service.fork(root, name="Aunt")
    gone = await service.fork(root, name="Gone")
    await service.http.delete(f"{service.url}/sessions/{gone}")
    me = await service.fork(mother, name="Me")
    child = await service.fork(me, name="Daughter")
    await service.fork(child, name="Granddaughter")

    page = desk.page
    await desk.open(me)
    button = page.get_by_role("button", name="Family")
    await button.press("Enter")
    tree = page.get_by_role("tree", name="Family")
    lines = tree.get_by_role("treeitem")
    await expect(lines).to_contain_text(
        ["Grandmother", "Mother", "Me", "Daughter", "Its other forks", "Its other forks"]
    )
    await expect(tree.locator(":focus")).to_have_attribute("aria-current", "page")
    await expect(tree.locator(":focus")).to_have_attribute("aria-level", "3")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowRight")
    await expect(tree.get_by_role("treeitem", name="Granddaughter")).to_be_visible()
    await page.keyboard.press("ArrowLeft")
    await expect(tree.get_by_role("treeitem", name="Granddaughter")).to_have_count(0)
    await page.keyboard.press("End")
    await page.keyboard.press("Enter")
    await expect(lines).to_contain_text(
        ["Grandmother", "Mother", "Me", "Daughter", "Its other forks", "Aunt"]
    )
    await expect(tree.get_by_role("treeitem", name="Aunt")).to_be_focused()
    await page.keyboard.press("ArrowLeft")
    await expect(tree.get_by_role("treeitem", name="Grandmother")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(button).to_be_focused()
    await button.press("Enter")
    await expect(tree.locator(":focus")).to_have_attribute("aria-current", "page")
    await page.keyboard.press("Home")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Grandmother")).to_be_visible()

    await page.goto(service.url)
    await page.get_by_role("button", name="More for Aunt").click()
    await page.get_by_role("menuitem", name="Family").click()
    await expect(lines).to_contain_text(["Grandmother", "Aunt", "Its other forks"])
    await tree.get_by_role("treeitem", name="Grandmother").click()
    assert desk.id == root


async def test_sessions_of_the_same_name_are_told_apart_by_when_they_were_made(
    service: Service, desk: Desk
) -> None:
    page, root = desk.page, await service.session(name="Twins")
    for _ in range(2):
        await service.fork(root)
    await page.reload()
    await page.get_by_label("Search sessions by name").fill("Twins")
    rows = page.locator(".session-row")
    await expect(rows).to_have_count(3)
    await expect(rows.locator(".made")).to_have_count(2)
    await expect(page.get_by_role("link", name="Twins (branch) made")).to_have_count(2)
    await expect(page.get_by_role("link", name="Twins", exact=True)).to_have_count(1)
    await page.get_by_role("button", name="More for Twins", exact=True).click()
    await page.get_by_role("menuitem", name="Family").click()
    forks = page.get_by_role("tree").get_by_role("treeitem", name="Twins (branch)")
    await expect(forks).to_contain_text([re.compile(r"made .*\d:\d\d:\d\d")] * 2)


async def test_a_part_that_was_purged_says_so_and_the_rest_goes_on(
    mortal: Service, desk_of: Callable[..., Any]
) -> None:
    desk: Desk = await desk_of(mortal)
    source = await mortal.session(name="Purged later")
    await desk.open(source)
    await desk.ask("Load sales.csv")
    child, bare = await mortal.fork(source, name="Child"), await mortal.fork(source, name="Bare")
    await desk.open(child)
    await desk.ask("Sort by amount")
    answer = await mortal.http.delete(f"{mortal.url}/sessions/{source}")
    assert answer.status_code == 204, answer.text
    await mortal.turnback("purge", source)

    page = desk.page
    await desk.open(child)
    await expect(page.locator(".purged")).to_contain_text("removed for good")
    await expect(desk.prompts).to_have_text(["Sort by amount"])
    await expect(page.locator(".origin")).to_contain_text(
        "Forked from a session that was deleted, with 1 turn."
    )
    await expect(page.locator(".toast")).to_have_count(0)
    await desk.ask("Keep the first 3 rows")
    await desk.open(bare)
    await expect(page.locator(".purged")).to_be_visible()
    await expect(desk.prompts).to_have_count(0)
    await expect(page.locator(".toast")).to_have_count(0)
