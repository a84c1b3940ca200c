"""Two servers over one database, killed and frozen at random, while a client acts and takes back.

Some die at a named point. Some calls wait for a person, some are held back; now and then a stranger
changes the world. In the end every run has ended, the reports together say of the vendor's world
what a diff of it says, no effect has taken place twice, and what the stranger wrote is there.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Mapping
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
from vendor import Leaf, Vendor, check_report, told_story, vending
from websockets.exceptions import WebSocketException
from whole import check_whole
from wire import Gone

from turnback.core.drift import DOUBTFUL
from turnback.core.effects import CallState
from turnback.tools.settle import MARGIN_MS

AT_MOST = 20.0
"""Seconds for each end after which it is enough all the same, if anything was done at all."""

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
        "send_text",
    }
)
"""Tools that are never called twice with the same arguments but by mistake."""

HELD = {"update_event": 0.8, "send_text": 1.5, "create_event": 0.4, "charge_card": 0.3}
"""Seconds for which the calls of some tools are held back."""

POINTS = (
    *("open.before", "open.after", "call.intend", "call.intended", "call.sent", "call.replied"),
    *("call.done", "held.claim", "held.claimed", "held.replied", "held.done", "held.cancel"),
    *("held.cancelled", "undo.committed", "undo.claimed", "undo.checked", "undo.intended"),
    *("undo.applied", "undo.between", "undo.marked", "undo.verified", "undo.last", "undo.ended"),
    *("undo.reconciling", "undo.settled"),
)
"""Where a server may be made to die."""


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
            ("send_text", {"phone": "555-0199", "text": f"text-{n}"}),
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
            point = ""
            if at == 0 and self.random.random() < 0.5:
                point = f"{self.random.choice(POINTS)}@{self.random.randint(1, 3)}"
            async with process(self.folder, self.url, failpoint=point, **self.settings) as server:
                self.running[at] = server if server.url else None
                if not self.over.is_set():
                    await server.gone.wait()
                    self.ends["point"] += bool(point)
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
                [self.prompt, self.decide, self.take_back, self.revert, self.stop], [9, 4, 3, 2, 1]
            )[0]
            with suppress(*LOST):
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
        answer = await self.command("Prompt", content="go on")
        if answer.status_code == httpx.codes.CONFLICT:  # it may be a person that it waits for
            await self.decide()

    async def stop(self) -> None:
        await self.command("Stop")

    async def decide(self) -> None:
        """Approve what waits, as it is or changed, or deny it; at one server or at both at once."""
        server = await self.pair.any()
        async with server.connect(self.session) as client:
            waiting = (await client.snapshot())["waitingFor"]
        for approval in waiting:
            said = {"toolCallId": approval["toolCallId"], "argsHash": approval["argsHash"]}
            decision = self.random.choice(["approve", "approve", "deny"])
            if decision == "approve" and self.random.random() < 0.5:
                said["input"] = changed(approval["input"])
            await asyncio.gather(
                *(
                    self.command("Approve", **said, decision=decision)
                    for _ in range(self.random.randint(1, 2))
                )
            )

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


def changed(args: dict[str, Any]) -> dict[str, Any]:
    """What a person makes of the arguments of a call: others, and still unlike any other's."""
    text = next(name for name in ("subject", "for", "text") if name in args)
    return args | {text: f"{args[text]}, as changed"}


@dataclass
class Stranger:
    """Somebody else who now and then writes a leaf: one that our tools write too, or another.

    `expected` is the world as it would be had nobody but the stranger acted. `raced` are leaves
    that were written after a look at their thing and before the act that it was for: such an edit
    nobody can see.
    """

    vendor: Vendor
    random: Random
    expected: dict[Leaf, Any]
    written: set[Leaf] = field(default_factory=set)
    raced: set[Leaf] = field(default_factory=set)
    _unseen: dict[tuple[str, str], set[Leaf]] = field(default_factory=dict)

    async def busy(self, pair: Pair) -> None:
        self.vendor.watch = self.watch
        while not pair.over.is_set():
            await asyncio.sleep(self.random.uniform(0.3, 2.0))
            self.edit()

    def edit(self) -> None:
        kind, id_, part = self.random.choice(EDITED)
        thing = self.vendor.world.get(kind, id_)
        if thing is None:
            return
        value = f"theirs-{len(self.vendor.arrived)}"
        with self.vendor.world.change():
            self.vendor.world.put(kind, id_, thing | {part: value})
        leaf = (f"{kind} {id_}", (part,) if kind == "note" else ("fields", part))
        self.expected[leaf] = value
        self.written.add(leaf)
        self.raced.discard(leaf)
        self._unseen.setdefault((kind, id_), set()).add(leaf)

    def watch(self, tool: str, args: Mapping[str, Any]) -> None:
        act, _, kind = tool.partition("_")
        unseen = self._unseen.pop((kind, args.get("id", "")), set())
        if act != "get":
            self.raced |= unseen

    def judged(self) -> dict[Leaf, Any]:
        """What the world should be; of what was written unseen, whatever it is."""
        now = self.vendor.leaves()
        kept = {leaf: value for leaf, value in self.expected.items() if leaf not in self.raced}
        return kept | {leaf: now[leaf] for leaf in self.raced if leaf in now}


