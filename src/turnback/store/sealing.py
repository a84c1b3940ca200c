"""Sealing: what must not lie in the database in the clear, encrypted by the installation's key.

A before-state that its contract calls secret, and the inverse that is made of it, are stored sealed
(undo.md 1). Each is bound to the row that it belongs to, so that none can be put into another.
"""

from __future__ import annotations

import os
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE = 12


class Unsealable(Exception):
    """What was sealed cannot be opened: another key, none, or damaged."""


def _cipher(key: str) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # most have no key

    return AESGCM(sha256(key.encode()).digest())


class Sealer:
    """Seals and opens by one key (`secret_key`); without one it can do neither."""

    def __init__(self, key: str | None) -> None:
        self._cipher = _cipher(key) if key else None

    @property
    def can_seal(self) -> bool:
        """Whether there is a key."""
        return self._cipher is not None

    def seal(self, data: bytes, *, row: str) -> bytes:
        """The data, for the row of this name alone. Raises `Unsealable` without a key."""
        if self._cipher is None:
            raise Unsealable("no key")
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, data, row.encode())

    def open(self, sealed: bytes, *, row: str) -> bytes:
        """What was sealed for this row. Raises `Unsealable`."""
        if self._cipher is None:
            raise Unsealable("no key")
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], row.encode())
        except InvalidTag as error:
            raise Unsealable("another key, or damaged") from error
