"""REST over a real server: every route, what it says of good input and of every other kind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive_canvas import canonical
from scripted_provider import Pause, ScriptedProvider, text
from serving import Server, serving
from wire import Client
from workflows import FILES, documents, edit_lists

from turnback.store.embedded import Embedded
from turnback.store.ids import new_id
from turnback.store.migrate import migrate

ADD_SCAN = {"type": "WsClientPromptCommand", "content": "add a CSVFileScan"}
REDO = {"type": "WsClientRedoCommand"}
STOP = {"type": "WsClientStopCommand"}
SESSION = {
    "id", "name", "model", "state", "archived", "head_id", "revision", "created_at", "updated_at",
}  # fmt: skip


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem that an answer must be."""
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert set(body) == {"type", "title", "status", "detail", "code", "data"}
    assert (body["status"], body["code"], body["type"]) == (status, code, "about:blank")
    assert body["title"]
    assert body["detail"]
    return body


def never_internal(answer: httpx.Response) -> None:
    """Whatever was sent: an answer, or a problem that is the sender's."""
    assert answer.status_code < 500 or answer.status_code == 501, answer.text
    if answer.status_code >= 400:
        problem(answer, answer.status_code, answer.json()["code"])


async def command(server: Server, session: str, frame: dict[str, Any]) -> httpx.Response:
    return await server.http.post(f"/sessions/{session}/commands", json=frame)


async def idle(server: Server, session: str) -> dict[str, Any]:
    """The session, when it is available."""
    async with asyncio.timeout(15):
        while True:
            body: dict[str, Any] = (await server.http.get(f"/sessions/{session}")).json()
            if body["state"] == "AVAILABLE":
                return body
            await asyncio.sleep(0.01)


async def prompted(server: Server, **body: Any) -> tuple[str, str]:
    """A session with one turn, and that turn."""
    session = await server.session(**body)
    answer = await command(server, session, ADD_SCAN)
    assert answer.status_code == 202, answer.text
    await idle(server, session)
    return session, answer.json()["turnId"]


# -- creating


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


NOT_JSON = [b"{", b"[1", b"nope", b"\xff\xfe", b'{"name": "\xff"}', b"[" * 100_000]
NOT_AN_OBJECT = [b"[]", b"7", b"null", b'"text"', b"true"]


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
    problem(await command(server, session, ADD_SCAN), 409, "archived")
    both = await server.http.patch(
        f"/sessions/{session}", json={"archived": False, "name": "three"}
    )
    assert (both.json()["archived"], both.json()["name"]) == (False, "three")
    for nothing in ({}, {"name": None}, {"name": "three", "archived": False}):
        same = await server.http.patch(f"/sessions/{session}", json=nothing)
        assert same.json() == both.json()
    for bad in ({"name": 5}, {"name": ""}, {"archived": "perhaps"}, {"state": "AVAILABLE"}):
        problem(await server.http.patch(f"/sessions/{session}", json=bad), 422, "bad_input")


async def test_a_deleted_session_is_gone_for_every_route(server: Server) -> None:
    session, _ = await prompted(server)
    assert (await server.http.delete(f"/sessions/{session}")).status_code == 204
    assert (await server.http.get("/sessions")).json()["sessions"] == []
    for method, path in routes(server):
        if "{session_id}" in path:
            answer = await ask(server, method, path, session, "step-initial")
            problem(answer, 404, "session_not_found")


# -- ids


def routes(server: Server) -> list[tuple[str, str]]:
    """Every route of REST: its method and path, with the names of what is in it."""
    paths = server.app.openapi()["paths"]
    return [
        (method.upper(), path)
        for path, methods in paths.items()
        for method in methods
        if not path.startswith("/api/agents")  # test_door.py
    ]


async def ask(server: Server, method: str, path: str, session: str, step: str) -> httpx.Response:
    """Ask a route for a session and a step, with all else as it should be."""
    url = path.replace("{session_id}", session).replace("{step_id}", step)
    params = {"from": step, "to": step} if path.endswith("/diff") else None
    if path.endswith("/revert-preview"):
        params = {"step_id": step}
    if method == "GET":
        return await server.http.get(url, params=params)
    content = {"PUT": b"{}", "DELETE": b"", "PATCH": b"{}"}.get(method, json.dumps(STOP).encode())
    return await server.http.request(method, url, content=content, headers={"if-match": '"x"'})


