"""The page under test: a real `turnback serve`, a real Chromium, and what a person does in it."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from playwright.async_api import Locator, Page, async_playwright, expect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from playwright.async_api import Browser, BrowserContext

ROOT = Path(__file__).parents[2]
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
START = 60.0  # seconds until a server is ready


@dataclass
class Service:
    """A `turnback serve` of its own data directory; it can be killed and started again."""

    folder: Path
    delay_ms: int
    url: str = ""
    http: httpx.AsyncClient = field(default_factory=lambda: httpx.AsyncClient(timeout=20))
    _process: asyncio.subprocess.Process | None = None
    _starts: int = 0

    async def start(self) -> None:
        """Start, on the port of the start before if there was one, and wait until it is ready."""
        self._starts += 1
        log = self.folder / f"log-{self._starts}"
        port = self.url.rsplit(":", 1)[-1].rstrip("/") or "0"
        turnback = Path(sys.executable).with_name("turnback")
        command = ["serve", "--port", port, "--data-dir", str(self.folder / "d")]
        with log.open("wb") as output:
            self._process = await asyncio.create_subprocess_exec(
                turnback,
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.folder,
                env=os.environ
                | {"TURNBACK_MODEL": "offline", "TURNBACK_OFFLINE_DELAY_MS": str(self.delay_ms)},
            )
        async with asyncio.timeout(START):
            while not (found := re.search(r"ready at (http://\S+?)/?\n", log.read_text())):
                assert self._process.returncode is None, log.read_text()
                await asyncio.sleep(0.05)
        self.url = found[1]

    async def kill(self) -> None:
        """`kill -9`: nothing is saved, nobody is told."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """End it, and the database with it."""
        await self._end(signal.SIGTERM)
        await self.http.aclose()

    async def _end(self, how: signal.Signals) -> None:
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(how)
        await self._process.wait()

    async def get(self, path: str) -> Any:
        answer = await self.http.get(self.url + path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def session(self, **body: Any) -> str:
        """A new session's id."""
        answer = await self.http.post(self.url + "/sessions", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    async def command(self, session_id: str, **frame: Any) -> None:
        """A command by REST: another client of the same session."""
        answer = await self.http.post(f"{self.url}/sessions/{session_id}/commands", json=frame)
        assert answer.status_code == 202, answer.text

    async def workflow(self, session_id: str) -> bytes:
        """The workflow at HEAD, byte for byte."""
        return (await self.http.get(f"{self.url}/sessions/{session_id}/workflow")).content


@pytest.fixture(scope="session")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """One server for all tests that leave it standing."""
    running = Service(tmp_path_factory.mktemp("service"), delay_ms=4)
    await running.start()
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


@dataclass
class Desk:
    """One person's open page, in the words of what they do and see."""

    page: Page
    service: Service

    @property
    def id(self) -> str:
        """The open session."""
        return self.page.url.rsplit("/s/", 1)[1]

    async def open(self, session_id: str) -> Desk:
        await self.page.goto(f"{self.service.url}/s/{session_id}")
        await expect(self.status).to_have_text("Ready")
        return self

    async def choose_file(self, button: str, path: Path) -> None:
        async with self.page.expect_file_chooser() as chooser:
            await self.page.get_by_role("button", name=button, exact=True).first.click()
        await (await chooser.value).set_files(path)

    async def ask(self, text: str) -> None:
        """Send a message and wait for the end of its turn."""
        await self.composer.fill(text)
        await self.composer.press("Enter")
        await expect(self.prompts.last).to_have_text(text)
        await expect(self.status).to_have_text("Ready")

    def revert_button(self, prompt: str) -> Locator:
        return self.page.get_by_role("button", name=f"Revert to before “{prompt}”", exact=True)

    async def operator_names(self) -> list[str]:
        return await self.page.locator(".operator-name").all_inner_texts()

    @property
    def composer(self) -> Locator:
        return self.page.get_by_label("Message to the agent")

    @property
    def status(self) -> Locator:
        return self.page.locator(".status-line [role=status]")

    @property
    def prompts(self) -> Locator:
        return self.page.locator(".turn-prompt")

    @property
    def dock(self) -> Locator:
        return self.page.get_by_role("region", name="Reverted")

    @property
    def redo(self) -> Locator:
        return self.dock.get_by_role("button", name="Redo", exact=True)

    @property
    def operators(self) -> Locator:
        return self.page.locator(".operator")

    def operator(self, name: str) -> Locator:
        return self.operators.filter(has=self.page.get_by_text(name, exact=True))


@pytest.fixture
async def desk_of(browser: Browser) -> AsyncIterator[Callable[..., Any]]:
    """Opens a page on a service. What the page logs as an error, or asks of elsewhere, fails."""
    contexts: list[BrowserContext] = []
    wrong: list[str] = []

    async def make(service: Service, **options: Any) -> Desk:
        context = await browser.new_context(
            **{"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce"} | options
        )
        contexts.append(context)
        page = await context.new_page()
        page.set_default_timeout(15_000)
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
