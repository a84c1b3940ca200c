"""How much one client may ask: messages on a socket, sockets and waits of a principal.

The limits of protocol.md 4.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from turnback.core.errors import RateLimited, Refusal, TooManySockets, TooManyWaits
from turnback.core.principal import Principal

LATER = 1.0
"""Seconds after which whoever found no place may try again."""


class Rate:
    """So many messages a minute on one socket, and as many at once after a quiet minute."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._left = float(per_minute)
        self._counted = 0.0

    def take(self, now: float) -> RateLimited | None:
        """Count a message at `now` (seconds of any clock); the refusal, if it is one too many."""
        gained = (now - self._counted) * self._per_minute / 60
        self._left = min(float(self._per_minute), self._left + gained)
        self._counted = now
        if self._left >= 1:
            self._left -= 1
            return None
        wait = (1 - self._left) * 60 / self._per_minute
        return RateLimited(
            f"A socket may send {self._per_minute:,} messages a minute "
            "(`ws_messages_per_minute`); this one was not carried out, send it again later",
            limit="ws_messages_per_minute",
            value=self._per_minute,
            retryAfterMs=math.ceil(wait * 1000),
        )


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
        self._taken: Counter[str] = Counter()

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
        if self._taken[principal.id] >= self._most:
            raise self._refusal(
                f"{self._most:,} {self._sentence}",
                limit=self._limit,
                value=self._most,
                retryAfterMs=round(LATER * 1000),
            )
        self._taken[principal.id] += 1
        try:
            yield
        finally:
            self._taken[principal.id] -= 1
            if not self._taken[principal.id]:
                del self._taken[principal.id]
