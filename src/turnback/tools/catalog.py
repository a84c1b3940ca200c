"""All tools from outside as one: connections, and the registry kept up with what they list."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol

import structlog

from turnback.core.errors import SettingsInvalid, ToolServerFailed, TurnbackError
from turnback.settings import McpServer, Settings
from turnback.tools import overlays, servers
from turnback.tools.checking import Examined, Finding, examine, examine_python
from turnback.tools.connection import Connection
from turnback.tools.decorator import PythonConnection, connections_of
from turnback.tools.limits import ToolLimits
from turnback.tools.overlays import Overlays, ServerContracts
from turnback.tools.registry import Pinned, Registry, Tool
from turnback.tools.shipped import shipped

log = structlog.get_logger()


class Pins(Protocol):
    """Where pins are kept."""

    async def all(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """The pins by connection and tool."""

    async def first(self, seen: Iterable[tuple[str, str, str]]) -> None:
        """Pin tools that have no pin yet as they are."""


class Catalog:
    """The connections by name, and the registry of their tools.

    `stated` are the pins that overlays state: for those tools no others count. `failing` has the
    connections that could not be listed, and why.
    """

    def __init__(
        self,
        registry: Registry,
        connections: Mapping[str, Connection],
        *,
        trusted: frozenset[str],
        pins: Pins,
        stated: Mapping[tuple[str, str], frozenset[str]] | None = None,
    ) -> None:
        self._stated = stated or {}
        self.registry = registry
        self.connections = connections
        self.failing: dict[str, ToolServerFailed] = {}
        self._trusted = trusted
        self._pins = pins
        self._listed: dict[str, int] = {}
        self._refreshing = asyncio.Lock()
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def refresh(self) -> None:
        """List anew what may have changed; costs nothing where nothing has.

        A connection that cannot be listed keeps the tools that it had: a call of one is then
        `NotSent`, which says more than that there is no such tool. Nobody waits a second time for
        one that failed: it is asked again meanwhile.
        """
        async with self._refreshing:
            stale = [n for n, c in self.connections.items() if self._listed.get(n) != c.generation]
            for name in stale:
                if name in self.failing and name not in self._asking:
                    self._asking[name] = asyncio.create_task(self._again(name))
            waited = [name for name in stale if name not in self._asking]
            await asyncio.gather(*(self._list(name, self.connections[name]) for name in waited))

    async def repin(self) -> None:
        """Take over what somebody has looked at since, here or by another process.

        Raises `DatabaseUnavailable`.
        """
        self.registry.repin(await _counting(self._pins, self._stated))

    async def _again(self, name: str) -> None:
        try:
            await self._list(name, self.connections[name])
        except TurnbackError as error:  # nobody waits for it; the next round asks again
            log.warning("tools could not be taken over", connection=name, reason=error.message)
        finally:
            del self._asking[name]

    def unused(self) -> list[str]:
        """What overlays are about that is not there, a sentence each."""
        said = [
            f"an overlay is about a server `{name}`, which is not configured"
            for name in sorted(self.registry.overlaid - self.connections.keys())
        ]
        for name in sorted(self.connections):
            for tool in self.registry.unlisted(name):
                said.append(f"the overlay of `{name}` is about `{tool}`, which it does not have")
        return said

    async def close(self) -> None:
        """Ask nobody any more."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _list(self, name: str, connection: Connection) -> None:
        generation = connection.generation
        try:
            listed = await connection.tools()
        except ToolServerFailed as error:
            self.failing[name] = error
            return
        own = connection.contracts if isinstance(connection, PythonConnection) else None
        tools = self.registry.put(name, listed, trusted=name in self._trusted, contracts=own)
        if new := [(name, tool.name, tool.pin) for tool in tools if tool.pinned is Pinned.NEW]:
            await self._pins.first(new)
            await self.repin()  # another process may have been first, and have seen another tool
            tools = tuple(tool for tool in self.registry.all() if tool.connection == name)
        for missing in self.registry.unlisted(name):
            log.warning("overlay of a tool that is not there", connection=name, tool=missing)
        for tool in tools:
            if tool.front is not None and tool.version is None:
                log.warning("tool without its contract", tool=tool.shown, reason=tool.why)
        self.failing.pop(name, None)
        self._listed[name] = generation

    def get(self, connection: str, name: str) -> tuple[Connection, Tool] | None:
        """A tool and its connection."""
        tool = self.registry.get(connection, name)
        return None if tool is None else (self.connections[connection], tool)


