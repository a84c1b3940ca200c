"""New ids: UUIDv7 text, rising within a process, never guessable (protocol.md, a step)."""

from __future__ import annotations

import uuid_utils


def new_id() -> str:
    """A fresh UUIDv7 in canonical lower-case text."""
    return str(uuid_utils.uuid7())
