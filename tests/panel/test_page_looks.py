"""How it looks: narrow, dark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from desk import BUILD
from playwright.async_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from desk import Desk, Service
    from playwright.async_api import Page

pytestmark = pytest.mark.browser


async def test_a_narrow_page_shows_one_pane_at_a_time(
    service: Service, desk_of: Callable[..., Any]
) -> None:
    desk = await (await desk_of(service, viewport={"width": 800, "height": 700})).open(
        await service.session()
    )
    await desk.ask(BUILD)
    await expect(desk.operators.first).to_be_hidden()
    await desk.page.get_by_role("button", name="Canvas", exact=True).click()
    await expect(desk.operators).to_have_count(4)
    for one in await desk.operators.all():
        await expect(one).to_be_in_viewport(ratio=0.99)
    await expect(desk.composer).to_be_hidden()
    overflow = "document.documentElement.scrollWidth > innerWidth"
    assert await desk.page.evaluate(overflow) is False
    await desk.page.goto(service.url)
    await expect(desk.page.get_by_role("heading", name="Sessions")).to_be_visible()
    assert await desk.page.evaluate(overflow) is False


async def test_a_menu_on_a_narrow_page_keeps_off_its_edges(
    service: Service, desk_of: Callable[..., Any]
) -> None:
    desk: Desk = await desk_of(service, viewport={"width": 390, "height": 780})
    await desk.open(await service.session())
    opener = desk.page.get_by_role("button", name="More of this session")
    await opener.click()
    menu = await desk.page.get_by_role("menu").bounding_box()
    under = await opener.bounding_box()
    assert menu is not None
    assert under is not None
    assert menu["x"] > 0
    assert menu["x"] + menu["width"] < 390
    assert menu["y"] >= under["y"] + under["height"]


async def test_dark_follows_the_system_and_a_choice_outlives_a_reload(
    service: Service, desk_of: Callable[..., Any]
) -> None:
    desk: Desk = await desk_of(service, color_scheme="dark")
    page = desk.page
    await page.goto(service.url)
    assert await brightness(page) < 60
    await page.get_by_role("button", name="Switch to light").click()
    assert await brightness(page) > 200
    await page.reload()
    assert await brightness(page) > 200
    await page.get_by_role("button", name="Switch to dark").click()
    assert await brightness(page) < 60


async def brightness(page: Page) -> float:
    color = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    return max(int(part) for part in re.findall(r"\d+", color)[:3])
