"""A stop ends the wait for things that somebody else works on, of a call and of an undo."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from processes import eventually
from scripted_provider import ScriptedProvider, text
from undoing import Place, place, states

from turnback.core.effects import ResourceKey
from turnback.core.principal import LOCAL


@asynccontextmanager
async def worked_on(w: Place, name: str) -> AsyncIterator[None]:
    """Another call of ours is at a contact, for as long as this lasts."""
    dao = w.server.app.state.sessions.dao
    contact = ResourceKey("python", "contact", (w.contact(name),))
    times = {"expiry": 60.0, "grace": 60.0, "patience": 5.0}
    async with dao.locks.hold(LOCAL.project_id, [contact], **times):
        yield


async def test_a_call_that_waits_for_a_thing_is_given_up_by_a_stop(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider, lock_patience=60.0) as w:
        session = await w.server.session()
        async with w.server.connect(session) as client, worked_on(w, "ann"):
            await client.snapshot()
            provider.will([text("I shall"), w.set_phone("2")], [text("never said")])
            await client.send("Prompt", content="do it")
            await client.wait(lambda f: f["type"] == "WsServerDeltaEvent" and "toolCall" in f)
            await asyncio.sleep(0.2)  # it waits
            async with asyncio.timeout(10):
                await client.send("Stop")
                await eventually(lambda: client.durable[-1].get("state") == "AVAILABLE")
            steps = [f["step"] for f in client.durable if f["type"] == "WsServerStepEvent"]
            [result] = [r for step in steps for r in step.get("toolResults", ())]
            assert "Not run" in result["output"]
            assert w.calls("set_phone") == 0


@pytest.mark.undo(26)
async def test_an_undo_that_waits_for_a_thing_begins_nothing_after_a_stop(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with (
        place(fresh_database, tmp_path, provider, lock_patience=60.0) as w,
        w.opened() as (session, client),
    ):
        turn = await w.turn(client, w.set_phone("2"))
        plan = await w.plan(session, turn_ids=[turn])
        async with worked_on(w, "ann"):
            undo_id = (await w.start(session, plan["plan_id"])).json()["undo_id"]
            await asyncio.sleep(0.2)  # it waits
            async with asyncio.timeout(10):
                await client.send("Stop")
                report = await w.report(session, undo_id)
        assert (report["stopped"], states(report)) == (True, ["not_started"])
        assert (report["outcome"], w.phone()) == ("not_reverted", "2")
        assert (await w.undo(session, undo_id=undo_id))["outcome"] == "fully_reverted"
        assert w.phone() == "1"
