"""Forks: made at a turn, opened with what is known, and where they come from."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from desk import BUILD
from playwright.async_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from desk import Desk, Service
    from playwright.async_api import Route, WebSocketRoute

pytestmark = pytest.mark.browser

SORT = "Sort by amount"


async def test_a_fork_shows_what_it_inherits_before_its_transcript_is_there_and_never_twice(
    service: Service, desk: Desk
) -> None:
    page, source = desk.page, await service.session(name="Orders")
    await desk.open(source)
    for text in (BUILD, SORT, "Keep the first 10 rows"):
        await desk.ask(text)
    gate = asyncio.Event()

    async def later(socket: WebSocketRoute) -> None:
        await gate.wait()
        socket.connect_to_server()

    await page.route_web_socket("**/ws*", later)
    await desk.fork(SORT, "Fork after this turn")
    await page.wait_for_url(lambda url: not url.endswith(source))
    await expect(desk.prompts).to_have_text([BUILD, SORT])
    await expect(desk.status).to_have_text("Loading")
    gate.set()
    await expect(desk.status).to_have_text("Ready")
    await expect(desk.prompts).to_have_text([BUILD, SORT])
    await expect(desk.composer).to_be_focused()
    await expect(page.get_by_role("heading", name="Orders (branch)")).to_be_visible()
    await expect(page.locator(".inherited-end")).to_have_text("Up to here from Orders")
    await desk.ask("Load orders.csv")
    await page.reload()
    await expect(desk.prompts).to_have_text([BUILD, SORT, "Load orders.csv"])
    await expect(page.locator(".inherited-end + .turn .turn-prompt")).to_have_text(
        "Load orders.csv"
    )
    await desk.revert_button(BUILD).scroll_into_view_if_needed()

    origin = page.locator(".origin")
    await expect(origin).to_contain_text(f"Forked from Orders, with 2 turns, up to “{SORT}”.")
    await origin.get_by_role("link", name="See the place").press("Enter")
    await expect(page.get_by_text("Looking at an earlier state")).to_be_visible()
    await expect(desk.prompts).to_have_text([BUILD, SORT])
    assert desk.id == source
    await page.get_by_role("button", name="Back to now").click()
    await expect(desk.prompts).to_have_count(3)


async def test_two_presses_and_a_lost_answer_make_one_fork(service: Service, desk: Desk) -> None:
    page, source = desk.page, await service.session(name="Pressed twice")
    await desk.open(source)
    await desk.ask(BUILD)

    async def lose(route: Route) -> None:
        await route.fetch()
        await route.abort()

    await page.route("**/fork", lose)
    await desk.fork(BUILD, "Fork before this turn")
    await expect(page.locator(".toast")).to_contain_text("The server cannot be reached.")
    await page.unroute("**/fork")
    await page.get_by_role("button", name=f"Fork from “{BUILD}”").focus()
    await page.keyboard.press("Enter")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await expect(page.locator(".origin")).to_contain_text(
        "Forked from Pressed twice, before its first turn."
    )
    assert len(await service.children(source)) == 1


async def test_a_turn_that_is_not_whole_says_why_it_cannot_be_forked_after(
    slow: Service, desk_of: Callable[..., Any]
) -> None:
    desk: Desk = await desk_of(slow)
    await desk.open(await slow.session())
    await desk.send("hello")
    await expect(desk.page.locator(".running .prose")).to_be_visible()
    await desk.page.keyboard.press("Escape")
    await expect(desk.page.locator(".ending")).to_have_text("Stopped")
    await desk.send("hello again")
    await expect(desk.page.locator(".running .prose")).to_be_visible()
    await desk.page.get_by_role("button", name="Fork from “hello again”").click()
    after = desk.page.get_by_role("menuitem", name="Fork after this turn")
    await expect(after).to_be_disabled()
    await expect(after).to_have_attribute("title", "This turn is still running")
    await desk.page.keyboard.press("Escape")
    # The turn before it has ended, whatever runs now.
    await desk.fork("hello", "Fork after this turn")
    await expect(desk.page.locator(".origin")).to_contain_text("with 1 turn")
    await expect(desk.prompts).to_have_text(["hello"])
    await expect(desk.status).to_have_text("Ready")
