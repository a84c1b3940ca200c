"""Doubts when a plan is shown: settled by declared reads, told to everybody, never by a call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from processes import eventually
from scripted_provider import ScriptedProvider, call, text
from undoing import Place, place, undo_frames
from wire import Client


async def doubtful(
    w: Place, client: Client, made: dict[str, Any], tool: str, how: str = "hang"
) -> str:
    """A turn whose one call was sent and stopped before it had answered; its id."""
    (w.folder / how).touch()
    w.provider.will([text("I shall"), made], [text("never said")])
    await client.send("Prompt", content="do it")
    await eventually(lambda: w.calls(tool))
    await client.send("Stop")
    await eventually(lambda: client.durable[-1].get("state") == "AVAILABLE")
    (w.folder / how).unlink()
    return str(client.path[0]["messageId"])


@pytest.mark.undo(11)
async def test_a_doubt_is_looked_up_when_a_plan_is_shown_and_everybody_is_told(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w:
        session = await w.server.session()
        async with w.server.connect(session) as client, w.server.connect(session) as other:
            await client.snapshot()
            await other.snapshot()
            args = {"at": str(tmp_path / "orders"), "reference": "A1"}
            order = call("python__order", args, id="o1")
            turn = await doubtful(w, client, order, "order")
            plan = await w.plan(session, turn_ids=[turn])
            [member] = plan["members"]
            assert (member["in_doubt"], member["standing"]) == (True, "in_doubt")
            await eventually(lambda: any(f["type"] == "WsServerEffectEvent" for f in other.frames))
            [told] = [f["effect"] for f in other.frames if f["type"] == "WsServerEffectEvent"]
            assert (told["effectId"], told["state"]) == (member["effect_id"], "done")
            assert told["standing"] == "in_force"
            await eventually(
                lambda: any(
                    item["standing"] == "in_force"
                    for frame in undo_frames(client, "plan")
                    for item in frame["items"]
                )
            )
            assert w.calls("order") == 1
            # What was agreed to is another thing now.
            answer = await w.start(session, plan["plan_id"])
            assert answer.json()["code"] == "plan_changed"
            [member] = (await w.plan(session, turn_ids=[turn]))["members"]
            assert (member["in_doubt"], member["standing"]) == (False, "in_force")


async def test_no_call_is_made_again_for_a_plan_even_where_its_key_is_honoured(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w, w.opened() as (session, client):
        args = {"at": str(tmp_path / "paid"), "amount": "7"}
        pay = call("python__pay", args, id="p1")
        turn = await doubtful(w, client, pay, "pay")
        await w.plan(session, turn_ids=[turn])
        await eventually(lambda: len(undo_frames(client, "plan")) == 2)
        assert w.calls("pay") == 1
        # Nor by the run: what it could not take back it does not make (decision 79).
        report = await w.undo(session, turn_ids=[turn])
        assert (w.calls("pay"), [i["state"] for i in report["items"]]) == (1, ["in_doubt"])
        assert len((tmp_path / "paid").read_text().split()) == 1


async def test_a_doubt_is_not_settled_by_its_key_over_what_a_person_has_written_since(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w, w.opened() as (session, client):
        args = {"id": w.contact("ann"), "phone": "2"}
        again = call("python__set_phone_once", args, id="s1")
        await doubtful(w, client, again, "set_phone_once", "stuck")
        w.person_sets("theirs")
        turn = await w.turn(client, again)
        assert (w.calls("set_phone_once"), w.phone()) == (2, "2")
        await w.undo(session, turn_ids=[turn])
        assert w.phone() == "theirs"
