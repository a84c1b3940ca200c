"""Fixtures for what goes over the wire: a real uvicorn on loopback, real sockets, real HTTP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest
import uvicorn
from scripted_provider import ScriptedProvider, scripted_provider
from starlette.types import ASGIApp
from wire import Client

from turnback.api import protocol
from turnback.api.person import new_token
from turnback.app import create_app
from turnback.core.principal import LOCAL
from turnback.serve import address_at
from turnback.sessions.runs import Run
from turnback.settings import Settings

QUICK: dict[str, Any] = {
    "offline_delay_ms": 0,
    "demo": False,
    "poll_interval": 0.2,
    "lease_heartbeat": 0.5,
    "lease_grace": 0.2,
    "lease_expiry": 3.0,
    "drain_timeout": 1.0,
    "ws_messages_per_minute": 1_000_000,
}


@dataclass
class Server:
    """A running server in this process. `app` is for looking, the rest goes over the wire."""

    url: str
    settings: Settings
    app: Any
    http: httpx.AsyncClient
    person: Person
    """As long as there are no keys, `http` and the clients of sockets come as a person."""

    async def session(self, **body: Any) -> str:
        """A new session's id."""
        answer = await self.http.post("/sessions", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[str, Client]]:
        """A new session's id, and a client of it that has had its snapshot."""
        session = await self.session()
        async with self.connect(session) as client:
            await client.snapshot()
            yield session, client

    async def run(self, session_id: str) -> Run:
        """The session's run, as this server carries it: `ended` is set when it no longer does."""
        run = (await self.app.state.sessions.get(LOCAL, session_id)).runs.run
        assert isinstance(run, Run)
        return run

    async def let_in(self, context: Any) -> None:
        """Make who uses this browser a person, as the printed address would."""
        if code := address_at(self.url, self.person.token).partition("#")[2]:
            answer = await context.request.post(f"{self.url}/person", data={"code": code})
            assert answer.ok, await answer.text()

    def connect(self, session_id: str, *, v1: bool = True, query: str = "", **more: Any) -> Client:
        """A client of a session's socket; enter it to connect."""
        url = f"{self.url.replace('http', 'ws')}/sessions/{session_id}/ws{query}"
        return Client(url, v1=v1, **{"additional_headers": self.person.headers()} | more)


@dataclass(frozen=True)
class Person(httpx.Auth):
    """How a script comes as a person: by the token, as long as nobody needs a key."""

    token: str
    local: Callable[[], bool] = lambda: True

    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"} if self.token and self.local() else {}

    def auth_flow(self, request: httpx.Request) -> Iterator[httpx.Request]:
        for name, value in self.headers().items():
            request.headers.setdefault(name, value)
        yield request


Wrap = Callable[[ASGIApp], ASGIApp]


@asynccontextmanager
async def serving(
    database_url: str, *, wrap: Wrap | None = None, **settings: Any
) -> AsyncIterator[Server]:
    """Serve over `database_url` until left, as `turnback serve` does, in this process.

    `wrap` puts something before the app.
    """
    with TemporaryDirectory() as folder:
        kept = {"attachments_dir": Path(folder)} | settings
        async with _serving(database_url, Settings(**(QUICK | kept)), wrap) as running:
            yield running


@asynccontextmanager
async def _serving(
    database_url: str, configured: Settings, wrap: Wrap | None
) -> AsyncIterator[Server]:
    token = new_token()
    app = create_app(configured, database_url, token=token)
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        wrap(app) if wrap else app,
        **protocol.options(configured),
        lifespan="on",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=3,
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    running = asyncio.create_task(server._serve([listening]))
    while not server.started:
        if running.done():
            await running
        await asyncio.sleep(0.005)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        person = Person(token, lambda: bool(app.state.sessions.local))
        async with httpx.AsyncClient(base_url=url, timeout=20, auth=person) as http:
            yield Server(url, configured, app, http, person)
    finally:
        server.should_exit = True
        await running
        listening.close()


@pytest.fixture
async def server(fresh_database: str) -> AsyncIterator[Server]:
    """A server with the offline model over an empty database."""
    async with serving(fresh_database) as running:
        yield running


@pytest.fixture(scope="session")
async def standing(standing_database: str) -> AsyncIterator[Server]:
    """One server for all tests that do not mind what others leave in it."""
    async with serving(standing_database) as running:
        yield running


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedProvider]:
    """A real HTTP server that speaks chat completions as a test's script says."""
    async with scripted_provider() as running:
        yield running


@pytest.fixture
async def scripted(
    fresh_database: str, provider: ScriptedProvider
) -> AsyncIterator[tuple[Server, ScriptedProvider]]:
    """A server whose model is the scripted provider."""
    async with serving(fresh_database, **provider.settings) as running:
        yield running, provider
