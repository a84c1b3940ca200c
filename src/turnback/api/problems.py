"""Errors over HTTP: RFC 9457 problems with the same `code` as the socket's."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Scope, Send

from turnback.core.errors import (
    BadInput,
    MethodNotAllowed,
    NotFound,
    RangeNotSatisfiable,
    TurnbackError,
    Unauthenticated,
)
from turnback.core.values import pointer
from turnback.telemetry import metrics

DOOR = "/api/agents"
"""Below it are the public proposal's addresses (`api/door.py`)."""

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def problem(error: TurnbackError, *, path: str = "") -> dict[str, Any]:
    """The body of an error's problem; at the door a panel looks for its sentence as `error`."""
    metrics.error(error.code)
    name = type(error).__name__
    body = {
        "type": "about:blank",
        "title": re.sub(r"(?<!^)(?=[A-Z])", " ", name),
        "status": error.status,
        "detail": error.message,
        "code": error.code,
        "data": error.data,
    }
    at_door = path == DOOR or path.startswith(f"{DOOR}/")
    return body | {"error": error.message} if at_door else body


def response(error: TurnbackError, *, path: str = "") -> Response:
    """The HTTP response of an error, at this path."""
    return Response(
        orjson.dumps(problem(error, path=path), default=str),
        status_code=error.status,
        media_type="application/problem+json",
        headers=_headers(error),
    )


async def send(scope: Scope, send: Send, error: TurnbackError) -> None:
    """Answer a request with an error, from outside the app's own routes."""
    answer = response(error, path=scope["path"])
    await send(
        {"type": "http.response.start", "status": error.status, "headers": answer.raw_headers}
    )
    await send({"type": "http.response.body", "body": answer.body})


def _headers(error: TurnbackError) -> dict[str, str]:
    headers = {}
    if error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    elif "retryAfterMs" in error.data:
        headers["retry-after"] = str(math.ceil(error.data["retryAfterMs"] / 1000))
    if isinstance(error, MethodNotAllowed):
        headers["allow"] = ", ".join(error.data["allowed"])
    if isinstance(error, RangeNotSatisfiable):
        headers["content-range"] = f"bytes */{error.data['size']}"  # RFC 9110, 15.5.17
    if isinstance(error, Unauthenticated):
        headers["www-authenticate"] = "Bearer"
    return headers


Telling = Callable[[Request, TurnbackError], TurnbackError]
"""An error in the words of who gets it."""


def install(app: FastAPI, *, told: Telling) -> None:
    """Answer every error of `app` with a problem; what nobody expected is `api/requests.py`'s.

    Those of the routes are `told`.
    """

    async def ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, TurnbackError)
        return response(told(request, error), path=request.url.path)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        where = pointer(first["loc"])
        failed = BadInput(f"`{where.removeprefix('/')}`: {first['msg']}", path=where)
        return response(failed, path=request.url.path)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path = request.url.path
        if error.status_code == HTTPStatus.NOT_FOUND:
            return response(NotFound(f"There is nothing at `{path}`"), path=path)
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            there = _allowed(request)
            refused = MethodNotAllowed(f"`{path}` takes {' or '.join(there)}", allowed=there)
            return response(refused, path=path)
        phrase = HTTPStatus(error.status_code).phrase
        failed = BadInput(f"{phrase}: `{request.method} {path}`")
        body = problem(failed, path=path) | {"status": error.status_code, "title": phrase}
        return Response(
            orjson.dumps(body),
            status_code=error.status_code,
            media_type="application/problem+json",
            headers=error.headers,
        )

    app.add_exception_handler(TurnbackError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)


def _allowed(request: Request) -> list[str]:
    """The methods that there are for the path of `request`, in whichever of the app's routes."""
    found = [
        method
        for method in METHODS
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL
            for route in request.app.routes
        )
    ]
    return [*found, "HEAD"] if "GET" in found else found
