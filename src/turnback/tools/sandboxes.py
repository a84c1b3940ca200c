"""Throw-away instances of tools, as an overlay's `sandbox` says: started, used once, gone."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from turnback.core.errors import ToolServerFailed
from turnback.core.values import shown
from turnback.settings import McpServer
from turnback.tools.limits import ToolLimits
from turnback.tools.mcp import McpConnection
from turnback.tools.overlays import Sandbox


@asynccontextmanager
async def laid_out(sandbox: Sandbox, *, patience: float) -> AsyncIterator[Path]:
    """A new folder with the sandbox's files, its setup done; gone when left.

    Each program of the setup may take `patience` seconds. Raises `ToolServerFailed`.
    """
    from turnback.tools.mcp_stdio import environment  # it takes long, and a server lays out none

    with tempfile.TemporaryDirectory(prefix="turnback-check-") as made:
        folder = _files(sandbox, made)
        given = McpServer(command="setup", env=placed(sandbox.env, folder))
        for words in sandbox.setup:
            kept = environment(os.environ, given)
            await _run(placed(list(words), folder), folder, kept, patience)
        yield folder


def _files(sandbox: Sandbox, made: str) -> Path:
    # Servers that keep to a folder go by its real path.
    folder = Path(made).resolve()
    for file, text in sandbox.files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


async def _run(words: list[str], folder: Path, env: Mapping[str, str], patience: float) -> None:
    said = f"`{shown(' '.join(words))}`"
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            cwd=folder,
            env=env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise ToolServerFailed(f"{said} cannot be run: {error.strerror}") from None
    try:
        async with asyncio.timeout(patience):
            _, errors = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise ToolServerFailed(f"{said} did not end within {patience:g} s") from None
    if process.returncode:
        why = shown(errors.decode(errors="replace"), limit=200)
        raise ToolServerFailed(f"{said} failed: {why}")


@asynccontextmanager
async def server(
    name: str, sandbox: Sandbox, folder: Path, limits: ToolLimits
) -> AsyncIterator[McpConnection]:
    """The sandbox's own instance of an MCP server."""
    given = McpServer.model_validate(
        {
            "command": placed(sandbox.command, folder),
            "args": placed(list(sandbox.args), folder),
            "env": placed(sandbox.env, folder),
            "cwd": folder,
        }
    )
    connection = McpConnection(name, given, limits)
    connection.start()
    try:
        yield connection
    finally:
        await connection.close()


@contextmanager
def variables(given: Mapping[str, str]) -> Iterator[None]:
    """These variables in the environment of this process, until left."""
    was = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in was.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def placed(value: Any, folder: Path) -> Any:
    """The value with `{folder}` and `{python}` in its texts replaced: the sandbox's, and ours."""
    if isinstance(value, str):
        return value.replace("{folder}", str(folder)).replace("{python}", sys.executable)
    if isinstance(value, list):
        return [placed(item, folder) for item in value]
    if isinstance(value, dict):
        return {name: placed(item, folder) for name, item in value.items()}
    return value
