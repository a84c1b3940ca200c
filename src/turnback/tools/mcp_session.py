"""One session with an MCP server: the handshake, its tools, and calls, each answered or typed.

Apart from `mcp.py`, which imports this when the first server starts: the library takes a second to
load.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import mcp_types as types
import orjson
import structlog
from mcp.client.client import Client
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter, ValidationError

from turnback import __version__
from turnback.core.contracts.model import Key
from turnback.core.effects import Json
from turnback.core.errors import Lost, NotSent, ToolServerFailed
from turnback.settings import McpServer
from turnback.tools import mcp_http
from turnback.tools.connection import Listed, Reply
from turnback.tools.limits import ToolLimits
from turnback.tools.mcp_stdio import Program, program

US = types.Implementation(name="turnback", version=__version__)
MOST_PAGES = 1_000
LONGEST_NAME = 128
"""Characters of a tool's name, as MCP has it. It is kept, and a person reads it."""

_Result: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)

log = structlog.get_logger()


class Ending:
    """Whether a session can still be used, and if not, why: what a `Program` says of itself."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.failed = ""

    def fail(self, reason: str) -> None:
        """It can no longer be used, for this reason; the first one holds."""
        if not self.ended.is_set():
            self.failed = reason
            self.ended.set()

    def heard(self) -> None:
        """A call begins or has its reply."""


class Session:
    """A session that has had its handshake. `life` says whether it can be used."""

    def __init__(
        self, name: str, session: ClientSession, life: Program | Ending, limits: ToolLimits
    ) -> None:
        self.name = name
        self.life = life
        self._session = session
        self._limits = limits

    async def tools(self) -> list[Listed]:
        """All of the server's tools, within `start_timeout`. Raises `ToolServerFailed`."""
        try:
            async with asyncio.timeout(self._limits.start_timeout):
                return await self._tools()
        except TimeoutError:
            reason = "it does not name its tools in time (`tool_start_timeout`)"
        except MCPError as error:
            reason = self.life.failed or f"it does not name its tools (error {error.code})"
        except ValidationError:
            reason = "it does not name its tools as MCP has it"
        raise failed(self.name, reason)

    async def _tools(self) -> list[Listed]:
        found: dict[str, Listed] = {}
        cursor = None
        for _ in range(MOST_PAGES):
            self.life.heard()
            page = await self._session.list_tools(
                params=types.PaginatedRequestParams(cursor=cursor) if cursor else None
            )
            for tool in page.tools:
                if is_name(tool.name):
                    found[tool.name] = _listed(tool)
                else:
                    log.warning("tool passed over for its name", connection=self.name)
            if len(found) > self._limits.max_tools:
                raise failed(self.name, "it has too many tools (`max_server_tools`)")
            if not page.next_cursor or page.next_cursor == cursor:
                return list(found.values())
            cursor = page.next_cursor
        raise failed(self.name, "the list of its tools has too many pages")

    async def call(
        self, tool: str, args: Mapping[str, Json], *, seconds: float, key: str | None, where: Key
    ) -> Reply:
        """Call a tool once. Raises `NotSent` and `Lost`, as `Connection.call` says."""
        arguments, meta, headers = dict(args), {}, {}
        if key is not None:
            if where.arg is not None:
                arguments[where.arg] = key
            elif where.meta is not None:
                meta[where.meta] = key
            elif where.header is not None:
                headers[where.header] = key
        params = types.CallToolRequestParams.model_validate(
            {"name": tool, "arguments": arguments, "_meta": meta or None}
        )
        if self.life.ended.is_set():
            raise NotSent(said(self.name, self.life.failed), connection=self.name, reason="down")
        self.life.heard()
        token = mcp_http.headers.set(headers)
        try:
            async with asyncio.timeout(seconds):
                result = await self._session.send_request(
                    types.CallToolRequest(params=params), _Result
                )
        except TimeoutError:
            raise self._lost("no reply came in time", "timeout") from None
        except MCPError as error:
            return self._error(error)
        except ValidationError:
            raise self._lost("its reply is not as MCP has it", "bad_reply") from None
        except anyio.ClosedResourceError:
            raise self._lost(self.life.failed or "the connection is closed", "died") from None
        finally:
            mcp_http.headers.reset(token)
            self.life.heard()
        if isinstance(result, types.InputRequiredResult):
            return Reply(True, "The tool asks for input from a person, which it cannot have here.")
        return self._reply(result)

    def _error(self, error: MCPError) -> Reply:
        """The reply that a protocol error of the server is; for one of ours, what it stands for."""
        match error.code:
            case code if code in mcp_http.CODES and error.data != mcp_http.OURS:
                return Reply(True, error.message)
            case mcp_http.NOT_SENT:
                raise NotSent(
                    said(self.name, error.message), connection=self.name, reason="unreachable"
                )
            case mcp_http.SESSION_GONE:
                self.life.fail(error.message)
                raise NotSent(said(self.name, error.message), connection=self.name, reason="down")
            case mcp_http.REPLY_LOST:
                raise self._lost(error.message, "no_reply")
            case types.CONNECTION_CLOSED:
                raise self._lost(self.life.failed or "the connection was closed", "died")
            case types.REQUEST_TIMEOUT:
                raise self._lost("no reply came in time", "timeout")
            case types.PARSE_ERROR:
                raise self._lost("its reply cannot be read", "bad_reply")
            case _:
                return Reply(True, error.message)

    def _reply(self, result: types.CallToolResult) -> Reply:
        structured: Json = result.structured_content
        try:
            orjson.dumps(structured)
            json.dumps(structured, allow_nan=False)  # orjson writes null for what is no number
        except (orjson.JSONEncodeError, ValueError):
            raise self._lost("its reply holds what JSON cannot", "bad_reply") from None
        return Reply(result.is_error, "\n".join(map(_text, result.content)), structured)

    def _lost(self, why: str, reason: str) -> Lost:
        return Lost(
            f"A call to the tool server `{self.name}` was sent, and nobody knows whether it took"
            f" effect: {why}",
            connection=self.name,
            reason=reason,
        )