def configured_overlays(settings: Settings) -> Overlays:
    """The overlays that servers ask for, and those of the settings' folder, which come first.

    Raises `ContractRefused` for one that cannot be used, and for a folder that a configured tool
    server can write to; `SettingsInvalid`.
    """
    configured = servers.configured(settings)
    ours = shipped(configured)
    if settings.contracts_dir is None:
        return ours
    overlays.guard(settings.contracts_dir, configured)
    return {**ours, **overlays.load(settings.contracts_dir)}


def python_connections(settings: Settings) -> list[PythonConnection]:
    """The connections of the settings' modules; raises `ContractRefused`, `SettingsInvalid`."""
    modules = []
    for name in settings.tool_modules:
        try:
            modules.append(importlib.import_module(name))
        except ImportError as error:
            raise SettingsInvalid(
                f"`TURNBACK_TOOL_MODULES` names `{name}`, which cannot be imported: {error}"
            ) from None
    return connections_of(modules)


def declared(
    settings: Settings,
) -> tuple[Mapping[str, McpServer], Overlays, Mapping[str, PythonConnection]]:
    """The tool servers, the overlays and the connections in Python, before anything is started.

    Raises what a start refuses of them: `ContractRefused`, `SettingsInvalid`.
    """
    given = configured_overlays(settings)
    python = {connection.name: connection for connection in python_connections(settings)}
    configured = servers.configured(settings)
    for name in python.keys() & configured.keys():
        raise SettingsInvalid(f"`{name}` is a tool server and a connection in Python: rename one")
    return configured, given, python


async def examined(settings: Settings, only: str | None = None) -> AsyncIterator[Finding]:
    """Try out every contract of the settings, or those of one connection, in sandboxes.

    Raises `ContractRefused`, `SettingsInvalid`.
    """
    configured, given = servers.configured(settings), configured_overlays(settings)
    trusted = {name for name, server in configured.items() if server.trust_contracts}
    all_of_them = [
        Examined(
            name=name,
            server=given.get(name) or ServerContracts({}),
            limits=ToolLimits.of(settings),
            patience=settings.tool_timeout,
            trusted=name in trusted,
        )
        for name in sorted(given.keys() | trusted)
        if only in (None, name)
    ]
    python = [w for w in all_of_them if w.name not in configured and w.server.is_of_python]
    for what in all_of_them:
        if what not in python:
            async for finding in examine(what):
                yield finding
    async for finding in examine_python(python, lambda: python_connections(settings)):
        if only in (None, finding.connection):
            yield finding


@asynccontextmanager
async def opened(settings: Settings, pins: Pins) -> AsyncIterator[Catalog]:
    """The catalog of the settings, its servers running, until left; nothing is listed yet.

    Raises `ContractRefused`, `SettingsInvalid`, `DatabaseUnavailable`.
    """
    configured, given, python = declared(settings)
    stated = stated_pins(given)
    registry = Registry(
        overlays={name: server.contracts for name, server in given.items()},
        pins=await _counting(pins, stated),
        disabled=settings.disabled_server_tools,
    )
    for name in sorted(given.keys() - configured.keys() - python.keys()):
        log.warning("overlay of a server that is not configured", server=name)
    async with servers.running(settings) as running:
        made = Catalog(
            registry,
            {**running, **python},
            trusted=frozenset(n for n, server in configured.items() if server.trust_contracts),
            pins=pins,
            stated=stated,
        )
        try:
            yield made
        finally:
            await made.close()


async def _counting(
    pins: Pins, stated: Mapping[tuple[str, str], frozenset[str]]
) -> dict[tuple[str, str], frozenset[str]]:
    # The demo's contracts are ours, and change together with its tools.
    kept = {tool: seen for tool, seen in (await pins.all()).items() if tool[0] != servers.DEMO}
    return {**kept, **stated}


def stated_pins(given: Overlays) -> Mapping[tuple[str, str], frozenset[str]]:
    """The pins that overlays state; for those tools no others count."""
    return {
        (name, tool): pins for name, server in given.items() for tool, pins in server.pins.items()
    }
