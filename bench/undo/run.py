"""One run of the evaluation, on a PostgreSQL made for it: the gates, and the controls that fail."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import report
from bench.undo import controls, gates
from bench.undo.adapters import ADAPTERS
from bench.undo.gates import Gate, kept
from bench.undo.scene import Tier, read
from bench.world import World
from turnback import logs
from turnback.store.embedded import Embedded
from turnback.store.migrate import migrate

OWN = (10, 28)
"""Tasks that have to come back wholly, and in part, with the suites' own tools (undo.md 8)."""

ADAPTED = (15, 35)
"""The same with the adapters, of which the design asks nothing: less than this is a step back."""


def main() -> int:
    """Run it; 1 where a gate does not hold, or a control passes all of them."""
    logs.configure("critical")
    os.environ["TURNBACK_SECRET_KEY"] = secrets.token_urlsafe(32)
    with (
        TemporaryDirectory(prefix="turnback-undo-") as folder,
        Embedded.start(Path(folder)) as embedded,
    ):
        world = World(embedded.url)
        asyncio.run(world.prepare())
        migrate(world.template)
        found = asyncio.run(_evaluate(world))
    print(report.gates_table(found))
    report.write_gates(found)
    return 0 if all(gate.met for gate in found) else 1


async def _evaluate(world: World) -> list[Gate]:
    own = Tier("own tools", read("own_tools.yaml"))
    adapted = Tier("with adapters", read("adapters.yaml"), ADAPTERS)
    async with world.store() as store:
        trials = await gates.run(store, own)
        found = gates.gates(trials, power=OWN)
        for one in trials.all:
            if one.false_fully or one.unclaimed or one.overwritten or one.overrun:
                print(one, file=sys.stderr)
        for case, one in trials.drifts:
            if not kept(case, one):
                print(case.name, one.outcome, one.states, file=sys.stderr)
        found += await gates.plain(store, adapted, power=ADAPTED)
        return [*found, *await controls.run(store, own)]


if __name__ == "__main__":
    sys.exit(main())
