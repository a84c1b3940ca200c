"""The message that a fork was made to send again: in one page, until its turn is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from desk import BUILD
from playwright.async_api import Locator, expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from desk import Desk, Service
    from playwright.async_api import Page

pytestmark = pytest.mark.browser

EDITED = "Build a sales report of last year"


def pending(page: Page) -> Locator:
    return page.get_by_role("region", name="Message to send again")


async def test_the_draft_of_a_fork_is_in_one_page_and_outlives_reloads_and_stops(
    service: Service, desk: Desk
) -> None:
    page, source = desk.page, await service.session(name="Report")
    await desk.open(source)
    await desk.ask("Load sales.csv")
    await desk.ask(BUILD)
    await desk.fork(BUILD, "Edit in a fork")
    await expect(desk.composer).to_have_value(BUILD)
    await expect(desk.composer).to_be_focused()
    await expect(pending(page)).to_contain_text("change it, and send it")
    await expect(desk.prompts).to_have_text(["Load sales.csv"])

    other = await page.context.new_page()
    await other.clock.install()
    await other.goto(page.url)
    await expect(pending(other)).to_contain_text("Another page is at the message")
    await expect(other.get_by_label("Message to the agent")).to_have_value("")

    await desk.composer.fill(EDITED)
    await page.reload()
    await expect(desk.composer).to_have_value(EDITED)
    await expect(pending(page)).to_contain_text("change it, and send it")
    await expect(pending(other)).to_contain_text("Another page is at the message")

    # It goes where somebody still is, once who has closed a page has had the time to open it again.
    await page.close()
    await expect(pending(other)).to_contain_text("unless that page comes back")
    await other.clock.fast_forward(10_000)
    await expect(other.get_by_label("Message to the agent")).to_have_value(BUILD)


async def test_a_turn_that_was_stopped_leaves_the_draft_and_the_next_try_is_another_turn(
    slow: Service, desk_of: Callable[..., Any]
) -> None:
    desk: Desk = await desk_of(slow)
    page, source = desk.page, await slow.session()
    await desk.open(source)

    async def stop() -> None:
        await expect(page.locator(".running .prose")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(desk.status).to_have_text("Ready")

    await desk.send("hello")
    await stop()
    await desk.fork("hello", "Run again in a fork")
    await expect(pending(page)).to_contain_text("send it to run it again")
    key = (await slow.get(f"/sessions/{desk.id}/pending-action"))["pending_action"]["turn_key"]
    assert key
    for tries in (1, 2):
        await expect(desk.composer).to_have_value("hello")
        await desk.composer.press("Enter")
        await stop()
        await expect(desk.prompts).to_have_count(tries)
    await expect(desk.composer).to_have_value("hello")
    await desk.send("Load sales.csv")
    await expect(
        page.locator(".agent-step[data-ending=complete]").or_(desk.operators)
    ).to_have_count(1, timeout=20_000)
    await expect(desk.status).to_have_text("Ready", timeout=20_000)
    await expect(pending(page)).to_have_count(0)
    await expect(desk.composer).to_have_value("")


async def test_the_draft_of_a_fork_never_takes_the_place_of_what_was_written(
    service: Service, desk: Desk
) -> None:
    page, source = desk.page, await service.session()
    await desk.open(source)
    await desk.ask(BUILD)
    await desk.fork(BUILD, "Run again in a fork")
    await expect(desk.composer).to_have_value(BUILD)
    child = desk.id
    other: Desk = type(desk)(await page.context.new_page(), service)
    await other.page.clock.install()
    await other.open(child)
    await expect(pending(other.page)).to_contain_text("Another page is at the message")
    await other.composer.fill("of my own")
    await page.get_by_role("link", name="All sessions").click()
    await expect(pending(other.page)).to_contain_text("unless that page comes back")
    await other.page.clock.fast_forward(10_000)
    await expect(pending(other.page)).to_contain_text(f"made to send “{BUILD}” again")
    await expect(other.composer).to_have_value("of my own")
    await other.page.get_by_role("button", name="Add it to what you write").press("Enter")
    await expect(other.composer).to_have_value(f"of my own\n{BUILD}")
    await other.send(BUILD)
    await expect(other.prompts).to_have_text([BUILD])
    await expect(other.status).to_have_text("Ready")
    await expect(pending(other.page)).to_have_count(0)
    # The server's key made it the turn that was waited for.
    assert (await service.get(f"/sessions/{child}/pending-action"))["pending_action"] is None
