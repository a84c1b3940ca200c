"""The service as a process: its port, its database, its signals, and the order of their end.

A signal drains: no new runs, sockets closed with 1012, the web server ended, then the embedded
PostgreSQL. A second one does not wait for what is still under way.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import math
import resource
import socket
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import structlog
import uvicorn
import uvloop

from turnback import __version__, logs, origin_file, token_file
from turnback.api import protocol
from turnback.api.guard import is_loopback
from turnback.api.person import code_of, new_token
from turnback.app import create_app
from turnback.core.errors import (
    AddressRefused,
    EmbeddedUnavailable,
    PortBusy,
    TokenInReach,
    TurnbackError,
)
from turnback.current import database
from turnback.settings import OFFLINE
from turnback.store.embedded import Embedded
from turnback.store.migrate import has_keys
from turnback.tools.overlays import reaches
from turnback.tools.servers import configured

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from fastapi import FastAPI

    from turnback.settings import Settings
    from turnback.signals import Signals
    from turnback.store.embedded import Embedded

DESCRIPTORS = 65_536  # open files, of which each socket is one
GC_THRESHOLD = (10_000, 100, 20)
"""Each young collection is short, one to two ms, and older ones, which walk all that sockets and
sessions have made since the start, are rare: what counting references does not free is little."""
DRAIN_MARGIN = 10.0  # seconds beyond `drain_timeout`, for what was interrupted to be saved

log = structlog.get_logger()


def serve(settings: Settings, *, signals: Signals, ready: Callable[[str], None]) -> None:
    """Serve until a signal; `ready` is called once with the address, when it takes connections.

    As long as there are no API keys, the address is one by which a person comes. Raises
    `TokenInReach`, `SettingsInvalid`, `AddressRefused`, `PortBusy`, `ModelNotConfigured`,
    `EmbeddedUnavailable`, `DatabaseUnavailable`, and `SchemaMismatch` for a stale database of the
    settings.
    """
    allow_descriptors()
    with bind(settings.host, settings.port) as listener:
        if settings.model != OFFLINE:
            from turnback.agent.models import resolve

            resolve(settings)
        with database(settings) as (url, embedded):
            check_address(settings.host, url)
            with _token(settings, url) as token:
                app = create_app(settings, url, token=token)
                serving = _serve(
                    app,
                    listener,
                    settings,
                    token=token,
                    embedded=embedded,
                    signals=signals,
                    ready=ready,
                )
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    runner.run(serving)
    log.info("ended")


@contextmanager
def _token(settings: Settings, url: str) -> Iterator[str | None]:
    """The token of this boot, in its file; None where callers have keys."""
    if has_keys(url):
        yield None
        return
    refuse_token_in_reach(settings)
    with token_file.held(settings.token_file, new_token) as token:
        yield token


def refuse_token_in_reach(settings: Settings) -> None:
    """Raise `TokenInReach` where a tool server works in a folder that holds the token."""
    for name, server in configured(settings).items():
        if (path := reaches(server, settings.token_file)) is not None:
            raise TokenInReach(
                f"The tool server `{name}` is configured with `{path}`, in which it would find the"
                f" token by which people decide, `{settings.token_file}`: keep the data directory"
                " elsewhere (`--data-dir`), or make an API key (`turnback keys create`)"
            )


def allow_descriptors() -> None:
    """Let this process open as many files as the system lets it: the usual limit is for shells."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if most == resource.RLIM_INFINITY else min(DESCRIPTORS, most)
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def bind(host: str, port: int) -> socket.socket:
    """A TCP socket on this address, not listening yet; port 0 takes any free one.

    Raises `AddressRefused` and `PortBusy`.
    """
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise AddressRefused(f"`{host}` is no address of this machine: {error.strerror}") from error
    family, _, _, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise _refused(error, host, port) from error
    return listener


