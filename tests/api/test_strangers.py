"""Every way by which a byte of a session might leave it, tried by who may not read it (law 8).

What routes and frames answer is in test_rights.py; here are the ways around them: ids, cursors,
tags, keys and events of one session, tried on another or by another.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from people import MARK, Kind, Who, World, peopled
from rest import problem
from wire import is_error

from turnback.core.principal import ProjectRole, service_of
from turnback.store.ids import new_id

STRANGERS: list[tuple[Who, Kind]] = [
    ("stranger", "project"),
    ("guest", "project"),
    ("viewer", "private"),
    ("editor", "private"),
    ("runs-unread", "private"),
    ("maker", "child"),
    ("reads", "child"),
    ("owner", "deleted"),
]
"""Who tries, and which session is none of theirs."""

strange = pytest.mark.parametrize(("who", "kind"), STRANGERS, ids=lambda it: str(it))


@pytest.fixture(scope="module")
async def world(module_database: str) -> AsyncIterator[World]:
    async with peopled(module_database) as made:
        yield made


def nothing(answer: httpx.Response, code: str = "session_not_found", status: int = 404) -> None:
    """Nothing of a session is in this refusal."""
    problem(answer, status, code)
    assert MARK not in answer.text + str(answer.headers)


async def reader(world: World, kind: Kind, path: str, **more: Any) -> httpx.Response:
    """What the project's owner is told, for whom the session is there."""
    answer = await world.ask("owner", "GET", f"/sessions/{world.made[kind].id}{path}", **more)
    assert answer.is_success, answer.text
    return answer


@pytest.mark.lineage(19)
async def test_whatever_stands_between_answers_alike(world: World) -> None:
    private, deleted = world.made["private"], world.made["deleted"]
    revoked, broken = await world.renew("private"), await world.renew("child")
    gone = await world.ask("maker", "DELETE", f"/sessions/{revoked.id}/grants/reads")
    assert gone.status_code == 204
    before = await world.ask("editor", "GET", f"/sessions/{broken.id}")
    assert before.status_code == 200
    async with world.identities._db.connection() as connection:
        await connection.execute(
            "update session_lineage set sources = array[gen_random_uuid()] where session_id = $1",
            broken.id,
        )
    asked: list[tuple[Who, str]] = [
        ("stranger", private.id),
        ("editor", private.id),
        ("reads", revoked.id),
        ("owner", deleted.id),
        ("editor", broken.id),
        ("viewer", new_id()),
        ("viewer", "nothing"),
    ]
    for path in ("", "/transcript", "/steps", "/attachments", "/usage", "/pending-action"):
        answers = {
            (await world.ask(who, "GET", f"/sessions/{id_}{path}")).content for who, id_ in asked
        }
        assert len(answers) == 1, path
    await world.renew("private")
    await world.renew("child")


async def test_a_right_that_goes_while_a_transcript_is_waited_for_is_gone(world: World) -> None:
    made = await world.session()
    await world._grant(made.id)
    now = (await world.ask("reads", "GET", f"/sessions/{made.id}")).json()["revision"]
    body = {"session_id": made.id, "min_revision": now + 1}
    url = "/sessions/transcript/query"
    coming = asyncio.create_task(world.ask("reads", "POST", url, json=body))
    await asyncio.sleep(0.2)
    assert not coming.done()
    # What takes the grant away is what was waited for.
    gone = await world.ask("owner", "DELETE", f"/sessions/{made.id}/grants/reads")
    assert gone.status_code == 204
    nothing(await coming, "session_not_found")


@pytest.mark.parametrize("who", ["viewer", "forks"])
async def test_who_forks_and_may_not_run_leaves_no_prompt_that_nobody_can_send(
    world: World, who: Who
) -> None:
    made = await world.session()
    if who == "forks":
        await world._grant(made.id)
    url = f"/sessions/{made.id}/fork"
    body = {"boundary": {"turn_id": made.turn, "position": "before"}, "mode": "rerun"}
    said = problem(await world.ask(who, "POST", url, json=body), 403, "not_allowed")
    assert said["data"] == {"right": "run"}
    still = await world.ask(who, "POST", url, json={"boundary": body["boundary"]})
    assert (still.status_code, still.json()["session"]["rights"]) == (201, ["read", "fork"])
    prompt = {"type": "WsClientPromptCommand", "content": "hi"}
    here = f"/sessions/{still.json()['session']['id']}"
    for method, path, more in (
        ("POST", f"{here}/commands", prompt),
        ("PATCH", here, {"name": "mine"}),
        ("DELETE", here, None),
    ):
        problem(await world.ask(who, method, path, json=more), 403, "not_allowed")

    # With `run` on what they fork they have it on the fork, and what is pending is theirs to send.
    rights = {"rights": ["read", "run", "fork"]}
    await world.ask("owner", "PUT", f"/sessions/{made.id}/grants/{who}", json=rights)
    named = body | {"target_session_id": new_id()}
    answer = await world.ask(who, "POST", url, json=named)
    assert answer.status_code == 201, answer.text
    assert answer.json()["session"]["rights"] == ["read", "run", "fork"]
    pending = answer.json()["pending_action"]
    prompt |= {"content": pending["draft"], "turnKey": pending["turn_key"]}
    path = f"/sessions/{named['target_session_id']}/commands?wait=end"
    sent = await world.ask(who, "POST", path, json=prompt)
    assert sent.status_code == 200, sent.text

    # Taken back, the fork that was made is found all the same.
    await world.ask("owner", "DELETE", f"/sessions/{made.id}/grants/{who}")
    again = await world.ask(who, "POST", url, json=named)
    if who == "viewer":
        assert (again.status_code, again.json()["session"]["id"]) == (
            200,
            named["target_session_id"],
        )
    else:
        problem(again, 404, "session_not_found")


