"""The OpenAPI document of a server: what FastAPI makes of the routes, and what it cannot know.

That is: the frames that `/commands` takes, the models of bodies that are read by hand, the
limits that are this server's settings, and what a caller has to show.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI

from turnback.api.auth import COOKIE, is_open
from turnback.api.definitions import frames, moved
from turnback.settings import Settings

Json = dict[str, Any]

SECURITY: Json = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "tb_<prefix>_<secret>",
        "description": "An API key. As long as none was ever made, nothing is asked for.",
    },
    "cookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": COOKIE,
        "description": "Of who has signed in by `POST /sign-in`, for pages of this server.",
    },
}
"""The ways to say who calls; each alone will do."""

SCHEMAS = "#/components/schemas/"


def install(app: FastAPI, settings: Settings) -> None:
    """Complete the document that `app` serves as `/openapi.json`; it is made once."""
    made_of_routes = app.openapi

    def openapi() -> Json:
        if app.openapi_schema is None:
            app.openapi_schema = _completed(made_of_routes(), settings)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _completed(document: Json, settings: Settings) -> Json:
    definitions = dict(frames()["$defs"])
    for operation in _operations(document):
        for content in _contents(operation):
            definitions |= content["schema"].pop("$defs", {})
    document["components"]["schemas"] |= _named_by(document, definitions)
    _limit(document, settings)
    document["components"]["securitySchemes"] = SECURITY
    document["security"] = [{name: []} for name in SECURITY]
    for path, methods in document["paths"].items():
        if is_open(path):
            for operation in methods.values():
                operation["security"] = []
    completed: Json = moved(document, SCHEMAS)
    return completed


def _limit(schema: Any, settings: Settings) -> None:
    """Say of each number whose most is a setting how much that is here."""
    if isinstance(schema, list):
        for item in schema:
            _limit(item, settings)
    elif isinstance(schema, dict):
        if "x-setting" in schema:
            schema["maximum"] = getattr(settings, schema["x-setting"])
        for member in schema.values():
            _limit(member, settings)


def _operations(document: Json) -> Iterator[Json]:
    for methods in document["paths"].values():
        yield from methods.values()


def _contents(operation: Json) -> Iterator[Json]:
    for holder in (operation.get("requestBody", {}), *operation["responses"].values()):
        yield from (content for content in holder.get("content", {}).values())


def _named_by(document: Json, definitions: Json) -> Json:
    """Those of `definitions` that the document refers to, and that these refer to."""
    found: Json = {}
    waiting = [document]
    while waiting:
        for name in set(_references(waiting.pop())) - found.keys():
            found[name] = definitions[name]
            waiting.append(definitions[name])
    return dict(sorted(found.items()))


def _references(schema: Any) -> Iterator[str]:
    """The names under `#/$defs/` that a schema refers to."""
    if isinstance(schema, list):
        for item in schema:
            yield from _references(item)
    elif isinstance(schema, dict):
        for member in schema.values():
            yield from _references(member)
    elif isinstance(schema, str) and schema.startswith("#/$defs/"):
        yield schema.removeprefix("#/$defs/")
