"""What somebody has changed from one version to another, made again on a third.

What counts is what has changed in the end, not the gestures that led there: a link keeps the id
that it was given, an operator that was moved ten times is moved once, and a document that was put
in whole is the difference it made. Where that is no list of edits (a member that nobody knows has
changed) it is the whole document, which fits nothing but the version that it replaced.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn, assert_never

from pydantic import TypeAdapter, ValidationError

from turnback.core.edits import Edit, ReplaceWorkflow
from turnback.core.errors import EditConflict, InvalidEdit
from turnback.core.values import DEEPEST
from turnback.core.workflow.diff import Changes, Diff, Touch, diff, link_touch, same
from turnback.core.workflow.document import Workflow
from turnback.core.workflow.editing import MAX_BYTES, MAX_DEPTH, apply
from turnback.core.workflow.meeting import conflicts, touches
from turnback.core.workflow.shape import Json, link_ends

_edits: TypeAdapter[tuple[Edit, ...]] = TypeAdapter(tuple[Edit, ...])


def edits_between(before: Workflow, after: Workflow) -> tuple[Edit, ...]:
    """What has changed, as edits that lead from `before` to `after` but for the order of items.

    One `ReplaceWorkflow` where edits of single items do not lead there.
    """
    return _edits_onto(before, before, after)


def replay(
    before: Workflow,
    after: Workflow,
    *,
    onto: Workflow,
    max_bytes: int = MAX_BYTES,
    max_depth: int = MAX_DEPTH,
) -> Workflow:
    """What has changed from `before` to `after`, made again on `onto`. All or nothing.

    What is so there already stays. Raises `EditConflict` (data: `conflicts`, each with kind and
    id) where something that changed is neither as it was nor as it became, or would not hold
    together there; `TooLarge`.
    """
    if onto in (before, after):
        return after
    edits = _edits_onto(onto, before, after)
    met = conflicts(edits, base=before, head=onto)
    if met := frozenset(touch for touch in met if not _is_so(touch, onto, after)):
        raise _conflict(met)
    try:
        return _made(onto, edits, max_bytes=max_bytes, max_depth=max_depth)
    except InvalidEdit as error:
        raise _conflict(touches([edits[error.data["index"]]], onto)) from None


def _conflict(met: frozenset[Touch]) -> EditConflict:
    return EditConflict(
        "What was edited does not fit there",
        conflicts=[{"kind": kind, "id": id_} for kind, id_ in sorted(met)],
    )


def _edits_onto(onto: Workflow, before: Workflow, after: Workflow) -> tuple[Edit, ...]:
    """The edits of what has changed, without those that are so on `onto` already."""
    found = diff(before, after)
    try:
        edits = _edits.validate_python([*_edits_of(found, before, after)])
        whole = not edits or not _same_items(_made(before, edits), after)
    except (InvalidEdit, ValidationError):
        whole = True
    if whole:
        return (ReplaceWorkflow(workflow=after.content()),) if found else ()
    return _edits.validate_python([*_edits_of(found, onto, after)])


def _edits_of(found: Diff, onto: Workflow, after: Workflow) -> Iterator[dict[str, Any]]:
    """An edit on the wire for each item of `found` that is not on `onto` as it is in `after`."""
    links = {link["linkID"]: link for link in onto.links}
    boxes = {box["commentBoxID"]: box for box in onto.comments}
    gone = found.operators.removed
    for name, link in found.links.removed.items():
        if name in links and not {link_ends(link)[0], link_ends(link)[2]} & gone.keys():
            yield {"op": "removeLink", "linkID": name}
    for name in gone:
        if name in onto.operators:
            yield {"op": "removeOperator", "operatorID": name}
    for name, operator in _missing(found.operators.added, onto.operators):
        place = {"position": _place(after.positions[name])} if name in after.positions else {}
        yield {"op": "addOperator", "operator": operator, **place}
    for name, values, unset in _changed(found.operators, onto.operators, after.operators):
        yield {"op": "changeOperator", "operatorID": name, "set": values, "unset": unset}
    there = [name for name in found.operators.added if name in onto.operators]
    for name in (*found.moved, *there):
        if name in after.positions and not same(onto.positions.get(name), after.positions[name]):
            place = _place(after.positions[name])
            yield {"op": "moveOperator", "operatorID": name, "position": place}
    for _, link in _missing(found.links.added, links):
        yield {"op": "addLink", "link": link}
    lines = {link["linkID"]: link for link in after.links}
    for name, values, _ in _changed(found.links, links, lines):
        yield {"op": "changeLink", "linkID": name, "set": values}
    for name in found.comments.removed:
        if name in boxes:
            yield {"op": "removeComment", "commentBoxID": name}
    for _, box in _missing(found.comments.added, boxes):
        yield {"op": "addComment", "comment": box}
    notes = {box["commentBoxID"]: box for box in after.comments}
    for name, values, _ in _changed(found.comments, boxes, notes):
        yield {"op": "changeComment", "commentBoxID": name, "set": values}
    yield from _settings(found, onto.settings or {}, after.settings or {})


def _missing(added: Mapping[str, Json], there: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    for name, item in added.items():
        if name not in there or not same(there[name], item):
            yield name, item


def _changed(
    found: Changes, there: Mapping[str, Json], after: Mapping[str, Json]
) -> Iterator[tuple[str, Json, list[str]]]:
    """Items that have changed and are not so `there`, each with what to set and to take away."""
    for name, changes in found.changed.items():
        if name in there and same(there[name], after[name]):
            continue
        members = {change.path[0] for change in changes if change.path}
        values = {member: value for member, value in after[name].items() if member in members}
        yield name, values, sorted(members - values.keys())


def _settings(found: Diff, there: Json, after: Json) -> Iterator[dict[str, Any]]:
    names = {change.path[0] for change in found.settings if change.path}
    names = {name for name in names if not same(_member(there, name), _member(after, name))}
    values = {name: value for name, value in after.items() if name in names}
    if names:
        yield {"op": "changeSettings", "set": values, "unset": sorted(names - values.keys())}


def _place(position: Json) -> dict[str, Any]:
    return {"x": position.get("x"), "y": position.get("y")}


class _Every:
    """Every operator type: what was on a canvas once may be there again."""

    def __contains__(self, name: object) -> bool:
        return True


def _made(
    workflow: Workflow,
    edits: tuple[Edit, ...],
    *,
    max_bytes: int = sys.maxsize,
    max_depth: int = DEEPEST,
) -> Workflow:
    return apply(
        workflow,
        edits,
        new_link_id=_no_new_link,
        known_types=_Every(),
        max_bytes=max_bytes,
        max_depth=max_depth,
    )


def _no_new_link() -> NoReturn:
    raise AssertionError("a link that was drawn before has its id")


def _same_items(a: Workflow, b: Workflow) -> bool:
    """Whether two versions hold the same, but for its order."""
    found = diff(a, b)
    loose = (*found.settings, *found.members)
    return not (
        found.operators
        or found.moved
        or found.links
        or found.comments
        or any(change.kind != "reordered" for change in loose)
    )


def _is_so(touch: Touch, there: Workflow, after: Workflow) -> bool:
    """Whether what is touched is `there` as it is in `after`."""
    a, b = _look(there, touch), _look(after, touch)
    return a is not None and b is not None and same(a, b)


def _look(workflow: Workflow, touch: Touch) -> list[Any] | None:
    """What a workflow holds where a touch points; None: no single thing."""
    kind, name = touch
    match kind:
        case "operator":
            return _member(workflow.operators, name)
        case "position":
            return _member(workflow.positions, name)
        case "link":
            return [link for link in workflow.links if link_touch(link) == touch]
        case "comment":
            return [box for box in workflow.comments if box["commentBoxID"] == name]
        case "setting":
            return _member(workflow.settings or {}, name)
        case "member":
            return _member(workflow.other, name)
        case "workflow":
            return None
        case _:
            assert_never(kind)


def _member(members: Mapping[str, Any], name: str) -> list[Any]:
    """The member in a list, which is empty where there is none: null is a value."""
    return [members[name]] if name in members else []
