"""Clients that are cut off and come back, here or there, while everything else fails as well.

Two processes serve one session. Commands, cuts of sockets, lost connections to the database,
unheard wake-ups, frozen and killed processes come at random instants. Whoever comes back by
`?since=` has in the end been told every durable frame once, in order, and never anything else.
"""

from __future__ import annotations

import asyncio
import random
import signal
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from agreement import at_rest, check_agreement, last_seq
from flaky import Wire, flaky
from processes import Process, eventually, process
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage
from wire import Client, Frame

GONE = (ConnectionClosed, InvalidHandshake, InvalidMessage, EOFError, OSError, TimeoutError)
"""What a client meets when a process, or the way to it, is gone."""

HURRIED: dict[str, Any] = {"open_timeout": 2.0, "close_timeout": 0.2}

SHORT: dict[str, Any] = {
    "lease_heartbeat": 0.2,
    "lease_expiry": 1.5,
    "offline_delay_ms": 1,
    "db_pool_size": 3,
    "replay_events": 10_000,
}

CONTENTS = ("add a CSVFileScan", "add a Filter on amount > 10", "build a sales report", "hello")


@dataclass
class Servers:
    """Two processes over one wire to the database; each may be frozen, or another than before."""

    folder: Path
    wire: Wire
    stack: AsyncExitStack
    all: list[Process] = field(default_factory=list)

    async def start(self, which: int) -> None:
        """Start a process in this place."""
        started = await self.stack.enter_async_context(process(self.folder, self.wire.url, **SHORT))
        self.all[which : which + 1] = [started]


@dataclass
class Returning:
    """A client that comes back, to either server, until it is told to stop."""

    servers: Servers
    session: str
    rng: random.Random
    v1: bool
    durable: list[Frame] = field(default_factory=list)
    visits: int = 0
    stopped: bool = False
    query: str = ""
    first: int = 0
    epoch: str = ""

    def last(self, client: Client) -> int:
        """The last `eventSeq` that it has been told of, on this visit or before."""
        return max(last_seq(client), self.first + len(self.durable))

    async def live(self) -> None:
        """Come back again and again; each time stay for a while."""
        while not self.stopped:
            server = self.rng.choice(self.servers.all)
            try:
                async with server.connect(
                    self.session, v1=self.v1, query=self.query, **HURRIED
                ) as client:
                    await asyncio.sleep(self.rng.random() * 0.6)
                    self.keep(client)
            except GONE:
                await asyncio.sleep(0.05)

    def keep(self, client: Client) -> None:
        """What this visit has told: a snapshot on the first alone, and then what follows."""
        if not client.frames or "error" in client.frames[0]:
            return
        self.visits += 1
        if not self.v1:
            assert client.frames[0]["type"] == "WsServerSnapshotEvent"
            return
        if not self.query:
            self.first = client.frames[0]["eventSeq"]
            self.epoch = client.frames[0]["streamEpoch"]
        else:
            assert client.frames[0]["type"] != "WsServerSnapshotEvent", client.frames[0]
        self.durable += client.durable
        told = [frame["eventSeq"] for frame in self.durable]
        assert told == list(range(self.first + 1, self.first + 1 + len(told)))
        self.query = f"?since={self.first + len(told)}&epoch={self.epoch}"


@dataclass
class Sender:
    """A client that commands, and asks again what was not answered, until it is told to stop."""

    servers: Servers
    session: str
    rng: random.Random
    name: str
    answers: list[tuple[Frame, Frame]] = field(default_factory=list)
    stopped: bool = False

    async def live(self) -> None:
        """Send one command after the other, each until it has its answer."""
        while not self.stopped:
            asked: Frame | None = None
            while not self.stopped or asked:
                try:
                    async with self.rng.choice(self.servers.all).connect(
                        self.session, **HURRIED
                    ) as client:
                        await client.snapshot()
                        asked = asked or self._next(client)
                        async with asyncio.timeout(4.0):
                            answer = await client.ask(**asked)
                        if answer.get("code") != "database_unavailable":
                            self.answers.append((asked, answer))
                            asked = None
                except (*GONE, AssertionError):
                    await asyncio.sleep(0.05)

    def _next(self, client: Client) -> Frame:
        asked: Frame = {"requestId": f"{self.name}-{len(self.answers)}"}
        turns = [step["messageId"] for step in client.steps.values()]
        match self.rng.randrange(6):
            case 0 if turns:
                return asked | {"type_": "Revert", "messageId": self.rng.choice(turns)}
            case 1:
                return asked | {"type_": "Redo"}
            case 2:
                return asked | {"type_": "Stop"}
            case 3:
                note = {"commentBoxID": f"{self.name}{len(self.answers)}", "comments": []}
                edits = [{"op": "addComment", "comment": note}]
                base = client.head
                return asked | {"type_": "EditWorkflow", "baseHeadId": base, "edits": edits}
            case _:
                return asked | {"type_": "Prompt", "content": self.rng.choice(CONTENTS)}


