"""Everything a server says of a quiet session, compared with the naive model, byte for byte."""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import asyncpg
import httpx
import orjson
from client_view import ROOT, as_base, check_base, check_v1
from naive_canvas import Document, canonical
from naive_merge import Clash
from processes import Process
from serving import Server as InProcess
from session_model import Frame, Model
from wire import is_error

from turnback.core.workflow import diff, load
from turnback.settings import Settings
from turnback.store.url import asyncpg_dsn

Server = InProcess | Process


async def check_everything(
    server: Server, session: str, model: Model, rng: random.Random, settings: Settings
) -> None:
    """Compare fresh snapshots of both kinds and every read of REST with the model."""
    await check_snapshots(server, session, model, settings)
    await check_session(server, session, model)
    await check_steps(server, session, model, rng)
    await check_transcript(server, session, model, rng)
    await check_workflows(server, session, model, rng)
    await check_branches(server, session, model)
    await check_diff(server, session, model, rng)
    await check_preview(server, session, model, rng)


async def first_text(server: Server, session: str, *, v1: bool) -> str:
    """A fresh socket's snapshot, as it came."""
    async with server.connect(session, v1=v1) as client:
        await client.snapshot()
        return client.texts[0]


async def check_snapshots(server: Server, session: str, model: Model, settings: Settings) -> None:
    """A v1 snapshot is the newest part of the path; a base one every step with its contents."""
    now = model.now
    frame = json.loads(await first_text(server, session, v1=True))
    check_v1(frame)
    shown = now.path[-settings.snapshot_steps :]
    cut = len(shown) < len(now.path)
    assert frame["steps"] == [model.steps[step_id] for step_id in shown]
    assert frame["stepsCursor"] == (shown[0] if cut else None)
    assert (frame["state"], frame["headId"], frame["eventSeq"]) == (now.state, now.head, now.seq)
    assert (frame["canRedo"], frame["redoDepth"]) == (bool(now.redo), len(now.redo))
    assert frame["redoId"] == (now.redo[-1][-1] if now.redo else None)
    assert (frame["name"], frame["archived"]) == (now.name, now.archived)
    assert frame["partial"] is None
    assert canonical(frame["workflowContent"]) == model.texts[now.head]
    from_ = [model.steps[shown[0]]["parentId"] if shown else ROOT, *shown]
    assert frame["branches"] == _partings(model, from_, settings.branch_choices)
    base = json.loads(await first_text(server, session, v1=False))
    check_base(base)
    assert base == {
        **as_base(frame),
        "steps": [_full(model, step_id) for step_id in model.steps],
    }


def _partings(model: Model, from_: list[str], choices: int) -> list[Frame]:
    found = []
    for parent, following in zip(from_, [*from_[1:], None], strict=True):
        lines = model.children(parent)[-choices:]
        if len(lines) > 1:
            index = lines.index(following) if following in lines else -1
            tips = [model.tip(line) for line in lines]
            found.append({"stepId": parent, "onPath": index, "tips": tips})
    return found


def _full(model: Model, step_id: str) -> Frame:
    step = as_base({"type": "WsServerStepEvent", "step": model.steps[step_id]})["step"]
    return step | {
        "beforeWorkflowContent": json.loads(model.before(step_id)),
        "afterWorkflowContent": model.document(step_id),
    }


async def check_session(server: Server, session: str, model: Model) -> None:
    """The session as listed, and the workflow at HEAD with its ETag."""
    now = model.now
    listed = (await _get(server, f"/sessions/{session}")).json()
    assert (listed["state"], listed["head_id"]) == (now.state, now.head)
    assert (listed["revision"], listed["name"]) == (now.seq, now.name)
    saved = await _get(server, f"/sessions/{session}/workflow")
    assert saved.text == model.texts[now.head]
    if now.path:
        assert saved.headers["etag"] == f'"{model.steps[now.head]["afterHash"]}"'
    again = await server.http.get(
        f"/sessions/{session}/workflow", headers={"if-none-match": saved.headers["etag"]}
    )
    assert again.status_code == 304


