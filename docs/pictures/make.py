"""The pictures of the docs, made anew: `.venv/bin/python docs/pictures/make.py`, after `make test`.

A real server with a fresh data directory, a real Chromium, and what a person would do; the files
are written beside this one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Locator, Page, expect, sync_playwright

from turnback.agent.story import PROMPT

HERE = Path(__file__).parent
WORKFLOWS = HERE.parents[1] / "tests" / "data" / "workflows"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
WIDE = {"width": 1280, "height": 880}
NARROW = {"width": 390, "height": 780}
ALL = {"sessions", "session", "preview", "reverted", "lines", "fork", "family", "files", "share"}
SOME = {"session", "preview", "fork"}
OUTSIDE = {"waiting", "plan", "report", "history"}
LOOKS = (
    ("", WIDE, "light", ALL | OUTSIDE | {"world"}),
    ("-dark", WIDE, "dark", SOME | OUTSIDE),
    ("-narrow", NARROW, "light", SOME | OUTSIDE),
)
CHANGE = "Change op2 to amount > 100 then delete op1"


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """The address that a `turnback serve` has printed, good once; it ends with the block."""
    log = folder / "log"
    command = [Path(sys.executable).with_name("turnback"), "serve", "--port", "0"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--data-dir", folder / "data"],
            stdout=output,
            stderr=output,
            env=os.environ
            | {
                "TURNBACK_MODEL": "offline",
                "TURNBACK_OFFLINE_DELAY_MS": "60",
                "TURNBACK_DEMO": "true",
            },
        )
    try:
        while not (ready := re.search(r"ready at (\S+)\n", log.read_text())):
            if process.poll() is not None:
                raise SystemExit(log.read_text())
            time.sleep(0.1)
        yield ready[1]
    finally:
        process.terminate()
        process.wait()


def send(page: Page, text: str) -> None:
    """Send a message, once the page says that it can be."""
    message = page.get_by_label("Message to the agent")
    message.fill(text)
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    message.press("Enter")
    expect(page.locator(".turn-prompt").last).to_have_text(text)


def comes_to(page: Page, status: str) -> None:
    """Wait until the session says this of itself."""
    expect(page.locator(".status-line .status-words")).to_have_text(status, timeout=60_000)


def ask(page: Page, text: str) -> None:
    """Send a message and wait for the end of its turn."""
    send(page, text)
    comes_to(page, "Ready")


def open_sheet(page: Page, name: str) -> None:
    """What the bar has over a session; on a narrow page it is in a menu."""
    button = page.get_by_role("button", name=name, exact=True)
    if button.is_visible():
        button.click()
    else:
        page.get_by_role("button", name="More of this session").click()
        page.get_by_role("menuitem", name=name).click()


def open_file(page: Page, name: str) -> None:
    """A new session from one of the tests' files."""
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Open a workflow file").first.click()
    chooser.value.set_files(WORKFLOWS / name)
    page.wait_for_url("**/s/*")


def tell(page: Page, address: str) -> None:
    """The story that the pictures show: a report built, changed, sorted, and turned back from."""
    for name in ("uuid-ids.json", "join-and-chart.json"):
        page.goto(address)
        open_file(page, name)
        expect(page.locator(".operator").first).to_be_visible()
    page.goto(address)
    page.get_by_role("button", name="New session").first.click()
    page.wait_for_url("**/s/*")
    ask(page, "Build a sales report")
    ask(page, "Keep the first 10 rows")
    page.get_by_role("button", name="Revert to before “Keep").click()
    ask(page, CHANGE)
    ask(page, "Sort by amount")
    open_sheet(page, "Share")
    for name in ("grace", "vera"):
        page.get_by_label("Name of a person or program").fill(name)
        page.keyboard.press("Enter")
        expect(page.get_by_role("listitem", name=name)).to_be_visible()
    page.get_by_role("listitem", name="vera").get_by_label("Write").check()


def rest(page: Page) -> None:
    """Wait until the view has come to rest."""
    page.evaluate("document.fonts.ready")
    page.wait_for_timeout(600)


