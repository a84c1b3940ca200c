"""Tools outside within a turn: what is logged, what waits for a person, and what a stop leaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from agreement import state
from processes import eventually
from scripted_provider import ScriptedProvider, call, text
from serving import Server, serving
from wire import Client, is_status

from turnback.core.effects import CallState, EffectClass, Standing
from turnback.core.principal import LOCAL
from turnback.store.effect_reader import Logged


@dataclass
class World:
    """A folder with contacts and a mailbox, and a server whose agent can reach them."""

    folder: Path
    provider: ScriptedProvider
    server: Server

    @property
    def ann(self) -> str:
        return str(self.folder / "ann")

    @property
    def mailbox(self) -> str:
        return str(self.folder / "mailbox")

    def phone(self) -> str:
        return str(json.loads(Path(self.ann).read_text())["phone"])

    def mailed(self) -> str:
        return Path(self.mailbox).read_text()

    def calls(self, name: str) -> int:
        path = self.folder / "calls"
        return path.read_text().split().count(name) if path.exists() else 0

    def sets(self, phone: str, *, id: str = "c1", index: int = 0) -> dict[str, Any]:
        args = {"id": self.ann, "phone": phone}
        return call("python__set_phone", args, id=id, index=index)

    def mails(self, text: str, *, id: str = "m1", index: int = 0) -> dict[str, Any]:
        args = {"to": self.mailbox, "text": text}
        return call("python__send_mail", args, id=id, index=index)

    async def logged(self, session: str) -> list[Logged]:
        dao = self.server.app.state.sessions.dao
        return await dao.effects.of_session(await dao.key(LOCAL, session), limit=99)


OUTSIDE: dict[str, Any] = {"tool_modules": ("outside_tools",), "tool_stop_grace": 0.2}


@asynccontextmanager
async def world(
    url: str, folder: Path, provider: ScriptedProvider, **settings: Any
) -> AsyncIterator[World]:
    (folder / "ann").write_text('{"phone": "1"}')
    async with serving(url, **provider.settings, **OUTSIDE | settings) as server:
        yield World(folder, provider, server)


def results(client: Client) -> list[dict[str, Any]]:
    steps = [f["step"] for f in client.durable if f["type"] == "WsServerStepEvent"]
    return [result for step in steps for result in step.get("toolResults", ())]


def waiting(frame: dict[str, Any]) -> bool:
    return bool(frame["type"] == "WsServerStatusEvent" and frame["waitingFor"])


async def over(client: Client) -> None:
    await eventually(lambda: state(client) == "AVAILABLE")


async def test_a_write_is_in_the_log_with_what_was_there_before_and_its_inverse(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with world(fresh_database, tmp_path, provider) as w:
        provider.will([text("I shall"), w.sets("2")], [text("done")])
        async with w.server.opened() as (session, client):
            await client.prompt("change it")
            await over(client)
            [logged] = await w.logged(session)
            effect = logged.effect
            assert (effect.state, effect.standing) == (CallState.DONE, Standing.IN_FORCE)
            assert effect.class_ is EffectClass.REVERSIBLE
            [touch] = effect.touches
            assert (touch.before, touch.wrote) == ({("phone",): "1"}, {("phone",): "2"})
            [inverse] = effect.inverse or ()
            assert (inverse.tool, inverse.args) == ("set_phone", {"id": w.ann, "phone": "1"})
            assert w.phone() == "2"
            [step] = [f["step"] for f in client.durable if f.get("step", {}).get("toolCalls")]
            assert step["effects"] == [effect.id]
            assert step["toolResults"][0]["isError"] is False
            assert provider.requests[1]["messages"][-1]["role"] == "tool"


async def test_arguments_that_cannot_be_held_are_named_and_not_the_tool(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with world(fresh_database, tmp_path, provider) as w:
        provider.will([call("python__set_phone", '{"id": "\\ud83d"}', id="c1")], [text("I see")])
        async with w.server.opened() as (session, client):
            await client.prompt("change it")
            await over(client)
            [result] = results(client)
            assert result["isError"]
            assert "not one JSON object" in result["output"]
            assert await w.logged(session) == []


async def test_a_failure_that_changed_nothing_is_clean_and_one_that_did_is_dirty(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with (
        world(fresh_database, tmp_path, provider) as w,
        w.server.opened() as (session, client),
    ):
        for how in ("fail", "fail_after"):
            (tmp_path / how).touch()
            provider.will([w.sets("2")], [text("done")])
            await client.prompt("change it")
            await over(client)
            (tmp_path / how).unlink()
        clean, dirty = [logged.effect for logged in await w.logged(session)]
        assert (clean.state, clean.standing) == (CallState.FAILED_CLEAN, None)
        assert (dirty.state, dirty.standing) == (CallState.FAILED_DIRTY, Standing.PARTLY)
        assert dirty.inverse is not None
        assert [r["isError"] for r in results(client)] == [True, True]


async def test_calls_of_one_step_are_made_in_the_models_order(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with world(fresh_database, tmp_path, provider) as w:
        phones = [str(n) for n in range(1, 11)]
        many = [w.sets(p, id=f"c{p}", index=n) for n, p in enumerate(phones)]
        provider.will(many, [text("done")])
        async with w.server.opened() as (session, client):
            await client.prompt("change it ten times")
            await over(client)
            effects = [logged.effect for logged in await w.logged(session)]
            assert [e.args["phone"] for e in effects] == phones
            befores = [e.touches[0].before for e in effects if e.touches]
            assert [b and b["phone",] for b in befores] == ["1", *phones[:-1]]
            states = [CallState.DONE_UNCHANGED] + [CallState.DONE] * 9
            assert [e.state for e in effects] == states
            assert w.phone() == "10"


async def test_reads_of_one_step_overlap_and_what_is_written_after_them_waits(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with world(fresh_database, tmp_path, provider, approval="never") as w:
        meetings = [
            call("python__meet", {"at": w.mailbox, "who": who}, id=who, index=n)
            for n, who in enumerate(("one", "other"))
        ]
        provider.will([*meetings, w.mails("Hello", index=2)], [text("done")])
        async with w.server.opened() as (_, client):
            await client.prompt("meet, then write")
            await over(client)
            met = [json.loads(result["output"]) for result in results(client)[:2]]
            assert [one["met"] for one in met] == ["one", "other"]  # neither waits for ever
            assert [one["mailed"] for one in met] == ["", ""]
            assert w.mailed() == "Hello\n"


@pytest.mark.undo(25)
async def test_a_stop_in_the_middle_of_a_call_leaves_it_known_or_in_doubt(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with world(fresh_database, tmp_path, provider, approval="never") as w:
        (tmp_path / "hang").touch()
        provider.will([w.sets("2"), w.mails("Hello", index=1)], [text("never said")])
        async with w.server.opened() as (session, client):
            await client.send("Prompt", content="do it")
            await eventually(lambda: w.calls("set_phone") and len(client.path))
            refused = await client.ask("Revert", messageId=client.path[0]["messageId"])
            assert refused["code"] == "busy"
            await client.send("Stop")
            await over(client)
            [logged] = await w.logged(session)
            # No reply came, and the thing is another than before: that much is known.
            assert logged.effect.state is CallState.FAILED_DIRTY
            told = results(client)
            assert "No reply came" in told[0]["output"]
            assert told[1]["output"] == "[ERROR] Not run."
            assert client.durable[-2]["step"]["endReason"] == "stopped"
            assert w.calls("send_mail") == 0
            (tmp_path / "hang").unlink()
            (tmp_path / "fail").touch()
            provider.will([w.mails("Hello")], [text("it failed")])
            await client.prompt("again")
            await over(client)
            [_, doubtful] = await w.logged(session)
            assert doubtful.effect.state is CallState.IN_DOUBT
            assert doubtful.effect.standing is Standing.IN_DOUBT


async def waits(w: World, session: str) -> bool:
    """Whether the list of sessions says that this one waits for a person."""
    listed = (await w.server.http.get("/sessions")).json()["sessions"]
    return next(bool(one["waiting"]) for one in listed if one["id"] == session)


@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_a_call_that_cannot_be_taken_back_waits_for_a_person(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, decision: str
) -> None:
    async with world(fresh_database, tmp_path, provider) as w:
        provider.will([w.sets("2"), w.mails("Hello", index=1)], [text("done")])
        session = await w.server.session()
        async with w.server.connect(session) as client, w.server.connect(session, v1=False) as base:
            await client.snapshot()
            await base.snapshot()
            assert await waits(w, session) is False
            await client.send("Prompt", content="do both")
            frame = await client.wait(waiting)
            assert await waits(w, session) is True
            [approval] = frame["waitingFor"]
            assert (approval["toolCallId"], approval["class"]) == ("m1", "irreversible")
            assert approval["toolName"] == "python.send_mail"
            assert (frame["state"], w.calls("send_mail")) == ("GENERATING", 0)
            assert w.phone() == "2"  # what comes before it is done
            told = await base.wait(lambda f: f["type"] == "WsServerErrorEvent")
            assert "python.send_mail" in told["error"]
            async with w.server.connect(session) as late:
                assert (await late.snapshot())["waitingFor"] == [approval]
            wrong = await client.ask(
                "Approve", toolCallId="m1", decision=decision, argsHash="another"
            )
            assert wrong["code"] == "approval_changed"
            none = await client.ask("Approve", toolCallId="c1", decision=decision, argsHash="x")
            assert none["code"] == "unknown_approval"
            done = await client.ask(
                "Approve", toolCallId="m1", decision=decision, argsHash=approval["argsHash"]
            )
            assert done["type"] == "WsServerAckEvent"
            await over(client)
            assert w.calls("set_phone") == 1  # it was done before the turn waited
            assert w.calls("send_mail") == (decision == "approve")
            first, second = results(client)
            assert not first["isError"]
            assert second["isError"] is (decision == "deny")
            assert len(await w.logged(session)) == 1 + (decision == "approve")
            assert await waits(w, session) is False


async def test_edited_arguments_are_checked_used_kept_and_told(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with world(fresh_database, tmp_path, provider) as w:
        provider.will([w.mails("Hello")], [text("done")])
        async with w.server.opened() as (session, client):
            await client.send("Prompt", content="mail")
            [approval] = (await client.wait(waiting))["waitingFor"]
            said = {"toolCallId": "m1", "decision": "approve", "argsHash": approval["argsHash"]}
            wrong = await client.ask("Approve", **said, input={"to": w.mailbox})
            assert (wrong["code"], wrong["data"]["path"]) == ("invalid_arguments", "/")
            await client.ask("Approve", **said, input={"to": w.mailbox, "text": "Hi"})
            await over(client)
            assert w.mailed() == "Hi\n"
            [logged] = await w.logged(session)
            assert logged.effect.args == {"to": w.mailbox, "text": "Hi"}
            assert logged.proposed == {"to": w.mailbox, "text": "Hello"}
            [result] = results(client)
            assert "changed its arguments" in result["output"]


@pytest.mark.undo(36)
async def test_a_turn_that_waits_is_there_after_a_restart_and_a_stop_ends_it(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with world(fresh_database, tmp_path, provider) as w:
        provider.will([text("I shall"), w.sets("2"), w.mails("Hello", index=1)])
        async with w.server.opened() as (session, client):
            await client.send("Prompt", content="mail")
            [approval] = (await client.wait(waiting))["waitingFor"]
    (tmp_path / "ann").unlink()
    async with world(fresh_database, tmp_path, provider) as w, w.server.connect(session) as client:
        shown = await client.snapshot()
        assert (shown["state"], shown["waitingFor"]) == ("GENERATING", [approval])
        assert shown["partial"]["text"] == "I shall"
        await asyncio.sleep(0.5)  # polls come and go
        assert state(client) == "GENERATING"
        await client.send("Stop")
        await over(client)
        assert client.durable[-2]["step"]["endReason"] == "stopped"
        assert [r["isError"] for r in results(client)] == [False, True]
        assert w.calls("send_mail") == 0
        decided = await client.ask(
            "Approve", toolCallId="m1", decision="approve", argsHash=approval["argsHash"]
        )
        assert decided["code"] == "unknown_approval"
        provider.will([text("well")])
        await client.prompt("and now?")


@pytest.mark.undo(37)
async def test_of_two_who_decide_at_once_one_wins_and_the_other_is_told(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with (
        world(fresh_database, tmp_path, provider) as w,
        serving(fresh_database, **provider.settings, **OUTSIDE) as elsewhere,
    ):
        provider.will([w.mails("Hello")], [text("done")])
        session = await w.server.session()
        async with w.server.connect(session) as one, elsewhere.connect(session) as two:
            await one.snapshot()
            await two.snapshot()
            await one.send("Prompt", content="mail")
            [approval] = (await one.wait(waiting))["waitingFor"]
            await two.wait(waiting)
            said = {"toolCallId": "m1", "argsHash": approval["argsHash"]}
            answers = await asyncio.gather(
                one.ask("Approve", **said, decision="approve"),
                two.ask("Approve", **said, decision="deny"),
            )
            kinds = [answer["type"] for answer in answers]
            assert sorted(kinds) == ["WsServerAckEvent", "WsServerErrorEvent"]
            [loser] = [a for a in answers if a["type"] == "WsServerErrorEvent"]
            approved = kinds[0] == "WsServerAckEvent"
            assert loser["code"] in ("already_decided", "unknown_approval")
            await over(one)
            assert w.calls("send_mail") == approved


async def test_what_nobody_decides_in_time_is_not_made(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with world(fresh_database, tmp_path, provider, approval_ttl=0.3) as w:
        provider.will([w.mails("Hello")], [text("well")])
        async with w.server.opened() as (_, client):
            await client.send("Prompt", content="mail")
            await client.wait(is_status("AVAILABLE"))
            assert "nobody approved it in time" in results(client)[0]["output"]
            assert w.calls("send_mail") == 0


async def test_secrets_are_shown_to_nobody_and_kept_by_their_key_alone(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with world(fresh_database, tmp_path, provider, secret_key="k") as w:
        args = {"at": w.ann, "pin": "4711"}
        provider.will([call("python__unlock", args, id="u1")], [text("open")])
        async with w.server.opened() as (session, client):
            await client.send("Prompt", content="open it")
            [approval] = (await client.wait(waiting))["waitingFor"]
            assert approval["input"] == {"at": w.ann, "pin": "(secret)"}
            said = {"toolCallId": "u1", "argsHash": approval["argsHash"]}
            await client.ask("Approve", **said, decision="approve")
            await over(client)
            [result] = results(client)
            assert json.loads(result["output"]) == {"token": "(secret)", "open": True}
            assert "1174" not in str(provider.requests)
            [logged] = await w.logged(session)
            assert logged.is_secret
            assert logged.effect.result == {"token": "1174", "open": True}


async def test_a_secret_argument_reaches_no_frame_answer_log_approval_nor_the_model_again(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, capfd: Any
) -> None:
    pin = "open-sesame"
    shown = {"secret_key": "k", "log_level": "debug"}
    async with world(fresh_database, tmp_path, provider, **shown) as w:
        args = {"at": w.mailbox, "pin": pin}
        wrong = call("python__unlock", {"at": w.mailbox, "pin": [pin]}, id="u2")
        opens = [text("I"), call("python__unlock", args, id="u1")]
        provider.will(opens, [wrong], [text("done")], [text("and again")])
        session = await w.server.session()
        async with w.server.connect(session) as client, w.server.connect(session, v1=False) as base:
            await client.snapshot()
            await base.snapshot()
            await client.send("Prompt", content="open it")
            [approval] = (await client.wait(waiting))["waitingFor"]
            said = {"toolCallId": "u1", "argsHash": approval["argsHash"], "decision": "approve"}
            other = await client.ask("Approve", **said, input={"at": w.ann, "pin": "1234"})
            assert other["code"] == "invalid_arguments"
            await client.ask("Approve", **said, input={"at": w.ann, "pin": "(secret)"})
            await over(client)
            await client.prompt("and again?")
            told = [json.dumps(frame) for one in (client, base) for frame in one.frames]
        async with w.server.connect(session) as late:
            told.append(json.dumps(await late.snapshot()))
        steps = (await w.server.http.get(f"/sessions/{session}/steps")).json()["steps"]
        inputs = [c["input"] for step in steps for c in step.get("tool_calls") or ()]
        assert inputs == [{"at": w.mailbox, "pin": "(secret)"}] * 2
        outputs = [r["output"] for step in steps for r in step.get("tool_results") or ()]
        assert "(secret)" in outputs[0]
        assert "do not fit" in outputs[1]
        for path in ("/steps", "/transcript", "/effects", "/tools", ""):
            told.append((await w.server.http.get(f"/sessions/{session}{path}")).text)
        told += [json.dumps(request) for request in provider.requests]
        [logged] = await w.logged(session)
        assert logged.effect.args == {"at": w.ann, "pin": pin}
        assert logged.effect.result == {"token": pin[::-1], "open": True}
    out, err = capfd.readouterr()
    assert "tool without its contract" in out
    told += [out, err]
    assert [one for one in told if pin in one or pin[::-1] in one] == []


@pytest.mark.undo(11)
async def test_a_call_whose_reply_was_lost_is_found_before_it_is_made_again(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with world(fresh_database, tmp_path, provider, approval="never") as w:
        args = {"at": str(tmp_path / "orders"), "reference": "A1"}
        provider.will([call("python__order", args, id="o1")], [text("lost")])
        session = await w.server.session()
        (tmp_path / "hang").touch()
        async with w.server.connect(session) as client:
            await client.snapshot()
            await client.send("Prompt", content="order")
            await eventually(lambda: w.calls("order"))
            await client.send("Stop")
            await over(client)
            (tmp_path / "hang").unlink()
            assert [o.effect.state for o in await w.logged(session)] == [CallState.IN_DOUBT]
            provider.will([call("python__order", args, id="o2")], [text("it is there")])
            await client.prompt("order it again")
            await over(client)
            assert "did take effect" in results(client)[-1]["output"]
            assert w.calls("order") == 1
            [told] = [f["effect"] for f in client.frames if f["type"] == "WsServerEffectEvent"]
            assert (told["state"], told["standing"]) == ("done", "in_force")
            assert [o.effect.state for o in await w.logged(session)] == [CallState.DONE]


async def test_a_call_that_is_worse_by_now_than_what_was_approved_is_asked_about_again(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with world(fresh_database, tmp_path, provider, approval="writes") as w:
        provider.will([w.sets("2")], [text("done")])
        async with w.server.opened() as (_, client):
            await client.send("Prompt", content="change it")

            async def question(nth: int) -> dict[str, Any]:
                def asked() -> list[dict[str, Any]]:
                    return [f["waitingFor"][0] for f in client.frames if waiting(f)]

                await eventually(lambda: len(asked()) == nth)
                return asked()[-1]

            first = await question(1)
            assert first["class"] == "reversible"
            (tmp_path / "ann").unlink()  # somebody deletes what it would have been put back to
            said = {"toolCallId": "c1", "decision": "approve"}
            await client.ask("Approve", **said, argsHash=first["argsHash"])
            second = await question(2)
            assert second["class"] == "irreversible"
            assert (second["argsHash"] != first["argsHash"], w.calls("set_phone")) == (True, 0)
            old = await client.ask("Approve", **said, argsHash=first["argsHash"])
            assert old["code"] == "approval_changed"
            await client.ask("Approve", **said, argsHash=second["argsHash"])
            await over(client)
            assert w.calls("set_phone") == 1