@asynccontextmanager
async def opened(
    name: str, server: McpServer, limits: ToolLimits, *, on_change: Callable[[], None]
) -> AsyncIterator[Session]:
    """A session with the server, until left. `on_change` is called when its tools have changed.

    Raises `ToolServerFailed`.
    """

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            on_change()

    if server.command is not None:
        try:
            async with program(name, server, limits) as (running, writes):
                life: Program | Ending = running
                client = Client(
                    _Streams(running.messages, writes),  # type: ignore[arg-type]
                    message_handler=on_message,
                    client_info=US,
                    cache=None,
                )
                async with _entered(name, client, life, limits) as session:
                    yield session
        except OSError as error:
            raise failed(name, f"it cannot be started ({error.strerror})") from error
        return
    assert server.url is not None
    life = Ending()
    async with mcp_http.client(server, limits) as http:
        transport = streamable_http_client(
            server.url, http_client=http, max_sse_event_size=limits.max_message
        )
        client = Client(transport, message_handler=on_message, client_info=US, cache=None)
        async with _entered(name, client, life, limits) as session:
            yield session


@asynccontextmanager
async def _entered(
    name: str, client: Client, life: Program | Ending, limits: ToolLimits
) -> AsyncIterator[Session]:
    """The client's session, with the handshake made within `start_timeout`."""
    starting = asyncio.timeout(limits.start_timeout)
    try:
        async with starting:
            await client.__aenter__()
    except TimeoutError:
        raise failed(
            name, life.failed or "it is not ready in time (`tool_start_timeout`)"
        ) from None
    except Exception as error:
        raise failed(name, life.failed or _why(error)) from error
    try:
        yield Session(name, client.session, life, limits)
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(limits.end_timeout):
                await client.__aexit__(None, None, None)


def _why(error: BaseException) -> str:
    """What kept a handshake from being made; the library's groups have one error each."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    match error:
        case MCPError(data=mcp_http.OURS):
            return error.message
        case MCPError():
            return f"it refuses the handshake (error {error.code})"
        case ValidationError() | RuntimeError():
            return "its handshake is not as MCP has it"
        case _:
            return f"the handshake failed ({type(error).__name__})"


class _Streams:
    """The two streams of a program as the library's client takes a transport."""

    def __init__(self, reads: object, writes: object) -> None:
        self._streams = (reads, writes)

    async def __aenter__(self) -> tuple[object, object]:
        return self._streams

    async def __aexit__(self, *_: object) -> None:
        """Nothing: the process is ended by who has started it."""


def is_name(name: str) -> bool:
    """Whether a tool may be called so: there is something to read, and nothing that hides."""
    return 0 < len(name) <= LONGEST_NAME and not name.isspace() and name.isprintable()


def failed(name: str, reason: str) -> ToolServerFailed:
    """A server that cannot be used, with the reason as a sentence."""
    return ToolServerFailed(said(name, reason), connection=name, reason=reason)


def said(name: str, reason: str) -> str:
    """The sentence of an error about a server."""
    return f"The tool server `{name}` cannot be used: {reason}"


def _listed(tool: types.Tool) -> Listed:
    hints = (
        tool.annotations.model_dump(mode="json", by_alias=True, exclude_none=True)
        if tool.annotations
        else {}
    )
    return Listed(
        tool.name, tool.description or "", tool.input_schema, hints, dict(tool.meta or {})
    )


def _text(block: Any) -> str:
    match block:
        case types.TextContent():
            return block.text.replace("\0", "\ufffd")
        case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
            return resource.text.replace("\0", "\ufffd")
        case types.ResourceLink():
            return f"[{block.name}: {block.uri}]"
        case types.ImageContent() | types.AudioContent():
            return f"[{block.mime_type}, {len(block.data) * 3 // 4} bytes, not shown]"
        case _:
            return "[a part that is not shown]"
