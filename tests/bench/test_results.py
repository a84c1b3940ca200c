"""The committed results: their form, that nothing is left out, and that the document has them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from bench import report
from bench.measure import told
from bench.rows import ROWS

RESULTS: dict[str, Any] = orjson.loads(report.RESULTS.read_bytes())

# The rows of the design's performance.md that there is something to measure for.
ROWS_ASKED_FOR = (
    "one step, durable: first",
    "one step, durable: middle",
    "one step, durable: last",
    "revert at 10 steps",
    "revert at 10,000 steps",
    "redo at 10 steps",
    "redo at 10,000 steps",
    "the 2,000th revert and prompt",
    "transcript of 1,000 records",
    "the same unchanged: 304",
    "the same at depth 1",
    "the same at depth 32",
    "newest page of 50, parted 128 times",
    "newest page of 50, depth 128",
    "fork of 10 records, depth 1",
    "fork of 10 records, depth 127",
    "fork of 10,000 records, depth 1",
    "fork of 10,000 records, depth 127",
    "fork with 100 attachments",
    "fork among",
    "one step among",
    "revert among",
    "newest page of 50 among",
    "list of 5 sessions among",
    "bytes stored per step",
    "memory per step of a live session",
    "memory per idle socket",
    "left of an idle session that was evicted",
    "200 sockets, an event of",
    "p99 of a revert among 2,000 idle sockets and 100 active sessions",
    "overhead of the agent loop per step",
    "the log of a call outside: reversible",
    "the log of a call outside: undeclared",
    "undo, per effect",
    "an undo plan of 12 effects",
    "cold start to the first socket",
    "load of an evicted session of 10,000 steps",
)

# The gates and the negative controls of the design's undo.md 8.
GATES_ASKED_FOR = (
    "said fully reverted while the world differs",
    "a stranger's leaf overwritten",
    "drift cases",
    "leaves that differ and no residue claims",
    "claimed leaves that do not differ",
    "tasks taken back fully",
    "tasks with something taken back",
    "drift that was not found",
    "drift found where there was none",
    "leaves and calls of a second click",
    "calls over the budget, or reads, counted in the world",
    "random sequences that broke any rule",
)
CONTROLS_ASKED_FOR = (
    "drift checks off",
    "verify off",
    "inverse from arguments",
    "per-step hashes",
    "absorb after inverse",
    "one key for two calls",
    "locks off",
)


def test_each_row_has_its_members_and_no_other() -> None:
    assert RESULTS.keys() == {"rows", "undo"}
    assert RESULTS["undo"].keys() == {"gates"}
    for row in RESULTS["rows"]:
        assert list(row) == ["name", "figure", "unit", "floor", "ratio", "target", "met"]
        assert row["figure"] >= 0
        assert isinstance(row["met"], bool) == bool(row["target"])


def test_each_gate_of_undo_was_measured_and_holds() -> None:
    gates = RESULTS["undo"]["gates"]
    for gate in gates:
        assert list(gate) == ["name", "figure", "of", "gate", "met"]
        assert gate["of"] > 0
        assert gate["met"], gate["name"]


@pytest.mark.parametrize("tier", ["", "with adapters: "])
@pytest.mark.parametrize("name", GATES_ASKED_FOR)
def test_every_gate_that_was_asked_for_is_there_in_both_tiers(name: str, tier: str) -> None:
    assert any(gate["name"].startswith(tier + name) for gate in RESULTS["undo"]["gates"])


@pytest.mark.parametrize("name", CONTROLS_ASKED_FOR)
def test_without_each_rule_trials_break_one(name: str) -> None:
    [gate] = [g for g in RESULTS["undo"]["gates"] if g["name"].startswith(f"control, {name}")]
    assert gate["figure"] > 0


@pytest.mark.parametrize("name", ROWS_ASKED_FOR)
def test_every_row_that_was_asked_for_was_measured_against_its_target(name: str) -> None:
    [row] = [row for row in RESULTS["rows"] if row["name"].startswith(name)][:1]
    assert row["target"]


@pytest.mark.parametrize("rival", ["LangGraph", "Google ADK", "Turnback"])
def test_the_rivals_did_the_same_work(rival: str) -> None:
    names = (row["name"] for row in RESULTS["rows"])
    assert len([name for name in names if name.startswith("200 steps") and rival in name]) == 4


def test_the_documents_have_the_results_as_they_were_run() -> None:
    text = report.DOCUMENT.read_text()
    assert report.document(text, RESULTS) == text
    text = report.OF_UNDO.read_text()
    assert report.document_of_undo(text, RESULTS) == text


def test_the_document_says_what_every_row_measures() -> None:
    text = " ".join(report.DOCUMENT.read_text().split())
    for name, row in ROWS.items():
        assert row.WHAT in text, name


@pytest.mark.parametrize("there", [True, False], ids=["over the last", "for the first time"])
def test_rows_and_gates_are_written_beside_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    file = tmp_path / "results.json"
    monkeypatch.setattr(report, "RESULTS", file)
    if there:
        file.write_bytes(orjson.dumps(RESULTS))
    gates = [{"name": "asked for", "figure": 1.0, "of": 2, "gate": "≥ 1", "met": True}]
    report.write_gates([SimpleNamespace(**gates[0], ours=False)])
    found = orjson.loads(file.read_bytes())
    assert found == {"rows": RESULTS["rows"] if there else [], "undo": {"gates": gates}}
    report.write({"row": [told("measured", 3.0, unit="ms")]})
    found = orjson.loads(file.read_bytes())
    assert [row["name"] for row in found["rows"]] == ["measured"]
    assert found["undo"] == {"gates": gates}
