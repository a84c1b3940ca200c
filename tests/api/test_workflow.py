"""The workflow over REST: read with its `ETag`, put by a host with `If-Match`."""

from __future__ import annotations

import json

import pytest
from naive_canvas import canonical
from rest import ADD_SCAN, NOT_AN_OBJECT, NOT_JSON, STOP, idle, problem, send
from scripted_provider import Pause, ScriptedProvider, text
from serving import Server
from workflows import FILES


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
    await send(standing, session, ADD_SCAN)
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
    assert put.headers["etag"] == saved.headers["etag"]
    step = (await standing.http.get(f"/sessions/{session}/steps")).json()["steps"][-1]
    assert (step["id"], step["kind"], step["role"]) == (put.json()["headId"], "edit", "user")
    same = await standing.http.put(url, json=mine, headers={"if-match": saved.headers["etag"]})
    assert (same.status_code, same.content) == (204, b"")
    assert same.headers["etag"] == saved.headers["etag"]
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
    await send(server, session, ADD_SCAN)
    url = f"/sessions/{session}/workflow"
    tag = (await server.http.get(url)).headers["etag"]
    problem(await server.http.put(url, json={}, headers={"if-match": tag}), 409, "busy")
    problem(await server.http.patch(f"/sessions/{session}", json={"archived": True}), 409, "busy")
    renamed = await server.http.patch(f"/sessions/{session}", json={"name": "still"})
    assert renamed.json()["name"] == "still"
    assert (await send(server, session, STOP)).status_code == 202
    assert (await idle(server, session))["name"] == "still"
