"""Who asks: from a request or a socket to its principal, in one place (protocol.md 4).

As long as no API key was ever made, whoever reaches a loopback address is `LOCAL`, whatever they
show; what they show says whether a person asks (`person.py`). From then on every route needs a
credential, but for those that are `is_open`. Another kind of credential, as OIDC's tokens, would be
one more case of `Callers.of_request`.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import sha256

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnback.api import problems
from turnback.api.guard import address_of, is_loopback
from turnback.api.limits import Tries
from turnback.api.person import Person
from turnback.core.errors import DatabaseUnavailable, TurnbackError, Unauthenticated
from turnback.core.principal import LOCAL, LOCAL_PERSON, Principal
from turnback.sessions.registry import Sessions

COOKIE = "turnback"
"""The cookie of who has signed in. A socket never takes it: a page's socket has a ticket."""

TICKET = "turnback.ticket."
"""How the subprotocol begins that is a ticket. It is offered to us, and never taken."""

PRINCIPAL = "turnback.principal"
"""Where an HTTP request's scope has its principal."""

OPEN = frozenset({"/", "/healthz", "/readyz", "/capabilities", "/sign-in"})
OPEN_BELOW = ("/s/", "/assets/")

ASKED_FOR = "Show an API key, as `Authorization: Bearer tb_…`, or sign in"
ASKED_FOR_BY_SOCKET = (
    "Show an API key, as `Authorization: Bearer tb_…`, or offer a ticket as a subprotocol"
)


NOBODY_KNOWN = (
    "The database cannot be reached, so it is not known who asks; try again in a moment, or ask"
    " `/healthz` and `/readyz`, which need no key"
)
"""A key that was good a moment ago may have been revoked since: none is taken on trust."""


def is_open(path: str) -> bool:
    """Whether anybody may ask for this path: it holds nothing of anyone's."""
    return path in OPEN or path.startswith(OPEN_BELOW)


class Callers:
    """Who comes with what; and how often somebody has come with what is nothing."""

    def __init__(self, sessions: Sessions, person: Person) -> None:
        settings = sessions.settings
        self.person = person
        self._sessions = sessions
        self._identities = sessions.dao.identities
        self._kept = settings.callers_kept
        self._tries = Tries(settings.bad_credentials_per_minute, peers=settings.callers_kept)
        self._good: OrderedDict[bytes, None] = OrderedDict()

    async def of_request(self, asking: HTTPConnection) -> Principal:
        """The principal of an HTTP request, by its key or its cookie.

        Raises `Unauthenticated`, `RateLimited`, `DatabaseUnavailable`.
        """
        if self.is_local(asking):
            return self._local(asking)
        if (key := _bearer(asking)) is not None:
            return await self._found(asking, key, self._identities.by_key)
        if (secret := asking.cookies.get(COOKIE)) is not None:
            return await self._found(asking, secret, self._identities.by_sign_in)
        raise Unauthenticated(ASKED_FOR)

    async def of_socket(self, asking: HTTPConnection, session_id: str) -> Principal:
        """The principal of a socket on a session, by its key or its ticket. Raises likewise."""
        if self.is_local(asking):
            return self._local(asking)
        if (key := _bearer(asking)) is not None:
            return await self._found(asking, key, self._identities.by_key)
        offered = asking.scope.get("subprotocols", [])
        tickets = [name.removeprefix(TICKET) for name in offered if name.startswith(TICKET)]
        if len(tickets) != 1:
            raise Unauthenticated(ASKED_FOR_BY_SOCKET)
        take = self._identities.take_ticket
        used = partial(take, session_id=session_id, origin=origin_of(asking))
        return await self._found(asking, tickets[0], used)

    async def of_key(self, asking: HTTPConnection, key: str) -> Principal:
        """Whose key this is. Raises likewise."""
        return await self._found(asking, key, self._identities.by_key)

    def remember(self, secret: str) -> None:
        """This credential is good, as far as this process knows: it is looked at in any case."""
        digest = _digest(secret)
        self._good[digest] = None
        self._good.move_to_end(digest)
        while len(self._good) > self._kept:
            self._good.popitem(last=False)

    def is_local(self, asking: HTTPConnection) -> bool:
        """Whether nobody needs a key to come in here."""
        # A database restored from before its first key must not open a server to a network.
        return self._sessions.local and is_loopback(address_of(asking.scope))

    def _local(self, asking: HTTPConnection) -> Principal:
        return LOCAL_PERSON if self.person.asks(asking, _bearer(asking)) else LOCAL

    async def _found(
        self, asking: HTTPConnection, secret: str, find: Callable[[str], Awaitable[Principal]]
    ) -> Principal:
        """What `find` finds, unless the peer has tried too often; a good one is always looked at,
        so that one who guesses behind a proxy shuts nobody out that is in."""
        peer, now = asking.client.host if asking.client else "", asyncio.get_running_loop().time()
        if _digest(secret) not in self._good:
            self._tries.refuse(peer, now)
        try:
            principal = await find(secret)
        except Unauthenticated:
            self._good.pop(_digest(secret), None)
            self._tries.failed(peer, now)
            raise
        self.remember(secret)
        return principal


class Authentication:
    """ASGI middleware: an HTTP request has a principal, or asks for what is open. Sockets are
    asked in `api/socket.py`, which can say more than a refused handshake.

    What is answered to a principal is nobody else's, and is not taken from a cache unasked.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        callers: Callers = scope["app"].state.callers
        try:
            scope[PRINCIPAL] = await callers.of_request(HTTPConnection(scope))
        except DatabaseUnavailable as error:
            away = DatabaseUnavailable(NOBODY_KNOWN, **error.data)
            await problems.send(scope, send, away)
            return
        except TurnbackError as error:
            await problems.send(scope, send, error)
            return

        async def private(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).setdefault("cache-control", "private, no-cache")
            await send(message)

        await self._app(scope, receive, private)


def origin_of(asking: HTTPConnection) -> str:
    """The origin of the page that asks; empty where it is none."""
    return asking.headers.get("origin", "")


def _bearer(asking: HTTPConnection) -> str | None:
    """The key in `Authorization`; None without that header, empty where it holds something else."""
    given = asking.headers.getlist("authorization")
    if not given:
        return None
    scheme, _, key = given[0].partition(" ")
    return key.strip() if len(given) == 1 and scheme.lower() == "bearer" else ""


def _digest(secret: str) -> bytes:
    return sha256(secret.encode(errors="surrogatepass")).digest()
