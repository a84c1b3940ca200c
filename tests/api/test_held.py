"""Calls that are held back: told at once, sent later by one process, or truly cancelled before."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from processes import eventually
from scripted_provider import ScriptedProvider, call, text
from serving import serving
from undoing import OUTSIDE, Place, place, states
from wire import Client

from turnback.core.effects import Standing
from turnback.core.principal import LOCAL, ProjectRole, service_of
from turnback.tools import held


def mails(w: Place, said: str, tool: str = "mail_later", *, nth: int = 0) -> dict[str, Any]:
    args = {"to": str(w.folder / "mailbox"), "text": said}
    return call(f"python__{tool}", args, id=f"h{nth}-{said}", index=nth)


def mailed(w: Place) -> str:
    path = w.folder / "mailbox"
    return path.read_text() if path.exists() else ""


def effects(client: Client) -> list[dict[str, Any]]:
    """What a client was told of effects, in order."""
    return [f["effect"] for f in client.frames if f["type"] == "WsServerEffectEvent"]


async def listed(w: Place, session: str) -> list[dict[str, Any]]:
    answer = await w.server.http.get(f"/sessions/{session}/effects")
    return list(answer.json()["effects"])


async def test_the_model_is_told_at_once_and_the_turn_ends_before_the_call_is_sent(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w, w.opened() as (session, client):
        await w.turn(client, mails(w, "hello"))
        [message] = [m for m in provider.requests[-1]["messages"] if m["role"] == "tool"]
        assert "Held back until" in message["content"]
        [step] = [f["step"] for f in client.durable if f.get("step", {}).get("toolCalls")]
        assert step["toolResults"][0]["isError"] is False
        [told] = effects(client)
        assert (told["state"], told["standing"], told["stepId"]) == ("held", "in_force", step["id"])
        [effect] = await listed(w, session)
        assert (effect["state"], effect["verb"]) == ("held", "cancel")
        assert effect["hold_until"] == effect["at"] + 30_000 == told["holdUntil"]
        assert w.calls("mail_later") == 0
        async with w.server.connect(session) as late:
            assert (await late.snapshot())["held"] == [told]


async def test_what_was_held_back_is_sent_once_its_time_has_come_and_that_is_told(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w, w.opened() as (session, client):
        await w.turn(client, mails(w, "hello", "mail_soon"), mails(w, "bye", "mail_soon", nth=1))
        assert mailed(w) == ""
        await eventually(lambda: [e["state"] for e in effects(client)][2:] == ["done", "done"])
        assert mailed(w) == "hello\nbye\n"  # in the order of the turn
        assert w.calls("mail_soon") == 2
        assert [e["verb"] for e in await listed(w, session)] == ["acknowledge"] * 2
        async with w.server.connect(session) as late:
            assert (await late.snapshot())["held"] == []


async def test_an_undo_within_the_hold_is_a_true_cancel(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w, w.opened() as (session, client):
        turn = await w.turn(client, mails(w, "hello"))
        plan = await w.plan(session, turn_ids=[turn])
        [member] = plan["members"]
        assert (member["verb"], plan["plain"]) == ("cancel", True)
        assert member["hold_until"] == (await listed(w, session))[0]["hold_until"]
        report = await w.undo(session, turn_ids=[turn])
        assert (report["outcome"], states(report)) == ("fully_reverted", ["cancelled"])
        assert (report["residues"], report["spent"]["calls"]) == ([], 0)
        [effect] = await listed(w, session)
        assert (effect["state"], effect["standing"]) == ("failed_clean", "cancelled")
        await eventually(lambda: len(effects(client)) == 2)
        assert effects(client)[-1]["standing"] == "cancelled"
        assert w.calls("mail_later") == 0


async def test_a_revert_with_its_effects_needs_no_plan_to_cancel_what_is_held_back(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w, w.opened() as (session, client):
        turn = await w.turn(client, mails(w, "hello"))
        done = await client.ask("Revert", messageId=turn, effects="undo")
        assert done["type"] == "WsServerAckEvent"
        report = await w.report(session, done["undoId"])
        assert (report["outcome"], states(report)) == ("fully_reverted", ["cancelled"])


async def test_after_it_was_sent_an_undo_is_the_contracts_other_case(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w, w.opened() as (session, client):
        args = {"id": w.contact("ann"), "phone": "2"}
        turn = await w.turn(client, call("python__set_phone_soon", args, id="p"))
        w.person_sets("5")  # while it is held back
        await eventually(lambda: [e["state"] for e in effects(client)] == ["held", "done"])
        assert w.phone() == "2"
        report = await w.undo(session, turn_ids=[turn])
        assert (report["outcome"], states(report)) == ("fully_reverted", ["reverted"])
        assert w.phone() == "5"  # what was there when it was sent


async def test_a_plan_that_would_cancel_is_another_once_the_call_was_sent(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w, w.opened() as (session, client):
        turn = await w.turn(client, mails(w, "hello", "mail_soon"))
        plan = await w.plan(session, turn_ids=[turn])
        assert [m["verb"] for m in plan["members"]] == ["cancel"]
        await eventually(lambda: mailed(w) == "hello\n")
        await eventually(lambda: effects(client)[-1]["state"] == "done")
        answer = await w.start(session, plan["plan_id"])
        assert (answer.status_code, answer.json()["code"]) == (409, "plan_changed")


async def test_a_stop_leaves_what_is_held_back_to_be_sent_or_taken_back(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w, w.opened() as (session, client):
        (tmp_path / "hang").touch()
        provider.will([mails(w, "hello"), w.set_phone("2", nth=1)], [text("never said")])
        await client.send("Prompt", content="both")
        await eventually(lambda: w.calls("set_phone"))
        await client.send("Stop")
        await eventually(lambda: client.durable[-1].get("state") == "AVAILABLE")
        (tmp_path / "hang").unlink()
        assert (await listed(w, session))[0]["state"] == "held"
        report = await w.undo(session, effect_ids=[(await listed(w, session))[0]["effect_id"]])
        assert states(report) == ["cancelled"]


async def test_a_call_is_sent_after_a_restart_and_by_one_process_of_two(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w, w.opened() as (session, client):
        await w.turn(client, mails(w, "hello", "mail_soon"))
        assert mailed(w) == ""
    settings = provider.settings | OUTSIDE
    async with serving(fresh_database, **settings) as one, serving(fresh_database, **settings):
        again = Place(tmp_path, provider, one)
        await eventually(lambda: mailed(again))

        async def done() -> bool:
            return [e["state"] for e in await listed(again, session)] == ["done"]

        await eventually(done)
        await asyncio.sleep(0.5)  # both have looked again
        assert (mailed(again), again.calls("mail_soon")) == ("hello\n", 1)


async def test_a_tool_that_was_switched_off_meanwhile_is_not_called(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w, w.opened() as (session, client):
        await w.turn(client, mails(w, "hello", "mail_soon"))
    off = {"disabled_server_tools": ("python.mail_soon",)}
    async with place(fresh_database, tmp_path, provider, **off) as w:

        async def cancelled() -> bool:
            return [e["standing"] for e in await listed(w, session)] == ["cancelled"]

        await eventually(cancelled)
        assert w.calls("mail_soon") == 0
        async with w.server.connect(session) as client:
            await client.snapshot()
            provider.will([text("well")])
            await client.prompt("and now?")
        # The next turn's model is told that it never went out.
        told = json.dumps(provider.requests[-1]["messages"][-1])
        assert "namedAboveAndNoLongerSo" in told
        assert "mail_soon" in told


async def test_it_is_not_sent_for_who_may_not_run_the_session_any_more(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w, w.opened() as (session, client):
        await w.turn(client, mails(w, "hello", "mail_soon"))
        dao = w.server.app.state.sessions.dao
        key = await dao.key(LOCAL, session)
        [mail] = await dao.effects.held(key)
        assert await dao.access.still_runs(key, mail.turn_id)
        # From the first key on whoever reaches the address is nobody any more.
        by = service_of(LOCAL.project_id)
        made = {"name": "k", "role": ProjectRole.OWNER, "expires_at": None}
        await dao.identities.make_key(by, "ann", **made)
        assert not await dao.access.still_runs(key, mail.turn_id)

        async def over() -> bool:
            return not await dao.effects.held(key)

        await eventually(over)
        [logged] = await dao.effects.of_session(key, limit=9)
        assert logged.effect.standing is Standing.CANCELLED
        assert "may not run" in logged.effect.result["text"]
        assert w.calls("mail_soon") == 0


async def test_what_a_deleted_session_holds_back_is_waited_for_by_nobody(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w, w.opened() as (session, client):
        held_back = w.server.app.state.sessions.dao.held_back
        await w.turn(client, mails(w, "hello"))
        assert 0 < await held_back.next_due() < 30
        assert (await w.server.http.delete(f"/sessions/{session}")).status_code == 204
        assert await held_back.next_due() is None


async def test_a_session_is_archived_once_nothing_of_it_is_held_back(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w, w.opened() as (session, client):
        await w.turn(client, mails(w, "hello"))
        [told] = await listed(w, session)
        refused = await w.server.http.patch(f"/sessions/{session}", json={"archived": True})
        assert (refused.status_code, refused.json()["code"]) == (409, "calls_held")
        assert refused.json()["data"]["effectIds"] == [told["effect_id"]]
        assert refused.json()["data"]["until"] == told["hold_until"]
        await w.undo(session, effect_ids=[told["effect_id"]])
        done = await w.server.http.patch(f"/sessions/{session}", json={"archived": True})
        assert done.json()["archived"] is True
        assert w.calls("mail_later") == 0


async def test_what_could_not_be_sent_for_long_is_not_sent_any_more(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w, w.opened() as (session, client):
        await w.turn(client, mails(w, "hello", "mail_soon"))
    await asyncio.sleep(0.6)
    async with place(fresh_database, tmp_path, provider, hold_patience=0.05) as w:

        async def cancelled() -> bool:
            return [e["standing"] for e in await listed(w, session)] == ["cancelled"]

        await eventually(cancelled)
        assert w.calls("mail_soon") == 0


async def test_of_a_cancel_and_a_sending_at_once_one_gets_the_call(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w, w.opened() as (session, client):
        won = []
        dao = w.server.app.state.sessions.dao
        key = await dao.key(LOCAL, session)

        async def over() -> bool:
            known = {e["state"] for e in await listed(w, session)}
            return not known & {"held", "intent"}

        for nth in range(6):
            said = f"mail {nth}"
            await w.turn(client, mails(w, said, "mail_soon"))
            [logged] = [
                one
                for one in await dao.effects.of_session(key, limit=99)
                if one.effect.args["text"] == said
            ]
            await asyncio.sleep(0.5 + nth * 0.02)
            taken = await held.take_back(dao.effects, key, logged)
            await eventually(over)
            assert (taken is None) == (f"{said}\n" in mailed(w))
            won.append(taken is None)
        standings = [e["standing"] for e in await listed(w, session)]
        assert sorted(standings) == sorted("in_force" if sent else "cancelled" for sent in won)
