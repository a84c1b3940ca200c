"""That a person asks: a token of this boot, and what a page has in its place (protocol.md 4).

As long as there are no API keys, whoever reaches the loopback address may read and prompt, and so
may the agent's own tools on this machine. What must be a person's decision needs the token too:
scripts send it, and a page has a cookie, for which it swaps the code of the address that was
printed. A code is good once; whoever has the token can make another.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64encode
from collections import OrderedDict
from hashlib import sha256

from starlette.requests import HTTPConnection

from turnback.api.guard import port_of
from turnback.core.errors import CodeRefused

KEPT = 10_000
"""Codes of which it is known that they were used. Only who has the token can make as many."""


def new_token() -> str:
    """A token for a boot."""
    return secrets.token_urlsafe(32)


def code_of(token: str, *, port: int) -> str:
    """A new code, for the server on this port that has this token."""
    nonce = secrets.token_urlsafe(9)
    return f"{nonce}.{_mac(token, 'code', str(port), nonce)}"


class Person:
    """What a person shows to one server."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.secret = _mac(token, "cookie")
        """What the cookie holds: it is no token, and a page that has it makes no codes."""
        self._used: OrderedDict[str, None] = OrderedDict()

    def swap(self, code: str, *, port: int) -> str:
        """The cookie's content for a code, which is used up by it. Raises `CodeRefused`."""
        nonce, _, mac = code.partition(".")
        good = _is(mac, _mac(self.token, "code", str(port), nonce))
        if not good or nonce in self._used:
            raise CodeRefused(
                "This address was used already, or an earlier start has printed it; `turnback"
                " address` prints a new one"
            )
        self._used[nonce] = None
        while len(self._used) > KEPT:
            self._used.popitem(last=False)
        return self.secret

    def asks(self, asking: HTTPConnection, bearer: str | None) -> bool:
        """Whether a request or a socket's handshake comes with the token, or with the cookie."""
        shown = asking.cookies.get(cookie_of(asking), "")
        return _is(bearer or "", self.token) or _is(shown, self.secret)


def cookie_of(asking: HTTPConnection) -> str:
    """The cookie's name. Browsers send cookies to every port of a host; ours keep apart."""
    return f"turnback-person-{port_of(asking.scope)}"


def _is(shown: str, secret: str) -> bool:
    return hmac.compare_digest(shown.encode(errors="surrogatepass"), secret.encode())


def _mac(token: str, *said: str) -> str:
    mac = hmac.digest(token.encode(), "\0".join(said).encode(errors="surrogatepass"), sha256)
    return urlsafe_b64encode(mac).decode().rstrip("=")
