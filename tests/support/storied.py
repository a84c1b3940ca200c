"""One turn that does all of the vendor's story, taken back; and what an undo in peace comes to."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from processes import Process, eventually
from scripted_provider import ScriptedProvider, text
from serving import Server, serving
from vendor import STORY, Leaf, check_report, normal, told_story, vending
from wire import Client, is_step

from turnback.core.effects import Effect
from turnback.core.principal import LOCAL

LONG = 60.0
"""Seconds within which the story is done, or taken back, on a machine that has other work too."""

Databases = Callable[[], AbstractContextManager[str]]


@dataclass(frozen=True)
class Undisturbed:
    """What the undo of the whole story comes to: by effect its item and residue; the acts."""

    items: Mapping[int, Mapping[str, Any]]
    outcome: str
    acts: Counter[str]
    left: Mapping[Leaf, Any]
    told: Counter[str]


_undisturbed: list[Undisturbed] = []


async def undisturbed(url: str, folder: Path, provider: ScriptedProvider) -> Undisturbed:
    """Do the story and take it back in peace; done once, and then remembered.

    `url` is a database that nothing else is in.
    """
    if not _undisturbed:
        async with (
            vending(folder) as vendor,
            serving(url, **provider.settings | vendor.settings) as server,
        ):
            before = vendor.leaves()
            provider.will(told_story(), [text("done")])
            session = await server.session()
            async with server.connect(session) as client:
                await client.snapshot()
                turn = turn_of(await did(client))
            found = await taken_back(server, session, turn)
            check_report(found, before, vendor)
            numbers = {effect.id: effect.number for effect in await effects(server, session)}
            assert len(numbers) == len(STORY)
            _undisturbed.append(
                Undisturbed(
                    items=normal(found, numbers),
                    outcome=found["outcome"],
                    acts=vendor.acted.copy(),
                    left=vendor.leaves(),
                    told=vendor.told(),
                )
            )
    return _undisturbed[0]


async def _until(over: Callable[[], Awaitable[bool]]) -> None:
    """Ask until it is so, not so often that the asking slows it down."""
    async with asyncio.timeout(LONG):
        while not await over():  # noqa: ASYNC110 - it is asked over HTTP
            await asyncio.sleep(0.1)


async def did(client: Client) -> list[dict[str, Any]]:
    """Have it done, and wait for the end, for as long as the whole story takes; the frames."""
    seen = len(client.frames)
    await client.send("Prompt", content="do it all")
    await eventually(
        lambda: (
            client.closed is not None
            or any(is_step(f) and f["step"].get("endReason") for f in client.frames[seen:])
        ),
        within=LONG,
    )
    assert client.closed is None
    return client.frames[seen:]


def turn_of(frames: Iterable[Mapping[str, Any]]) -> str:
    """The turn whose steps are among these frames."""
    [turn] = {str(frame["step"]["messageId"]) for frame in frames if "step" in frame}
    return turn


async def effects(server: Server, session: str) -> list[Effect]:
    """What the log has of a session."""
    dao = server.app.state.sessions.dao
    found = await dao.effects.of_session(await dao.key(LOCAL, session), limit=999)
    return [one.effect for one in found]


async def planned(server: Server | Process, session: str, **body: Any) -> str:
    """A plan of these turns or effects, whose unrelated parts go on whatever fails; its id."""
    asked = {"policy": "independent"} | body
    answer = await server.http.post(f"/sessions/{session}/undo-plan", json=asked)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["plan_id"])


async def taken_back(server: Server, session: str, turn: str) -> dict[str, Any]:
    """Take a turn back, click twice, and wait for the end: the report."""
    plan = await planned(server, session, turn_ids=[turn])
    undo_id, agreed = await clicked(server, session, plan)
    assert await clicked(server, session, agreed) == (undo_id, agreed)
    return await ended(server, session, undo_id)


async def clicked(server: Server | Process, session: str, plan: str) -> tuple[str, str]:
    """Have a plan run, or what it has become since a doubt was settled; the undo, and that plan."""
    while True:
        answer = await server.http.post(f"/sessions/{session}/undos", json={"plan_id": plan})
        said = answer.json()
        if answer.status_code == 202:
            return str(said["undo_id"]), plan
        assert said["code"] == "plan_changed", said
        plan = said["data"]["planId"]


async def ended(server: Server | Process, session: str, undo_id: str) -> dict[str, Any]:
    """The report of a run, once it has ended."""
    found: dict[str, Any] = {}

    async def over() -> bool:
        answer = await server.http.get(f"/sessions/{session}/undos/{undo_id}")
        assert answer.status_code == 200, answer.text
        found.update(answer.json())
        return bool(found["status"] == "ended")

    await _until(over)
    return found


async def available(server: Server | Process, session: str) -> None:
    """Wait until a session's turn has ended, whoever ends it."""

    async def over() -> bool:
        listed = (await server.http.get("/sessions")).json()["sessions"]
        return [one["state"] for one in listed if one["id"] == session] == ["AVAILABLE"]

    await _until(over)
