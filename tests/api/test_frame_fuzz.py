"""Whatever is sent on a socket: an answer or a close code, and everything goes on afterwards.

Random frames (valid ones, mutated ones, any JSON, text that is none, bytes) go in any order over a
v1 and a base socket of one session. Then the same sockets have to be open, nothing may have been
`internal`, every frame has to be as its schema says, and the session takes a prompt, a revert and
a redo. The server is a process of its own; no traceback may be in what it logs.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from client_view import View
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from processes import Process, eventually, process
from websockets.exceptions import ConnectionClosed
from wire import Client, is_head
from workflows import edit_lists

Sent = str | bytes

HEAD, TURN, NOWHERE = "$head", "$turn", "019a0000-0000-7000-8000-000000000000"
"""Put in for what is only known when the frame is sent."""

TEXT = st.text(max_size=20) | st.sampled_from(
    ["", " ", "\0", "\ud83d", "💥", "x" * 5_000, "step-initial"]
)
NUMBERS = st.integers() | st.floats() | st.sampled_from([2**63, 2**64, -(2**64), 10**400, 1e308])
SCALARS = st.none() | st.booleans() | NUMBERS | TEXT
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
IDS = st.sampled_from([HEAD, TURN, NOWHERE, "step-initial", "nope"])
KEYS = st.sampled_from(["k1", "k2"])
COMMON = {"requestId": KEYS | TEXT, "expectedHeadId": IDS}
EDITS = edit_lists().map(
    lambda edits: [edit.model_dump(mode="json", exclude_unset=True) for edit in edits]
)


def command(
    type_: str, required: dict[str, Any] | None = None, **optional: st.SearchStrategy[Any]
) -> st.SearchStrategy[dict[str, Any]]:
    named = {"type": st.just(f"WsClient{type_}Command"), **(required or {})}
    return st.fixed_dictionaries(named, optional=COMMON | optional)


COMMANDS = st.one_of(
    command(
        "Prompt",
        {"content": st.sampled_from(["add a Filter", "add a CSVFileScan", "what?", "delete op1"])},
        messageSource=st.sampled_from(["chat", "feedback"]),
        turnKey=KEYS,
        attachmentIds=st.just([]),
    ),
    command("Stop"),
    command(
        "Revert",
        messageId=IDS,
        stepId=IDS,
        effects=st.sampled_from(["leave", "undo"]),
        planId=TEXT,
        confirm=st.booleans(),
        keepEdits=st.booleans(),
    ),
    command("Redo", all=st.booleans()),
    command("Checkout", {"stepId": IDS}),
    command("EditWorkflow", {"baseHeadId": IDS, "edits": EDITS}),
    command("Approve", toolCallId=TEXT, decision=st.just("approve")),
    command("Undo", planId=TEXT),
    command("Acknowledge", residueId=TEXT),
)
TYPES = [
    f"WsClient{name}Command"
    for name in ("Prompt", "Stop", "Revert", "Redo", "Checkout", "EditWorkflow", "Undo")
]


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """A command with some of it dropped, changed, added, or of another command."""
    frame = draw(COMMANDS)
    for _ in range(draw(st.integers(1, 3))):
        member = draw(st.sampled_from(sorted(frame)) if frame else st.just("type"))
        match draw(st.sampled_from(["drop", "change", "add", "type", "wrap", "nest"])):
            case "drop":
                frame.pop(member, None)
            case "change":
                frame[member] = draw(JSON)
            case "add":
                frame[draw(TEXT)] = draw(JSON)
            case "type":
                frame["type"] = draw(st.sampled_from(TYPES) | JSON)
            case "wrap":
                frame[member] = [frame.get(member)]
            case "nest":
                inner: Any = frame.get(member)
                for _ in range(draw(st.sampled_from([3, 100, 238, 300]))):
                    inner = {"a": inner}
                frame[member] = inner
    return frame


def written(frame: Any) -> str:
    """JSON as a careless client writes it: NaN, half surrogates, numbers of any length."""
    return json.dumps(frame)


@st.composite
def broken(draw: st.DrawFn) -> str:
    """Text that begins or goes on as a frame does."""
    text = written(draw(COMMANDS))
    at = draw(st.integers(0, len(text)))
    return text[:at] + draw(st.sampled_from(["", "\0", "}", "[" * 2_000, "\ufeff", text]))


WHOLE = COMMANDS.map(written)
ANYTHING: st.SearchStrategy[Sent] = st.one_of(
    WHOLE, mutated().map(written), JSON.map(written), broken(), st.binary(max_size=40)
)
SENT = st.lists(st.tuples(st.booleans(), ANYTHING), min_size=1, max_size=8)

barriers = count(1)


class Session:
    """A session with a socket of each kind, and what their clients make of what they are told."""

    def __init__(self, server: Process, session: str, v1: Client, base: Client) -> None:
        self.server, self.id = server, session
        self.clients = {True: v1, False: base}
        self.views = {True: View(v1=True), False: View(v1=False)}

    async def send(self, v1: bool, sent: Sent) -> None:
        turns = [s["messageId"] for s in self.clients[True].path] or [NOWHERE]
        if isinstance(sent, str):
            sent = sent.replace(HEAD, self.clients[True].head).replace(TURN, turns[-1])
        await self.clients[v1].send_raw(sent)

    async def settle(self) -> None:
        """Wait until everything sent has been answered, and no run is under way."""
        for client in self.clients.values():
            barrier = f"barrier-{next(barriers)}"
            await client.send_raw(json.dumps({"type": barrier}))
            await client.wait(lambda f, barrier=barrier: barrier in f.get("error", ""))
        await self.clients[True].ask("Stop")
        await eventually(self.idle)

    async def idle(self) -> bool:
        session = await self.server.http.get(f"/sessions/{self.id}")
        return bool(session.json()["state"] == "AVAILABLE")

    async def check(self) -> None:
        """Nothing was internal, the frames are as described, and the session is of use."""
        await self.settle()
        v1 = self.clients[True]
        asked = await v1.ask("Prompt", content="add a Limit")
        assert asked["type"] == "WsServerAckEvent", asked
        await self.settle()
        done = await v1.ask("Revert", messageId=asked["messageId"], confirm=True)
        assert done["type"] == "WsServerAckEvent", done
        for client in self.clients.values():
            await client.wait(lambda f: is_head(f) and f["headId"] == done["headId"])
        redone = await v1.ask("Redo")
        assert redone["type"] == "WsServerAckEvent", redone
        for which, client in self.clients.items():
            assert not [f for f in client.frames if f.get("code") == "internal"]
            for frame, text in zip(client.frames, client.texts, strict=True):
                self.views[which].take(frame, text)
        assert self.views[True].head == redone["headId"]


@asynccontextmanager
async def session_of(server: Process) -> AsyncIterator[Session]:
    session = await server.session()
    async with AsyncExitStack() as sockets:
        v1 = await sockets.enter_async_context(server.connect(session))
        base = await sockets.enter_async_context(server.connect(session, v1=False))
        await v1.snapshot()
        await base.snapshot()
        yield Session(server, session, v1, base)


@pytest.fixture
async def server(fresh_database: str, tmp_path: Path) -> AsyncIterator[Process]:
    async with process(tmp_path, fresh_database) as running:
        yield running


def examples(count: int) -> settings:
    return settings(
        max_examples=count,
        deadline=None,
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
        ],
    )


async def everything_goes_on(server: Process, sent: list[tuple[bool, Sent]]) -> None:
    async with session_of(server) as session:
        for v1, what in sent:
            await session.send(v1, what)
        await session.check()


@pytest.mark.case(36)
@examples(50)
@given(sent=SENT)
async def test_whatever_is_sent_everything_goes_on(
    server: Process, sent: list[tuple[bool, Sent]]
) -> None:
    await everything_goes_on(server, sent)


@pytest.mark.soak
@examples(3_000)
@given(sent=SENT)
async def test_whatever_is_sent_often_everything_goes_on(
    server: Process, sent: list[tuple[bool, Sent]]
) -> None:
    await everything_goes_on(server, sent)


@examples(20)
@given(data=st.binary(max_size=30) | WHOLE.map(lambda text: text.encode()[:-1] + b"\xff"))
async def test_text_that_is_not_utf_8_closes_its_socket_and_no_other(
    server: Process, data: bytes
) -> None:
    try:
        data.decode()
        code = None
    except UnicodeDecodeError:
        code = 1007
    async with session_of(server) as session:
        async with server.connect(session.id) as broken:
            await broken.snapshot()
            try:
                await broken.send_text(data)
                if code is None:
                    await broken.ask("Stop")
            except ConnectionClosed:
                pass
            if code is not None:
                assert await broken.until_closed() == code
        await session.check()
