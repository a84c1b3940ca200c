"""An MCP server at an address: what its HTTP answers mean for a call, and how much they may bring.

The library turns most of what can go wrong over HTTP into one error, and some of it into the end
of the whole connection. Here every request has an answer that says whether the call was sent.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar
from types import MappingProxyType

import httpx2
import orjson
from mcp_types import JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

from turnback.settings import McpServer
from turnback.tools.limits import ToolLimits

NOT_SENT = -38_001
REPLY_LOST = -38_002
SESSION_GONE = -38_003
REFUSED = -38_004
"""Codes of our own in place of a server's: outside of what JSON-RPC and MCP keep for themselves."""

CODES = frozenset({NOT_SENT, REPLY_LOST, SESSION_GONE, REFUSED})
OURS = secrets.token_hex(16)
"""Goes with those codes: what a server answers under one of them is the server's own error."""

PLAIN = "identity"
"""The encoding in which answers are taken: what a packed one unpacks to is bounded by nothing."""

headers: ContextVar[Mapping[str, str]] = ContextVar("headers", default=MappingProxyType({}))
"""Headers of the one call that a task makes; the library hands its context on to the request."""

_BEFORE_SENDING = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)


class Answers(httpx2.AsyncBaseTransport):
    """Sends requests; a POST that fails is answered by a JSON-RPC error that says how."""

    def __init__(self, limits: ToolLimits) -> None:
        self._inner = httpx2.AsyncHTTPTransport()
        self._limits = limits

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send it."""
        request.headers.update({**headers.get(), "accept-encoding": PLAIN})
        if request.method != "POST":
            return self._bounded(await self._inner.handle_async_request(request))
        try:
            response = await self._inner.handle_async_request(request)
        except _BEFORE_SENDING as error:
            return _answer(NOT_SENT, f"it cannot be reached ({type(error).__name__})")
        except httpx2.TransportError as error:
            return _answer(REPLY_LOST, f"no reply came ({type(error).__name__})")
        return await self._judged(request, self._bounded(response))

    async def _judged(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        status = response.status_code
        if response.headers.get("content-encoding", PLAIN) != PLAIN:  # what is in it has no limit
            await response.aclose()
            return _answer(REPLY_LOST, "it answered in an encoding that it was not asked for")
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if status < 400:
            known = kind in ("application/json", "text/event-stream")
            if known or response.next_request is not None or 300 <= status < 400:
                return response
            if status == 202 and "id" not in orjson.loads(request.content):  # a notification's
                return response
            await response.aclose()
            return _answer(REPLY_LOST, f"it answered {status} and nothing that can be read")
        try:
            body = await response.aread()
            if isinstance(jsonrpc_message_adapter.validate_json(body, by_name=False), JSONRPCError):
                headers = {"content-type": "application/json"}
                return httpx2.Response(status, headers=headers, content=body)
        except (httpx2.StreamError, ValidationError):
            pass
        finally:
            await response.aclose()
        if status == 404 and "mcp-session-id" in request.headers:
            return _answer(SESSION_GONE, "it no longer knows the session")
        if status == 429:
            return _answer(NOT_SENT, "it takes no more calls for now (429)")
        if status < 500:
            return _answer(REFUSED, f"it refused the call ({status})")
        return _answer(REPLY_LOST, f"it failed ({status})")

    def _bounded(self, response: httpx2.Response) -> httpx2.Response:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        is_plain = response.headers.get("content-encoding", PLAIN) == PLAIN
        response.stream = _Bounded(response.stream, self._limits.max_message if is_plain else 0)
        return response

    async def aclose(self) -> None:
        """Close its connections."""
        await self._inner.aclose()


class _Bounded(httpx2.AsyncByteStream):
    """A body of limited size, whose failures are all of the kind that the library answers for."""

    def __init__(self, inner: httpx2.AsyncByteStream, most: int) -> None:
        self._inner = inner
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._most
        try:
            async for piece in self._inner:
                left -= len(piece)
                if left < 0:
                    raise httpx2.StreamError("too long (`max_tool_message`)")
                yield piece
        except httpx2.TransportError as error:
            raise httpx2.StreamError(f"broken off ({type(error).__name__})") from error

    async def aclose(self) -> None:
        await self._inner.aclose()


def client(server: McpServer, limits: ToolLimits) -> httpx2.AsyncClient:
    """The HTTP client for one server, with its headers."""
    return httpx2.AsyncClient(
        transport=Answers(limits),
        headers={name: value.get_secret_value() for name, value in server.headers.items()},
        timeout=httpx2.Timeout(limits.start_timeout, read=limits.idle_timeout),
    )


def _answer(code: int, message: str) -> httpx2.Response:
    said = {"code": code, "message": message, "data": OURS}
    error = {"jsonrpc": "2.0", "id": None, "error": said}
    # With such a status the library takes an error without an id for the request's.
    return httpx2.Response(500, json=error)
