"""Which effects stand otherwise than the conversation has it (undo.md 3).

On the visible path and no longer in force, or off it and in force all the same. A standing is the
world's: revert, redo and checkout change none, only what is out of step with it.
"""

from __future__ import annotations

from collections.abc import Iterable

from turnback.core.lineage import Position, on_path
from turnback.core.tree import Tree
from turnback.core.undo.plan import OPEN_STANDINGS
from turnback.sessions.memory import Memory
from turnback.store.effects import Stands
from turnback.store.outbox import OutOfStep


def out_of_step(tree: Tree, stands: Iterable[Stands], *, head: Position) -> tuple[OutOfStep, ...]:
    """Those of these effects that are not as the path to `head` has them."""
    return tuple(
        OutOfStep(one.id, one.standing)
        for one in stands
        if _is_on(tree, one, head) not in (None, one.standing in OPEN_STANDINGS)
    )


def remaining(
    tree: Tree, stands: Iterable[Stands], *, head: Position, after: Position
) -> tuple[str, ...]:
    """The tools whose effects are in force, on the path to `head` and not on that to `after`."""
    return tuple(
        dict.fromkeys(
            one.tool
            for one in stands
            if one.standing in OPEN_STANDINGS
            and _is_on(tree, one, head)
            and not _is_on(tree, one, after)
        )
    )


async def now(memory: Memory) -> tuple[OutOfStep, ...]:
    """What is out of step with HEAD now. Raises `DatabaseUnavailable`."""
    stands = await memory.dao.effects.stands(memory.key)
    return out_of_step(memory.tree, stands, head=memory.tree.head)


def _is_on(tree: Tree, one: Stands, head: Position) -> bool | None:
    """Whether an effect's step is on the path to `head`; None: the session does not know it."""
    step = tree.steps.get(one.step_id)
    return None if step is None else on_path(tree.branches, head, step.position)
