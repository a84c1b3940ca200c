"""The inherited prefix of a fork: the path to its cutoff, as the parts of a tree.

Four statements, however long it is and however often it parts. The lists of segments are not read:
along one path they repeat each other, and are told from it (`core.lineage.unfolded`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from turnback.core.errors import SessionNotFound
from turnback.core.lineage import Branch, unfolded
from turnback.core.tree import Purged, Step, Turn
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

PURGED = f"""{_PATH}
select p.id, p.turn_id, p.turn_index from segments g cross join lateral (
    select id, turn_id, turn_index from purged_records
    where root_id = $1::uuid and branch_id = g.src and seq > g.lo and seq <= g.hi offset 0) p"""

PURGED_SESSIONS = """select id from sessions
where root_id = $1::uuid and id = any($2::uuid[]) and purged_at is not null"""


@dataclass(frozen=True, slots=True)
class Prefix:
    """What a fork's tree begins with, oldest first; of what was purged, what is left, by id."""

    branches: list[Branch]
    turns: list[Turn]
    steps: list[Step]
    purged: dict[str, Purged]


NONE = Prefix([], [], [], {})


async def read(connection: Connection, key: SessionKey, *, family_epoch: int) -> Prefix:
    """The session's prefix, as `connection` sees it; `NONE` where it inherits nothing.

    Turns are without their keys, which are those of the sessions that they were begun in. Nothing
    of a purged session is in it, whether or not its purge has come to its end. Raises
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
    branches = unfolded(tree_rows.stub(r) for r in await connection.fetch(BRANCHES, *place))
    steps = [tree_rows.step(r) for r in await connection.fetch(STEPS, *place)]
    turns = {
        row["id"]: replace(tree_rows.turn(row), key=None)
        for row in await connection.fetch(
            TURNS, key.root_id, list({step.turn_id for step in steps})
        )
    }
    purged: dict[str, Purged] = {}
    if family_epoch:
        rows = await connection.fetch(PURGED_SESSIONS, key.root_id, lineage.sources)
        sessions = {row["id"] for row in rows}
        gone = {branch.id for branch in branches if branch.session_id in sessions}
        for row in await connection.fetch(PURGED, *place):
            purged[row["id"]] = Purged(row["turn_id"], row["turn_index"])
        for step in steps:
            if step.branch_id in gone:
                turn = turns.get(step.turn_id)
                purged[step.id] = Purged(step.turn_id, turn.effective_index if turn else 0)
        steps = [step for step in steps if step.branch_id not in gone]
        left = {step.turn_id for step in steps}
        turns = {id_: turn for id_, turn in turns.items() if id_ in left}
    return Prefix(branches, list(turns.values()), steps, purged)
