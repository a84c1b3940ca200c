"""What people edited in turns that are taken back, made again where HEAD goes (`keepEdits`)."""

from __future__ import annotations

from collections.abc import Sequence

from turnback.core.errors import EditConflict, TooLarge
from turnback.core.tree import Turn
from turnback.core.workflow import Workflow, replay
from turnback.sessions.memory import Memory
from turnback.settings import Settings

READ_AT_ONCE = 20
"""Edits whose workflows are read at once: each needs two."""


async def kept(
    memory: Memory, edits: Sequence[Turn], onto: Workflow, settings: Settings
) -> Workflow:
    """The workflow `onto`, with people's edits made again in their order; all or nothing.

    It is `onto` itself where there are none. Raises `EditConflict` (data: the turn whose edit
    does not fit, and `conflicts`), `TooLarge`, `SnapshotMissing`.
    """
    tree = memory.tree
    steps = [tree.steps[turn.first.step_id] for turn in edits]
    if len(steps) > settings.max_kept_edits:
        raise TooLarge(
            f"One revert may keep {settings.max_kept_edits} edits (`max_kept_edits`); go back in "
            "smaller steps, or without `keepEdits`",
            limit="max_kept_edits",
            value=settings.max_kept_edits,
        )
    workflow = onto
    for at in range(0, len(steps), READ_AT_ONCE):
        some = steps[at : at + READ_AT_ONCE]
        found = await memory.workflows_of(hash_ for s in some for hash_ in (s.before, s.after))
        for step in some:
            try:
                workflow = replay(
                    found[step.before],
                    found[step.after],
                    onto=workflow,
                    max_bytes=settings.max_workflow_bytes,
                    max_depth=settings.max_json_depth,
                )
            except EditConflict as error:
                raise EditConflict(
                    "What was edited does not fit where HEAD would go; revert without `keepEdits` "
                    "to take it back too",
                    headId=tree.head.step_id,
                    messageId=step.turn_id,
                    **error.data,
                ) from None
    return workflow