async def check_steps(server: Server, session: str, model: Model, rng: random.Random) -> None:
    """The visible path and every step, each in pages of a random size."""
    for query, expected in (("", model.now.path), ("&all=true", tuple(model.steps))):
        size = rng.randrange(1, 30) if len(expected) < 100 else 90
        found: list[Frame] = []
        before = ""
        while True:
            url = f"/sessions/{session}/steps?limit={size}{query}{before}"
            page = (await _get(server, url)).json()
            found = page["steps"] + found
            if page["next_cursor"] is None:
                break
            assert len(page["steps"]) == size
            before = f"&before={page['next_cursor']}"
        assert found == [_record(session, model, step_id) for step_id in expected]


async def check_transcript(server: Server, session: str, model: Model, rng: random.Random) -> None:
    """The transcript at HEAD, oldest first, in pages of a random size, by either route."""
    expected = [_record(session, model, step_id) for step_id in model.now.path]
    size = rng.randrange(1, 30) if len(expected) < 100 else 190
    found: list[Frame] = []
    cursor = None
    while True:
        asked = {"limit": size} | ({"cursor": cursor} if cursor else {})
        page = (await server.http.get(f"/sessions/{session}/transcript", params=asked)).json()
        again = await server.http.post(
            "/sessions/transcript/query", json={"session_id": session} | asked
        )
        assert again.json() == page
        assert page["session_id"] == session
        assert page["count"] == len(page["records"])
        found += page["records"]
        if (cursor := page["next_cursor"]) is None:
            break
        assert page["count"] == size
    assert found == expected
    assert [record["seq"] for record in found] == list(range(1, len(found) + 1))


def _record(session: str, model: Model, step_id: str) -> Frame:
    seq, at = 1, model.steps[step_id]["parentId"]
    while at != "step-initial":
        seq, at = seq + 1, model.steps[at]["parentId"]
    return _snake_step(model.steps[step_id]) | {"session_id": session, "seq": seq}


def _snake_step(step: Frame) -> Frame:
    renamed = _snake(step)
    for name in ("tool_calls", "tool_results"):
        if name in renamed:
            renamed[name] = [_snake(item) for item in renamed[name]]
    if "usage" in renamed:
        renamed["usage"] = _snake(renamed["usage"])
    renamed["turn_id"] = renamed.pop("message_id")
    renamed["record_index"] = renamed.pop("step_id")
    return renamed


def _snake(members: Frame) -> Frame:
    return {re.sub("([A-Z])", r"_\1", name).lower(): value for name, value in members.items()}


async def check_workflows(server: Server, session: str, model: Model, rng: random.Random) -> None:
    """The workflow before and after some steps, on the path and off it."""
    some = rng.sample(list(model.steps), min(4, len(model.steps)))
    for step_id in some:
        for side, expected in (("before", model.before(step_id)), ("after", model.texts[step_id])):
            url = f"/sessions/{session}/steps/{step_id}/workflow?side={side}"
            assert (await _get(server, url)).text == expected
    url = f"/sessions/{session}/steps/{ROOT}/workflow"
    assert (await _get(server, url)).text == model.texts[ROOT]


async def check_branches(server: Server, session: str, model: Model) -> None:
    """Every line that parts from another, and its tip."""
    found = (await _get(server, f"/sessions/{session}/branches")).json()["branches"]
    expected = [
        {
            "step_id": line,
            "parent_id": parent,
            "turn_id": model.steps[line]["messageId"],
            "content": model.steps[line]["content"][:200],
            "tip": model.tip(line),
            "turns": len({model.steps[step]["messageId"] for step in _from(model, line)}),
            "on_path": line in model.now.path,
        }
        for parent in [ROOT, *model.steps]
        if len(lines := model.children(parent)) > 1
        for line in lines
    ]
    assert sorted(found, key=_by_step) == sorted(expected, key=_by_step)


def _from(model: Model, line: str) -> Iterator[str]:
    """The steps of the newest line through a step, from its tip back to it."""
    step = model.tip(line)
    while step != line:
        yield step
        step = model.steps[step]["parentId"]
    yield line


