"""Bytes stored per step."""

from __future__ import annotations

import asyncpg

from bench.measure import Row, bounded, told
from bench.world import ByHand, World

WHAT = (
    "Growth of all tables, TOAST and indexes together (`pg_total_relation_size`, after "
    "`VACUUM`) by 5,000 steps of one turn each 100, 50 KB workflow, 2 operators changed."
)
SIZES = """select coalesce(p.relname, c.relname) as name, sum(pg_total_relation_size(c.oid))::bigint
from pg_class c join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'public'
left join pg_inherits i on i.inhrelid = c.oid left join pg_class p on p.oid = i.inhparent
where c.relkind = 'r' group by 1"""
BEFORE, STEPS, STEPS_IN_A_TURN = 1_000, 5_000, 100


async def measure(world: World) -> list[Row]:
    """All of it, and the tables that take most."""
    hand = ByHand()
    async with world.store() as store:
        key = await store.session()

        async def steps(count: int) -> None:
            async with store.actor(key, hand.start) as actor:
                for _ in range(count // STEPS_IN_A_TURN):
                    run = await hand.prompt(actor)
                    for n in range(2, STEPS_IN_A_TURN + 1):
                        await hand.step(actor, run, last=n == STEPS_IN_A_TURN)

        await steps(BEFORE)
        before = await sizes(store.url)
        await steps(STEPS)
        after = await sizes(store.url)
    grown = {name: (size - before[name]) / STEPS for name, size in after.items()}
    parts = sorted(grown, key=lambda name: -grown[name])[:3]
    return [
        bounded("bytes stored per step", sum(grown.values()), unit="B", at_most=2_048),
        *(told(f"of them in `{name}`", grown[name], unit="B") for name in parts),
    ]


async def sizes(url: str) -> dict[str, int]:
    """The bytes of each table with its TOAST and indexes, partitions counted together."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("vacuum")
        return dict(map(tuple, await connection.fetch(SIZES)))
    finally:
        await connection.close()
