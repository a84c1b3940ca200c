"""kill -9 around a call outside: another process closes the step, and says what is known of it.

Whatever the instant, each call has a result, what was sent is in the log, and nothing is sent
twice (undo.md 7).
"""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from processes import Process, eventually, process
from scripted_provider import ScriptedProvider, call, text
from serving import Server, serving
from whole import check_whole

from turnback.core.effects import CallState, Standing
from turnback.core.principal import LOCAL

OUTSIDE: dict[str, Any] = {"tool_modules": ("outside_tools",), "approval": "never"}

POINTS = ("open.before", "open.after", "call.intend", "call.intended", "call.sent", "call.replied",
          "call.done", "tool")  # fmt: skip

KNOWN = {
    "call.intended": {CallState.IN_DOUBT},
    "call.sent": {CallState.IN_DOUBT},
    "call.replied": {CallState.IN_DOUBT},
    "call.done": {CallState.DONE},
    "tool": {CallState.DONE},
}
"""What may be known of the call that was under way, where it is in the log at all."""


def points() -> list[object]:
    found: list[object] = []
    for point in POINTS:
        for nth in (1, 2):
            quick = nth == 2 and point in ("open.after", "call.intended", "call.replied")
            if nth == 2 and point.startswith("open"):
                continue
            marks = () if quick or point == "open.after" else pytest.mark.soak
            found.append(pytest.param(f"{point}@{nth}", marks=marks))
    return found


def answer(folder: Path) -> list[dict[str, Any]]:
    ann, mailbox = str(folder / "ann"), str(folder / "mailbox")
    return [
        text("I shall"),
        call("python__set_phone", {"id": ann, "phone": "2"}, id="c1"),
        call("python__send_mail", {"to": mailbox, "text": "Hello"}, id="m1", index=1),
    ]


async def begun(server: Process, folder: Path, provider: ScriptedProvider) -> str:
    (folder / "ann").write_text('{"phone": "1"}')
    provider.will(answer(folder), [text("done")])
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        await client.send("Prompt", content="do both")
        await server.gone.wait()
    return session


async def closed(server: Server, session: str) -> list[dict[str, Any]]:
    """The steps of a session once its turn has been ended."""

    async def over() -> bool:
        listed = (await server.http.get("/sessions")).json()["sessions"]
        return bool([s["state"] for s in listed] == ["AVAILABLE"])

    await eventually(over)
    steps: list[dict[str, Any]] = (await server.http.get(f"/sessions/{session}/steps")).json()[
        "steps"
    ]
    return steps


@pytest.mark.kill
@pytest.mark.parametrize("failpoint", points())
async def test_a_step_whose_process_died_is_closed_and_tells_what_is_known(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, failpoint: str
) -> None:
    settings = provider.settings | OUTSIDE
    async with process(tmp_path, fresh_database, failpoint=failpoint, **settings) as first:
        session = await begun(first, tmp_path, provider)
        assert await first.end() == -9
    async with serving(fresh_database, **settings) as server:
        steps = await closed(server, session)
        dao = server.app.state.sessions.dao
        key = await dao.key(LOCAL, session)
        logged = [one.effect for one in await dao.effects.of_session(key, limit=9)]
        assert await dao.effects.opened(key) is None
        arrived = (tmp_path / "calls").read_text().split() if (tmp_path / "calls").exists() else []
    point, _, nth = failpoint.partition("@")
    assert steps[-1]["end_reason"] == "interrupted"
    if point == "open.before":
        assert (len(steps), logged, arrived) == (2, [], [])
        return
    step = steps[-2]
    assert [c["tool_call_id"] for c in step["tool_calls"]] == ["c1", "m1"]
    assert [r["tool_call_id"] for r in step["tool_results"]] == ["c1", "m1"]
    assert step["effects"] == [effect.id for effect in logged]
    states = [effect.state for effect in logged]
    under_way = int(nth) - 1
    if point in KNOWN:
        assert states[under_way] in KNOWN[point]
        assert states[:under_way] == [CallState.DONE] * under_way
        assert len(states) == int(nth)
    else:
        assert states == [CallState.DONE] * under_way
    for result, effect in zip(step["tool_results"], logged, strict=False):
        assert result["is_error"] is (effect.state is CallState.IN_DOUBT)
        assert (effect.standing is Standing.IN_DOUBT) is result["is_error"]
        assert ("check before repeating" in result["output"]) is result["is_error"]
    for result in step["tool_results"][len(logged) :]:
        assert result["output"] == "[ERROR] Not run."
    # What arrived is in the log, and none of it twice.
    assert arrived.count("set_phone") <= 1
    assert arrived.count("send_mail") <= 1
    assert {"set_phone", "send_mail"} & set(arrived) <= {effect.tool for effect in logged}
    phone = json.loads((tmp_path / "ann").read_text())["phone"]
    if phone == "2":
        assert logged[0].state in (CallState.DONE, CallState.IN_DOUBT)
    await check_whole(fresh_database)


@pytest.mark.undo(27)
@pytest.mark.kill
async def test_a_process_that_was_stopped_past_its_lease_sends_nothing_more(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    short = {"lease_heartbeat": 0.2, "lease_expiry": 1.5}
    settings = provider.settings | OUTSIDE | short
    (tmp_path / "hang").touch()
    (tmp_path / "ann").write_text('{"phone": "1"}')
    async with (
        process(tmp_path, fresh_database, **settings) as first,
        serving(fresh_database, **settings) as second,
    ):
        provider.will(answer(tmp_path), [text("never said")])
        session = await first.session()
        async with first.connect(session) as client:
            await client.snapshot()
            await client.send("Prompt", content="do both")
            await eventually(lambda: (tmp_path / "calls").exists())
            await eventually(lambda: "set_phone" in (tmp_path / "calls").read_text())
            first.send(signal.SIGSTOP)
            steps = await closed(second, session)
            (tmp_path / "hang").unlink()
            first.send(signal.SIGCONT)
            await asyncio.sleep(1.0)
            again = await closed(second, session)
        assert again == steps
        assert steps[-1]["end_reason"] == "interrupted"
        assert "send_mail" not in (tmp_path / "calls").read_text()
        dao = second.app.state.sessions.dao
        [logged] = await dao.effects.of_session(await dao.key(LOCAL, session), limit=9)
        assert logged.effect.state is CallState.IN_DOUBT
