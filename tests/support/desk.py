"""A server of its own and a page on it, in the words of what a person does and sees."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from playwright.async_api import BrowserContext, Locator, Page, expect
from serving import Person

from turnback.serve import address_at

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / "tests" / "data" / "workflows"
START = 120.0  # seconds until a server is ready
BUILD = "Build a sales report"
GIVE = """([how, selector, name, type, text]) => {
    const data = new DataTransfer();
    data.items.add(new File([text], name, { type }));
    const options = { bubbles: true, cancelable: true };
    const event = how === "paste"
        ? new ClipboardEvent(how, { ...options, clipboardData: data })
        : new DragEvent(how, { ...options, dataTransfer: data });
    document.querySelector(selector).dispatchEvent(event);
}"""
REPORT = ["Load sales", "Keep real sales", "Total by region", "Sales by region"]


@dataclass
class Service:
    """A `turnback serve` of its own data directory; it can be killed and started again."""

    folder: Path
    delay_ms: int
    env: dict[str, str] = field(default_factory=dict)  # settings beside the usual
    url: str = ""
    printed: str = ""
    http: httpx.AsyncClient = field(default_factory=lambda: httpx.AsyncClient(timeout=20))
    keys: dict[str, str] = field(default_factory=dict)  # of people, by name; ours is the first
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
                | {"TURNBACK_MODEL": "offline", "TURNBACK_OFFLINE_DELAY_MS": str(self.delay_ms)}
                | self.env,
            )
        async with asyncio.timeout(START):
            while not (found := re.search(r"ready at ((http://\S+)/(\S*))\n", log.read_text())):
                assert self._process.returncode is None, log.read_text()
                await asyncio.sleep(0.05)
        self.printed, self.url = found[1], found[2]
        if found[3]:
            self.http.auth = Person((self.folder / "d" / "token").read_text().strip())

    def address(self) -> str:
        """An address by which a page comes as a person, good once."""
        if not isinstance(self.http.auth, Person) or self.keys:
            return f"{self.url}/"
        return address_at(self.url, self.http.auth.token)

    async def let_in(self, context: BrowserContext) -> None:
        """Make who uses this browser a person, as the printed address would."""
        if code := self.address().partition("#")[2]:
            answer = await context.request.post(f"{self.url}/person", data={"code": code})
            assert answer.ok, await answer.text()

    async def kill(self) -> None:
        """`kill -9`: nothing is saved, nobody is told."""
        await self._end(signal.SIGKILL)

    async def drain(self) -> None:
        """End it as an administrator would; it can be started again."""
        await self._end(signal.SIGTERM)

    async def stop(self) -> None:
        """End it, and the database with it."""
        await self.drain()
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

    async def key(self, name: str, role: str | None) -> str:
        """A key for somebody, who has this role; the first one is ours from then on."""
        asked = {"principal": name, "role": role}
        answer = await self.http.post(self.url + "/keys", json=asked)
        assert answer.status_code == 201, answer.text
        self.keys[name] = key = str(answer.json()["key"])
        self.http.headers.setdefault("authorization", f"Bearer {key}")
        return key

    async def grant(self, session_id: str, name: str, *rights: str) -> None:
        """What somebody may do with a session; nothing takes it back."""
        path = f"{self.url}/sessions/{session_id}/grants/{name}"
        if rights:
            answer = await self.http.put(path, json={"rights": rights})
        else:
            answer = await self.http.delete(path)
        assert answer.status_code in (200, 204), answer.text

    async def command(self, session_id: str, **frame: Any) -> Any:
        """A command by REST: another client of the same session; its answer."""
        answer = await self.http.post(f"{self.url}/sessions/{session_id}/commands", json=frame)
        assert answer.status_code == 202, answer.text
        return answer.json()

    async def fork(self, session_id: str, **body: Any) -> str:
        """A fork of everything that is visible in it."""
        answer = await self.http.post(f"{self.url}/sessions/{session_id}/fork", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["session"]["id"])

    async def turnback(self, *command: str) -> None:
        """A command of an administrator's, beside the server."""
        turnback = Path(sys.executable).with_name("turnback")
        process = await asyncio.create_subprocess_exec(
            turnback,
            *command,
            "--data-dir",
            str(self.folder / "d"),
            cwd=self.folder,
            env=os.environ | self.env,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        assert process.returncode == 0, said.decode()

    async def children(self, session_id: str) -> list[str]:
        """The sessions that were forked from it, newest first."""
        answer = await self.http.post(
            f"{self.url}/sessions/lineage/query", json={"session_id": session_id}
        )
        assert answer.status_code == 200, answer.text
        return [child["session_id"] for child in answer.json()["children"]]

    async def workflow(self, session_id: str) -> bytes:
        """The workflow at HEAD, byte for byte."""
        return (await self.http.get(f"{self.url}/sessions/{session_id}/workflow")).content


@dataclass
class Desk:
    """One person's open page, in the words of what they do and see."""

    page: Page
    service: Service

    @property
    def id(self) -> str:
        """The open session."""
        return self.page.url.rsplit("/s/", 1)[1].split("?")[0]

    async def open(self, session_id: str) -> Desk:
        await self.page.goto(f"{self.service.url}/s/{session_id}")
        await expect(self.status).to_have_text("Ready")
        return self

    async def sign_in(self, name: str) -> Desk:
        """As somebody who has a key, wherever the page is."""
        key = self.page.get_by_label("API key")
        await key.fill(self.service.keys[name])
        await key.press("Enter")
        await expect(key).to_have_count(0)
        return self

    async def choose_file(self, button: str, path: Path) -> None:
        async with self.page.expect_file_chooser() as chooser:
            await self.page.get_by_role("button", name=button, exact=True).first.click()
        await (await chooser.value).set_files(path)

    async def send(self, text: str) -> None:
        """Write a message, and send it once the page says that it can be."""
        await self.composer.fill(text)
        await expect(self.page.get_by_role("button", name="Send", exact=True)).to_be_enabled()
        await self.composer.press("Enter")

    async def ask(self, text: str) -> None:
        """Send a message and wait for the end of its turn."""
        await self.send(text)
        await expect(self.prompts.last).to_have_text(text)
        await expect(self.status).to_have_text("Ready")

    async def give(self, how: str, selector: str, name: str, text: str = "a,b\n") -> None:
        """Drop or paste a file: by the event that a browser makes of it."""
        await self.page.evaluate(GIVE, [how, selector, name, "text/csv", text])

    async def look(self, prompt: str) -> Locator:
        """Look at what reverting this turn would do; the sheet that tells it."""
        await self.page.get_by_role("button", name=f"More for “{prompt}”", exact=True).click()
        await self.page.get_by_role("menuitem", name="Preview the revert").click()
        await expect(self.sheet).to_contain_text("would leave the conversation")
        return self.sheet

    async def bar(self, name: str) -> None:
        """Press what the bar over the session has, or, on a narrow page, the menu in its place."""
        button = self.page.get_by_role("button", name=name, exact=True)
        more = self.page.get_by_role("button", name="More of this session")
        await expect(button.or_(more).first).to_be_visible()  # the page is there, and how wide
        if not await button.is_visible():
            await more.click()
            button = self.page.get_by_role("menuitem", name=name)
        await button.click()

    async def fork(self, prompt: str, how: str) -> None:
        """Fork at this turn, as its menu calls it."""
        await self.page.get_by_role("button", name=f"Fork from “{prompt}”", exact=True).click()
        await self.page.get_by_role("menuitem", name=how).click()

    async def focused(self) -> str:
        """What has the keyboard, by its id or its name."""
        found = await self.page.evaluate(
            "(e => e.id || e.getAttribute('aria-label') || e.textContent || e.tagName)"
            "(document.activeElement)"
        )
        return str(found)

    def revert_button(self, prompt: str) -> Locator:
        return self.page.get_by_role("button", name=f"Revert to before “{prompt}”", exact=True)

    @property
    def operator_names(self) -> Locator:
        return self.page.locator(".operator-name")

    @property
    def composer(self) -> Locator:
        return self.page.get_by_label("Message to the agent")

    @property
    def status(self) -> Locator:
        return self.page.locator(".status-line .status-words")

    @property
    def prompts(self) -> Locator:
        return self.page.locator(".turn-prompt")

    @property
    def dock(self) -> Locator:
        return self.page.get_by_role("region", name="Reverted")

    @property
    def sheet(self) -> Locator:
        """The revert that is looked at."""
        return self.page.get_by_role("dialog", name="Revert to before")

    @property
    def said(self) -> Locator:
        """What a screen reader was told last."""
        return self.page.locator("[data-announcer]")

    @property
    def redo(self) -> Locator:
        return self.dock.get_by_role("button", name="Redo", exact=True)

    @property
    def operators(self) -> Locator:
        return self.page.locator(".operator")

    def operator(self, name: str) -> Locator:
        return self.operators.filter(has=self.page.get_by_text(name, exact=True))
