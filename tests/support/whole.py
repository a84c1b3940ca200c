"""Whether a database is whole: nothing half, whatever was killed while it was written.

Read with plain SQL, beside the service; only a snapshot is put together by the code under test,
which checks every hash on its way.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import asyncpg
import orjson

from turnback.core.principal import LOCAL
from turnback.store.dao import Dao
from turnback.store.database import Database
from turnback.store.ids import new_id
from turnback.store.rows import SessionKey
from turnback.store.url import asyncpg_dsn

Row = Mapping[str, Any]

TABLES = (
    "session_directory",
    "families",
    "sessions",
    "branches",
    "turns",
    "records",
    "blobs",
    "session_events",
    "session_redo",
    "session_requests",
    "run_leases",
)


async def rows_of(url: str, *, apart_from: tuple[str, ...] = ()) -> dict[str, list[Row]]:
    """Every row of every table, as of one snapshot, in a fixed order."""
    connection = await asyncpg.connect(asyncpg_dsn(url))
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            return {
                table: [
                    dict(row)
                    for row in await connection.fetch(
                        f"select * from {table} order by {table}::text"
                    )
                ]
                for table in TABLES
                if table not in apart_from
            }
    finally:
        await connection.close()


async def check_whole(url: str) -> dict[str, list[Row]]:
    """Assert that every session of the database is whole; its rows, for more questions."""
    rows = await rows_of(url)
    for session in rows["sessions"]:
        _check_session(session, rows)
    directory = {row["id"] for row in rows["session_directory"]}
    assert directory == {row["id"] for row in rows["sessions"]}
    assert directory == {row["root_id"] for row in rows["families"]}
    await _check_snapshots(url, rows)
    return rows


def _of(session: Row, rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["session_id"] == session["id"]]


def _check_session(session: Row, rows: dict[str, list[Row]]) -> None:
    records = {row["id"]: row for row in _of(session, rows["records"])}
    turns = {row["id"]: row for row in _of(session, rows["turns"])}
    branches = {row["id"]: row for row in _of(session, rows["branches"])}
    events = sorted(_of(session, rows["session_events"]), key=lambda row: row["event_seq"])
    _check_records(session, records, turns, branches)
    _check_turns(session, records, turns)
    _check_head(session, records, _of(session, rows["session_redo"]))
    _check_events(session, records, events)
    _check_run(session, turns, _of(session, rows["run_leases"]))
    for request in _of(session, rows["session_requests"]):
        assert 0 < request["event_seq"] <= session["revision"]
        head = orjson.loads(request["answer"])["headId"]
        assert head == "step-initial" or any(str(id_) == head for id_ in records)


def _check_records(session: Row, records: Any, turns: Any, branches: Any) -> None:
    for record in records.values():
        assert record["turn_id"] in turns
        assert record["branch_id"] in branches
        parent = records[record["parent_id"]] if record["parent_id"] else None
        before = parent["after_hash"] if parent else session["initial_hash"]
        assert record["before_hash"] == before
        assert record["seq"] == (parent["seq"] + 1 if parent else 1)
        if parent is not None and parent["branch_id"] != record["branch_id"]:
            cutoff = branches[record["branch_id"]]
            assert (cutoff["cutoff_branch"], cutoff["cutoff_seq"], cutoff["cutoff_step"]) == (
                parent["branch_id"],
                parent["seq"],
                parent["id"],
            )
    held = {record["branch_id"] for record in records.values()}
    assert held == set(branches), "a branch without a record"


def _check_turns(session: Row, records: Any, turns: Any) -> None:
    parts = defaultdict(list)
    for record in records.values():
        parts[record["turn_id"]].append(record)
    assert parts.keys() == turns.keys(), "a turn without its question"
    for id_, turn in turns.items():
        steps = sorted(parts[id_], key=lambda row: row["step_index"])
        assert [step["step_index"] for step in steps] == list(range(len(steps)))
        first = steps[0]
        assert first["role"] == "user"
        assert (turn["first_branch"], turn["first_seq"], turn["first_step"]) == (
            first["branch_id"],
            first["seq"],
            first["id"],
        )
        ends = [step["end_reason"] for step in steps if step["end_reason"]]
        if turn["status"] == "running":
            assert (ends, turn["sealed_at"]) == ([], None)
        else:
            assert ends == [steps[-1]["end_reason"]]
            assert (turn["sealed_at"] is not None, turn["last_seq"]) == (True, steps[-1]["seq"])
            assert turn["status"] == ("stopped" if ends == ["limit"] else ends[0])


def _check_head(session: Row, records: Any, redo: list[Row]) -> None:
    places = {(None, 0, None): session["initial_hash"]}
    for record in records.values():
        places[record["branch_id"], record["seq"], record["id"]] = record["after_hash"]
    head = (session["head_branch"], session["head_seq"], session["head_step"])
    assert session["workflow_hash"] == places[head]
    top, depth = session["redo_top"], session["redo_depth"]
    stack = [row for row in redo if top - depth < row["n"] <= top]
    assert len(stack) == depth
    assert all((row["branch_id"], row["seq"], row["step_id"]) in places for row in stack)


def _check_events(session: Row, records: Any, events: list[Row]) -> None:
    floor, revision = session["events_floor"], session["revision"]
    assert [event["event_seq"] for event in events] == list(range(floor + 1, revision + 1))
    told = {}
    for event in events:
        data = orjson.loads(event["data"])
        if event["type"] == "step":
            step = data.get("step", str(event["commit_id"]))
            assert step not in told, "a step told twice"
            told[step] = event["event_seq"]
        elif event["type"] == "head":
            assert data["head"] == "step-initial" or any(
                str(id_) == data["head"] for id_ in records
            )
    if floor == 0:
        assert told == {str(row["id"]): row["event_seq"] for row in records.values()}
        states = [orjson.loads(e["data"])["state"] for e in events if e["type"] == "status"]
        assert session["state"] == (states[-1] if states else "AVAILABLE")


def _check_run(session: Row, turns: Any, leases: list[Row]) -> None:
    running = [turn for turn in turns.values() if turn["status"] == "running"]
    busy = session["state"] != "AVAILABLE"
    assert len(running) == len(leases) == int(busy)
    assert all(lease["fence"] == session["fence"] for lease in leases)


async def _check_snapshots(url: str, rows: dict[str, list[Row]]) -> None:
    wanted = defaultdict(set)
    for row in rows["sessions"]:
        wanted[str(row["root_id"])] |= {row["workflow_hash"].hex(), row["initial_hash"].hex()}
    for row in rows["records"]:
        wanted[str(row["root_id"])] |= {row["before_hash"].hex(), row["after_hash"].hex()}
    database = await Database.open(url, size=1, connect_timeout=10, statement_timeout=30)
    try:
        dao = Dao(
            database,
            node_id=new_id(),
            max_redo_depth=1000,
            directory_cache=100,
            attachments=Path("none"),
        )
        for root, hashes in wanted.items():
            found = await dao.workflows(LOCAL, SessionKey(root, root), hashes)
            assert found.keys() == hashes
    finally:
        await database.close()


def told_once(frames: list[dict[str, Any]]) -> None:
    """Assert that no durable frame was told twice and none is missing in between."""
    seqs = [frame["eventSeq"] for frame in frames]
    assert not [seq for seq, count in Counter(seqs).items() if count > 1]
    first = seqs[0] if seqs else 0
    assert seqs == list(range(first, first + len(seqs)))
