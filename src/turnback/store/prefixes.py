"""The inherited prefix of a fork: the path to its cutoff, as the parts of a tree.

Four statements, however long it is and however often it parts. The lists of segments are not read:
along one path they repeat each other, and are told from it (`core.lineage.unfolded`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from turnback.core.errors import SessionNotFound
from turnback.core.lineage import Branch, unfolded
from turnback.core.tree import Step, Turn
from turnback.store import forks, tree_rows
from turnback.store.database import Connection
from turnback.store.rows import SessionKey
from turnback.store.segments import segments

_PATH = segments(branch="$2::uuid", seq="$3::integer", after="0", until="$3::integer")

BRANCHES = f"""{_PATH}
select b.* from segments g cross join lateral (select {tree_rows.STUB} from branches
    where root_id = $1::uuid and id = g.src) b order by g.lo"""

STEPS = f"""{_PATH}
select r.* from segments g cross join lateral (select {tree_rows.STEP} from records
    where root_id = $1::uuid and branch_id = g.src and seq > g.lo and seq <= g.hi offset 0) r
order by r.seq"""

TURNS = f"select {tree_rows.TURN} from turns where root_id = $1::uuid and id = any($2::uuid[])"

IS_PURGED = """select exists (select from sessions
where root_id = $1::uuid and id = any($2::uuid[]) and purged_at is not null)"""


@dataclass(frozen=True, slots=True)
class Prefix:
    """What a fork's tree begins with, oldest first; `is_purged` where records of it were."""

    branches: list[Branch]
    turns: list[Turn]
    steps: list[Step]
    is_purged: bool = False


NONE = Prefix([], [], [])


async def read(connection: Connection, key: SessionKey) -> Prefix:
    """The session's prefix, as `connection` sees it; `NONE` where it inherits nothing.

    Turns are without their keys, which are those of the sessions that they were begun in. Raises
    `SessionNotFound` for a fork whose lineage is lost: nobody knows what it may show.
    """
    if key.id == key.root_id:
        return NONE
    row = await connection.fetchrow(forks.OF, key.root_id, key.id)
    if row is None:
        raise SessionNotFound("Agent not found")
    lineage = forks.lineage_of(row)
    cutoff = lineage.cutoff
    if cutoff.branch_id is None:
        return NONE
    place = (key.root_id, cutoff.branch_id, cutoff.seq)
    branches = await connection.fetch(BRANCHES, *place)
    steps = [tree_rows.step(r) for r in await connection.fetch(STEPS, *place)]
    turns = await connection.fetch(TURNS, key.root_id, list({step.turn_id for step in steps}))
    is_purged = len(steps) < cutoff.seq and await connection.fetchval(
        IS_PURGED, key.root_id, lineage.sources
    )
    return Prefix(
        branches=unfolded(tree_rows.stub(r) for r in branches),
        turns=[replace(tree_rows.turn(r), key=None) for r in turns],
        steps=steps,
        is_purged=is_purged,
    )
