"""Whatever is done in a fork comes to the same as in the session that it was forked from.

The same random commands over the wire go to a session, to its fork at HEAD and to a fork of that,
from two people; every answer and everything that can be seen afterwards is compared. So the part
that is inherited takes edits, reverts, redos, checkouts and documents as if it were the fork's own.
"""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import httpx
import pytest
from serving import Server

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
PROMPTS = ["add a CSVFileScan", "add a Filter", "delete op1", "what is this"]


class Family:
    """Sessions that are told the same. `names` are what the ids of one are in all of them."""

    def __init__(self, people: list[httpx.AsyncClient], sessions: list[str]) -> None:
        self.people = people
        self.sessions = sessions
        self.names: list[dict[str, str]] = [{} for _ in sessions]

    def name(self, at: int, text: str) -> str:
        """A text with the ids of one session's own in the words of all."""
        names = self.names[at]
        return UUID.sub(lambda m: names.setdefault(m[0], f"own-{len(names)}"), text)

    def ids(self, at: int) -> dict[str, str]:
        """The inverse of `names`."""
        return {name: id_ for id_, name in self.names[at].items()}

    async def all_do(self, who: int, method: str, path: str, **more: Any) -> tuple[Any, ...]:
        """What all of them say, which is the same."""
        said = []
        for at, session in enumerate(self.sessions):
            ids = self.ids(at)
            body = more.get("json")
            if body is not None:
                body = _renamed(body, ids)
            answer = await self.people[who].request(
                method,
                f"/sessions/{session}{path.format_map(_Ids(ids))}",
                **(more | ({} if body is None else {"json": body})),
            )
            said.append(self._said(at, answer))
        for one, other in pairwise(said):
            assert one == other, (method, path, more)
        return said[0]

    def _said(self, at: int, answer: httpx.Response) -> tuple[Any, ...]:
        if answer.status_code == 204:
            return (204,)
        body = answer.json()
        for volatile in ("eventSeq", "events"):
            body.pop(volatile, None)
        text = re.sub(r"'timestamp': \d+", "", _plain(body))
        return answer.status_code, self.name(at, text)

    async def same(self) -> list[dict[str, Any]]:
        """Everything that can be seen is the same; the visible steps of the first."""
        seen = []
        for at, session in enumerate(self.sessions):
            ask = self.people[0]
            steps = (await ask.get(f"/sessions/{session}/steps?limit=200")).json()["steps"]
            transcript = (await ask.get(f"/sessions/{session}/transcript?limit=500")).json()
            assert [s["id"] for s in steps] == [r["id"] for r in transcript["records"]]
            assert [r["seq"] for r in transcript["records"]] == list(range(1, len(steps) + 1))
            seen.append(
                (
                    [self.name(at, _plain(_shown(step))) for step in steps],
                    self.name(at, (await ask.get(f"/sessions/{session}/workflow")).text),
                    self.name(at, (await ask.get(f"/sessions/{session}")).json()["head_id"]),
                    (await ask.get(f"/sessions/{session}/usage")).json()["visible"],
                )
            )
            if at == 0:
                first = steps
        for one, other in pairwise(seen):
            assert one == other
        return first


