"""`make bench`: measure, print one table, write `bench/results.json`. It fails on nothing.

`make bench ARGS="step revert"` measures those rows alone, and writes nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys


def main() -> int:
    """Run the measurements in a process group of their own, which ends with them."""
    command = [sys.executable, "-m", "bench.run", *sys.argv[1:]]
    running = subprocess.Popen(command, process_group=0)
    for number in (signal.SIGINT, signal.SIGTERM):
        # It leaves its databases and servers in order, as after Ctrl-C.
        signal.signal(number, lambda *_: os.kill(running.pid, signal.SIGINT))
    return running.wait()


if __name__ == "__main__":
    sys.exit(main())
