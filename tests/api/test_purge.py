"""Deleting and purging over REST and sockets: what is gone, what is told, and what goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from migrating import columns, rows
from processes import process
from rest import ask, command, get, problem, routes, turn
from serving import Server, serving
from wire import is_status

from turnback.store.ids import new_id

MARK = "zanzibar"


async def fork(server: Any, session: str, **body: Any) -> str:
    answer = await server.http.post(f"/sessions/{session}/fork", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["session"]["id"])


async def delete(server: Any, session: str) -> None:
    answer = await server.http.delete(f"/sessions/{session}")
    assert answer.status_code == 204, answer.text


async def purge(server: Any, session: str) -> dict[str, int]:
    answer = await server.http.post(f"/sessions/{session}/purge")
    assert answer.status_code == 200, answer.text
    body: dict[str, int] = answer.json()
    return body


async def steps_of(server: Any, session: str) -> list[dict[str, Any]]:
    page = await get(server, f"/sessions/{session}/steps", limit=500)
    steps: list[dict[str, Any]] = page["steps"]
    return steps


async def lineage(server: Any, session: str) -> dict[str, Any]:
    """Where a fork comes from."""
    answer = await server.http.post("/sessions/lineage/query", json={"session_id": session})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["lineage"]
    assert found
    return found


async def family(server: Any) -> tuple[str, str, list[str], list[str]]:
    """A parent of two turns, its fork with a turn of its own; the steps of both, apart."""
    parent = await server.session(name="Orders")
    for said in ("add a CSVFileScan", "add a Limit"):
        await turn(server, parent, said)
    child = await fork(server, parent)
    await turn(server, child, "add a Filter")
    steps = [step["id"] for step in await steps_of(server, child)]
    theirs = [step["id"] for step in await steps_of(server, parent)]
    return parent, child, theirs, steps[len(theirs) :]


@pytest.mark.lineage(14)
async def test_a_deleted_parent_is_gone_from_every_list_and_its_forks_keep_what_they_had(
    server: Server,
) -> None:
    parent, child, _, _ = await family(server)
    grandchild = await fork(server, child)
    before = [
        (await server.http.get(f"/sessions/{id_}/transcript")).content
        for id_ in (child, grandchild)
    ]
    lineages = [await lineage(server, id_) for id_ in (child, grandchild)]
    usage = await get(server, f"/sessions/{parent}/usage")
    spare = await fork(server, parent)
    await delete(server, spare)
    assert await get(server, f"/sessions/{parent}/usage") == usage
    await delete(server, parent)
    after = [
        (await server.http.get(f"/sessions/{id_}/transcript")).content
        for id_ in (child, grandchild)
    ]
    assert after == before
    assert [await lineage(server, id_) for id_ in (child, grandchild)] == lineages
    for params in ({}, {"q": "orders"}, {"archived": True}):
        listed = (await get(server, "/sessions", **params))["sessions"]
        assert {s["id"] for s in listed} == (set() if "archived" in params else {child, grandchild})
    answer = await server.http.post("/sessions/lineage/query", json={"session_id": grandchild})
    assert answer.status_code == 200
    assert [above["session_id"] for above in answer.json()["ancestors"]] == [child, parent]
    await turn(server, grandchild, "hello")


async def test_a_deleted_session_is_none_on_every_route(server: Server) -> None:
    session = await server.session()
    said = await turn(server, session, "add a CSVFileScan")
    file = (
        await server.http.post(f"/sessions/{session}/attachments?name=a.txt", content=b"hello")
    ).json()["id"]
    await delete(server, session)
    asked = 0
    for method, path in routes(server):
        if "{session_id}" not in path or path.endswith("/purge"):
            continue
        url = path.replace("{attachment_id}", file).replace("{principal_id}", "alice")
        answer = await ask(server, method, url, session, said["headId"])
        assert answer.status_code == 404, (method, path, answer.text)
        assert answer.json()["code"] == "session_not_found", (method, path, answer.text)
        asked += 1
    assert asked > 15


async def test_sockets_of_a_deleted_session_are_closed_with_4410(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        await delete(server, session)
        assert await client.until_closed() == 4410


async def test_a_fork_that_was_made_is_found_again_when_its_parent_is_gone(server: Server) -> None:
    parent, _, _, _ = await family(server)
    asked = {"target_session_id": new_id()}
    path = f"/sessions/{parent}/fork"
    assert (await server.http.post(path, json=asked)).status_code == 201
    await delete(server, parent)
    again = await server.http.post(path, json=asked)
    assert (again.status_code, again.json()["session"]["id"]) == (200, asked["target_session_id"])
    await purge(server, parent)
    assert (await server.http.post(path, json=asked)).status_code == 200
    problem(await server.http.post(path, json={}), 404, "session_not_found")
    await delete(server, asked["target_session_id"])
    problem(await server.http.post(path, json=asked), 409, "lineage_conflict")


async def test_what_was_purged_is_410_by_every_path_and_the_rest_goes_on(server: Server) -> None:
    parent, child, theirs, own = await family(server)
    newborn = await fork(server, parent)
    turns = {step["id"]: step["turn_id"] for step in await steps_of(server, child)}
    path = f"/sessions/{child}"
    tag = (await server.http.get(f"{path}/transcript")).headers["etag"]
    assert (await server.http.get(f"{path}/transcript?limit=2")).status_code == 200
    assert (await server.http.get(f"{path}/transcript?limit=2")).status_code == 200
    workflow = await server.http.get(f"{path}/workflow")
    await delete(server, parent)
    erased = await purge(server, parent)
    assert (erased["records"], erased["turns"]) == (len(theirs), 2)

    async def gone(answer: httpx.Response) -> dict[str, Any]:
        data: dict[str, Any] = problem(answer, 410, "history_purged")["data"]
        return data

    http = server.http
    for headers in ({}, {"if-none-match": tag}, {"if-none-match": '"other"'}):
        data = await gone(await http.get(f"{path}/transcript", headers=headers))
        assert (data["after"], data["until"]) == (0, len(theirs))
    await gone(await http.get(f"{path}/transcript?limit=2"))
    await gone(await http.post("/sessions/transcript/query", json={"session_id": child}))
    page = await get(server, f"{path}/transcript", cursor=data["next_cursor"])
    assert [record["id"] for record in page["records"]] == own
    await gone(await http.get(f"{path}/usage"))
    for step in theirs:
        await gone(await http.get(f"{path}/steps/{step}/workflow"))
        await gone(await http.get(f"{path}/diff", params={"from": step, "to": own[-1]}))
        await gone(await http.get(f"{path}/steps", params={"at": step}))
        await gone(await http.get(f"{path}/steps", params={"before": step}))
        await gone(await http.get(f"{path}/revert-preview", params={"step_id": step}))
        await gone(await http.get(f"{path}/revert-preview", params={"turn_id": turns[step]}))
        await gone(await command(server, child, "Revert", stepId=step))
        await gone(await command(server, child, "Revert", messageId=turns[step]))
        await gone(await command(server, child, "Checkout", stepId=step))
        for side in ("before", "after"):
            boundary = {"turn_id": turns[step], "position": side}
            await gone(await http.post(f"{path}/fork", json={"boundary": boundary}))
    await gone(await command(server, child, "Revert", messageId=turns[own[0]]))
    await gone(await http.get(f"/sessions/{newborn}/transcript"))
    await gone(await http.get(f"/sessions/{newborn}/steps"))
    shown = await get(server, f"{path}/steps")
    assert [step["id"] for step in shown["steps"]] == own
    await gone(await http.get(f"{path}/steps", params={"before": shown["next_cursor"]}))
    every = await get(server, f"{path}/steps", all=True)
    assert [step["id"] for step in every["steps"]] == own
    await gone(await http.get(f"{path}/steps", params={"before": own[0], "all": True}))
    for step in (new_id(), "nothing"):
        problem(await http.get(f"{path}/steps/{step}/workflow"), 404, "unknown_step")
    assert (await http.get(f"{path}/workflow")).content == workflow.content
    for own_step in own:
        assert (await http.get(f"{path}/steps/{own_step}/workflow")).status_code == 200
    for session in (child, newborn):
        said = await turn(server, session, "hello")
        assert said["events"][-1]["state"] == "AVAILABLE"
    await command(server, child, "Checkout", stepId="step-initial")
    assert (await get(server, f"{path}/transcript"))["records"] == []
    assert (await get(server, f"{path}/workflow"))["operators"] == []
    for session in (child, newborn):
        await delete(server, session)


async def test_the_first_turn_that_is_left_is_reverted_in_its_middle(server: Server) -> None:
    parent, child, theirs, own = await family(server)
    await delete(server, parent)
    await purge(server, parent)
    preview = await get(server, f"/sessions/{child}/revert-preview", step_id=own[1])
    assert [turn["steps"] for turn in preview["turns"]] == [len(own) - 1]
    for step in (own[0], theirs[-1]):
        answer = await server.http.get(
            f"/sessions/{child}/revert-preview", params={"step_id": step}
        )
        problem(answer, 410, "history_purged")
    answer = await command(server, child, "Revert", stepId=own[1])
    assert answer.json()["headId"] == own[0]
    answer = await command(server, child, "Redo")
    assert answer.json()["headId"] == own[-1]


async def test_sockets_of_a_fork_are_sent_what_is_left_anew(server: Server) -> None:
    parent, child, _, own = await family(server)
    await delete(server, parent)
    async with server.connect(child) as client, server.connect(child, v1=False) as base:
        opened = await client.snapshot()
        await base.snapshot()
        await purge(server, parent)
        assert await client.until_closed() == 1013
        assert await base.until_closed() == 1013
    async with server.connect(child, query=f"?since={opened['eventSeq']}") as client:
        snapshot = await client.snapshot()
        assert snapshot["reset"] is True
        assert [step["id"] for step in snapshot["steps"]] == own
        await client.send("Prompt", content="hello")
        await client.wait(is_status("AVAILABLE"), since=1)
    async with server.connect(child, v1=False) as base:
        shown = [step["id"] for step in (await base.snapshot())["steps"]]
        assert shown[: len(own)] == own


async def test_a_fork_of_which_nothing_is_left_is_opened_and_prompted(server: Server) -> None:
    parent, _, theirs, _ = await family(server)
    newborn = await fork(server, parent)
    content = (await server.http.get(f"/sessions/{newborn}/workflow")).json()
    await delete(server, parent)
    await purge(server, parent)
    async with server.connect(newborn) as client, server.connect(newborn, v1=False) as base:
        for opened in (await client.snapshot(), await base.snapshot()):
            assert (opened["headId"], opened["steps"]) == (theirs[-1], [])
            assert opened["workflowContent"] == content
        cursor = client.frames[0]["stepsCursor"]
        older = await server.http.get(f"/sessions/{newborn}/steps", params={"before": cursor})
        problem(older, 410, "history_purged")
        assert (await get(server, f"/api/agents/{newborn}/react-steps"))["steps"] == []
        told = await client.prompt("add a Filter")
        assert told[-1]["state"] == "AVAILABLE"
        await base.wait(is_status("AVAILABLE"), since=1)
        page = await get(server, f"/sessions/{newborn}/steps")
        assert page["steps"][0]["parent_id"] == theirs[-1]
    again = await get(server, f"/sessions/{newborn}/workflow")
    assert len(again["operators"]) == len(content["operators"]) + 1


async def test_another_process_shows_nothing_that_was_purged(fresh_database: str) -> None:
    async with (
        serving(fresh_database) as here,
        serving(fresh_database, poll_interval=60, wakeup_interval=60) as there,
    ):
        parent, child, theirs, _ = await family(here)
        for _ in range(2):
            await get(there, f"/sessions/{child}/transcript", limit=2)
        await get(there, f"/sessions/{child}/steps")
        await delete(here, parent)
        await purge(here, parent)
        for path in ("transcript?limit=2", f"steps?at={theirs[0]}", f"steps/{theirs[0]}/workflow"):
            answer = await there.http.get(f"/sessions/{child}/{path}")
            problem(answer, 410, "history_purged")
        answer = await command(there, child, "Checkout", stepId=theirs[0])
        problem(answer, 410, "history_purged")


async def test_a_living_session_is_not_purged_and_one_that_is_none_is_404(server: Server) -> None:
    session = await server.session()
    problem(await server.http.post(f"/sessions/{session}/purge"), 409, "not_deleted")
    problem(await server.http.post(f"/sessions/{new_id()}/purge"), 404, "session_not_found")
    await delete(server, session)
    nothing = dict.fromkeys(
        ("records", "turns", "events", "requests", "attachments", "blobs"), 0
    ) | {"events": 1}  # that it was deleted
    assert await purge(server, session) == nothing
    assert await purge(server, session) == dict.fromkeys(nothing, 0)


OFTEN = ["purge.close@1", "erase.records@2", "erase.events@2", "erase.blobs@1"]
SOAK = ["erase.records@1", "erase.turns@1", "erase.attachments@1", "erase.blobs@2", "erase.end@1"]
POINTS = [*OFTEN, *(pytest.param(point, marks=pytest.mark.soak) for point in SOAK)]


@pytest.mark.kill
@pytest.mark.parametrize("failpoint", POINTS)
async def test_a_purge_that_was_killed_goes_on_when_it_is_run_again(
    fresh_database: str, tmp_path: Path, failpoint: str
) -> None:
    async with process(tmp_path, fresh_database, failpoint=failpoint, sweep_batch=3) as server:
        parent, child, theirs, own = await family(server)
        await delete(server, parent)
        with pytest.raises(httpx.HTTPError):
            await server.http.post(f"/sessions/{parent}/purge")
        assert await server.end() == -9
    async with serving(fresh_database, sweep_batch=3) as last:
        transcript = await last.http.get(f"/sessions/{child}/transcript")
        if failpoint == "purge.close@1":
            assert transcript.json()["count"] == len(theirs) + len(own), "nothing has begun"
        else:
            problem(transcript, 410, "history_purged")
        await purge(last, parent)
        problem(await last.http.get(f"/sessions/{child}/transcript"), 410, "history_purged")
        assert [step["id"] for step in await steps_of(last, child)] == own
        for step in own:
            assert (
                await last.http.get(f"/sessions/{child}/steps/{step}/workflow")
            ).status_code == 200
    connection = await asyncpg.connect(fresh_database)
    try:
        count = "select count(*) from {} where session_id = $1::uuid"
        for table in ("records", "turns", "session_events", "session_requests"):
            assert await connection.fetchval(count.format(table), parent) == 0
        assert await connection.fetchval("select count(*) from purged_records") == len(theirs)
        places = "select array_agg(turn_index order by seq) from purged_records"
        assert await connection.fetchval(places) == [0, 0, 0, 1, 1, 1]
    finally:
        await connection.close()


async def test_no_word_of_a_purged_session_is_kept_in_forks_or_in_answers_to_retries(
    server: Server, fresh_database: str
) -> None:
    def keyed(key: str, **more: Any) -> dict[str, Any]:
        return {"headers": {"idempotency-key": key}, **more}

    post = server.http.post
    create = keyed("made", json={"name": MARK})
    parent = (await post("/sessions", **create)).json()["id"]
    agent = (await post("/api/agents", **keyed("agent", json={"name": MARK}))).json()["id"]
    files = f"/sessions/{parent}/attachments"
    file = keyed("file", params={"name": MARK}, content=MARK)
    assert (await post(files, **file)).status_code == 201
    said = await turn(server, parent, f"hello {MARK}")
    boundary = {"turn_id": said["turnId"], "position": "before"}
    asked = keyed("fork", json={"boundary": boundary, "mode": "rerun", "name": "Fork"})
    first = await post(f"/sessions/{parent}/fork", **asked)
    assert first.json()["pending_action"]["draft"] == f"hello {MARK}"
    assert (await post(f"/sessions/{parent}/fork", **asked)).content == first.content
    child = first.json()["session"]["id"]
    async with server.connect(child) as client:
        assert (await client.snapshot())["pendingAction"]["draft"] == f"hello {MARK}"
        for session in (parent, agent):
            await delete(server, session)
            await purge(server, session)
    async with server.connect(child) as client:
        assert (await client.snapshot())["pendingAction"] is None
    again = await post(f"/sessions/{parent}/fork", **asked)
    assert (again.status_code, again.json()) == (201, first.json() | {"pending_action": None})
    problem(await post("/sessions", **create), 404, "session_not_found")
    problem(await post(files, **file), 404, "session_not_found")
    held = await asyncio.to_thread(lambda: rows(fresh_database, columns(fresh_database)))
    assert [table for table, found in held.items() if MARK in str(found)] == []
