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
