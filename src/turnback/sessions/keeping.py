"""What people edited in turns that are taken back, made again where HEAD goes (`keepEdits`)."""

from __future__ import annotations

from collections.abc import Sequence

from turnback.core.errors import EditConflict, TooLarge
from turnback.core.tree import Turn
from turnback.core.workflow import Workflow, replay
from turnback.sessions.memory import Memory
from turnback.settings import Settings

READ_AT_ONCE = 20
"""Runs of edits whose workflows are read at once: each needs two."""


async def kept(
    memory: Memory, edits: Sequence[Turn], onto: Workflow, settings: Settings
) -> Workflow:
    """The workflow `onto`, with people's edits made again in their order; all or nothing.

    It is `onto` itself where there are none. Raises `EditConflict` (data: HEAD, and as
    `conflicts` what does not fit), `TooLarge`, `SnapshotMissing`.
    """
    runs = _runs(memory, edits)
    if len(runs) > settings.max_kept_edits:
        raise TooLarge(
            f"One revert may keep {settings.max_kept_edits} runs of edits (`max_kept_edits`); go "
            "back in smaller steps, or without `keepEdits`",
            limit="max_kept_edits",
            value=settings.max_kept_edits,
        )
    workflow = onto
    for at in range(0, len(runs), READ_AT_ONCE):
        some = runs[at : at + READ_AT_ONCE]
        found = await memory.workflows_of(hash_ for run in some for hash_ in run)
        for before, after in some:
            try:
                workflow = replay(
                    found[before],
                    found[after],
                    onto=workflow,
                    max_bytes=settings.max_workflow_bytes,
                    max_depth=settings.max_json_depth,
                )
            except EditConflict as error:
                raise EditConflict(
                    "What was edited does not fit where HEAD would go; revert without `keepEdits` "
                    "to take it back too",
                    headId=memory.tree.head.step_id,
                    **error.data,
                ) from None
    return workflow


def _runs(memory: Memory, edits: Sequence[Turn]) -> list[tuple[str, str]]:
    """The workflows before and after each run of edits: nothing else was changed between them."""
    runs: list[tuple[str, str]] = []
    for turn in edits:
        step = memory.tree.steps[turn.first.step_id]
        if runs and runs[-1][1] == step.before:
            runs[-1] = (runs[-1][0], step.after)
        else:
            runs.append((step.before, step.after))
    return runs
