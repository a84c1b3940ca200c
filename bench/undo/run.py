"""One run of the evaluation, on a PostgreSQL made for it: the gates, and the controls that fail."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import secrets
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import report
from bench.undo import controls, gates, pairs, possible, strangers
from bench.undo.adapters import ADAPTERS
from bench.undo.dojo import tasks
from bench.undo.gates import Gate, Plan
from bench.undo.scene import Tier, read
from bench.undo.service import serving
from bench.world import World
from turnback import logs
from turnback.store.embedded import Embedded
from turnback.store.migrate import migrate

SEEDS = 10
"""Random sequences of each suite, in each tier."""


PARTS = 4
"""Processes in which tiers and controls go on at the same time."""

INVITING = "invite_user_to_slack"
"""Says that it sends an invitation, and sends none."""


def plans() -> list[Plan]:
    """Both tiers; of the second the design asks nothing of what comes back, so its numbers are
    ours: less than that is a step back."""
    own = Tier("own tools", read("own_tools.yaml"))
    adapted = Tier("with adapters", read("adapters.yaml"), ADAPTERS, keeps_keys=True)
    telling = adapted.contracts["slack"][INVITING].model_copy(update={"key": None})
    slack = {**own.contracts["slack"], INVITING: telling}
    strict = Tier("own tools, invitations tell", {**own.contracts, "slack": slack})
    return [
        Plan(own, strangers.OWN, pairs.OWN, possible.OWN, SEEDS, 10, 28, strict=(INVITING, strict)),
        Plan(adapted, strangers.ADAPTED, pairs.ADAPTED, possible.ADAPTED, SEEDS, 15, 40, ours=True),
    ]


def main() -> int:
    """Run it; 1 where a gate does not hold, or a control breaks no rule."""
    os.environ["TURNBACK_SECRET_KEY"] = secrets.token_urlsafe(32)
    with (
        TemporaryDirectory(prefix="turnback-undo-") as folder,
        Embedded.start(Path(folder)) as embedded,
    ):
        world = World(embedded.url)
        asyncio.run(world.prepare())
        migrate(world.template)
        names = [*(plan.tier.name for plan in plans()), *controls.CONTROLS]
        urls = [world.sibling(f"part_{n}") for n in range(len(names))]
        asyncio.run(world.copies(urls))
        with ProcessPoolExecutor(PARTS, multiprocessing.get_context("spawn")) as pool:
            found = [gate for part in pool.map(_part, names, urls) for gate in part]
    print(report.gates_table(found))
    report.write_gates(found)
    report.write_documents()
    return 0 if all(gate.met for gate in found) else 1


def _part(name: str, url: str) -> list[Gate]:
    """A tier or a control, in a process of its own, on a database of its own."""
    logs.configure("critical")
    return asyncio.run(_evaluate(name, url))


async def _evaluate(name: str, url: str) -> list[Gate]:
    known = {task.id: task for task in tasks()}
    async with serving(url) as service:
        if name in controls.CONTROLS:
            return [await controls.run(service, name, plans(), known)]
        [plan] = [plan for plan in plans() if plan.tier.name == name]
        trials = await gates.run(service, plan, known)
    for one in trials.all:
        if one.broken:
            print(one, file=sys.stderr)
    return gates.gates(trials, plan)


if __name__ == "__main__":
    sys.exit(main())
