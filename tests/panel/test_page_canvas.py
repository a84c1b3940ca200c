"""The canvas under a person's hands: drawn, edited, opened from files and saved."""

from __future__ import annotations

import itertools
import json
import re
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from desk import WORKFLOWS
from playwright.async_api import expect
from processes import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from desk import Desk, Service
    from playwright.async_api import Page

pytestmark = pytest.mark.browser


async def drag(page: Page, locator: Any, dx: int, dy: int) -> None:
    await locator.hover(trial=True)  # it stands still
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
    clock = desk.page.clock
    await clock.install()
    await desk.open(session_id)
    loaded = await service.workflow(session_id)
    # However long the machine takes for them, to the page they come at once.
    await clock.pause_at(await desk.page.evaluate("Date.now() + 1000"))
    await drag(desk.page, desk.operator("Load trips"), 30, 60)
    await drag(desk.page, desk.operator("Load trips"), 10, 20)
    await drag(desk.page, desk.operator("Trip lengths"), 0, -80)
    await clock.resume()
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

    async def is_saved() -> bool:
        return bool(json.loads(await service.workflow(session_id)) != document)

    await eventually(is_saved)


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
    await expect(desk.prompts.last).to_have_text("Linked op1 to op2")

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
    await expect(page.locator(".react-flow__node.selected")).to_have_count(1)
    await page.keyboard.press("Delete")
    await expect(desk.operators).to_have_count(1)
    await expect(page.locator(".react-flow__edge")).to_have_count(0)
    await page.keyboard.press("Control+z")
    await expect(desk.operator("Large ones")).to_be_visible()
    await expect(page.locator(".react-flow__edge")).to_have_count(1)


async def handle(page: Page, operator_id: str, side: str) -> tuple[float, float]:
    port = page.locator(f"[data-id='{operator_id}'] .react-flow__handle-{side}")
    await port.hover(trial=True)  # it stands still
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
    await expect(desk.prompts).to_have_text(["Changed a"])
    assert (await service.workflow(desk.id)).decode() == text.replace('"limit":5', '"limit":6')

    await desk.choose_file("Open file", file)
    await expect(desk.prompts).to_have_text(["Changed a", "Opened another workflow"])
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
    await expect(desk.prompts).to_have_text(["Moved operator-2"])
    positions = json.loads(await service.workflow(session_id))["operatorPositions"]
    assert list(positions) == ["operator-2"]


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
