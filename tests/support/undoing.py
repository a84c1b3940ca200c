"""A folder of contacts and a mailbox, an agent that acts on them, and people who undo what it did.

The tools are `outside_tools`: what they do is there to be read in files, and how they behave is
said by files too.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from processes import eventually
from scripted_provider import ScriptedProvider, call, text
from serving import Server, serving
from wire import Client

from turnback.core.principal import LOCAL

OUTSIDE: dict[str, Any] = {
    "tool_modules": ("outside_tools",),
    "tool_stop_grace": 0.2,
    "read_lag": 0,
    "approval": "never",
    "undo_backoff": 0.05,
}


@dataclass
class Place:
    """The world, and the server whose agent can reach it."""

    folder: Path
    provider: ScriptedProvider
    server: Server

    def opened(self) -> AbstractAsyncContextManager[tuple[str, Client]]:
        """A new session's id, and a client of it that has had its snapshot."""
        return self.server.opened()

    def contact(self, name: str, phone: str = "1") -> str:
        """A contact's path, which is its id; made where there is none."""
        path = self.folder / name
        if not path.exists():
            path.write_text(json.dumps({"phone": phone}))
        return str(path)

    def phone(self, name: str = "ann") -> str:
        return str(json.loads((self.folder / name).read_text())["phone"])

    def person_sets(self, phone: str, name: str = "ann") -> None:
        """Somebody else changes a contact."""
        (self.folder / name).write_text(json.dumps({"phone": phone}))

    def calls(self, name: str) -> int:
        """How many calls of a tool have arrived."""
        path = self.folder / "calls"
        return path.read_text().split().count(name) if path.exists() else 0

    def set_phone(self, phone: str, name: str = "ann", *, nth: int = 0) -> dict[str, Any]:
        args = {"id": self.contact(name), "phone": phone}
        return call("python__set_phone", args, id=f"s{nth}-{phone}-{name}", index=nth)

    def send_mail(self, said: str, *, nth: int = 0) -> dict[str, Any]:
        args = {"to": str(self.folder / "mailbox"), "text": said}
        return call("python__send_mail", args, id=f"m{nth}-{said}", index=nth)

    async def turn(self, client: Client, *calls: dict[str, Any], says: str = "do it") -> str:
        """A turn in which the agent makes these calls; its id."""
        self.provider.will([text("I shall"), *calls], [text("done")])
        before = len(client.durable)
        await client.prompt(says)
        await eventually(
            lambda: any(
                f["type"] == "WsServerStepEvent"
                and f["step"]["isEnd"]
                and f["step"]["role"] == "agent"
                for f in client.durable[before:]
            )
        )
        return next(
            str(f["step"]["messageId"])
            for f in client.durable[before:]
            if f["type"] == "WsServerStepEvent"
        )

    async def plan(self, session: str, **body: Any) -> dict[str, Any]:
        answer = await self.server.http.post(f"/sessions/{session}/undo-plan", json=body)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    async def start(self, session: str, plan_id: str, **more: Any) -> httpx.Response:
        return await self.server.http.post(
            f"/sessions/{session}/undos", json={"plan_id": plan_id}, **more
        )

    async def report(self, session: str, undo_id: str) -> dict[str, Any]:
        """The report, once the run has ended."""
        return await report(self.server, session, undo_id)

    async def undo(self, session: str, **body: Any) -> dict[str, Any]:
        """Plan, click, and wait: the report."""
        plan = await self.plan(session, **body)
        started = await self.start(session, plan["plan_id"])
        assert started.status_code == 202, started.text
        return await self.report(session, started.json()["undo_id"])

    async def standings(self, session: str) -> list[str | None]:
        dao = self.server.app.state.sessions.dao
        found = await dao.effects.of_session(await dao.key(LOCAL, session), limit=99)
        return [one.effect.standing for one in found]


async def report(server: Server, session: str, undo_id: str) -> dict[str, Any]:
    """The report of a run, once it has ended."""
    found: dict[str, Any] = {}

    async def ended() -> bool:
        answer = await server.http.get(f"/sessions/{session}/undos/{undo_id}")
        assert answer.status_code == 200, answer.text
        found.update(answer.json())
        return bool(found["status"] == "ended")

    await eventually(ended)
    return found


def states(report: Mapping[str, Any]) -> list[str]:
    """What came of each member, in the order of the undo."""
    return [str(item["state"]) for item in report["items"]]


def undo_frames(client: Client, phase: str | None = None) -> list[dict[str, Any]]:
    """What a client was told of undos."""
    return [
        frame
        for frame in client.frames
        if frame["type"] == "WsServerUndoEvent" and phase in (None, frame["phase"])
    ]


@asynccontextmanager
async def place(
    url: str, folder: Path, provider: ScriptedProvider, **settings: Any
) -> AsyncIterator[Place]:
    """A world in this folder, and a server in this process."""
    async with serving(url, **provider.settings, **OUTSIDE | settings) as server:
        yield Place(folder, provider, server)
