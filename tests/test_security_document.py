"""What docs/security.md says is proved by a test, which is there and run by `make test`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENT = (ROOT / "docs" / "security.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", DOCUMENT)))


def rows() -> list[list[str]]:
    """The rows of the tables of who attacks what."""
    attacks = DOCUMENT.split("## Who attacks what")[1].split("## What is not defended")[0]
    lines = [line for line in attacks.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_each_answer_to_an_attack_names_its_proof() -> None:
    answers = [row for row in rows() if row[-1] != "proof"]
    assert len(answers) > 30
    for row in answers:
        assert len(row) == 3, row
        assert re.findall(r"`tests/[^`]+`", row[-1]), row


@pytest.mark.parametrize("named", NAMED)
def test_a_named_proof_is_a_test_that_is_run(named: str) -> None:
    path, _, name = named.partition("::")
    tests = {
        node.name: [ast.unparse(decorator) for decorator in node.decorator_list]
        for node in ast.parse((ROOT / path).read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    }
    assert tests
    if name:
        assert name in tests
        assert "pytest.mark.soak" not in tests[name]
