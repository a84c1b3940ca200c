"""Where a new operator goes: right of its sources, in free space. Nothing that stands is moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from turnback.core.workflow import Workflow

# In pixels on the canvas: where the first one stands, and how far the next one is from it.
LEFT, TOP = 100, 40
COLUMN, ROW = 300, 160
# How near two operators may stand without covering each other.
WIDTH, HEIGHT = 240, 120
# What is not reckoned with: what stands farther out than this, and more without a position.
FARTHEST = 1_000_000
HOMELESS = 100

Place = tuple[float, float]


def place(workflow: Workflow, operator_id: str, sources: Sequence[str]) -> dict[str, float]:
    """The position for an operator that is fed by `sources`, in free space, left to right.

    Operators of a workflow without positions are reckoned with where this rule would put them
    one after the other; the document is not changed.
    """
    standing = _standing(workflow, without=operator_id)
    taken = [*standing.values(), *_comments(workflow)]
    x, y = _free(taken, _wanted(standing, sources))
    return {"x": x, "y": y}


def _standing(workflow: Workflow, *, without: str) -> dict[str, Place]:
    """Where each operator stands, or would."""
    fed_by: dict[str, list[str]] = {}
    for link in workflow.links:
        fed_by.setdefault(link["target"]["operatorID"], []).append(link["source"]["operatorID"])
    standing: dict[str, Place] = {}
    homeless = []
    for name in workflow.operators:
        if name == without:
            continue
        if (at := _place(workflow.positions.get(name, {}))) is not None:
            standing[name] = at
        else:
            homeless.append(name)
    for name in homeless[:HOMELESS]:
        wanted = _wanted(standing, fed_by.get(name, ()))
        standing[name] = _free(standing.values(), wanted)
    return standing


def _comments(workflow: Workflow) -> Iterable[Place]:
    """Where the comment boxes stand: an operator is not put under one."""
    for box in workflow.comments:
        at = _place(box.get("commentBoxPosition", {}))
        if at is not None:
            yield at


def _place(position: Mapping[str, Any]) -> Place | None:
    x, y = position.get("x"), position.get("y")
    if not isinstance(x, int | float) or not isinstance(y, int | float):
        return None
    return (x, y) if max(abs(x), abs(y)) <= FARTHEST else None


def _wanted(standing: Mapping[str, Place], sources: Iterable[str]) -> Place:
    """A column right of the sources, at their middle; without any, below the first column."""
    places = [standing[name] for name in sources if name in standing]
    if places:
        middle = round(sum(y for _, y in places) / len(places))
        return max(x for x, _ in places) + COLUMN, middle
    if not standing:
        return LEFT, TOP
    left = min(x for x, _ in standing.values())
    return left, min(y for x, y in standing.values() if x == left)


def _free(standing: Iterable[Place], wanted: Place) -> Place:
    """The wanted place, or the first below it, row by row, where nothing is covered."""
    x, y = wanted
    column = sorted(there_y for there_x, there_y in standing if abs(there_x - x) < WIDTH)
    for there in column:
        if abs(there - y) < HEIGHT:
            y = there + ROW
    return x, y
