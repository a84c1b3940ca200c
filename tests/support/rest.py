"""Asking REST: the helpers that the tests of its routes share."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

import httpx


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
    answer = await server.http.get(path, params=params)
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
