"""kill -9 in a compensation by an agent: nobody begins it again, and it is not called done."""

from __future__ import annotations

from pathlib import Path

import pytest
from processes import eventually, process
from scripted_provider import ScriptedProvider, call, text
from serving import serving
from undoing import OUTSIDE, report, states


@pytest.mark.kill
async def test_an_agent_that_was_cut_off_is_not_begun_again(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    settings = provider.settings | OUTSIDE | {"tool_modules": ("agentic_tools",)}
    args = {"at": str(tmp_path / "desk"), "room": "blue"}
    provider.will([text("I shall"), call("desk__book", args, id="b")], [text("done")])
    async with (
        process(tmp_path, fresh_database, failpoint="undo.delegated", **settings) as first,
        serving(fresh_database, **settings) as second,
    ):
        session = await first.session()
        async with first.connect(session) as client, second.connect(session) as other:
            await client.snapshot()
            await other.snapshot()
            [turn] = {f["step"]["messageId"] for f in await client.prompt("do") if "step" in f}
            asked = len(provider.requests)
            body = {"turn_ids": [turn]}
            plan = (await first.http.post(f"/sessions/{session}/undo-plan", json=body)).json()
            await client.send("Undo", planId=plan["plan_id"])
            await first.gone.wait()
            await eventually(
                lambda: any(f.get("phase") == "ended" for f in other.frames), within=30
            )
            [undo_id] = {f["undoId"] for f in other.frames if f.get("undoId")}
            found = await report(second, session, undo_id)
    assert (states(found), found["items"][0]["reason"]) == (["partly"], "agent")
    assert found["outcome"] == "partially_reverted"
    assert len(provider.requests) == asked


@pytest.mark.kill
async def test_a_call_that_a_cut_off_agent_was_making_is_in_doubt_once_the_run_is_gone_on_with(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    settings = provider.settings | OUTSIDE | {"tool_modules": ("agentic_tools",)}
    at = str(tmp_path / "desk")
    provider.will(
        [text("I shall"), call("desk__book", {"at": at, "room": "blue"}, id="b")], [text("done")]
    )
    async with (
        process(tmp_path, fresh_database, failpoint="call.intended@2", **settings) as first,
        serving(fresh_database, **settings) as second,
    ):
        session = await first.session()
        async with first.connect(session) as client, second.connect(session) as other:
            await client.snapshot()
            await other.snapshot()
            [turn] = {f["step"]["messageId"] for f in await client.prompt("do") if "step" in f}
            body = {"turn_ids": [turn]}
            plan = (await first.http.post(f"/sessions/{session}/undo-plan", json=body)).json()
            provider.will([call("desk__ask_desk", {"at": at, "text": "please"}, id="a1")])
            await client.send("Undo", planId=plan["plan_id"])
            await first.gone.wait()
            await eventually(
                lambda: any(f.get("phase") == "ended" for f in other.frames), within=30
            )
            effects = (await second.http.get(f"/sessions/{session}/effects")).json()
    assert [(e["tool"], e["state"], e["standing"]) for e in effects["effects"]] == [
        ("desk.book", "done", "partly"),
        ("desk.ask_desk", "in_doubt", "in_doubt"),
    ]