def answered(senders: list[Sender]) -> int:
    """How many commands have had their answer."""
    return sum(len(sender.answers) for sender in senders)


async def trouble(servers: Servers, rng: random.Random, rounds: int) -> None:
    """One thing after the other goes wrong, and is put right again."""
    for _ in range(rounds):
        await asyncio.sleep(rng.random() * 0.8)
        which = rng.randrange(2)
        server = servers.all[which]
        match rng.randrange(6):
            case 0:
                servers.wire.cut()
            case 1:
                servers.wire.lose("answer")
            case 2:
                servers.wire.hush("turnback wakeups")
                await asyncio.sleep(rng.random())
                servers.wire.speak()
            case 3:
                server.send(signal.SIGSTOP)
                await asyncio.sleep(rng.choice((0.2, 2.5)))  # the second outlives its lease
                server.send(signal.SIGCONT)
            case 4:
                server.kill()
                assert await server.end() == -signal.SIGKILL
                await servers.start(which)
            case 5:
                server.send(signal.SIGTERM)
                assert await server.end() == 0
                await servers.start(which)


async def come_and_go(url: str, folder: Path, seed: int, *, rounds: int) -> None:
    """Everything at once, and then whether all agree."""
    rng = random.Random(seed)
    async with flaky(url, folder) as wire, AsyncExitStack() as stack:
        servers = Servers(folder, wire, stack)
        await servers.start(0)
        await servers.start(1)
        session = await servers.all[0].session()
        returning = [
            Returning(servers, session, random.Random(rng.random()), v1=n > 0) for n in range(5)
        ]
        senders = [Sender(servers, session, random.Random(rng.random()), f"s{n}") for n in range(3)]
        lives = [asyncio.create_task(one.live()) for one in (*returning, *senders)]
        try:
            await trouble(servers, rng, rounds)
            # On a slow machine some have hardly begun when the trouble is over.
            await eventually(
                lambda: (
                    any(life.done() for life in lives)  # it has failed: `gather` says how
                    or (all(one.visits for one in returning) and answered(senders) > rounds)
                ),
                within=60,
            )
            for one in (*returning, *senders):
                one.stopped = True
            async with asyncio.timeout(60):
                await asyncio.gather(*lives)
        finally:
            for life in lives:
                life.cancel()
            await asyncio.gather(*lives, return_exceptions=True)
        clients = [
            await stack.enter_async_context(
                servers.all[n % 2].connect(session, v1=one.v1, query=one.query)
            )
            for n, one in enumerate(returning)
        ]
        whole = await stack.enter_async_context(servers.all[0].connect(session, query="?since=0"))
        await whole.wait(lambda frame: "state" in frame)
        revision = await at_rest(url, session, within=20)
        await eventually(lambda: last_seq(whole) >= revision)
        truth = {frame["eventSeq"]: frame for frame in whole.durable}
        for one, client in zip(returning, clients, strict=True):
            assert one.visits > 0
            if one.v1:
                await eventually(lambda c=client, o=one: o.last(c) == last_seq(whole))
                one.keep(client)
                assert one.durable == [truth[n] for n in range(one.first + 1, len(truth) + 1)]
            else:
                await eventually(lambda c=client: c.head == whole.head)
        for asked, answer in (pair for sender in senders for pair in sender.answers):
            if answer["type"] == "WsServerAckEvent" and asked["type_"] == "Prompt":
                said = [f["step"]["content"] for f in truth.values() if "step" in f
                        and f["step"]["messageId"] == answer["messageId"]]  # fmt: skip
                assert said[:1] == [asked["content"]]
        assert answered(senders) > rounds
        await check_agreement(servers.all[0], session, whole, url)


@pytest.mark.case(25, 27, 29, 35)
@pytest.mark.kill
async def test_who_comes_back_is_told_every_durable_frame_once_whatever_fails(
    fresh_database: str, tmp_path: Path
) -> None:
    await come_and_go(fresh_database, tmp_path, 1, rounds=8)


@pytest.mark.soak
@pytest.mark.kill
@pytest.mark.parametrize("seed", range(100, 106))
async def test_who_comes_back_is_told_every_durable_frame_once_for_long(
    fresh_database: str, tmp_path: Path, seed: int
) -> None:
    await come_and_go(fresh_database, tmp_path, seed, rounds=40)
