"""A client that remembers whatever it was told, and holds the next server to it (law 1).

It works through a fixed scenario until it has ended or the server is gone. Then `testify` connects
to a server started later over the same database: every frame, every acknowledgement and every step
that was told must be there as it was told; what got no answer is asked again by its `requestId`,
and must have been carried out once in the end; a turn that was cut off must say so, and go back
and forth like any other.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx
from agreement import idle, last_seq
from processes import eventually
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from whole import told_once
from wire import Client, Frame, is_status

REPORT = "build a sales report"

COMMITS = 21
"""How many commits the scenario makes; `tests/faults/test_kill.py` holds the number to it."""

SLOWLY = {"offline_delay_ms": 2}
"""With these settings its runs take long enough to be stopped."""

GONE = (ConnectionClosed, InvalidHandshake, httpx.HTTPError, OSError, AssertionError)
"""What a client meets when its server is killed."""


class Server(Protocol):
    """A server in this process or in one of its own."""

    url: str
    http: httpx.AsyncClient

    async def session(self, **body: Any) -> str: ...

    def connect(self, session_id: str, *, v1: bool = ..., query: str = ...) -> Client: ...


@dataclass
class Sent:
    """A command, and its answer if that came."""

    session: str
    kind: str
    fields: Frame
    answer: Frame | None = None


@dataclass
class Witness:
    """What was asked and told, over the lives of all servers."""

    sessions: list[str] = field(default_factory=list)
    deleted: set[str] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)
    clients: list[tuple[str, Client]] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)

    # -- the scenario

    async def work(self, server: Server) -> None:
        """Create, prompt, edit, move HEAD in every way, rename, stop in mid-run, delete."""
        one = await self._create(server)
        two = await self._create(server)
        async with self._connect(server, one) as client:
            await client.snapshot()
            await self._ask(client, one, "Prompt", content=REPORT)
            await client.wait(is_status("AVAILABLE"))
            turn = client.path[0]["messageId"]
            note = {"op": "addComment", "comment": {"commentBoxID": "n", "comments": []}}
            await self._ask(client, one, "EditWorkflow", baseHeadId=client.head, edits=[note])
            tip = client.head
            await self._ask(client, one, "Revert", messageId=turn)
            await self._ask(client, one, "Redo")
            await self._ask(client, one, "Checkout", stepId="step-initial")
            await self._ask(client, one, "Checkout", stepId=tip)
            await self._ask(client, one, "Revert", messageId=turn, keepEdits=True)
            await self._ask(client, one, "Checkout", stepId=tip)
            await self._rename(server, one, "Renamed")
            seen = len(client.frames)
            await self._ask(client, one, "Prompt", content=REPORT)
            await client.wait(lambda f: f["type"] == "WsServerDeltaEvent", since=seen)
            await self._ask(client, one, "Stop")
            await client.wait(is_status("AVAILABLE"), since=seen)
            await self._delete(server, two)

    async def _create(self, server: Server) -> str:
        session = await server.session()
        self.sessions.append(session)
        return session

    def _connect(self, server: Server, session: str) -> Client:
        client = server.connect(session)
        self.clients.append((session, client))
        return client

    async def _ask(self, client: Client, session: str, kind: str, **fields: Any) -> None:
        sent = Sent(session, kind, fields | {"requestId": f"{session}-{len(self.sent)}"})
        self.sent.append(sent)
        sent.answer = await client.ask(kind, **sent.fields)
        assert sent.answer["type"] == "WsServerAckEvent", sent

    async def _rename(self, server: Server, session: str, name: str) -> None:
        answer = await server.http.patch(f"/sessions/{session}", json={"name": name})
        answer.raise_for_status()
        self.names[session] = name

    async def _delete(self, server: Server, session: str) -> None:
        (await server.http.delete(f"/sessions/{session}")).raise_for_status()
        self.deleted.add(session)

    async def work_until(self, server: Server, gone: asyncio.Event) -> bool:
        """Work until the scenario has ended (true) or the server is gone (false)."""
        working = asyncio.create_task(self.work(server))
        waiting = asyncio.create_task(gone.wait())
        await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
        try:
            await working
        except GONE:
            async with asyncio.timeout(10):
                await waiting  # otherwise the server is alive and what was raised is a failure
            self._hear()
            return False
        waiting.cancel()
        return True

    def _hear(self) -> None:
        """Answers that came before the end, though nobody was waiting any more."""
        frames = [frame for _, client in self.clients for frame in client.frames]
        answers = {frame["requestId"]: frame for frame in frames if "requestId" in frame}
        for sent in self.sent:
            sent.answer = sent.answer or answers.get(sent.fields["requestId"])

    # -- the testimony

    async def testify(self, server: Server) -> None:
        """Hold a later server to everything that was told."""
        for session in self.sessions:
            found = await server.http.get(f"/sessions/{session}")
            if session in self.deleted or found.status_code == 404:
                assert found.json()["code"] == "session_not_found"
                assert session not in self.names
                self.deleted.add(session)  # its answer may have been lost
                continue
            assert found.json()["name"] == self.names.get(session, found.json()["name"])
            async with (
                server.connect(session) as client,
                server.connect(session, query="?since=0") as replayed,
            ):
                await client.snapshot()
                await idle(client)
                await self._hold_to(client, replayed, session)

    async def _hold_to(self, client: Client, replayed: Client, session: str) -> None:
        revision = last_seq(client)
        await eventually(lambda: last_seq(replayed) >= revision)
        told_once(replayed.durable)
        now = {frame["eventSeq"]: frame for frame in replayed.durable}
        for frame in self._told(session):
            assert now[frame["eventSeq"]] == frame
        await self._ask_again(client, session)
        await eventually(lambda: last_seq(replayed) == last_seq(client))
        self._check_traces(replayed, session)
        if replayed.head not in ("", "step-initial"):
            await self._put_back(client, replayed)
        await client.prompt(REPORT)
        await eventually(lambda: last_seq(replayed) == last_seq(client))
        told_once(replayed.durable)

    def _told(self, session: str) -> list[Frame]:
        return [frame for of, client in self.clients if of == session for frame in client.durable]

    async def _ask_again(self, client: Client, session: str) -> None:
        """What was answered is answered the same; what was not is carried out once."""
        for sent in [sent for sent in self.sent if sent.session == session]:
            again = await client.ask(sent.kind, **sent.fields)
            if sent.answer is not None:
                assert again == sent.answer
            await idle(client)

    def _check_traces(self, replayed: Client, session: str) -> None:
        mine = [sent for sent in self.sent if sent.session == session]
        asked = Counter(trace for sent in mine for trace in _traces_of(sent))
        told = Counter(_trace(frame) for frame in replayed.durable)
        del told[None], asked[None]
        assert told == asked

    async def _put_back(self, client: Client, replayed: Client) -> None:
        """The newest turn goes back and comes again; one that was cut off says so."""
        path = replayed.path
        assert path[-1]["endReason"] is not None
        first = next(step for step in path if step["messageId"] == path[-1]["messageId"])
        back = await client.ask("Revert", messageId=first["messageId"])
        assert back["headId"] == first["parentId"]
        again = await client.ask("Redo")
        await eventually(lambda: last_seq(replayed) == again["eventSeq"])
        assert replayed.path == path


def _trace(frame: Frame) -> tuple[str, str] | None:
    """What a frame shows to have been carried out; None: nothing that was asked for."""
    match frame["type"]:
        case "WsServerStepEvent" if frame["step"]["role"] == "user":
            step = frame["step"]
            return ("EditWorkflow", "") if step["kind"] == "edit" else ("Prompt", step["content"])
        case "WsServerHeadChangeEvent" if frame["cause"] != "edit":
            return (frame["cause"].capitalize(), "")
    return None


def _traces_of(sent: Sent) -> list[tuple[str, str] | None]:
    if sent.kind == "Stop":
        return []  # nothing is left of a stop that came too late
    kept = [("EditWorkflow", "")] if "keepEdits" in sent.fields else []
    return [(sent.kind, sent.fields.get("content", "")), *kept]