async def test_the_routes_are_those_of_the_protocol(standing: Server) -> None:
    session = "/sessions/{session_id}"
    assert set(routes(standing)) == {
        ("POST", "/sessions"), ("GET", "/sessions"), ("GET", session), ("PATCH", session),
        ("DELETE", session), ("POST", f"{session}/commands"), ("GET", f"{session}/steps"),
        ("GET", f"{session}/steps/{{step_id}}/workflow"), ("GET", f"{session}/workflow"),
        ("PUT", f"{session}/workflow"), ("GET", f"{session}/branches"), ("GET", f"{session}/diff"),
        ("GET", f"{session}/transcript"), ("POST", "/sessions/transcript/query"),
        ("GET", f"{session}/usage"),
        ("GET", f"{session}/revert-preview"),
        ("GET", "/capabilities"), ("GET", "/operator-types"), ("GET", "/healthz"),
        ("GET", "/readyz"), ("GET", "/metrics"),
    }  # fmt: skip


IDS = [
    "nope", "019A0000-0000-7000-8000-000000000000", "019a0000-0000-7000-8000-000000000000",
    "019a0000000070008000000000000000", "%00", "%ff", "💥", "x" * 5000, "'; drop table sessions--",
    "..%2f..%2fetc%2fpasswd", "%2e%2e", "step-initial", "{}", "null", "0",
]  # fmt: skip


@pytest.mark.parametrize("id_", IDS, ids=lambda i: i[:20])
async def test_an_id_of_no_session_is_404_on_every_route(standing: Server, id_: str) -> None:
    await standing.session()
    for method, path in routes(standing):
        if "{session_id}" not in path:
            continue
        answer = await ask(standing, method, path, id_, "step-initial")
        named = "%2f" not in id_  # or else the path is another route's, or no route's
        problem(answer, 404, "session_not_found" if named else answer.json()["code"])


@pytest.mark.parametrize("id_", [i for i in IDS if i not in ("step-initial", "%2e%2e")])
async def test_an_id_of_no_step_is_404_on_every_route(standing: Server, id_: str) -> None:
    session, turn = await prompted(standing)
    assert turn
    url = f"/sessions/{session}"
    answers = [
        await standing.http.get(f"{url}/steps/{id_}/workflow"),
        await standing.http.get(f"{url}/steps", params={"before": id_}),
        await standing.http.get(f"{url}/steps", params={"before": id_, "all": "true"}),
        await standing.http.get(f"{url}/diff", params={"from": id_, "to": "step-initial"}),
        await standing.http.get(f"{url}/diff", params={"from": "step-initial", "to": id_}),
        await standing.http.get(f"{url}/revert-preview", params={"step_id": id_}),
    ]
    for answer in answers[1:]:
        problem(answer, 404, "unknown_step")
    assert answers[0].json()["code"] in ("unknown_step", "not_found")
    problem(answers[0], 404, answers[0].json()["code"])


async def test_a_step_of_another_session_is_an_unknown_one(standing: Server) -> None:
    mine, _ = await prompted(standing)
    other, turn = await prompted(standing)
    theirs = (await standing.http.get(f"/sessions/{other}")).json()["head_id"]
    answer = await standing.http.get(f"/sessions/{mine}/steps/{theirs}/workflow")
    assert problem(answer, 404, "unknown_step")["detail"] == f"Unknown step: {theirs}"
    for frame, code in (
        ({"type": "WsClientRevertCommand", "messageId": turn}, "unknown_turn"),
        ({"type": "WsClientRevertCommand", "stepId": theirs}, "unknown_step"),
        ({"type": "WsClientCheckoutCommand", "stepId": theirs}, "unknown_step"),
    ):
        problem(await command(standing, mine, frame), 404, code)


@pytest.mark.parametrize(
    "path",
    [
        "/nope", "/sessions/x/y", "/assets/../../pyproject.toml",
        "/assets/%2e%2e/%2e%2e/app.py", "/assets/..%2f..%2fapp.py", "/assets/%00",
        "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/s/../../etc/passwd", "/assets//etc/passwd",
    ],
)  # fmt: skip
async def test_a_path_that_leads_nowhere_is_a_404_problem(standing: Server, path: str) -> None:
    reader, writer = await asyncio.open_connection(*standing.url.removeprefix("http://").split(":"))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    status = (await reader.readline()).decode()
    rest = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    assert status.split()[1] == "404", (status, rest)
    assert "application/problem+json" in rest
    assert '"code":"not_found"' in rest


