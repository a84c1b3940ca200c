"""The file of the data directory that says where the server on it is, for `turnback address`.

Of several servers on one data directory it is the last that started. It is a hint and no secret:
a server that has ended leaves it, and whether one runs is for the token to say (token_file.py).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

LENGTH = 300  # bytes at most of an origin


def note(path: Path, origin: str) -> None:
    """Say that a server is at `origin`; where it cannot be said, `--port` will have to."""
    with suppress(OSError):
        path.unlink(missing_ok=True)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(file, f"{origin}\n".encode())
        finally:
            os.close(file)


def noted(path: Path) -> str | None:
    """Where a server said that it is, if one did."""
    try:
        with path.open("rb") as file:
            return file.read(LENGTH).decode().strip() or None
    except (OSError, ValueError):
        return None
