"""Asking REST: the helpers that the tests of its routes share."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Protocol

import httpx
from serving import Server

ADD_SCAN = {"type": "WsClientPromptCommand", "content": "add a CSVFileScan"}
REDO = {"type": "WsClientRedoCommand"}
STOP = {"type": "WsClientStopCommand"}
NOBODYS = "01980000-0000-7000-8000-0000000000ff"
"""An id as ours are, of nothing: the same in every process, as the names of tests must be."""

NOT_JSON = [b"{", b"[1", b"nope", b"\xff\xfe", b'{"name": "\xff"}', b"[" * 100_000]
NOT_AN_OBJECT = [b"[]", b"7", b"null", b'"text"', b"true"]


class Serving(Protocol):
    """A server that is spoken to over HTTP, in this process or in another."""

    http: httpx.AsyncClient

    async def session(self, **body: Any) -> str: ...


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem that an answer must be."""
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert set(body) == {"type", "title", "status", "detail", "code", "data"}
    assert (body["status"], body["code"], body["type"]) == (status, code, "about:blank")
    assert body["title"]
    assert body["detail"]
    return body


async def command(
    server: Serving, session: str, type_: str, *, wait: bool = False, key: str = "", **fields: Any
) -> httpx.Response:
    """The answer to a frame `WsClient…Command`, named without its affixes."""
    return await server.http.post(
        f"/sessions/{session}/commands",
        json={"type": f"WsClient{type_}Command", **fields},
        params={"wait": "end"} if wait else {},
        headers={"idempotency-key": key} if key else {},
    )


async def turn(server: Serving, session: str, content: str) -> dict[str, Any]:
    """Prompt and wait for the turn's end; what that is answered."""
    answer = await command(server, session, "Prompt", content=content, wait=True)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def get(server: Serving, path: str, **params: Any) -> dict[str, Any]:
    """What a read says, which must be a 200."""
    answer = await server.http.get(path, params=params or None)  # `{}` would drop the path's query
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def state(server: Serving, session: str, wanted: str) -> dict[str, Any]:
    """The session, when it is in this state."""
    async with asyncio.timeout(15):
        while True:
            body = await get(server, f"/sessions/{session}")
            if body["state"] == wanted:
                return body
            await asyncio.sleep(0.01)


def never_internal(answer: httpx.Response) -> None:
    """Whatever was sent: an answer, or a problem that is the sender's."""
    assert answer.status_code < 500 or answer.status_code == 501, answer.text
    if answer.status_code >= 400:
        problem(answer, answer.status_code, answer.json()["code"])


async def send(server: Serving, session: str, frame: dict[str, Any]) -> httpx.Response:
    """The answer to a whole frame."""
    return await server.http.post(f"/sessions/{session}/commands", json=frame)


async def idle(server: Serving, session: str) -> dict[str, Any]:
    """The session, when it is available."""
    return await state(server, session, "AVAILABLE")


async def prompted(server: Serving, **body: Any) -> tuple[str, str]:
    """A session with one turn, and that turn."""
    session = await server.session(**body)
    answer = await send(server, session, ADD_SCAN)
    assert answer.status_code == 202, answer.text
    await idle(server, session)
    return session, answer.json()["turnId"]


def routes(server: Server) -> list[tuple[str, str]]:
    """Every route of REST: its method and path, with the names of what is in it."""
    paths = server.app.openapi()["paths"]
    return [
        (method.upper(), path)
        for path, methods in paths.items()
        for method in methods
        if not path.startswith("/api/agents")  # test_door.py
    ]


async def ask(server: Server, method: str, path: str, session: str, step: str) -> httpx.Response:
    """Ask a route for a session and a step, with all else as it should be."""
    url = path.replace("{session_id}", session).replace("{step_id}", step)
    params = {"from": step, "to": step} if path.endswith("/diff") else None
    if path.endswith("/revert-preview"):
        params = {"step_id": step}
    if (method, path.rpartition("/")[2]) == ("POST", "attachments"):
        params = {"name": "x"}
    if method == "GET":
        return await server.http.get(url, params=params)
    put = b'{"rights": ["read"]}' if "/grants/" in path else b"{}"
    bodies: dict[str, Any] = {
        "commands": STOP,
        **{key: {"claim_id": "x"} for key in ("claim", "release")},
        "undo-plan": {"turn_ids": [step]},
        "undos": {"plan_id": step},
    }
    post = json.dumps(bodies.get(path.rpartition("/")[2], {})).encode()
    content = {"PUT": put, "DELETE": b"", "PATCH": b"{}", "POST": post}[method]
    return await server.http.request(
        method, url, params=params, content=content, headers={"if-match": '"x"'}
    )
