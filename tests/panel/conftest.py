"""The page under test: a real `turnback serve`, a real Chromium, and what a person does in it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from desk import ROOT, Desk, Service
from playwright.async_api import async_playwright, expect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from playwright.async_api import Browser, BrowserContext

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WITHIN = 20_000  # milliseconds, on a busy machine; most comes at once
expect.set_options(timeout=WITHIN)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """One server for all tests that leave it standing."""
    running = Service(tmp_path_factory.mktemp("service"), delay_ms=4)
    await running.start()
    yield running
    await running.stop()


@pytest.fixture(scope="session")
async def slow(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """One server whose model takes its time: what is seen while it works."""
    running = Service(tmp_path_factory.mktemp("slow"), delay_ms=200)
    await running.start()
    yield running
    await running.stop()


@pytest.fixture(scope="session")
async def keyed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """One server with keys: of `olga`, who owns the project, `ed`, `vera` and `gus`."""
    running = Service(tmp_path_factory.mktemp("keyed"), delay_ms=4)
    await running.start()
    for name, role in (("olga", "owner"), ("ed", "editor"), ("vera", "viewer"), ("gus", None)):
        await running.key(name, role)
    yield running
    await running.stop()


@pytest.fixture
async def mortal(tmp_path: Path) -> AsyncIterator[Service]:
    """A server that the test may kill."""
    running = Service(tmp_path, delay_ms=4)
    await running.start()
    yield running
    await running.stop()


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    executable = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    assert executable, "the tests of the page need Chromium on the PATH"
    assert (ROOT / "src/turnback/panel/index.html").is_file(), "build the page: `make panel`"
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield running
        await running.close()


@pytest.fixture
async def desk_of(browser: Browser) -> AsyncIterator[Callable[..., Any]]:
    """Opens a page on a service. What the page logs as an error, or asks of elsewhere, fails."""
    contexts: list[BrowserContext] = []
    wrong: list[str] = []

    async def make(service: Service, *, person: bool = True, **options: Any) -> Desk:
        context = await browser.new_context(
            **{"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce"} | options
        )
        contexts.append(context)
        if person:  # as the printed address would make them one
            await service.let_in(context)
        page = await context.new_page()
        page.set_default_timeout(WITHIN)
        page.on("pageerror", lambda error: wrong.append(f"exception: {error}"))
        page.on("console", lambda line: _note(wrong, line.type, line.text))
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith((service.url, "blob:" + service.url))
                else wrong.append(f"asked elsewhere: {request.url}")
            ),
        )
        return Desk(page, service)

    yield make
    for context in contexts:
        await context.close()
    assert wrong == []


def _note(wrong: list[str], kind: str, text: str) -> None:
    # A server that a test has killed, or a refusal that a test provokes, is logged by the browser.
    provoked = ("WebSocket connection to", "Failed to load resource")
    if kind in ("error", "warning") and not text.startswith(provoked):
        wrong.append(f"{kind}: {text}")


@pytest.fixture
async def desk(service: Service, desk_of: Callable[..., Any]) -> Desk:
    """An open page at the list of sessions, 1280 by 800, light."""
    made: Desk = await desk_of(service)
    await made.page.goto(service.url)
    return made
