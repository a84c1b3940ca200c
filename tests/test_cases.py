"""What has been reported of such systems, by number, and that a test keeps each of them out.

A test says which it is about by `@pytest.mark.case(16)`, of forks by `@pytest.mark.lineage(16)`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

CASES = {
    1: "a revert whose save fails changes nothing and says so",
    2: "a turn reverted twice is one entry of the redo stack",
    3: "after any history the workflow is the one stored at HEAD",
    4: "a turn is reverted after many more and a restart, byte for byte",
    5: "revert then redo is the identity",
    6: "a revert in one session leaves another alone",
    7: "usage leaves a reverted turn out and has it once after redo",
    8: "a kill around a revert leaves the state before it or after it",
    9: "the first turn reverts to the session's own initial workflow",
    10: "a step without a snapshot is not reverted, and the chat does not move alone",
    11: "nothing of a reverted turn is in the next request to the model",
    12: "a turn that changed twenty operators gives all twenty back",
    13: "a turn off the path is refused and stays good for checkout",
    14: "a preview changes nothing and lists what a revert would take",
    15: "a corrupt snapshot harms its own revert alone",
    16: "a revert across a person's edit says so first",
    17: "a step is told only when its snapshot is stored",
    18: "no existing link is lost; link ids are unique for ever",
    19: "a tool call that fails changes nothing and is told to the model",
    20: "unknown keys of a workflow survive",
    21: "as many redos as reverts give the last state",
    22: "a person's edit is seen by the next prompt and not overwritten",
    23: "a revert and a prompt at once equal a serial order",
    24: "stop while idle is nothing",
    25: "a run that died ends within a bound, and revert works",
    26: "of two prompts at once one runs and the other is told busy",
    27: "a run that ends late moves nothing",
    28: "parallel results of one step are all stored",
    29: "a step or a request that comes twice counts once",
    30: "delete ends the run and tells everyone; clear while busy is refused",
    31: "the limit of steps ends a run; no limit below one",
    32: "whatever a model raises ends in an error step and AVAILABLE",
    33: "a disabled tool is neither offered nor run",
    34: "a dropped socket gets what it missed once each",
    35: "a restart in mid-turn is told, with the partial steps",
    36: "no input crashes the socket",
    37: "a slow reader is closed and nobody waits for it",
    38: "a client that upserts shows no step twice",
}


LINEAGE = {
    1: "the parent goes on after a fork, and the child's transcript stays the same to the byte",
    2: "no record past the cutoff; none is written anew",
    3: "a count past the effective turns is refused, never clamped",
    4: "a parent forks whole with one request, whatever page a client had loaded",
    5: "reverted turns, other branches and later turns of the parent never enter a child",
    6: "a boundary before and after the first, a middle and the last turn, prompt or edit",
    7: "a child with no turn yet is listed, readable, there after a restart, and has its lineage",
    8: "fork twice, fork a fork, fork a newborn: none is empty",
    9: "a child's first turn adds just that turn to its transcript",
    10: "records of one instant keep their order everywhere",
    11: "a parent whose newest turn runs is forked at what is complete, whenever that turn ends",
    12: "a fork of which one write fails leaves nothing",
    13: "a retried fork gives the same child; another one under its id is refused",
    14: "a deleted parent leaves its children all they had; a deleted child changes no parent",
    15: "a sweep takes exactly what nothing living comes from, and whole families at the end",
    16: "an inherited file downloads through the child; a missing one is a placeholder",
    17: "a sweep raced against forks loses no file",
    18: "removing a file in the child is refused and harmless to the owner",
    19: "knowing an id opens nothing, and whatever stands against it answers alike",
    20: "who may not read cannot read through a fork",
    21: "usage over a parent and its forks counts each record once",
    22: "long histories and chains at the limit cost the same; the limit + 1 is refused",
    23: "cycles and dangling rows made by hand end in a typed error, soon",
    24: "turns without a key are forked as others",
    25: "a session that is not in memory is forked from PostgreSQL",
}

OF = {"case": CASES, "lineage": LINEAGE}
"""The cases that each mark names."""


def marked(tree: ast.Module) -> Iterator[tuple[str, str, tuple[int, ...], bool]]:
    """The tests of a module that name cases: which, and whether `make test` runs them."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            marks = [ast.unparse(decorator) for decorator in node.decorator_list]
            for decorator in node.decorator_list:
                mark = ast.unparse(getattr(decorator, "func", decorator))
                mark = mark.removeprefix("pytest.mark.")
                if isinstance(decorator, ast.Call) and mark in OF:
                    numbers = tuple(ast.literal_eval(argument) for argument in decorator.args)
                    yield node.name, mark, numbers, "pytest.mark.soak" not in marks


@pytest.fixture(scope="module")
def kept() -> dict[tuple[str, int], list[str]]:
    """The tests of each number."""
    found: dict[tuple[str, int], list[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        for name, mark, numbers, runs in marked(ast.parse(path.read_text())):
            assert name.startswith("test_")
            for number in numbers:
                assert number in OF[mark], f"`{name}` is about {mark} {number}, which is none"
                if runs:
                    found.setdefault((mark, number), []).append(name)
    return found


@pytest.mark.parametrize(("mark", "number"), [(mark, n) for mark in OF for n in OF[mark]])
def test_each_case_has_a_test_that_make_test_runs(
    mark: str, number: int, kept: dict[tuple[str, int], list[str]]
) -> None:
    assert kept.get((mark, number)), f"nothing tests that {OF[mark][number]}"
