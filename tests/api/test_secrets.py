"""Secrets of calls outside: in no table, frame, answer, plan, report, log line or prompt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dump import dumped, holding
from processes import eventually
from scripted_provider import ScriptedProvider, call, text
from serving import Server
from undoing import Place, place
from wire import Client

BEFORE, GIVEN, THEIRS = "canary-before", "canary-given", "canary-theirs"
MARKS = (BEFORE, GIVEN, THEIRS)

READS = (
    "",
    "/steps",
    "/transcript",
    "/effects",
    "/tools",
    "/undos",
    "/residues",
    "/workflow",
    "/branches",
    "/usage",
)


class Vault:
    """An account, and all that anybody was told of what was done with it."""

    def __init__(self, w: Place) -> None:
        self.w = w
        self.account = w.folder / "account"
        self.told: list[str] = []
        self.sets(BEFORE)

    def sets(self, password: str) -> None:
        self.account.write_text(json.dumps({"password": password}))

    @property
    def password(self) -> str:
        return str(json.loads(self.account.read_text())["password"])

    def call(self, id: str) -> dict[str, Any]:
        args = {"id": str(self.account), "password": GIVEN}
        return call("python__set_password", args, id=id)

    async def post(self, path: str, **body: Any) -> Any:
        answer = await self.w.server.http.post(path, json=body)
        self.told.append(answer.text)
        assert answer.is_success, answer.text
        return answer.json()

    async def undo(self, at: str, **asked: Any) -> Any:
        plan = await self.post(f"{at}/undo-plan", **asked)
        started = await self.post(f"{at}/undos", plan_id=plan["plan_id"])
        report = await self.w.report(at.rsplit("/", 1)[1], started["undo_id"])
        self.told.append(json.dumps(report))
        return report

    async def read(self, server: Server, at: str) -> None:
        for path in READS:
            answer = await server.http.get(at + path)
            assert answer.is_success, answer.text
            self.told.append(answer.text)


async def waits(client: Client, since: int) -> dict[str, Any]:
    frame = await client.wait(
        lambda f: f["type"] == "WsServerStatusEvent" and bool(f["waitingFor"]), since=since
    )
    return dict(frame["waitingFor"][0])


async def approved(client: Client, since: int, id: str) -> None:
    shown = await waits(client, since)
    assert shown["input"]["password"] == "(secret)"
    said = {"toolCallId": id, "argsHash": shown["argsHash"], "decision": "approve"}
    before = len(client.frames)
    assert (await client.ask("Approve", **said))["type"] == "WsServerAckEvent"
    await client.wait(
        lambda f: f["type"] == "WsServerStatusEvent" and f["state"] == "AVAILABLE", since=before
    )


SETTINGS: dict[str, Any] = {
    "tool_modules": ("vault_tools",),
    "approval": "writes",
    "secret_key": "k",
    "log_level": "debug",
}


async def test_a_secret_is_in_nothing_that_is_stored_told_planned_reported_logged_or_prompted(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, capfd: Any
) -> None:
    async with place(fresh_database, tmp_path, provider, **SETTINGS) as w:
        vault = Vault(w)
        session = await w.server.session()
        at = f"/sessions/{session}"
        async with w.server.connect(session) as client, w.server.connect(session, v1=False) as base:
            await client.snapshot()
            await base.snapshot()
            provider.will([text("I shall"), vault.call("p1")], [text("done")])
            await client.send("Prompt", content="another password")
            await waits(client, 0)
            assert holding(await dumped(fresh_database), *MARKS) == []  # the step is open
            await approved(client, 0, "p1")
            assert vault.password == GIVEN
            turn = next(
                str(f["step"]["messageId"])
                for f in client.durable
                if f["type"] == "WsServerStepEvent"
            )

            report = await vault.undo(at, turn_ids=[turn])
            assert (report["outcome"], vault.password) == ("fully_reverted", BEFORE)

            # A vendor that quotes it, and a revert with the undo.
            (tmp_path / "quotes").touch()
            seen = len(client.frames)
            provider.will([text("again"), vault.call("p2")], [text("so be it")])
            await client.send("Prompt", content="and again")
            await approved(client, seen, "p2")
            (tmp_path / "quotes").unlink()
            seen = len(client.frames)
            provider.will([text("again"), vault.call("p3")], [text("done")])
            await client.send("Prompt", content="and again")
            await approved(client, seen, "p3")
            again = str(client.durable[-2]["step"]["messageId"])
            preview = await w.server.http.get(f"{at}/revert-preview", params={"turn_id": again})
            vault.told.append(preview.text)
            ack = await client.ask("Revert", messageId=again, effects="undo")
            assert ack["type"] == "WsServerAckEvent", ack
            assert (await w.report(session, ack["undoId"]))["outcome"] == "fully_reverted"
            assert vault.password == BEFORE

            # Somebody else's is in the way.
            seen = len(client.frames)
            provider.will([text("again"), vault.call("p4")], [text("done")])
            await client.send("Prompt", content="and again")
            await approved(client, seen, "p4")
            vault.sets(THEIRS)
            last = str(client.durable[-2]["step"]["messageId"])
            report = await vault.undo(at, turn_ids=[last])
            assert [item["state"] for item in report["items"]] == ["needs_review"]
            assert vault.password == THEIRS
            provider.will([text("hello")])
            await client.prompt("what is there now?")
            await vault.read(w.server, at)
            vault.told += [json.dumps(f) for one in (client, base) for f in one.frames]
        async with w.server.connect(session) as late:
            vault.told.append(json.dumps(await late.snapshot()))
        assert holding(await dumped(fresh_database), *MARKS) == []
        vault.told += [json.dumps(request) for request in provider.requests]
    vault.told += capfd.readouterr()
    assert [said for said in vault.told if any(mark in said for mark in MARKS)] == []


async def test_under_another_key_nothing_of_it_is_sent_and_nothing_fails(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    never = SETTINGS | {"approval": "never"}
    async with place(fresh_database, tmp_path, provider, **never) as w:
        vault = Vault(w)
        async with w.opened() as (session, client):
            turn = await w.turn(client, vault.call("p1"))
        assert vault.password == GIVEN
    async with place(fresh_database, tmp_path, provider, **never | {"secret_key": "other"}) as w:
        vault.w = w
        arrived = w.calls("set_password")
        report = await vault.undo(f"/sessions/{session}", turn_ids=[turn])
        assert [item["state"] for item in report["items"]] == ["needs_you"]
        assert (w.calls("set_password"), vault.password) == (arrived, GIVEN)
        await vault.read(w.server, f"/sessions/{session}")
        assert [said for said in vault.told if GIVEN in said or BEFORE in said] == []


@pytest.mark.parametrize("secret_key", ["k", None])
async def test_a_call_with_a_secret_that_waits_is_made_as_it_was_asked_for(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, secret_key: str | None
) -> None:
    settings = SETTINGS | {"secret_key": secret_key}
    async with place(fresh_database, tmp_path, provider, **settings) as w:
        vault = Vault(w)
        async with w.opened() as (session, client):
            provider.will([text("I shall"), vault.call("p1")])
            await client.send("Prompt", content="another password")
            await waits(client, 0)
    async with place(fresh_database, tmp_path, provider, **settings) as w:
        provider.will([text("done")])
        async with w.server.connect(session) as client:
            await client.snapshot()
            [call_] = (await client.snapshot())["waitingFor"]
            said = {"toolCallId": "p1", "argsHash": call_["argsHash"], "decision": "approve"}
            await client.ask("Approve", **said)
            await eventually(lambda: vault.password == GIVEN)
            await eventually(lambda: client.durable[-1].get("state") == "AVAILABLE")
        [effect] = (await w.server.http.get(f"/sessions/{session}/effects")).json()["effects"]
        assert effect["class"] == ("reversible" if secret_key else "irreversible")
        assert holding(await dumped(fresh_database), *MARKS) == []


async def test_a_call_whose_secret_cannot_be_kept_is_not_held_back(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    never = {"tool_modules": ("outside_tools",), "approval": "never"}
    async with place(fresh_database, tmp_path, provider, **never) as w:
        async with w.opened() as (session, client):
            args = {"to": str(tmp_path / "mailbox"), "pin": GIVEN}
            await w.turn(client, call("python__send_later", args, id="h1"))
        assert w.calls("send_later") == 1
        assert holding(await dumped(fresh_database), *MARKS) == []
        [effect] = (await w.server.http.get(f"/sessions/{session}/effects")).json()["effects"]
        assert (effect["class"], effect["state"]) == ("irreversible", "done")


async def test_what_a_call_touched_whose_secret_cannot_be_kept_is_claimed(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    never = SETTINGS | {"approval": "never", "secret_key": None}
    async with place(fresh_database, tmp_path, provider, **never) as w:
        vault = Vault(w)
        async with w.opened() as (session, client):
            turn = await w.turn(client, vault.call("s1"))
        assert vault.password == GIVEN
        report = await vault.undo(f"/sessions/{session}", turn_ids=[turn])
        [residue] = report["residues"]
        [leaf] = residue["leaves"]
        assert (leaf["kind"], leaf["key"], leaf["path"]) == ("account", [str(vault.account)], [])
        assert holding(await dumped(fresh_database), *MARKS) == []
