"""Every step in full, oldest first, as a base client expects them and as far as one frame has room.

What a base socket is sent first, and what the door's reads answer with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from turnback.api import encode
from turnback.core.principal import Principal
from turnback.core.workflow import Workflow
from turnback.sessions.actor import Actor
from turnback.store.dao import Dao
from turnback.store.rows import Record

READ_AT_ONCE = 20
"""Records that are read at once, until a frame is full."""


async def base_snapshot(
    dao: Dao, principal: Principal, actor: Actor, *, max_bytes: int
) -> dict[str, Any]:
    """A `WsServerSnapshotEvent` without a + member; past `max_bytes` older steps lack contents."""
    view = actor.view(steps=None)
    ids = list(actor.memory.tree.steps)  # every step, in the order they were written
    records = await dao.records(principal, actor.key, ids)
    workflows = await _contents(dao, principal, actor, records, max_bytes=max_bytes)
    # Large workflows take long to put together; a thread leaves the others their turns.
    return await asyncio.to_thread(
        encode.base_snapshot, view, records, workflows, max_bytes=max_bytes
    )


async def _contents(
    dao: Dao, principal: Principal, actor: Actor, records: Sequence[Record], *, max_bytes: int
) -> dict[str, Workflow]:
    """The workflows before and after the newest records: those that one frame has room for."""
    found: dict[str, Workflow] = {}
    left = max_bytes
    for end in range(len(records), 0, -READ_AT_ONCE):
        steps = [record.step for record in records[max(0, end - READ_AT_ONCE) : end]]
        hashes = [hash_ for step in steps for hash_ in (step.before, step.after)]
        found |= await dao.workflows(principal, actor.key, set(hashes) - found.keys())
        left -= sum(found[hash_].size for hash_ in hashes if hash_ in found)
        if left < 0:
            break
    return found
