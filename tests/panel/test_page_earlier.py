"""An earlier state is looked at: by a link that lasts, and without changing anything."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from desk import BUILD
from playwright.async_api import expect

if TYPE_CHECKING:
    from desk import Desk, Service

pytestmark = pytest.mark.browser


async def test_an_earlier_state_is_looked_at_left_linked_to_and_checked_out(
    service: Service, desk: Desk
) -> None:
    session_id = await service.session()
    await desk.open(session_id)
    page = desk.page
    await desk.ask(BUILD)
    await desk.ask("Delete op4")
    head = (await service.get(f"/sessions/{session_id}"))["head_id"]

    await page.get_by_role("button", name=f"More for “{BUILD}”").click()
    await page.get_by_role("menuitem", name="Look at the state after this turn").click()
    bar = page.get_by_role("region", name="Looking at an earlier state")
    await expect(bar.get_by_role("heading")).to_be_focused()
    await expect(bar).to_contain_text(f"After “{BUILD}”")
    await expect(desk.operators).to_have_count(4)
    await expect(desk.prompts).to_have_text([BUILD])
    await expect(desk.composer).to_have_count(0)
    await expect(page.get_by_role("button", name="Operator", exact=True)).to_be_disabled()
    await expect(desk.revert_button(BUILD)).to_be_disabled()
    link = page.url
    assert re.search(r"\?at=[0-9a-f-]{36}$", link)

    await page.go_back()
    await expect(bar).to_have_count(0)
    await expect(desk.operators).to_have_count(3)
    await page.go_forward()
    await expect(desk.operators).to_have_count(4)
    await page.keyboard.press("Escape")
    await expect(desk.operators).to_have_count(3)
    await expect(desk.composer).to_be_focused()
    assert (await service.get(f"/sessions/{session_id}"))["head_id"] == head

    await page.goto(link)
    await page.reload()
    await expect(desk.operators).to_have_count(4)
    await bar.get_by_role("button", name="Check out").click()
    await expect(bar).to_have_count(0)
    await expect(desk.status).to_have_text("On another line")
    await expect(desk.operators).to_have_count(4)
    assert (await service.get(f"/sessions/{session_id}"))["head_id"] == link.rsplit("=", 1)[1]


async def test_the_beginning_and_a_step_that_is_not_there(service: Service, desk: Desk) -> None:
    session_id = await service.session()
    await desk.open(session_id)
    await desk.ask("Load sales.csv")
    await desk.page.goto(f"{service.url}/s/{session_id}?at=step-initial")
    bar = desk.page.get_by_role("region", name="Looking at an earlier state")
    await expect(bar).to_contain_text("The beginning, before the first message.")
    await expect(desk.operators).to_have_count(0)
    await desk.page.goto(f"{service.url}/s/{session_id}?at=nowhere")
    await expect(bar).to_contain_text("This session has no such step.")
    await expect(bar.get_by_role("button", name="Check out")).to_have_count(0)
    await bar.get_by_role("button", name="Back to now").click()
    await expect(desk.operators).to_have_count(1)