async def test_another_method_is_405_and_says_which_there_are(standing: Server) -> None:
    session = await standing.session()
    for method, path in (
        ("DELETE", "/sessions"), ("PUT", f"/sessions/{session}"), ("POST", "/capabilities"),
        ("PATCH", f"/sessions/{session}/workflow"), ("GET", f"/sessions/{session}/commands"),
        ("DELETE", f"/sessions/{session}/steps"),
    ):  # fmt: skip
        answer = await standing.http.request(method, path)
        problem(answer, 405, "bad_input")
        assert answer.headers["allow"]


# -- steps and branches


async def test_the_steps_are_paged_back_and_a_cursor_stays_good_when_head_moves(
    standing: Server,
) -> None:
    session, turn = await prompted(standing)
    url = f"/sessions/{session}/steps"
    whole = (await standing.http.get(url)).json()
    assert whole["next_cursor"] is None
    contents = [step["content"] for step in whole["steps"]]
    assert contents[0] == ADD_SCAN["content"]
    assert [step["record_index"] for step in whole["steps"]] == list(range(len(contents)))
    assert {step["turn_id"] for step in whole["steps"]} == {turn}
    assert "tool_call_id" in whole["steps"][1]["tool_results"][0]
    assert "operatorId" in whole["steps"][1]["tool_calls"][0]["input"]
    newest = (await standing.http.get(f"{url}?limit=1")).json()
    assert [step["content"] for step in newest["steps"]] == contents[-1:]
    await command(standing, session, {"type": "WsClientRevertCommand", "messageId": turn})
    assert (await standing.http.get(url)).json() == {"steps": [], "next_cursor": None}
    older = (await standing.http.get(f"{url}?before={newest['next_cursor']}")).json()
    assert [step["content"] for step in older["steps"]] == contents[:-1]
    every = (await standing.http.get(f"{url}?all=true")).json()
    assert every["steps"] == whole["steps"]


async def test_branches_name_the_lines_that_part_and_which_is_shown(standing: Server) -> None:
    session, turn = await prompted(standing)
    url = f"/sessions/{session}/branches"
    assert (await standing.http.get(url)).json() == {"branches": []}
    tip = (await standing.http.get(f"/sessions/{session}")).json()["head_id"]
    await command(standing, session, {"type": "WsClientRevertCommand", "messageId": turn})
    other = ADD_SCAN | {"content": "add a TextInput"}
    await command(standing, session, other)
    head = (await idle(standing, session))["head_id"]
    found = (await standing.http.get(url)).json()["branches"]
    assert [(b["parent_id"], b["content"], b["tip"], b["on_path"]) for b in found] == [
        ("step-initial", ADD_SCAN["content"], tip, False),
        ("step-initial", other["content"], head, True),
    ]


async def test_the_diff_of_two_steps_names_what_differs(standing: Server) -> None:
    session, _ = await prompted(standing)
    head = (await standing.http.get(f"/sessions/{session}")).json()["head_id"]
    url = f"/sessions/{session}/diff"
    built = (await standing.http.get(url, params={"from": "step-initial", "to": head})).json()
    assert list(built["operators"]["added"]) == ["op1"]
    back = (await standing.http.get(url, params={"from": head, "to": "step-initial"})).json()
    assert list(back["operators"]["removed"]) == ["op1"]
    same = (await standing.http.get(url, params={"from": head, "to": head})).json()
    assert same["touched"] == []
    assert not same["operators"]["changed"]


# -- the workflow


async def test_the_workflow_has_an_etag_and_304_where_it_is_known(standing: Server) -> None:
    session = await standing.session()
    url = f"/sessions/{session}/workflow"
    first = await standing.http.get(url)
    tag = first.headers["etag"]
    assert first.headers["content-type"] == "application/json"
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        answer = await standing.http.get(url, headers={"if-none-match": known})
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["etag"] == tag
    for other in ('"other"', tag.strip('"')[:-1], ""):
        answer = await standing.http.get(url, headers={"if-none-match": other})
        assert answer.content == first.content
    await command(standing, session, ADD_SCAN)
    await idle(standing, session)
    assert (await standing.http.get(url, headers={"if-none-match": tag})).status_code == 200


