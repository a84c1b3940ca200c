"""Steps: the visible path or all, the workflow at each, the branches."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from turnback.api.rest.answer import PROBLEMS, json_answer
from turnback.api.rest.cursors import bad_cursor
from turnback.api.rest.records import RecordBody
from turnback.api.rest.request import (
    actor_of,
    page_size,
    principal_of,
    records_of,
    sessions_of,
    setting,
)
from turnback.api.rest.workflow import DOCUMENT, document
from turnback.core.errors import HistoryPurged
from turnback.core.lineage import ROOT_ID, Position
from turnback.core.tree import Tree
from turnback.store.ids import ID, is_id

PAGE = 50
"""Steps in a page where no `limit` is named."""

router = APIRouter(responses=PROBLEMS)


class StepList(BaseModel):
    """A page of steps, oldest first; `next_cursor` names the page before, null on the first."""

    steps: list[RecordBody]
    next_cursor: str | None


class Line(BaseModel):
    """A line that leaves a step together with others.

    `step_id` is its first step, `parent_id` the step that it leaves, `tip` what a checkout of it
    names, `on_path` whether it is the one shown; `content` is the beginning of its first step's,
    `turns` how many turns it has.
    """

    step_id: str
    parent_id: str
    turn_id: str
    tip: str
    on_path: bool
    turns: int
    content: str


class LineList(BaseModel):
    """A page of lines that part from others, oldest first; `next_cursor` is null on the last."""

    branches: list[Line]
    next_cursor: str | None


def _newest(tree: Tree, start: Position, limit: int) -> tuple[list[str], bool]:
    """The newest `limit` steps on the path to `start`, oldest first, and whether there are more.

    Where the path was purged it ends, if it has begun by then: who asks for more is told.
    """
    found: list[str] = []
    try:
        for step in tree.path(start):
            if len(found) == limit:
                return found[::-1], True
            found.append(step.id)
    except HistoryPurged:
        if not found:
            raise
        return found[::-1], True
    return found[::-1], False


@router.get("/sessions/{session_id}/steps", response_model=StepList)
async def steps(
    request: Request,
    session_id: str,
    before: str | None = None,
    limit: Annotated[int | None, Query(ge=1, json_schema_extra=setting("page_limit"))] = None,
    all: bool = False,
    at: str | None = None,
) -> Response:
    """The visible path, or with `all` every step, in pages from the newest; each oldest first.

    `at` asks for the path to that step rather than to HEAD. `before` is the `next_cursor` of the
    page before: a step's id, which stays good when HEAD moves.
    """
    limit = page_size(request, limit, usual=PAGE)
    actor = await actor_of(request, session_id)
    tree = actor.memory.tree
    if all:
        ids = list(tree.steps)
        end = ids.index(tree.step(before).id) if before else len(ids)
        if not end and tree.purged:
            raise HistoryPurged("A part of this conversation was purged")
        page, is_more = ids[max(0, end - limit) : end], end > limit or bool(tree.purged)
    else:
        if before is not None:
            start = tree.position(tree.step(before).parent_id)
        else:
            start = tree.head if at is None else tree.position(at)
        page, is_more = _newest(tree, start, limit)
    cursor = page[0] if is_more else None
    written = await records_of(request).written(principal_of(request), actor.key, page)
    steps = [orjson.Fragment(step) for step in written]
    return json_answer({"steps": steps, "next_cursor": cursor})


@router.get("/sessions/{session_id}/steps/{step_id}/workflow", **DOCUMENT)
async def step_workflow(
    request: Request,
    session_id: str,
    step_id: str,
    side: Literal["before", "after"] = "after",
) -> Response:
    """The workflow before or after a step; `step-initial` is the session's initial one."""
    actor = await actor_of(request, session_id)
    hash_ = actor.memory.tree.workflow_at(actor.memory.tree.position(step_id).step_id)
    if side == "before" and step_id != ROOT_ID:
        hash_ = actor.memory.tree.step(step_id).before
    return document(request, await actor.memory.workflow_of(hash_))


@router.get("/sessions/{session_id}/branches", response_model=LineList)
async def branches(
    request: Request,
    session_id: str,
    cursor: Annotated[str | None, Query(json_schema_extra={"pattern": ID.pattern})] = None,
    limit: Annotated[int | None, Query(ge=1, json_schema_extra=setting("page_limit"))] = None,
) -> Response:
    """Where lines part: for each such step, the lines that follow it and the tip of each.

    In the order in which the lines were begun; without `limit`, as many as a page may have.
    """
    if cursor is not None and not is_id(cursor):
        raise bad_cursor()
    limit = page_size(request, limit, usual=sessions_of(request).settings.page_limit)
    actor = await actor_of(request, session_id)
    tree = actor.memory.tree
    # Ids rise with time: their order is that of birth.
    lines = sorted(
        line
        for lines in tree.children.values()
        if len(lines) > 1
        for line in lines
        if cursor is None or line > cursor
    )
    page = [_line(tree, line) for line in lines[:limit]]
    ids = [line["step_id"] for line in page]
    records = await sessions_of(request).dao.records(principal_of(request), actor.key, ids)
    contents = {r.step.id: orjson.loads(r.payload)["content"][:200] for r in records}
    return json_answer(
        {
            "branches": [
                line | {"content": contents[line["step_id"]]}
                for line in page
                if line["step_id"] in contents
            ],
            "next_cursor": ids[-1] if len(lines) > limit else None,
        }
    )


def _line(tree: Tree, line: str) -> dict[str, Any]:
    """A line by its first step, all but what that step says."""
    first, tip = tree.steps[line], tree.tip(line)
    begin, end = (tree.turns[tree.steps[step].turn_id].effective_index for step in (line, tip))
    return {
        "step_id": line,
        "parent_id": first.parent_id,
        "turn_id": first.turn_id,
        "tip": tip,
        "on_path": tree.is_visible(first),
        "turns": end - begin + 1,
    }
