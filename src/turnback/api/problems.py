"""Errors over HTTP: RFC 9457 problems with the same `code` as the socket's."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from turnback.core.errors import BadInput, NotFound, RangeNotSatisfiable, TurnbackError
from turnback.telemetry import metrics

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def problem(error: TurnbackError) -> dict[str, Any]:
    """The body of an error's problem."""
    metrics.error(error.code)
    name = type(error).__name__
    return {
        "type": "about:blank",
        "title": re.sub(r"(?<!^)(?=[A-Z])", " ", name),
        "status": error.status,
        "detail": error.message,
        "code": error.code,
        "data": error.data,
    }


def response(error: TurnbackError) -> Response:
    """The HTTP response of an error."""
    headers = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
    if isinstance(error, RangeNotSatisfiable):
        headers["content-range"] = f"bytes */{error.data['size']}"  # RFC 9110, 15.5.17
    return Response(
        orjson.dumps(problem(error), default=str),
        status_code=error.status,
        media_type="application/problem+json",
        headers=headers,
    )


def install(app: FastAPI) -> None:
    """Answer every error of `app` with a problem; what nobody expected is `api/requests.py`'s."""

    async def ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, TurnbackError)
        return response(error)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        where = "/".join(str(part) for part in first["loc"])
        return response(BadInput(f"`{where}`: {first['msg']}", path=where))

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == HTTPStatus.NOT_FOUND:
            return response(NotFound(f"There is nothing at `{request.url.path}`"))
        phrase = HTTPStatus(error.status_code).phrase
        failed = BadInput(f"{phrase}: `{request.method} {request.url.path}`")
        answer = response(failed)
        answer.status_code = error.status_code
        answer.body = orjson.dumps(problem(failed) | {"status": error.status_code, "title": phrase})
        answer.headers["content-length"] = str(len(answer.body))
        answer.headers.update(error.headers or {})
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            answer.headers["allow"] = ", ".join(_allowed(request))
        return answer

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
