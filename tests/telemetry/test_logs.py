"""What is logged when things go right and wrong: lines of JSON, with ids, without content."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import asyncpg
import pytest
from scripted_provider import Refusal, ScriptedProvider, call, text
from serving import Server, serving

from turnback import logs
from turnback.core.errors import SessionNotFound
from turnback.core.workflow import Workflow
from turnback.sessions.actor import Actor

CANARY = "kanarienvogel"

Line = dict[str, Any]
Lines = Callable[[], list[Line]]


@pytest.fixture
def lines(own_logging: None, capsys: pytest.CaptureFixture[str]) -> Lines:
    """Reads what has been logged, from `debug` on; every line of it must be a JSON object."""
    written = io.StringIO()
    logs.configure("debug")

    def read() -> list[Line]:
        written.write(capsys.readouterr().err)
        found = [json.loads(line) for line in written.getvalue().splitlines()]
        assert all({"timestamp", "level", "event"} <= line.keys() for line in found)
        return found

    return read


def told(lines: Lines, event: str) -> list[Line]:
    return [line for line in lines() if line["event"] == event]


DOCUMENT = {
    "operators": [
        {
            "operatorID": f"op-{CANARY}",
            "operatorType": "Filter",
            "operatorProperties": {"predicate": CANARY},
            "inputPorts": [{"portID": "input-0"}],
            "outputPorts": [{"portID": "output-0"}],
        }
    ],
    "operatorPositions": {},
    "links": [],
    "commentBoxes": [],
    CANARY: CANARY,
}


async def test_no_line_holds_content_whatever_goes_wrong(
    fresh_database: str, provider: ScriptedProvider, lines: Lines
) -> None:
    model = provider.settings
    async with serving(fresh_database, model_api_key=CANARY, **model) as server:
        http = server.http
        session = await server.session(name=CANARY, workflow=DOCUMENT)
        async with server.connect(session, query=f"?since={CANARY}&token={CANARY}") as client:
            await client.snapshot()
            # A run with tool calls that go well and badly, and its text.
            provider.will(
                [
                    text(CANARY),
                    call("modifyOperator", {"operatorId": CANARY, "summary": CANARY}),
                    call(CANARY, {"a": CANARY}, id="2", index=1),
                    call("getWorkflow", f"{{{CANARY}", id="3", index=2),
                ],
                [text(CANARY)],
            )
            await client.prompt(CANARY, requestId="r-1")
            # Providers that say again what they were sent.
            for answer in (Refusal(400, CANARY), Refusal(500, CANARY), [CANARY.encode()]):
                provider.will(answer)
                await client.prompt(CANARY)
            # Frames and bodies that are none.
            for bad in (f'{{"{CANARY}', f'"{CANARY}"', f'{{"type": "{CANARY}"}}', CANARY.encode()):
                await client.send_raw(bad)
            await client.ask("Revert", messageId=CANARY)
            await client.ask("Checkout", stepId=CANARY)
            await client.ask("EditWorkflow", baseHeadId=client.head, edits=[{"op": CANARY}])
            for path in (f"/sessions/{CANARY}", f"/{CANARY}?q={CANARY}", f"/sessions?q={CANARY}"):
                await http.get(path, headers={"authorization": CANARY, "cookie": f"a={CANARY}"})
            await http.post("/sessions", content=f'{{"{CANARY}')
            await http.post("/sessions", json={"name": CANARY, CANARY: CANARY})
            await http.post("/sessions", json={"workflow": {CANARY: CANARY}})
            await http.patch(f"/sessions/{session}", json={"name": CANARY * 2})
            # A database whose errors quote the row.
            await refuse_rows(fresh_database)
            refused = await client.ask("Prompt", content=CANARY)
            assert refused["code"] == "internal"
            prompt = {"type": "WsClientPromptCommand", "content": CANARY}
            answer = await http.post(f"/sessions/{session}/commands", json=prompt)
            assert (answer.status_code, answer.json()["code"]) == (500, "internal")
            assert CANARY not in refused["error"] + answer.text
    found = lines()
    assert [line for line in found if CANARY in json.dumps(line)] == []
    assert {"request", "command done", "command refused", "model failed", "command failed"} <= {
        line["event"] for line in found
    }
    failed = told(lines, "command failed")
    assert len(failed) == 2  # each is told once, where it happened
    assert all("sqlstate 23514" in line["exception"] for line in failed)


async def refuse_rows(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        refuse = f"alter table records add check (payload::text not like '%{CANARY}%') not valid"
        await connection.execute(refuse)
    finally:
        await connection.close()


async def test_a_commands_ids_are_in_the_lines_of_its_run(
    fresh_database: str, provider: ScriptedProvider, lines: Lines
) -> None:
    model = provider.settings
    provider.will(Refusal(500), Refusal(500))
    async with serving(fresh_database, **model) as server:
        session = await server.session()
        headers = {"x-request-id": "proxy-7"}
        async with server.connect(session, additional_headers=headers) as client:
            await client.snapshot()
            await client.prompt("over the socket", requestId="r-9")
            turns = [step["messageId"] for step in client.path[:1]]
            prompt = {"type": "WsClientPromptCommand", "content": "over REST"}
            seen = len(client.frames)
            answer = await server.http.post(
                f"/sessions/{session}/commands", json=prompt, headers={"x-request-id": "proxy-8"}
            )
            turns.append(answer.json()["turnId"])
            await client.wait(lambda f: f.get("state") == "AVAILABLE", since=seen)
    first, second = told(lines, "model failed")
    ids = {"request": "proxy-7", "command": "r-9", "session": session, "turn": turns[0]}
    assert first.items() >= ids.items()
    assert second.items() >= {"request": "proxy-8", "session": session, "turn": turns[1]}.items()
    assert "command" not in second


async def test_a_requests_id_is_the_proxys_or_else_a_new_one(
    standing: Server, lines: Lines
) -> None:
    async def given(*values: bytes) -> str:
        headers = [(b"x-request-id", value) for value in values]
        answer = await standing.http.get("/healthz", headers=headers)
        return str(answer.headers["x-request-id"])

    assert await given(b"0af7651916cd43dd8448eb211c80319c") == "0af7651916cd43dd8448eb211c80319c"
    implausible = [(), (b"a b",), (b"a\x85b",), (b"x" * 200,), (b"1", b"2")]
    made = [await given(*values) for values in implausible]
    assert len({*made}) == 5
    assert all(len(value) == 36 for value in made)
    assert [line["request"] for line in told(lines, "request")][1:] == made
    async with standing.connect(await standing.session()) as client:
        await client.snapshot()
        response = client._socket.response
        assert response is not None
        assert len(response.headers["x-request-id"]) == 36


async def test_what_nobody_expected_is_told_once_and_answered_without_its_message(
    server: Server, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> Workflow:
        raise ValueError(CANARY)

    session = await server.session()
    monkeypatch.setattr(Actor, "refresh", fail)
    answer = await server.http.get(f"/sessions/{session}/steps")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert answer.headers["x-request-id"]
    async with server.connect(session) as client:
        assert await client.until_closed() == 1011
    failed = told(lines, "request failed")
    assert [line["route"] for line in failed] == ["/sessions/{session_id}/steps", WS]
    assert failed[0]["request"] == answer.headers["x-request-id"]
    for line in failed:
        assert line["exception"].endswith("ValueError")
        assert "in fail" in line["exception"]
    assert [line for line in lines() if line["level"] == "error"] == failed
    assert CANARY not in json.dumps(lines()) + answer.text


WS = "/sessions/{session_id}/ws"


async def test_a_client_that_hangs_up_in_the_middle_is_no_error(
    server: Server, lines: Lines
) -> None:
    port = int(server.url.rpartition(":")[2])
    _, out = await asyncio.open_connection("127.0.0.1", port)
    out.write(b"POST /sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n{")
    await out.drain()
    await asyncio.sleep(0.1)
    out.close()
    await out.wait_closed()
    assert (await server.http.get("/healthz")).status_code == 200
    assert [line for line in lines() if line["level"] in ("warning", "error")] == []


def test_control_characters_stay_inside_their_string(lines: Lines) -> None:
    logs.log.warning("of\nsomebody", id="a\r\n{}\x1b[31m\x85\u2028\ud800")
    (line,) = lines()
    assert line["event"] == "of\nsomebody"
    assert line["id"] == "a\r\n{}\x1b[31m\x85\u2028\ud800"


def test_a_librarys_line_is_in_the_same_form_without_its_values(lines: Lines) -> None:
    log = logging.getLogger("uvicorn.error")
    log.warning("Invalid request from %s", CANARY)
    log.info("not told")
    log.error(f"Exception in callback <{CANARY}>", exc_info=ValueError(CANARY))
    logging.getLogger("openai").debug("sent %s", CANARY)
    logging.getLogger("alembic.runtime.migration").info("Running %s %s -> %s", "upgrade", "", "1")
    warnings.showwarning(UserWarning(CANARY), UserWarning, "file.py", 3)
    assert [line["event"] for line in lines()] == [
        "Invalid request from %s",
        "Exception in callback",
        "Running upgrade  -> 1",
        "python warning",
    ]
    assert CANARY not in json.dumps(lines())


async def test_what_the_event_loop_reports_is_told_without_its_values(lines: Lines) -> None:
    async def fail(secret: str) -> None:
        raise ValueError(secret)

    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(logs.on_loop_error)
    try:
        loop.call_soon(lambda secret: 1 // 0, CANARY)
        task = asyncio.create_task(fail(CANARY))
        await asyncio.wait([task])
        del task
        await asyncio.sleep(0)
    finally:
        loop.set_exception_handler(before)
    first, second = told(lines, "event loop error")
    assert first["exception"].endswith("ZeroDivisionError")
    assert second["what"] == "Task exception was never retrieved"
    assert CANARY not in json.dumps(lines())


def test_an_exception_is_told_with_what_led_to_it_and_its_codes(lines: Lines) -> None:
    try:
        try:
            os.stat("/nowhere/" + CANARY)
        except OSError as error:
            raise SessionNotFound(CANARY) from error
    except SessionNotFound:
        logs.log.exception("failed")
    group = ExceptionGroup(CANARY, [ValueError(CANARY)])
    logs.log.error("failed too", exc_info=group)
    first, second = lines()
    assert "FileNotFoundError (ENOENT)\n\nand then\n\n" in first["exception"]
    assert first["exception"].endswith("SessionNotFound (session_not_found)")
    assert second["exception"].endswith("ValueError")
    assert CANARY not in json.dumps(lines())


@pytest.mark.usefixtures("own_logging")
def test_a_log_that_cannot_be_written_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    full = io.open("/dev/full", "w", buffering=1)  # noqa: SIM115, UP020
    monkeypatch.setattr(sys, "stderr", full)
    logs.configure("info")
    logs.log.warning("to a full disk")
    with pytest.raises(OSError, match="space"):
        full.close()


@pytest.mark.usefixtures("own_logging")
def test_at_a_terminal_a_line_is_for_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    logs.configure("info")
    logs.log.warning("database away", during="poll", id="\x1b[31m")
    line = terminal.getvalue()
    assert line.endswith("warning database away  during=poll  id='\\x1b[31m'\n")
