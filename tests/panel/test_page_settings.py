"""The settings of a session: its name, who sees it, what its runs are held to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from desk import Desk, Service
    from playwright.async_api import Locator

pytestmark = pytest.mark.browser


async def settings(desk: Desk) -> Locator:
    """The dialog, opened by the keyboard, once what it shows is there."""
    button = desk.page.get_by_role("button", name="Settings")
    await expect(button).to_be_enabled()
    await button.press("Enter")
    dialog = desk.page.get_by_role("dialog", name="Settings of this session")
    await expect(dialog.get_by_label("Name", exact=True)).to_be_visible()
    return dialog


async def test_what_a_session_is_called_and_held_to_is_set_in_a_dialog(
    service: Service, desk: Desk
) -> None:
    page, session_id = desk.page, await service.session(name="Before", settings={"max_steps": 3})
    await desk.open(session_id)
    dialog = await settings(desk)
    await dialog.get_by_label("Name", exact=True).fill("After")
    await dialog.get_by_label("Private").check()
    steps = dialog.get_by_label("Steps of a run")
    await expect(steps).to_have_value("3")
    await steps.fill("")
    await dialog.get_by_label("Time of a tool call").fill("2.5")
    await dialog.get_by_label("Remove operators").uncheck()
    await page.keyboard.press("Enter")
    await expect(dialog).to_have_count(0)
    await expect(page.get_by_role("button", name="Settings")).to_be_focused()
    await expect(page.get_by_role("heading", name="After")).to_be_visible()
    row = await service.get(f"/sessions/{session_id}")
    assert (row["name"], row["visibility"]) == ("After", "private")
    assert row["settings"] == {
        "max_steps": None,
        "run_timeout": None,
        "tool_timeout": 2.5,
        "max_tool_output": None,
        "disabled_tools": ["deleteOperator"],
    }

    # More than the server's is refused by the field itself, and nothing is sent.
    dialog = await settings(desk)
    await steps.fill("1000000")
    await dialog.get_by_role("button", name="Save").click()
    assert await steps.evaluate("e => e.validity.rangeOverflow")
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    assert (await service.get(f"/sessions/{session_id}"))["revision"] == row["revision"]


async def test_what_may_not_be_set_can_be_read(keyed: Service, desk_of: Callable[..., Any]) -> None:
    session_id = await keyed.session(name="Held", settings={"max_steps": 3})
    desk: Desk = await desk_of(keyed)
    await desk.page.goto(f"{keyed.url}/s/{session_id}")
    await desk.sign_in("vera")
    dialog = await settings(desk)
    await expect(dialog).to_contain_text("You may read this session, not change it.")
    await expect(dialog.get_by_label("Steps of a run")).to_have_value("3")
    for one in await dialog.locator("input").all():
        await expect(one).to_be_disabled()
    await desk.page.keyboard.press("Escape")

    # An editor writes in it, but does not say who sees it; nothing runs in an archive.
    await keyed.http.patch(f"{keyed.url}/sessions/{session_id}", json={"archived": True})
    ed: Desk = await desk_of(keyed)
    await ed.page.goto(f"{keyed.url}/s/{session_id}")
    await ed.sign_in("ed")
    dialog = await settings(ed)
    await expect(dialog).to_contain_text("Take the session out of the archive to change this.")
    await expect(dialog.get_by_label("Steps of a run")).to_be_disabled()
    await expect(dialog.get_by_label("Private")).to_be_disabled()
    await expect(dialog.get_by_label("Name", exact=True)).to_be_enabled()