async def test_a_host_puts_its_document_on_the_one_it_read(standing: Server) -> None:
    session = await standing.session()
    url = f"/sessions/{session}/workflow"
    mine = json.loads(FILES[0].read_text())
    tag = (await standing.http.get(url)).headers["etag"]
    problem(await standing.http.put(url, json=mine), 428, "precondition_required")
    for stale in ('"stale"', f"W/{tag}", ""):
        answer = await standing.http.put(url, json=mine, headers={"if-match": stale})
        assert problem(answer, 412, "precondition_failed")["data"] == {"etag": tag.strip('"')}
    put = await standing.http.put(url, json=mine, headers={"if-match": f'"stale", {tag}'})
    assert put.status_code == 200, put.text
    assert set(put.json()) == {"headId", "eventSeq", "turnId"}
    saved = await standing.http.get(url)
    assert saved.text == canonical(mine)
    step = (await standing.http.get(f"/sessions/{session}/steps")).json()["steps"][-1]
    assert (step["id"], step["kind"], step["role"]) == (put.json()["headId"], "edit", "user")
    same = await standing.http.put(url, json=mine, headers={"if-match": saved.headers["etag"]})
    assert (same.status_code, same.content) == (204, b"")
    again = await standing.http.put(url, json={}, headers={"if-match": tag})
    problem(again, 412, "precondition_failed")
    anyway = await standing.http.put(url, json={}, headers={"if-match": "*"})
    assert anyway.status_code == 200
    assert (await standing.http.get(url)).text == "{}"


@pytest.mark.parametrize(
    "body", [*NOT_JSON, *NOT_AN_OBJECT, b"", b'{"operators": 1}', b'{"a": 1e999}'],
    ids=lambda b: repr(b[:12]),
)  # fmt: skip
async def test_what_is_no_workflow_is_not_put(standing: Server, body: bytes) -> None:
    session = await standing.session()
    url = f"/sessions/{session}/workflow"
    answer = await standing.http.put(url, content=body, headers={"if-match": "*"})
    assert "path" in problem(answer, 422, "invalid_workflow")["data"]
    assert (await standing.http.get(f"/sessions/{session}")).json()["revision"] == 0


async def test_while_the_agent_is_busy_nothing_is_put_or_archived(
    scripted: tuple[Server, ScriptedProvider],
) -> None:
    server, provider = scripted
    provider.will([text("on and on"), Pause()])
    session = await server.session()
    await command(server, session, ADD_SCAN)
    url = f"/sessions/{session}/workflow"
    tag = (await server.http.get(url)).headers["etag"]
    problem(await server.http.put(url, json={}, headers={"if-match": tag}), 409, "busy")
    problem(await server.http.patch(f"/sessions/{session}", json={"archived": True}), 409, "busy")
    renamed = await server.http.patch(f"/sessions/{session}", json={"name": "still"})
    assert renamed.json()["name"] == "still"
    assert (await command(server, session, STOP)).status_code == 202
    assert (await idle(server, session))["name"] == "still"


# -- commands


async def test_a_command_answers_202_with_head_event_and_turn(standing: Server) -> None:
    session = await standing.session()
    answer = await command(standing, session, ADD_SCAN)
    assert answer.status_code == 202
    turn = answer.json()["turnId"]
    assert set(answer.json()) == {"headId", "eventSeq", "turnId"}
    built = await idle(standing, session)
    workflow = (await standing.http.get(f"/sessions/{session}/workflow")).text
    reverted = await command(
        standing, session, {"type": "WsClientRevertCommand", "messageId": turn}
    )
    assert reverted.json() == {"headId": "step-initial", "eventSeq": built["revision"] + 1}
    redone = await command(standing, session, REDO)
    assert redone.json()["headId"] == built["head_id"]
    assert (await standing.http.get(f"/sessions/{session}/workflow")).text == workflow
    checkout = {"type": "WsClientCheckoutCommand", "stepId": "step-initial"}
    assert (await command(standing, session, checkout)).json()["headId"] == "step-initial"
    note = {"op": "addComment", "comment": {"commentBoxID": "n"}}
    edit = {"type": "WsClientEditWorkflowCommand", "baseHeadId": "step-initial", "edits": [note]}
    assert set((await command(standing, session, edit)).json()) == {"headId", "eventSeq", "turnId"}
    assert (await command(standing, session, STOP)).status_code == 202


