"""How much one client may ask: messages on a socket, sockets of a principal (protocol.md 4)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from turnback.core.errors import RateLimited, TooManySockets
from turnback.core.principal import Principal

LATER = 1.0
"""Seconds after which a socket that found no place may try again."""


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
    """The sockets that each principal has open on this process."""

    def __init__(self, per_principal: int) -> None:
        self._per_principal = per_principal
        self._taken: Counter[str] = Counter()

    @contextmanager
    def place(self, principal: Principal) -> Iterator[None]:
        """Within it, one socket more is open. Raises `TooManySockets`."""
        if self._taken[principal.id] >= self._per_principal:
            raise TooManySockets(
                f"{self._per_principal:,} sockets are open, the limit "
                "(`ws_sockets_per_principal`); close some, or try again later",
                limit="ws_sockets_per_principal",
                value=self._per_principal,
                retryAfterMs=round(LATER * 1000),
            )
        self._taken[principal.id] += 1
        try:
            yield
        finally:
            self._taken[principal.id] -= 1
            if not self._taken[principal.id]:
                del self._taken[principal.id]