def _by_step(branch: Frame) -> str:
    return str(branch["step_id"])


async def check_diff(server: Server, session: str, model: Model, rng: random.Random) -> None:
    """What differs between two steps, by kind, name and property."""
    steps = [ROOT, *model.steps]
    for _ in range(2):
        one, two = rng.choice(steps), rng.choice([*steps, model.now.head])
        found = (await _get(server, f"/sessions/{session}/diff?from={one}&to={two}")).json()
        a, b = model.document(one), model.document(two)
        assert found == _diff(a, b)
        differs = {
            "operators": _changes(a, b, "operators", "operatorID"),
            "links": _changes(a, b, "links", "linkID"),
            "comments": _changes(a, b, "commentBoxes", "commentBoxID"),
        }
        for kind, (added, removed, changed) in differs.items():
            assert set(found[kind]["added"]) == added
            assert set(found[kind]["removed"]) == removed
            assert set(found[kind]["changed"]) == set(changed)
            for name, members in changed.items():
                told = {change["path"][0] for change in found[kind]["changed"][name] if
                        change["path"]}  # fmt: skip
                assert told == members, (name, told, members)
        nothing = not any([*found.values()]) or not any(
            any(part.values()) if isinstance(part, dict) else part for part in found.values()
        )
        assert nothing is (model.texts[one] == model.texts[two]), (found, one, two)


async def check_preview(server: Server, session: str, model: Model, rng: random.Random) -> None:
    """What a revert of some visible step would take back, and whether edits could be kept."""
    path = list(model.now.path)
    for cut in rng.sample(range(len(path)), min(2, len(path))):
        step = model.steps[path[cut]]
        named = f"step_id={step['id']}"
        if step["stepId"] == 0 and rng.random() < 0.5:
            named = f"turn_id={step['messageId']}"
        told = (await _get(server, f"/sessions/{session}/revert-preview?{named}")).json()
        turns: dict[str, int] = {}
        for step_id in path[cut:]:
            turn = model.steps[step_id]["messageId"]
            turns[turn] = turns.get(turn, 0) + 1
        assert {t["turn_id"]: t["steps"] for t in told["turns"]} == dict([*turns.items()][-200:])
        assert told["turn_count"] == len(turns)
        edits = [turn for turn in turns if model.steps[model.first[turn]]["kind"] == "edit"]
        assert [edit["turn_id"] for edit in told["edits"]] == edits[-200:]
        for turn in told["turns"]:
            first = model.steps[model.first[turn["turn_id"]]]
            assert turn["content"] == first["content"][:200]
            assert (turn["timestamp"], turn["kind"]) == (first["timestamp"], first["kind"])
        target = step["parentId"]
        assert (told["head_id"], told["target_head_id"]) == (path[-1], target)
        assert (told["needs_confirm"], told["busy"], told["effects"]) == (False, False, [])
        assert told["keeps_edits"] or told["conflicts"]
        try:
            _, exact = model.kept(model.now, cut)
        except Clash:
            assert told["keeps_edits"] is False
        else:
            assert told["keeps_edits"] or not exact
        diff = await _get(server, f"/sessions/{session}/diff?from={path[-1]}&to={target}")
        assert told["diff"] == diff.json()


def _diff(a: Document, b: Document) -> Frame:
    """The diff of two documents, as the core has it, in JSON."""
    limits = {"max_bytes": sys.maxsize, "max_depth": 200}
    told = diff(load(a, **limits), load(b, **limits))
    written: Frame = json.loads(orjson.dumps(asdict(told) | {"touched": sorted(told.touched)}))
    return written


def _changes(
    a: Document, b: Document, member: str, name: str
) -> tuple[set[str], set[str], dict[str, set[str]]]:
    before = {item[name]: item for item in a.get(member, ())}
    after = {item[name]: item for item in b.get(member, ())}
    changed = {}
    for key in before.keys() & after.keys():
        one, two = before[key], after[key]
        if canonical(one) != canonical(two):
            changed[key] = {
                part
                for part in {*one, *two}
                if part not in one
                or part not in two
                or canonical(one[part]) != canonical(two[part])
            }
    return after.keys() - before.keys(), before.keys() - after.keys(), changed


