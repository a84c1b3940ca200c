"""A live session as it is at one instant: what a snapshot frame is made of."""

from __future__ import annotations

from dataclasses import dataclass, replace

from turnback.core.approvals import Approval
from turnback.core.pending import PendingAction
from turnback.core.run_settings import RunSettings
from turnback.core.tree import State, Step
from turnback.core.workflow import Workflow
from turnback.sessions.memory import Memory
from turnback.sessions.runs import Run
from turnback.store.rows import SessionKey


@dataclass(frozen=True, slots=True)
class View:
    """What a reader is shown of a session.

    `path` is the visible path, oldest first, at most as many steps as asked for; `older` is the
    step before the first of them that is visible too, where there is one. `redo_id` is the step
    that the next redo lands on.
    """

    key: SessionKey
    name: str
    state: State
    head_id: str
    workflow: Workflow | None
    revision: int
    floor: int
    redo_depth: int
    redo_id: str | None
    archived: bool
    model: str
    settings: RunSettings
    pending: PendingAction | None
    path: tuple[Step, ...]
    older: str | None
    partial: tuple[str, str, str] | None
    waiting_for: tuple[Approval, ...]


def view_of(
    memory: Memory, run: Run | None, *, steps: int | None, revision: int, is_away: bool
) -> View:
    """The session with the newest `steps` of the visible path (None: all).

    `revision` is the last that readers have been told of; `is_away` whether the database is.
    """
    path, older = memory.newest(steps)
    return View(
        key=memory.key,
        name=memory.row.name,
        state=State.UNAVAILABLE if is_away else memory.tree.state,
        head_id=memory.tree.head.step_id,
        workflow=memory.workflow,
        revision=revision,
        floor=memory.row.events_floor,
        redo_depth=len(memory.tree.redo_stack),
        redo_id=memory.tree.redo_stack[-1].step_id if memory.tree.can_redo else None,
        archived=memory.row.archived_at is not None,
        model=memory.row.model,
        settings=memory.row.settings,
        pending=memory.row.pending,
        path=path,
        older=older,
        partial=(run.turn_id, run.step_id, run.text) if run and run.text else None,
        waiting_for=memory.waiting_for,
    )


async def with_open_step(view: View, memory: Memory) -> View:
    """The view with the text of a step that is open and that no run of this process makes.

    A turn that waits for a person has such a step. Raises `DatabaseUnavailable`.
    """
    if view.partial is not None or view.state is State.AVAILABLE:
        return view
    opened = await memory.dao.effects.opened(memory.key)
    if opened is None or not opened.draft["content"]:
        return view
    return replace(view, partial=(opened.turn_id, opened.id, opened.draft["content"]))
