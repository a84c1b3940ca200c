"""Who may connect at all: `Host` and `Origin`, checked before anything else (protocol.md 4).

Without keys there is one local principal, so whatever reaches the loopback address counts as that
person. A web page of another origin must not: neither by a cross-site request or socket (`Origin`)
nor under a name of its own that resolves here (`Host`).
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from turnback.api.problems import problem
from turnback.core.errors import HostRefused, OriginRefused, TurnbackError

NOT_OF_A_HOST = frozenset("@/?#")
"""What an address may hold and a `Host` header may not."""


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's loopback."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class Guard:
    """ASGI middleware that refuses foreign hosts and origins, HTTP and WebSocket alike."""

    def __init__(self, app: ASGIApp, *, allowed_origins: tuple[str, ...]) -> None:
        self._app = app
        self._allowed = frozenset(origin.rstrip("/").lower() for origin in allowed_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            refusal = self._refusal(scope)
            if refusal is not None:
                await _refuse(scope, send, refusal)
                return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> TurnbackError | None:
        hosts = _values(scope, b"host")
        origins = _values(scope, b"origin")
        plain = len(hosts) == 1 and not NOT_OF_A_HOST & set(hosts[0])
        try:
            host = urlsplit(f"//{hosts[0]}").hostname if plain else None
        except ValueError:
            host = None
        if host is None or not is_loopback(host):
            return HostRefused("The `Host` header is not an address of this server")
        for origin in origins:
            if origin.lower() in self._allowed:
                continue
            if origin.lower() not in (f"http://{hosts[0]}".lower(), f"https://{hosts[0]}".lower()):
                return OriginRefused(
                    "A page of another origin may not use this server; an administrator can allow "
                    "it in `TURNBACK_ALLOWED_ORIGINS`"
                )
        return None


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


async def _refuse(scope: Scope, send: Send, error: TurnbackError) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 4403, "reason": error.code})
        return
    body = orjson.dumps(problem(error))
    headers = [(b"content-type", b"application/problem+json")]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
