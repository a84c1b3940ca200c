"""What a person has to decide, without keys: the token of a boot, its file, codes and cookie."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from processes import eventually, process
from rest import problem
from scripted_provider import ScriptedProvider, text
from serving import Server, serving
from undoing import Place, place
from wire import Client, is_status

from turnback import token_file
from turnback.api.person import code_of, new_token
from turnback.core.errors import NotServing, SettingsInvalid, TokenInReach
from turnback.core.principal import ProjectRole, service_of
from turnback.serve import address_at, serve
from turnback.settings import McpServer, Settings
from turnback.signals import Signals


@asynccontextmanager
async def anybody(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    """Who reaches the address and shows nothing, as the agent's own tools could."""
    async with httpx.AsyncClient(base_url=server.url, timeout=20) as http:
        yield http


async def refused(answer: httpx.Response, server: Server) -> None:
    body = problem(answer, 403, "person_required")
    file = str(server.settings.token_file)
    assert body["data"] == {"token_file": file}
    assert file in body["detail"]
    assert "turnback address" in body["detail"]
    assert server.person.token not in answer.text


async def acted(w: Place, session: str, client: Client) -> tuple[str, str]:
    """A turn that did two things outside, one of which nobody can undo; it, and an undo's residue.

    Of its undo the mail is left, and the contact, which somebody else has changed.
    """
    turn = await w.turn(client, w.set_phone("2"), w.send_mail("hello", nth=1))
    w.person_sets("9")
    report = await w.undo(session, turn_ids=[turn])
    theirs = next(item for item in report["items"] if item["state"] == "needs_review")
    residue = next(r for r in report["residues"] if r["effect_id"] == theirs["effect_id"])
    return turn, str(residue["residue_id"])


async def waits(w: Place, client: Client) -> dict[str, Any]:
    """A turn that waits for a person; the call that it waits for."""
    w.provider.will([text("I shall"), w.send_mail("wait")], [text("done")])
    seen = len(client.frames)
    await client.send("Prompt", content="mail it")
    frame = await client.wait(
        lambda f: f["type"] == "WsServerStatusEvent" and bool(f["waitingFor"]), since=seen
    )
    return dict(frame["waitingFor"][0])


