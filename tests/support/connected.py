"""What the kernel knows of connections, whatever their ends believe."""

from __future__ import annotations

from pathlib import Path


def connected(url: str, port: int) -> bool:
    """Whether the server at `url` still holds its connection with our `port`."""
    ends = (f":{int(url.rpartition(':')[2]):04X}", f":{port:04X}")
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any((row[1][-5:], row[2][-5:], row[3]) == (*ends, "01") for row in rows)
