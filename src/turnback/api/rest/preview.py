"""What a revert would take back, before it is done; the diff of two steps in the same words."""

from __future__ import annotations

from dataclasses import asdict
from time import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from turnback.api.rest.answer import PROBLEMS, json_answer
from turnback.api.rest.effects import EffectBody, effect_body
from turnback.api.rest.request import actor_of, principal_of, sessions_of
from turnback.core.errors import BadInput
from turnback.core.principal import Right
from turnback.core.workflow import Diff, diff
from turnback.sessions.preview import Preview, TurnLeft, preview

router = APIRouter(responses=PROBLEMS)


class ChangeBody(BaseModel):
    """A member that differs; `path` leads to it from its operator, link, comment or settings."""

    path: list[str]
    kind: Literal["added", "removed", "changed", "reordered"]
    before: Any
    after: Any


class ChangesBody(BaseModel):
    """Items by id: added and removed whole, changed by property."""

    added: dict[str, dict[str, Any]]
    removed: dict[str, dict[str, Any]]
    changed: dict[str, list[ChangeBody]]


class DiffBody(BaseModel):
    """What differs between two workflows. `moved` are operators that stand elsewhere, `members`
    the document's own members, `reordered` those whose items are the same in another order;
    `touched` names everything that differs, as kind and id."""

    operators: ChangesBody
    moved: list[str]
    links: ChangesBody
    comments: ChangesBody
    settings: list[ChangeBody]
    members: list[ChangeBody]
    reordered: list[str]
    touched: list[tuple[str, str]]


class TurnLeftBody(BaseModel):
    """A turn that HEAD would leave: `steps` of its steps, the first 200 characters of its first."""

    turn_id: str
    kind: Literal["prompt", "edit"]
    content: str
    steps: int
    by: str
    timestamp: int


class EditLeftBody(BaseModel):
    """A person's edit that would be taken back; `own`: the caller's."""

    turn_id: str
    by: str
    content: str
    timestamp: int
    own: bool


class ConflictBody(BaseModel):
    """Something edited that would not fit where HEAD would go."""

    kind: Literal["operator", "position", "link", "comment", "setting", "member", "workflow"]
    id: str


class PreviewBody(BaseModel):
    """What a revert would take back at `head_id`; `turn_id` or `step_id` as it was named.

    `turns` and `edits` are oldest first, the newest `preview_turns` of as many as the counts say.
    `needs_confirm`: another person's edit is among them. `keeps_edits`: `keepEdits` would be
    carried out; `conflicts` says what stands against it. `diff` leads from HEAD's workflow to
    what it would be, null where HEAD's cannot be read. `effects` are what the steps that go did
    outside and that stands still; a plain revert leaves them so.
    """

    turn_id: str | None = None
    step_id: str | None = None
    head_id: str
    target_head_id: str
    busy: bool
    turns: list[TurnLeftBody]
    turn_count: int
    edits: list[EditLeftBody]
    edit_count: int
    needs_confirm: bool
    keeps_edits: bool
    conflicts: list[ConflictBody]
    diff: DiffBody | None
    effects: list[EffectBody]


@router.get("/sessions/{session_id}/revert-preview", response_model=PreviewBody)
async def revert_preview(
    request: Request, session_id: str, turn_id: str | None = None, step_id: str | None = None
) -> Response:
    """What a revert of this turn, or of this step, would take back; it changes nothing.

    Refused as the revert itself would be, but for a busy session, which is said. `head_id` is the
    HEAD that it holds for: as `expectedHeadId` of the revert it makes sure of that.
    """
    if (turn_id is None) is (step_id is None):
        raise BadInput("Name `turn_id`, or `step_id`, and not both")
    sessions, principal = sessions_of(request), principal_of(request)
    actor = await actor_of(request, session_id)
    key = actor.memory.key
    names = Right.RUN in (await sessions.dao.access.each(principal, [key]))[key]
    found = await preview(
        actor.memory,
        sessions.settings,
        principal,
        turn_id=turn_id,
        step_id=step_id,
    )
    named = {"turn_id": turn_id} if turn_id is not None else {"step_id": step_id}
    return json_answer(named | _preview(found, principal.id, key.id if names else None))


@router.get("/sessions/{session_id}/diff", response_model=DiffBody)
async def get_diff(
    request: Request,
    session_id: str,
    from_: Annotated[str, Query(alias="from")],
    to: str,
) -> Response:
    """What differs between the workflows after two steps: operators by property, and the rest."""
    actor = await actor_of(request, session_id)
    tree = actor.memory.tree
    before = await actor.memory.workflow_of(tree.workflow_at(tree.position(from_).step_id))
    after = await actor.memory.workflow_of(tree.workflow_at(tree.position(to).step_id))
    return json_answer(_diff(diff(before, after)))


def _preview(found: Preview, by: str, named: str | None) -> dict[str, Any]:
    now = round(time() * 1000)
    return {
        "head_id": found.head_id,
        "target_head_id": found.target_head_id,
        "busy": found.busy,
        "turns": [_turn(left) for left in found.turns],
        "turn_count": found.turn_count,
        "edits": [_edit(left, by) for left in found.edits],
        "edit_count": found.edit_count,
        "needs_confirm": found.needs_confirm,
        "keeps_edits": found.keeps_edits,
        "conflicts": found.conflicts,
        "diff": None if found.diff is None else _diff(found.diff),
        "effects": [
            effect_body(effect, now=now, names=effect.session_id == named)
            for effect in found.effects
        ],
    }


def _turn(left: TurnLeft) -> dict[str, Any]:
    return {
        "turn_id": left.turn.id,
        "kind": left.turn.kind,
        "content": left.content,
        "steps": left.steps,
        "by": left.turn.by,
        "timestamp": left.timestamp,
    }


def _edit(left: TurnLeft, by: str) -> dict[str, Any]:
    return {
        "turn_id": left.turn.id,
        "by": left.turn.by,
        "content": left.content,
        "timestamp": left.timestamp,
        "own": left.turn.by == by,
    }


def _diff(found: Diff) -> dict[str, Any]:
    written = asdict(found)
    written["touched"] = sorted(found.touched)
    return written
