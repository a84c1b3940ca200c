"""Several effects on one thing: of one session after another, of two at once, with a stranger."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from bench.undo.carrying import carry
from bench.undo.dojo import Leaves, Task, differing
from bench.undo.scene import Scene, Tier, scene
from bench.undo.trial import TAKEN_BACK, Trial, apply, clicked_again, judged
from bench.world import Store
from turnback.core.effects import Json

BANK = "banking/user_task_2"
SCHEDULED = ("bank_account", "scheduled_transactions", "7")

Args = Mapping[str, Json]


async def trials(store: Store, tier: Tier, known: Mapping[str, Task]) -> list[Trial]:
    """All of them."""
    if BANK not in known:
        return []
    return [
        await _one_after_another(store, tier, known[BANK]),
        await _stranger_between(store, tier, known[BANK]),
        await _two_sessions(store, tier, known[BANK]),
    ]


async def _pay(one: Scene, **args: Json) -> None:
    await one.make("update_scheduled_transaction", {"id": 7, **args})


async def _one_after_another(store: Store, tier: Tier, task: Task) -> Trial:
    async with scene(store, task, tier) as one:
        for amount in (1, 2, 3):
            await _pay(one, amount=amount)
        await _pay(one, subject="ours")
        one.after = one.dojo.leaves
        return await _ended(one, {}, "undisturbed: four writes to one thing")


async def _stranger_between(store: Store, tier: Tier, task: Task) -> Trial:
    """Right after the first inverse has acted, a stranger writes the same leaf."""
    async with scene(store, task, tier) as one:
        for amount in (1, 2):
            await _pay(one, amount=amount)
        one.after = one.dojo.leaves
        theirs: Leaves = {(*SCHEDULED, "amount"): 77.0}
        inverses = 0

        def late(tool: str) -> None:
            nonlocal inverses
            if inverses == 1:
                one.dojo.act("update_scheduled_transaction", {"id": 7, "amount": 77})
            inverses += tool == "update_scheduled_transaction" or inverses == 1

        one.dojo.late = late
        return await _ended(one, theirs, "a stranger between two inverses")


async def _two_sessions(store: Store, tier: Tier, task: Task) -> Trial:
    """A session writes to a thing before another one's call has answered; that one is undone."""
    async with scene(store, task, tier) as one, scene(store, task, tier, shared=one) as other:
        one.dojo.slow = {"update_scheduled_transaction": 0.3}

        sent = asyncio.Event()
        one.dojo.late = lambda tool: sent.set() if tool == "update_scheduled_transaction" else None

        async def meanwhile() -> None:
            await sent.wait()
            await _pay(other, subject="theirs")

        await asyncio.gather(_pay(one, amount=1), meanwhile())
        one.dojo.slow = {}
        one.after = one.dojo.leaves
        return await _ended(
            one, {(*SCHEDULED, "subject"): "theirs"}, "undisturbed: two sessions at once"
        )


async def _ended(one: Scene, theirs: Leaves, name: str) -> Trial:
    expected = dict(one.before)
    apply(expected, theirs)
    began = len(one.dojo.made)
    ended = await carry(one)
    one.dojo.late = lambda _: None
    if theirs and not any(row.state in TAKEN_BACK for row in ended.compensations.values()):
        ended = await carry(one, ended)  # the rest is tried again
    writes = [t for t in one.dojo.made[began:] if t == "update_scheduled_transaction"]
    now = one.dojo.leaves
    again = await clicked_again(one, ended)
    assert differing(one.dojo.leaves, now) == frozenset() or again
    overrun = max(0, len(writes) - ended.run.budget.calls)
    return judged(name, one, ended, now, expected, theirs, overrun=overrun, again=again)
