"""What a person sees when something is away, gone, archived, long or refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from desk import BUILD, Service
from flaky import flaky
from playwright.async_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from desk import Desk

pytestmark = pytest.mark.browser


async def test_a_deleted_session_says_so_in_every_tab(service: Service, desk: Desk) -> None:
    session_id = await service.session()
    await desk.open(session_id)
    await service.http.delete(f"{service.url}/sessions/{session_id}")
    await expect(desk.page.get_by_text("This session has been deleted.")).to_be_visible()
    await desk.page.goto(f"{service.url}/s/{session_id}")
    await expect(desk.page.get_by_text("There is no such session.")).to_be_visible()


async def test_a_refused_message_is_explained_and_not_lost(service: Service, desk: Desk) -> None:
    await desk.open(await service.session())
    text = "long " * 45_000
    await desk.send(text)
    toast = desk.page.locator(".toast")
    await expect(toast).to_contain_text("Shorten it, or split it in two.")
    await expect(desk.composer).to_have_value(text.strip())
    await expect(desk.prompts).to_have_count(0)
    await desk.page.reload()
    await expect(desk.composer).to_have_value(text.strip())


async def test_an_archived_session_says_so_and_can_be_taken_out(
    service: Service, desk: Desk
) -> None:
    session_id = await service.session()
    await desk.open(session_id)
    await desk.ask("Load sales.csv")
    await service.http.patch(f"{service.url}/sessions/{session_id}", json={"archived": True})
    banner = desk.page.locator(".banner")
    await expect(banner).to_contain_text("This session is archived. It can be read, not changed.")
    await expect(desk.revert_button("Load sales.csv")).to_be_disabled()
    await desk.page.reload()
    await banner.get_by_role("button", name="Take it out of the archive").click()
    await expect(banner).to_have_count(0)
    await expect(desk.revert_button("Load sales.csv")).to_be_enabled()


async def test_turns_that_end_badly_say_how_and_what_can_be_done(
    tmp_path: Path, desk_of: Callable[..., Any]
) -> None:
    nobody = {
        "TURNBACK_MODEL_BASE_URL": "http://127.0.0.1:9/v1",
        "TURNBACK_MODEL_API_KEY": "none",
    }
    mortal = Service(tmp_path, delay_ms=80, env={"TURNBACK_MAX_STEPS": "2"} | nobody)
    await mortal.start()
    desk: Desk = await desk_of(mortal)
    step = desk.page.locator(".agent-step")

    await desk.open(await mortal.session(model="openai:nobody"))
    await desk.send("hello")
    await expect(step).to_contain_text("Failed")
    await expect(step).to_contain_text("Send the message again, or revert the turn.")
    await expect(desk.said).to_contain_text("The turn failed.")

    await desk.open(await mortal.session())
    await desk.send(BUILD)
    await expect(step.last).to_contain_text("Limit reached")
    await expect(step.last).to_contain_text("Ask the agent to go on, or revert.")

    await desk.send("hello")
    await expect(desk.page.locator(".running .prose")).to_contain_text(re.compile("[a-z]"))
    await mortal.kill()
    banner = desk.page.locator(".banner")
    await expect(banner).to_contain_text("Connection lost. Reconnecting, attempt")
    await mortal.start()
    await expect(step.last).to_contain_text("Interrupted")

    await desk.composer.fill("not sent yet")
    await mortal.drain()
    await expect(banner).to_contain_text("The server is restarting. Reconnecting, attempt")
    await expect(banner.get_by_role("button", name="Try now")).to_be_visible()
    await mortal.start()
    await expect(banner).to_have_count(0)
    await expect(desk.composer).to_have_value("not sent yet")
    await mortal.stop()


async def test_a_database_that_is_away_is_said_until_it_is_back(
    tmp_path: Path, fresh_database: str, desk_of: Callable[..., Any]
) -> None:
    async with flaky(fresh_database, tmp_path) as wire:
        soon = {"TURNBACK_DB_CONNECT_TIMEOUT": "0.5", "TURNBACK_POLL_INTERVAL": "0.2"}
        env = {"TURNBACK_DATABASE_URL": wire.url} | soon
        cut_off = Service(tmp_path, delay_ms=4, env=env)
        await cut_off.start()
        desk: Desk = await desk_of(cut_off)
        await desk.open(await cut_off.session())
        await desk.ask("Load sales.csv")
        wire.fall_silent()
        wire.cut()
        banner = desk.page.locator(".banner")
        await expect(banner).to_contain_text("The server cannot reach its database.")
        await expect(desk.revert_button("Load sales.csv")).to_be_disabled()
        wire.speak()
        await expect(banner).to_have_count(0)
        await desk.ask("Sort by amount")
        await expect(desk.prompts).to_have_text(["Load sales.csv", "Sort by amount"])
        await cut_off.stop()


async def test_text_of_any_length_and_direction_keeps_to_its_place(
    service: Service, desk: Desk
) -> None:
    name = "W" * 300
    operator = {"operatorID": "a", "operatorType": "Limit", "customDisplayName": name}
    session_id = await service.session(workflow={"operators": [operator]}, name=name[:200])
    await desk.open(session_id)
    for count, text in enumerate(("x" * 100_000, name, "שלום עולם"), 1):
        await service.command(session_id, type="WsClientPromptCommand", content=text)
        await expect(desk.prompts).to_have_count(count)
        await expect(desk.status).to_have_text("Ready")
    first = desk.prompts.first
    assert len(await first.inner_text()) < 2_000
    await first.get_by_role("button", name="Show all, 100 KB").click()
    assert len(await first.inner_text()) > 100_000
    assert await desk.prompts.last.evaluate("e => getComputedStyle(e).direction") == "rtl"
    log = desk.page.locator(".log")
    assert await log.evaluate("e => e.scrollWidth <= e.clientWidth")
    assert await desk.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    box = await desk.operators.first.bounding_box()
    assert box is not None
    assert box["width"] < 300


async def test_a_long_conversation_is_loaded_from_its_end(service: Service, desk: Desk) -> None:
    session_id = await service.session()
    head = "step-initial"
    for index in range(230):
        comment = {"commentBoxID": f"c{index}", "comments": []}
        edit = {"op": "addComment", "comment": comment} if index == 0 else settings(index)
        made = await service.command(
            session_id, type="WsClientEditWorkflowCommand", baseHeadId=head, edits=[edit]
        )
        head = made["headId"]
    await desk.open(session_id)
    await expect(desk.prompts).to_have_count(200)
    await expect(desk.prompts.last).to_be_in_viewport()
    read = desk.prompts.nth(0)
    text = await read.text_content()
    await desk.page.locator(".log").evaluate("e => e.scrollTo(0, 0)")
    await expect(desk.prompts).to_have_count(230)
    await expect(desk.prompts.first).to_have_text("Added a comment")
    await expect(desk.page.get_by_role("button", name="Show earlier messages")).to_have_count(0)
    # What was being read is still in sight.
    assert await desk.prompts.nth(30).text_content() == text
    await expect(desk.prompts.nth(30)).to_be_in_viewport()


def settings(value: int) -> dict[str, Any]:
    return {"op": "changeSettings", "set": {"dataTransferBatchSize": value}}
