"""What a person sees when something is away, gone, archived, long or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import expect

if TYPE_CHECKING:
    from desk import Desk, Service

pytestmark = pytest.mark.browser


async def test_a_deleted_session_says_so_in_every_tab(service: Service, desk: Desk) -> None:
    session_id = await service.session()
    await desk.open(session_id)
    await service.http.delete(f"{service.url}/sessions/{session_id}")
    await expect(desk.page.get_by_text("This session has been deleted.")).to_be_visible()
    await desk.page.goto(f"{service.url}/s/{session_id}")
    await expect(desk.page.get_by_text("There is no such session.")).to_be_visible()


async def test_a_long_conversation_is_loaded_from_its_end(service: Service, desk: Desk) -> None:
    session_id = await service.session()
    head = "step-initial"
    for index in range(230):
        comment = {"commentBoxID": f"c{index}", "comments": []}
        edit = {"op": "addComment", "comment": comment} if index == 0 else settings(index)
        await service.command(
            session_id, type="WsClientEditWorkflowCommand", baseHeadId=head, edits=[edit]
        )
        head = (await service.get(f"/sessions/{session_id}"))["head_id"]
    await desk.open(session_id)
    await expect(desk.prompts).to_have_count(200)
    await expect(desk.prompts.last).to_be_in_viewport()
    await desk.page.get_by_role("button", name="Show earlier messages").click()
    await expect(desk.prompts).to_have_count(230)
    await expect(desk.prompts.first).to_have_text("Added a comment")
    await expect(desk.page.get_by_role("button", name="Show earlier messages")).to_have_count(0)


def settings(value: int) -> dict[str, Any]:
    return {"op": "changeSettings", "set": {"dataTransferBatchSize": value}}
