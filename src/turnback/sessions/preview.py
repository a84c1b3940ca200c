"""What a revert would take back, told before it is done. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from turnback.core.effects import Effect
from turnback.core.errors import Archived, EditConflict, SnapshotMissing, TooLarge
from turnback.core.principal import Principal
from turnback.core.tree import State, Step, Turn
from turnback.core.undo.plan import OPEN_STANDINGS
from turnback.core.workflow import Diff, diff
from turnback.sessions.keeping import kept
from turnback.sessions.memory import Memory
from turnback.sessions.undoing import steps_from
from turnback.settings import Settings
from turnback.store.ids import is_id

SHOWN = 200
"""Characters shown of what a turn began with."""


@dataclass(frozen=True, slots=True)
class TurnLeft:
    """A turn that HEAD would leave: how many of its steps, how it began, and when (ms)."""

    turn: Turn
    steps: int
    content: str
    timestamp: int


@dataclass(frozen=True, slots=True)
class Preview:
    """What a revert to before `first` would take back, as things stand at `head_id`.

    `turns` and `edits` are the newest `preview_turns` of those there are, oldest first, and
    `turn_count` and `edit_count` count them all. `needs_confirm`: another person's edit is among
    them. `diff` leads from HEAD's workflow to the target's, None where HEAD's cannot be read.
    `keeps_edits`: whether they could be made again there; `conflicts` says what does not fit.
    `effects` are what those steps did outside that stands still, or may; oldest first, of what
    a fork inherits too.
    """

    head_id: str
    target_head_id: str
    busy: bool
    turns: list[TurnLeft]
    turn_count: int
    edits: list[TurnLeft]
    edit_count: int
    needs_confirm: bool
    keeps_edits: bool
    conflicts: list[dict[str, str]]
    diff: Diff | None
    effects: list[Effect]


async def preview(
    memory: Memory,
    settings: Settings,
    principal: Principal,
    *,
    turn_id: str | None = None,
    step_id: str | None = None,
) -> Preview:
    """What `principal`'s revert of this turn, or of this step, would take back.

    Refuses as the revert would (`UnknownTurn`, `UnknownStep`, `NotOnPath`, `Archived`,
    `HistoryPurged`, `SnapshotMissing`), but for `Busy`, which it says.
    """
    tree = memory.tree
    if memory.row.archived_at is not None:
        raise Archived("The session is archived; unarchive it to go on")
    first = tree.named_on_path(turn_id=turn_id, step_id=step_id)
    head_id, target_head_id = tree.head.step_id, tree.parent(first).step_id
    here, most = memory.workflow, settings.preview_turns
    turns = list(tree.turns_since(first))[::-1]
    edits, crossed = tree.edits_since(first), tree.crossed(first, by=principal.id)
    busy = tree.state is not State.AVAILABLE
    target = await memory.workflow_of(first.before)
    conflicts: list[dict[str, str]] = []
    keeps = True
    try:
        await kept(memory, edits, target, settings)
    except (EditConflict, TooLarge, SnapshotMissing) as error:
        keeps = False
        conflicts = error.data.get("conflicts", [])
    return Preview(
        head_id=head_id,
        target_head_id=target_head_id,
        busy=busy,
        turns=await described(memory, turns[-most:]),
        turn_count=len(turns),
        edits=await described(memory, [(turn, 1) for turn in edits[-most:]]),
        edit_count=len(edits),
        needs_confirm=bool(crossed),
        keeps_edits=keeps,
        conflicts=conflicts,
        diff=None if here is None else diff(here, target),
        effects=await _standing(memory, steps_from(tree, first)),
    )


async def _standing(memory: Memory, steps: Sequence[str]) -> list[Effect]:
    effects = memory.dao.effects
    own = [logged.effect for logged in await effects.standing(memory.key)]
    others = await effects.of_others(memory.key, [], steps=[id_ for id_ in steps if is_id(id_)])
    left = set(steps)
    return [
        effect
        for effect in (*(logged.effect for logged in others), *own)
        if effect.step_id in left and effect.standing in OPEN_STANDINGS
    ]


async def described(memory: Memory, turns: Sequence[tuple[Turn, int]]) -> list[TurnLeft]:
    """Turns with how many of their steps, told with how they began."""
    firsts: list[Step] = [memory.tree.steps[turn.first.step_id] for turn, _ in turns]
    records = await memory.records(firsts)
    return [
        TurnLeft(turn, steps, orjson.loads(record.payload)["content"][:SHOWN], record.timestamp)
        for (turn, steps), record in zip(turns, records, strict=True)
    ]
