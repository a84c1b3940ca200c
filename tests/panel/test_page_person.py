"""The printed address makes a page a person's; without it, the page says at the act what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import expect

from turnback.agent import story

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from desk import Desk
    from playwright.async_api import Locator

from desk import Service

pytestmark = pytest.mark.browser


@pytest.fixture
async def demo(fresh_database: str, tmp_path: Path) -> AsyncIterator[Service]:
    """A server with the demo world of this test's own."""
    env = {"TURNBACK_DEMO": "true", "TURNBACK_DATABASE_URL": fresh_database}
    running = Service(tmp_path, delay_ms=1, env=env)
    await running.start()
    yield running
    await running.stop()


def approve(desk: Desk, tool: str) -> Locator:
    region = desk.page.get_by_role("region", name=f"Waits for you: demo.{tool}")
    return region.get_by_role("button", name="Approve", exact=True)


async def test_a_page_decides_once_it_has_come_by_a_printed_address(
    demo: Service, desk_of: Callable[..., Any]
) -> None:
    desk: Desk = await desk_of(demo, person=False)
    page = desk.page
    await desk.open(await demo.session())
    await desk.send(story.PROMPT)  # reading and prompting take nothing
    card = page.get_by_role("region", name="Waits for you: demo.send_email")
    why = card.get_by_text("This is for a person to decide")
    await expect(why).to_contain_text("turnback address")
    await expect(approve(desk, "send_email")).to_be_disabled()

    # In another tab: this one hears of it, and decides from then on.
    other = await page.context.new_page()
    await other.goto(demo.printed)
    await expect(other.get_by_role("heading", name="Sessions")).to_be_visible()
    assert other.url == f"{demo.url}/"
    [cookie] = await page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["expires"]) == (True, "Strict", -1)
    await expect(approve(desk, "send_email")).to_be_enabled()
    await expect(why).to_have_count(0)
    await approve(desk, "send_email").click()
    await expect(approve(desk, "send_email")).to_have_count(0)

    # A used address does no harm to who is in, and is refused to who is not.
    await other.goto(demo.printed)
    await expect(other.get_by_role("heading", name="Sessions")).to_be_visible()
    await expect(other.locator(".toast")).to_have_count(0)
    late: Desk = await desk_of(demo, person=False)
    await late.page.goto(demo.printed)
    await expect(late.page.locator(".toast")).to_contain_text("This address was used already")
    assert late.page.url == f"{demo.url}/"


async def test_after_a_restart_a_new_address_in_the_same_tab_is_enough(
    demo: Service, desk_of: Callable[..., Any]
) -> None:
    desk: Desk = await desk_of(demo)
    await desk.open(await demo.session())
    await desk.send(story.PROMPT)
    await expect(approve(desk, "send_email")).to_be_visible()
    await demo.drain()
    await demo.start()
    await expect(desk.status).to_have_text("Waits for decisions about 3 calls")
    await approve(desk, "send_email").click()
    await expect(desk.page.locator(".toast")).to_contain_text("turnback address")
    code = demo.printed.partition("#")[2]
    await desk.page.evaluate("code => { location.hash = code }", code)
    await expect(desk.page.locator(".toast")).to_have_count(0, timeout=20_000)
    await approve(desk, "send_email").click()
    await expect(approve(desk, "send_email")).to_have_count(0)
    assert "#" not in desk.page.url
