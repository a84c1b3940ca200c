"""Tool servers at addresses: a real server over real HTTP, and what its bad answers come to."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from mcp.server import MCPServer
from processes import eventually
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnback.core.contracts.model import Key
from turnback.core.errors import Lost, NotSent, ToolServerFailed
from turnback.settings import McpServer, Settings
from turnback.tools.limits import ToolLimits
from turnback.tools.mcp import McpConnection


class Manners:
    """In front of a server: answers in its place as `how` of a call asks for, and counts calls.

    An old one knows no `server/discover`, and has sessions, which are forgotten by `forget`.
    """

    def __init__(self, app: ASGIApp, *, old: bool) -> None:
        self.app = app
        self.old = old
        self.calls: list[str] = []
        self.forgotten = False
        self.headers: dict[str, str] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            return await self.app(scope, receive, send)
        self.headers = {key.decode(): value.decode() for key, value in scope["headers"]}
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        asked = json.loads(body)
        if self.old and asked["method"] == "server/discover":
            return await Response(status_code=400)(scope, receive, send)
        if asked["method"] == "initialize":
            self.forgotten = False
        elif self.forgotten:
            return await Response(status_code=404)(scope, receive, send)
        how = ""
        if asked["method"] == "tools/call":
            how = asked["params"]["arguments"].get("how", "")
            self.calls.append(how)
        given = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def again() -> Message:
            return next(given, None) or await receive()

        match how:
            case "" | "slow":
                return await self.app(scope, again, send)
            case "cut":
                start = {"type": "http.response.start", "status": 200}
                headers = [(b"content-type", b"application/json"), (b"content-length", b"1000")]
                await send({**start, "headers": headers})
                await send({"type": "http.response.body", "body": b'{"jso', "more_body": False})
                return None
            case "huge":
                found = Response(b" " * 2_000_000, media_type="application/json")
            case "packed":
                found = Response(gzip.compress(b" " * 2_000_000), media_type="application/json")
                found.headers["content-encoding"] = "gzip"
            case "html":
                found = Response("<h1>Welcome</h1>", media_type="text/html")
            case "unread":
                found = Response("no json", media_type="application/json")
            case "stream":
                found = Response(": nothing\n\n", media_type="text/event-stream")
            case "accepted":
                found = Response(status_code=202)
            case "elsewhere":
                found = Response(status_code=307, headers={"location": "http://127.0.0.2/"})
            case _:
                found = Response("no", status_code=int(how))
        await found(scope, receive, send)
        return None


@asynccontextmanager
async def serving(*, old: bool = False) -> AsyncIterator[tuple[str, Manners]]:
    mcp = MCPServer("things")

    @mcp.tool()
    async def act(how: str = "", n: int = 0) -> dict[str, Any]:
        if how == "slow":
            await asyncio.sleep(600)
        return {"n": n}

    manners = Manners(mcp.streamable_http_app(), old=old)
    listening = socket.create_server(("127.0.0.1", 0))
    options: dict[str, Any] = {"log_config": None, "timeout_graceful_shutdown": 1}
    server = uvicorn.Server(uvicorn.Config(manners, lifespan="on", **options))
    running = asyncio.create_task(server._serve([listening]))
    await eventually(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", manners
    finally:
        server.should_exit = True
        await running
        listening.close()


@asynccontextmanager
async def connected(url: str, **settings: Any) -> AsyncIterator[McpConnection]:
    quick = {"tool_restart_delay": 0.05, "tool_end_timeout": 0.5, "max_tool_message": 1_000_000}
    configured = McpServer.model_validate({"url": url, "headers": {"Authorization": "Bearer x"}})
    connection = McpConnection("web", configured, ToolLimits.of(Settings(**quick | settings)))
    connection.start()
    try:
        yield connection
    finally:
        await connection.close()


@pytest.mark.parametrize("old", [False, True], ids=["new", "old"])
async def test_a_server_at_an_address_is_listed_and_called_with_its_headers(old: bool) -> None:
    async with serving(old=old) as (url, manners), connected(url) as connection:
        assert [tool.name for tool in await connection.tools()] == ["act"]
        reply = await connection.call("act", {"n": 7}, timeout=5)
        assert reply.structured == {"n": 7}
        assert manners.headers["authorization"] == "Bearer x"
        assert "idempotency-key" not in manners.headers
        keyed = Key(header="Idempotency-Key", honoured=60)
        await connection.call("act", {"n": 7}, timeout=5, key="f:1", where=keyed)
        assert manners.headers["idempotency-key"] == "f:1"
        wrong = await connection.call("act", {"n": "seven"}, timeout=5)
        assert "idempotency-key" not in manners.headers
        assert wrong.is_error


@pytest.mark.parametrize("old", [False, True], ids=["new", "old"])
async def test_each_bad_answer_is_known_for_what_it_is_and_the_connection_lives(old: bool) -> None:
    async with serving(old=old) as (url, manners), connected(url) as connection:
        await connection.tools()
        for how in ("cut", "huge", "html", "unread", "stream", "accepted", "500", "503"):
            with pytest.raises(Lost):
                await connection.call("act", {"how": how}, timeout=5)
        with pytest.raises(Lost, match="encoding that it was not asked for"):
            await connection.call("act", {"how": "packed"}, timeout=5)
        assert manners.headers["accept-encoding"] == "identity"
        with pytest.raises(Lost, match="in time"):
            await connection.call("act", {"how": "slow"}, timeout=0.2)
        with pytest.raises(NotSent, match="429"):
            await connection.call("act", {"how": "429"}, timeout=5)
        for how in ("401", "403", "elsewhere"):
            assert (await connection.call("act", {"how": how}, timeout=5)).is_error
        assert (await connection.call("act", {"n": 1}, timeout=5)).structured == {"n": 1}
        assert len(manners.calls) == len(set(manners.calls))


async def test_a_session_that_the_server_forgot_is_begun_anew_and_the_call_was_not_made() -> None:
    async with serving(old=True) as (url, manners), connected(url) as connection:
        await connection.tools()
        manners.forgotten = True
        with pytest.raises(NotSent, match="no longer knows the session"):
            await connection.call("act", {}, timeout=5)
        assert (await connection.call("act", {"n": 2}, timeout=5)).structured == {"n": 2}


async def test_a_server_that_is_gone_gets_no_call_and_is_found_when_it_is_back() -> None:
    async with serving() as (url, _), connected(url) as connection:
        await connection.tools()
    async with connected(url, tool_start_timeout=2.0) as connection:
        with pytest.raises(ToolServerFailed, match="cannot be reached"):
            await connection.tools()
        with pytest.raises(NotSent, match="cannot be reached"):
            await connection.call("act", {}, timeout=5)


async def test_a_server_that_goes_between_two_calls_gets_no_second_one() -> None:
    async with serving() as (url, _):
        connection = connected(url)
        ours = await connection.__aenter__()
        await ours.tools()
    with pytest.raises(NotSent, match="cannot be reached"):
        await ours.call("act", {}, timeout=5)
    await connection.__aexit__(None, None, None)
