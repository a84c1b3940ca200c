"""The built page at `/` and `/s/{id}`, under a strict policy: nothing comes from elsewhere."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI, Response
from starlette.responses import FileResponse, HTMLResponse
from starlette.staticfiles import StaticFiles

PAGE = Path(__file__).parent.parent / "panel"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; font-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
NOT_BUILT = """<!doctype html><meta charset="utf-8"><title>Turnback</title>
<h1>Turnback is running</h1><p>The page has not been built. Install Node.js with npm and start
Turnback by <code>make run</code> again, or use the REST routes: see
<a href="/openapi.json">/openapi.json</a>.</p>
"""


def install(app: FastAPI, *, directory: Path = PAGE) -> None:
    """Serve the built page from `directory`; where it is not built, say how to build it."""

    def index() -> Response:
        page = directory / "index.html"
        if not page.is_file():
            return HTMLResponse(NOT_BUILT, headers=HEADERS)
        return FileResponse(page, headers=HEADERS)

    app.add_api_route("/", index, methods=["GET"], include_in_schema=False)
    app.add_api_route("/s/{session_id}", index, methods=["GET"], include_in_schema=False)
    if (directory / "assets").is_dir():
        app.mount("/assets", StaticFiles(directory=directory / "assets"), name="assets")
