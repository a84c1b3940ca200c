"""What has been reported of such systems, by number, and that a test keeps each of them out.

A test says which it is about by `@pytest.mark.case(16)`, of forks by `@pytest.mark.lineage(16)`, of
effects outside by `@pytest.mark.undo(16)`.
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

UNDO = {
    1: "an inverse waits for the one that it needs, whichever is newer",
    2: "what a dependent's failed inverse stands on is blocked, not removed",
    3: "a folder with a person's file in it stays, and needs review",
    4: "a cycle of contracts makes no call and is named",
    5: "what a later turn uses is undone with it, or refused",
    6: "the removal of a channel covers its members; the message is residue; nothing twice",
    7: "what is gone for good is tried once, and its dependents stop",
    8: "what is unavailable three times is tried again with one key, and takes effect once",
    9: "an error in the body of a success is a failure",
    10: "a success that changed nothing is a noop_inverse",
    11: "an inverse whose reply is lost is looked up or read back, not made twice",
    12: "without keys and without a read-back a lost reply is in doubt, and not tried blindly",
    13: "credentials revoked in between: failed with the reason, the rest can be tried later",
    14: "a field that a person changed is left, both values shown",
    15: "of another field theirs is kept and ours put back",
    16: "what is already back needs no call, counts as reverted, and names nobody",
    17: "what a person deleted: an inverse delete is done already, an inverse update is reviewed",
    18: "what was deleted and made again under the same id is not deleted",
    19: "what the agent wrote twice comes back to the first value without false drift",
    20: "what a person wrote between the agent's two writes is found",
    21: "a time of change that moved alone is no drift",
    22: "a double click is one run with one id",
    23: "a click after the end gets the same report and makes no call",
    24: "a toggle that was applied before a crash is not flipped twice",
    25: "an undo during a call is refused; stopped, the call is known or in doubt, then planned",
    26: "a prompt during an undo is refused",
    27: "a process that was stopped past its lease sends nothing more",
    28: "twelve effects and a cap of five: five calls at most, the rest is residue",
    29: "attempts count against the budget",
    30: "an undeclared tool is irreversible and never offered as revert",
    31: "what is declared clean and notifies is refused at registration",
    32: "a read that changes read-flags is found by the check",
    33: "a call that failed cleanly has no compensation and no residue",
    34: "a tool result that says to undo everything undoes nothing",
    35: "a stranger's click is refused, and no plan is leaked",
    36: "a turn that waits for approval waits after a restart, and stop ends it",
    37: "of two people who decide at once one wins and the other is told",
    38: "an inverse of two calls, killed between them, goes on and does nothing twice",
    39: "of two sessions on one record the second's write stands when the first is undone",
    40: "a person's edit between two inverses of one run is kept",
    41: "an old client that reverts a turn with effects is told which remain",
    42: "after a partial undo the next prompt's model knows what stands",
    43: "redo after an undo: the canvas is back, the effects are listed, nothing is run",
    44: "who may not run a fork's parent is told who can, and no value",
    45: "a tool that changed since its contract is irreversible",
}

OF = {"case": CASES, "lineage": LINEAGE, "undo": UNDO}
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
