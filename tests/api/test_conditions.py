"""Conditional requests and methods: `If-Match` in a race, HEAD as GET, what a 405 says."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from processes import process
from rest import get, problem, routes, turn
from serving import Server, serving


def document(n: int) -> dict[str, Any]:
    return {"operators": [{"operatorID": f"op-{n}", "operatorType": "Limit"}]}


async def put(server: Any, session: str, n: int, match: str) -> httpx.Response:
    answer: httpx.Response = await server.http.put(
        f"/sessions/{session}/workflow", json=document(n), headers={"if-match": match}
    )
    return answer


async def tag(server: Any, session: str) -> str:
    return str((await server.http.get(f"/sessions/{session}/workflow")).headers["etag"])


async def test_of_many_puts_on_the_same_document_exactly_one_wins(server: Server) -> None:
    session = await server.session()
    for round_ in range(5):
        known = await tag(server, session)
        answers = await asyncio.gather(
            *(put(server, session, 10 * round_ + n, known) for n in range(8))
        )
        assert Counter(a.status_code for a in answers) == {200: 1, 412: 7}
        now = await get(server, f"/sessions/{session}/workflow")
        [won] = [n for n, a in enumerate(answers) if a.status_code == 200]
        assert now == document(10 * round_ + won)
    assert len((await get(server, f"/sessions/{session}/steps"))["steps"]) == 5


async def test_of_two_puts_by_two_processes_exactly_one_wins(
    fresh_database: str, tmp_path: Path
) -> None:
    async with process(tmp_path, fresh_database) as one, serving(fresh_database) as two:
        session = await one.session()
        for round_ in range(5):
            known = await tag(one, session)
            answers = await asyncio.gather(
                put(one, session, 2 * round_, known), put(two, session, 2 * round_ + 1, known)
            )
            assert Counter(a.status_code for a in answers) == {200: 1, 412: 1}


async def test_any_document_is_replaced_by_all_in_some_order(server: Server) -> None:
    session = await server.session()
    answers = await asyncio.gather(*(put(server, session, n, "*") for n in range(8)))
    assert {answer.status_code for answer in answers} == {200}
    assert len((await get(server, f"/sessions/{session}/steps"))["steps"]) == 8


async def test_tags_in_lists_and_odd_places(server: Server) -> None:
    session = await server.session()
    known = await tag(server, session)
    for n, listed in enumerate(('"a",{}', '"with,comma", {} , "b"', ",{},")):
        answer = await put(server, session, n, listed.format(known))
        assert answer.status_code == 200, (listed, answer.text)
        known = await tag(server, session)
    for match in (f"W/{known}", known.strip('"'), f'"{known}"', f"{known[:-1]}", "*, *"):
        problem(await put(server, session, 9, match), 412, "precondition_failed")
    two = [("if-match", '"a"'), ("if-match", known)]
    path = f"/sessions/{session}/workflow"
    assert (await server.http.put(path, json=document(9), headers=two)).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/sessions", "/sessions/{}", "/sessions/{}/steps", "/sessions/{}/workflow",
        "/sessions/{}/steps/step-initial/workflow", "/sessions/{}/branches",
        "/sessions/{}/diff?from=step-initial&to=step-initial", "/sessions/{}/usage",
        "/sessions/{}/transcript", "/capabilities", "/operator-types", "/healthz", "/readyz",
        "/openapi.json", "/", "/sessions/nothing", "/nowhere", "/sessions?limit=0",
    ],
)  # fmt: skip
async def test_head_is_get_without_its_body(server: Server, path: str) -> None:
    url = path.format(await server.session())
    got, head = await server.http.get(url), await server.http.head(url)
    assert head.content == b""
    ignored = {"date", "x-request-id"}
    said = [{k: v for k, v in a.headers.items() if k not in ignored} for a in (got, head)]
    assert (got.status_code, said[0]) == (head.status_code, said[1])


async def test_head_of_an_unchanged_transcript_is_304(server: Server) -> None:
    session = await server.session()
    await turn(server, session, "hello")
    path = f"/sessions/{session}/transcript"
    known = (await server.http.head(path)).headers["etag"]
    answer = await server.http.head(path, headers={"if-none-match": known})
    assert (answer.status_code, answer.headers["etag"]) == (304, known)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/sessions", "GET, HEAD, POST"),
        ("PUT", "/sessions/{}", "GET, HEAD, PATCH, DELETE"),
        ("HEAD", "/sessions/{}/commands", "POST"),
        ("GET", "/sessions/{}/commands", "POST"),
        ("DELETE", "/sessions/{}/workflow", "GET, HEAD, PUT"),
        ("POST", "/sessions/{}/transcript", "GET, HEAD"),
        ("PATCH", "/healthz", "GET, HEAD"),
    ],
)
async def test_a_405_lists_every_method_of_its_path(
    standing: Server, method: str, path: str, allowed: str
) -> None:
    answer = await standing.http.request(method, path.format(await standing.session()))
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == set(allowed.split(", "))


async def test_a_parameter_that_a_route_does_not_take_is_refused_by_each(standing: Server) -> None:
    session = await standing.session()
    for method, path in routes(standing):
        url = path.replace("{session_id}", session)
        said = problem(await standing.http.request(method, f"{url}?a~b/c=1"), 422, "bad_input")
        assert said["data"] == {"path": "/query/a~0b~1c"}, path
        assert "query/a~0b~1c" in said["detail"]
    answer = await standing.http.get(f"/sessions/{session}/steps?limt=5&limit=5")
    said = problem(answer, 422, "bad_input")
    assert "it takes `before`, `limit`, `all`, `at`" in said["detail"]


async def test_what_is_wrong_in_a_query_or_a_body_is_named_by_a_json_pointer(
    standing: Server,
) -> None:
    session = await standing.session()
    for answer, where in (
        (await standing.http.get("/sessions?limit=no"), "/query/limit"),
        (await standing.http.post(f"/sessions/{session}/commands?wait=x", json={}), "/query/wait"),
        (await standing.http.post("/sessions", json={"name": 7}), "/name"),
        (
            await standing.http.patch(f"/sessions/{session}", json={"settings": {"x": 1}}),
            "/settings/x",
        ),
    ):
        assert problem(answer, 422, "bad_input")["data"]["path"] == where


async def test_hosts_that_add_to_the_address_of_the_page_or_the_door_are_served(
    standing: Server,
) -> None:
    for path in ("/", "/api/agents"):
        assert (await standing.http.get(f"{path}?from=elsewhere")).status_code == 200


async def test_the_workflow_of_a_step_is_304_where_it_is_known(server: Server) -> None:
    session = await server.session()
    said = await turn(server, session, "add a CSVFileScan")
    path = f"/sessions/{session}/steps/{said['headId']}/workflow"
    known = (await server.http.get(path)).headers["etag"]
    again = await server.http.get(path, headers={"if-none-match": known})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", known)
    before = await server.http.get(f"{path}?side=before", headers={"if-none-match": known})
    assert before.status_code == 304  # the last step only answers
    initial = f"/sessions/{session}/steps/step-initial/workflow"
    assert (await server.http.get(initial, headers={"if-none-match": known})).status_code == 200