REFUSED: list[dict[str, Any]] = [
    {},
    {"type": "WsClientNothing"},
    {"type": 5},
    {"type": "WsClientPromptCommand"},
    {"type": "WsClientPromptCommand", "content": " "},
    {"type": "WsClientPromptCommand", "content": "a\0b"},
    {"type": "WsClientPromptCommand", "content": "x", "messageSource": "spam"},
    {"type": "WsClientPromptCommand", "content": "x", "turnKey": ""},
    {"type": "WsClientPromptCommand", "content": "x", "expectedHeadId": "elsewhere"},
    {"type": "WsClientPromptCommand", "content": "x", "attachmentIds": ["a"]},
    {"type": "WsClientRevertCommand"},
    {"type": "WsClientRevertCommand", "messageId": "nope"},
    {"type": "WsClientRevertCommand", "stepId": "nope"},
    {"type": "WsClientRevertCommand", "messageId": "nope", "effects": "undo"},
    {"type": "WsClientRedoCommand"},
    {"type": "WsClientRedoCommand", "all": "perhaps"},
    {"type": "WsClientCheckoutCommand"},
    {"type": "WsClientCheckoutCommand", "stepId": "nope"},
    {"type": "WsClientEditWorkflowCommand", "baseHeadId": "step-initial", "edits": []},
    {"type": "WsClientEditWorkflowCommand", "baseHeadId": "step-initial", "edits": [{"op": "fly"}]},
    {"type": "WsClientEditWorkflowCommand", "baseHeadId": "nope",
     "edits": [{"op": "removeLink", "linkID": "x"}]},
    {"type": "WsClientEditWorkflowCommand", "baseHeadId": "step-initial",
     "edits": [{"op": "removeLink", "linkID": "x"}]},
    {"type": "WsClientEditWorkflowCommand", "baseHeadId": "step-initial",
     "edits": [{"op": "replaceWorkflow", "workflow": {"operators": 7}}]},
    {"type": "WsClientApproveCommand", "toolCallId": "t", "decision": "approve"},
]  # fmt: skip


async def test_a_refusal_is_the_same_on_the_socket_and_over_rest(standing: Server) -> None:
    session = await standing.session()
    async with standing.connect(session) as client:
        await client.snapshot()
        for frame in REFUSED:
            told = await refused_on(client, frame)
            answer = await command(standing, session, frame)
            body = problem(answer, answer.status_code, told["code"])
            assert 400 <= answer.status_code < 600
            assert (body["detail"], body["data"]) == (told["error"], told["data"]), frame
        assert client.durable == []
    assert (await standing.http.get(f"/sessions/{session}")).json()["revision"] == 0


async def refused_on(client: Client, frame: dict[str, Any]) -> dict[str, Any]:
    seen = len(client.frames)
    await client.send_raw(json.dumps(frame))
    told = await client.wait(lambda f: True, since=seen)
    assert told["type"] == "WsServerErrorEvent", (frame, told)
    return told


async def test_a_request_id_is_one_request_on_the_socket_and_over_rest(standing: Server) -> None:
    session = await standing.session()
    async with standing.connect(session) as client:
        await client.snapshot()
        ack = await client.ask("Prompt", content=ADD_SCAN["content"], requestId="r")
        await idle(standing, session)
        answer = await command(standing, session, ADD_SCAN | {"requestId": "r"})
        body = answer.json()
        assert (body["headId"], body["eventSeq"]) == (ack["headId"], ack["eventSeq"])
        assert body["turnId"] == ack["messageId"]
        other = await command(standing, session, ADD_SCAN | {"requestId": "r", "content": "else"})
        problem(other, 422, "request_conflict")


# -- the server


