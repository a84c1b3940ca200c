"""The world note: what a user's message says of effects that stand otherwise than its conversation.

Written into the user's record with it, once for each effect and standing, and given to the model as
data (undo.md 3). Tools, verbs, keys and people; no prompt, argument or output of a turn that was
reverted.
"""

from __future__ import annotations

from typing import Any

import orjson

from turnback.core.effects import Effect
from turnback.core.tree import Role
from turnback.core.values import shown
from turnback.sessions import standing
from turnback.sessions.memory import HISTORY_BLOCK, Memory

MOST = 50
"""Effects in one note, the newest; the page lists them all."""

LONGEST_THING = 80
"""Characters of a thing's kind and key."""


async def note(memory: Memory) -> list[dict[str, Any]]:
    """What is out of step with HEAD and has not been said on the path to it, oldest first.

    Raises `DatabaseUnavailable`.
    """
    stands = {one.effect_id: one.standing for one in await standing.now(memory)}
    if not stands:
        return []
    said = await _said(memory)
    news = [id_ for id_, now in stands.items() if said.get(id_) != now][-MOST:]
    logged = await memory.dao.effects.by_id(memory.key, news)
    return [_entry(one.effect, secret=one.is_secret) for one in logged]


def _entry(effect: Effect, *, secret: bool) -> dict[str, Any]:
    things = dict.fromkeys(
        shown(
            f"{touch.resource.kind} {', '.join(map(str, touch.resource.key))}", limit=LONGEST_THING
        )
        for touch in effect.touches
    )
    return {
        "effectId": effect.id,
        "standing": effect.standing,
        "tool": f"{effect.connection}.{effect.tool}",
        "things": [] if secret else list(things),
        "people": len(effect.people),
        "at": effect.at,
    }


async def _said(memory: Memory) -> dict[str, str]:
    """What the messages on the path have said last of each effect."""
    steps = [step for step in memory.tree.remaining_path() if step.role is Role.USER]
    said: dict[str, str] = {}
    for at in range(0, len(steps), HISTORY_BLOCK):
        for record in await memory.records(steps[at : at + HISTORY_BLOCK]):
            if '"world"' in record.payload:
                for entry in orjson.loads(record.payload).get("world", ()):
                    said.setdefault(entry["effectId"], entry["standing"])
    return said
