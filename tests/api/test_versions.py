"""Clients and servers of before and after there were forks, in every pair: what is inherited is
never shown twice, and nothing is lost (docs/lineage.md, "Old and new").

An old client has the public proposal's frames, upserts steps by (`messageId`, `stepId`), and forks
by hand: it makes a session of its own, and either shows the history that it holds before it, or
sends the prompts of it again. A new client forks where `/capabilities` names `lineage.v1`, and by
hand elsewhere. An old server is in `before_forks.py`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import pytest
from before_forks import RECORDED, BeforeForks
from frame_schema import check
from rest import get, turn
from serving import Server, serving
from wire import Frame, Gone, is_error, is_head, is_status, is_step

from turnback.store.ids import new_id

LINEAGE = "lineage.v1"
PROMPTS = [f"add a {type_}" for type_ in ("CSVFileScan", "TextInput", "PythonUDFSourceV2", "Limit")]

Key = tuple[str, int]


@dataclass
class Person:
    """A client, and what it shows: of each session the steps that it was handed, then the visible
    path, upserted."""

    v1: bool
    carries: bool
    """By hand, it shows the history that it holds; else it sends the prompts again."""
    handed: dict[str, dict[Key, Frame]] = field(default_factory=dict)

    async def shown(self, server: Server, session: str) -> dict[Key, Frame]:
        """The steps that it shows, in order. Only those handed along where it is let see none."""
        steps = dict(self.handed.get(session, {}))
        async with server.connect(session, v1=self.v1) as client:
            try:
                await client.snapshot()
            except Gone:
                assert client.closed == RECORDED["of_a_fork"]["socket"]["close"]
                return steps
            for step in client.path:
                steps[step["messageId"], step["stepId"]] = step
        return steps

    async def prompts(self, server: Server, session: str) -> list[str]:
        """The prompts among them, as a reader sees them."""
        steps = (await self.shown(server, session)).values()
        return [step["content"] for step in steps if step["role"] == "user"]

    async def fork(self, server: Server, session: str) -> str:
        """A session that goes on from all that it shows of this one."""
        features = (await get(server, "/capabilities"))["features"]
        if self.v1 and LINEAGE in features:
            answer = await server.http.post(f"/sessions/{session}/fork", json={})
            assert answer.status_code == 201, answer.text
            return str(answer.json()["session"]["id"])
        held = await self.shown(server, session)
        if not self.carries:
            made = await server.session()
            for step in held.values():
                if step["role"] == "user":
                    await turn(server, made, step["content"])
            return made
        [*_, newest] = held.values()
        made = await server.session(workflow=newest["afterWorkflowContent"])
        self.handed[made] = held
        return made


PEOPLE = {
    "old client that shows what it holds": Person(v1=False, carries=True),
    "old client that prompts again": Person(v1=False, carries=False),
    "new client": Person(v1=True, carries=False),
}


@pytest.fixture(scope="module")
async def servers(module_database: str) -> AsyncIterator[dict[str, Server]]:
    """An old one and a new one over the same database, as while one is put in the other's place."""
    async with AsyncExitStack() as stack:
        yield {
            "old server": await stack.enter_async_context(
                serving(module_database, wrap=BeforeForks)
            ),
            "new server": await stack.enter_async_context(serving(module_database)),
        }


async def everything(server: Server, session: str) -> list[Any]:
    """What the server has of a session, in words that do not move with time."""
    paths = ("transcript", "steps?all=true", "workflow", "branches")
    answers = [await server.http.get(f"/sessions/{session}/{path}") for path in paths]
    return [(answer.status_code, answer.json()) for answer in answers]


@pytest.mark.parametrize("person", PEOPLE.values(), ids=PEOPLE)
@pytest.mark.parametrize("which", ["old server", "new server"])
@pytest.mark.parametrize("source", ["no fork", "forked by hand", "fork"])
async def test_what_is_inherited_is_shown_once_and_nothing_is_lost(
    servers: dict[str, Server], person: Person, which: str, source: str
) -> None:
    server, new, old = servers[which], servers["new server"], servers["old server"]
    first = await new.session()
    for prompt in PROMPTS[:2]:
        await turn(new, first, prompt)
    session = first
    if source == "forked by hand":
        session = await person.fork(old, first)
    elif source == "fork":
        handed = await person.shown(new, first)
        session = (await new.http.post(f"/sessions/{first}/fork", json={})).json()["session"]["id"]
        person.handed[session] = handed  # its parent's steps, which the server shows as well
    await turn(new, session, PROMPTS[2])
    before = [await everything(new, one) for one in (first, session)]

    seen = PROMPTS[:2] if (which, source) == ("old server", "fork") else PROMPTS[:3]
    assert await person.prompts(server, session) == seen
    made = await person.fork(server, session)
    assert await person.prompts(server, made) == seen
    await turn(server, made, PROMPTS[3])
    assert await person.prompts(server, made) == [*seen, PROMPTS[3]]

    workflow = await get(new, f"/sessions/{made}/workflow")
    types = {f"add a {operator['operatorType']}" for operator in workflow["operators"]}
    assert types == {*seen, PROMPTS[3]}
    assert len(workflow["operators"]) == len(seen) + 1
    # The old servers are gone, and whoever comes now sees all of it, once.
    assert await person.prompts(new, session) == PROMPTS[:3]
    assert await person.prompts(new, made) == [*seen, PROMPTS[3]]
    assert [await everything(new, one) for one in (first, session)] == before