async def test_capabilities_name_what_is_offered_and_the_limits(standing: Server) -> None:
    body = (await standing.http.get("/capabilities")).json()
    assert body["protocols"] == ["turnback.base", "turnback.v1"]
    assert body["model"] == "offline"
    assert all(isinstance(value, int) for value in body["limits"].values())
    session = await standing.session()
    for type_ in body["commands"]:
        answer = await command(standing, session, {"type": type_})
        assert answer.json().get("code") != "not_available"


async def test_operator_types_have_ports_and_schemas(standing: Server) -> None:
    types = (await standing.http.get("/operator-types")).json()["types"]
    known = {kind["type"]: kind for kind in types}
    assert {"CSVFileScan", "Filter", "HashJoin", "PythonUDFV2"} <= set(known)
    assert len(known["HashJoin"]["input_ports"]) == 2
    assert all(kind["properties"]["type"] == "object" for kind in types)


async def test_it_is_alive_and_ready(standing: Server) -> None:
    assert (await standing.http.get("/healthz")).json() == {"status": "ok"}
    assert (await standing.http.get("/readyz")).json() == {"status": "ready"}


async def test_without_its_database_it_is_alive_and_not_ready(tmp_path: Path) -> None:
    with Embedded.start(tmp_path) as embedded:
        await asyncio.to_thread(migrate, embedded.url)
        async with serving(embedded.url, db_connect_timeout=1.0) as server:
            session = await server.session()
            assert (await server.http.get("/readyz")).status_code == 200
            await asyncio.to_thread(embedded.stop)
            assert (await server.http.get("/healthz")).status_code == 200
            for answer in (
                await server.http.get("/readyz"),
                await server.http.get("/sessions"),
                await server.http.post("/sessions"),
                await server.http.get(f"/sessions/{session}"),
                await command(server, session, ADD_SCAN),
            ):
                problem(answer, 503, "database_unavailable")
                assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1", "[::2]:80",
        "0.0.0.0", "", "a:b:c", "[", "@", "evil@127.0.0.1", "localhost/x",
    ],
)  # fmt: skip
async def test_a_foreign_host_is_refused(standing: Server, host: str) -> None:
    answer = await standing.http.get("/sessions", headers={"host": host})
    if answer.status_code == 400:
        return  # no `Host` at all for the web server itself
    problem(answer, 421, "host_refused")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.8.9.1:9", "[::1]:5"]
)
async def test_a_loopback_host_is_served(standing: Server, host: str) -> None:
    assert (await standing.http.get("/sessions", headers={"host": host})).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "file://",
                                    "http://localhost.evil.example", ""])  # fmt: skip
async def test_a_page_of_another_origin_reads_and_writes_nothing(
    standing: Server, origin: str
) -> None:
    session = await standing.session()
    for method, path in routes(standing):
        url = path.replace("{session_id}", session).replace("{step_id}", "step-initial")
        answer = await standing.http.request(method, url, headers={"origin": origin})
        problem(answer, 403, "origin_refused")
    assert (await standing.http.get(f"/sessions/{session}")).json()["revision"] == 0


async def test_a_browser_is_told_that_an_allowed_origin_may_read_and_no_other(
    fresh_database: str,
) -> None:
    async with serving(fresh_database, allowed_origins=("https://app.example/",)) as server:
        asks = {
            "origin": "https://app.example",
            "access-control-request-method": "PUT",
            "access-control-request-headers": "if-match",
        }
        before = await server.http.options("/sessions/x/workflow", headers=asks)
        assert before.headers["access-control-allow-origin"] == "https://app.example"
        assert "PUT" in before.headers["access-control-allow-methods"]
        assert before.headers["access-control-allow-headers"] == "if-match"
        read = await server.http.get("/sessions", headers={"origin": "https://app.example"})
        assert read.headers["access-control-allow-origin"] == "https://app.example"
        assert "etag" in read.headers["access-control-expose-headers"].lower()
        other = await server.http.get("/sessions", headers={"origin": "https://evil.example"})
        assert other.status_code == 403
        assert "access-control-allow-origin" not in other.headers


async def test_the_servers_own_page_and_allowed_origins_are_served(fresh_database: str) -> None:
    async with serving(fresh_database, allowed_origins=("https://app.example/",)) as server:
        for origin in (server.url, server.url.upper(), "https://app.example"):
            answer = await server.http.post("/sessions", headers={"origin": origin})
            assert answer.status_code == 201


# -- whatever comes

