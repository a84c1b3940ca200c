"""Two servers over one database, killed and frozen at random, while a client acts and takes back.

In the end every run has ended, the reports together say of the vendor's world what a diff of it
says, and no effect has taken place twice.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from processes import Process, eventually, process
from scripted_provider import Answer, ScriptedProvider, text
from serving import serving
from storied import clicked, effects, ended, planned
from vendor import Vendor, check_report, told_story, vending
from whole import check_whole

from turnback.core.effects import CallState
from turnback.tools.settle import MARGIN_MS

ENDS, WRITES = 12, 60
"""How many servers come to an end, and how many calls write, before it is enough."""

AT_MOST = 240.0
"""Seconds after which it is enough all the same."""

SHORT = {"lease_heartbeat": 0.3, "lease_expiry": 1.5, "lease_grace": 0.2, "drain_timeout": 0.5}

ONCE = frozenset(
    {
        "create_contact",
        "create_event",
        "charge_card",
        "refund_charge",
        "order",
        "cancel_order",
        "invite",
        "post_message",
        "schedule_email",
        "send_email",
        "send_transfer",
    }
)
"""Tools that are never called twice with the same arguments but by mistake."""


@dataclass
class Agent:
    """The model: each turn some calls at random, each with arguments that no other has."""

    random: Random
    provider: ScriptedProvider
    numbers: count[int] = field(default_factory=lambda: count(1))

    def answer(self) -> Answer:
        if self.provider.requests[-1]["messages"][-1]["role"] == "tool":
            return Answer([text("done")])
        return Answer(told_story(self._call() for _ in range(self.random.randint(1, 6))))

    def _call(self) -> tuple[str, dict[str, Any]]:
        n = next(self.numbers)
        who, note = self.random.choice(["ada", "ben", "cara"]), self.random.choice(["milk", "keys"])
        leaf = self.random.choice(["phone", "email"])
        calls: list[tuple[str, dict[str, Any]]] = [
            ("update_contact", {"id": who, "changes": {leaf: f"{leaf}-{n}"}}),
            ("update_contact", {"id": who, "changes": {leaf: f"{leaf}-{n}"}}),
            ("set_note", {"id": note, "text": f"text-{n}"}),
            ("remove_note", {"id": note}),
            ("make_note", {"id": f"note-{n}"}),
            ("create_contact", {"fields": {"name": f"name-{n}"}}),
            ("create_event", {"fields": {"title": f"title-{n}"}}),
            ("update_event", {"id": "review", "changes": {"place": f"room-{n}"}}),
            ("delete_contact", {"id": who}),
            ("invite", {"event": "review", "emails": [f"guest-{n}@example.org"]}),
            ("post_message", {"channel": "general", "text": f"message-{n}"}),
            (
                "schedule_email",
                {"to": ["a@example.org"], "subject": f"soon-{n}", "body": "b", "in_minutes": 99},
            ),
            ("charge_card", {"amount": 1 + n % 99, "to": "Lina", "for": f"charge-{n}"}),
            ("order", {"reference": f"order-of-{n}"}),
            ("send_email", {"to": ["b@example.org"], "subject": f"mail-{n}", "body": "b"}),
            ("send_transfer", {"amount": 1 + n % 99, "to": "Hall", "for": f"transfer-{n}"}),
        ]
        return self.random.choice(calls)


@dataclass
class Pair:
    """Two servers, each started again whenever it is gone, until it is `over`."""

    folder: Path
    url: str
    settings: dict[str, Any]
    random: Random
    vendor: Vendor
    over: asyncio.Event = field(default_factory=asyncio.Event)
    running: list[Process | None] = field(default_factory=lambda: [None, None])
    ends: Counter[str] = field(default_factory=Counter)

    async def keep(self, at: int) -> None:
        while not self.over.is_set():
            async with process(self.folder, self.url, **self.settings) as server:
                self.running[at] = server
                if not self.over.is_set():
                    await server.gone.wait()
                self.running[at] = None

    async def disturb(self) -> None:
        while not self.over.is_set():
            await self.moment()
            server = self.running[self.random.randrange(2)]
            if server is None:
                continue
            how = self.random.choices(["kill", "freeze", "end"], [7, 2, 1])[0]
            self.ends[how] += 1
            with suppress(ProcessLookupError):
                if how == "kill":
                    server.kill()
                elif how == "end":
                    server.send(signal.SIGTERM)
                else:
                    server.send(signal.SIGSTOP)
                    await asyncio.sleep(self.random.uniform(0.5, 2.5))
                    server.send(signal.SIGCONT)

    async def moment(self) -> None:
        """Somewhere between two calls of the next few; sooner or later where none arrives."""
        arrived = len(self.vendor.arrived) + self.random.randint(1, 30)
        with suppress(TimeoutError):
            async with asyncio.timeout(3):
                while len(self.vendor.arrived) < arrived:  # noqa: ASYNC110 - a list has no event
                    await asyncio.sleep(0.005)
        await asyncio.sleep(self.random.uniform(0, 0.03))

    async def any(self) -> Process:
        while True:
            server = self.running[self.random.randrange(2)]
            if server is not None and not server.gone.is_set():
                return server
            await asyncio.sleep(0.02)

    def finish(self) -> None:
        self.over.set()
        for server in self.running:
            if server is not None:
                with suppress(ProcessLookupError):
                    server.kill()


@dataclass
class Person:
    """Who asks, takes back, and clicks again at the other server; a refusal is taken as it is."""

    pair: Pair
    session: str
    random: Random
    asked: Counter[str] = field(default_factory=Counter)

    async def busy(self) -> None:
        while not self.pair.over.is_set():
            act = self.random.choices(
                [self.prompt, self.take_back, self.revert, self.stop], [5, 4, 3, 1]
            )[0]
            with suppress(httpx.HTTPError, TimeoutError, json.JSONDecodeError):
                async with asyncio.timeout(15):
                    await act()
            await asyncio.sleep(self.random.uniform(0, 0.4))

    async def command(self, type_: str, **more: Any) -> httpx.Response:
        server = await self.pair.any()
        body = {"type": f"WsClient{type_}Command", **more}
        answer = await server.http.post(f"/sessions/{self.session}/commands", json=body)
        self.asked[f"{type_} {answer.status_code}"] += 1
        return answer

    async def prompt(self) -> None:
        await self.command("Prompt", content="go on")

    async def stop(self) -> None:
        await self.command("Stop")

    async def turns(self) -> list[str]:
        server = await self.pair.any()
        found = (await server.http.get(f"/sessions/{self.session}/effects?limit=200")).json()
        return list(dict.fromkeys(effect["turn_id"] for effect in found["effects"]))

    async def plan(self, **body: Any) -> str | None:
        server = await self.pair.any()
        asked = {"policy": self.random.choice(["stop", "independent"])} | body
        answer = await server.http.post(f"/sessions/{self.session}/undo-plan", json=asked)
        self.asked[f"Plan {answer.status_code}"] += 1
        return str(answer.json()["plan_id"]) if answer.status_code == 201 else None

    async def take_back(self) -> None:
        turns = await self.turns()
        if not turns:
            return
        some = self.random.sample(turns[-4:], k=min(2, len(turns[-4:])))
        plan = await self.plan(turn_ids=some, with_dependents=True)
        if plan is not None:
            await asyncio.gather(self.click(plan), self.click(plan))

    async def click(self, plan: str) -> None:
        server = await self.pair.any()
        with suppress(httpx.HTTPError):
            body = {"plan_id": plan}
            answer = await server.http.post(f"/sessions/{self.session}/undos", json=body)
            self.asked[f"Click {answer.status_code}"] += 1

    async def revert(self) -> None:
        server = await self.pair.any()
        steps = (await server.http.get(f"/sessions/{self.session}/steps")).json()["steps"]
        turns = [step["turn_id"] for step in steps if step["turn_id"]]
        if not turns:
            return
        turn = turns[-1]
        plan = await self.plan(revert={"turn_id": turn})
        await self.command("Revert", messageId=turn, effects="undo", planId=plan)


@pytest.mark.kill
@pytest.mark.soak
@pytest.mark.parametrize("seed", range(6))
async def test_two_servers_killed_at_random_lose_nothing_and_do_nothing_twice(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, seed: int
) -> None:
    random = Random(seed)
    async with vending(tmp_path) as vendor:
        settings = provider.settings | vendor.settings | SHORT
        provider.improvise = Agent(Random(seed), provider).answer
        before = vendor.leaves()
        async with serving(fresh_database, **settings) as server:
            session = await server.session()
        pair = Pair(tmp_path, fresh_database, settings, random, vendor)
        person = Person(pair, session, Random(seed + 1))
        async with asyncio.TaskGroup() as tasks:
            for at in range(2):
                tasks.create_task(pair.keep(at))
            tasks.create_task(pair.disturb())
            tasks.create_task(person.busy())
            with suppress(TimeoutError):
                async with asyncio.timeout(AT_MOST):
                    while pair.ends.total() < ENDS or vendor.writes < WRITES:  # noqa: ASYNC110
                        await asyncio.sleep(0.2)
            pair.finish()
        async with serving(fresh_database, **settings) as server:
            await settled(server, session)
            await asyncio.sleep(server.settings.tool_timeout + MARGIN_MS / 1000)
            logged = await effects(server, session)
            plan = await planned(
                server, session, effect_ids=[one.id for one in logged], with_dependents=True
            )
            undo_id, _ = await clicked(server, session, plan)
            await ended(server, session, undo_id)
            found = await together(server, session)
            logged = await effects(server, session)
        check_report(found, before, vendor)
        check_once(vendor)
        states = Counter(item["state"] for item in found["items"])
        print(
            seed,
            vendor.writes,
            pair.ends,
            dict(person.asked),
            states,
            Counter(one.state for one in logged),
        )
        assert not [one for one in logged if one.state is CallState.INTENT]
    await check_whole(fresh_database)


def check_once(vendor: Vendor) -> None:
    """Assert that nothing has been done twice that is not meant to be."""
    twice = {
        asked: times
        for asked, times in vendor.acted.items()
        if times > 1 and asked.split(" ", 1)[0] in ONCE
    }
    assert not twice, f"done more than once: {twice}"


async def settled(server: Any, session: str) -> None:
    """Wait until nothing is under way."""

    async def over() -> bool:
        listed = (await server.http.get("/sessions")).json()["sessions"]
        undos = (await server.http.get(f"/sessions/{session}/undos")).json()["undos"]
        free = [one["state"] for one in listed] == ["AVAILABLE"]
        return free and all(undo["status"] == "ended" for undo in undos)

    await eventually(over, within=60)


async def together(server: Any, session: str) -> dict[str, Any]:
    """The reports of all undos as one: of each effect what the newest says."""
    items: dict[str, Any] = {}
    residues: dict[str, Any] = {}
    cursor: str | None = None
    while True:
        query = {} if cursor is None else {"cursor": cursor}
        page = (await server.http.get(f"/sessions/{session}/undos", params=query)).json()
        for undo in page["undos"]:
            found = await ended(server, session, undo["undo_id"])
            new = {item["effect_id"] for item in found["items"]} - items.keys()
            items |= {i["effect_id"]: i for i in found["items"] if i["effect_id"] in new}
            residues |= {r["effect_id"]: r for r in found["residues"] if r["effect_id"] in new}
        cursor = page.get("next_cursor")
        if cursor is None:
            break
    return {
        "items": list(items.values()),
        "residues": list(residues.values()),
        "outcome": "partially_reverted",
    }
