"""Transcripts and what they come to: pages of one HEAD, complete or a typed error, 304."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import asyncpg
import orjson
import pytest
from rest import NOBODYS, NOT_AN_OBJECT, NOT_JSON, command, get, problem, turn
from scripted_provider import ScriptedProvider, call, text, usage
from serving import Server, serving

from turnback.store.ids import new_id


async def query(server: Server, session: str, **body: Any) -> Any:
    return await server.http.post(
        "/sessions/transcript/query", json={"session_id": session, **body}
    )


async def ids(server: Server, session: str, **params: Any) -> list[str]:
    page = await get(server, f"/sessions/{session}/transcript", **params)
    return [record["id"] for record in page["records"]]


async def execute(url: str, statement: str, *args: Any) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement, *args)
    finally:
        await connection.close()


async def test_an_empty_session_has_an_empty_transcript(server: Server) -> None:
    session = await server.session()
    empty = {"session_id": session, "count": 0, "records": [], "next_cursor": None}
    assert await get(server, f"/sessions/{session}/transcript") == empty
    assert (await query(server, session)).json() == empty


async def test_records_are_the_visible_steps_oldest_first_each_with_its_place(
    server: Server,
) -> None:
    session = await server.session()
    first = await turn(server, session, "add a CSVFileScan")
    await turn(server, session, "hello")
    page = await get(server, f"/sessions/{session}/transcript")
    shown = await get(server, f"/sessions/{session}/steps")
    assert page["records"] == shown["steps"]
    assert page["count"] == len(page["records"]) == 5
    assert [record["seq"] for record in page["records"]] == [1, 2, 3, 4, 5]
    assert [record["record_index"] for record in page["records"]] == [0, 1, 2, 0, 1]
    assert {record["session_id"] for record in page["records"]} == {session}
    assert [record["turn_id"] for record in page["records"]][:3] == [first["turnId"]] * 3
    await command(server, session, "Revert", messageId=first["turnId"])
    assert (await get(server, f"/sessions/{session}/transcript"))["records"] == []
    await command(server, session, "Redo")
    assert await get(server, f"/sessions/{session}/transcript") == page


async def test_a_page_is_of_the_head_that_its_listing_began_at(server: Server) -> None:
    session = await server.session()
    await turn(server, session, "hello")
    second = await turn(server, session, "add a CSVFileScan")
    before = await ids(server, session)
    page = await get(server, f"/sessions/{session}/transcript", limit=2)
    await command(server, session, "Revert", messageId=second["turnId"])
    await turn(server, session, "add a Limit")
    await turn(server, session, "hello again")
    found = [record["id"] for record in page["records"]]
    while (cursor := page["next_cursor"]) is not None:
        page = await get(server, f"/sessions/{session}/transcript", limit=2, cursor=cursor)
        found += [record["id"] for record in page["records"]]
    assert found == before
    now = await ids(server, session)
    assert now[:2] == before[:2]
    assert not set(now[2:]) & set(before)


async def test_a_session_reverted_again_and_again_has_its_whole_transcript(
    server: Server,
) -> None:
    # 70 branches: more than one row of segments holds.
    session = await server.session()
    head = "step-initial"
    kept: list[str] = []
    for n in range(70):
        for name in ("kept", "dropped"):
            comment = {"commentBoxID": f"{name}-{n}", "comments": []}
            edit = {"op": "addComment", "comment": comment}
            made = await command(server, session, "EditWorkflow", baseHeadId=head, edits=[edit])
            turned = made.json()
            head = turned["headId"]
            if name == "kept":
                kept.append(head)
        await command(server, session, "Revert", messageId=turned["turnId"])
        head = kept[-1]
    assert await ids(server, session) == kept
    assert await ids(server, session, limit=7) == kept[:7]
    counts = await get(server, f"/sessions/{session}/usage")
    assert (counts["visible"]["steps"], counts["spent"]["steps"]) == (70, 140)


def cursor_of(*parts: Any) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(parts)).rstrip(b"=").decode()


async def test_a_cursor_of_something_else_is_refused(server: Server) -> None:
    mine, other = await server.session(), await server.session()
    for session in (mine, other):
        await turn(server, session, "hello")
    page = await get(server, f"/sessions/{other}/transcript", limit=1)
    theirs = page["next_cursor"]
    branch = page["records"][0]["branch_id"]
    for cursor in (
        theirs, "nonsense", "", "=", "é", new_id(), theirs[:-3], theirs + "AA",
        cursor_of(mine, branch, 2, 1), cursor_of(mine, new_id(), 2, 1),
        cursor_of(mine, "x", 2, 1), cursor_of(mine, None, 0, 0), cursor_of(mine, branch, "2", 1),
        cursor_of(mine, branch, 2**40, 1), cursor_of(mine, branch, 2, -1), cursor_of(mine),
        cursor_of(None, branch, 2, True), "bnVsbA", "[]",
    ):  # fmt: skip
        answer = await server.http.get(f"/sessions/{mine}/transcript", params={"cursor": cursor})
        problem(answer, 422, "bad_cursor")
        problem(await query(server, mine, cursor=cursor), 422, "bad_cursor")
    steps = await server.http.get(f"/sessions/{mine}/steps", params={"before": theirs})
    problem(steps, 404, "unknown_step")


async def test_a_whole_number_may_be_written_with_a_point(standing: Server) -> None:
    session = await standing.session()
    done = await turn(standing, session, "hello")
    page = await query(standing, session, limit=2.0, min_revision=0.0)
    assert page.status_code == 200, page.text
    asked = {"turn_ids": [done["turnId"]], "calls": 3.0}
    plan = await standing.http.post(f"/sessions/{session}/undo-plan", json=asked)
    assert plan.status_code == 201, plan.text
    assert plan.json()["budget"]["calls"] == 3


@pytest.mark.parametrize(
    "body",
    [
        {}, {"session_id": None}, {"session_id": 1}, {"limit": 0}, {"limit": 1.5}, {"limit": "1"},
        {"limit": True}, {"limit": 1001}, {"cursor": 1}, {"cursor": "x" * 401},
        {"min_revision": -1}, {"min_revision": "1"}, {"min_revision": 2**63}, {"more": 1},
    ],
)  # fmt: skip
async def test_a_query_that_makes_no_sense_is_bad_input(
    standing: Server, body: dict[str, Any]
) -> None:
    named = body if "session_id" in body or not body else {"session_id": new_id()} | body
    problem(await standing.http.post("/sessions/transcript/query", json=named), 422, "bad_input")


@pytest.mark.parametrize("body", [*NOT_JSON, *NOT_AN_OBJECT], ids=lambda b: repr(b[:12]))
async def test_a_query_that_is_no_json_object_is_invalid_format(
    standing: Server, body: bytes
) -> None:
    answer = await standing.http.post("/sessions/transcript/query", content=body)
    problem(answer, 400, "invalid_format")


async def test_a_query_of_ten_megabytes_is_too_large(standing: Server) -> None:
    body = b'{"session_id": "' + b"x" * 10_000_000 + b'"}'
    answer = await standing.http.post("/sessions/transcript/query", content=body)
    assert problem(answer, 413, "too_large")["data"]["limit"] == "max_body"


@pytest.mark.parametrize("session", [NOBODYS, "nothing", "", "é", "x\u0000y", "'; --"])
async def test_a_transcript_of_no_session_is_404(standing: Server, session: str) -> None:
    problem(await query(standing, session), 404, "session_not_found")


async def test_an_unchanged_transcript_is_304_and_a_changed_one_is_not(server: Server) -> None:
    session = await server.session()
    await turn(server, session, "hello")
    path = f"/sessions/{session}/transcript"
    first = await server.http.get(path)
    tag = first.headers["etag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = await server.http.get(path, headers={"if-none-match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
    unknown = await server.http.get(path, headers={"if-none-match": '"other"'})
    assert (unknown.status_code, unknown.content) == (200, first.content)
    said = await turn(server, session, "hello again")
    changed = await server.http.get(path, headers={"if-none-match": tag})
    assert (changed.status_code, changed.json()["count"]) == (200, 4)
    await command(server, session, "Revert", messageId=said["turnId"])
    reverted = await server.http.get(path, headers={"if-none-match": tag})
    assert (reverted.status_code, reverted.json()["count"]) == (200, 2)


async def test_existence_is_checked_before_the_tag(server: Server) -> None:
    session = await server.session()
    path = f"/sessions/{session}/transcript"
    tag = (await server.http.get(path)).headers["etag"]
    await server.http.delete(f"/sessions/{session}")
    for known in (tag, "*"):
        answer = await server.http.get(path, headers={"if-none-match": known})
        problem(answer, 404, "session_not_found")
    problem(await query(server, session), 404, "session_not_found")
    problem(await server.http.get(f"/sessions/{session}/usage"), 404, "session_not_found")


@pytest.mark.parametrize("gone", [1, 3, 5])
async def test_a_record_that_is_missing_is_an_error_and_never_a_shorter_page(
    fresh_database: str, gone: int
) -> None:
    async with serving(fresh_database) as server:
        session = await server.session()
        await turn(server, session, "add a CSVFileScan")
        await turn(server, session, "hello")
        assert len(await ids(server, session)) == 5  # and is in memory from now on
        await execute(fresh_database, "delete from records where seq = $1", gone)
        path = f"/sessions/{session}/transcript"
        problem(await server.http.get(path), 409, "history_missing")
        problem(await query(server, session), 409, "history_missing")
        page = await server.http.get(path, params={"limit": 2})
        if gone == 1:
            problem(page, 409, "history_missing")
        else:
            assert page.json()["count"] == 2


async def test_a_page_in_memory_is_given_to_the_path_that_it_is_of_and_to_no_other(
    fresh_database: str,
) -> None:
    async with serving(fresh_database) as server, serving(fresh_database) as fresh:
        session = await server.session()
        first = await turn(server, session, "hello")
        for _ in range(3):
            await turn(server, session, "hello again")
        path = f"/sessions/{session}/transcript"
        page = await server.http.get(path, params={"limit": 5})
        assert (await server.http.get(path, params={"limit": 5})).content == page.content
        boundary = {"turn_id": first["turnId"], "position": "after"}
        made = await server.http.post(f"/sessions/{session}/fork", json={"boundary": boundary})
        child = made.json()["session"]["id"]
        for _ in range(3):
            await turn(server, child, "something else")
        for id_ in (session, child, session):
            asked = f"/sessions/{id_}/transcript"
            for params in ({"limit": 5}, {"limit": 3}, {"limit": 5}):
                known = await server.http.get(asked, params=params)
                unknown = await fresh.http.get(asked, params=params)
                assert known.content == unknown.content
        await execute(fresh_database, "delete from records where seq = 2")
        problem(await server.http.get(path, params={"limit": 5}), 409, "history_missing")


async def test_the_steps_are_complete_or_an_error_too(fresh_database: str) -> None:
    async with serving(fresh_database) as server:
        session = await server.session()
        await turn(server, session, "hello")
        await execute(fresh_database, "delete from records where seq = 1")
        problem(await server.http.get(f"/sessions/{session}/steps"), 409, "history_missing")


async def test_min_revision_is_waited_for_within_a_bound(fresh_database: str) -> None:
    async with serving(fresh_database, transcript_wait=0.3) as server:
        session = await server.session()
        said = await turn(server, session, "hello")
        now = said["eventSeq"]
        assert (await query(server, session, min_revision=now)).json()["count"] == 2
        late = await query(server, session, min_revision=now + 1)
        problem(late, 503, "transcript_not_ready")
        assert late.headers["retry-after"] == "1"
    async with serving(fresh_database, transcript_wait=10, waits_per_principal=1) as server:
        coming = asyncio.create_task(query(server, session, min_revision=now + 1))
        await asyncio.sleep(0.1)
        assert not coming.done()
        problem(await query(server, session, min_revision=now + 1), 429, "too_many_waits")
        assert (await query(server, session, min_revision=now)).json()["count"] == 2
        await command(server, session, "Revert", messageId=said["turnId"])
        assert (await coming).json()["count"] == 0


async def test_the_live_session_is_not_needed(fresh_database: str) -> None:
    async with serving(fresh_database) as server:
        session = await server.session()
        await turn(server, session, "hello")
    async with serving(fresh_database, max_live_sessions=1) as server:
        other = await server.session()
        async with server.connect(other) as client:
            await client.snapshot()
            assert len(await ids(server, session)) == 2
            problem(await server.http.get(f"/sessions/{session}/steps"), 429, "queue_full")


async def test_with_little_memory_for_records_the_pages_are_the_same(
    fresh_database: str,
) -> None:
    async with serving(fresh_database, transcript_cache=1) as server:
        session = await server.session()
        await turn(server, session, "add a CSVFileScan")
        first = await get(server, f"/sessions/{session}/transcript")
        assert await get(server, f"/sessions/{session}/transcript") == first
        assert first["count"] == 3


async def test_many_readers_at_once_with_little_memory_each_get_whole_pages(
    fresh_database: str,
) -> None:
    async with serving(fresh_database, transcript_cache=2_000) as server:
        sessions = [await server.session() for _ in range(4)]
        for session in sessions:
            await turn(server, session, "add a CSVFileScan")
        readers = [ids(server, session) for session in sessions * 15]
        pages = await asyncio.gather(*readers)
        assert {len(page) for page in pages} == {3}


# -- what it comes to


@pytest.mark.case(7)
async def test_usage_leaves_a_reverted_turn_out_and_has_it_once_after_redo(
    scripted: tuple[Server, ScriptedProvider],
) -> None:
    server, provider = scripted
    session = await server.session()
    nothing = dict.fromkeys(
        ("turns", "steps", "model_calls", "tool_calls", "input_tokens", "output_tokens",
         "total_tokens"), 0,
    )  # fmt: skip
    empty = {"head_id": "step-initial", "revision": 0, "visible": nothing, "spent": nothing}
    assert await get(server, f"/sessions/{session}/usage") == empty
    adds = {"operatorId": "scan", "operatorType": "CSVFileScan", "properties": {}, "summary": ""}
    provider.will(
        [call("addOperator", adds), usage(100, 10)],
        [text("Added."), usage(120, 5)],
        [text("You are welcome."), usage(50, 7)],
    )
    await turn(server, session, "add a scan")
    one = await get(server, f"/sessions/{session}/usage")
    assert one["visible"] == one["spent"] == {
        "turns": 1, "steps": 3, "model_calls": 2, "tool_calls": 1,
        "input_tokens": 220, "output_tokens": 15, "total_tokens": 235,
    }  # fmt: skip
    said = await turn(server, session, "thanks")
    two = await get(server, f"/sessions/{session}/usage")
    assert two["visible"] == two["spent"] == {
        "turns": 2, "steps": 5, "model_calls": 3, "tool_calls": 1,
        "input_tokens": 270, "output_tokens": 22, "total_tokens": 292,
    }  # fmt: skip
    assert (two["head_id"], two["revision"]) == (said["headId"], said["eventSeq"])
    await command(server, session, "Revert", messageId=said["turnId"])
    reverted = await get(server, f"/sessions/{session}/usage")
    assert (reverted["visible"], reverted["spent"]) == (one["visible"], two["spent"])
    assert reverted["head_id"] == one["head_id"]
    await command(server, session, "Redo")
    redone = await get(server, f"/sessions/{session}/usage")
    assert (redone["visible"], redone["spent"]) == (two["visible"], two["spent"])


async def test_usage_counts_tool_calls_and_not_the_step_that_only_says_why_it_ended(
    fresh_database: str,
) -> None:
    async with serving(fresh_database, max_steps=1) as server:
        session = await server.session()
        await turn(server, session, "add a CSVFileScan")
        steps = (await get(server, f"/sessions/{session}/steps"))["steps"]
        assert steps[-1]["end_reason"] == "limit"
        counts = (await get(server, f"/sessions/{session}/usage"))["visible"]
        assert (counts["steps"], counts["model_calls"], counts["tool_calls"]) == (3, 1, 1)