TEXT = st.text(max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
ODD = JSON | st.sampled_from(["step-initial", "\0", "\ud83d", 2**64, "x" * 300])
TYPES = st.sampled_from(["Prompt", "Stop", "Revert", "Redo", "Checkout", "EditWorkflow", "Undo"])
KEYS = [
    "content", "messageSource", "turnKey", "requestId", "expectedHeadId", "messageId", "stepId",
    "all", "effects", "planId", "confirm", "keepEdits", "baseHeadId", "edits", "attachmentIds",
]  # fmt: skip
EDITS = edit_lists().map(
    lambda edits: [edit.model_dump(mode="json", exclude_unset=True) for edit in edits]
)
FRAMES = st.builds(
    lambda type_, fields: {"type": f"WsClient{type_}Command", **fields},
    TYPES,
    st.dictionaries(st.sampled_from(KEYS), ODD, max_size=4)
    | st.fixed_dictionaries({"baseHeadId": st.just("step-initial"), "edits": EDITS})
    | st.fixed_dictionaries({"content": TEXT.map(lambda t: t + "x"), "requestId": TEXT}),
)
BODIES = st.one_of(
    JSON,
    st.fixed_dictionaries({}, optional={"name": ODD, "model": ODD, "workflow": ODD, "x": ODD}),
    st.fixed_dictionaries({"workflow": documents()}),
)
ANYTHING = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def encoded(value: Any) -> bytes:
    """JSON as a careless client writes it, NaN and half surrogates and all."""
    return json.dumps(value).encode()


@ANYTHING
@given(body=BODIES.map(encoded) | st.binary(max_size=60))
async def test_whatever_is_posted_makes_a_session_or_a_problem(
    standing: Server, body: bytes
) -> None:
    answer = await standing.http.post("/sessions", content=body)
    never_internal(answer)
    if answer.status_code == 201:
        session = answer.json()["id"]
        saved = await standing.http.get(f"/sessions/{session}/workflow")
        sent = json.loads(body or b"{}")
        if sent.get("workflow") is not None:
            assert canonical(json.loads(saved.text)) == saved.text == canonical(sent["workflow"])


@ANYTHING
@given(frame=FRAMES | JSON, data=st.data())
async def test_whatever_is_commanded_is_done_or_refused_on_both_ways(
    fuzzed: tuple[Server, str, Client], frame: Any, data: st.DataObject
) -> None:
    server, session, client = fuzzed
    body = encoded(frame)
    if data.draw(st.booleans()):
        never_internal(await server.http.post(f"/sessions/{session}/commands", content=body))
    else:
        await client.send_raw(body.decode())
        barrier = new_id()
        await client.send_raw(json.dumps({"type": barrier}))
        seen = len(client.frames)
        await client.wait(lambda f: barrier in f.get("error", ""), since=max(0, seen - 5))
        assert not [f for f in client.frames if f.get("code") == "internal"]
    client.frames.clear()
    client.texts.clear()
    await command(server, session, STOP)
    await idle(server, session)


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[tuple[Server, str, Client]]:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        yield server, session, client


@pytest.fixture
async def fuzzed(standing: Server) -> AsyncIterator[tuple[Server, str, Client]]:
    """A server, a session and a socket of it, for many examples."""
    async with connected(standing) as all_three:
        yield all_three


@ANYTHING
@given(path=st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), max_size=30), query=TEXT)
async def test_whatever_path_is_asked_for_is_answered(
    standing: Server, path: str, query: str
) -> None:
    session = await standing.session()
    for start in ("/", "/sessions/", f"/sessions/{session}/", f"/sessions/{session}/steps/"):
        try:
            url = httpx.URL(f"{standing.url}{start}{path}", params={"before": query, "q": query})
        except httpx.InvalidURL:
            continue
        if url.host == "127.0.0.1":
            answer = await standing.http.get(url)
            assert answer.status_code < 500


async def test_no_page_of_the_framework_loads_scripts_from_elsewhere(server: Server) -> None:
    for path in ("/docs", "/redoc", "/docs/oauth2-redirect"):
        assert (await server.http.get(path)).status_code == 404
    described = (await server.http.get("/openapi.json")).json()
    assert described["info"]["title"] == "Turnback"
    assert "HTTPValidationError" not in json.dumps(described["paths"])