class _Ids(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return key


def _renamed(body: Any, ids: dict[str, str]) -> Any:
    match body:
        case dict():
            return {key: _renamed(value, ids) for key, value in body.items()}
        case list():
            return [_renamed(value, ids) for value in body]
        case str():
            return ids.get(body, body)
        case _:
            return body


def _shown(step: dict[str, Any]) -> dict[str, Any]:
    volatile = {"timestamp", "created_at", "session_id", "before_hash", "after_hash", "branch_id"}
    return {key: value for key, value in step.items() if key not in volatile}


def _plain(value: Any) -> str:
    return re.sub(r"(link-|pyd_ai_)[0-9a-f-]+", r"\1", repr(value))


def _document(rng: random.Random) -> dict[str, Any]:
    names = rng.sample(["op1", "op2", "a", "b"], rng.randrange(3))
    return {
        "operators": [{"operatorID": name, "operatorType": "Limit"} for name in names],
        "operatorPositions": {name: {"x": rng.randrange(5), "y": 0} for name in names},
        "links": [],
        "said": rng.randrange(3),
    }


def _edits(rng: random.Random) -> list[dict[str, Any]]:
    name = rng.choice(["op1", "op2", "a", "b"])
    kinds: list[dict[str, Any]] = [
        {
            "op": "addOperator",
            "operator": {
                "operatorID": name,
                "operatorType": "Limit",
                "operatorProperties": {},
                "inputPorts": [{"portID": "input-0"}],
                "outputPorts": [{"portID": "output-0"}],
            },
            "position": {"x": rng.randrange(9), "y": 1},
        },
        {"op": "moveOperator", "operatorID": name, "position": {"x": rng.randrange(9), "y": 2}},
        {"op": "removeOperator", "operatorID": name},
        {"op": "changeSettings", "set": {"n": rng.randrange(4)}},
        {"op": "changeOperator", "operatorID": name, "set": {"isDisabled": rng.random() < 0.5}},
    ]
    return [rng.choice(kinds)]


@asynccontextmanager
async def _people(server: Server) -> AsyncIterator[list[httpx.AsyncClient]]:
    made = (await server.http.post("/keys", json={"principal": "ann", "role": "owner"})).json()
    async with _client(server, made["key"]) as ann:
        made = (await ann.post("/keys", json={"principal": "bob", "role": "owner"})).json()
        async with _client(server, made["key"]) as bob:
            yield [ann, bob]


def _client(server: Server, key: str) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {key}"}
    return httpx.AsyncClient(base_url=server.url, headers=headers, timeout=20)


async def _anything(rng: random.Random, family: Family) -> None:
    """One random command to all of them."""
    steps = await family.same()
    ids = ["step-initial", *family.names[0].values(), *(s["id"] for s in steps)]
    known = [family.names[0].get(id_, id_) for id_ in ids]
    turns = [family.names[0].get(s["turn_id"], s["turn_id"]) for s in steps] or ["none"]
    who, step, turn = rng.randrange(2), rng.choice(known), rng.choice(turns)
    more: dict[str, Any] = rng.choice([{}, {"confirm": True}, {"keepEdits": True}])
    commands: list[dict[str, Any]] = [
        {"type": "Prompt", "content": rng.choice(PROMPTS)},
        {"type": "Revert", "messageId": turn, **more},
        {"type": "Revert", "stepId": step, **more},
        {"type": "Redo", "all": rng.random() < 0.3},
        {"type": "Checkout", "stepId": step},
        {"type": "EditWorkflow", "baseHeadId": step, "edits": _edits(rng)},
        {"type": "EditWorkflow", "baseHeadId": known[-1], "edits": _edits(rng)},
    ]
    match rng.randrange(9):
        case 0:
            await family.all_do(
                who, "PUT", "/workflow", json=_document(rng), headers={"if-match": "*"}
            )
        case 1:
            await family.all_do(who, "GET", f"/revert-preview?turn_id={{{turn}}}")
            await family.all_do(who, "GET", f"/diff?from={{{step}}}&to={{{rng.choice(known)}}}")
            await family.all_do(who, "GET", f"/steps/{{{step}}}/workflow?side=before")
        case n:
            command = commands[(n - 2) % len(commands)]
            command["type"] = f"WsClient{command['type']}Command"
            await family.all_do(who, "POST", "/commands?wait=end", json=command)


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 40))]
)
async def test_the_same_commands_come_to_the_same_in_a_fork(server: Server, seed: int) -> None:
    async with _people(server) as people:
        await _twins(random.Random(seed), people)


async def _twins(rng: random.Random, people: list[httpx.AsyncClient]) -> None:
    made = (await people[0].post("/sessions", json={"workflow": _document(rng)})).json()
    family = Family(people, [made["id"]])
    for _ in range(12):
        await _anything(rng, family)
    # A turn that HEAD is in the middle of is no place to fork at, and a fork has nothing to redo.
    end = {"type": "WsClientPromptCommand", "content": "what is this"}
    await family.all_do(0, "POST", "/commands?wait=end", json=end)
    for _ in range(2):
        body = {"name": "x"}
        answer = await people[1].post(f"/sessions/{family.sessions[-1]}/fork", json=body)
        assert answer.status_code == 201, answer.text
        family.sessions.append(answer.json()["session"]["id"])
    # What is inherited has the same ids in all of them; what is not in the prefix, a fork lacks.
    family.names = [{} for _ in family.sessions]
    for step in (await people[0].get(f"/sessions/{made['id']}/steps?limit=200")).json()["steps"]:
        for names in family.names:
            for id_ in (step["id"], step["turn_id"], step["branch_id"]):
                names[id_] = f"inherited-{len(names)}" if id_ not in names else names[id_]
    for _ in range(40):
        await _anything(rng, family)
    await family.same()