@pytest.mark.lineage(20)
async def test_who_may_run_and_not_read_forks_nothing(world: World) -> None:
    for kind in ("project", "private", "child"):
        made = world.made[kind]
        target = new_id()
        asked = {"target_session_id": target}
        for body in ({}, asked):
            url = f"/sessions/{made.id}/fork"
            nothing(await world.ask("runs-unread", "POST", url, json=body))
        nothing(await world.ask("owner", "GET", f"/sessions/{target}"))
        query = {"session_id": made.id}
        nothing(await world.ask("runs-unread", "POST", "/sessions/lineage/query", json=query))


@strange
async def test_tags_and_ranges_bring_nothing(world: World, who: Who, kind: Kind) -> None:
    made = world.made[kind]
    file = f"/attachments/{made.attachment}/content"
    for path in ("/workflow", "/transcript", f"/steps/{made.step}/workflow", file):
        tag = "*"
        if kind != "deleted":
            tag = (await reader(world, kind, path)).headers["etag"]
        for headers in ({}, {"if-none-match": tag}, {"if-none-match": "*"}, {"range": "bytes=0-"}):
            url = f"/sessions/{made.id}{path}"
            nothing(await world.ask(who, "GET", url, headers=headers))
            head = await world.ask(who, "HEAD", url, headers=headers)
            assert (head.status_code, head.content) == (404, b"")
            assert "etag" not in head.headers


@strange
async def test_cursors_of_a_session_lead_to_nothing(world: World, who: Who, kind: Kind) -> None:
    made = world.made[kind]
    if kind == "deleted":
        return
    cursor = (await reader(world, kind, "/transcript", params={"limit": 1})).json()["next_cursor"]
    assert cursor
    own = await world.session("stranger")
    for who_, session, code, status in (
        (who, made.id, "session_not_found", 404),
        ("stranger", own.id, "bad_cursor", 422),
    ):
        url = f"/sessions/{session}/transcript"
        nothing(await world.ask(who_, "GET", url, params={"cursor": cursor}), code, status)
        body = {"session_id": session, "cursor": cursor}
        url = "/sessions/transcript/query"
        nothing(await world.ask(who_, "POST", url, json=body), code, status)
    for path in ("/steps?before={}", "/steps?at={}", "/steps?all=true&before={}"):
        url = f"/sessions/{own.id}{path.format(made.step)}"
        nothing(await world.ask("stranger", "GET", url), "unknown_step")
    listed = await world.ask(who, "GET", "/sessions", params={"cursor": f"{10**16 - 1}.{made.id}"})
    assert made.id not in listed.text


@strange
async def test_a_search_finds_nothing(world: World, who: Who, kind: Kind) -> None:
    for params in ({"q": MARK}, {"q": MARK[:3].upper()}, {"archived": "true"}, {"limit": "500"}):
        answer = await world.ask(who, "GET", "/sessions", params=params)
        assert world.made[kind].id not in answer.text
    told = await world.ask(who, "GET", "/metrics")
    assert MARK not in told.text
    assert world.made[kind].id not in told.text


@strange
@pytest.mark.parametrize("v1", [True, False])
async def test_events_are_replayed_to_nobody_else(
    world: World, who: Who, kind: Kind, v1: bool
) -> None:
    epoch = world.server.app.state.sessions.epoch
    for query in ("", "?since=0", f"?since=0&epoch={epoch}"):
        async with world.connect(who, world.made[kind].id, v1=v1, query=query) as client:
            assert await client.until_closed() == 4404
            (only,) = client.frames
            assert only["error"] == "Agent not found"


