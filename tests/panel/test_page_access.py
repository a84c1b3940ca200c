"""For everyone: axe finds nothing, the keyboard does everything, what happens is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from desk import BUILD, ROOT
from playwright.async_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from desk import Desk, Service

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing(
    service: Service, desk_of: Callable[..., Any], scheme: str
) -> None:
    desk: Desk = await desk_of(service, color_scheme=scheme)
    axe = (ROOT / "panel/node_modules/axe-core/axe.min.js").read_text()
    session_id = await service.session(name="Looked at")

    async def look() -> list[str]:
        await desk.page.evaluate(axe)
        found = await desk.page.evaluate("axe.run()")
        return [
            f"{violation['id']}: {node['html']} {node['failureSummary']}"
            for violation in found["violations"]
            for node in violation["nodes"]
        ]

    await desk.page.goto(service.url)
    await expect(desk.page.get_by_role("link", name="Looked at").first).to_be_visible()
    assert await look() == []
    await desk.open(session_id)
    assert await look() == []
    await desk.ask(BUILD)
    await desk.ask("hello")
    await desk.revert_button("hello").click()
    await expect(desk.dock).to_be_visible()
    await desk.operators.nth(1).click()
    assert await look() == []
    await desk.page.get_by_role("button", name="Operator", exact=True).click()
    await expect(desk.page.get_by_label("Find an operator")).to_be_focused()
    assert await look() == []
