"""docs/protocol.md as data: its sections, tables and code blocks."""

from __future__ import annotations

import re
from pathlib import Path

TEXT = (Path(__file__).parents[2] / "docs/protocol.md").read_text()
PROSE = re.sub(r"^```.*?^```$", "", TEXT, flags=re.M | re.S)
"""Without the code blocks."""

Rows = list[list[str]]


def section(title: str) -> str:
    """The text under a heading of any level, up to the next of its level or above."""
    found = re.search(rf"^(#+) {re.escape(title)}\n", PROSE, flags=re.M)
    assert found, f"no section {title!r}"
    rest = PROSE[found.end() :]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, flags=re.M)
    return rest[: end.start()] if end else rest


def tables(text: str) -> list[Rows]:
    """The tables in a text: the cells of each row, the head first."""
    blocks = re.findall(r"(?:^\|.*\|\n)+", text, flags=re.M)
    return [
        [
            [cell.strip() for cell in line.strip("|").split("|")]
            for number, line in enumerate(block.splitlines())
            if number != 1
        ]
        for block in blocks
    ]


def table(title: str) -> Rows:
    """The rows, without the head, of the first table of a section."""
    return tables(section(title))[0][1:]


def names(cell: str) -> list[str]:
    """What a cell names in backticks, without the `?` of what may be left out."""
    return [name.removesuffix("?") for name in re.findall(r"`([^`]+)`", cell)]


def blocks(language: str, text: str = TEXT) -> list[str]:
    """The code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.M | re.S)
