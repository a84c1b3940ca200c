"""`python -m turnback.demo FILE`: the demo world in FILE, served over the standard streams."""

from __future__ import annotations

import sys
from pathlib import Path

from turnback.demo.server import answers
from turnback.demo.world import World


def main() -> None:
    """Serve until the standard input ends."""
    if len(sys.argv) != 2:
        sys.exit("Give one argument, the file of the demo world")
    for said in answers(sys.stdin, World(Path(sys.argv[1]))):
        print(said, flush=True)


if __name__ == "__main__":
    main()
