"""Files: put to a message by button, drop and paste; seen, saved and missed afterwards."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
from desk import Service
from playwright.async_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from desk import Desk
    from playwright.async_api import Route

pytestmark = pytest.mark.browser

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)


async def test_files_go_with_a_message_and_are_seen_saved_and_missed(
    service: Service, desk: Desk, tmp_path: Path
) -> None:
    page, session_id = desk.page, await service.session()
    await desk.open(session_id)
    files = page.get_by_role("list", name="Files for this message")
    attach = page.get_by_role("button", name="Attach files")
    await expect(attach).to_have_attribute(
        "title", "Attach files, up to 20 of 20 MB each; or drop or paste them"
    )
    (tmp_path / "dot.png").write_bytes(PNG)
    await desk.choose_file("Attach files", tmp_path / "dot.png")
    await desk.give("drop", ".log", "dropped.csv")
    await desk.give("paste", "#composer", "pasted.csv")
    await expect(files.get_by_role("listitem")).to_have_count(3)
    await expect(files.locator("[data-phase=ready]")).to_have_count(3)
    await files.get_by_role("button", name="Remove pasted.csv").press("Enter")
    await expect(files.get_by_role("listitem")).to_have_count(2)
    await page.reload()
    await expect(files.get_by_role("listitem")).to_have_count(2)

    await desk.ask("Load sales.csv")
    await expect(files).to_have_count(0)
    sent = page.get_by_role("list", name="Files", exact=True)
    await expect(sent.get_by_role("listitem")).to_have_count(2)
    picture = sent.locator("img")
    await expect(picture).to_have_count(1)
    assert await picture.evaluate("async e => { await e.decode(); return e.naturalWidth }") == 1
    async with page.expect_download() as saving:
        await sent.get_by_role("button", name="Download dot.png").click()
    assert (await saving.value).suggested_filename == "dot.png"
    await (await saving.value).save_as(tmp_path / "saved")
    assert (tmp_path / "saved").read_bytes() == PNG

    await page.get_by_role("button", name="Fork from “Load sales.csv”").press("Enter")
    again = page.get_by_role("menuitem", name="Run again in a fork")
    await expect(again).to_contain_text("without its 2 files, to be attached again")
    await page.keyboard.press("Escape")

    # Removed by somebody, it is missed when it is asked for, and afterwards at once.
    listed = (await service.get(f"/sessions/{session_id}/attachments"))["attachments"]
    assert sorted(one["name"] for one in listed) == ["dot.png", "dropped.csv"]
    dropped = next(one["id"] for one in listed if one["name"] == "dropped.csv")
    await service.http.delete(f"{service.url}/sessions/{session_id}/attachments/{dropped}")
    await sent.get_by_role("button", name="Download dropped.csv").click()
    await expect(sent.locator("[data-phase=gone]")).to_have_text("dropped.csvWas removed")
    await page.reload()
    await expect(sent.locator("[data-phase=gone]")).to_have_text("dropped.csvWas removed")
    await expect(sent.locator("img")).to_have_count(1)


async def test_an_upload_shows_its_progress_is_cancelled_and_tried_again(
    service: Service, desk: Desk
) -> None:
    page, session_id = desk.page, await service.session()
    await desk.open(session_id)
    held: list[Route] = []
    await page.route("**/attachments?name=*", lambda route: held.append(route))
    files = page.get_by_role("list", name="Files for this message")
    for name in ("one.csv", "two.csv"):
        await desk.give("drop", ".log", name)
    await desk.composer.fill("hello")
    send = page.get_by_role("button", name="Send")
    await expect(send).to_be_disabled()
    await expect(send).to_have_attribute("title", "A file is still being uploaded")
    await expect(files.get_by_role("progressbar", name="Uploading one.csv")).to_be_visible()
    await files.get_by_role("button", name="Cancel one.csv").click()
    await expect(files.get_by_role("listitem")).to_have_count(1)
    await page.wait_for_function("document.querySelector('.file').dataset.phase === 'sending'")
    await held[-1].abort()
    await expect(files).to_contain_text("The server cannot be reached.")
    await expect(send).to_have_attribute("title", "Remove the file that was not uploaded")
    await page.unroute("**/attachments?name=*")
    await files.get_by_role("button", name="Try again").click()
    await expect(files.locator("[data-phase=ready]")).to_have_count(1)
    await expect(send).to_be_enabled()
    listed = (await service.get(f"/sessions/{session_id}/attachments"))["attachments"]
    assert [one["name"] for one in listed] == ["two.csv"]


async def test_what_is_too_large_is_said_before_it_is_sent(
    tmp_path: Path, desk_of: Callable[..., Any]
) -> None:
    limited = Service(tmp_path, delay_ms=4, env={"TURNBACK_MAX_ATTACHMENT_BYTES": "1000"})
    await limited.start()
    desk: Desk = await desk_of(limited)
    await desk.open(await limited.session())
    asked: list[str] = []
    desk.page.on("request", lambda request: asked.append(request.url))
    await desk.give("drop", ".log", "large.csv", "x" * 1_001)
    files = desk.page.get_by_role("list", name="Files for this message")
    await expect(files.get_by_role("alert")).to_have_text("Larger than 1 KB")
    await desk.composer.fill("hello")
    await expect(desk.page.get_by_role("button", name="Send")).to_be_disabled()
    await files.get_by_role("button", name="Remove large.csv").click()
    await expect(desk.page.get_by_role("button", name="Send")).to_be_enabled()
    assert not [url for url in asked if "attachments" in url]
    await limited.stop()
