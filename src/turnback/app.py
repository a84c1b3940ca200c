"""The application: settings and a database in, an ASGI app out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, WebSocket
from fastapi.middleware.cors import CORSMiddleware

from turnback import __version__
from turnback.api import door, openapi, page, problems, rest, socket
from turnback.api.auth import Authentication, Callers
from turnback.api.guard import Guard
from turnback.api.head import Head
from turnback.api.limits import Places
from turnback.api.person import Person, new_token
from turnback.api.requests import Requests
from turnback.api.rest import demo
from turnback.api.rest.reading import language
from turnback.api.rest.records import Records
from turnback.api.shown_plans import with_plan
from turnback.sessions.registry import Sessions
from turnback.settings import Settings
from turnback.store.dao import Dao
from turnback.store.database import Database
from turnback.store.ids import new_id
from turnback.telemetry import metrics, tracing
from turnback.tools import catalog
from turnback.tools.servers import has_demo


@asynccontextmanager
async def opened(settings: Settings, database_url: str) -> AsyncIterator[Dao]:
    """The store of one process, over the migrated database at `database_url`."""
    database = await Database.open(
        database_url,
        size=settings.db_pool_size,
        connect_timeout=settings.db_connect_timeout,
        statement_timeout=settings.db_statement_timeout,
    )
    try:
        yield Dao(
            database,
            node_id=new_id(),
            max_redo_depth=settings.max_redo_depth,
            directory_cache=settings.directory_cache,
            attachments=settings.attachments_folder,
            secret_key=None
            if settings.secret_key is None
            else settings.secret_key.get_secret_value(),
        )
    finally:
        await database.close()


def create_app(settings: Settings, database_url: str, *, token: str | None = None) -> FastAPI:
    """The app over the migrated database at `database_url`.

    `token` is what shows that a person asks, as long as there are no keys; without one, it is made.
    Within its lifespan `app.state.sessions` holds the live sessions, and `await app.state.drain()`
    ends its runs and closes its sockets with 1012.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(metrics.watch_loop())
        try:
            async with (
                opened(settings, database_url) as dao,
                tracing.exporting(dao.node_id),
                catalog.opened(settings, dao.pins) as tools,
            ):
                sessions = Sessions(dao, settings, tools)
                await sessions.start()
                app.state.sessions = sessions
                app.state.records = Records(dao.transcripts, max_bytes=settings.transcript_cache)
                app.state.callers = Callers(sessions, Person(token or new_token()))
                app.state.sockets = Places.of_sockets(settings.ws_sockets_per_principal)
                app.state.waits = Places.of_waits(settings.waits_per_principal)
                app.state.drain = sessions.drain
                try:
                    yield
                finally:
                    await sessions.close()
        finally:
            watching.cancel()

    app = FastAPI(
        title="Turnback",
        version=__version__,
        lifespan=lifespan,
        # The framework's own pages load scripts from elsewhere, onto this origin.
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(Authentication)
    origins = [origin.rstrip("/").lower() for origin in settings.allowed_origins]
    if origins:
        # What `Guard` lets through, a browser gives to a page of another origin only if told to.
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["ETag", "Location", "Retry-After"],
        )
    app.add_middleware(
        Guard, allowed_hosts=settings.allowed_hosts, allowed_origins=settings.allowed_origins
    )
    app.add_middleware(Head)
    app.add_middleware(Requests)
    problems.install(app, told=lambda request, error: with_plan(error, language(request)))
    app.include_router(rest.router)
    if has_demo(settings):
        app.include_router(demo.router)
    app.include_router(door.router)
    page.install(app)

    @app.websocket("/sessions/{session_id}/ws")
    async def ws(websocket: WebSocket, session_id: str) -> None:
        await socket.serve(websocket, session_id)

    openapi.install(app, settings)
    return app
