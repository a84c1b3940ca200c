"""Spans, as a collector receives them: one for a turn, and one for each call under it."""

from __future__ import annotations

import asyncio
import gzip
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from scripted_provider import Pause, Refusal, ScriptedProvider, call, text, usage
from serving import serving
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

CANARY = "kanarienvogel"


class Collector:
    """A small OTLP/HTTP receiver on loopback."""

    def __init__(self) -> None:
        self.url = ""
        self.spans: list[Any] = []
        self.resource: dict[str, Any] = {}
        self.received = b""

    async def take(self, request: Request) -> Response:
        body = await request.body()
        if request.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.received += body
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resource = attributes(group.resource)
            self.spans += [span for scope in group.scope_spans for span in scope.spans]
        answer = ExportTraceServiceResponse().SerializeToString()
        return Response(answer, media_type="application/x-protobuf")

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]


def attributes(of: Any) -> dict[str, Any]:
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in of.attributes}


@pytest.fixture
async def collector(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Collector]:
    collecting = Collector()
    app = Starlette(routes=[Route("/v1/traces", collecting.take, methods=["POST"])])
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    running = asyncio.create_task(server._serve([listener]))
    collecting.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collecting.url)
    yield collecting
    server.should_exit = True
    await running
    listener.close()


async def test_a_turn_is_a_span_with_its_calls_under_it_and_no_content(
    fresh_database: str, provider: ScriptedProvider, collector: Collector
) -> None:
    provider.will(
        [
            text(CANARY),
            call("getWorkflow", {}, id="call-1"),
            call(CANARY, {"a": CANARY}, id="call-2", index=1),
            usage(7, 5),
        ],
        [text(CANARY), usage(20, 3)],
    )
    async with serving(fresh_database, **provider.settings) as server:
        session = await server.session(name=CANARY)
        async with server.connect(session) as client:
            await client.snapshot()
            await client.prompt(CANARY)
            user, first, second = client.path
        node = server.app.state.sessions.dao.node_id
    # Leaving the server has exported what there was.
    (turn,) = collector.named("invoke_agent turnback")
    assert not turn.parent_span_id
    told = attributes(turn)
    assert told["gen_ai.operation.name"] == "invoke_agent"
    assert told["gen_ai.conversation.id"] == told["turnback.session.id"] == session
    assert told["turnback.turn.id"] == user["messageId"]
    assert told["turnback.outcome"] == "complete"
    calls = sorted(collector.named("chat scripted"), key=lambda span: span.start_time_unix_nano)
    assert [attributes(span)["turnback.step.id"] for span in calls] == [first["id"], second["id"]]
    assert [
        (attributes(s)["gen_ai.usage.input_tokens"], attributes(s)["gen_ai.usage.output_tokens"])
        for s in calls
    ] == [(7, 5), (20, 3)]
    assert attributes(calls[0])["gen_ai.provider.name"] == "openai"
    (known,) = collector.named("execute_tool getWorkflow")
    (unknown,) = collector.named("execute_tool unknown")
    assert attributes(known)["gen_ai.tool.call.id"] == "call-1"
    assert attributes(known)["turnback.step.id"] == first["id"]
    assert unknown.status.code == Status.STATUS_CODE_ERROR
    for span in (*calls, known, unknown):
        assert span.parent_span_id == turn.span_id
        assert span.trace_id == turn.trace_id
        assert turn.start_time_unix_nano <= span.start_time_unix_nano
        assert span.end_time_unix_nano <= turn.end_time_unix_nano
    assert len(collector.spans) == 5
    assert collector.resource["service.name"] == "turnback"
    assert collector.resource["service.instance.id"] == node
    assert CANARY.encode() not in collector.received


async def test_spans_tell_how_a_turn_and_its_calls_ended(
    fresh_database: str, provider: ScriptedProvider, collector: Collector
) -> None:
    async with (
        serving(fresh_database, **provider.settings) as server,
        server.connect(await server.session()) as client,
    ):
        await client.snapshot()
        provider.will(Refusal(500, CANARY))
        await client.prompt("one")
        provider.will([text("and so on"), Pause()])
        seen = len(client.frames)
        await client.send("Prompt", content="two")
        await client.wait(lambda f: f["type"] == "WsServerDeltaEvent", since=seen)
        await client.send("Stop")
        await client.wait(lambda f: f.get("state") == "AVAILABLE", since=seen)
    for name in ("invoke_agent turnback", "chat scripted"):
        failed, stopped = sorted(collector.named(name), key=lambda s: s.start_time_unix_nano)
        assert attributes(failed)["error.type"] == "failed"
        assert failed.status.code == Status.STATUS_CODE_ERROR
        assert attributes(stopped)["turnback.outcome"] == "stopped"
        assert stopped.status.code == Status.STATUS_CODE_UNSET
    assert CANARY.encode() not in collector.received


async def test_a_collector_that_is_gone_holds_up_neither_a_turn_nor_the_end(
    fresh_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    loop = asyncio.get_running_loop()
    async with serving(fresh_database) as server:
        async with server.connect(await server.session()) as client:
            await client.snapshot()
            await client.prompt("add a CSVFileScan")
        began = loop.time()
    assert loop.time() - began < 20


@pytest.mark.parametrize(
    "environment",
    [{}, {"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}],
)
async def test_nobody_who_does_not_ask_for_spans_sends_any(
    fresh_database: str,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
) -> None:
    if not environment:
        monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    async with (
        serving(fresh_database) as server,
        server.connect(await server.session()) as client,
    ):
        await client.snapshot()
        await client.prompt("add a CSVFileScan")
    assert collector.received == b""


def test_what_exports_spans_is_not_imported_until_it_is_asked_for() -> None:
    code = """
import sys, turnback.app
assert not {"opentelemetry.sdk", "opentelemetry.exporter"} & sys.modules.keys()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_without_the_extra_it_is_said_and_the_service_goes_on() -> None:
    code = """
import asyncio, sys
from turnback import logs
from turnback.telemetry import tracing
sys.modules["opentelemetry.sdk"] = None
logs.configure("info")
async def serve():
    async with tracing.exporting("node"):
        assert tracing.turn(session="s", turn="t", model="m") is None
asyncio.run(serve())
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "pip install 'turnback[otel]'" in done.stderr
