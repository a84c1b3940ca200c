"""A fork beside what copies: our records copied by SQL and by an application; and LangGraph's."""

from __future__ import annotations

import asyncpg

from bench import bulk
from bench.measure import Act, Row, in_turn, timed, told
from bench.rivals.run import NAMES, forks
from bench.rows.fork import act
from bench.world import World
from turnback.store.ids import new_id

WHAT = (
    "A fork of a session of 100 records and of one of 10,000, in turns on one database: by the "
    "DAO; by one `INSERT` of a `SELECT` that copies the records under new ids; by an application "
    "that reads them and inserts them under new ids in one transaction. And, on the same "
    "PostgreSQL, LangGraph's from the checkpoint before the last of a thread with as many "
    "messages of 700 bytes."
)
RECORDS = (100, 10_000)
COLUMNS = (
    "root_id, branch_id, id, seq, session_id, turn_id, step_index, role, parent_id, before_hash, "
    "after_hash, end_reason, event_seq, principal, created_at, payload, folded"
)
COPIES = "create table copies (like records including all) partition by hash (root_id)"
PARTITION = """create table copies_{0} partition of copies
for values with (modulus 16, remainder {0})"""
COPY = f"""insert into copies ({COLUMNS})
select root_id, $3::uuid, gen_random_uuid(), seq, session_id, turn_id, step_index, role, parent_id,
    before_hash, after_hash, end_reason, event_seq, principal, created_at, payload, folded
from records where root_id = $1::uuid and branch_id = $2::uuid"""
READ = f"select {COLUMNS} from records where root_id = $1::uuid and branch_id = $2::uuid"
WRITE = f"insert into copies ({COLUMNS}) values ({', '.join(f'${n}' for n in range(1, 18))})"


async def measure(world: World) -> list[Row]:
    """Ours, the copies, and LangGraph's where it can be installed."""
    acts: dict[str, Act] = {}
    async with world.store() as store:
        connection = await asyncpg.connect(store.url)
        await connection.execute(COPIES)
        for n in range(16):
            await connection.execute(PARTITION.format(n))
        async with bulk.writing(store) as write:
            for records in RECORDS:
                line = await write.said(await write.session(), turns=records // 10)
                acts[f"{records:,} records: Turnback"] = act(store, line)
                acts[f"{records:,} records: copied by SQL"] = _copied(connection, line)
                acts[f"{records:,} records: copied by an application"] = _read(connection, line)
        series = await in_turn(acts, rounds=5, times=3, warm=1)
        await connection.close()
    rows = [
        told(f"fork of {name}", taken.median * 1000, unit="ms") for name, taken in series.items()
    ]
    for records, taken in (await forks(world, RECORDS)).items():
        name = f"fork of {records:,} records: {NAMES['langgraph']}"
        rows.append(told(name, taken, unit="ms"))
    return rows


def _copied(connection: asyncpg.Connection, line: bulk.Line) -> Act:
    place = (line.key.root_id, line.head.branch_id)
    return timed(lambda: connection.execute(COPY, *place, new_id()))


def _read(connection: asyncpg.Connection, line: bulk.Line) -> Act:
    async def read_and_write() -> None:
        async with connection.transaction():
            found = await connection.fetch(READ, line.key.root_id, line.head.branch_id)
            branch = new_id()
            rows = [(row[0], branch, new_id(), *row[3:]) for row in map(tuple, found)]
            await connection.executemany(WRITE, rows)

    return timed(read_and_write)