async def check_replay(
    server: Server, session: str, log: dict[int, str], since: int, *, floor: int, most: int
) -> None:
    """Who asks for what came after `since` gets it as it was told then, or a snapshot instead."""
    last = max(log)
    async with server.connect(session, query=f"?since={since}") as client:
        await client.send_raw('{"type": "end"}')
        end = await client.wait(is_error)
        texts = client.texts[: client.frames.index(end)]
    if since >= floor and last - since <= most:
        assert texts == [log[seq] for seq in range(since + 1, last + 1)]
    else:
        fresh = json.loads(await first_text(server, session, v1=True))
        assert [json.loads(text) for text in texts] == [fresh | {"reset": True}]


async def check_stored(database_url: str, session: str, model: Model) -> int:
    """What the tables hold: events dense, HEAD and redo stack, no run or lease left open.

    The answer is the events' floor: the last that has been dropped.
    """
    connection = await asyncpg.connect(asyncpg_dsn(database_url))
    try:
        row = await connection.fetchrow(
            "select head_step, head_seq, redo_depth, redo_top, revision, state, events_floor "
            "from sessions "
            "where id = $1::uuid",
            session,
        )
        now = model.now
        assert str(row["head_step"] or ROOT) == now.head
        assert row["head_seq"] == len(now.path)
        assert (row["redo_depth"], row["revision"]) == (len(now.redo), now.seq)
        assert row["state"] == "AVAILABLE"
        redo = await connection.fetch(
            "select step_id from session_redo where session_id = $1::uuid and n <= $2 "
            "and n > $2 - $3 order by n",
            session,
            row["redo_top"],
            row["redo_depth"],
        )
        assert [str(entry["step_id"]) for entry in redo] == [path[-1] for path in now.redo]
        seqs = await connection.fetch(
            "select event_seq from session_events where session_id = $1::uuid order by event_seq",
            session,
        )
        floor: int = row["events_floor"]
        assert [event["event_seq"] for event in seqs] == list(range(floor + 1, now.seq + 1))
        records = await connection.fetch(
            "select id, event_seq, seq from records where session_id = $1::uuid", session
        )
        assert {str(r["id"]): r["event_seq"] for r in records} == {
            step_id: model.born[step_id] for step_id in model.steps
        }
        assert all(r["seq"] == len(model.paths[str(r["id"])]) for r in records)
        counts = await connection.fetchrow(
            "select (select count(*) from run_leases where session_id = $1::uuid) as leases, "
            "(select count(*) from turns where session_id = $1::uuid and sealed_at is null) "
            "as running, (select count(*) from turns where session_id = $1::uuid) as turns",
            session,
        )
        assert (counts["leases"], counts["running"]) == (0, 0)
        assert counts["turns"] == len(model.first)
        return floor
    finally:
        await connection.close()


async def everything_said(server: Server, session: str, model: Model) -> list[str]:
    """All that a server says of a session, as it says it: for comparing two servers."""
    texts = [
        await first_text(server, session, v1=True),
        await first_text(server, session, v1=False),
    ]
    for path in ("", "/workflow", "/steps?limit=500", "/steps?all=true&limit=500", "/branches"):
        texts.append((await _get(server, f"/sessions/{session}{path}")).text)
    for step_id in list(model.steps)[-5:]:
        url = f"/sessions/{session}/steps/{step_id}/workflow?side=before"
        texts.append((await _get(server, url)).text)
    return texts


async def _get(server: Server, url: str) -> httpx.Response:
    answer = await server.http.get(url)
    assert answer.status_code == 200, (url, answer.status_code, answer.text)
    return answer


def types(frames: list[Frame]) -> list[Any]:
    """The types of frames, for messages."""
    return [frame["type"] for frame in frames]
