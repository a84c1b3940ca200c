"""docs/protocol.md and the server agree: nothing is undocumented, nothing documented is missing.

The lists are compared both ways; what is said to come later answers as it is said to; the examples
are of their schemas; and the programs and the `curl` lines in it run against a real server.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator
from protocol_document import PROSE, blocks, names, section, table, tables
from pydantic import BaseModel
from scripted_provider import Pause, ScriptedProvider, text
from serving import Server, serving
from starlette.routing import BaseRoute, Mount, WebSocketRoute
from wire import is_error, is_status

from turnback.api import base_frames, frames, server_frames, socket
from turnback.api.definitions import frames as schema
from turnback.api.members import StepFrame
from turnback.app import create_app
from turnback.core.errors import StartError, TurnbackError
from turnback.core.workflow import SCHEMA, load
from turnback.sessions import broadcast
from turnback.settings import Settings

COMMON = {"type", "requestId", "expectedHeadId"}


def members(union: Any) -> dict[str, type[BaseModel]]:
    """The models of a union of frames, by their `type`."""
    models = get_args(get_args(union)[0])
    return {get_args(m.model_fields["type"].annotation)[0]: m for m in models}


# -- routes


def real_routes(routes: Iterable[BaseRoute]) -> set[str]:
    """Every route of an app, written as the document writes them."""
    found: set[str] = set()
    for route in routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            found |= real_routes(inner.routes)
        elif isinstance(route, Mount):
            found.add(f"GET {route.path}/{{path}}")
        elif isinstance(route, WebSocketRoute):
            found.add(f"WS {route.path}")
        else:
            methods = set(route.methods) - {"HEAD"}  # type: ignore[attr-defined]
            found |= {f"{method} {route.path}" for method in methods}  # type: ignore[attr-defined]
    return found


def documented_routes(text: str) -> set[str]:
    return {
        names(row[0])[0]
        for rows in tables(text)
        for row in rows
        if re.match(r"`(GET|POST|PUT|PATCH|DELETE|WS) ", row[0])
    }


def test_every_route_is_documented_and_every_documented_route_is_there() -> None:
    documented = documented_routes(PROSE)
    app = create_app(Settings(demo=True), "postgresql://unused")
    assert real_routes(app.routes) == documented


# -- frames


async def test_every_query_parameter_is_documented(standing: Server) -> None:
    routes = (await standing.http.get("/openapi.json")).json()["paths"]
    asked = {
        parameter["name"]
        for methods in routes.values()
        for route in methods.values()
        for parameter in route.get("parameters", [])
        if parameter["in"] == "query"
    }
    rest = section("REST")
    said = {name.split("=")[0] for name in re.findall(r"`\??([a-z_]+)(?:=[a-z]+)?`", rest)}
    assert asked <= said


async def test_every_feature_is_documented(standing: Server) -> None:
    offered = (await standing.http.get("/capabilities")).json()["features"]
    documented = [name for row in table("The service") for name in names(row[0])]
    assert sorted(documented) == sorted(offered)


def test_every_command_is_documented_with_its_members() -> None:
    documented = {
        names(row[0])[0]: set(names(row[1])) for row in tables(section("Commands"))[1][1:]
    }
    assert documented == {
        type_: set(model.model_fields) - COMMON
        for type_, model in members(frames.ClientFrame).items()
    }
    assert {names(row[0])[0] for row in table("Commands")} == COMMON - {"type"}


def test_every_edit_is_documented_with_its_members() -> None:
    definitions = schema()["$defs"]
    real = {
        definition["properties"]["op"]["const"]: set(definition["properties"]) - {"op"}
        for definition in definitions.values()
        if "op" in definition.get("properties", {})
    }
    documented = {}
    for row in table("EditWorkflow"):
        named = set(re.findall(r"`(\w+)\??`", re.sub(r"\{[^}]*\}|\([^)]*\)", "", row[1])))
        documented[names(row[0])[0]] = named
    assert documented == real


def test_every_event_is_documented_with_its_members() -> None:
    rows = table("Events")
    real = members(server_frames.ServerFrame)
    assert {names(row[0])[0] for row in rows} == set(real)
    for row in rows:
        model, listed = real[names(row[0])[0]], set(names(row[3]))
        if listed - {"change"}:
            assert listed | {"eventSeq"} == set(model.model_fields) - {"type"} | {"eventSeq"}, row
    snapshot = {name for row in table("Snapshot") for name in names(row[0])}
    assert snapshot == set(real["WsServerSnapshotEvent"].model_fields) - {"type"}
    step = {name for row in table("A step") for name in names(row[0])}
    assert step == set(StepFrame.model_fields)


def test_what_a_base_client_gets_is_documented() -> None:
    rows = {row[0]: row[2] for row in table("Base clients")}
    for kind, type_ in (
        ("snapshot", "WsServerSnapshotEvent"),
        ("status", "WsServerStatusEvent"),
        ("head change", "WsServerHeadChangeEvent"),
        ("error", "WsServerErrorEvent"),
    ):
        model = members(base_frames.BaseServerFrame)[type_]
        assert set(names(rows[kind])) == set(model.model_fields) - {"type"}
    only_v1 = set(StepFrame.model_fields) - set(base_frames.BaseStep.model_fields)
    contents = set(base_frames.BaseStep.model_fields) - set(StepFrame.model_fields)
    assert set(names(rows["steps"])) == only_v1 | contents
    assert set(members(base_frames.BaseClientFrame)) == frames.BASE_TYPES


async def test_every_command_is_named_by_the_capabilities(standing: Server) -> None:
    offered = (await standing.http.get("/capabilities")).json()
    assert set(offered["commands"]) == set(members(frames.ClientFrame))
    assert set(offered["protocols"]) == {frames.V1, frames.BASE}


# -- errors, close codes, sentences, limits


def errors(kind: type[TurnbackError] = TurnbackError) -> dict[str, int]:
    found = {kind.code: kind.status}
    for below in kind.__subclasses__():
        found |= errors(below) if not issubclass(below, StartError) else {}
    return found


def test_every_error_is_documented_with_its_status() -> None:
    documented = {names(row[0])[0]: int(row[1]) for row in table("Errors")}
    assert documented == errors()


def test_every_close_code_is_documented() -> None:
    ours = {
        value.code
        for module in (broadcast, socket)
        for value in vars(module).values()
        if isinstance(value, broadcast.Closed)
    }
    documented = {int(code) for row in table("Close codes") for code in row[0].split(", ")}
    theirs = {1000, 1001, 1002, 1007, 1009, 1011}  # of the WebSocket protocol itself
    assert documented == ours | theirs


SENT = {
    "Invalid message format": "not json",
    "Unknown message type: X": {"type": "X"},
    "Message content is required": {"type": "WsClientPromptCommand"},
    "messageId is required to revert": {"type": "WsClientRevertCommand"},
    "Unknown turn: X": {"type": "WsClientRevertCommand", "messageId": "X"},
    "Turn is not on the current conversation path": {
        "type": "WsClientRevertCommand",
        "messageId": "$reverted",
    },
    "Nothing to redo": {"type": "WsClientRedoCommand"},
}
SENT_WHILE_BUSY = {
    "Cannot revert while the agent is busy": {
        "type": "WsClientRevertCommand",
        "messageId": "$first",
    },
    "Cannot redo while the agent is busy": {"type": "WsClientRedoCommand"},
    "The agent is busy with another prompt; wait for its end or stop it": {
        "type": "WsClientPromptCommand",
        "content": "another",
    },
}


async def test_the_sentences_are_said_as_documented(
    scripted: tuple[Server, ScriptedProvider],
) -> None:
    server, provider = scripted
    documented = {names(row[0])[0] for row in table("Sentences")}
    assert documented == {"Agent not found", *SENT, *SENT_WHILE_BUSY}
    provider.will([text("one")], [text("two")], [text("three"), Pause()])
    session = await server.session()
    async with server.connect(session, v1=False) as client:
        await client.snapshot()
        await client.prompt("first")
        reverted = client.path[0]["messageId"]
        await client.send("Revert", messageId=reverted)
        await client.prompt("second")
        first = client.path[0]["messageId"]

        async def said(frame: Any) -> str:
            seen = len(client.frames)
            written = frame if isinstance(frame, str) else json.dumps(frame)
            await client.send_raw(written.replace("$reverted", reverted).replace("$first", first))
            return str((await client.wait(is_error, since=seen))["error"])

        for sentence, frame in SENT.items():
            assert await said(frame) == sentence
        await client.send("Prompt", content="third")
        await client.wait(is_status("GENERATING"), since=len(client.frames))
        for sentence, frame in SENT_WHILE_BUSY.items():
            assert await said(frame) == sentence
        await client.send("Stop")
    async with server.connect("nobody", v1=False) as client:
        assert (await client.next())["error"] == "Agent not found"


CLIENTS = ("ws_", "replay_", "events_", "page_", "transcript_limit", "transcript_wait", "preview_",
           "snapshot_steps", "branch_choices", "max_edits", "max_kept", "max_prompt", "max_body",
           "max_redo", "max_workflow", "max_json", "max_branch", "command_queue")  # fmt: skip
"""How the names of limits begin that a client comes to feel."""


def test_the_limits_are_documented_with_their_defaults() -> None:
    documented = {names(row[0])[0]: row[1] for row in table("Limits")}
    defaults = {name: str(field.default) for name, field in Settings.model_fields.items()}
    assert documented == {name: defaults[name] for name in documented}
    assert {name for name in defaults if name.startswith(CLIENTS)} <= set(documented)


# -- examples and programs


@pytest.mark.parametrize("example", blocks("json"), ids=lambda example: example[10:45])
def test_an_example_is_of_its_schema(example: str) -> None:
    definitions = schema()["$defs"]
    frame = json.loads(example)
    assert frame["type"] in definitions
    reference = {"$ref": f"#/$defs/{frame['type']}", "$defs": definitions}
    Draft202012Validator(reference).validate(frame)
    assert set(frame) <= set(definitions[frame["type"]]["properties"])


def test_the_workflow_of_the_document_is_one() -> None:
    (example,) = blocks("jsonc")
    document = json.loads(example)
    assert load(document, max_bytes=10_000, max_depth=20).content() == document
    assert set(document) == set(SCHEMA["properties"])


async def ran(*command: str, folder: Path, **environment: str) -> str:
    """What a program prints; it has to end well."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=dict(os.environ) | environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