def look(page: Page, address: str, suffix: str, wanted: set[str]) -> None:
    """The list and the session that `tell` left, a revert looked at, done and redone."""

    def take(name: str) -> None:
        rest(page)
        if name in wanted:
            page.screenshot(path=HERE / f"{name}{suffix}.png")

    page.goto(address)
    expect(page.locator(".session-link").first).to_be_visible()
    take("sessions")
    page.locator(".session-link", has_text="Build a sales report").last.click()
    expect(page.locator(".operator").first).to_be_attached()
    expect(page.locator(".branch-count")).to_have_text("2 of 2")
    take("session")
    page.get_by_role("button", name=f"Revert to before “{CHANGE}”").click()
    expect(page.locator(".changes")).to_be_visible()
    take("preview")
    page.get_by_role("button", name="Revert 2 turns").click()
    expect(page.get_by_role("region", name="Reverted")).to_contain_text(CHANGE)
    take("reverted")
    page.get_by_role("button", name="Redo", exact=True).click()
    expect(page.locator(".branch-count")).to_have_text("2 of 2")
    page.locator(".branch-count").click()
    take("lines")
    page.keyboard.press("Escape")
    open_sheet(page, "Share")
    expect(page.get_by_role("listitem", name="vera")).to_be_visible()
    take("share")
    page.keyboard.press("Escape")
    page.get_by_role("button", name=f"Fork from “{CHANGE}”").click()
    page.get_by_role("menuitem", name="Edit in a fork").click()
    expect(page.get_by_label("Message to the agent")).to_have_value(CHANGE)
    expect(page.locator(".origin")).to_be_visible()
    take("fork")
    open_sheet(page, "Family")
    expect(page.get_by_role("tree")).to_be_visible()
    take("family")
    page.keyboard.press("Escape")
    if "files" in wanted:
        with page.expect_file_chooser() as chooser:
            page.get_by_role("button", name="Attach files").click()
        chooser.value.set_files([HERE / "lines.png", WORKFLOWS / "join-and-chart.json"])
        expect(page.locator(".uploads [data-phase=ready]")).to_have_count(2)
        ask(page, CHANGE)
        page.locator(".prompt-files").scroll_into_view_if_needed()
    take("files")


def look_outside(page: Page, address: str) -> None:
    """What the agent does outside, and how it is taken back; a person changes a phone meanwhile."""

    def take(name: str, shown: Locator) -> None:
        for suffix, viewport, scheme, wanted in LOOKS:
            if name in wanted:
                page.set_viewport_size(viewport)
                page.emulate_media(color_scheme=scheme)
                rest(page)
                shown.scroll_into_view_if_needed()
                page.screenshot(path=HERE / f"{name}{suffix}.png")
        page.set_viewport_size(WIDE)
        page.emulate_media(color_scheme="light")
        rest(page)

    page.goto(address)
    page.get_by_role("button", name="New session").first.click()
    page.wait_for_url("**/s/*")
    send(page, PROMPT)
    comes_to(page, "Waits for decisions about 3 calls")
    cards = [
        page.get_by_role("region", name=f"Waits for you: demo.{tool}")
        for tool in ("send_email", "send_transfer", "send_text")
    ]
    take("waiting", cards[0].get_by_role("button", name="Change the arguments"))
    for card in cards:
        card.get_by_role("button", name="Approve", exact=True).click()
        expect(card).to_have_count(0)
    comes_to(page, "Ready")
    page.get_by_role("button", name="Demo world", exact=True).click()
    contacts = page.get_by_role("region", name="Contacts", exact=True)
    ben = contacts.locator(".thing").filter(has_text="Ben Okafor")
    ben.locator("summary").click()
    ben.get_by_label("Phone").fill("555-0142")
    ben.get_by_role("button", name="Save").click()
    expect(ben.locator("summary")).to_be_focused()
    take("world", ben)
    page.keyboard.press("Escape")
    page.get_by_role("button", name=f"Revert to before “{PROMPT}”").click()
    expect(page.locator("[data-check=review]")).to_have_count(1)
    expect(page.locator("[data-check=unchecked]")).to_have_count(0)
    take("plan", page.locator("[data-group]").first)
    page.get_by_role("button", name="Revert and undo effects").click()
    outside = page.get_by_role("region", name="Effects outside")
    expect(outside).to_contain_text("remain", timeout=60_000)
    outside.get_by_role("button", name="Show the report").click()
    expect(page.get_by_role("checkbox").first).to_be_visible()
    take("report", page.get_by_role("checkbox").first)
    page.keyboard.press("Escape")
    ask(page, "Build a sales report")
    page.get_by_role("button", name="History", exact=True).click()
    expect(page.get_by_role("tree")).to_be_visible()
    take("history", page.get_by_role("tree").get_by_text("HEAD"))


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with (
        TemporaryDirectory() as folder,
        server(Path(folder)) as printed,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        address = printed.partition("#")[0].rstrip("/")
        context = browser.new_context(viewport=WIDE, color_scheme="light", reduced_motion="reduce")
        page = context.new_page()
        page.goto(printed)
        page.wait_for_url(f"{address}/")  # the code is gone from it: a person has come
        expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
        person = context.storage_state()
        tell(page, address)
        for suffix, viewport, scheme, wanted in LOOKS:
            other = browser.new_context(
                viewport=viewport,
                color_scheme=scheme,
                reduced_motion="reduce",
                storage_state=person,
            )
            look(other.new_page(), address, suffix, wanted)
            other.close()
        look_outside(page, address)
        browser.close()


if __name__ == "__main__":
    main()