async def test_without_the_token_nobody_decides_and_everything_else_goes(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w, anybody(w.server) as http:
        session = await w.server.session()
        at = f"/sessions/{session}"
        async with w.server.connect(session) as person:
            await person.snapshot()
            turn, residue = await acted(w, session, person)
        calls = w.calls("set_phone"), w.calls("send_mail")
        plan = await http.post(f"{at}/undo-plan", json={"turn_ids": [turn]})
        assert plan.status_code == 201
        frames: list[tuple[str, dict[str, Any]]] = [
            ("Undo", {"planId": plan.json()["plan_id"]}),
            ("Revert", {"messageId": turn, "effects": "undo"}),
            ("Acknowledge", {"residueId": residue}),
            ("Approve", {"toolCallId": "c", "decision": "approve", "argsHash": "h"}),
            ("Approve", {"toolCallId": "c", "decision": "deny", "argsHash": "h"}),
        ]
        for name, fields in frames:
            frame = {"type": f"WsClient{name}Command", **fields}
            await refused(await http.post(f"{at}/commands", json=frame), w.server)
        for path, body in (
            ("undos", {"plan_id": plan.json()["plan_id"]}),
            (f"residues/{residue}/acknowledge", {}),
            (f"residues/{residue}/overwrite", {}),
        ):
            await refused(await http.post(f"{at}/{path}", json=body), w.server)
        made = await http.post("/keys", json={"principal": "me", "role": "owner"})
        await refused(made, w.server)
        assert (await http.get("/whoami")).json()["decides"] is False

        async with w.server.connect(session, additional_headers={}) as client:
            await client.snapshot()
            for name, fields in frames:
                error = await client.ask(name, **fields)
                assert (error["code"], error["type"]) == ("person_required", "WsServerErrorEvent")
                assert str(w.server.settings.token_file) in error["error"]
            assert (w.calls("set_phone"), w.calls("send_mail"), w.phone()) == (*calls, "9")
            report = (await http.get(f"{at}/undos")).json()["undos"]
            assert len(report) == 1
            assert report[0]["open_residues"] == 2

            again = await w.turn(client, w.set_phone("3", "ben"), says="go on")
            ack = await client.ask("Revert", messageId=again)
            assert ack["type"] == "WsServerAckEvent"
            assert (await client.ask("Redo"))["type"] == "WsServerAckEvent"


async def test_a_waiting_call_is_decided_with_the_token_alone(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with (
        place(fresh_database, tmp_path, provider, approval="irreversible") as w,
        anybody(w.server) as http,
    ):
        session = await w.server.session()
        async with (
            w.server.connect(session, additional_headers={}) as client,
            w.server.connect(session) as person,
        ):
            await client.snapshot()
            await person.snapshot()
            call = await waits(w, client)
            fields = {"toolCallId": call["toolCallId"], "argsHash": call["argsHash"]}
            error = await client.ask("Approve", decision="approve", **fields)
            assert error["code"] == "person_required"
            frame = {"type": "WsClientApproveCommand", "decision": "approve", **fields}
            await refused(await http.post(f"/sessions/{session}/commands", json=frame), w.server)
            assert w.calls("send_mail") == 0
            seen = len(person.frames)
            ack = await person.ask("Approve", decision="approve", **fields)
            assert ack["type"] == "WsServerAckEvent"
            await person.wait(is_status("AVAILABLE"), since=seen)
            assert w.calls("send_mail") == 1


async def test_a_page_swaps_the_code_once_for_a_cookie_by_which_requests_and_sockets_decide(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w, anybody(w.server) as page:
        async with w.opened() as (session, client):
            _, residue = await acted(w, session, client)
        url = httpx.URL(w.server.url)
        token, port = w.server.person.token, url.port or 0
        [origin, code] = address_at(w.server.url, token).split("/#")
        assert origin == w.server.url
        came = await page.post("/person", json={"code": code}, headers={"origin": w.server.url})
        assert came.json() == (await page.get("/whoami")).json()
        assert came.json()["decides"] is True
        said = came.headers["set-cookie"]
        assert "; HttpOnly" in said
        assert "; SameSite=strict" in said
        assert "expires" not in said.lower()
        assert "max-age" not in said.lower()
        assert token not in said
        assert came.headers["cache-control"] == "no-store"
        for worthless in (
            code,
            code_of(token, port=port + 1),
            code_of(new_token(), port=port),
            "x.y",
            "",
            "ü.ü",
        ):
            async with anybody(w.server) as other:
                answer = await other.post("/person", json={"code": worthless})
                problem(answer, 403, "code_refused")
                assert not answer.cookies
        cookie = {"cookie": "; ".join(f"{name}={value}" for name, value in page.cookies.items())}
        async with w.server.connect(
            session, additional_headers=cookie | {"origin": w.server.url}
        ) as socket:
            await socket.snapshot()
            ack = await socket.ask("Acknowledge", residueId=residue)
            assert ack["type"] == "WsServerAckEvent"
        assert (await page.get(f"/sessions/{session}/undos")).json()["undos"][0][
            "open_residues"
        ] == 1
        overwritten = await page.post(f"/sessions/{session}/residues/{residue}/overwrite")
        assert overwritten.status_code == 202, overwritten.text
        await eventually(lambda: w.phone() == "1")


async def test_an_acknowledgement_is_told_once_and_kept_through_whatever_is_under_way(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w, w.opened() as (session, client):
        _, residue = await acted(w, session, client)
        unknown = await client.ask("Acknowledge", residueId=session)
        assert unknown["code"] == "unknown_residue"

        (tmp_path / "hang").touch()
        provider.will([text("I shall"), w.set_phone("5", "ben")], [text("done")])
        await client.send("Prompt", content="and another")
        await eventually(lambda: w.calls("set_phone") == 2)
        seen = len(client.frames)
        ack = await client.ask("Acknowledge", residueId=residue, requestId="note")
        assert ack["type"] == "WsServerAckEvent"
        assert await client.ask("Acknowledge", residueId=residue, requestId="note") == ack
        other = await client.ask("Acknowledge", residueId=session, requestId="note")
        assert other["code"] == "request_conflict"
        assert (await client.ask("Acknowledge", residueId=residue))["eventSeq"] >= ack["eventSeq"]
        (tmp_path / "hang").unlink()
        await client.wait(is_status("AVAILABLE"), since=seen)
        told = [f for f in client.frames[seen:] if f["type"] == "WsServerUndoEvent"]
        assert [f["phase"] for f in told] == ["settled"]
        assert told[0]["eventSeq"] == ack["eventSeq"]
        [step] = [f for f in client.frames[seen:] if f.get("step", {}).get("toolCalls")]
        assert step["step"]["toolResults"][0]["isError"] is False
        at = f"/sessions/{session}/residues"
        left = (await w.server.http.get(at)).json()["residues"]
        status = {one["residue_id"]: one["status"] for one in left}
        assert status.pop(residue) == "acknowledged"
        assert set(status.values()) == {"open"}


async def test_with_keys_the_rights_hold_and_the_token_is_nothing(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w:
        async with w.opened() as (session, client):
            _, residue = await acted(w, session, client)
        identities = w.server.app.state.sessions.dao.identities
        _, key = await identities.make_key(
            service_of("local"), "ann", name="", role=ProjectRole.EDITOR, expires_at=None
        )
        await eventually(lambda: not w.server.app.state.sessions.local)
        path = f"/sessions/{session}/residues/{residue}/acknowledge"
        async with anybody(w.server) as http:
            by_token = {"authorization": f"Bearer {w.server.person.token}"}
            problem(await http.post(path, headers=by_token), 401, "unauthenticated")
            by_key = {"authorization": f"Bearer {key}"}
            code = code_of(w.server.person.token, port=httpx.URL(w.server.url).port or 0)
            swapped = await http.post("/person", json={"code": code}, headers=by_key)
            problem(swapped, 403, "code_refused")
            assert (await http.post(path, headers=by_key)).json()["status"] == "acknowledged"
            assert (await http.get("/whoami", headers=by_key)).json()["decides"] is True


async def test_processes_of_one_folder_have_one_token_and_those_after_them_another(
    fresh_database: str, tmp_path: Path
) -> None:
    file = tmp_path / "data" / "token"
    async with process(tmp_path, fresh_database) as first:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        async with process(tmp_path, fresh_database) as second:
            assert first.person == second.person
            assert token_file.current(file) == first.person.token
            first.kill()
            await first.end()
            assert (await second.http.get("/whoami")).json()["decides"] is True
    with pytest.raises(NotServing):
        token_file.current(file)
    async with process(tmp_path, fresh_database) as later:
        stale = {"authorization": f"Bearer {first.person.token}"}
        assert (await later.http.get("/whoami", headers=stale)).json()["decides"] is False
        assert (await later.http.get("/whoami")).json()["decides"] is True


def test_the_file_is_its_owners_alone_whatever_was_there(tmp_path: Path) -> None:
    file = tmp_path / "data" / "token"
    file.parent.mkdir()
    file.write_text("known to everybody, and longer than a token is" * 9)
    file.chmod(0o666)
    with token_file.held(file, lambda: "secret") as token:
        assert (token, file.read_text()) == ("secret", "secret\n")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SettingsInvalid), token_file.held(file, lambda: "secret"):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_tool_server_that_could_read_the_token_is_refused(
    fresh_database: str, tmp_path: Path
) -> None:
    server = McpServer(command="cat", args=(str(tmp_path),))
    settings = Settings(
        port=0,
        database_url=fresh_database,
        data_dir=tmp_path / "data",
        mcp_servers={"files": server},
    )
    with pytest.raises(TokenInReach, match="files"):
        serve(settings, signals=Signals(), ready=lambda _: None)
    assert not settings.token_file.exists()


async def test_a_server_whose_callers_have_keys_prints_its_plain_address(
    fresh_database: str, tmp_path: Path
) -> None:
    async with serving(fresh_database) as server:
        made = await server.http.post("/keys", json={"principal": "ann", "role": "owner"})
        assert made.status_code == 201, made.text
    async with process(tmp_path, fresh_database) as keyed:
        assert keyed.person.token == ""
        assert not (tmp_path / "data" / "token").exists()