def origin_at(host: str, port: int) -> str:
    """Where this machine finds what listens on `host`: on every address, at the loopback one."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host.strip("[]"), host.strip("[]"))
    return f"http://{f'[{name}]' if ':' in name else name}:{port}"


def address_at(origin: str, token: str | None) -> str:
    """The address to open at `origin`; with a token, one that a person comes by, good once."""
    port = urlsplit(origin).port or 0
    return f"{origin}/" if token is None else f"{origin}/#{code_of(token, port=port)}"


def check_address(host: str, url: str) -> None:
    """Raise `AddressRefused` where others can reach `host` and nobody would have to show a key.

    `url` is the database's, which has to be current.
    """
    if not is_loopback(host) and not has_keys(url):
        raise no_keys(host)


def no_keys(host: str) -> AddressRefused:
    """Why `host` cannot be served."""
    return AddressRefused(
        f"`{host}` is not a loopback address, and there is no API key yet: whoever reached Turnback"
        " might do everything in it. Make one by `turnback keys create`, or leave `--host` at"
        " `127.0.0.1`"
    )


class _Server(uvicorn.Server):
    """uvicorn, told apart from its signals: its own handlers raise SIGTERM again once it has
    drained, and the process would be gone before the embedded PostgreSQL is stopped."""

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        token: str | None,
        origin_file: Path,
        ready: Callable[[str], None],
    ) -> None:
        super().__init__(config)
        self._origin_file = origin_file
        self._token = token
        self._ready = ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        assert sockets is not None
        host, port = sockets[0].getsockname()[:2]
        try:
            await super().startup(sockets)
        except OSError as error:
            raise _refused(error, host, port) from error
        # What is in memory by now stays there; a collection that walks it costs a read 30 ms.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLD)
        gc.enable()
        origin = origin_at(host, port)
        log.info("serving", address=f"{origin}/", version=__version__)
        if self._token is not None:
            origin_file.note(self._origin_file, origin)
        self._ready(address_at(origin, self._token))


async def _serve(
    app: FastAPI,
    listener: socket.socket,
    settings: Settings,
    *,
    token: str | None,
    embedded: Embedded | None,
    signals: Signals,
    ready: Callable[[str], None],
) -> None:
    config = uvicorn.Config(
        app,
        **protocol.options(settings),
        lifespan="off",  # entered here, so that its errors reach the caller as they are
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=math.ceil(settings.drain_timeout),
    )
    server = _Server(config, token=token, origin_file=settings.origin_file, ready=ready)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(logs.on_loop_error)
    asked, hurried = asyncio.Event(), asyncio.Event()

    def on_signal(count: int) -> None:
        loop.call_soon_threadsafe((asked if count == 1 else hurried).set)

    signals.tell(on_signal)
    try:
        async with app.router.lifespan_context(app), _keeping(embedded, settings.poll_interval):
            serving = asyncio.create_task(server.serve([listener]))
            await _first(serving, asked)
            if not serving.done():
                log.info("going down")
                await _drain(app, settings, hurried)
                server.should_exit = True
                server.force_exit = hurried.is_set()
            await serving
    finally:
        signals.tell(lambda count: None)


async def _drain(app: FastAPI, settings: Settings, hurried: asyncio.Event) -> None:
    draining = asyncio.create_task(app.state.drain())
    await _first(draining, hurried, seconds=settings.drain_timeout + DRAIN_MARGIN)
    draining.cancel()
    try:
        await draining
    except (asyncio.CancelledError, TurnbackError) as error:
        log.warning("not everything was drained", reason=getattr(error, "code", "out of time"))


async def _first(
    task: asyncio.Task[None], event: asyncio.Event, *, seconds: float | None = None
) -> None:
    """Wait until `task` has ended or `event` is set; `seconds` at most."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait({task, waiting}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


@asynccontextmanager
async def _keeping(embedded: Embedded | None, interval: float) -> AsyncIterator[None]:
    """Within it, an embedded PostgreSQL that dies is started again."""

    async def keep(server: Embedded) -> None:
        while True:
            await asyncio.sleep(interval)
            try:
                if await asyncio.to_thread(server.revive):
                    log.warning("the embedded PostgreSQL had died and was started again")
            except EmbeddedUnavailable as error:
                log.error("the embedded PostgreSQL has died", reason=error.message)

    task = asyncio.create_task(keep(embedded)) if embedded is not None else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()


def _refused(error: OSError, host: str, port: int) -> PortBusy | AddressRefused:
    if error.errno == errno.EADDRINUSE:
        return PortBusy(
            f"Port {port} of `{host}` is taken: stop what uses it, or choose another by `--port`"
            " (`0` takes any free one)"
        )
    return AddressRefused(f"Cannot listen on port {port} of `{host}`: {error.strerror or error}")