LOST = (httpx.HTTPError, OSError, WebSocketException, Gone, json.JSONDecodeError)
"""What a person gets who asks a server that dies meanwhile."""

EDITED = (
    *(("contact", who, part) for who in ("ada", "ben", "cara") for part in ("phone", "name")),
    ("note", "milk", "text"),
    ("note", "keys", "text"),
    ("event", "review", "place"),
    ("event", "review", "start"),
)
"""What the stranger writes: each a kind, an id and a leaf."""


@pytest.mark.kill
@pytest.mark.parametrize(
    ("seed", "ends", "writes"),
    [
        pytest.param(100, 1, 6, id="quick"),
        *(pytest.param(seed, 12, 60, marks=pytest.mark.soak, id=str(seed)) for seed in range(6)),
    ],
)
async def test_two_servers_killed_at_random_lose_nothing_and_do_nothing_twice(
    fresh_database: str,
    tmp_path: Path,
    provider: ScriptedProvider,
    seed: int,
    ends: int,
    writes: int,
) -> None:
    """`ends` servers come to an end, and `writes` calls write, before it is enough."""
    random = Random(seed)
    async with vending(tmp_path) as vendor:
        for tool, seconds in HELD.items():
            vendor.restate(tool, hold=seconds)
        settings = provider.settings | vendor.settings | SHORT | {"approval": "irreversible"}
        provider.improvise = Agent(Random(seed), provider).answer
        stranger = Stranger(vendor, Random(seed + 2), vendor.leaves())
        async with serving(fresh_database, **settings) as server:
            session = await server.session()
        pair = Pair(tmp_path, fresh_database, settings, random, vendor)
        person = Person(pair, session, Random(seed + 1))
        async with asyncio.TaskGroup() as tasks:
            for at in range(2):
                tasks.create_task(pair.keep(at))
            tasks.create_task(pair.disturb())
            tasks.create_task(person.busy())
            tasks.create_task(stranger.busy(pair))
            with suppress(TimeoutError):
                async with asyncio.timeout(ends * AT_MOST):
                    while pair.ends.total() < ends or vendor.writes < writes:  # noqa: ASYNC110
                        await asyncio.sleep(0.2)
            await eventually(lambda: vendor.acted, within=ends * AT_MOST)
            pair.finish()
        async with serving(fresh_database, **settings) as server:
            await settled(server, session)
            logged = await effects(server, session)
            if any(one.state in DOUBTFUL for one in logged):  # until no call can still be acting
                await asyncio.sleep(server.settings.tool_timeout + MARGIN_MS / 1000)
            plan = await planned(
                server, session, effect_ids=[one.id for one in logged], with_dependents=True
            )
            undo_id, _ = await clicked(server, session, plan)
            await ended(server, session, undo_id)
            found = await together(server, session)
            logged = await effects(server, session)
        states = Counter(item["state"] for item in found["items"])
        print(seed, vendor.writes, pair.ends, dict(person.asked), states)
        print(Counter(one.state for one in logged), stranger.written, "raced:", stranger.raced)
        check_report(found, stranger.judged(), vendor, strangers=stranger.written)
        check_once(vendor)
        assert not [one for one in logged if one.state in (CallState.INTENT, CallState.HELD)]
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
    """Stop what waits for a person, and wait until nothing is under way or held back."""
    stop = {"type": "WsClientStopCommand"}
    await server.http.post(f"/sessions/{session}/commands", json=stop)

    async def over() -> bool:
        listed = (await server.http.get("/sessions")).json()["sessions"]
        undos = (await server.http.get(f"/sessions/{session}/undos")).json()["undos"]
        free = [one["state"] for one in listed] == ["AVAILABLE"]
        held = [one for one in await effects(server, session) if one.state is CallState.HELD]
        return free and not held and all(undo["status"] == "ended" for undo in undos)

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
