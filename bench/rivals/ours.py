"""Turnback's own figures, by the same definitions as the rivals'."""

from __future__ import annotations

import time
from statistics import median

from bench.rows.size import sizes
from bench.world import ByHand, World
from turnback.core.principal import LOCAL
from turnback.sessions.commands import Asked, Redo, RevertStep

REVERTS = 20


async def measure(world: World, count: int) -> dict[str, float]:
    """One prompt, `count` steps; reverts by half the way; the whole history."""
    hand = ByHand()
    async with world.store() as store:
        key = await store.session()
        before = sum((await sizes(store.url)).values())
        async with store.actor(key, hand.start) as actor:
            run = await hand.prompt(actor)
            taken = []
            for n in range(count):
                draft = hand.draft(actor, last=n == count - 1)
                began = time.perf_counter()
                await actor.progress.append(run, run.step_id, draft)
                taken.append(time.perf_counter() - began)
            stored = sum((await sizes(store.url)).values()) - before
            middle = list(actor.memory.tree.steps)[count // 2]
            reverts = []
            for _ in range(REVERTS):
                began = time.perf_counter()
                await actor.ask(Asked(RevertStep(middle), LOCAL))
                reverts.append(time.perf_counter() - began)
                await actor.ask(Asked(Redo(), LOCAL))
        began = time.perf_counter()
        async with store.actor(key, hand.start) as actor:
            ids = [step.id for step in actor.memory.tree.path()]
            records = await store.dao.records(LOCAL, key, ids)
            hashes = {record.step.after for record in records}
            assert len(await store.dao.workflows(LOCAL, key, hashes)) == count + 1
        history = time.perf_counter() - began
    return {
        "step_ms": median(taken) * 1000,
        "step_bytes": stored / count,
        "revert_ms": median(reverts) * 1000,
        "history_ms": history * 1000,
    }
