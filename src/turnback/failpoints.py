"""Named points at which a test can have this process killed, as by `kill -9`.

`TURNBACK_FAILPOINT=name@n` kills the process the n-th time it reaches `name`. Unset, a point costs
one comparison. Tests of law 1 arm them; nothing else does. Imports nothing of ours.
"""

from __future__ import annotations

import os
import signal

_name = ""
_left = 0


def arm(point: str) -> None:
    """Die at `name@n`, the n-th time that `name` is reached from now on; at none if empty."""
    global _name, _left
    _name, _, count = point.partition("@")
    _left = int(count or 1)


def armed(name: str) -> bool:
    """Whether `hit(name)` may kill; for points that need preparation."""
    return name == _name


def hit(name: str) -> None:
    """Die here, at once and without cleaning up, if this is the point that is armed."""
    global _left
    if name != _name:
        return
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)


arm(os.environ.get("TURNBACK_FAILPOINT", ""))
