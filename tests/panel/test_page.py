"""The page in a real browser, against a real server: what a person does, and what they then see."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from playwright.async_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.async_api import Page, WebSocketRoute

    from conftest import Desk, Service

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / "tests" / "data" / "workflows"
REPORT = ["Load sales", "Keep real sales", "Total by region", "Sales by region"]
BUILD = "Build a sales report"


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

    before = await seen(desk)
    saved = await mortal.workflow(desk.id)
    await mortal.kill()
    await expect(page.get_by_text("Connection lost")).to_be_visible()
    await expect(page.get_by_role("button", name="Send")).to_be_disabled()
    await mortal.start()
    await expect(desk.status).to_have_text("Ready", timeout=20_000)
    await expect(page.get_by_text("Connection lost")).to_have_count(0)
    assert await seen(desk) == before
    await page.reload()
    await expect(desk.prompts).to_have_text([other])
    assert await seen(desk) == before
    assert await mortal.workflow(desk.id) == saved
    await page.get_by_role("button", name=f"Earlier line: {ask}").click()
    await expect(desk.prompts).to_have_text([ask])
    assert await mortal.workflow(desk.id) == sorted_


async def seen(desk: Desk) -> tuple[list[str], list[str]]:
    """The conversation and the operators, as text, once the place where lines part is shown."""
    await expect(desk.page.locator(".branch-count")).to_have_text("2/2")
    turns = await desk.page.locator(".turn").all_inner_texts()
    return turns, await desk.operator_names()


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
    assert await two.operator_names() == await one.operator_names() == REPORT


async def test_a_reply_streams_and_its_steps_take_the_place_of_what_streamed(
    service: Service, desk: Desk
) -> None:
    await desk.open(await service.session())
    await desk.composer.fill(BUILD)
    await desk.composer.press("Control+Enter")
    await expect(desk.page.locator(".running .prose")).to_contain_text(re.compile("[a-z]"))
    await expect(desk.revert_button(BUILD)).to_be_disabled()
    await expect(desk.status).to_have_text("Ready")
    await expect(desk.page.locator(".running")).to_have_count(0)
    await expect(desk.page.locator(".tool")).to_have_count(4)
    await desk.page.locator(".tool summary").first.click()
    await expect(desk.page.locator(".tool-body").first).to_contain_text("Added operator op1")


async def test_stop_ends_the_turn_and_says_so(mortal: Service, desk_of: Callable[..., Any]) -> None:
    await mortal.kill()
    mortal.delay_ms = 200
    await mortal.start()
    desk = await (await desk_of(mortal)).open(await mortal.session())
    await desk.composer.fill(BUILD)
    await desk.composer.press("Enter")
    stop = desk.page.get_by_role("button", name="Stop", exact=True)
    await expect(stop).to_be_enabled()
    await expect(desk.page.locator(".running .prose")).to_be_visible()
    await desk.page.keyboard.press("Escape")
    await expect(desk.status).to_have_text("Ready")
    await expect(desk.page.locator(".ending")).to_have_text("Stopped")
    await expect(desk.revert_button(BUILD)).to_be_enabled()


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
    await expect(desk.dock).to_contain_text("Reverted to before “Load sales.csv”")
    await expect(desk.composer).to_have_value("half a thought")
    await desk.redo.click()
    await expect(desk.prompts).to_have_text(["Load sales.csv"])
    await expect(desk.composer).to_have_value("half a thought")


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
    await desk.ask("Sum amount by region")
    picker = desk.page.get_by_role("group", name="Lines part here")
    await expect(picker.locator(".branch-count")).to_have_text("3/3")
    await picker.get_by_role("button", name="Earlier line").click()
    await expect(desk.prompts).to_have_text(["Load sales.csv", "Keep the first 10 rows"])
    await expect(picker.locator(".branch-count")).to_have_text("2/3")
    await picker.get_by_role("button", name="Earlier line: Sort by amount").click()
    await expect(desk.prompts).to_have_text(["Load sales.csv", "Sort by amount"])
    await expect(picker.get_by_role("button", name="Earlier line")).to_be_disabled()
    await expect(desk.operators).to_have_count(2)
    await desk.page.locator("[role=log]").focus()
    await desk.page.keyboard.press("Alt+ArrowRight")
    await expect(desk.prompts).to_have_text(["Load sales.csv", "Keep the first 10 rows"])


async def drag(page: Page, locator: Any, dx: int, dy: int) -> None:
    box = await locator.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + 12
    await page.mouse.move(x, y)
    await page.mouse.down()
    await page.mouse.move(x + dx / 2, y + dy / 2, steps=4)
    await page.mouse.move(x + dx, y + dy, steps=4)
    await page.mouse.up()


async def test_gestures_of_moving_are_one_edit_and_ctrl_z_takes_it_back(
    service: Service, desk: Desk
) -> None:
    document = json.loads((WORKFLOWS / "join-and-chart.json").read_bytes())
    session_id = await service.session(workflow=document)
    await desk.open(session_id)
    loaded = await service.workflow(session_id)
    await drag(desk.page, desk.operator("Load trips"), 30, 60)
    await drag(desk.page, desk.operator("Load trips"), 10, 20)
    await drag(desk.page, desk.operator("Trip lengths"), 0, -80)
    await expect(desk.prompts).to_have_text(["Moved 2 operators"])
    moved = json.loads(await service.workflow(session_id))
    assert moved["operatorPositions"]["load_trips"] != document["operatorPositions"]["load_trips"]
    assert moved["operatorPositions"]["join"] == document["operatorPositions"]["join"]
    await expect(desk.revert_button("Moved 2 operators")).to_be_enabled()

    await desk.page.keyboard.press("Control+z")
    await expect(desk.prompts).to_have_count(2)
    assert await service.workflow(session_id) == loaded
    await desk.page.keyboard.press("Control+Shift+z")
    await expect(desk.prompts).to_have_count(3)
    assert json.loads(await service.workflow(session_id)) == moved


@pytest.mark.parametrize("how", ["home", "reload", "close"])
async def test_a_move_is_saved_when_the_page_is_left_at_once(
    service: Service, desk: Desk, how: str
) -> None:
    document = json.loads((WORKFLOWS / "join-and-chart.json").read_bytes())
    session_id = await service.session(workflow=document)
    await desk.open(session_id)
    await drag(desk.page, desk.operator("Load trips"), 0, 90)
    if how == "home":
        await desk.page.get_by_role("link", name="All sessions").click()
    elif how == "reload":
        await desk.page.reload()
    else:
        await desk.page.close()
    for _ in range(100):
        if json.loads(await service.workflow(session_id)) != document:
            return
        await asyncio.sleep(0.05)
    pytest.fail("the move was lost")


async def test_ctrl_z_in_a_text_field_is_the_fields_own(service: Service, desk: Desk) -> None:
    await desk.open(await service.session())
    await desk.page.get_by_role("button", name="Note", exact=True).click()
    await expect(desk.prompts).to_have_text(["Added a comment"])
    await desk.composer.click()
    await desk.page.keyboard.type("hello")
    await desk.page.keyboard.press("Control+z")
    await expect(desk.composer).not_to_have_value("hello")
    await expect(desk.page.locator(".comment")).to_have_count(1)
    await expect(desk.prompts).to_have_count(1)


async def test_operators_are_placed_connected_set_and_removed_by_hand(
    service: Service, desk: Desk
) -> None:
    session_id = await service.session()
    await desk.open(session_id)
    page = desk.page
    for query, label in (("csv", "CSV File Scan"), ("filt", "Filter")):
        await page.get_by_role("button", name="Operator", exact=True).click()
        await page.get_by_label("Find an operator").fill(query)
        await page.keyboard.press("Enter")
        await expect(desk.operator(label)).to_be_visible()
        await page.get_by_label(re.compile("^Operator op")).get_by_label("Close").click()

    start = await handle(page, "op1", "right")
    end = await handle(page, "op2", "left")
    await page.mouse.move(*start)
    await page.mouse.down()
    await page.mouse.move(*end, steps=6)
    await page.mouse.up()
    await expect(page.locator(".react-flow__edge")).to_have_count(1)
    await expect(desk.prompts.last).to_have_text("Linked `op1` to `op2`")

    await desk.operator("Filter").click()
    inspector = page.get_by_label("Operator op2")
    await inspector.get_by_role("button", name="Add", exact=True).click()
    await inspector.get_by_label("Column").fill("amount")
    await inspector.get_by_label("Condition").select_option(">")
    await inspector.get_by_label("Value").fill("100")
    await inspector.get_by_label("Name").fill("Large ones")
    await inspector.get_by_label("Name").press("Enter")
    await expect(desk.operator("Large ones")).to_contain_text("amount > 100")
    await expect(desk.prompts).to_have_count(8)  # three edits before, and one for each field left
    stored = json.loads(await service.workflow(session_id))["operators"][1]
    assert stored["operatorProperties"]["predicates"] == [
        {"attribute": "amount", "condition": ">", "value": "100"}
    ]
    assert stored["customDisplayName"] == "Large ones"

    await inspector.get_by_label("Close").click()
    await desk.operator("Large ones").click()
    await page.keyboard.press("Delete")
    await expect(desk.operators).to_have_count(1)
    await expect(page.locator(".react-flow__edge")).to_have_count(0)
    await page.keyboard.press("Control+z")
    await expect(desk.operator("Large ones")).to_be_visible()
    await expect(page.locator(".react-flow__edge")).to_have_count(1)


async def handle(page: Page, operator_id: str, side: str) -> tuple[float, float]:
    port = page.locator(f"[data-id='{operator_id}'] .react-flow__handle-{side}")
    box = await port.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


async def test_numbers_that_javascript_would_change_survive_the_page(
    service: Service, desk: Desk, tmp_path: Path
) -> None:
    odd = '{"ratio":1.0,"big":9007199254740993,"small":1e-7,"limit":5}'
    text = (
        '{"operators":[{"operatorID":"a","operatorType":"Limit","operatorProperties":' + odd + "}]}"
    )
    file = tmp_path / "odd numbers.json"
    file.write_text(text)
    await desk.choose_file("Open a workflow file", file)
    await desk.page.wait_for_url("**/s/*")
    await expect(desk.page.get_by_role("heading", name="odd numbers")).to_be_visible()
    assert (await service.workflow(desk.id)).decode() == text
    await desk.operators.first.click()
    rows = desk.page.get_by_label("Rows")
    await rows.fill("6")
    await rows.press("Enter")
    await expect(desk.prompts).to_have_text(["Changed `a`"])
    assert (await service.workflow(desk.id)).decode() == text.replace('"limit":5', '"limit":6')

    await desk.choose_file("Open file", file)
    await expect(desk.prompts).to_have_text(["Changed `a`", "Opened another workflow"])
    assert (await service.workflow(desk.id)).decode() == text
    async with desk.page.expect_download() as download:
        await desk.page.get_by_role("button", name="Save workflow").click()
    assert (await download.value).suggested_filename == "odd numbers.json"
    assert (await (await download.value).path()).read_text() == text


async def test_operators_without_places_are_laid_out_and_given_none(
    service: Service, desk: Desk
) -> None:
    document = json.loads((WORKFLOWS / "old-shape.json").read_bytes())
    session_id = await service.session(workflow=document)
    await desk.open(session_id)
    await expect(desk.operators).to_have_count(2)
    first, second = [await one.bounding_box() for one in await desk.operators.all()]
    assert first is not None
    assert second is not None
    assert first["x"] + first["width"] < second["x"]
    assert json.loads(await service.workflow(session_id)) == document
    await drag(desk.page, desk.operators.nth(1), 0, 90)
    await expect(desk.prompts).to_have_text(["Moved `operator-2`"])
    positions = json.loads(await service.workflow(session_id))["operatorPositions"]
    assert list(positions) == ["operator-2"]


async def test_a_file_that_cannot_be_held_is_refused_with_its_path(
    service: Service, desk: Desk, tmp_path: Path
) -> None:
    file = tmp_path / "bad.json"
    file.write_text('{"operators": [{"operatorID": "a", "operatorType": 7}]}')
    await desk.choose_file("Open a workflow file", file)
    note = desk.page.get_by_role("alert").locator(".toast")
    await expect(note).to_contain_text("/operators/0/operatorType")
    file.write_text("{")
    await desk.choose_file("Open a workflow file", file)
    await expect(note.last).to_contain_text("is not JSON")
    await expect(desk.page.get_by_role("heading", name="Sessions")).to_be_visible()


async def test_sessions_are_found_renamed_archived_and_deleted(
    service: Service, desk: Desk
) -> None:
    for name in ("Harvest plan", "Harvest report", "Trips"):
        await service.session(name=name)
    page = desk.page
    await page.reload()
    names = page.locator(".session-link")
    await page.get_by_label("Search sessions by name").fill("harvest")
    await expect(names).to_have_text(["Harvest report", "Harvest plan"])

    await page.get_by_role("button", name="More for Harvest plan").click()
    await page.get_by_role("menuitem", name="Rename").click()
    await page.get_by_role("textbox", name="Session name").fill("Harvest draft")
    await page.keyboard.press("Enter")
    await expect(names).to_have_text(["Harvest report", "Harvest draft"])

    await page.get_by_role("button", name="More for Harvest draft").click()
    await page.get_by_role("menuitem", name="Archive").click()
    await expect(names).to_have_text(["Harvest report"])
    await page.get_by_role("button", name="Archived").click()
    await expect(names).to_have_text(["Harvest draft"])
    await names.click()
    await expect(desk.status).to_have_text("Archived, read-only")
    await desk.composer.fill("hello")
    await expect(page.get_by_role("button", name="Send")).to_be_disabled()
    await page.get_by_role("link", name="All sessions").click()

    await page.get_by_label("Search sessions by name").fill("harvest")
    await page.get_by_role("button", name="More for Harvest report").click()
    await page.get_by_role("menuitem", name="Delete").click()
    await page.get_by_role("button", name="Delete", exact=True).click()
    await expect(page.get_by_text("No session is called “harvest”")).to_be_visible()


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


async def test_no_text_of_a_conversation_becomes_markup(service: Service, desk: Desk) -> None:
    await desk.open(await service.session())
    await desk.ask('<img src=x onerror="document.title=1"> **bold**')
    await asyncio.sleep(0.1)
    assert await desk.page.locator(".turn img").count() == 0
    assert await desk.page.title() != "1"


async def test_whatever_a_workflow_holds_where_text_is_expected_it_is_drawn(
    service: Service, desk: Desk
) -> None:
    markup = '<img src=x onerror="document.title=1">'
    inherited = ["__proto__", "constructor", "toString", ""]
    document = {
        "operators": [
            {"operatorID": name, "operatorType": name, "operatorProperties": {name: {"x": 1}}}
            for name in inherited
        ]
        + [
            {"operatorID": "n0"},
            {"operatorID": "n1", "operatorType": "Limit", "customDisplayName": 5},
            {"operatorID": "n2", "operatorType": "Limit", "customDisplayName": {"a": [1]}},
            {"operatorID": "n3", "operatorType": markup, "customDisplayName": markup},
            {
                "operatorID": "n4",
                "operatorType": "TextInput",
                "operatorProperties": {"textInput": "long" * 100_000},
                "inputPorts": [{"portID": "a", "displayName": {}}, {"portID": "__proto__"}],
            },
        ],
        "operatorPositions": {"n1": {}, "n2": {"x": "left", "y": 300}, "n3": {"y": 600}},
        "links": [
            {
                "linkID": "__proto__",
                "source": {"operatorID": "__proto__"},
                "target": {"operatorID": "constructor", "portID": "a"},
            }
        ],
        "commentBoxes": [
            {"commentBoxID": "__proto__", "comments": "none"},
            {
                "commentBoxID": "c",
                "comments": [None, 5, {"content": {}}, {"content": markup}],
                "commentBoxPosition": {"x": -500, "y": 300},
            },
        ],
    }
    session = await service.session(workflow=document, name=markup)
    await desk.open(session)
    await expect(desk.operators).to_have_count(len(document["operators"]))
    await expect(desk.page.locator(".comment")).to_have_count(2)
    await desk.page.locator(".comment").last.click()
    await expect(desk.page.get_by_label("Comment 4")).to_have_value(markup)
    await desk.operator("n2").click()
    await expect(desk.page.get_by_label("Name", exact=True)).to_have_value("")
    assert await desk.page.locator("main img, header img").count() == 0
    assert await desk.page.evaluate("({}).x") is None
    assert orjson.loads(await service.workflow(session)) == document


async def test_thousands_of_operators_without_places_are_drawn(
    service: Service, desk: Desk
) -> None:
    names = [f"op{n}" for n in range(3_000)]
    links = [
        {"linkID": f"l{n}", "source": {"operatorID": a}, "target": {"operatorID": b}}
        for n, (a, b) in enumerate(itertools.pairwise(names))
        if n % 20
    ]
    operators = [{"operatorID": name, "operatorType": "Limit"} for name in names]
    await desk.open(await service.session(workflow={"operators": operators, "links": links}))
    await expect(desk.operators.first).to_be_visible()
    assert 0 < await desk.operators.count() < len(names)  # those in sight
    await desk.ask("add a Limit")


async def test_an_address_that_is_no_text_shows_nothing(service: Service, desk: Desk) -> None:
    await desk.page.goto(f"{service.url}/s/%ff")
    await expect(desk.page.get_by_text("There is nothing at this address.")).to_be_visible()
