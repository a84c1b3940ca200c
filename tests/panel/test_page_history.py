"""The history: every line with HEAD, and what each step did outside and what is left of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from desk import ROOT, Desk
from playwright.async_api import expect
from scripted_provider import text
from undoing import Place, place

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from desk import Service
    from playwright.async_api import Locator
    from scripted_provider import ScriptedProvider

pytestmark = pytest.mark.browser


async def opened(desk: Desk) -> Locator:
    """The history's tree."""
    await desk.page.get_by_role("button", name="History", exact=True).click()
    return desk.page.get_by_role("tree", name="History")


def row(tree: Locator, words: str) -> Locator:
    """A row by what it is called, not by what else it says."""
    named = tree.page.locator(".entry-words").get_by_text(words, exact=True)
    return tree.get_by_role("treeitem").filter(has=named)


async def says(world: Place, desk: Desk, prompt: str, *calls: dict[str, Any]) -> None:
    world.provider.will([text(f"doing {prompt}"), *calls], [text(f"did {prompt}")])
    await desk.ask(prompt)


async def test_every_line_is_there_with_what_its_steps_did_outside_and_what_is_left(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, desk_of: Callable[..., Any]
) -> None:
    async with place(fresh_database, tmp_path, provider) as w:
        desk: Desk = await (await desk_of(w.server)).open(await w.server.session())
        page = desk.page
        await says(w, desk, "phone", w.set_phone("2"))
        await says(w, desk, "mail", w.send_mail("hi"), w.set_phone("3", "ben", nth=1))
        await desk.revert_button("mail").click()
        await desk.sheet.get_by_role("button", name="Revert the canvas only").click()
        w.provider.will([text("nothing to do")])
        await desk.ask("else")

        tree = await opened(desk)
        await expect(row(tree, "else")).to_be_focused()
        await expect(row(tree, "else")).to_have_attribute("aria-current", "step")
        await expect(row(tree, "else")).to_contain_text("HEAD")
        await expect(row(tree, "phone")).to_contain_text("1 in force")
        # It left the conversation, and what it did stands.
        await expect(row(tree, "mail")).to_contain_text("2 still in force")
        await expect(row(tree, "mail")).to_have_attribute("aria-level", "2")
        await expect(row(tree, "doing mail")).to_contain_text("python.send_mail")

        await page.keyboard.press("ArrowUp")
        await page.keyboard.press("ArrowUp")
        await expect(row(tree, "doing mail")).to_be_focused()
        await page.keyboard.press("ArrowLeft")
        await expect(row(tree, "mail")).to_be_focused()
        await page.keyboard.press("ArrowLeft")
        await expect(row(tree, "mail")).to_have_attribute("aria-expanded", "false")
        await expect(row(tree, "doing mail")).to_have_count(0)
        await page.keyboard.press("ArrowRight")
        await page.get_by_role("button", name="Undo what this turn did outside").click()
        sheet = page.get_by_role("dialog", name="Undo effects outside")
        await sheet.get_by_role("button", name="Undo these effects").click()
        report = page.get_by_role("dialog", name="What the undo came to")
        await expect(report).to_contain_text("Partially reverted")
        await page.keyboard.press("Escape")

        tree = await opened(desk)
        await expect(row(tree, "mail")).to_contain_text("1 still in force")
        await expect(row(tree, "mail")).to_contain_text("1 thing remains")
        step = row(tree, "doing mail")
        await expect(step.locator(".entry-left")).to_contain_text("so nobody knows what its call")
        await expect(step.locator("[data-standing=reverted]")).to_have_count(1)
        axe = (ROOT / "panel/node_modules/axe-core/axe.min.js").read_text()
        await page.evaluate(axe)
        found = await page.evaluate("axe.run()")
        assert [(v["id"], v["nodes"][0]["html"]) for v in found["violations"]] == []

        await row(tree, "mail").locator(".entry-words").dblclick()
        await expect(page).to_have_url(f"{desk.service.url}/s/{desk.id}?at={await tip(w, desk)}")
        await expect(desk.prompts).to_have_text(["phone", "mail"])
        await expect(page.get_by_role("heading", name="Looking at an earlier")).to_be_focused()
        tree = await opened(desk)
        await expect(row(tree, "mail")).to_be_focused()
        await page.keyboard.press("End")
        await page.keyboard.press("Enter")
        await expect(desk.prompts).to_have_text(["phone", "else"])
        await page.close()


async def tip(world: Place, desk: Desk) -> str:
    """The last step of the line that is not shown."""
    answer = await world.server.http.get(f"/sessions/{desk.id}/branches")
    [line] = [one for one in answer.json()["branches"] if not one["on_path"]]
    return str(line["tip"])


async def test_the_beginning_and_what_redo_leads_to_are_in_it(service: Service, desk: Desk) -> None:
    await desk.open(await service.session())
    await desk.ask("Load sales.csv")
    await desk.revert_button("Load sales.csv").click()
    await expect(desk.dock).to_be_visible()
    tree = await opened(desk)
    await expect(row(tree, "The beginning")).to_contain_text("HEAD")
    await expect(row(tree, "Load sales.csv")).to_contain_text("Redo leads here")
    await expect(row(tree, "Load sales.csv").locator("time")).to_have_count(1)
    narrow = {"width": 390, "height": 760}
    await desk.page.set_viewport_size(narrow)  # type: ignore[arg-type]
    dialog = await desk.page.get_by_role("dialog", name="History").bounding_box()
    assert dialog is not None
    assert dialog["x"] >= 0
    assert dialog["x"] + dialog["width"] <= narrow["width"]
    assert await desk.page.evaluate("document.documentElement.scrollWidth") <= narrow["width"]