@pytest.mark.parametrize("kind", ["project", "private", "child"])
async def test_what_is_another_sessions_is_unknown_in_the_words_for_what_is_not(
    world: World, kind: Kind
) -> None:
    own, made = await world.session("stranger"), world.made[kind]
    here = f"/sessions/{own.id}"
    move = {"op": "moveOperator", "operatorID": "x", "position": {"x": 0, "y": 0}}
    frames: list[dict[str, Any]] = [
        {"type": "WsClientRevertCommand", "messageId": "TURN"},
        {"type": "WsClientRevertCommand", "stepId": "STEP"},
        {"type": "WsClientCheckoutCommand", "stepId": "STEP"},
        {"type": "WsClientEditWorkflowCommand", "baseHeadId": "STEP", "edits": [move]},
        {"type": "WsClientPromptCommand", "content": "x", "attachmentIds": ["FILE"]},
    ]
    asked: list[tuple[str, str, Any]] = [
        *(("POST", f"{here}/commands", frame) for frame in frames),
        ("GET", f"{here}/steps/STEP/workflow", None),
        ("GET", f"{here}/steps/STEP/workflow?side=before", None),
        ("GET", f"{here}/diff?from=step-initial&to=STEP", None),
        ("GET", f"{here}/diff?from=STEP&to=step-initial", None),
        ("GET", f"{here}/revert-preview?turn_id=TURN", None),
        ("GET", f"{here}/revert-preview?step_id=STEP", None),
        ("GET", f"{here}/attachments/FILE", None),
        ("GET", f"{here}/attachments/FILE/content", None),
        ("DELETE", f"{here}/attachments/FILE", None),
        *(
            ("POST", f"{here}/fork", {"boundary": {"turn_id": "TURN", "position": side}})
            for side in ("before", "after")
        ),
    ]
    missing = {"TURN": new_id(), "STEP": new_id(), "FILE": new_id()}
    real = {"TURN": made.turn, "STEP": made.step, "FILE": made.attachment}
    for method, url, body in asked:
        told = []
        for ids in (missing, real):
            line, text = url, json.dumps(body)
            for name, id_ in ids.items():
                line, text = line.replace(name, id_), text.replace(name, id_)
            content = None if body is None else text.encode()
            answer = await world.ask("stranger", method, line, content=content)
            assert 400 <= answer.status_code < 500, (line, answer.text)
            assert MARK not in answer.text
            said = answer.text
            for name, id_ in ids.items():
                said = said.replace(id_, name)
            told.append((answer.status_code, said))
        assert told[0] == told[1], url
    async with world.connect("stranger", own.id) as client:
        await client.snapshot()
        for frame in frames:
            seen = len(client.frames)
            text = json.dumps(frame)
            for name, id_ in real.items():
                text = text.replace(name, id_)
            await client.send_raw(text)
            assert (await client.wait(is_error, since=seen))["code"] in (
                "unknown_turn", "unknown_step", "attachment_not_found",
            )  # fmt: skip
            assert made.id not in str(client.frames[seen:])


async def test_an_idempotency_key_is_of_one_principal_in_one_project(world: World) -> None:
    namesake = await world.key("maker", ProjectRole.OWNER, project="q")
    body, key = {"name": MARK}, {"idempotency-key": "everyones"}
    first = await world.ask("maker", "POST", "/sessions", json=body, headers=key)
    assert first.status_code == 201
    again = await world.ask("maker", "POST", "/sessions", json=body, headers=key)
    assert again.content == first.content
    theirs = {"authorization": f"Bearer {namesake}"} | key
    for answer in (
        await world.ask("editor", "POST", "/sessions", json=body, headers=key),
        await world.ask("nobody", "POST", "/sessions", json=body, headers=theirs),
    ):
        assert answer.status_code == 201
        assert answer.json()["id"] != first.json()["id"]
    nothing(
        await world.ask("viewer", "POST", "/sessions", json={}, headers=key), "not_allowed", 403
    )
    url = f"/sessions/{world.made['private'].id}/commands"
    stop = {"type": "WsClientStopCommand"}
    sent = {"idempotency-key": "a-stop"}
    assert (await world.ask("maker", "POST", url, json=stop, headers=sent)).status_code == 202
    for who in ("stranger", "editor", "guest"):
        nothing(await world.ask(who, "POST", url, json=stop, headers=sent))


