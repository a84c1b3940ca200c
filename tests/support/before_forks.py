"""The server of before there were forks, as recorded, and ours behind what it did not know.

`tests/data/before_forks.json` is what the last such commit said when it was run: its capabilities
and routes, a conversation in both dialects, and what a process of it that went on serving while the
database was migrated said of a fork (decision 45).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from starlette.responses import JSONResponse
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "before_forks.json").read_text()
)

ROUTES = [(*route.split(" "), compile_path(route.split(" ")[1])[0]) for route in RECORDED["routes"]]
"""Method, path and pattern of each."""


class BeforeForks:
    """ASGI: our server, knowing what that one knew. Of a fork it says what that one said."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] == "websocket" and await self._is_fork(path):
            await receive()
            await send({"type": "websocket.accept"})
            code = RECORDED["of_a_fork"]["socket"]["close"]
            await send({"type": "websocket.close", "code": code, "reason": "internal"})
            return
        if scope["type"] == "http":
            answer = await self._answer(scope["method"], path)
            if answer is not None:
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _answer(self, method: str, path: str) -> JSONResponse | None:
        """What it answers otherwise than the server of today; None: nothing."""
        if path == "/capabilities":
            return JSONResponse(RECORDED["capabilities"])
        route = next((r for m, r, pattern in ROUTES if m == method and pattern.match(path)), None)
        if route is None:
            [*_, refused] = RECORDED["refused"].values()
            detail = f"There is nothing at `{path}`"
            return JSONResponse(refused["body"] | {"detail": detail}, refused["status"])
        said = RECORDED["of_a_fork"].get(f"{method} {route}")
        if said is not None and said["status"] == 500 and await self._is_fork(path):
            return JSONResponse({"code": said["code"]}, said["status"])
        return None

    async def _is_fork(self, path: str) -> bool:
        parts = path.split("/")
        if len(parts) < 3 or parts[1] != "sessions":
            return False
        app: Any = self._app
        async with app.state.sessions.dao._db.connection() as connection:
            found: bool = await connection.fetchval(
                "select exists (select from session_lineage where session_id::text = $1)", parts[2]
            )
        return found
