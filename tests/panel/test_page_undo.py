"""What a person sees of effects outside: calls that wait, how they stand, what an undo has left."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from desk import ROOT, Service
from playwright.async_api import expect
from undone import COMPENSATED, NEEDS_YOU, REVIEW, undone

from turnback.agent import story

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from desk import Desk
    from playwright.async_api import Locator

pytestmark = pytest.mark.browser

LEFT = {
    "send_email": NEEDS_YOU,
    "send_transfer": NEEDS_YOU,
    "send_text": NEEDS_YOU,
    "invite": COMPENSATED,
    "charge_card": COMPENSATED,
    "update_contact": REVIEW,
}


@pytest.fixture
async def demo(fresh_database: str, tmp_path: Path) -> AsyncIterator[Service]:
    """A server with the demo world, whose database the test can reach."""
    env = {"TURNBACK_DEMO": "true", "TURNBACK_DATABASE_URL": fresh_database}
    running = Service(tmp_path, delay_ms=1, env=env)
    await running.start()
    yield running
    await running.stop()


async def clean(desk: Desk, state: str) -> None:
    """Axe finds nothing on the page as it is."""
    if not await desk.page.evaluate("'axe' in window"):
        axe = (ROOT / "panel/node_modules/axe-core/axe.min.js").read_text()
        await desk.page.evaluate(axe)
    found = await desk.page.evaluate("axe.run()")
    wrong = [f"{v['id']}: {node['html']}" for v in found["violations"] for node in v["nodes"]]
    assert wrong == [], state


def card(desk: Desk, tool: str) -> Locator:
    return desk.page.get_by_role("region", name=f"Waits for you: demo.{tool}")


async def test_calls_wait_for_a_person_and_what_an_undo_left_is_acknowledged(
    demo: Service, fresh_database: str, desk_of: Callable[..., Any]
) -> None:
    desk: Desk = await (await desk_of(demo)).open(await demo.session())
    page = desk.page

    await desk.send(story.PROMPT)
    await expect(desk.status).to_have_text("Waits for decisions about 3 calls")
    await expect(desk.said).to_contain_text("The agent waits for your decision about demo.")
    mail = card(desk, "send_email")
    await expect(mail.locator(".class-badge")).to_have_text("Irreversible")
    await expect(mail.get_by_text("It waits until")).to_be_visible()
    await clean(desk, "calls that wait")

    await page.reload()
    await mail.get_by_role("button", name="Change the arguments").click()
    arguments = mail.get_by_label("Arguments, as JSON")
    await expect(arguments).to_be_focused()
    shown = json.loads(await arguments.input_value())
    await arguments.fill("{")
    await expect(mail.get_by_text("This is not JSON")).to_be_visible()
    await expect(mail.get_by_role("button", name="Approve")).to_be_disabled()
    await arguments.fill(json.dumps(shown | {"subject": "Table for ten"}))
    await mail.get_by_role("button", name="Approve as changed").click()
    await expect(mail).to_have_count(0)
    await card(desk, "send_transfer").get_by_role("button", name="Approve", exact=True).click()
    await expect(desk.status).to_have_text("Waits for a decision about demo.send_text")
    await card(desk, "send_text").get_by_role("button", name="Deny").click()
    await expect(desk.status).to_have_text("Ready")
    sent = await demo.get("/demo/delivery")
    assert "Table for ten" in json.dumps(sent)
    in_force = page.locator(".standing-badge[data-standing=in_force]")
    await expect(in_force).to_have_count(11)

    await undone(fresh_database, desk.id, LEFT)
    await page.reload()
    dock = page.get_by_role("region", name="Effects outside")
    await expect(dock).to_contain_text("Reverted, 5 things remain")
    await expect(dock).to_contain_text("Partially reverted: 2 need you, 1 needs a review")
    await expect(in_force).to_have_count(3)
    await expect(page.get_by_text("something remains")).to_have_count(5)

    await dock.get_by_role("button", name="Show the report").click()
    report = page.get_by_role("dialog", name="What the undo came to")
    await expect(report.locator(".report-headline")).to_contain_text(
        "Partially reverted: 2 need you, 1 needs a review, 2 compensated"
    )
    await expect(report).to_contain_text("“Table for ten”")
    await expect(report.get_by_role("row", name="Somebody else’s")).to_be_visible()
    await clean(desk, "a report")
    boxes = report.get_by_role("checkbox")
    await expect(boxes).to_have_count(5)
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    draft = report.get_by_text("Draft of a message to lina@example.org")
    await draft.click()
    await report.get_by_role("button", name="Copy the draft").click()
    await expect(report.get_by_text("Copied")).to_be_visible()
    copied = await page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("About “Table for ten” of")

    for number in range(5):
        await boxes.nth(number).focus()
        await page.keyboard.press("Space")
        await expect(boxes.nth(number)).to_be_checked()
        await expect(boxes.nth(number)).to_be_focused()
        await expect(report.get_by_text("Acknowledged.")).to_have_count(1)
    await expect(report.locator(".report-headline")).to_contain_text("Partially reverted: 2 need")
    await page.keyboard.press("Escape")
    await expect(dock).to_have_count(0)
    await page.reload()
    await expect(desk.status).to_have_text("Ready")
    await expect(dock).to_have_count(0)


async def told(demo: Service, desk_of: Callable[..., Any]) -> Desk:
    """A page on a session in which the story was told, every call of it approved."""
    desk: Desk = await (await desk_of(demo)).open(await demo.session())
    await desk.send(story.PROMPT)
    for tool in ("send_email", "send_transfer", "send_text"):
        await card(desk, tool).get_by_role("button", name="Approve", exact=True).click()
        await expect(card(desk, tool)).to_have_count(0)
    await expect(desk.status).to_have_text("Ready")
    await expect(desk.page.locator(".standing-badge[data-standing=in_force]")).to_have_count(12)
    return desk


async def test_a_revert_that_reaches_outside_is_planned_and_a_strangers_change_is_kept(
    demo: Service, desk_of: Callable[..., Any]
) -> None:
    desk = await told(demo, desk_of)
    page = desk.page
    theirs = {"changes": {"phone": "555-9999"}}
    changed = await demo.http.patch(f"{demo.url}/demo/contact/ben", json=theirs)
    assert changed.status_code == 200, changed.text

    await desk.revert_button(story.PROMPT).click()
    groups = desk.sheet.locator("[data-group]")
    await expect(groups).to_have_count(3)
    await expect(groups.nth(0)).to_contain_text("Cannot be taken back (3)")
    await expect(groups.nth(0)).to_contain_text("Touched: lina@example.org")
    await expect(groups.nth(1)).to_contain_text("Will be compensated, and leaves something (2)")
    await expect(groups.nth(2)).to_contain_text("Will be reverted or cancelled (7)")
    drifted = desk.sheet.locator("[data-check=review]")
    await expect(drifted).to_have_text("changed by somebody else: it will be left to you")
    await expect(desk.sheet.locator("[data-check=unchecked]")).to_have_count(0)
    await clean(desk, "a plan")

    await desk.sheet.get_by_role("button", name="Revert and undo effects").click()
    await expect(desk.prompts).to_have_count(0)
    await expect(desk.composer).to_have_value(story.PROMPT)
    outside = page.get_by_role("region", name="Effects outside")
    await expect(outside).to_contain_text("things remain")
    await outside.get_by_role("button", name="Show the report").click()
    report = page.get_by_role("dialog", name="What the undo came to")
    remains = report.locator(".residues").get_by_role("listitem")
    theirs_too = remains.filter(has_text="changed by somebody else")
    await expect(theirs_too.get_by_role("row", name="555-9999")).to_be_visible()
    await expect(report.get_by_role("row", name="555-9999")).to_have_count(1)
    assert (await demo.get("/demo/contact"))["things"][0] is not None
    await page.keyboard.press("Escape")
    await desk.redo.click()
    await expect(desk.prompts).to_have_count(1)
    reverted = page.locator(".standing-badge[data-standing=reverted]")
    await expect(reverted.first).to_be_attached()


async def test_a_revert_of_the_canvas_only_leaves_what_was_done_outside_and_the_agent_is_told(
    demo: Service, desk_of: Callable[..., Any]
) -> None:
    desk = await told(demo, desk_of)
    await desk.revert_button(story.PROMPT).click()
    await expect(desk.sheet.locator("[data-group]")).to_have_count(3)
    await desk.sheet.get_by_role("button", name="Revert the canvas only").click()
    await expect(desk.dock).to_be_visible()
    session = desk.id
    stands = (await demo.get(f"/sessions/{session}/effects"))["effects"]
    assert {effect["standing"] for effect in stands} == {"in_force"}
    assert (await demo.get(f"/sessions/{session}/undos"))["undos"] == []

    await desk.ask("Load sales.csv")
    await expect(desk.operators).to_have_count(1)  # the note is none of the person's words
    chip = desk.page.locator(".world-chip")
    await chip.get_by_text("The agent was told of 12 effects outside").click()
    await expect(chip.get_by_role("listitem").filter(has_text="demo.send_email")).to_contain_text(
        "to 1 person"
    )
    await clean(desk, "a message with a note on the world")
