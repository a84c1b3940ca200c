"""What the kernel knows of connections, whatever their ends believe."""

from __future__ import annotations

from pathlib import Path


def connected(url: str, port: int) -> bool:
    """Whether the server at `url` still holds its connection with our `port`."""
    return any(row[3] == "01" for row in _rows(url, port))


def unread(url: str, port: int) -> int:
    """How many bytes that came from our `port` the server at `url` has not read yet."""
    return sum(int(row[4].partition(":")[2], 16) for row in _rows(url, port))


def _rows(url: str, port: int) -> list[list[str]]:
    ends = [f":{int(url.rpartition(':')[2]):04X}", f":{port:04X}"]
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [row for row in rows if [row[1][-5:], row[2][-5:]] == ends]
