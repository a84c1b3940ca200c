"""The file of the data directory that holds the token of the servers that run on it.

Its owner alone can read it. Servers of one data directory have one token: each holds a shared flock
on the file, and who could take it exclusively was the first, and writes a new one. So the token of
servers that have ended, however they ended, is good for nothing, and nobody has to remove it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from turnback.core.errors import NotServing, SettingsInvalid

LENGTH = 200  # bytes at most of a token


@contextmanager
def held(path: Path, make: Callable[[], str]) -> Iterator[str]:
    """The token of the servers on `path`'s folder, of which we are one until left.

    `make` makes one where we are the first. Raises `SettingsInvalid` where it cannot be written.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise SettingsInvalid(
            f"`{path}` cannot be written, by which scripts decide as a person: {error.strerror};"
            " choose another folder by `--data-dir`"
        ) from error
    try:
        if _first(file):
            os.fchmod(file, 0o600)
            os.ftruncate(file, 0)
            os.pwrite(file, f"{make()}\n".encode(), 0)
        fcntl.flock(file, fcntl.LOCK_SH)
        yield _read(file)
    finally:
        os.close(file)


def current(path: Path) -> str:
    """The token of the servers that run now. Raises `NotServing`."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        raise _nobody(path) from error
    try:
        if _first(file):
            raise _nobody(path)
        return _read(file)
    finally:
        os.close(file)


def _first(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(file: int) -> str:
    return os.pread(file, LENGTH, 0).decode().strip()


def _nobody(path: Path) -> NotServing:
    return NotServing(
        f"No Turnback without API keys serves with the data directory `{path.parent}`: start one by"
        " `turnback serve`, or say by `--data-dir` where it is"
    )
