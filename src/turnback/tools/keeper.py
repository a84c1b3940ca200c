"""Starts one tool server and ends it with the service: a program of its own, which imports no room.

    python -I -S keeper.py FD COMMAND [ARGUMENT …]

The service holds the other end of the pipe FD. However the service ends, by `kill -9` too, the
kernel closes that end, and the server and all that it has started in its process group are killed;
so they are when the server itself has ended. Exits with the server's code (127: it could not be
started, 128 + n: ended by the signal n).
"""

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import suppress

NOT_STARTED = 127


def main(pipe: int, command: list[str]) -> int:
    """Run `command` until it ends or `pipe` is closed; what to exit with."""
    os.set_inheritable(pipe, False)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    child = os.fork()
    if not child:
        _become(command)
    with suppress(OSError):  # it has done so itself, and runs another program by now
        os.setpgid(child, child)
    for standard in (
        0,
        1,
        2,
    ):  # the server's alone, or its end would not be seen at their other end
        os.close(standard)
    while not _ended(child):
        ready, _, _ = select.select([pipe, woken], [], [])
        if pipe in ready:
            break
        os.read(woken, 4096)
    # Before it is waited for: until then nothing else can have its number.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def _become(command: list[str]) -> None:
    os.setpgid(0, 0)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and programs inherit
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError:
        os._exit(NOT_STARTED)


def _ended(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
