"""Old and new clients with old and new servers: the same conversation everywhere.

An old server here is ours behind something that knows neither subprotocols nor `/capabilities`, so
that it speaks the public proposal's frames to everyone. Which dialect is spoken is seen by the
subprotocol that the server took; who offered v1 and did not get it goes on as a base client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from client_view import check_base, check_v1
from serving import Server, serving
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from wire import Client, Frame, is_error, is_head, is_status, is_step

from turnback.api import frames

ADD_SCAN = "add a CSVFileScan"


class OldServer:
    """ASGI: what came before v1 was there."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/capabilities":
            await Response(status_code=404)(scope, receive, send)
            return
        if scope["type"] == "websocket":
            scope = {**scope, "subprotocols": []}
        await self._app(scope, receive, send)


@pytest.fixture(params=["old server", "new server"])
async def server(request: pytest.FixtureRequest, fresh_database: str) -> AsyncIterator[Server]:
    wrap = OldServer if request.param == "old server" else None
    async with serving(fresh_database, wrap=wrap) as running:
        yield running


async def is_new(server: Server) -> bool:
    return (await server.http.get("/capabilities")).status_code == 200


CLIENTS = {
    "old client": [],
    "old client by name": ["turnback.base"],
    "new client": ["turnback.v1"],
    "new client that offers both": ["turnback.base", "turnback.v1"],
    "client of a protocol to come": ["turnback.v2", "turnback.v1"],
    "client of another service": ["mqtt"],
}


def shape(frame: Frame) -> Any:
    """What every client is told, whatever its dialect; None: only for v1."""
    match frame["type"]:
        case "WsServerDeltaEvent" | "WsServerAckEvent":
            return None
        case "WsServerStepEvent":
            step = frame["step"]
            return step["stepId"], step["role"], step["content"], step["isBegin"], step["isEnd"]
        case "WsServerStatusEvent":
            return frame["state"]
        case "WsServerErrorEvent":
            return frame["error"]
        case "WsServerSnapshotEvent":
            return frame["state"], len(frame["steps"]), frame["canRedo"]
        case "WsServerHeadChangeEvent":
            return len(frame["workflowContent"]["operators"]), frame["canRedo"]
    raise AssertionError(frame)


async def conversation(client: Client, *, v1: bool) -> list[Any]:
    """A prompt, its revert and redo, and a revert of nothing, in a dialect; what was told."""
    check = check_v1 if v1 else check_base
    await client.snapshot()
    more = {"requestId": "r1"} if v1 else {}
    await client.send("Prompt", content=ADD_SCAN, **more)
    user = await client.wait(is_step)
    await client.wait(is_status("AVAILABLE"))
    seen = len(client.frames)
    await client.send("Revert", messageId=user["step"]["messageId"])
    await client.wait(is_head, since=seen)
    seen = len(client.frames)
    await client.send("Redo")
    await client.wait(is_head, since=seen)
    await client.send("Revert", messageId="nobody")
    await client.wait(is_error)
    for frame in client.frames:
        check(frame)
    assert ("WsServerAckEvent" in {frame["type"] for frame in client.frames}) is v1
    return [told for frame in client.frames if (told := shape(frame)) is not None]


@pytest.mark.parametrize("offers", CLIENTS.values(), ids=CLIENTS)
async def test_every_client_has_the_same_conversation_with_every_server(
    server: Server, offers: list[str]
) -> None:
    session = await server.session()
    async with server.connect(session, offers=offers) as client:
        v1 = "turnback.v1" in offers and await is_new(server)
        took = "turnback.v1" if v1 else "turnback.base" if await is_new(server) else None
        assert client.took == (took if took in offers else None)
        told = await conversation(client, v1=client.took == "turnback.v1")
    steps = [said for said in told if len(said) == 5 and isinstance(said, tuple)]
    assert told == [
        ("AVAILABLE", 0, False), "GENERATING", *steps, "AVAILABLE", (0, True), (1, False),
        "Unknown turn: nobody",
    ]  # fmt: skip
    assert [step[:2] for step in steps] == [(0, "user"), (1, "agent"), (2, "agent")]


async def test_a_command_that_a_server_does_not_name_is_refused_and_no_harm(
    server: Server,
) -> None:
    """A newer client that does not ask first: each of its commands is answered, and it goes on."""
    session = await server.session()
    new = await is_new(server)
    async with server.connect(session) as client:
        await client.snapshot()
        for type_ in sorted(frames.V1_TYPES - frames.BASE_TYPES):
            named = type_.removeprefix("WsClient").removesuffix("Command")
            members = {"stepId": "step-initial"} if named == "Checkout" else {}
            seen = len(client.frames)
            await client.send(named, **members, requestId=named)
            if not new:
                refused = await client.wait(is_error, since=seen)
                assert refused["error"] == f"Unknown message type: {type_}"
            else:
                await client.wait(lambda f, named=named: f.get("requestId") == named, since=seen)
        await client.prompt(ADD_SCAN)


async def test_an_old_server_gives_a_client_that_comes_back_a_snapshot(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        await client.prompt(ADD_SCAN)
        head = client.head
    async with server.connect(session, query="?since=1") as back:
        first = await back.next()
        if await is_new(server):
            assert first["eventSeq"] == 2
        else:
            assert first["type"] == "WsServerSnapshotEvent"
            assert (first["headId"], len(first["steps"])) == (head, 3)
