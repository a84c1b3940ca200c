"""The work that is measured: a workflow of 50 KB, and steps that change two of its operators."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from turnback.agent import canvas
from turnback.agent.steps import StepDraft, ToolCall, ToolResult
from turnback.core.tree import EndReason
from turnback.core.workflow import EMPTY, Workflow
from turnback.sessions.editing import new_link_id
from turnback.store.ids import new_id

OPERATORS = 77
COLUMNS = ("price", "quantity", "region", "customer", "discount", "shipped", "category", "rating")
_numbers = count(1)


def workflow() -> Workflow:
    """A chain of operators as the agent's own tools make it: 50 KB of JSON."""
    made = EMPTY
    for n in range(OPERATORS):
        column = COLUMNS[n % len(COLUMNS)]
        made = _call(
            made,
            "addOperator",
            {
                "operatorId": f"op{n}",
                "operatorType": "Filter" if n else "CSVFileScan",
                "properties": _predicate(column, n) if n else {"fileName": "orders.csv"},
                "inputOperatorIds": {"0": [f"op{n - 1}"]} if n else {},
                "summary": f"Keep {column} above {n}",
            },
        )
    return made


def step(before: Workflow, end: EndReason | None = None) -> StepDraft:
    """An agent's step that changes two operators, as the model's own calls would have it."""
    after, calls, results = before, [], []
    for _ in range(2):
        given = arguments(next(_numbers))
        after = _call(after, "modifyOperator", given)
        call = ToolCall("modifyOperator", new_id(), given)
        calls.append(call)
        results.append(ToolResult(call.id, f"Modified operator {given['operatorId']}"))
    return StepDraft(
        content="I raise two of the bounds, as you asked, and look at the next ones after that.",
        before=before,
        after=after,
        tool_calls=tuple(calls),
        tool_results=tuple(results),
        end_reason=end,
    )


def arguments(n: int) -> dict[str, object]:
    """The `n`th change of an operator, as a model calls for it."""
    column = COLUMNS[n % len(COLUMNS)]
    return {
        "operatorId": f"op{_target(n)}",
        "properties": _predicate(column, n),
        "summary": f"Keep {column} above {n}",
    }


def edits() -> list[dict[str, object]]:
    """The same as a person's edit, for a frame."""
    made: list[dict[str, object]] = []
    for _ in range(2):
        n = next(_numbers)
        values = {"operatorProperties": _predicate(COLUMNS[n % len(COLUMNS)], n)}
        made.append({"op": "changeOperator", "operatorID": f"op{_target(n)}", "set": values})
    return made


def _target(n: int) -> int:
    return 1 + n * 7 % (OPERATORS - 1)


def _predicate(column: str, n: int) -> dict[str, object]:
    return {"predicates": [{"attribute": column, "condition": ">", "value": str(n)}]}


def _call(workflow: Workflow, name: str, arguments: Mapping[str, object]) -> Workflow:
    return canvas.call(workflow, name, arguments, new_link_id=new_link_id)[0]
