"""Sessions over REST: created, listed and searched, changed, deleted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from naive_canvas import canonical
from rest import ADD_SCAN, NOT_AN_OBJECT, NOT_JSON, ask, idle, problem, prompted, routes, send
from serving import Server, serving
from workflows import FILES

SESSION = {
    "id", "name", "model", "state", "archived", "head_id", "revision", "settings", "created_at",
    "updated_at", "owner", "visibility", "rights", "waiting",
}  # fmt: skip


async def test_a_session_is_created_empty_or_with_a_name_and_a_workflow(server: Server) -> None:
    answer = await server.http.post("/sessions")
    body = answer.json()
    assert (answer.status_code, set(body)) == (201, SESSION)
    assert answer.headers["location"] == f"/sessions/{body['id']}"
    assert (body["name"], body["model"], body["state"]) == ("Untitled", "offline", "AVAILABLE")
    assert (body["head_id"], body["revision"], body["archived"]) == ("step-initial", 0, False)
    for file in FILES:
        document = json.loads(file.read_text())
        session = await server.session(name="Orders", workflow=document)
        saved = await server.http.get(f"/sessions/{session}/workflow")
        assert saved.text == canonical(document)
        assert (await server.http.get(f"/sessions/{session}")).json()["name"] == "Orders"


@pytest.mark.parametrize("body", [*NOT_JSON, *NOT_AN_OBJECT], ids=lambda b: repr(b[:12]))
async def test_a_body_that_is_no_json_object_is_invalid_format(
    standing: Server, body: bytes
) -> None:
    session = await standing.session()
    for method, path in (
        ("POST", "/sessions"),
        ("POST", f"/sessions/{session}/commands"),
        ("PATCH", f"/sessions/{session}"),
    ):
        problem(await standing.http.request(method, path, content=body), 400, "invalid_format")


@pytest.mark.parametrize(
    ("body", "code", "path"),
    [
        ('{"name": 5}', "bad_input", "/name"),
        ('{"name": ""}', "bad_input", "/name"),
        ('{"name": "a\\u0000b"}', "bad_input", "/name"),
        ('{"name": "\\ud83d"}', "bad_input", "/name"),
        (f'{{"name": "{"x" * 201}"}}', "bad_input", "/name"),
        ('{"nmae": "typo"}', "bad_input", "/nmae"),
        ('{"workflow": []}', "bad_input", "/workflow"),
        ('{"workflow": "{}"}', "bad_input", "/workflow"),
        ('{"model": 7}', "bad_input", "/model"),
        ('{"model": "\\u0000"}', "bad_input", "/model"),
        ('{"workflow": {"operators": {}}}', "invalid_workflow", "/operators"),
        ('{"workflow": {"operators": [{}]}}', "invalid_workflow", "/operators/0/operatorID"),
        ('{"workflow": {"links": [{"linkID": "l"}]}}', "invalid_workflow", "/links/0/source"),
        ('{"workflow": {"a": ["x", "a\\u0000b"]}}', "invalid_workflow", "/a/1"),
        ('{"workflow": {"a": "\\ud83d"}}', "invalid_workflow", "/a"),
        ('{"workflow": {"a": 18446744073709551616}}', "invalid_workflow", "/a"),
        ('{"workflow": {"a": -9223372036854775809}}', "invalid_workflow", "/a"),
        (f'{{"workflow": {{"a": 1{"0" * 5000}}}}}', "invalid_workflow", "/a"),
        ('{"workflow": {"a": NaN}}', "invalid_workflow", "/a"),
        ('{"workflow": {"a": 1e999}}', "invalid_workflow", "/a"),
        (f'{{"workflow": {{"a": {"[" * 200}{"]" * 200}}}}}', "invalid_workflow", None),
        ('{"workflow": {"operators": [{"operatorID": "a"}, {"operatorID": "a"}]}}',
         "invalid_workflow", "/operators/1/operatorID"),
    ],
)  # fmt: skip
async def test_a_body_that_cannot_be_held_is_refused_with_its_path(
    standing: Server, body: str, code: str, path: str | None
) -> None:
    refused = problem(await standing.http.post("/sessions", content=body), 422, code)
    assert path is None or refused["data"]["path"] == path


async def test_the_largest_numbers_are_kept_as_they_are(standing: Server) -> None:
    numbers = '{"a":[18446744073709551615,-9223372036854775808,1.0,1,0.1,1e+300,-0.0]}'
    answer = await standing.http.post("/sessions", content=f'{{"workflow":{numbers}}}')
    saved = await standing.http.get(f"/sessions/{answer.json()['id']}/workflow")
    assert saved.text == numbers


@pytest.mark.parametrize("model", ["gpt", "nowhere:gpt", "openai:", ":x", "offline:x", "🙂:🙂"])
async def test_a_model_that_cannot_be_used_is_refused_by_name(standing: Server, model: str) -> None:
    refused = await standing.http.post("/sessions", json={"model": model})
    problem(refused, 422, "model_not_configured")


async def test_what_is_too_large_is_413_with_the_name_of_the_limit(fresh_database: str) -> None:
    limits = {
        "max_body": 4000,
        "max_workflow_bytes": 1500,
        "max_prompt_bytes": 100,
        "max_edits": 3,
    }
    async with serving(fresh_database, **limits) as server:
        session = await server.session()
        saved = await server.http.get(f"/sessions/{session}/workflow")
        tag = {"if-match": saved.headers["etag"]}
        big = {"note": "x" * 2000}
        move = {"op": "changeSettings", "set": {"a": 1}}
        edit = {"type": "WsClientEditWorkflowCommand", "baseHeadId": "step-initial"}
        added = {"op": "changeSettings", "set": big}
        cases: list[tuple[str, str, Any, dict[str, str], str]] = [
            ("POST", "/sessions", {"name": "x" * 5000}, {}, "max_body"),
            ("PATCH", f"/sessions/{session}", {"name": "x" * 5000}, {}, "max_body"),
            ("PUT", f"/sessions/{session}/workflow", {"a": "x" * 5000}, tag, "max_body"),
            ("POST", f"/sessions/{session}/commands", {"x": "x" * 5000}, {}, "max_body"),
            ("POST", "/sessions", {"workflow": big}, {}, "max_workflow_bytes"),
            ("PUT", f"/sessions/{session}/workflow", big, tag, "max_workflow_bytes"),
            ("POST", f"/sessions/{session}/commands", edit | {"edits": [added]}, {},
             "max_workflow_bytes"),
            ("POST", f"/sessions/{session}/commands", edit | {"edits": [move] * 4}, {},
             "max_edits"),
            ("POST", f"/sessions/{session}/commands", ADD_SCAN | {"content": "ü" * 60}, {},
             "max_prompt_bytes"),
        ]  # fmt: skip
        for method, path, body, headers, limit in cases:
            answer = await server.http.request(method, path, json=body, headers=headers)
            refused = problem(answer, 413, "too_large")
            assert refused["data"] == {"limit": limit, "value": limits[limit]}, (path, limit)
        assert (await idle(server, session))["revision"] == 0


# -- listing


async def test_the_list_is_paged_from_the_newest_and_each_session_is_in_it_once(
    server: Server,
) -> None:
    made = [await server.session(name=f"n{at}") for at in range(7)]
    found: list[str] = []
    query = ""
    while True:
        page = (await server.http.get(f"/sessions?limit=3{query}")).json()
        found += [session["id"] for session in page["sessions"]]
        assert all(set(session) == SESSION for session in page["sessions"])
        if page["next_cursor"] is None:
            break
        assert len(page["sessions"]) == 3
        query = f"&cursor={page['next_cursor']}"
        await server.session(name="made while somebody pages")
    assert found == made[::-1]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("sales", {"Sales 100%", "old sales_report"}),
        ("SALES", {"Sales 100%", "old sales_report"}),
        ("100%", {"Sales 100%"}),
        ("s_r", {"old sales_report"}),
        ("%", {"Sales 100%"}),
        ("_", {"old sales_report"}),
        ("\\", {"back\\slash"}),
        ("größe", {"Größe"}),
        ("🙂", {"🙂"}),
        ("nothing has this", set()),
        ("\0", None),
        ("", None),
    ],
)
async def test_search_finds_what_holds_the_words_as_they_are(
    server: Server, query: str, found: set[str] | None
) -> None:
    names = ["Sales 100%", "old sales_report", "back\\slash", "Größe", "🙂", "other"]
    for name in names:
        await server.session(name=name)
    answer = await server.http.get("/sessions", params={"q": query})
    listed = {session["name"] for session in answer.json()["sessions"]}
    assert listed == (set(names) if found is None else found)


@pytest.mark.parametrize(
    "path",
    [
        "/sessions?limit=0", "/sessions?limit=-1", "/sessions?limit=501", "/sessions?limit=ten",
        f"/sessions?limit={10**30}", "/sessions?limit=", "/sessions?archived=perhaps",
        f"/sessions?q={'x' * 201}",
        "/sessions/{}/steps?limit=0", "/sessions/{}/steps?limit=501", "/sessions/{}/steps?all=7",
        "/sessions/{}/steps/step-initial/workflow?side=left", "/sessions/{}/diff",
        "/sessions/{}/diff?from=step-initial", "/sessions/{}/diff?to=step-initial",
        "/sessions/{}/revert-preview", "/sessions/{}/revert-preview?turn_id=a&step_id=b",
    ],
)  # fmt: skip
async def test_a_query_that_makes_no_sense_is_bad_input(standing: Server, path: str) -> None:
    session = await standing.session()
    problem(await standing.http.get(path.format(session)), 422, "bad_input")


async def test_the_length_of_a_page_is_a_setting(fresh_database: str) -> None:
    async with serving(fresh_database, page_limit=2) as server:
        session = await server.session()
        for path in ("/sessions", f"/sessions/{session}/steps"):
            assert (await server.http.get(f"{path}?limit=2")).status_code == 200
            refused = problem(await server.http.get(f"{path}?limit=3"), 422, "bad_input")
            assert refused["data"] == {"limit": "page_limit", "value": 2}


# -- changing


async def test_a_session_is_renamed_archived_and_unarchived(server: Server) -> None:
    session = await server.session(name="one")
    renamed = await server.http.patch(f"/sessions/{session}", json={"name": "two"})
    assert (renamed.json()["name"], renamed.json()["revision"]) == ("two", 1)
    archived = await server.http.patch(f"/sessions/{session}", json={"archived": True})
    assert archived.json()["archived"] is True
    assert (await server.http.get("/sessions")).json()["sessions"] == []
    listed = (await server.http.get("/sessions?archived=true")).json()["sessions"]
    assert [entry["id"] for entry in listed] == [session]
    problem(await send(server, session, ADD_SCAN), 409, "archived")
    both = await server.http.patch(
        f"/sessions/{session}", json={"archived": False, "name": "three"}
    )
    assert (both.json()["archived"], both.json()["name"]) == (False, "three")
    for nothing in ({}, {"name": None}, {"name": "three", "archived": False}):
        same = await server.http.patch(f"/sessions/{session}", json=nothing)
        assert same.json() == both.json()
    for bad in ({"name": 5}, {"name": ""}, {"archived": "perhaps"}, {"state": "AVAILABLE"}):
        problem(await server.http.patch(f"/sessions/{session}", json=bad), 422, "bad_input")


async def test_a_deleted_session_is_gone_for_every_route_but_its_purge(server: Server) -> None:
    session, _ = await prompted(server)
    assert (await server.http.delete(f"/sessions/{session}")).status_code == 204
    assert (await server.http.get("/sessions")).json()["sessions"] == []
    for method, path in routes(server):
        if "{session_id}" in path and not path.endswith("/purge"):
            answer = await ask(server, method, path, session, "step-initial")
            problem(answer, 404, "session_not_found")
