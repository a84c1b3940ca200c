"""An MCP server as a program: its process, and messages as lines over its standard streams.

The library's own transport gathers a line however long it becomes, waits for a server that does
not read, and leaves what the server has started to itself when the service is killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType

import anyio
import structlog
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

from turnback.settings import McpServer
from turnback.tools import keeper
from turnback.tools.limits import ToolLimits

KEEPER = Path(keeper.__file__)
INHERITED = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TMPDIR",
    "TZ",
    "USER",
)
"""What a server gets of our environment: what programs need, and no secret of ours or a model's."""
PIECE = 65_536
JUNK = 10_000
"""Bytes that a line which is no message counts for at least: to look at one costs as much."""

log = structlog.get_logger()


class Program:
    """A running server's two streams of messages, with the limits on what it says.

    `failed` has the reason as soon as it can no longer be used; `ended` is set then.
    """

    def __init__(self, name: str, limits: ToolLimits) -> None:
        self.name = name
        self.ended = asyncio.Event()
        self.failed = ""
        self._limits = limits
        self._said = 0
        self._junk = 0
        self._into: MemoryObjectSendStream[SessionMessage | Exception]
        self.messages: MemoryObjectReceiveStream[SessionMessage | Exception]
        self._into, self.messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)

    def fail(self, reason: str) -> None:
        """It can no longer be used, for this reason; the first one holds."""
        if not self.ended.is_set():
            self.failed = reason
            self.ended.set()

    def heard(self) -> None:
        """What it says is counted anew: a call begins or has its reply."""
        self._said = 0

    async def read(self, stdout: asyncio.StreamReader) -> None:
        """Pass its messages on, until it closes its output or says too much."""
        buffer = bytearray()
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # nobody reads them
            while (piece := await stdout.read(PIECE)) and not self.ended.is_set():
                self._count(len(piece))
                *lines, rest = piece.split(b"\n")
                for line in lines:
                    await self._pass_on(bytes(buffer + line))
                    buffer.clear()
                buffer += rest
                if len(buffer) > self._limits.max_message:
                    self.fail("a message of it is too long (`max_tool_message`)")
                    return

    def _count(self, said: int) -> None:
        self._said += said
        if self._said > self._limits.max_chatter:
            self.fail("it says too much (`max_tool_chatter`)")
            raise anyio.ClosedResourceError

    async def close(self) -> None:
        """No message comes any more: whoever waits for one is told."""
        await self._into.aclose()

    async def _pass_on(self, line: bytes) -> None:
        if len(line) > self._limits.max_message:
            self.fail("a message of it is too long (`max_tool_message`)")
            raise anyio.ClosedResourceError
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            if line.strip():
                self._junk += 1
                if self._junk == 1:
                    log.warning("tool server says what is no message", connection=self.name)
            self._count(JUNK)
            if (told := _unreadable(line)) is not None:
                await self._into.send(SessionMessage(told))
            return
        await self._into.send(SessionMessage(message))

    async def listen(self, stderr: asyncio.StreamReader) -> None:
        """Take what it writes to its standard error; only how much is told."""
        written = 0
        while piece := await stderr.read(PIECE):
            if not written:
                log.info("tool server writes to its standard error", connection=self.name)
            written += len(piece)
        if written:
            log.debug("tool server wrote", connection=self.name, bytes=written)


def _unreadable(line: bytes) -> JSONRPCError | None:
    """What a reply comes to that holds what cannot be kept, such as half of a character.

    Whoever waits for it is told now, and not when the time is over.
    """
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not message.keys() & {"result", "error"}:
        return None
    if not isinstance(id_ := message.get("id"), int | str):
        return None
    error = ErrorData(code=PARSE_ERROR, message="its reply cannot be read")
    return JSONRPCError(jsonrpc="2.0", id=id_, error=error)


class Input:
    """The stream of messages to it. Nothing here waits for a server that does not read."""

    def __init__(self, program: Program, stdin: asyncio.StreamWriter, most: int) -> None:
        self._program = program
        self._stdin = stdin
        self._most = most

    async def send(self, item: SessionMessage) -> None:
        """Write a message, or raise `anyio.ClosedResourceError` where it can no longer be."""
        waiting = self._stdin.transport.get_write_buffer_size()
        if waiting > self._most:
            self._program.fail("it does not read what it is sent")
        if self._program.ended.is_set() or self._stdin.is_closing():
            raise anyio.ClosedResourceError
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        self._stdin.write(line.encode() + b"\n")

    async def aclose(self) -> None:
        """Tell it that nothing more comes, upon which a server ends."""
        self._stdin.close()

    async def __aenter__(self) -> Input:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


@asynccontextmanager
async def program(
    name: str, server: McpServer, limits: ToolLimits
) -> AsyncIterator[tuple[Program, Input]]:
    """The server as a process, until left; then it is told to end, and killed if it does not.

    Raises `OSError` where no process can be started.
    """
    assert server.command is not None
    theirs, ours = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(KEEPER), str(theirs)),
            *(server.command, *server.args),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment(os.environ, server),
            cwd=server.cwd,
            pass_fds=(theirs,),
            start_new_session=True,  # an interrupt at the terminal is ours to act on, in order
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    running = Program(name, limits)

    async def wait() -> None:
        code = await process.wait()
        if code == keeper.NOT_STARTED:
            running.fail("its `command` cannot be started")
        else:
            running.fail(f"it ended with the code {code}")

    async def read(stdout: asyncio.StreamReader) -> None:
        await running.read(stdout)
        if not running.ended.is_set():  # it has closed its output: the code says more, if it ends
            await asyncio.wait([waiting], timeout=limits.end_timeout)
            running.fail("it closed its standard output")
        await running.close()

    waiting = asyncio.create_task(wait())
    tasks = [
        waiting,
        asyncio.create_task(read(process.stdout)),
        asyncio.create_task(running.listen(process.stderr)),
    ]
    try:
        yield running, Input(running, process.stdin, limits.max_message)
    finally:
        running.fail("it is no longer needed")
        process.stdin.close()
        running.messages.close()
        try:
            await asyncio.wait([waiting], timeout=limits.end_timeout)
        finally:
            os.close(ours)
            await asyncio.wait(tasks, timeout=limits.end_timeout)
            if process.returncode is None:
                process.kill()
            for task in tasks:
                task.cancel()
            process._transport.close()  # type: ignore[attr-defined] # pipes that a stray holds open


def is_there(server: McpServer) -> bool:
    """Whether its `command` is a program that can be started."""
    assert server.command is not None
    path = environment(os.environ, server).get("PATH", os.defpath)
    command = Path(server.cwd or ".", server.command) if "/" in server.command else server.command
    return shutil.which(command, path=path) is not None


def environment(of_ours: Mapping[str, str], server: McpServer) -> dict[str, str]:
    """The variables that a server gets, of our own and of its settings."""
    kept = {name: of_ours[name] for name in INHERITED if name in of_ours}
    return kept | {name: value.get_secret_value() for name, value in server.env.items()}
