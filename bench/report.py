"""The table on the standard output, `results.json`, and what the documents have of it.

`python -m bench.report` writes the last results into the documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from bench.measure import Row
from bench.rows import ROWS

RESULTS = Path(__file__).with_name("results.json")
DOCUMENT = RESULTS.parents[1] / "docs" / "performance.md"
OF_UNDO = DOCUMENT.with_name("undo.md")
BEGINS, ENDS = "<!-- results -->\n", "<!-- end of results -->\n"


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
    """Them in the results, to be committed as run, beside the gates of undo as they are."""
    _store(rows=_rows(measured))


def _store(**parts: Any) -> None:
    """Put parts of the results in place of what was there; the others stay."""
    found = {"rows": [], "undo": {"gates": []}}
    if RESULTS.exists():
        found |= orjson.loads(RESULTS.read_bytes())
    written = orjson.dumps(found | parts, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    RESULTS.write_bytes(written)


def _rows(measured: Mapping[str, Iterable[Row]]) -> list[dict[str, Any]]:
    """The rows as `results.json` has them."""
    return [
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


def gates_table(gates: Iterable[Any]) -> str:
    """The gates of undo as text: what was measured, of how many, and whether it holds."""
    lines = [
        (gate.name, number(gate.figure), f"of {gate.of}", _asked(gate), _met(gate.met))
        for gate in gates
    ]
    widths = [max(len(line[at]) for line in lines) for at in range(5)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def write_gates(gates: Iterable[Any]) -> None:
    """Them in the results, beside the rows as they are; `of` is how many were looked at."""
    written = [
        {
            "name": gate.name,
            "figure": _rounded(gate.figure),
            "of": gate.of,
            "gate": _asked(gate),
            "met": gate.met,
        }
        for gate in gates
    ]
    _store(undo={"gates": written})


def _asked(gate: Any) -> str:
    """What a gate asks for; of those that are not the design's it is said."""
    return f"{gate.gate} (ours)" if gate.ours else str(gate.gate)


def _met(met: bool) -> str:
    return "met" if met else "MISSED"


def document(text: str, found: dict[str, Any]) -> str:
    """The document's text with these results in their place."""
    return _within(text, _markdown(found["rows"]))


def document_of_undo(text: str, found: dict[str, Any]) -> str:
    """The document of undo with the gates in their place."""
    lines = ["", "| | figure | of | gate | |", "|---|---|---|---|---|"]
    for gate in found["undo"]["gates"]:
        met = "met" if gate["met"] else "**missed**"
        cells = (gate["name"], number(gate["figure"]), f"{gate['of']:,}", gate["gate"], met)
        lines.append(f"| {' | '.join(cells)} |")
    return _within(text, "\n".join([*lines, "", ""]))


def write_documents() -> None:
    """The last results into the documents."""
    found = orjson.loads(RESULTS.read_bytes())
    DOCUMENT.write_text(document(DOCUMENT.read_text(), found))
    OF_UNDO.write_text(document_of_undo(OF_UNDO.read_text(), found))


def _within(text: str, between: str) -> str:
    before, _, rest = text.partition(BEGINS)
    _, _, after = rest.partition(ENDS)
    return f"{before}{BEGINS}{between}{ENDS}{after}"


def _markdown(rows: Iterable[Mapping[str, Any]]) -> str:
    lines = ["", "| | figure | floor | ratio | target | |", "|---|---|---|---|---|---|"]
    for row in rows:
        unit = row["unit"]
        floor = "" if row["floor"] is None else f"{number(row['floor'])} {unit}"
        ratio = "" if row["ratio"] is None else number(row["ratio"])
        met = {True: "met", False: "**missed**", None: ""}[row["met"]]
        cells = (row["name"], f"{number(row['figure'])} {unit}", floor, ratio, row["target"], met)
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "What was measured, by the name that chooses it:", ""]
    lines += [f"- `{name}`: {module.WHAT}" for name, module in ROWS.items()]
    return "\n".join([*lines, "", ""])


def number(value: float) -> str:
    """Three digits that say something."""
    if value == int(value) and value < 100:
        return str(int(value))
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 1 else f"{value:.3f}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


if __name__ == "__main__":
    write_documents()
