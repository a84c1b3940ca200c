"""kill -9 around a call that was held back: never sent twice, and what is known of it is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from processes import eventually, process
from scripted_provider import ScriptedProvider, call, text
from serving import Server, serving
from undoing import OUTSIDE, report, states
from whole import check_whole

KNOWN = {
    "held.claim": "done",
    "held.claimed": "in_doubt",
    "call.sent": "in_doubt",
    "held.replied": "in_doubt",
    "held.done": "done",
}
"""What is known of the call in the end: where nobody can look it up, a doubt stays one."""
QUICK = ("held.claim", "held.claimed", "held.replied")


def points() -> list[object]:
    marks = {point: () if point in QUICK else pytest.mark.soak for point in KNOWN}
    return [pytest.param(point, marks=mark) for point, mark in marks.items()]


async def effect(server: Server, session: str) -> dict[str, Any]:
    answer = await server.http.get(f"/sessions/{session}/effects")
    [found] = answer.json()["effects"]
    return dict(found)


def mail(folder: Path, tool: str) -> dict[str, Any]:
    args = {"to": str(folder / "mailbox"), "text": "hello"}
    return call(f"python__{tool}", args, id="m")


@pytest.mark.kill
@pytest.mark.parametrize("failpoint", points())
async def test_a_call_whose_sender_died_is_never_sent_twice(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, failpoint: str
) -> None:
    settings = provider.settings | OUTSIDE
    provider.will([text("I shall"), mail(tmp_path, "mail_soon")], [text("done")])
    async with process(tmp_path, fresh_database, failpoint=failpoint, **settings) as first:
        session = await first.session()
        async with first.connect(session) as client:
            await client.snapshot()
            await client.send("Prompt", content="do it")
            await first.gone.wait()
            assert await first.end() == -9
    async with serving(fresh_database, **settings) as second:

        async def known() -> bool:
            return (await effect(second, session))["state"] == KNOWN[failpoint]

        await eventually(known)
        async with second.connect(session) as client:
            snapshot = await client.snapshot()
            assert snapshot["held"] == []
            told = [f["step"] for f in client.frames if "step" in f]
            assert not told
    arrived = (tmp_path / "calls").read_text().split() if (tmp_path / "calls").exists() else []
    assert arrived.count("mail_soon") == (failpoint != "held.claimed")
    await check_whole(fresh_database)


@pytest.mark.kill
@pytest.mark.parametrize("failpoint", ["held.cancel", "held.cancelled"])
async def test_a_cancel_whose_process_died_is_carried_on_by_another(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, failpoint: str
) -> None:
    settings = provider.settings | OUTSIDE
    provider.will([text("I shall"), mail(tmp_path, "mail_later")], [text("done")])
    async with (
        process(tmp_path, fresh_database, failpoint=failpoint, **settings) as first,
        serving(fresh_database, **settings) as second,
    ):
        session = await first.session()
        async with first.connect(session) as client, second.connect(session) as other:
            await client.snapshot()
            await other.snapshot()
            [turn] = {f["step"]["messageId"] for f in await client.prompt("do") if "step" in f}
            await client.send("Revert", messageId=turn, effects="undo")
            await first.gone.wait()
            assert await first.end() == -9
            await eventually(
                lambda: any(f.get("phase") == "ended" for f in other.frames), within=30
            )
            [undo_id] = {f["undoId"] for f in other.frames if f.get("undoId")}
            found = await report(second, session, undo_id)
    assert (found["outcome"], states(found)) == ("fully_reverted", ["cancelled"])
    assert not (tmp_path / "calls").exists()
