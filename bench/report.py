"""The table on the standard output, `results.json`, and the table of `docs/performance.md`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from bench.measure import Row

RESULTS = Path(__file__).with_name("results.json")


def table(measured: Mapping[str, Iterable[Row]]) -> str:
    """All rows as text, the floors with their spread over the rounds."""
    lines = [("", "figure", "floor (least to greatest round)", "ratio", "target", "")]
    for rows in measured.values():
        for row in rows:
            floor = "" if row.floor is None else number(row.floor)
            if row.floor_spread is not None:
                low, high = row.floor_spread
                floor += f" ({number(low)} to {number(high)})"
            ratio = "" if row.ratio is None else number(row.ratio)
            met = {True: "met", False: "MISSED", None: ""}[row.met]
            figure = f"{number(row.figure)} {row.unit}"
            lines.append((row.name, figure, floor, ratio, row.target, met))
    widths = [max(len(line[at]) for line in lines) for at in range(6)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def write(measured: Mapping[str, Iterable[Row]]) -> None:
    """The results as a file, to be committed as run."""
    RESULTS.write_bytes(
        orjson.dumps(results(measured), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    )


def results(measured: Mapping[str, Iterable[Row]]) -> dict[str, Any]:
    """The rows as `results.json` has them."""
    rows = [
        {
            "name": row.name,
            "figure": _rounded(row.figure),
            "unit": row.unit,
            "floor": _rounded(row.floor),
            "ratio": _rounded(row.ratio),
            "target": row.target,
            "met": row.met,
        }
        for rows in measured.values()
        for row in rows
    ]
    return {"rows": rows, "undo": {"gates": []}}


def number(value: float) -> str:
    """Three digits that say something."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 1 else f"{value:.3f}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
