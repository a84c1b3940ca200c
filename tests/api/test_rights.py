"""Every route and every frame, asked by everyone of sessions of every kind (protocol.md 4).

`ROWS` says of each what it needs, `RIGHTS` who has what: from both follows what must be answered.
What is not in the table fails, so that nothing is added without saying who may use it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import httpx
import pytest
from people import DEAD, GRANTS, MARK, ROLES, Kind, Made, Who, World, peopled
from rest import problem
from starlette.routing import BaseRoute, Mount, WebSocketRoute
from wire import is_error

from turnback.api import frames
from turnback.core.principal import ProjectRole

KINDS: tuple[Kind, ...] = get_args(Kind)
EVERYONE: tuple[Who, ...] = get_args(Who)
ALL, EDIT, SEE = {"read", "run", "fork", "manage"}, {"read", "run", "fork"}, {"read", "fork"}
PRIVATE = {who: set(rights) for who, rights in GRANTS.items() if "read" in rights}

RIGHTS: dict[Kind, dict[Who, set[str]]] = {
    "project": {"owner": ALL, "maker": ALL, "editor": EDIT, "viewer": SEE} | PRIVATE,
    "private": {"owner": ALL, "maker": ALL} | PRIVATE,
    "child": {"owner": ALL, "editor": EDIT},  # whose the source is
    "deleted": {},
    "missing": {},
}
"""What everyone may do; who is not named, nothing."""

PROJECT: dict[str, set[ProjectRole]] = {
    "create": {ProjectRole.EDITOR, ProjectRole.OWNER},
    "administer": {ProjectRole.OWNER},
}

Needs = Literal["open", "key", "create", "administer", "read", "run", "fork", "manage"]


@dataclass
class Row:
    """A route, asked in one way; `answer` is what who has the right is answered: the status of a
    success, or the code of a refusal that comes after the right has been asked about."""

    route: str
    needs: Needs
    answer: int | str = 200
    params: dict[str, str] = field(default_factory=dict)
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    uses_up: bool = False

    def __str__(self) -> str:
        kind = self.body.get("type", "") if isinstance(self.body, dict) else ""
        return f"{self.route} {kind}".strip()

    async def ask(self, world: World, who: Who, made: Made) -> httpx.Response:
        """Ask it of a session."""
        method, path = self.route.split()
        here = {
            "{session_id}": made.id,
            "{agent_id}": made.id,
            "{step_id}": made.step,
            "{attachment_id}": made.attachment,
            "{turn_id}": made.turn or "none",
            "{key_id}": "0" * 12,
            "{principal_id}": "bob",
            "{undo_id}": "none",
            "{residue_id}": "none",
            "{path}": "nothing.js",
        }

        def put(text: str) -> str:
            for name, value in here.items():
                text = text.replace(name, value)
            return text

        content = self.body
        if isinstance(content, dict):
            content = put(json.dumps(content)).encode()
        return await world.ask(
            who,
            method,
            put(path),
            params={name: put(value) for name, value in self.params.items()},
            content=content,
            headers=self.headers,
        )


FRAMES: dict[str, tuple[dict[str, Any], int | str]] = {
    "WsClientPromptCommand": ({"content": "hi", "attachmentIds": ["?"]}, "attachment_not_found"),
    "WsClientStopCommand": ({}, 202),
    "WsClientRevertCommand": ({"messageId": "?"}, "unknown_turn"),
    "WsClientRedoCommand": ({}, "nothing_to_redo"),
    "WsClientCheckoutCommand": ({"stepId": "?"}, "unknown_step"),
    "WsClientEditWorkflowCommand": (
        {
            "baseHeadId": "?",
            "edits": [{"op": "moveOperator", "operatorID": "x", "position": {"x": 0, "y": 0}}],
        },
        "unknown_step",
    ),
    "WsClientApproveCommand": (
        {"toolCallId": "?", "decision": "deny", "argsHash": "?"},
        "unknown_approval",
    ),
    "WsClientUndoCommand": ({"planId": "?"}, "unknown_plan"),
    "WsClientAcknowledgeCommand": ({"residueId": "?"}, "unknown_residue"),
}
"""Every client frame needs `run`; so asked, it is refused after that, and changes nothing."""

S, A = "/sessions/{session_id}", "/api/agents/{agent_id}"
F = f"{S}/attachments/{{attachment_id}}"

ROWS = [
    *(Row(f"GET {path}", "open") for path in ("/", "/s/{session_id}", "/healthz", "/readyz")),
    Row("GET /capabilities", "open"),
    Row("GET /assets/{path}", "open", "not_found"),
    *(Row(f"GET {path}", "key") for path in ("/operator-types", "/metrics", "/openapi.json")),
    *(Row(f"GET {path}", "key") for path in ("/whoami", "/sessions", "/api/agents")),
    Row("POST /sign-out", "key", 204),
    Row("POST /person", "key", "code_refused", body={"code": "x"}),
    Row("POST /sessions", "create", 201, body={}),
    Row("POST /api/agents", "create", 200, body={}),
    Row("GET /keys", "administer"),
    Row("POST /keys", "administer", 201, body={"principal": "bob", "role": "viewer"}),
    Row("DELETE /keys/{key_id}", "administer", "unknown_key"),
    Row("GET /roles", "administer"),
    Row("PUT /roles/{principal_id}", "administer", body={"role": "viewer"}),
    Row("DELETE /roles/{principal_id}", "administer", 204),
    *(
        Row(f"GET {S}{path}", "read")
        for path in ("", "/steps", "/branches", "/workflow", "/transcript", "/usage", "/tools")
    ),
    *(Row(f"GET {S}{path}", "read") for path in ("/effects", "/undos")),
    Row(f"GET {S}/undos/{{undo_id}}", "run", "unknown_undo"),
    Row(f"GET {S}/residues", "run"),
    Row(f"POST {S}/residues/{{residue_id}}/acknowledge", "run", "unknown_residue"),
    Row(f"POST {S}/residues/{{residue_id}}/overwrite", "run", "unknown_residue"),
    Row(f"POST {S}/undo-plan", "run", "unknown_turn", body={"turn_ids": ["?"]}),
    Row(f"POST {S}/undos", "run", "unknown_plan", body={"plan_id": "?"}),
    Row(f"GET {S}/steps/{{step_id}}/workflow", "read"),
    Row(f"GET {S}/diff", "read", params={"from": "step-initial", "to": "{step_id}"}),
    Row(f"GET {S}/revert-preview", "read", params={"step_id": "{step_id}"}),
    Row("POST /sessions/transcript/query", "read", body={"session_id": "{session_id}"}),
    Row("POST /ws-tickets", "read", 201, body={"session_id": "{session_id}"}),
    Row("POST /sessions/lineage/query", "read", body={"session_id": "{session_id}"}),
    Row(f"GET {S}/pending-action", "read"),
    *(Row(f"GET {path}", "read") for path in (f"{S}/attachments", F, f"{F}/content")),
    *(
        Row(f"GET {A}{path}", "read")
        for path in ("", "/react-steps", "/settings", "/system-info", "/operator-types")
    ),
    *(
        Row(f"POST {S}/commands", "run", answer, body={"type": type_} | fields)
        for type_, (fields, answer) in FRAMES.items()
    ),
    *(
        Row(f"POST {S}/pending-action/{way}", "run", "no_pending_action", body={"claim_id": "x"})
        for way in ("claim", "release")
    ),
    Row(f"POST {S}/fork", "fork", 201, body={}),
    Row(f"PATCH {S}", "run", body={"name": MARK}),
    Row(f"PUT {S}/workflow", "run", "precondition_failed", headers={"if-match": '"?"'}, body={}),
    Row(f"POST {S}/attachments", "run", 201, params={"name": "x"}, body=b"x"),
    Row(f"DELETE {F}", "run", 204, uses_up=True),
    Row(f"PATCH {A}/settings", "run", body={}),
    Row(f"POST {A}/stop", "run"),
    Row(f"POST {A}/clear", "run", uses_up=True),
    Row(f"PATCH {S}", "manage", body={"visibility": "project"}, uses_up=True),
    Row(f"GET {S}/grants", "manage"),
    Row(f"PUT {S}/grants/{{principal_id}}", "manage", body={"rights": ["read"]}),
    Row(f"DELETE {S}/grants/{{principal_id}}", "manage", 204),
    Row(f"DELETE {S}", "manage", 204, uses_up=True),
    Row(f"DELETE {A}", "manage", 200, uses_up=True),
]
PURGE = Row(f"POST {S}/purge", "administer")
ASKED_OTHERWISE = {"POST /sign-in", PURGE.route, f"WS {S}/ws", f"WS {A}/react"}
"""These have tests of their own below."""


@pytest.fixture(scope="module")
async def world(module_database: str) -> AsyncIterator[World]:
    async with peopled(module_database) as made:
        yield made


def real_routes(routes: Iterable[BaseRoute]) -> set[str]:
    """Every route of an app, methods that there are by themselves aside."""
    found: set[str] = set()
    for route in routes:
        if (inner := getattr(route, "original_router", None)) is not None:
            found |= real_routes(inner.routes)
        elif isinstance(route, Mount):
            found.add(f"GET {route.path}/{{path}}")
        elif isinstance(route, WebSocketRoute):
            found.add(f"WS {route.path}")
        else:
            methods = route.methods - {"HEAD"}  # type: ignore[attr-defined]
            found |= {f"{method} {route.path}" for method in methods}  # type: ignore[attr-defined]
    return found


def test_every_route_and_every_frame_is_in_the_table(world: World) -> None:
    assert real_routes(world.server.app.routes) == {row.route for row in ROWS} | ASKED_OTHERWISE
    assert set(FRAMES) == frames.V1_TYPES


def refused(answer: httpx.Response, status: int, code: str, *, door: bool = False) -> Any:
    """The problem that an answer must be, with nothing of any session in it."""
    said = answer.text + str(answer.headers)
    assert MARK not in said
    if door:
        told = answer.json()
        assert told.pop("error") == told["detail"]
        answer = httpx.Response(answer.status_code, headers=answer.headers, json=told)
    return problem(answer, status, code)


def told(answer: httpx.Response) -> tuple[int, bytes, dict[str, str]]:
    """All that an answer tells, but for what is of the request alone."""
    passing = ("x-request-id", "date")
    headers = {name: value for name, value in answer.headers.items() if name not in passing}
    return answer.status_code, answer.content, headers


OF_THE_PROJECT = [row for row in ROWS if row.needs in ("open", "key", "create", "administer")]
OF_A_SESSION = [row for row in ROWS if row not in OF_THE_PROJECT]


def is_door(row: Row) -> bool:
    return row.route.split()[1].startswith("/api/agents")


def one_and_the_same(answers: list[httpx.Response], row: Row) -> None:
    """Whoever shows no good key is told so, and not what is wrong with it."""
    for answer in answers:
        refused(answer, 401, "unauthenticated", door=is_door(row))
        assert answer.headers["www-authenticate"] == "Bearer"
    assert len({str(told(answer)) for answer in answers}) == 1


@pytest.mark.parametrize("row", OF_THE_PROJECT, ids=str)
async def test_everyone_may_in_the_project_what_the_table_says(world: World, row: Row) -> None:
    missing, dead = world.made["missing"], []
    for who in EVERYONE:
        answer = await row.ask(world, who, missing)
        if row.needs == "open":
            assert answered(answer, row.answer), (who, answer.text)
        elif who == "nobody":
            refused(answer, 401, "unauthenticated", door=is_door(row))
        elif who in DEAD:
            dead.append(answer)
        elif row.needs == "key" or ROLES.get(who) in PROJECT[row.needs]:
            assert answered(answer, row.answer), (who, answer.text)
        else:
            said = refused(answer, 403, "not_allowed", door=is_door(row))
            assert said["data"] == {"right": row.needs}, who
    if dead:
        one_and_the_same(dead, row)


@pytest.mark.parametrize("row", OF_A_SESSION, ids=str)
async def test_everyone_may_with_a_session_what_the_table_says(world: World, row: Row) -> None:
    kinds = [kind for kind in KINDS if kind != "missing"]
    for who in EVERYONE:
        nothing = await row.ask(world, who, world.made["missing"])
        if who in DEAD:
            something = await row.ask(world, who, world.made["project"])
            one_and_the_same([nothing, something], row)
            continue
        refused(nothing, 404, "session_not_found", door=is_door(row))
        for kind in kinds:
            answer = await row.ask(world, who, world.made[kind])
            where = f"{who} of {kind}: {answer.status_code} {answer.text[:300]}"
            rights = RIGHTS[kind].get(who, set())
            if row.needs in rights:
                assert answered(answer, row.answer), where
                if row.uses_up:
                    await world.renew(kind)
            elif rights:
                said = refused(answer, 403, "not_allowed", door=is_door(row))
                assert said["data"] == {"right": row.needs}, where
            else:
                assert told(answer) == told(nothing), where


async def test_a_deleted_session_is_purged_by_who_owns_its_project_alone(world: World) -> None:
    for who in EVERYONE:
        nothing = await PURGE.ask(world, who, world.made["missing"])
        for kind in KINDS:
            answer = await PURGE.ask(world, who, world.made[kind])
            if who != "owner" or kind == "missing":
                assert told(answer) == told(nothing), (who, kind)
            elif kind == "deleted":
                assert answer.status_code == 200, answer.text
                await world.renew(kind)
            else:
                problem(answer, 409, "not_deleted")
        if who in DEAD:
            refused(nothing, 401, "unauthenticated")
        elif ROLES.get(who) is ProjectRole.OWNER:
            refused(nothing, 404, "session_not_found")
        else:
            assert refused(nothing, 403, "not_allowed")["data"] == {"right": "administer"}


def answered(answer: httpx.Response, expected: int | str) -> bool:
    """Whether this is what who may is answered."""
    if isinstance(expected, int):
        return answer.status_code == expected
    return answer.status_code >= 400 and bool(answer.json()["code"] == expected)


async def test_everyone_lists_what_they_may_read_and_nothing_else(world: World) -> None:
    for who in EVERYONE:
        if who in DEAD or who == "stranger":
            continue
        for path, member in (("/sessions", "sessions"), ("/api/agents", "agents")):
            listed = (await world.ask(who, "GET", path, params={"limit": "500"})).json()[member]
            seen = {session["id"] for session in listed}
            for kind, made in world.made.items():
                assert (made.id in seen) is ("read" in RIGHTS[kind].get(who, set())), (who, kind)
    strange = await world.ask("stranger", "GET", "/sessions", params={"q": MARK})
    assert strange.json() == {"sessions": [], "next_cursor": None}


async def test_everyone_signs_in_with_a_good_key_alone(world: World) -> None:
    words = set()
    for who in EVERYONE:
        if who == "nobody":
            continue
        answer = await world.server.http.post("/sign-in", json={"key": world.keys[who]})
        if who in DEAD:
            refused(answer, 401, "unauthenticated")
            words.add(answer.content)
            assert "set-cookie" not in answer.headers
        else:
            assert answer.json()["principal"] == who
            assert answer.json()["role"] == ROLES.get(who)
            assert world.keys[who] not in answer.text + str(answer.headers)
    world.server.http.cookies.clear()
    assert len(words) == 1


@pytest.mark.parametrize("v1", [True, False])
async def test_everyone_has_the_sockets_and_commands_that_the_table_says(
    world: World, v1: bool
) -> None:
    types = frames.V1_TYPES if v1 else frames.BASE_TYPES
    for who in EVERYONE:
        nothing = None
        for kind in reversed(KINDS):  # `missing` first
            made = world.made[kind]
            client = world.connect(who, made.id, v1=v1)
            if not v1:
                client.url = client.url.replace("/sessions/", "/api/agents/")
                client.url = client.url.replace("/ws", "/react")
            rights = RIGHTS[kind].get(who, set())
            async with client:
                if who in DEAD or not rights:
                    first = await client.next()
                    assert is_error(first)
                    assert await client.until_closed() == (4401 if who in DEAD else 4404)
                    nothing = nothing or client.texts
                    assert client.texts == nothing, (who, kind)
                    assert MARK not in str(client.texts)
                    continue
                await client.snapshot()
                for type_ in types:
                    fields, expected = FRAMES[type_]
                    if "run" in rights and isinstance(expected, int):
                        continue  # what a stop of nothing tells is nothing
                    seen = len(client.frames)
                    more = {"requestId": f"{who} {kind} {type_}"} if v1 else {}
                    if not v1 and type_ == "WsClientPromptCommand":
                        if "run" in rights:
                            continue  # files are of v1: it would be carried out
                        fields = {"content": "hi"}
                    await client.send_raw(json.dumps({"type": type_} | fields | more))
                    error = await client.wait(is_error, since=seen)
                    lacking = "run" not in rights
                    if v1:
                        assert error["code"] == ("not_allowed" if lacking else expected)
                    assert ("`run`" in error["error"]) is lacking, (who, kind, error)
