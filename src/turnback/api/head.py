"""HEAD wherever there is GET: the same answer without its body (RFC 9110, 9.3.2)."""

from __future__ import annotations

from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

MARK = "turnback.head"


def is_head(scope: Scope | dict[str, Any]) -> bool:
    """Whether only the head of the answer is wanted: who would read much for its body need not."""
    return MARK in scope


class Head:
    """ASGI middleware that lets a HEAD be answered as the GET that it stands for."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def bodiless(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        await self._app({**scope, "method": "GET", MARK: True}, receive, bodiless)
