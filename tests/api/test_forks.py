"""Forks over REST and sockets, against a real server: the child is a session like any other."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from processes import eventually, process
from rest import command, get, idle, prompted, turn
from rest import problem as refused
from scripted_provider import Pause, Refusal, ScriptedProvider, text
from serving import Server, serving
from wire import is_status

from turnback.store.ids import new_id

ADD = "add a CSVFileScan"


async def fork(server: Any, session: str, **body: Any) -> dict[str, Any]:
    answer = await server.http.post(f"/sessions/{session}/fork", json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    assert answer.headers["location"] == f"/sessions/{made['session']['id']}"
    return made


async def records(server: Any, session: str) -> list[dict[str, Any]]:
    """The transcript, page by page."""
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = await get(server, f"/sessions/{session}/transcript", limit=2, **cursor)
        found += page["records"]
        if page["next_cursor"] is None:
            return found
        cursor = {"cursor": page["next_cursor"]}


@pytest.mark.lineage(1, 2, 4, 25)
async def test_a_fork_reads_as_its_parent_was_in_every_way(fresh_database: str) -> None:
    async with serving(fresh_database) as server:
        session = await server.session(name="Orders")
        for _ in range(3):
            await turn(server, session, ADD)
        before = await records(server, session)
    async with serving(fresh_database) as server:  # nothing of it is in memory
        made = await fork(server, session)
        child = made["session"]["id"]
        assert made["session"]["name"] == "Orders (branch)"
        assert made["session"]["head_id"] == before[-1]["id"]
        assert made["pending_action"] is None
        assert made["lineage"] == {
            "parent_id": session,
            "boundary": None,
            "inherited_turn_count": 3,
            "cutoff_id": before[-1]["id"],
            "depth": 1,
            "description": None,
        }
        workflow = await get(server, f"/sessions/{session}/workflow")
        await turn(server, session, ADD)
        for which in (False, True):
            steps = await get(server, f"/sessions/{child}/steps", all=which)
            assert steps["steps"] == before
        assert await records(server, child) == before
        assert {record["session_id"] for record in before} == {session}
        assert await get(server, f"/sessions/{child}/workflow") == workflow
        assert (await get(server, f"/sessions/{child}/branches"))["branches"] == []
        async with server.connect(child) as client:
            snapshot = await client.snapshot()
            assert [step["id"] for step in snapshot["steps"]] == [r["id"] for r in before]
            assert snapshot["workflowContent"] == workflow
        async with server.connect(child, v1=False) as client:
            snapshot = await client.snapshot()
            assert [step["id"] for step in snapshot["steps"]] == [r["id"] for r in before]
            assert snapshot["steps"][-1]["afterWorkflowContent"] == workflow


@pytest.mark.lineage(9, 21)
async def test_a_child_is_reverted_redone_edited_and_prompted_inside_its_prefix(
    server: Server, fresh_database: str
) -> None:
    session = await server.session()
    turns = [(await turn(server, session, ADD))["turnId"] for _ in range(3)]
    inherited = [record["id"] for record in await records(server, session)]
    child = (await fork(server, session))["session"]["id"]
    second = next(r for r in await records(server, child) if r["turn_id"] == turns[1])
    preview = await get(server, f"/sessions/{child}/revert-preview", turn_id=turns[1])
    assert [left["turn_id"] for left in preview["turns"]] == turns[1:]
    async with server.connect(child) as client:
        await client.snapshot()
        await client.ask("Revert", messageId=turns[1])
        assert client.head == second["parent_id"]
        await client.ask("Redo")
        assert client.head == inherited[-1]
        await client.ask("Revert", messageId=turns[1])
        await client.prompt(ADD)
        own = [r["id"] for r in await records(server, child)]
        at = inherited.index(second["id"])
        assert own[:at] == inherited[:at]
        assert not set(own[at:]) & set(inherited)
        await client.ask("Checkout", stepId=inherited[-1])
        await client.ask("Checkout", stepId="step-initial")
        assert await records(server, child) == []
        await client.ask("Checkout", stepId=inherited[1])
    lines = (await get(server, f"/sessions/{child}/branches"))["branches"]
    assert {line["parent_id"] for line in lines} == {second["parent_id"]}
    assert sorted(line["turns"] for line in lines) == [1, 2]
    found = await get(server, f"/sessions/{child}/diff", **{"from": "step-initial", "to": own[-1]})
    assert len(found["operators"]["added"]) == 2
    usage, of_parent = [await get(server, f"/sessions/{id_}/usage") for id_ in (child, session)]
    assert usage["spent"]["steps"] == len(own) - at
    assert usage["visible"]["steps"] == 2
    assert of_parent["spent"] == of_parent["visible"]
    async with serving(fresh_database) as other:
        assert [r["id"] for r in await records(other, child)] == inherited[:2]
        steps = (await get(other, f"/sessions/{child}/steps", all=True))["steps"]
        assert [step["id"] for step in steps] == [*inherited, *own[at:]]
    assert [r["id"] for r in await records(server, session)] == inherited


@pytest.mark.lineage(5)
async def test_what_is_not_reachable_from_a_child_is_unknown_to_it(server: Server) -> None:
    session = await server.session()
    kept = (await turn(server, session, ADD))["turnId"]
    gone = (await turn(server, session, ADD))["turnId"]
    steps = await records(server, session)
    off = [record["id"] for record in steps if record["turn_id"] == gone]
    await command(server, session, "Revert", messageId=gone)
    child = (await fork(server, session))["session"]["id"]
    await command(server, session, "Redo")
    for frame, code in (
        ({"type": "WsClientRevertCommand", "messageId": gone}, "unknown_turn"),
        ({"type": "WsClientRevertCommand", "stepId": off[0]}, "unknown_step"),
        ({"type": "WsClientCheckoutCommand", "stepId": off[-1]}, "unknown_step"),
        ({"type": "WsClientRedoCommand"}, "nothing_to_redo"),
    ):
        answer = await server.http.post(f"/sessions/{child}/commands", json=frame)
        assert answer.json()["code"] == code
    for path in (
        f"steps/{off[0]}/workflow",
        f"steps?before={off[0]}",
        f"steps?at={off[0]}",
        f"diff?from=step-initial&to={off[-1]}",
        f"revert-preview?step_id={off[0]}",
    ):
        refused(await server.http.get(f"/sessions/{child}/{path}"), 404, "unknown_step")
    page = await get(server, f"/sessions/{session}/transcript", limit=1)
    cursor = page["next_cursor"]
    answer = await server.http.get(f"/sessions/{child}/transcript?cursor={cursor}")
    refused(answer, 422, "bad_cursor")
    assert {record["turn_id"] for record in await records(server, child)} == {kept}


@pytest.mark.lineage(7)
async def test_a_newborn_child_is_listed_and_there_after_a_restart(
    server: Server, fresh_database: str
) -> None:
    session = await server.session(name="Orders")
    made = await fork(server, session, description="to try")
    child = made["session"]["id"]
    assert made["lineage"]["inherited_turn_count"] == 0
    async with serving(fresh_database) as other:
        listed = await get(other, "/sessions", q="branch")
        assert [one["id"] for one in listed["sessions"]] == [child]
        assert await records(other, child) == []
        answer = await other.http.post("/sessions/lineage/query", json={"session_id": child})
        assert answer.json()["lineage"] == made["lineage"]
        await turn(other, child, ADD)
        assert len(await records(other, child)) > 1


@pytest.mark.lineage(13)
async def test_a_fork_is_made_once_however_it_is_asked_again(server: Server) -> None:
    session, turn_id = await prompted(server)
    path, body = (
        f"/sessions/{session}/fork",
        {"boundary": {"turn_id": turn_id, "position": "after"}},
    )
    keyed = {"Idempotency-Key": new_id()}
    first, second = [await server.http.post(path, json=body, headers=keyed) for _ in range(2)]
    assert first.status_code == second.status_code == 201
    assert first.content == second.content
    other = await server.http.post(path, json={}, headers=keyed)
    refused(other, 422, "idempotency_conflict")
    named = body | {"target_session_id": new_id()}
    answers = await asyncio.gather(*(server.http.post(path, json=named) for _ in range(5)))
    assert sorted(answer.status_code for answer in answers) == [200] * 4 + [201]
    assert len({answer.content for answer in answers}) == 1
    refused(await server.http.post(path, json=named | {"name": "x"}), 409, "lineage_conflict")
    await server.http.delete(f"/sessions/{session}")
    again = await server.http.post(path, json=named)
    assert again.status_code == 200
    assert again.json()["session"]["id"] == named["target_session_id"]
    refused(await server.http.post(path, json=body), 404, "session_not_found")


@pytest.mark.lineage(3)
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"boundary": {"turn_id": "x", "position": "after"}}, 409, "not_on_path"),
        ({"boundary": {"turn_id": "x", "position": "on"}}, 422, "bad_input"),
        ({"mode": "edit"}, 422, "bad_input"),
        ({"mode": "rerun", "boundary": {"turn_id": "$", "position": "after"}}, 422, "bad_input"),
        ({"draft": "x"}, 422, "bad_input"),
        ({"target_session_id": "mine"}, 422, "bad_input"),
        ({"inherited_turn_count": 9}, 422, "count_mismatch"),
        ({"count": 1}, 422, "bad_input"),
    ],
)
async def test_a_fork_that_cannot_be_is_refused(
    standing: Server, body: dict[str, Any], status: int, code: str
) -> None:
    session, turn_id = await prompted(standing)
    if body.get("boundary", {}).get("turn_id") == "$":
        body = body | {"boundary": body["boundary"] | {"turn_id": turn_id}}
    refused(await standing.http.post(f"/sessions/{session}/fork", json=body), status, code)
    found = await standing.http.post("/sessions/lineage/query", json={"session_id": session})
    assert found.json()["children"] == []


@pytest.mark.lineage(22)
async def test_the_limit_of_depth_is_said_with_its_name(fresh_database: str) -> None:
    async with serving(fresh_database, max_fork_depth=2) as server:
        session = await server.session()
        for _ in range(2):
            session = (await fork(server, session))["session"]["id"]
        answer = await server.http.post(f"/sessions/{session}/fork", json={})
        assert refused(answer, 422, "depth_limit")["data"] == {
            "limit": "max_fork_depth",
            "value": 2,
        }


async def test_the_lineage_query_leads_up_and_down_the_family(server: Server) -> None:
    root = await server.session(name="Root")
    child = (await fork(server, root, name="Child"))["session"]["id"]
    below = [(await fork(server, child))["session"]["id"] for _ in range(3)]
    grandchild = below[0]

    async def query(**body: Any) -> dict[str, Any]:
        answer = await server.http.post("/sessions/lineage/query", json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    assert (await query(session_id=root))["lineage"] is None
    page = await query(session_id=child, limit=2)
    assert [one["session_id"] for one in page["children"]] == below[:0:-1]
    page = await query(session_id=child, limit=2, cursor=page["next_cursor"])
    assert [one["session_id"] for one in page["children"]] == below[:1]
    assert page["next_cursor"] is None
    await server.http.delete(f"/sessions/{child}")
    up = await query(session_id=grandchild)
    assert [(one["session_id"], one["name"], one["deleted"]) for one in up["ancestors"]] == [
        (child, None, True),
        (root, "Root", False),
    ]
    assert (await query(session_id=root))["children"] == []
    answer = await server.http.post("/sessions/lineage/query", json={"session_id": child})
    refused(answer, 404, "session_not_found")


# -- the pending action


async def pending(server: Any, session: str) -> Any:
    return (await get(server, f"/sessions/{session}/pending-action"))["pending_action"]


async def done(server: Any, session: str) -> bool:
    return await pending(server, session) is None


async def claim(server: Any, session: str, who: str, *, do: str = "claim") -> httpx.Response:
    answer: httpx.Response = await server.http.post(
        f"/sessions/{session}/pending-action/{do}", json={"claim_id": who}
    )
    return answer


async def test_a_pending_action_stays_until_a_turn_of_the_forks_own_is_complete(
    scripted: tuple[Server, ScriptedProvider],
) -> None:
    server, provider = scripted
    provider.will([text("one")], [text("two"), Pause()], [text("three")])
    session, turn_id = await prompted(server)
    boundary = {"turn_id": turn_id, "position": "before"}
    made = await fork(server, session, boundary=boundary, mode="edit", draft="Better")
    child = made["session"]["id"]
    left = made["pending_action"]
    assert (left["mode"], left["draft"], left["state"]) == ("edit", "Better", "pending")
    async with server.connect(child) as client:
        shown = (await client.snapshot())["pendingAction"]
        key = shown["turnKey"]
        assert shown == {"mode": "edit", "draft": "Better", "turnKey": key, "state": "pending"}
        assert key == left["turn_key"]
        await client.send("Prompt", content="Better", turnKey=key)
        await client.wait(lambda frame: frame["type"] == "WsServerDeltaEvent")
        await client.send("Stop")
        await client.wait(is_status("AVAILABLE"))
        again = await pending(server, child)
        assert again == left | {"turn_key": again["turn_key"]}
        await client.prompt("Better yet")
        told = [f for f in client.frames if f.get("change") == "pendingAction"]
        assert [frame["pending"] for frame in told] == ["pending", "done"]
    assert await pending(server, child) is None
    refused(await claim(server, child, "a"), 404, "no_pending_action")
    async with server.connect(child) as client:
        assert (await client.snapshot())["pendingAction"] is None


async def test_a_turn_that_failed_leaves_a_pending_action_that_can_be_sent_again(
    scripted: tuple[Server, ScriptedProvider],
) -> None:
    server, provider = scripted
    provider.will([text("one")], Refusal(400), [text("two"), Pause()], [text("three")])
    session, turn_id = await prompted(server)
    boundary = {"turn_id": turn_id, "position": "before"}
    child = (await fork(server, session, boundary=boundary, mode="rerun"))["session"]["id"]
    turns = set()
    async with server.connect(child) as client:
        for ends in (False, True, False):
            left = await pending(server, child)
            assert (await claim(server, child, "a")).status_code == 200
            ask = {"content": left["draft"], "turnKey": left["turn_key"]}
            turns.add((await client.ask("Prompt", **ask))["messageId"])
            if ends:
                await client.wait(lambda frame: frame["type"] == "WsServerDeltaEvent")
                await client.send("Stop")
            await idle(server, child)
            assert (await client.ask("Prompt", **ask))["messageId"] in turns
        told = [f for f in client.frames if f.get("change") == "pendingAction"]
    assert len(turns) == 3
    states = ["claimed", "pending", "claimed", "pending", "claimed", "done"]
    assert [frame["pending"] for frame in told] == states
    keys = [frame.get("turnKey") for frame in told]
    assert keys[0] == child
    assert keys[1] == keys[2]
    assert keys[3] == keys[4] == left["turn_key"]
    assert len(set(keys)) == 4
    assert await pending(server, child) is None


async def test_the_first_turns_key_makes_a_retry_one_turn(server: Server) -> None:
    session, turn_id = await prompted(server)
    boundary = {"turn_id": turn_id, "position": "before"}
    made = await fork(server, session, boundary=boundary, mode="rerun")
    child, left = made["session"]["id"], made["pending_action"]
    prompt = {"content": left["draft"], "turnKey": left["turn_key"]}
    answers = await asyncio.gather(*(command(server, child, "Prompt", **prompt) for _ in range(4)))
    assert len({answer.json()["turnId"] for answer in answers}) == 1
    await eventually(lambda: done(server, child))
    users = [r for r in await records(server, child) if r["role"] == "user"]
    assert [record["content"] for record in users] == [left["draft"]]


async def test_of_two_clients_one_has_the_pending_action(fresh_database: str) -> None:
    async with (
        serving(fresh_database, pending_claim_time=600.0) as one,
        serving(fresh_database, pending_claim_time=600.0) as two,
    ):
        session, turn_id = await prompted(one)
        boundary = {"turn_id": turn_id, "position": "before"}
        child = (await fork(one, session, boundary=boundary, mode="edit"))["session"]["id"]
        async with two.connect(child) as client:
            await client.snapshot()
            both = await asyncio.gather(claim(one, child, "a"), claim(two, child, "b"))
            assert sorted(answer.status_code for answer in both) == [200, 409]
            await client.wait(lambda frame: frame.get("pending") == "claimed")
        pairs = [("a", one), ("b", two)]
        first_won = both[0].status_code == 200
        (won, at), (lost, there) = pairs if first_won else pairs[::-1]
        refusal = refused(await claim(there, child, lost), 409, "pending_action_claimed")
        assert 0 < refusal["data"]["retryAfterMs"] <= 600_000
        refused(await claim(there, child, lost, do="release"), 409, "pending_action_claimed")
        assert (await claim(at, child, won)).status_code == 200
        assert (await pending(there, child))["state"] == "claimed"
        assert (await claim(at, child, won, do="release")).json()["pending_action"]["state"] == (
            "pending"
        )
        assert (await claim(there, child, lost)).status_code == 200


async def test_a_claim_ends_with_its_time_and_with_its_process(fresh_database: str) -> None:
    async with serving(fresh_database, pending_claim_time=0.05) as server:
        session, turn_id = await prompted(server)
        boundary = {"turn_id": turn_id, "position": "before"}
        child = (await fork(server, session, boundary=boundary, mode="edit"))["session"]["id"]
        assert (await claim(server, child, "a")).status_code == 200
        await asyncio.sleep(0.06)
        assert (await pending(server, child))["state"] == "pending"
        assert (await claim(server, child, "b")).status_code == 200
    async with serving(fresh_database, pending_claim_time=600.0) as server:
        assert (await claim(server, child, "c")).status_code == 200
        assert (await pending(server, child))["state"] == "claimed"
    async with serving(fresh_database) as server:
        assert (await pending(server, child))["state"] == "pending"
        async with server.connect(child) as client:
            assert (await client.snapshot())["pendingAction"]["state"] == "pending"
        assert (await claim(server, child, "d")).status_code == 200


# -- a kill in the middle


@pytest.mark.kill
@pytest.mark.parametrize("point", ["before", "inside", "after"])
async def test_a_kill_around_a_fork_leaves_all_of_it_or_nothing(
    fresh_database: str, tmp_path: Path, point: str
) -> None:
    target = new_id()
    async with process(tmp_path, fresh_database, failpoint=f"fork.{point}@1") as server:
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            await client.prompt(ADD)
        path, body = f"/sessions/{session}/fork", {"target_session_id": target}
        with pytest.raises(httpx.HTTPError):
            await server.http.post(path, json=body)
        await server.gone.wait()
    async with serving(fresh_database) as server:
        found = await server.http.get(f"/sessions/{target}")
        if point != "inside":
            assert found.status_code == (200 if point == "after" else 404)
        again = await server.http.post(path, json=body)
        assert again.status_code == (200 if found.status_code == 200 else 201)
        assert await records(server, target) == await records(server, session)


@pytest.mark.kill
async def test_a_kill_in_the_pending_actions_turn_leaves_it_to_be_sent_again(
    fresh_database: str, tmp_path: Path
) -> None:
    async with process(tmp_path, fresh_database, failpoint="commit.before@6") as server:
        session, turn_id = await prompted(server)
        boundary = {"turn_id": turn_id, "position": "before"}
        child = (await fork(server, session, boundary=boundary, mode="rerun"))["session"]["id"]
        ask = {"content": ADD, "turnKey": child}
        with pytest.raises(httpx.HTTPError):
            await command(server, child, "Prompt", wait=True, **ask)
        await server.gone.wait()
    async with serving(fresh_database) as server:
        async with server.connect(child) as client:
            await client.snapshot()
            assert (await idle(server, child))["state"] == "AVAILABLE"
        left = await pending(server, child)
        assert left["state"] == "pending"
        assert left["turn_key"] != child
        await command(server, child, "Prompt", wait=True, content=ADD, turnKey=left["turn_key"])
        assert await pending(server, child) is None
        users = [r["content"] for r in await records(server, child) if r["role"] == "user"]
        assert users == [ADD, ADD]
