"""`turnback tools`: the table, a pin, and the check, against a real server and database."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from overlays import FOLDER
from typer.testing import CliRunner, Result

from turnback.cli import commands
from turnback.core.errors import ContractRefused, UnknownTool

SERVER = Path(__file__).parent / "support" / "notes_server.py"


@pytest.fixture
def environment(
    fresh_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_logging: None
) -> Path:
    """A server of notes with its overlay; the folder of the overlays."""
    folder = tmp_path / "contracts"
    folder.mkdir(mode=0o755)
    manner = {"python": sys.executable, "server": str(SERVER), "manner": "flags"}
    text = (FOLDER / "notes.yaml").read_text()
    for name, value in manner.items():
        text = text.replace(f"{{{name}}}", value)
    (folder / "notes.yaml").write_text(text)
    (folder / "notes.yaml").chmod(0o644)
    servers = {"notes": {"command": sys.executable, "args": [str(SERVER)]}}
    monkeypatch.setenv("TURNBACK_DATABASE_URL", fresh_database)
    monkeypatch.setenv("TURNBACK_CONTRACTS_DIR", str(folder))
    monkeypatch.setenv("TURNBACK_MCP_SERVERS", json.dumps(servers))
    monkeypatch.setenv("TURNBACK_TOOL_END_TIMEOUT", "0.5")
    return folder


def told(*words: str) -> Result:
    return CliRunner().invoke(commands, ["tools", *words])


def test_the_tools_are_listed_with_what_their_contracts_promise(environment: Path) -> None:
    result = told()
    assert result.exit_code == 0
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in result.output.splitlines()}
    assert rows["TOOL"] == "WORST CASES CONTRACT PINNED WHY"
    assert rows["notes.set_note"] == "reversible reversible overlay new"
    assert rows["notes.get_note"] == "read read overlay new"
    assert rows["notes.send_mail"] == "irreversible irreversible overlay new"


@pytest.mark.undo(30)
def test_a_tool_without_a_contract_is_listed_with_the_reason(environment: Path) -> None:
    (environment / "notes.yaml").write_text("contract: 1\nservers: {}")
    result = told()
    (row,) = (line for line in result.output.splitlines() if line.startswith("notes.set_note"))
    assert row.split()[1] == "irreversible"
    assert row.endswith("nothing declares how it could be taken back")


def test_a_tool_that_somebody_looked_at_is_pinned(environment: Path) -> None:
    result = told("pin", "notes.set_note")
    assert result.output.startswith("notes.set_note is pinned as it is now, sha256:")
    row = next(line for line in told().output.splitlines() if line.startswith("notes.set_note"))
    assert row.split()[-1] == "same"
    assert isinstance(told("pin", "notes.none").exception, UnknownTool)


def test_a_contract_that_lies_is_named_and_the_exit_code_says_so(environment: Path) -> None:
    result = told("check")
    assert result.exit_code == 1
    assert "LIES       notes.get_mail: it is no read" in result.output
    assert "ok         notes.set_note: its inverse puts back what it touched" in result.output
    assert isinstance(told("check", "none").exception, UnknownTool)


def test_of_tools_in_python_without_a_sandbox_it_says_that_they_are_unchecked(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (environment / "tools_of_a_check.py").write_text(
        "from turnback.tools.decorator import tool\n"
        "@tool(contract={'cases': [{'class': 'read'}]})\n"
        "def look() -> dict: ...\n"
    )
    monkeypatch.syspath_prepend(environment)
    monkeypatch.setenv("TURNBACK_TOOL_MODULES", '["tools_of_a_check"]')
    result = told("check", "python")
    assert result.exit_code == 0
    assert result.output == "unchecked  python.look: no overlay has a `sandbox` for it\n"


def test_a_contract_that_contradicts_itself_is_refused_with_the_reason(environment: Path) -> None:
    wrong = "contract: 1\nservers: {notes: {tools: {set_note: {cases: [{class: reversible}]}}}}"
    (environment / "notes.yaml").write_text(wrong)
    refused = told().exception
    assert isinstance(refused, ContractRefused)
    assert "notes.yaml, notes.set_note" in refused.message


def test_what_overlays_are_about_that_is_not_there_is_said(environment: Path) -> None:
    file = environment / "notes.yaml"
    file.write_text(file.read_text() + "  nowhere: {reads: [look]}\n")
    file.write_text(file.read_text().replace("      remove_note:", "      remove_notes:"))
    said = told().stderr.splitlines()
    assert "turnback: an overlay is about a server `nowhere`, which is not configured" in said
    assert (
        "turnback: the overlay of `notes` is about `remove_notes`, which it does not have" in said
    )
