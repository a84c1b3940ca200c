"""Signing in, what each may do, and sharing: each person in a browser of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from desk import BUILD
from playwright.async_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from desk import Desk, Service

pytestmark = pytest.mark.browser


async def seat(desk_of: Callable[..., Any], service: Service, name: str, path: str = "/") -> Desk:
    """Somebody at a page of their own, signed in."""
    desk: Desk = await desk_of(service)
    await desk.page.goto(service.url + path)
    return await desk.sign_in(name)


async def test_a_server_with_keys_asks_for_one_and_keeps_it_from_the_page(
    keyed: Service, desk_of: Callable[..., Any]
) -> None:
    session_id = await keyed.session(name="Behind the door")
    desk: Desk = await desk_of(keyed)
    page = desk.page
    await page.goto(f"{keyed.url}/s/{session_id}")
    field = page.get_by_label("API key")
    await expect(field).to_be_focused()
    await field.fill("tb_none_none")
    await page.keyboard.press("Enter")
    await expect(page.locator(".sign-in .warn")).to_contain_text(
        "not known, has expired or was revoked"
    )
    await desk.sign_in("olga")
    await expect(desk.status).to_have_text("Ready")
    stored = await page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    cookies = await page.evaluate("document.cookie")
    for secret in (keyed.keys["olga"], *(c["value"] for c in await page.context.cookies())):
        assert secret not in stored + cookies + await page.content()
    await page.reload()
    await expect(desk.status).to_have_text("Ready")
    await desk.ask(BUILD)

    # A new ticket for each connection, and none in an address.
    tickets: list[str] = []
    page.on("request", lambda asked: tickets.append(asked.url) if "ticket" in asked.url else None)
    sockets: list[str] = []
    page.on("websocket", lambda socket: sockets.append(socket.url))
    for _ in range(2):
        await page.reload()
        await expect(desk.status).to_have_text("Ready")
    assert tickets == [f"{keyed.url}/ws-tickets"] * 2
    assert len(sockets) == 2
    assert not [url for url in sockets if "ticket" in url]

    # The tabs of one browser share the cookie, and that it is gone.
    other = await page.context.new_page()
    await other.goto(keyed.url)
    await expect(other.get_by_role("heading", name="Sessions")).to_be_visible()
    await page.get_by_role("button", name="Signed in as olga").click()
    await page.get_by_role("menuitem", name="Sign out").click()
    for one in (page, other):
        await expect(one.get_by_label("API key")).to_be_visible()
    await page.reload()
    await expect(field).to_be_visible()


async def test_a_revoked_key_leads_to_the_sign_in_and_what_was_written_stays(
    keyed: Service, desk_of: Callable[..., Any]
) -> None:
    session_id = await keyed.session()
    keyed.keys["ned"] = await keyed.key("ned", "editor")
    desk = await seat(desk_of, keyed, "ned", f"/s/{session_id}")
    page = desk.page
    await expect(desk.status).to_have_text("Ready")
    await desk.composer.fill("not sent yet")
    asked: list[str] = []
    page.on("websocket", lambda socket: asked.append(socket.url))
    prefix = keyed.keys["ned"].split("_")[1]
    answer = await keyed.http.delete(f"{keyed.url}/keys/{prefix}")
    assert answer.status_code == 204, answer.text
    await expect(page.get_by_text("Your sign-in has ended.")).to_be_visible()
    await page.wait_for_timeout(1_500)
    assert asked == [], "it goes on connecting"
    await desk.sign_in("ed")
    await expect(desk.composer).to_have_value("not sent yet")
    await expect(desk.status).to_have_text("Ready")


async def test_a_viewer_reads_is_told_why_not_more_and_forks(
    keyed: Service, desk_of: Callable[..., Any]
) -> None:
    session_id = await keyed.session(name="For all to see")
    await keyed.command(session_id, type="WsClientPromptCommand", content=BUILD)
    desk = await seat(desk_of, keyed, "vera", f"/s/{session_id}")
    page = desk.page
    await expect(desk.status).to_have_text("Ready")
    await expect(desk.composer).to_have_count(0)
    await expect(page.locator(".read-only")).to_contain_text("You may read this session")
    revert = desk.revert_button(BUILD)
    await expect(revert).to_be_disabled()
    await expect(revert).to_have_attribute(
        "title", "Cannot revert now: you may read this session, not change it"
    )
    await expect(page.get_by_role("heading", name="For all to see")).to_be_visible()
    await expect(page.get_by_role("button", name="Rename")).to_have_count(0)

    # What is granted is there at once, and gone at once.
    await keyed.grant(session_id, "vera", "read", "run")
    await expect(desk.composer).to_be_visible()
    await expect(revert).to_be_enabled()
    await keyed.grant(session_id, "vera")
    await expect(page.locator(".read-only")).to_be_visible()

    await page.get_by_role("button", name=f"Fork from “{BUILD}”", exact=True).click()
    for entry in ("Edit in a fork", "Run again in a fork"):
        await expect(page.get_by_role("menuitem", name=entry)).to_be_disabled()
    await page.keyboard.press("Escape")
    await desk.fork(BUILD, "Fork after this turn")
    await expect(page.locator(".origin")).to_contain_text("Forked from For all to see")
    note = page.locator(".read-only")
    await expect(note).to_contain_text("ask an owner of the project to make you one")
    await keyed.grant(desk.id, "vera", "read", "run")
    await expect(desk.composer).to_be_visible()
    await page.goto(keyed.url)
    create = page.get_by_role("button", name="New session")
    await expect(create).to_be_disabled()
    await expect(create).to_have_attribute(
        "title", "As a viewer you may read and fork sessions, not make new ones"
    )


async def test_a_session_is_shared_in_a_dialog_and_every_reader_sees_it_change(
    keyed: Service, desk_of: Callable[..., Any]
) -> None:
    ed = await seat(desk_of, keyed, "ed")
    await ed.page.get_by_role("button", name="New session").click()
    await expect(ed.status).to_have_text("Ready")
    await ed.ask(BUILD)
    address = f"/s/{ed.id}"
    gus = await seat(desk_of, keyed, "gus", address)
    lost = gus.page.get_by_text("There is no such session.")
    await expect(lost).to_be_visible()

    await ed.page.get_by_role("button", name="Share", exact=True).press("Enter")
    dialog = ed.page.get_by_role("dialog", name="Share")
    await expect(dialog).to_contain_text("This session is yours.")
    await dialog.get_by_label("Private").check()
    await expect(dialog.get_by_role("status")).to_have_text("It is private now.")
    await dialog.get_by_label("Name of a person or program").fill("gus")
    await ed.page.keyboard.press("Enter")
    row = dialog.get_by_role("listitem", name="gus")
    await expect(row).to_be_visible()

    await gus.page.reload()
    await expect(gus.page.locator(".read-only")).to_contain_text("Ask its owner")
    fork = gus.page.get_by_role("button", name=f"Fork from “{BUILD}”")
    await fork.click()
    before = gus.page.get_by_role("menuitem", name="Fork before this turn")
    await expect(before).to_have_attribute("title", "You may read this session, not fork it")
    await gus.page.keyboard.press("Escape")
    await row.get_by_label("Write").check()
    await expect(gus.composer).to_be_visible()
    await row.get_by_label("Fork").check()
    await gus.page.get_by_role("button", name="Share", exact=True).click()
    of_gus = gus.page.get_by_role("dialog", name="Share")
    await expect(of_gus).to_contain_text("This session is ed’s. Only its owner")
    await expect(of_gus.get_by_label("The whole project")).to_be_disabled()
    await dialog.get_by_label("The whole project").check()
    await expect(of_gus.get_by_label("The whole project")).to_be_checked()
    await dialog.get_by_role("button", name="Take the rights of gus back").click()
    await expect(gus.page.get_by_text("You may no longer read this session")).to_be_visible()


async def test_the_first_key_ends_the_time_without_keys_for_pages_that_are_open(
    mortal: Service, desk_of: Callable[..., Any]
) -> None:
    desk = await (await desk_of(mortal)).open(await mortal.session())
    await desk.composer.fill("not sent yet")
    await expect(desk.page.get_by_role("button", name="Signed in")).to_have_count(0)
    await mortal.key("olga", "owner")
    await expect(desk.page.get_by_text("Your sign-in has ended.")).to_be_visible()