async def test_an_answer_is_given_again_only_to_who_may_still_read_what_it_is_about(
    world: World,
) -> None:
    key = {"authorization": f"Bearer {await world.key('passing', ProjectRole.EDITOR)}"}
    made = await world.renew("project")
    here = f"/sessions/{made.id}"
    stop = {"type": "WsClientStopCommand", "requestId": "once"}
    own = {"json": {"name": MARK}}
    asked: list[tuple[str, dict[str, Any]]] = [
        ("/sessions", own),
        ("/api/agents", own),
        (f"{here}/commands", {"json": stop}),
        (f"{here}/commands?wait=end", {"json": stop}),
        (f"{here}/attachments?name={MARK}", {"content": b"x"}),
        (f"{here}/fork", {"json": {"target_session_id": new_id()}}),
        (f"{here}/fork", {"json": {}}),
    ]

    async def every(status: int) -> None:
        for n, (url, more) in enumerate(asked):
            headers = key | {"idempotency-key": f"passing-{n}"}
            answer = await world.ask("nobody", "POST", url, headers=headers, **more)
            assert (answer.status_code < 300) is (status == 200), answer.text
            if status != 200:
                assert answer.json()["code"] == "session_not_found", (url, answer.text)
                assert MARK not in answer.text
        # The same `requestId` without a key, which the session itself remembers.
        answer = await world.ask("nobody", "POST", f"{here}/commands", json=stop, headers=key)
        assert (answer.status_code < 300) is (status == 200), answer.text

    await every(200)
    await every(200)
    await world.identities.set_role(service_of("p"), "passing", None)
    await every(404)


async def test_what_is_told_of_a_grant_is_not_whose_it_is(world: World) -> None:
    made = await world.renew("project")
    async with world.connect("viewer", made.id) as client:
        await client.snapshot()
        seen = len(client.frames)
        url = f"/sessions/{made.id}/grants/secret-friend"
        answer = await world.ask("maker", "PUT", url, json={"rights": ["read"]})
        assert answer.status_code == 200
        event = await client.wait(lambda f: f["type"] == "WsServerSessionEvent", since=seen)
        assert event["change"] == "grants"
        assert "secret-friend" not in str(client.frames)
    listed = await world.ask("maker", "GET", f"/sessions/{made.id}/grants")
    assert {"principal": "secret-friend", "rights": ["read"]} in listed.json()["grants"]


@pytest.mark.parametrize("is_edit", [False, True])
async def test_what_a_fork_shows_without_a_record_is_for_who_may_read_where_it_is_from(
    world: World, is_edit: bool
) -> None:
    """The draft of its pending action is a prompt of another session, its first workflow too."""
    said = {"workflow": {"operators": [], "said": MARK}}
    root = (await world.ask("editor", "POST", "/sessions", json=said)).json()["id"]
    at = root if is_edit else (await _forked(world, root)).json()["session"]["id"]
    prompt = {"type": "WsClientPromptCommand", "content": MARK}
    url = f"/sessions/{at}/commands?wait=end"
    boundary = {"turn_id": (await world.ask("editor", "POST", url, json=prompt)).json()["turnId"]}
    boundary["position"] = "before"
    made = await _forked(world, at, boundary=boundary, **({"mode": "edit"} if is_edit else {}))
    child = made.json()["session"]["id"]
    paths = ["", "/pending-action", "/workflow", "/steps/step-initial/workflow"]
    for path in paths:
        answer = await world.ask("maker", "GET", f"/sessions/{child}{path}")
        assert answer.status_code == 200, answer.text
    hidden = {"visibility": "private"}
    assert (await world.ask("editor", "PATCH", f"/sessions/{root}", json=hidden)).is_success
    for path in paths:
        nothing(await world.ask("maker", "GET", f"/sessions/{child}{path}"))
        nothing(await world.ask("viewer", "GET", f"/sessions/{child}{path}"))
        assert (await world.ask("editor", "GET", f"/sessions/{child}{path}")).is_success


async def test_a_draft_is_for_who_may_read_the_session_of_its_prompt(world: World) -> None:
    root = (await world.ask("maker", "POST", "/sessions", json={})).json()["id"]
    middle = (await _forked(world, root)).json()["session"]["id"]
    prompt = {"type": "WsClientPromptCommand", "content": MARK}
    url = f"/sessions/{middle}/commands?wait=end"
    turn = (await world.ask("editor", "POST", url, json=prompt)).json()["turnId"]
    boundary = {"turn_id": turn, "position": "before"}
    child = (await _forked(world, middle, boundary=boundary, mode="rerun")).json()["session"]["id"]
    path = f"/sessions/{child}/pending-action"
    assert MARK in (await world.ask("viewer", "GET", path)).text
    hidden = {"visibility": "private"}
    assert (await world.ask("editor", "PATCH", f"/sessions/{middle}", json=hidden)).is_success
    nothing(await world.ask("viewer", "GET", path))
    url = f"/sessions/{child}/commands?wait=end"
    assert (await world.ask("editor", "POST", url, json=prompt)).is_success
    assert (await world.ask("viewer", "GET", path)).json() == {"pending_action": None}


async def _forked(world: World, session: str, **body: Any) -> httpx.Response:
    answer = await world.ask("editor", "POST", f"/sessions/{session}/fork", json=body)
    assert answer.status_code == 201, answer.text
    return answer
