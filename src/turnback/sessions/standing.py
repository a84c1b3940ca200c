"""Which effects stand otherwise than the conversation has it (undo.md 3).

On the visible path and no longer in force, or off it and in force all the same. A standing is the
world's: revert, redo and checkout change none, only what is out of step with it.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Sequence

from turnback.core.lineage import Branch, Position, segments_at
from turnback.core.tree import Tree
from turnback.core.undo.plan import OPEN_STANDINGS
from turnback.sessions.memory import Memory
from turnback.store.outbox import OutOfStep
from turnback.store.stands import Stands


def out_of_step(
    tree: Tree, stands: Iterable[Stands], *, head: Position, begun: Iterable[Branch] = ()
) -> tuple[OutOfStep, ...]:
    """Those of these effects that are not as the path to `head` has them.

    `begun` are branches that the tree does not have yet, since `head` moves to one of them.
    """
    is_on = _on_path_to(tree, head, begun)
    return tuple(
        OutOfStep(one.id, one.standing)
        for one in stands
        if is_on(one) not in (None, one.standing in OPEN_STANDINGS)
    )


def remaining(
    tree: Tree,
    stands: Iterable[Stands],
    *,
    head: Position,
    after: Position,
    begun: Iterable[Branch] = (),
) -> tuple[str, ...]:
    """The tools whose effects are in force, on the path to `head` and not on that to `after`."""
    is_on, will_be_on = _on_path_to(tree, head), _on_path_to(tree, after, begun)
    return tuple(
        dict.fromkeys(
            one.tool
            for one in stands
            if one.standing in OPEN_STANDINGS and is_on(one) and not will_be_on(one)
        )
    )


async def now(memory: Memory) -> tuple[OutOfStep, ...]:
    """What is out of step with HEAD now. Raises `DatabaseUnavailable`."""
    stands = await of_family(memory)
    return out_of_step(memory.tree, stands, head=memory.tree.head)


async def of_family(memory: Memory) -> Sequence[Stands]:
    """Where the effects of the session's family stand. Raises `DatabaseUnavailable`."""
    return await memory.dao.stands.of(memory.key, memory.stands)


def _on_path_to(
    tree: Tree, head: Position, begun: Iterable[Branch] = ()
) -> Callable[[Stands], bool | None]:
    """What says whether an effect's step is on the path to `head`; None: it is not known here."""
    branches = ChainMap({branch.id: branch for branch in begun}, tree.branches)
    path = {part.source: part for part in segments_at(branches, head)}

    def is_on(one: Stands) -> bool | None:
        step = tree.steps.get(one.step_id)
        if step is None:
            return None
        part = path.get(step.position.branch_id or "")
        return part is not None and part.lo < step.position.seq <= part.hi

    return is_on
