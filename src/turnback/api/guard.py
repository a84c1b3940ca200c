"""Who may connect at all: `Host` and `Origin`, checked before anything else (protocol.md 4).

Without keys there is one local principal, so whatever reaches the loopback address counts as that
person; with keys, a browser brings its cookie along. A web page of another origin must profit by
neither: not by a cross-site request or socket (`Origin`), nor under a name of its own that resolves
here (`Host`).
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from turnback.api import problems
from turnback.core.errors import HostRefused, OriginRefused, TurnbackError

NOT_OF_A_HOST = frozenset("@/?#")
"""What an address may hold and a `Host` header may not."""


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's loopback."""
    name = _name(host)
    address = _address(name)
    return name == "localhost" if address is None else address.is_loopback


def address_of(scope: Scope) -> str:
    """The address of ours at which a request or socket has come in; empty where it has none."""
    server = scope.get("server")
    return "" if server is None else str(server[0])


def port_of(scope: Scope) -> int:
    """The port of ours at which it has come in; 0 where it has none."""
    server = scope.get("server")
    return 0 if server is None or server[1] is None else int(server[1])


class Guard:
    """ASGI middleware that refuses foreign hosts and origins, HTTP and WebSocket alike."""

    def __init__(
        self, app: ASGIApp, *, allowed_hosts: tuple[str, ...], allowed_origins: tuple[str, ...]
    ) -> None:
        self._app = app
        self._hosts = frozenset(map(_name, allowed_hosts))
        self._origins = frozenset(origin.rstrip("/").lower() for origin in allowed_origins)

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
        if host is None or not self._is_ours(host, scope):
            return HostRefused(
                "The `Host` header is not an address of this server; an administrator can allow a "
                "name of it in `TURNBACK_ALLOWED_HOSTS`"
            )
        for origin in origins:
            if origin.lower() in self._origins:
                continue
            if origin.lower() not in (f"http://{hosts[0]}".lower(), f"https://{hosts[0]}".lower()):
                return OriginRefused(
                    "A page of another origin may not use this server; an administrator can allow "
                    "it in `TURNBACK_ALLOWED_ORIGINS`"
                )
        return None

    def _is_ours(self, host: str, scope: Scope) -> bool:
        address = _address(_name(host))
        if address is not None and address == _address(_name(address_of(scope))):
            return True
        return is_loopback(host) or _name(host) in self._hosts


def _name(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address, in the one form in which it can be compared; None where it is a name."""
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


async def _refuse(scope: Scope, send: Send, error: TurnbackError) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 4403, "reason": error.code})
        return
    await problems.send(scope, send, error)
