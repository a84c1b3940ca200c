"""Ids: UUIDv7 text, rising within a process, never guessable (protocol.md, a step)."""

from __future__ import annotations

import re

import uuid_utils

ID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def new_id() -> str:
    """A fresh UUIDv7 in canonical lower-case text."""
    return str(uuid_utils.uuid7())


def is_id(text: str) -> bool:
    """Whether `text` has the form of an id; only then may a statement be asked for it."""
    return ID.fullmatch(text) is not None
