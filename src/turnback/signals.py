"""What SIGINT, SIGTERM and SIGHUP do to the service, from its first moment to its last.

Imports nothing that takes time: it must be in place before the imports that do.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """The signals of this process; one for the process, and for all of its life.

    While the service starts, the first one unwinds it, exit 0, and what was started is stopped;
    afterwards they are told to whoever called `tell`. Those that come while things are being
    stopped are only counted: nothing may interrupt that.
    """

    def __init__(self) -> None:
        self._count = 0
        self._tell: Callable[[int], None] | None = None
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                signal.signal(number, self._on_signal)

    def tell(self, tell: Callable[[int], None]) -> None:
        """From now on call `tell`, which must not raise, with the number of signals so far."""
        self._tell = tell
        if self._count:  # its unwinding was lost in a place that ignores exceptions
            tell(self._count)

    def _on_signal(self, *_: object) -> None:
        self._count += 1
        if self._tell is not None:
            self._tell(self._count)
        elif self._count == 1:
            raise SystemExit(0)