@pytest.mark.parametrize("person", PEOPLE.values(), ids=PEOPLE)
async def test_a_fork_of_a_session_that_was_made_by_hand_has_its_history_once(
    servers: dict[str, Server], person: Person
) -> None:
    """Where there is no lineage nothing is inherited: a history that was prompted again is the
    session's own, and one that only a client holds is nowhere on the server."""
    old, new = servers.values()
    first = await old.session()
    await turn(old, first, PROMPTS[0])
    by_hand = await person.fork(old, first)
    await turn(old, by_hand, PROMPTS[1])
    own = PROMPTS[1:2] if person.carries else PROMPTS[:2]
    answer = await new.http.post(f"/sessions/{by_hand}/fork", json={})
    made = answer.json()
    assert made["lineage"]["inherited_turn_count"] == len(own)
    fork = made["session"]["id"]
    for one in (by_hand, fork):
        page = await get(new, f"/sessions/{one}/transcript")
        assert [r["content"] for r in page["records"] if r["role"] == "user"] == own
    answer = await new.http.post("/sessions/lineage/query", json={"session_id": by_hand})
    assert answer.json()["lineage"] is None
    person.handed[fork] = await person.shown(new, by_hand)
    assert await person.prompts(new, fork) == PROMPTS[:2]


async def test_a_fork_whose_answer_was_lost_is_found_again_past_an_old_server(
    servers: dict[str, Server],
) -> None:
    old, new = servers.values()
    session = await new.session()
    await turn(new, session, PROMPTS[0])
    asked = f"/sessions/{session}/fork", {"target_session_id": new_id()}
    answers = [await on.http.post(asked[0], json=asked[1]) for on in (new, old, new)]
    assert [answer.status_code for answer in answers] == [201, 404, 200]
    assert answers[1].json()["code"] == "not_found"  # and not that of a session that is none
    assert answers[0].json() == answers[2].json()


# -- that the old server is as it was


async def test_what_a_server_names_is_what_was_there_and_forks(servers: dict[str, Server]) -> None:
    server = servers["new server"]
    then, now = RECORDED["capabilities"], await get(server, "/capabilities")
    assert LINEAGE in now["features"]
    assert LINEAGE not in then["features"]
    for names in ("protocols", "commands", "features"):
        assert set(then[names]) <= set(now[names])
    assert set(then["limits"].items()) <= set(now["limits"].items())
    served = server.app.openapi()["paths"]
    routes = {f"{method.upper()} {path}" for path, methods in served.items() for method in methods}
    assert set(RECORDED["routes"]) <= routes
    assert set(RECORDED["refused"]) <= routes - set(RECORDED["routes"])


@pytest.mark.parametrize("dialect", ["v1", "base"])
async def test_what_has_nothing_to_do_with_forks_is_told_as_it_was(
    servers: dict[str, Server], dialect: str
) -> None:
    recorded = RECORDED["frames"][dialect]
    for frame in recorded:
        check(frame, v1=dialect == "v1")
    wanted = told(recorded)
    for server in servers.values():
        session = await server.session(name="Orders")
        for got, was in zip_longest(told(await conversation(server, session, dialect)), wanted):
            # What has come since is a list of what there is nothing of.
            assert {name: v for name, v in got.items() if name in was or v != []} == was


@pytest.mark.parametrize("which", ["old server", "new server"])
async def test_answers_have_the_members_that_they_had(
    servers: dict[str, Server], which: str
) -> None:
    server = servers[which]
    session = await server.session()
    await turn(server, session, PROMPTS[0])
    for path, was in RECORDED["answers"].items():
        now = await get(server, f"/sessions/{session}/{path}".removesuffix("/session"))
        assert set(was) <= set(now)
        for records in ("records", "steps"):
            for then, today in zip(was.get(records, []), now.get(records, []), strict=True):
                assert set(then) <= set(today)


async def test_an_old_server_refuses_what_it_does_not_know(servers: dict[str, Server]) -> None:
    server = servers["old server"]
    session = await server.session()
    for route, said in RECORDED["refused"].items():
        method, path = route.replace("{session_id}", session).split(" ")
        answer = await server.http.request(method, path)
        assert answer.status_code == said["status"]
        assert answer.json() == said["body"] | {"detail": f"There is nothing at `{path}`"}


async def conversation(server: Server, session: str, dialect: str) -> list[Frame]:
    """The conversation that was recorded, held again, and the snapshot after it."""
    v1 = dialect == "v1"
    async with server.connect(session, v1=v1) as client:
        await client.snapshot()
        await client.send("Prompt", content=PROMPTS[0], **({"requestId": "r1"} if v1 else {}))
        user = await client.wait(is_step)
        await client.wait(is_status("AVAILABLE"))
        for type_, fields in (("Revert", {"messageId": user["step"]["messageId"]}), ("Redo", {})):
            seen = len(client.frames)
            await client.send(type_, **fields)
            await client.wait(is_head, since=seen)
        await client.send("Revert", messageId="nobody")
        await client.wait(is_error)
    async with server.connect(session, v1=v1) as again:
        return [*client.frames, await again.snapshot()]


MADE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|pyd_ai_[0-9a-f]{32}")
"""Ids, ours and those of calls."""


def told(frames: list[Frame]) -> list[Any]:
    """The durable frames, with ids as their order of appearance, and without times."""
    names: dict[str, str] = {}

    def plain(value: Any) -> Any:
        match value:
            case dict():
                members = {name: plain(member) for name, member in value.items()}
                return members | dict.fromkeys({"timestamp", "usage"} & set(members))
            case list():
                return [plain(member) for member in value]
            case str() if MADE.fullmatch(value):
                return names.setdefault(value, f"#{len(names)}")
        return value

    durable = [plain(frame) for frame in frames if frame["type"] != "WsServerDeltaEvent"]
    acks = [frame for frame in durable if frame["type"] == "WsServerAckEvent"]
    return acks + [frame for frame in durable if frame["type"] != "WsServerAckEvent"]
