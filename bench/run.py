"""One run: the rows chosen, on a PostgreSQL made for them, into the table and the results."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from bench import report
from bench.measure import Row
from bench.rows import ROWS
from bench.world import World
from turnback import logs
from turnback.serve import GC_THRESHOLD
from turnback.store.embedded import Embedded
from turnback.store.migrate import migrate


def main(names: list[str]) -> None:
    """Measure the rows of these names, or all of them."""
    if unknown := set(names) - ROWS.keys():
        sys.exit(f"No row is called {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    logs.configure("error")
    gc.set_threshold(*GC_THRESHOLD)
    with (
        TemporaryDirectory(prefix="turnback-bench-") as folder,
        Embedded.start(Path(folder)) as embedded,
    ):
        world = World(embedded.url)
        asyncio.run(world.prepare())
        migrate(world.template)
        rows = uvloop.run(_measure(world, names or list(ROWS)))
    print(report.table(rows))
    if not names:
        report.write(rows)


async def _measure(world: World, names: list[str]) -> dict[str, list[Row]]:
    measured: dict[str, list[Row]] = {}
    for name in names:
        began = time.monotonic()
        gc.collect()
        gc.freeze()
        try:
            measured[name] = await ROWS[name].measure(world)
        except Exception:
            traceback.print_exc()
            print(f"{name}: could not be measured", file=sys.stderr)
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return measured


if __name__ == "__main__":
    main(sys.argv[1:])
