"""Each HTTP request and socket as a whole: its id, and what nobody expected of it.

The outermost of our middleware. A request's id is the proxy's, where it sends a plausible one in
`x-request-id`; it goes back in the answer and stands in every line that the request leads to.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from time import perf_counter

import structlog
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnback.api import problems
from turnback.core.errors import DatabaseUnavailable, Draining, TurnbackError
from turnback.store.ids import new_id
from turnback.telemetry import context

log = structlog.get_logger()

HEADER = b"x-request-id"
PLAUSIBLE = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:/+=-]{0,127}")
STARTS = ("http.response.start", "websocket.accept")


class Requests:
    """ASGI middleware; see the module."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        request_id = _given(scope) or new_id()
        context.enter({"request": request_id})
        began, started = perf_counter(), False
        status = 0

        async def sending(message: Message) -> None:
            nonlocal started, status
            if message["type"] in STARTS:
                started, status = True, message.get("status", 101)
                headers = [*message.get("headers", ()), (HEADER, request_id.encode())]
                message = {**message, "headers": headers}
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except ClientDisconnect:
            pass  # it hung up before it had said everything
        except asyncio.CancelledError:
            # The server's time to end is up, and with it the request's, which is its own task.
            log.info("request cut off by the end", **_named(scope))
            if not started or scope["type"] == "websocket":
                await _answer(scope, sending, _cut_off(scope), code=1012)
        except Exception as error:
            if started and scope["type"] == "http":  # the server cuts it off, and logs this
                raise
            log.error("request failed", **_named(scope), exc_info=error)
            failed = TurnbackError("Something went wrong on the server")
            await _answer(scope, sending, failed, code=1011)
        else:
            took = round((perf_counter() - began) * 1000, 1)
            log.debug("request", **_named(scope), status=status, ms=took)


def _given(scope: Scope) -> str | None:
    """The id that a proxy has given the request."""
    given = [value for key, value in scope["headers"] if key == HEADER]
    return given[0].decode() if len(given) == 1 and PLAUSIBLE.fullmatch(given[0]) else None


def _named(scope: Scope) -> dict[str, str]:
    """What was asked for: the route as it is written, since a path may hold anything."""
    route = scope.get("route")
    return {"method": scope.get("method", "WS"), "route": getattr(route, "path", "none")}


def _cut_off(scope: Scope) -> TurnbackError:
    """What is said of a request that was under way: one that changes something is in doubt."""
    if scope.get("method", "GET") in ("GET", "HEAD"):
        return Draining("The server is going down")
    return DatabaseUnavailable(
        "The server is going down, and whether this was saved is not known; look before you try "
        "again",
        reached=True,
        in_doubt=True,
    )


async def _answer(scope: Scope, send: Send, error: TurnbackError, *, code: int) -> None:
    """Answer a request with the error's problem; a socket is closed with `code`."""
    if scope["type"] == "websocket":
        with suppress(RuntimeError, OSError):  # it may be closed
            await send({"type": "websocket.close", "code": code, "reason": error.code})
        return
    await problems.send(scope, send, error)
