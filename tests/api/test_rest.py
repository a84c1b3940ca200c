"""Every route of REST at once: ids of nothing, paths and methods, whatever is sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive_canvas import canonical
from rest import STOP, ask, idle, never_internal, problem, prompted, routes, send
from serving import Server
from wire import Client
from workflows import documents, edit_lists

from turnback.store.ids import new_id

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


@pytest.mark.parametrize("id_", IDS, ids=lambda i: i[:20])
async def test_an_id_of_no_key_or_file_is_404(standing: Server, id_: str) -> None:
    session = await standing.session()
    key = await standing.http.delete(f"/keys/{id_}")
    file = f"/sessions/{session}/attachments/{id_}"
    files = [
        await standing.http.get(file),
        await standing.http.get(f"{file}/content"),
        await standing.http.delete(file),
    ]
    for answer, code in [(key, "unknown_key"), *((file, "attachment_not_found") for file in files)]:
        if "%2" in id_:  # the path is another route's, or no route's
            assert answer.status_code in (404, 405)
        else:
            problem(answer, 404, code)


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
        problem(await send(standing, mine, frame), 404, code)


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
        said = problem(answer, 405, "method_not_allowed")
        assert answer.headers["allow"] == ", ".join(said["data"]["allowed"])
        assert method not in said["data"]["allowed"]


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
    await send(server, session, STOP)
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
