"""How much one client may ask: messages on a socket, sockets, waits, tries with a key.

The limits of protocol.md 4.
"""

from __future__ import annotations

import ipaddress
import math
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from turnback.core.errors import RateLimited, Refusal, TooManySockets, TooManyWaits
from turnback.core.principal import Principal

OWN_NETWORK = 64
"""Bits of an IPv6 address that are its network's (RFC 4291, 2.5.4)."""

LATER = 1.0
"""Seconds after which whoever found no place may try again."""


class _Bucket:
    """So many a minute, and as many at once after a quiet minute; times in seconds of any clock."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._left = float(per_minute)
        self._counted = 0.0

    def wait(self, now: float) -> float:
        """How many seconds it is until there is one more; 0 where there is one."""
        gained = (now - self._counted) * self._per_minute / 60
        self._left = min(float(self._per_minute), self._left + gained)
        self._counted = now
        return max(0.0, 1 - self._left) * 60 / self._per_minute

    def take(self) -> None:
        """One is used."""
        self._left -= 1


class Rate:
    """The messages of one socket."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._bucket = _Bucket(per_minute)

    def take(self, now: float) -> RateLimited | None:
        """Count a message; the refusal, if it is one too many."""
        wait = self._bucket.wait(now)
        if not wait:
            self._bucket.take()
            return None
        return RateLimited(
            f"A socket may send {self._per_minute:,} messages a minute "
            "(`ws_messages_per_minute`); this one was not carried out, send it again later",
            limit="ws_messages_per_minute",
            value=self._per_minute,
            retryAfterMs=math.ceil(wait * 1000),
        )


class Tries:
    """The credentials that were nothing, of each peer; of the `peers` that tried last."""

    def __init__(self, per_minute: int, *, peers: int) -> None:
        self._per_minute = per_minute
        self._peers = peers
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def refuse(self, address: str, now: float) -> None:
        """Raise `RateLimited` where this address has tried too often."""
        bucket = self._buckets.get(_peer(address))
        wait = 0.0 if bucket is None else bucket.wait(now)
        if wait:
            raise RateLimited(
                f"{self._per_minute:,} API keys a minute that are none may come from one address "
                "(`bad_credentials_per_minute`); this one was not looked at, try again later",
                limit="bad_credentials_per_minute",
                value=self._per_minute,
                retryAfterMs=math.ceil(wait * 1000),
            )

    def failed(self, address: str, now: float) -> None:
        """Count one."""
        peer = _peer(address)
        bucket = self._buckets.setdefault(peer, _Bucket(self._per_minute))
        self._buckets.move_to_end(peer)
        while len(self._buckets) > self._peers:
            self._buckets.popitem(last=False)
        bucket.wait(now)
        bucket.take()


def _peer(address: str) -> str:
    """Who an address is, as far as limits go: of IPv6 everybody has a network of their own."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4 or parsed.ipv4_mapped is not None:
        return address
    return str(ipaddress.ip_network((parsed, OWN_NETWORK), strict=False))


class Places:
    """What each principal has open on this process: so many at once.

    `limit` is the name of that setting, `refusal` what one too many is refused with, and
    `sentence` its words after the number.
    """

    def __init__(self, most: int, *, limit: str, refusal: type[Refusal], sentence: str) -> None:
        self._most = most
        self._limit = limit
        self._refusal = refusal
        self._sentence = sentence
        self._taken: Counter[tuple[str, str]] = Counter()

    @classmethod
    def of_sockets(cls, most: int) -> Places:
        """Sockets, refused with `TooManySockets`."""
        return cls(
            most,
            limit="ws_sockets_per_principal",
            refusal=TooManySockets,
            sentence="sockets are open, the limit (`ws_sockets_per_principal`); close some, or try "
            "again later",
        )

    @classmethod
    def of_waits(cls, most: int) -> Places:
        """Requests that wait for something to happen, refused with `TooManyWaits`."""
        return cls(
            most,
            limit="waits_per_principal",
            refusal=TooManyWaits,
            sentence="requests wait already, the limit (`waits_per_principal`); nothing was "
            "carried out: ask so that nothing is waited for, or try again later",
        )

    @contextmanager
    def place(self, principal: Principal) -> Iterator[None]:
        """Within it, one more is open. Raises the refusal of one too many."""
        who = principal.project_id, principal.id
        if self._taken[who] >= self._most:
            raise self._refusal(
                f"{self._most:,} {self._sentence}",
                limit=self._limit,
                value=self._most,
                retryAfterMs=round(LATER * 1000),
            )
        self._taken[who] += 1
        try:
            yield
        finally:
            self._taken[who] -= 1
            if not self._taken[who]:
                del self._taken[who]
