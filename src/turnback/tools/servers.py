"""The configured tool servers: which there are, and all of them kept running."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog
import yaml
from pydantic import TypeAdapter, ValidationError

from turnback.core.errors import SettingsInvalid
from turnback.settings import McpServer, ServerName, Settings
from turnback.tools.limits import ToolLimits
from turnback.tools.mcp import McpConnection

DEMO = "demo"
"""The connection of the demo world."""
PYTHON = "python"
"""The connection of tools that are Python functions."""

log = structlog.get_logger()

_SERVERS = TypeAdapter(dict[ServerName, McpServer])


def configured(settings: Settings) -> dict[str, McpServer]:
    """The MCP servers of the settings and of their file, and the demo world where it is on.

    Raises `SettingsInvalid`.
    """
    servers = dict(settings.mcp_servers)
    for name, server in _of_file(settings).items():
        if name in servers:
            raise SettingsInvalid(
                f"The tool server `{name}` is both in `TURNBACK_MCP_SERVERS` and in"
                " `TURNBACK_TOOLS_FILE`: remove one"
            )
        servers[name] = server
    for name in {DEMO, PYTHON} & servers.keys():
        raise SettingsInvalid(f"A tool server cannot be called `{name}`: give it another name")
    if has_demo(settings):
        servers[DEMO] = demo(settings)
    return servers


def has_demo(settings: Settings) -> bool:
    """Whether the demo world is there.

    Unset it is not where processes share a database: each would have a world of its own, and undo
    in one what was done in another.
    """
    if settings.demo is None:
        shared = settings.database_url is not None
        return not (shared or settings.mcp_servers or settings.tools_file is not None)
    return settings.demo


def demo_file(settings: Settings) -> Path:
    """Where the demo world is kept."""
    return settings.data_dir.absolute() / "demo.sqlite3"


def demo(settings: Settings) -> McpServer:
    """The demo world's server."""
    args = ("-I", "-m", "turnback.demo", str(demo_file(settings)))
    return McpServer(command=sys.executable, args=args, trust_contracts=True)


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Mapping[str, McpConnection]]:
    """Connections to the configured servers by name, until left; none is waited for.

    Raises `SettingsInvalid`.
    """
    if has_demo(settings):
        log.info("the demo world is there", switch_off="TURNBACK_DEMO=false")
    limits = ToolLimits.of(settings)
    found = {
        name: McpConnection(name, server, limits) for name, server in configured(settings).items()
    }
    for connection in found.values():
        connection.start()
    try:
        yield found
    finally:
        await asyncio.gather(*(connection.close() for connection in found.values()))


def _of_file(settings: Settings) -> dict[str, McpServer]:
    path = settings.tools_file
    if path is None:
        return {}
    try:
        with path.open("rb") as file:
            read: Any = yaml.safe_load(file)
    except OSError as error:
        raise _unusable(error.strerror or "it cannot be read") from error
    except yaml.YAMLError as error:
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        where = f" (line {line + 1})" if line is not None else ""
        raise _unusable(f"it is not YAML{where}") from None
    if not isinstance(read, dict) or set(read) != {"mcp_servers"}:
        raise _unusable("it must have one member, `mcp_servers`")
    try:
        return _SERVERS.validate_python(read["mcp_servers"])
    except ValidationError as error:
        wrong = [
            f"`{'.'.join(str(part) for part in found['loc'] if part != '[key]')}`:"
            f" {found['msg'].removeprefix('Value error, ')}"
            for found in error.errors(include_input=False, include_context=False)
        ]
        raise _unusable("; ".join(wrong)) from None


def _unusable(why: str) -> SettingsInvalid:
    return SettingsInvalid(f"`TURNBACK_TOOLS_FILE` cannot be used: {why}")
