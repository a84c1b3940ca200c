"""A conversation as a person has it: asking, watching, reverting, redoing, changing lines."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from desk import BUILD, REPORT, WORKFLOWS
from gate import Gate
from playwright.async_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from desk import Desk, Service
    from playwright.async_api import WebSocketRoute

pytestmark = pytest.mark.browser


async def test_the_main_job_from_a_file_to_a_killed_server_and_back(
    mortal: Service, desk_of: Callable[..., Any]
) -> None:
    desk: Desk = await desk_of(mortal)
    page = desk.page
    await page.goto(mortal.url)
    await desk.choose_file("Open a workflow file", WORKFLOWS / "join-and-chart.json")
    await page.wait_for_url("**/s/*")
    await expect(desk.operators).to_have_count(6)
    loaded = await mortal.workflow(desk.id)
    assert json.loads(loaded) == json.loads((WORKFLOWS / "join-and-chart.json").read_bytes())

    ask = "Add a sort by opened_year after since_2015"
    await desk.ask(ask)
    await expect(desk.operators).to_have_count(7)
    await expect(page.locator(".tool")).to_have_count(1)
    sorted_ = await mortal.workflow(desk.id)

    await desk.revert_button(ask).click()
    await expect(desk.operators).to_have_count(6)
    await expect(desk.prompts).to_have_count(0)
    await expect(desk.composer).to_have_value(ask)
    assert await mortal.workflow(desk.id) == loaded

    await desk.redo.click()
    await expect(desk.operators).to_have_count(7)
    await expect(desk.prompts).to_have_text([ask])
    await expect(desk.composer).to_have_value("")
    assert await mortal.workflow(desk.id) == sorted_

    await desk.revert_button(ask).click()
    await expect(desk.composer).to_have_value(ask)
    other = "Delete lengths"
    await desk.ask(other)
    await expect(desk.operators).to_have_count(5)
    await expect(desk.dock).to_have_count(0)

    await expect(page.locator(".branch-count")).to_have_text("2 of 2")
    turns = await page.locator(".turn").all_inner_texts()
    names = await desk.operator_names.all_inner_texts()
    assert len(names) == 5
    saved = await mortal.workflow(desk.id)
    await mortal.kill()
    await expect(page.get_by_text("Connection lost")).to_be_visible()
    await expect(page.get_by_role("button", name="Send")).to_be_disabled()
    await mortal.start()
    await expect(desk.status).to_have_text("Ready")
    await expect(page.get_by_text("Connection lost")).to_have_count(0)
    await shows(desk, turns, names)
    await page.reload()
    await shows(desk, turns, names)
    assert await mortal.workflow(desk.id) == saved
    await page.get_by_role("button", name=f"Earlier line: {ask}").click()
    await expect(desk.prompts).to_have_text([ask])
    assert await mortal.workflow(desk.id) == sorted_


async def shows(desk: Desk, turns: list[str], names: list[str]) -> None:
    """The conversation and the operators are these, as text."""
    await expect(desk.page.locator(".turn")).to_have_text(turns, use_inner_text=True)
    await expect(desk.operator_names).to_have_text(names)


async def test_two_tabs_stay_in_step(service: Service, desk_of: Callable[..., Any]) -> None:
    session_id = await service.session()
    one = await (await desk_of(service)).open(session_id)
    two = await (await desk_of(service)).open(session_id)
    await one.ask(BUILD)
    await expect(two.prompts).to_have_text([BUILD])
    await expect(two.operators).to_have_count(4)
    await two.revert_button(BUILD).click()
    await expect(one.prompts).to_have_count(0)
    await expect(one.operators).to_have_count(0)
    await expect(two.composer).to_have_value(BUILD)
    await expect(one.composer).to_have_value("")
    await one.redo.click()
    await expect(two.operators).to_have_count(4)
    await expect(two.dock).to_have_count(0)
    for desk in (one, two):
        await expect(desk.operator_names).to_have_text(REPORT)


async def test_a_reply_streams_and_its_steps_take_the_place_of_what_streamed(
    service: Service, desk: Desk
) -> None:
    # From the first word on it waits, so that what streams is there to be seen.
    gate = await Gate.before(desk.page, to_page="WsServerDeltaEvent")
    await desk.open(await service.session())
    await desk.composer.fill(BUILD)
    await desk.composer.press("Control+Enter")
    await gate.to_page.let_one()
    await expect(desk.page.locator(".running .prose")).to_contain_text(re.compile("[a-z]"))
    await expect(desk.revert_button(BUILD)).to_be_disabled()
    gate.to_page.open()
    await expect(desk.status).to_have_text("Ready")
    await expect(desk.page.locator(".running")).to_have_count(0)
    await expect(desk.page.locator(".tool")).to_have_count(4)
    await desk.page.locator(".tool summary").first.click()
    await expect(desk.page.locator(".tool-body").first).to_contain_text("Added operator op1")


async def test_stop_ends_the_turn_and_says_so(slow: Service, desk_of: Callable[..., Any]) -> None:
    desk = await (await desk_of(slow)).open(await slow.session())
    await desk.send(BUILD)
    stop = desk.page.get_by_role("button", name="Stop", exact=True)
    await expect(stop).to_be_enabled()
    await expect(desk.page.locator(".running .prose")).to_be_visible()
    await desk.page.keyboard.press("Escape")
    await expect(desk.status).to_have_text("Ready")
    await expect(desk.page.locator(".ending")).to_have_text("Stopped")
    await expect(desk.said).to_have_text("The agent was stopped. What it had done stays.")
    await expect(desk.revert_button(BUILD)).to_be_enabled()


async def test_stop_and_revert_stops_first_and_gives_the_prompt_back(
    slow: Service, desk_of: Callable[..., Any]
) -> None:
    desk = await (await desk_of(slow)).open(await slow.session())
    await desk.send("hello")
    await expect(desk.page.locator(".running .prose")).to_be_visible()
    await desk.page.get_by_role("button", name="Stop and revert").click()
    await expect(desk.prompts).to_have_count(0)
    await expect(desk.composer).to_have_value("hello")
    await expect(desk.dock).to_contain_text("Reverted 1 turn, to before “hello”")


async def test_a_reload_in_mid_stream_shows_what_had_streamed(
    slow: Service, desk_of: Callable[..., Any]
) -> None:
    desk = await (await desk_of(slow)).open(await slow.session())
    await desk.send("hello")
    await expect(desk.said).to_have_text("The agent is working.")
    running = desk.page.locator(".running .prose")
    await expect(running).to_contain_text(re.compile(r"\w+ \w+ \w+ \w+"))
    before = " ".join((await running.inner_text()).split()[:3])
    await desk.page.reload()
    await expect(running).to_contain_text(before)
    await expect(desk.prompts).to_have_text(["hello"])
    await expect(desk.composer).to_have_value("")
    await desk.page.get_by_role("button", name="Stop", exact=True).click()
    await expect(desk.page.locator(".ending")).to_have_text("Stopped")


@pytest.mark.case(34, 38)
async def test_a_dropped_socket_resumes_and_shows_nothing_twice(
    service: Service, desk: Desk
) -> None:
    routes: list[WebSocketRoute] = []

    def through(route: WebSocketRoute) -> None:
        route.connect_to_server()
        routes.append(route)

    await desk.page.route_web_socket(re.compile(r"/ws(\?|$)"), through)
    session_id = await service.session()
    await desk.open(session_id)
    await desk.ask("Load sales.csv")
    await routes[-1].close(code=1013, reason="slow reader")
    await service.command(session_id, type="WsClientPromptCommand", content="Sort by amount")
    await expect(desk.prompts).to_have_text(["Load sales.csv", "Sort by amount"])
    await expect(desk.status).to_have_text("Ready")
    assert len(routes) == 2
    assert re.search(r"\?since=[1-9]\d*&epoch=", routes[1].url)
    await expect(desk.operators).to_have_count(2)
    steps = (await service.get(f"/sessions/{session_id}/steps"))["steps"]
    await expect(desk.page.locator(".agent-step")).to_have_count(
        sum(step["role"] == "agent" for step in steps)
    )


@pytest.mark.case(11)
async def test_a_reverted_prompt_never_takes_the_place_of_a_draft(
    service: Service, desk: Desk
) -> None:
    await desk.open(await service.session())
    await desk.ask("Load sales.csv")
    await desk.composer.fill("half a thought")
    await desk.revert_button("Load sales.csv").click()
    await expect(desk.dock).to_contain_text("Load sales.csv")
    await expect(desk.composer).to_have_value("half a thought")
    await desk.page.reload()
    await expect(desk.redo).to_be_enabled()
    await expect(desk.dock).to_contain_text("Reverted 1 turn, to before “Load sales.csv”")
    await expect(desk.composer).to_have_value("half a thought")
    await desk.redo.click()
    await expect(desk.prompts).to_have_text(["Load sales.csv"])
    await expect(desk.composer).to_have_value("half a thought")


async def test_a_message_that_is_sent_while_a_revert_is_on_its_way_follows_it(
    service: Service, desk: Desk
) -> None:
    gate = await Gate.before(desk.page, from_page="WsClientRevertCommand")
    session_id = await service.session()
    await desk.open(session_id)
    await desk.ask("Load sales.csv")
    await desk.ask("Sort by amount")
    await desk.revert_button("Sort by amount").click()
    await expect(desk.revert_button("Sort by amount")).to_be_disabled()
    await desk.send("Keep the first 10 rows")
    await expect(desk.composer).to_have_value("")
    await expect(desk.prompts).to_have_text(["Load sales.csv", "Sort by amount"])
    await gate.from_page.let_one()
    await expect(desk.prompts).to_have_text(["Load sales.csv", "Keep the first 10 rows"])
    await expect(desk.status).to_have_text("Ready")
    # The reverted prompt is not put where nobody waits for it any more.
    await expect(desk.composer).to_have_value("")
    await expect(desk.operators).to_have_count(2)

    # A revert that is refused leaves the message to its writer.
    await desk.revert_button("Keep the first 10 rows").click()
    await desk.send("Sum amount by region")
    await expect(desk.composer).to_have_value("")
    await service.command(session_id, type="WsClientPromptCommand", content="Delete op1")
    await expect(desk.prompts.last).to_have_text("Delete op1")
    await expect(desk.status).to_have_text("Ready")
    await gate.from_page.let_one()
    toasts = desk.page.locator(".toast")
    await expect(toasts.filter(has_text="Not sent")).to_contain_text("was refused")
    await expect(toasts).to_have_count(2)
    await expect(desk.composer).to_have_value("Sum amount by region")
    await expect(desk.prompts).to_have_text(
        ["Load sales.csv", "Keep the first 10 rows", "Delete op1"]
    )


async def test_each_press_of_a_key_is_one_more_move_however_slow_the_one_before(
    service: Service, desk: Desk
) -> None:
    gate = await Gate.before(desk.page, from_page="WsClientRevertCommand")
    await desk.open(await service.session())
    prompts = ["Load sales.csv", "Sort by amount", "Keep the first 10 rows"]
    for prompt in prompts:
        await desk.ask(prompt)
    for _ in range(2):
        await desk.page.keyboard.press("Alt+Shift+Z")
    await expect(desk.prompts).to_have_text(prompts)
    await gate.from_page.let_one()
    await expect(desk.prompts).to_have_text(prompts[:2])
    await expect(desk.revert_button(prompts[1])).to_be_disabled()
    await gate.from_page.let_one()
    await expect(desk.prompts).to_have_text(prompts[:1])
    await expect(desk.revert_button(prompts[0])).to_be_enabled()
    assert gate.from_page.waiting == []


async def test_a_message_that_cannot_be_sent_yet_stays_and_says_why(
    slow: Service, desk_of: Callable[..., Any]
) -> None:
    desk = await (await desk_of(slow)).open(await slow.session())
    await desk.send("hello")
    await expect(desk.page.locator(".running .prose")).to_be_visible()
    await desk.composer.fill("and more")
    await desk.composer.press("Enter")
    why = desk.page.locator(".composer").get_by_role("status")
    await expect(why).to_have_text("Not sent: the agent is working.")
    await expect(desk.composer).to_have_value("and more")
    await desk.page.keyboard.press("Escape")
    await expect(desk.status).to_have_text("Ready")
    await expect(why).to_have_text("")
    await desk.composer.press("Enter")
    await expect(desk.prompts).to_have_text(["hello", "and more"])
    await desk.page.keyboard.press("Escape")
    await expect(desk.status).to_have_text("Ready")


async def test_several_reverts_are_redone_one_by_one_or_all_at_once(
    service: Service, desk: Desk
) -> None:
    await desk.open(await service.session())
    prompts = ["Load sales.csv", "Sort by amount", "Keep the first 10 rows"]
    for prompt in prompts:
        await desk.ask(prompt)
    await desk.revert_button(prompts[2]).click()
    await expect(desk.prompts).to_have_count(2)
    await desk.page.keyboard.press("Alt+Shift+Z")
    await expect(desk.prompts).to_have_count(1)
    await expect(desk.dock).to_contain_text("2 reverts can be redone")
    await desk.redo.click()
    await expect(desk.prompts).to_have_text(prompts[:2])
    await desk.page.keyboard.press("Alt+Shift+Y")
    await expect(desk.prompts).to_have_text(prompts)
    await desk.revert_button(prompts[1]).click()
    await desk.sheet.get_by_role("button", name="Revert 2 turns").click()
    await expect(desk.prompts).to_have_count(1)
    await desk.page.keyboard.press("Alt+Shift+Z")
    await expect(desk.prompts).to_have_count(0)
    await expect(desk.dock).to_contain_text("2 reverts can be redone")
    await desk.dock.get_by_role("button", name="Redo all").click()
    await expect(desk.prompts).to_have_text(prompts)
    await expect(desk.operators).to_have_count(3)


async def test_lines_part_after_a_revert_and_can_be_visited(service: Service, desk: Desk) -> None:
    await desk.open(await service.session())
    await desk.ask("Load sales.csv")
    for prompt in ("Sort by amount", "Keep the first 10 rows"):
        await desk.ask(prompt)
        await desk.revert_button(prompt).click()
        await expect(desk.composer).to_have_value(prompt)
    await desk.ask("Sum amount by region")
    picker = desk.page.get_by_role("group", name="Lines part here")
    await expect(picker.locator(".branch-count")).to_have_text("3 of 3")
    await picker.get_by_role("button", name="Earlier line").click()
    await expect(desk.prompts).to_have_text(["Load sales.csv", "Keep the first 10 rows"])
    await expect(picker.locator(".branch-count")).to_have_text("2 of 3")
    await picker.get_by_role("button", name="Earlier line: Sort by amount").click()
    await expect(desk.prompts).to_have_text(["Load sales.csv", "Sort by amount"])
    await expect(picker.get_by_role("button", name="Earlier line")).to_be_disabled()
    await expect(desk.operators).to_have_count(2)
    await desk.page.locator("[role=log]").focus()
    await desk.page.keyboard.press("Alt+ArrowRight")
    await expect(desk.prompts).to_have_text(["Load sales.csv", "Keep the first 10 rows"])

    await picker.get_by_role("button", name="Line 2 of 3").press("Enter")
    lines = desk.page.get_by_role("menuitemradio")
    await expect(lines).to_have_text(
        [re.compile("Sort.*1 turn"), re.compile("Keep"), re.compile("Sum")]
    )
    await expect(lines.nth(1)).to_be_focused()
    await expect(lines.nth(1)).to_have_attribute("aria-checked", "true")
    await desk.page.keyboard.press("ArrowDown")
    await desk.page.keyboard.press("Enter")
    await expect(desk.prompts).to_have_text(["Load sales.csv", "Sum amount by region"])
    await expect(picker.get_by_role("button", name="Line 3 of 3")).to_be_focused()


async def test_lines_part_at_the_first_turn_too(service: Service, desk: Desk) -> None:
    await desk.open(await service.session())
    await desk.ask("Load sales.csv")
    await desk.ask("Sort by amount")
    await desk.revert_button("Load sales.csv").click()
    await desk.sheet.get_by_role("button", name="Revert 2 turns").click()
    await desk.ask("Load orders.csv")
    picker = desk.page.get_by_role("group", name="Lines part here")
    await picker.get_by_role("button", name="Line 2 of 2").click()
    first = desk.page.get_by_role("menuitemradio").first
    await expect(first).to_contain_text("Load sales.csv")
    await expect(first).to_contain_text("2 turns")
    await first.click()
    await expect(desk.prompts).to_have_text(["Load sales.csv", "Sort by amount"])


async def test_no_text_of_a_conversation_becomes_markup(service: Service, desk: Desk) -> None:
    await desk.open(await service.session())
    await desk.ask('<img src=x onerror="document.title=1"> **bold**')
    await asyncio.sleep(0.1)
    assert await desk.page.locator(".turn img").count() == 0
    assert await desk.page.title() != "1"
