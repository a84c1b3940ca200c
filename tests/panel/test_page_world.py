"""The demo world on the page: it fills as the agent works, and a person changes it by hand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from desk import ROOT
from playwright.async_api import expect

from turnback.agent import story

if TYPE_CHECKING:
    from collections.abc import Callable

    from desk import Desk, Service
    from playwright.async_api import Locator

pytestmark = pytest.mark.browser


async def test_the_story_fills_the_world_and_a_person_changes_it_by_hand(
    mortal: Service, desk_of: Callable[..., Any]
) -> None:
    desk: Desk = await (await desk_of(mortal)).open(await mortal.session())
    page = desk.page
    world = page.get_by_role("complementary", name="Demo world")

    def part(name: str) -> Locator:
        return world.get_by_role("region", name=name, exact=True)

    async def phone() -> str:
        things = (await mortal.get("/demo/contact"))["things"]
        (ben,) = [thing for thing in things if thing["id"] == "ben"]
        return str(ben["fields"]["phone"])

    opener = page.get_by_role("button", name="Demo world", exact=True)
    await opener.click()
    await expect(opener).to_have_attribute("aria-expanded", "true")
    await expect(world.get_by_role("heading", name="Demo world")).to_be_focused()
    await expect(part("Contacts").get_by_role("listitem")).to_have_count(3)
    await expect(part("Calendar")).to_contain_text("Weekly review")
    await expect(part("What has reached people").get_by_role("listitem")).to_have_count(0)

    await desk.send(story.PROMPT)
    await expect(desk.status).to_have_text("Waits for decisions about 3 calls")
    await expect(part("Calendar")).to_contain_text("Launch dinner")
    await expect(part("Invitations").get_by_role("listitem")).to_have_count(2)
    await expect(part("Mailbox")).to_contain_text("scheduled")
    await expect(part("Bank transfers").get_by_role("listitem")).to_have_count(0)
    for tool in ("send_email", "send_transfer", "send_text"):
        card = page.get_by_role("region", name=f"Waits for you: demo.{tool}")
        await card.get_by_role("button", name="Approve", exact=True).click()
        await expect(card).to_have_count(0)
    await expect(desk.status).to_have_text("Ready")
    await expect(part("Bank transfers")).to_contain_text("Hall of Music · 450")
    reached = part("What has reached people")
    await expect(reached.get_by_role("listitem")).to_have_count(5)
    await reached.get_by_text("Table for twelve").first.click()
    await expect(reached.get_by_role("textbox")).to_have_count(0)

    ben = part("Contacts").locator(".thing").filter(has_text="Ben Okafor")
    await ben.locator("summary").click()
    field = ben.get_by_label("Phone")
    await expect(field).to_have_value("555-0177")
    await expect(ben.get_by_role("button", name="Save")).to_be_disabled()
    await field.fill("555-0999")
    await field.press("Enter")
    await expect(world.get_by_role("status").last).to_have_text("Saved.")
    await expect(ben.locator("summary")).to_be_focused()
    assert await phone() == "555-0999"

    charge = part("Card charges").locator(".thing")
    await charge.locator("summary").click()
    await charge.get_by_label("Amount").fill("a lot")
    await expect(charge.get_by_role("status")).to_contain_text("not of the form")
    await expect(charge.get_by_role("button", name="Save")).to_be_disabled()

    if not await page.evaluate("'axe' in window"):
        axe = (ROOT / "panel/node_modules/axe-core/axe.min.js").read_text()
        await page.evaluate(axe)
    found = await page.evaluate("axe.run()")
    assert [(v["id"], [n["html"] for n in v["nodes"]]) for v in found["violations"]] == []

    await ben.get_by_role("button", name="Delete").click()
    await expect(ben.locator("summary")).to_have_text(re.compile("Ben Okafor.*deleted"))
    await expect(ben.locator("summary")).to_be_focused()
    await expect(part("Contacts").get_by_role("heading")).to_have_text("Contacts (3)")
    await ben.get_by_role("button", name="Make it again").press("Enter")
    await expect(ben.get_by_label("Phone")).to_have_value("555-0999")
    assert await phone() == "555-0999"

    await page.keyboard.press("Escape")
    await expect(world).to_have_count(0)
    await expect(opener).to_be_focused()
    assert (await mortal.get(f"/sessions/{desk.id}"))["state"] == "AVAILABLE"


async def test_without_the_demo_the_page_has_no_world(
    mortal: Service, desk_of: Callable[..., Any]
) -> None:
    await mortal.drain()
    mortal.env["TURNBACK_DEMO"] = "false"
    await mortal.start()
    desk: Desk = await (await desk_of(mortal)).open(await mortal.session())
    await expect(desk.page.get_by_role("button", name="Share")).to_be_enabled()
    await expect(desk.page.get_by_role("button", name="Demo world")).to_have_count(0)


async def test_a_person_on_a_narrow_page_sees_the_world_whole(
    service: Service, desk_of: Callable[..., Any]
) -> None:
    narrow = {"width": 390, "height": 760}
    desk: Desk = await desk_of(service, viewport=narrow)
    await desk.open(await service.session())
    page = desk.page
    await page.get_by_role("button", name="Demo world", exact=True).click()
    box = await page.get_by_role("complementary", name="Demo world").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert box["y"] + box["height"] <= 760
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
