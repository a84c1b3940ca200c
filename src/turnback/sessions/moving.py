"""Plans that move HEAD without a run: revert, confirmed or keeping edits; redo and checkout."""

from __future__ import annotations

from turnback.core.errors import ConfirmationRequired
from turnback.core.tree import Event, HeadMoved, NewIds, Step
from turnback.core.workflow import edits_between
from turnback.sessions import payloads
from turnback.sessions.commands import RevertStep, RevertTurn
from turnback.sessions.keeping import kept
from turnback.sessions.memory import Memory
from turnback.sessions.plans import Plan
from turnback.sessions.preview import described
from turnback.settings import Settings
from turnback.store.rows import Idle


async def moved(memory: Memory, events: tuple[Event, ...]) -> Plan:
    """HEAD to another step, and its workflow with it. Raises `SnapshotMissing`."""
    [move] = [event for event in events if isinstance(event, HeadMoved)]
    return Plan(
        guard=Idle(memory.revision),
        events=events,
        after=await memory.workflow_of(move.workflow),
    )


async def reverted(
    memory: Memory, settings: Settings, command: RevertTurn | RevertStep, ids: NewIds, by: str
) -> Plan:
    """HEAD to before a turn or a step, and the edits that are to be kept made again there.

    Refuses as the tree does, and with `ConfirmationRequired`, `EditConflict`, `SnapshotMissing`.
    """
    tree = memory.tree
    if isinstance(command, RevertTurn):
        plan = await moved(memory, tree.revert(command.turn_id))
        first = tree.turn_on_path(command.turn_id)
    else:
        plan = await moved(memory, tree.revert_step(command.step_id))
        first = tree.step_on_path(command.step_id)
    if command.keep_edits:
        return await _keeping(memory, settings, plan, first, ids, by)
    if not command.confirm:
        await _refuse_unconfirmed(memory, settings, first, by)
    return plan


async def _keeping(
    memory: Memory, settings: Settings, plan: Plan, first: Step, ids: NewIds, by: str
) -> Plan:
    """The plain revert's plan with the edits made again; itself where that changes nothing."""
    target, tree = plan.after, memory.tree
    assert target is not None
    after = await kept(memory, tree.edits_since(first), target, settings)
    if after == target:
        return plan
    return Plan(
        guard=plan.guard,
        events=tree.revert_keeping(first, ids, after.hash, by=by),
        payload=payloads.of_edit(edits_between(target, after), kept=True),
        via=target,
        after=after,
        blobs=after.blobs(since=target),
        turn_id=ids.turn,
    )


async def _refuse_unconfirmed(memory: Memory, settings: Settings, first: Step, by: str) -> None:
    tree = memory.tree
    crossed = tree.crossed(first, by=by)
    if crossed:
        shown = [(turn, 1) for turn in crossed[-settings.preview_turns :]]
        raise ConfirmationRequired(
            "This takes back what others have edited; send it again with `confirm`, or with "
            "`keepEdits`",
            headId=tree.head.step_id,
            count=len(crossed),
            edits=[
                {
                    "messageId": left.turn.id,
                    "by": left.turn.by,
                    "content": left.content,
                    "timestamp": left.timestamp,
                }
                for left in await described(memory, shown)
            ],
        )
