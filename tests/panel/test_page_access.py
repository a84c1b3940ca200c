"""For everyone: axe finds nothing, the keyboard does everything, what happens is said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from desk import BUILD, ROOT, WORKFLOWS
from playwright.async_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from desk import Desk, Service

pytestmark = pytest.mark.browser

WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 800}


@pytest.mark.parametrize(
    ("scheme", "viewport"), [("light", WIDE), ("dark", WIDE), ("light", NARROW)]
)
async def test_axe_finds_nothing(
    service: Service, desk_of: Callable[..., Any], scheme: str, viewport: dict[str, int]
) -> None:
    desk: Desk = await desk_of(service, color_scheme=scheme, viewport=viewport)
    page = desk.page
    session_id = await service.session(name="Looked at")

    await page.goto(service.url)
    await expect(page.get_by_role("link", name="Looked at").first).to_be_visible()
    await clean(desk, "the list")
    await page.get_by_label("Search sessions by name").fill("no such name")
    await expect(page.get_by_text("No session is called")).to_be_visible()
    await clean(desk, "a search without a hit")
    await page.get_by_label("Search sessions by name").fill("Looked at")
    await page.get_by_role("button", name="More for Looked at").first.click()
    await clean(desk, "a menu")
    await page.get_by_role("menuitem", name="Delete").click()
    await clean(desk, "a question before deleting")

    await desk.open(session_id)
    await clean(desk, "an empty conversation")
    await desk.ask(BUILD)
    await desk.ask("Change op2 to amount > 100 then delete op1")
    await desk.ask("Sort by amount")
    await desk.revert_button(BUILD).scroll_into_view_if_needed()
    await clean(desk, "a conversation")
    await desk.look("Change op2 to amount > 100 then delete op1")
    await clean(desk, "a revert that is looked at")
    await desk.sheet.get_by_role("button", name="Revert 2 turns").click()
    await expect(desk.dock).to_be_visible()
    await clean(desk, "reverted, with the dock")
    await desk.ask("Keep the first 3 rows")
    picker = page.get_by_role("group", name="Lines part here")
    await picker.get_by_role("button", name="Line 2 of 2").click()
    await clean(desk, "the lines in a menu")
    await page.keyboard.press("Escape")
    if viewport is NARROW:
        await page.get_by_role("button", name="Canvas", exact=True).click()
    await desk.operators.nth(1).click()
    await clean(desk, "the inspector")
    await page.get_by_role("button", name="Close").click()
    await page.get_by_role("button", name="Operator", exact=True).click()
    await expect(page.get_by_label("Find an operator")).to_be_focused()
    await clean(desk, "the palette")
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Outline", exact=True).click()
    await clean(desk, "the outline")
    await page.keyboard.press("Escape")
    await desk.bar("Settings")
    await expect(page.get_by_label("Steps of a run")).to_be_visible()
    await clean(desk, "the settings")
    await page.keyboard.press("Escape")
    await desk.bar("Keyboard shortcuts")
    await clean(desk, "the shortcuts")
    await page.goto(f"{service.url}/s/{session_id}?at=step-initial")
    await expect(page.get_by_text("Looking at an earlier state")).to_be_visible()
    await clean(desk, "an earlier state")
    await service.http.patch(f"{service.url}/sessions/{session_id}", json={"archived": True})
    await page.goto(f"{service.url}/s/{session_id}")
    await expect(page.locator(".banner")).to_be_visible()
    await clean(desk, "archived")
    await page.goto(f"{service.url}/s/none")
    await expect(page.get_by_text("There is no such session.")).to_be_visible()
    await clean(desk, "not found")


async def test_axe_finds_nothing_while_the_agent_works_and_after_it_was_stopped(
    slow: Service, desk_of: Callable[..., Any]
) -> None:
    desk = await (await desk_of(slow)).open(await slow.session())
    await desk.send("hello")
    await expect(desk.page.locator(".running .prose")).to_be_visible()
    await clean(desk, "running")
    await expect(desk.page.locator(".running .prose")).to_be_visible()
    await desk.page.keyboard.press("Escape")
    await expect(desk.page.locator(".ending")).to_have_text("Stopped")
    await clean(desk, "stopped")


@pytest.mark.parametrize(("scheme", "viewport"), [("light", WIDE), ("dark", NARROW)])
async def test_axe_finds_nothing_where_sessions_are_forked_shared_and_given_files(
    keyed: Service, desk_of: Callable[..., Any], scheme: str, viewport: dict[str, int]
) -> None:
    desk: Desk = await desk_of(keyed, color_scheme=scheme, viewport=viewport)
    page, session_id = desk.page, await keyed.session(name="Shared")
    await page.goto(f"{keyed.url}/s/{session_id}")
    await expect(page.get_by_label("API key")).to_be_focused()
    await clean(desk, "the sign-in")
    await page.get_by_label("API key").fill("tb_none")
    await page.keyboard.press("Enter")
    await expect(page.locator(".sign-in .warn")).to_be_visible()
    await clean(desk, "a key that is none")
    await desk.sign_in("olga")
    await desk.give("drop", ".log", "orders.csv")
    await expect(page.locator(".uploads [data-phase=ready]")).to_be_visible()
    await desk.give("drop", ".log", "large.csv", "x" * 20_000_001)
    await expect(page.locator(".uploads [data-phase=failed]")).to_be_visible()
    await clean(desk, "files of a message, one too large")
    await page.get_by_role("button", name="Remove large.csv").click()
    await desk.ask(BUILD)
    await clean(desk, "files that were sent")
    await page.get_by_role("button", name=f"Fork from “{BUILD}”").click()
    await clean(desk, "the ways to fork")
    await page.get_by_role("menuitem", name="Edit in a fork").click()
    await expect(desk.composer).to_have_value(BUILD)
    await expect(page.locator(".origin")).to_be_visible()
    await clean(desk, "a fork with its draft")
    other = await page.context.new_page()
    await other.goto(page.url)
    await expect(other.get_by_text("Another page is at the message")).to_be_visible()
    await clean(type(desk)(other, keyed), "a draft that another page has")
    await desk.bar("Family")
    await expect(page.get_by_role("treeitem").first).to_be_visible()
    await clean(desk, "a family")
    await page.keyboard.press("Escape")
    await page.goto(f"{keyed.url}/s/{session_id}")
    await keyed.grant(session_id, "vera", "read", "fork")
    await desk.bar("Share")
    await expect(page.get_by_role("listitem", name="vera")).to_be_visible()
    await clean(desk, "the rights")
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Signed in as olga").click()
    await page.get_by_role("menuitem", name="Sign out").click()
    await desk.sign_in("vera")
    await expect(page.locator(".read-only")).to_be_visible()
    await clean(desk, "a session to be read only")
    await desk.bar("Share")
    await expect(page.get_by_role("dialog")).to_contain_text("This session is olga’s.")
    await clean(desk, "rights of others")
    await page.goto(keyed.url)
    await expect(page.get_by_role("button", name="New session")).to_be_disabled()
    await clean(desk, "the list of a viewer")


async def clean(desk: Desk, state: str) -> None:
    """Axe finds nothing on the page as it is."""
    if not await desk.page.evaluate("'axe' in window"):
        axe = (ROOT / "panel/node_modules/axe-core/axe.min.js").read_text()
        await desk.page.evaluate(axe)
    found = await desk.page.evaluate("axe.run()")
    wrong = [
        f"{violation['id']}: {node['html']} {node['failureSummary']}"
        for violation in found["violations"]
        for node in violation["nodes"]
    ]
    assert wrong == [], state


async def test_the_canvas_is_worked_by_the_keyboard_alone(service: Service, desk: Desk) -> None:
    document = json.loads((WORKFLOWS / "join-and-chart.json").read_bytes())
    session_id = await service.session(workflow=document)
    await desk.open(session_id)
    page = desk.page
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to the message field")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(desk.composer).to_be_focused()

    stops = page.locator(".react-flow__node[tabindex='0']")
    await expect(stops).to_have_count(1)
    await stops.focus()
    await page.keyboard.press("Home")
    await expect(stops).to_be_focused()
    first = await desk.focused()
    await page.keyboard.press("ArrowRight")
    await expect(page.locator(":focus")).not_to_have_attribute("aria-label", first)
    await expect(stops).to_be_focused()
    await expect(stops).to_have_count(1)
    name = (await desk.focused()).split(",")[0]
    node = page.locator(".react-flow__node").filter(has_text=name)

    await page.keyboard.press("Enter")
    heading = page.locator(".inspector h2")
    await expect(heading).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(heading).to_have_count(0)
    await expect(node).to_be_focused()

    await page.keyboard.press("Shift+ArrowDown")
    await expect(desk.prompts).to_have_count(1)
    await expect(desk.prompts).to_contain_text("Moved")
    await node.focus()
    await page.keyboard.press("Delete")
    await expect(node).to_have_count(0)
    await expect(desk.prompts).to_have_count(2)
    await expect(stops).to_be_focused()
    await page.keyboard.press("Control+z")
    await expect(node).to_have_count(1)
    await page.keyboard.press("Control+z")
    await expect(desk.prompts).to_have_count(4)
    assert members(json.loads(await service.workflow(session_id))) == members(document)


def members(document: dict[str, Any]) -> dict[str, Any]:
    """A workflow without the order of its operators and links: what comes back comes last."""
    lists = {"operators": "operatorID", "links": "linkID"}
    return document | {
        name: sorted(document[name], key=lambda one: str(one[key])) for name, key in lists.items()
    }


async def test_links_are_read_made_and_removed_without_drawing(
    service: Service, desk: Desk
) -> None:
    session_id = await service.session()
    await desk.open(session_id)
    await desk.ask("Load sales.csv")
    page = desk.page
    await page.get_by_role("button", name="Operator", exact=True).click()
    await page.get_by_label("Find an operator").fill("filter")
    await page.keyboard.press("Enter")
    source = page.get_by_label("Operator op2").get_by_label("Input", exact=True)
    await source.select_option(index=1)
    await expect(desk.prompts.last).to_have_text("Linked op1 to op2")
    await expect(page.locator(".linked")).to_have_count(1)
    await page.get_by_label("Operator op2").get_by_label("Close").click()

    outline = page.get_by_role("dialog", name="Outline of the workflow")
    button = page.get_by_role("button", name="Outline", exact=True)
    await button.press("Enter")
    await expect(outline.get_by_role("heading")).to_have_text("2 operators, 1 link")
    await expect(outline.get_by_role("heading")).to_be_focused()
    await page.keyboard.press("ArrowDown")
    await expect(outline.locator(".outline-operator").first).to_be_focused()
    await outline.get_by_role("button", name="Remove the link").press("Enter")
    await expect(outline.get_by_role("heading")).to_have_text("2 operators, 0 links")
    await page.keyboard.press("Escape")
    await expect(button).to_be_focused()


async def test_focus_returns_from_dialogs_and_what_was_done_is_said(
    service: Service, desk: Desk
) -> None:
    page = desk.page
    await service.session(name="Goes away")
    await service.session(name="Stays here")
    await page.reload()
    await page.get_by_label("Search sessions by name").fill("a")
    await page.get_by_role("link", name="Stays here").focus()
    await page.keyboard.press("ArrowDown")
    await expect(page.get_by_role("link", name="Goes away")).to_be_focused()
    more = page.get_by_role("button", name="More for Goes away")
    for answer in ("Escape", "Enter"):
        await more.press("Enter")
        await page.get_by_role("menuitem", name="Delete").press("Enter")
        if answer == "Escape":
            await page.keyboard.press("Escape")
            await expect(more).to_be_focused()
        else:
            await page.get_by_role("button", name="Delete", exact=True).press("Enter")
    await expect(page.get_by_role("heading", name="Sessions")).to_be_focused()
    await expect(page.locator("p[role=status]")).to_contain_text("Deleted “Goes away”.")

    await desk.open(await service.session())
    await desk.ask("Load sales.csv")
    await expect(desk.said).to_contain_text("The agent has finished.")
    button = desk.revert_button("Load sales.csv")
    await button.focus()
    await page.keyboard.press("?")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog", name="Keyboard")).to_have_count(0)
    await expect(button).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(desk.said).to_have_text("Reverted 1 turn. Redo is available.")
    await expect(desk.composer).to_be_focused()
    await desk.redo.press("Enter")
    await expect(desk.said).to_have_text("Redone: 1 turn came back.")
    await expect(desk.composer).to_be_focused()