async def test_the_client_of_the_document_works(server: Server, tmp_path: Path) -> None:
    (program,) = blocks("python")
    assert len([line for line in program.splitlines() if line.strip()]) <= 40
    (tmp_path / "client.py").write_text(program)
    session = await server.session()
    address = f"{server.url.replace('http', 'ws', 1)}/sessions/{session}/ws"
    printed = await ran(sys.executable, "client.py", address, folder=tmp_path)
    steps = (await server.http.get(f"/sessions/{session}/steps")).json()["steps"]
    first = [step for step in steps if step["turn_id"] == steps[0]["turn_id"]]
    assert len(first) < len(steps)
    for step in steps:
        assert printed.count(f"\n{step['role']}: {step['content']}\n") == 1, printed
    # The text had streamed before the step that says it was there.
    assert f"{first[1]['content']}\nagent: {first[1]['content']}\n" in printed
    assert "reverted to step-initial\n" in printed
    assert f"redone to {first[-1]['id']}\n" in printed
    assert printed.endswith(f"back at {steps[-1]['id']} of {len(steps)} steps\n")


async def test_the_curl_lines_of_the_document_work(fresh_database: str, tmp_path: Path) -> None:
    curl = shutil.which("curl")
    assert curl, "the tests need curl"
    async with serving(fresh_database, demo=True, data_dir=tmp_path) as server:
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            await client.prompt("add a CSVFileScan")
        script = "set -e\n" + "\n".join(blocks("sh"))
        await ran("bash", "-c", script, folder=tmp_path, TURNBACK=server.url, SESSION=session)
        workflow = await server.http.get(f"/sessions/{session}/workflow")
    assert json.loads((tmp_path / "workflow.json").read_text())["operators"]
    assert workflow.json()["operators"] == []  # cleared by the last of them
