"""A fork, of any history at any depth."""

from __future__ import annotations

from bench import bulk, floors
from bench.measure import Act, Row, against, in_turn, timed
from bench.world import Store, World
from turnback.core.lineage import Boundary, Side

WHAT = (
    "From the DAO's call to the fork's commit, at HEAD of a session of 10 records and of one of "
    "10,000, and at the end of a chain of forks of each, two records said in every one of them: "
    "the fork is then the 127th below the other. Then the same at a boundary, after the last turn. "
    "And of a session of 200 records with 100 attachments."
)
DEPTHS = (1, 127)
FILES = 100


async def measure(world: World) -> list[Row]:
    """Each against F."""
    async with world.store() as store, floors.row(store.url) as floor:
        acts: dict[str, Act] = {"F": floor}
        async with bulk.writing(store) as write:
            for turns in (1, 1_000):
                line = await write.said(await write.session(), turns=turns)
                for depth in DEPTHS:
                    source = await write.forked(line, depth=depth - 1, turns=1)
                    name = f"fork of {10 * turns:,} records, depth {depth}"
                    acts[name] = act(store, source)
                    acts[f"{name}, at a boundary"] = act(store, source, at=source.last_turn)
            line = await write.said(await write.session(), turns=20)
            await write.attached(line, files=FILES)
            attached = act(store, line)
            for _ in range(5):  # so that it is known that others read these files as well
                await attached()
        series = await in_turn(acts | {"attached": attached})
    floor_series, files = series.pop("F"), series.pop("attached")
    return [
        *(against(name, taken, floor_series, at_most=2, of="F") for name, taken in series.items()),
        against(f"fork with {FILES} attachments", files, floor_series, at_most=6, of="F"),
    ]


def act(store: Store, source: bulk.Line, *, at: str | None = None) -> Act:
    """A fork of all that the session shows, asked for as that or as what is after a turn."""
    boundary = None if at is None else Boundary(at, Side.AFTER)
    return timed(lambda: bulk.fork(store, source.key.id, boundary))
