"""Random traffic on one session: several sockets, every command, at any instant.

A `Traffic` drives a server and after each round, when the session is quiet, holds what its clients
were told against the naive model. Two sockets only listen: the scribe (v1), whose frames are the
log that the model follows, and the witness (base), who is told every step in full.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from typing import Any

import httpx
from client_view import CONTENTS, ROOT, View, as_base
from naive_canvas import Document
from processes import Process
from random_canvas import random_edits
from serving import Server
from session_checks import check_everything, check_replay, check_stored
from session_model import Frame, Model, Sent, ack_of
from websockets.exceptions import WebSocketException
from wire import Client, Gone, is_error

from turnback.sessions.registry import Sessions
from turnback.settings import Settings

UNKNOWN = "whether this was saved is not known"
DURABLE = ("WsServerStatusEvent", "WsServerStepEvent", "WsServerHeadChangeEvent")
BAD = [
    "null",
    "[]",
    "{",
    '"WsClientStopCommand"',
    '{"type": "WsClientPromptCommand", "content": ["x"]}',
    '{"type": "WsClientPromptCommand", "content": "\\ud83d"}',
    '{"type": "WsClientRevertCommand", "messageId": {"a": 1}}',
    '{"type": "WsClientRevertCommand", "messageId": "' + "x" * 5000 + '"}',
    '{"type": "WsClientStopCommand", "requestId": "r", "x": ' + "[" * 500 + "]" * 500 + "}",
    '{"type": "WsClientStopCommand", "requestId": "r", "x": 1' + "0" * 400 + "}",
    '{"type": "WsClientStopCommand", "requestId": "r", "x": NaN}',
    b"\xff",
]
V1_BAD = [
    '{"type": "WsClientCheckoutCommand", "stepId": 7}',
    '{"type": "WsClientCheckoutCommand", "stepId": "\\u0000"}',
    '{"type": "WsClientEditWorkflowCommand", "baseHeadId": "step-initial", "edits": []}',
    '{"type": "WsClientEditWorkflowCommand", "baseHeadId": "x", "edits": [{"op": "fly"}]}',
    '{"type": "WsClientApproveCommand", "toolCallId": "t", "decision": "approve"}',
]


class Peer:
    """One client: its socket, which may come and go, and what it makes of the frames."""

    def __init__(self, connect: Callable[..., Client], *, v1: bool) -> None:
        self.v1 = v1
        self.view = View(v1)
        self.epoch = ""
        self.backlog: list[Frame] = []  # of sockets that are closed, since the last quiet
        self._connect = connect
        self._client: Client | None = None
        self._taken = 0
        self._barriers = count(1)

    @property
    def client(self) -> Client:
        assert self._client is not None, "not connected"
        return self._client

    @property
    def connected(self) -> bool:
        return self._client is not None and self._client.closed is None

    async def enter(self, *, since: bool = False) -> None:
        """Connect; with `since`, asking for what was missed."""
        query = ""
        if since and self.v1 and self.epoch:
            query = f"?since={self.view.seq}&epoch={self.epoch}"
        self.view.streamed = {}  # provisional, and the partial text is told again
        client = self._connect(v1=self.v1, query=query)
        await client.__aenter__()
        self._client, self._taken = client, 0
        await self.barrier()
        self.take_all()

    async def leave(self) -> None:
        """Close the socket."""
        if self._client is not None:
            await self._client.__aexit__()
            self.take_all()
            self.backlog += self._client.frames
            self._client = None

    def take_all(self) -> None:
        """Follow every frame that has arrived."""
        self.take_until(len(self.client.frames))

    def take_until(self, end: int) -> None:
        """Follow the frames up to, and without, index `end`."""
        for at in range(self._taken, end):
            frame = self.client.frames[at]
            self.view.take(frame, self.client.texts[at])
            if frame["type"] == "WsServerSnapshotEvent":
                self.epoch = frame.get("streamEpoch", "")
        self._taken = max(self._taken, end)

    def forget(self) -> None:
        """Keep no frame that has been followed."""
        assert self._taken == len(self.client.frames)
        self.client.frames.clear()
        self.client.texts.clear()
        self.backlog.clear()
        self._taken = 0

    async def reach(self, seq: int) -> None:
        """Wait until this client has been told of the event `seq`; only v1 can know."""
        while self.v1 and self.view.seq < seq:
            await self.client.wait(lambda _: True, since=self._taken)
            self.take_all()

    async def barrier(self) -> int:
        """Wait until all that was sent is answered; the index of the frame that says so."""
        name = f"barrier {next(self._barriers)}"
        seen = len(self.client.frames)
        await self.client.send_raw(json.dumps({"type": name}))
        frame = await self.client.wait(lambda f: f.get("error", "").endswith(name), since=seen)
        return self.client.frames.index(frame, seen)

    async def command(self, sent: Sent) -> None:
        """Send a command and wait for what becomes of it."""
        seen = len(self.client.frames)
        await self.client.send(sent.kind, **sent.fields)
        request_id = sent.fields.get("requestId")
        if request_id is not None:
            answer = await self.client.wait(lambda f: f.get("requestId") == request_id, since=seen)
            sent.answer = answer
            end = self.client.frames.index(answer, seen)
        else:
            end = await self.barrier()
            errors = [f for f in self.client.frames[seen:end] if is_error(f)]
            assert len(errors) < 2, errors
            sent.answer = errors[0] if errors else {}
        if UNKNOWN in sent.answer.get("error", ""):
            sent.answer = None
        self.take_until(end)
        # What is in doubt may still be found to have been done.
        sent.hi = self.view.seq if self.v1 and sent.answer is not None else None


class Traffic:
    """Drives a session. `commands` counts what was sent, `rounds` what kind of rounds there were.

    `server` may be replaced while nobody is connected. Where there is an `other` server over the
    same database, two of the clients talk to that one.
    """

    def __init__(
        self,
        server: Server | Process,
        session: str,
        rng: random.Random,
        *,
        settings: Settings,
        initial: Document,
        files: list[Document],
        database_url: str,
        other: Server | None = None,
        clients: int = 3,
    ) -> None:
        self.server = server
        self.session = session
        self.rng = rng
        self.model = Model(initial, "Untitled", settings.max_redo_depth)
        self.scribe = Peer(self.connect, v1=True)
        self.witness = Peer(self.connect, v1=False)
        self.peers = [Peer(self.connect, v1=at % 3 < 2) for at in range(clients)]
        self.afar: list[Peer] = []
        if other is not None:
            connect = partial(other.connect, session)
            self.afar = [Peer(connect, v1=True) for _ in range(2)]
            self.peers += self.afar
        self.commands = 0
        self.rounds: dict[str, int] = {}
        self._settings = settings
        self._files = files
        self._database_url = database_url
        self._sent: list[Sent] = []
        self._numbers = count(1)
        self._names = ["Untitled"]

    def connect(self, **options: Any) -> Client:
        """A new client of the session."""
        return self.server.connect(self.session, **options)

    async def begin(self) -> None:
        """Connect everyone."""
        for peer in self.everyone:
            await peer.enter()

    async def end(self) -> None:
        """Disconnect everyone."""
        for peer in self.everyone:
            await peer.leave()

    @property
    def everyone(self) -> list[Peer]:
        return [self.scribe, self.witness, *self.peers]

    # -- rounds

    async def round(self) -> None:
        """One random round of commands, and what holds when the session is quiet again."""
        await self.act()
        await self.quiet()

    async def round_with_an_end(self, end: Callable[[], Awaitable[Server | Process]]) -> None:
        """A round in which the server goes at some instant; `end` ends it and gives the next.

        Who was told something must find it again: everyone asks for what came after it.
        """

        async def soon() -> Server | Process:
            await asyncio.sleep(self.rng.random() ** 2 * 0.2)
            return await end()

        ending = asyncio.create_task(soon())
        try:
            while not ending.done():
                await self.act()
        except (Gone, WebSocketException, httpx.TransportError, OSError):
            pass
        server = await ending
        for peer in self.everyone:
            await peer.leave()
        self.server = server
        resets = [peer.view.resets for peer in self.everyone]
        await self.enter_all()
        assert [peer.view.resets for peer in self.everyone] == resets
        await self.quiet()
        if self.model.now.archived:
            await self._unarchive()

    async def round_with_losses(self, lose: Callable[[], None]) -> None:
        """A round in which `lose` is called now and then: it cuts the server off its database."""

        async def losing() -> None:
            while True:
                await asyncio.sleep(self.rng.random() ** 2 * 0.2)
                lose()

        task = asyncio.create_task(losing())
        try:
            await self.act(calm=True)
        except (Gone, WebSocketException, httpx.TransportError, OSError):
            pass
        finally:
            task.cancel()
        for peer in self.everyone:
            while not peer.connected:
                await peer.leave()
                try:
                    await peer.enter(since=True)
                except (Gone, WebSocketException):
                    await asyncio.sleep(0.05)
        await self.quiet()

    async def act(self, *, calm: bool = False) -> None:
        """Some random commands, all of them answered; `calm` ones bear any answer."""
        kinds: dict[Callable[[], Awaitable[None]], int] = {
            self.turn: 34,
            self.calm_commands: 18,
            self.back_and_forth: 8,
            self.kept_edits: 10,
            self.burst: 16,
            self.stopped_turn: 8,
            self.come_and_go: 8,
        }
        if not calm:
            kinds |= {
                self.ask_again: 8,
                self.talk_nonsense: 3,
                self.rename: 3,
                self.archive: 2,
            }
        act = self.rng.choices(list(kinds), list(kinds.values()))[0]
        name = act.__name__
        self.rounds[name] = self.rounds.get(name, 0) + 1
        await act()

    async def turn(self) -> None:
        """A prompt, and perhaps others at it while it runs."""
        await self.send(self.peer(), *self.prompt())
        for _ in range(self.rng.choice([0, 0, 0, 1, 2, 3])):
            await asyncio.sleep(self.rng.random() * 0.02)
            peer = self.peer()
            await self.send(peer, *self.any_command(peer))

    async def stopped_turn(self) -> None:
        """A prompt, stopped at some instant by somebody."""
        await self.send(self.peer(), *self.prompt())
        await asyncio.sleep(self.rng.random() ** 2 * 0.08)
        for _ in range(self.rng.choice([1, 1, 2])):
            await self.send(self.peer(), "Stop", {})

    async def calm_commands(self) -> None:
        """Commands that start no run, one after the other."""
        for _ in range(self.rng.randrange(1, 5)):
            peer = self.peer()
            await self.send(peer, *self.any_command(peer, prompts=False))

    async def back_and_forth(self) -> None:
        """Back step by step, farther than redo remembers, and forward again as far as it goes."""
        steps = self.rng.randrange(4, 12)
        for _ in range(steps):
            peer = self.peer(v1=True)
            await self.send(peer, "Revert", {"stepId": peer.view.head})
        for _ in range(self.rng.randrange(steps + 2)):
            await self.send(self.peer(), "Redo", {})

    async def kept_edits(self) -> None:
        """Edits by hand, perhaps after a turn, and back to before them with the edits kept."""
        if self.rng.random() < 0.4:
            await self.send(self.peer(), *self.prompt())
            await self._settled()
        for _ in range(self.rng.randrange(1, 5)):
            peer = self.peer(v1=True)
            await self.send(peer, "EditWorkflow", self._edit(peer))
        for _ in range(self.rng.choice([1, 1, 2])):
            peer = self.peer(v1=True)
            some = peer.view.path[-self.rng.randrange(1, 7) :]
            if some:
                turn = peer.view.steps[some[0]]["messageId"]
                await self.send(peer, "Revert", {"messageId": turn, "keepEdits": True})

    async def burst(self) -> None:
        """Everyone at once, and each several times."""
        peers = [peer for peer in self.peers if peer.connected]

        async def fire(commands: list[tuple[str, Frame]], peer: Peer | None) -> None:
            for kind, fields in commands:
                await self.send(peer, kind, fields)

        lots: list[tuple[Peer | None, list[tuple[str, Frame]]]] = [
            (peer, [self.any_command(peer) for _ in range(self.rng.randrange(1, 4))])
            for peer in peers
        ]
        lots.append((None, [self.any_command(self.peers[0]) for _ in range(2)]))
        twice = self.any_command(self.peers[0])
        if self.rng.random() < 0.5:  # the same request through several doors
            for peer, commands in lots:
                if peer is None or peer.v1:
                    commands.append(twice)
            twice[1]["requestId"] = f"twice-{next(self._numbers)}"
            twice[1].pop("turnKey", None)
        fired = (fire(commands, peer) for peer, commands in lots)
        for error in await asyncio.gather(*fired, return_exceptions=True):
            if error is not None:
                raise error

    async def come_and_go(self) -> None:
        """A client leaves, perhaps with a command on its lips, and comes back."""
        peer = self.peer()
        if self.rng.random() < 0.5:
            await self.send(self.peer(), *self.prompt())
        if self.rng.random() < 0.5:
            kind, fields = self.any_command(peer)
            fields = fields if peer.v1 else _of_base(fields)
            self._note(kind, fields, peer)  # nobody will know what becomes of it
            await peer.client.send(kind, **fields)
        await peer.leave()
        if self.rng.random() < 0.7:
            for _ in range(self.rng.randrange(3)):
                other = self.peer()
                await self.send(other, *self.any_command(other))
        await peer.enter(since=self.rng.random() < 0.8)

    async def ask_again(self) -> None:
        """A request that was answered before, the same or another under its id; a turn's key."""
        requests = list(self.model.answered)
        if requests:
            request_id = self.rng.choice(requests[-20:])
            first, answer = self.model.answered[request_id]
            peer = self.peer(v1=True)
            if self.rng.random() < 0.6:
                sent = Sent(first.kind, first.fields, 0)
                await peer.command(sent)
                assert sent.answer is not None
                assert ack_of(sent.answer) == ack_of(answer)
            else:
                sent = Sent("Redo", {"requestId": request_id, "note": "another"}, 0)
                await peer.command(sent)
                assert sent.code == "request_conflict", sent
            self.commands += 1
        if self.model.keys:
            key = self.rng.choice(list(self.model.keys)[-5:])
            kind, fields = self.prompt()
            await self.send(self.peer(v1=True), kind, fields | {"turnKey": key})

    async def talk_nonsense(self) -> None:
        """Frames that are no command: one error each, to the sender alone."""
        peer = self.peer()
        sent = self.rng.choice(BAD + V1_BAD * peer.v1)
        seen = len(peer.client.frames)
        await peer.client.send_raw(sent)
        end = await peer.barrier()
        errors = [frame for frame in peer.client.frames[seen:end] if is_error(frame)]
        assert len(errors) == 1, (sent, errors)
        if peer.v1:
            assert errors[0]["code"] != "internal"
        peer.take_all()
        self.commands += 1

    async def rename(self) -> None:
        """A new name, while something else goes on."""
        await self.send(self.peer(), *self.prompt())
        self._names.append(f"Name {next(self._numbers)}")
        await self.server.http.patch(f"/sessions/{self.session}", json={"name": self._names[-1]})

    async def archive(self) -> None:
        """Archived, at some instant, and then unarchived: in between nothing may change."""
        if self.rng.random() < 0.5:
            await self.send(self.peer(), *self.prompt())
        url = f"/sessions/{self.session}"
        archived = await self.server.http.patch(url, json={"archived": True})
        assert archived.status_code == 200 or archived.json()["code"] == "busy"
        await self.burst()
        await self._unarchive()

    async def _unarchive(self) -> None:
        url = f"/sessions/{self.session}"
        answer = await self.server.http.patch(url, json={"archived": False})
        assert answer.status_code == 200, answer.text

    async def forgotten(self, sessions: Sessions) -> None:
        """Everyone leaves for so long that the session leaves memory; then everyone is back."""
        await self.end()
        for _ in range(200):
            if self.session not in sessions._actors:
                break
            await asyncio.sleep(0.05)
        else:
            raise AssertionError("an idle session stays in memory")
        await self.enter_all()

    async def enter_all(self) -> None:
        """Everyone connects again, and asks for what was missed."""
        for peer in self.everyone:
            await peer.enter(since=True)

    # -- commands

    def peer(self, *, v1: bool = False) -> Peer:
        """One of those who talk; with `v1`, one who may say everything."""
        peers = [peer for peer in self.peers if peer.connected and (peer.v1 or not v1)]
        if not peers:
            raise Gone("nobody is connected")
        return self.rng.choice(peers)

    def prompt(self) -> tuple[str, Frame]:
        """A prompt like no other."""
        fields: Frame = {"content": f"Please do it, number {next(self._numbers)} 🙂"}
        if self.rng.random() < 0.2:
            fields["messageSource"] = self.rng.choice(["chat", "feedback"])
        if self.rng.random() < 0.2:
            fields["turnKey"] = f"key-{next(self._numbers)}"
        return "Prompt", fields

    def any_command(self, peer: Peer, *, prompts: bool = True) -> tuple[str, Frame]:
        """A command such as `peer` may send, from what it sees or from what once was."""
        rng = self.rng
        kind = rng.choices(
            ["Prompt", "Stop", "Revert", "Redo", "Checkout", "EditWorkflow"],
            [12 if prompts else 0, 6, 26, 24, 10 if peer.v1 else 0, 24 if peer.v1 else 0],
        )[0]
        match kind:
            case "Prompt":
                if rng.random() < 0.05:
                    return kind, {"content": rng.choice(["", " \n"])}
                return self.prompt()
            case "Revert":
                return kind, self._revert(peer)
            case "Redo":
                return kind, {"all": True} if peer.v1 and rng.random() < 0.2 else {}
            case "Checkout":
                return kind, {"stepId": self._some_step(peer)}
            case "EditWorkflow":
                return kind, self._edit(peer)
        return kind, {}

    def _revert(self, peer: Peer) -> Frame:
        rng, view = self.rng, peer.view
        more: Frame = {}
        if peer.v1 and rng.random() < 0.4:
            more = {"keepEdits": rng.random() < 0.9, "confirm": rng.random() < 0.5}
        if peer.v1 and rng.random() < 0.35:
            return more | {"stepId": rng.choice(view.path[-6:] or [self._some_step(peer)])}
        turns = [view.steps[step_id]["messageId"] for step_id in view.path[-12:]]
        lost = [*self.model.first][-30:]
        if turns and rng.random() < 0.8:
            return more | {"messageId": rng.choice(turns)}
        return more | {"messageId": rng.choice([*lost, "no-such-turn"])}

    def _some_step(self, peer: Peer) -> str:
        known = [*self.model.steps]
        chosen = self.rng.choice([ROOT, *known[-40:], *known[-40:], *peer.view.path[-5:]])
        return "no-such-step" if self.rng.random() < 0.04 else chosen

    def _edit(self, peer: Peer) -> Frame:
        base = peer.view.head
        if self.rng.random() < 0.15:
            base = self._some_step(peer)
        known = base if base in self.model.texts else self.model.now.head
        edits = random_edits(self.rng, self.model.document(known), self._files)
        return {"baseHeadId": base, "edits": edits}

    def _note(self, kind: str, fields: Frame, peer: Peer | None = None) -> Sent:
        known = peer if peer in self.afar and peer is not None else self.scribe
        known.take_all()
        sent = Sent(kind, fields, known.view.seq)
        self._sent.append(sent)
        self.commands += 1
        return sent

    async def send(self, peer: Peer | None, kind: str, fields: Frame) -> None:
        """Send a command by a peer, or by REST, and note what becomes of it."""
        rng = self.rng
        plus = peer is None or peer.v1
        fields = dict(fields) if plus else _of_base(fields)
        if plus and rng.random() < 0.7:
            fields.setdefault("requestId", f"request-{next(self._numbers)}")
        if plus and rng.random() < 0.1:
            view = (peer or self.scribe).view
            fields["expectedHeadId"] = rng.choice([view.head, view.head, ROOT])
        if fields.get("requestId", "").startswith("twice"):
            fields.pop("expectedHeadId", None)
        sent = self._note(kind, fields, peer)
        if peer is not None:
            await peer.command(sent)
            return
        body = {"type": f"WsClient{kind}Command", **fields}
        answer = await self.server.http.post(f"/sessions/{self.session}/commands", json=body)
        said = answer.json()
        if answer.status_code == 202:
            sent.answer = said
        else:
            assert answer.headers["content-type"] == "application/problem+json"
            assert said["status"] == answer.status_code != 500, said
            sent.answer = {"error": said["detail"], "code": said["code"]}
            if UNKNOWN in said["detail"]:
                sent.answer = None

    # -- quiet

    async def quiet(self) -> None:
        """Wait for the end of the run and of all frames; then hold everyone against the model."""
        await self._settled()
        since = self.model.now.seq
        self._follow()
        self.model.judge(self._sent, since)
        self._sent = []
        self._compare()
        for peer in self.everyone:
            if peer.connected:
                peer.forget()

    async def _settled(self) -> None:
        while not await self._is_quiet():
            await self._wait_for_end()
        for peer in self.everyone:
            if peer.connected:
                await peer.barrier()
                peer.take_all()
                await peer.reach(self.scribe.view.seq)

    async def _is_quiet(self) -> bool:
        """Whether nothing is under way, and the scribe has been told all that was."""
        await self.scribe.barrier()
        listed = await self.server.http.get(f"/sessions/{self.session}")
        self.scribe.take_all()
        told = (self.scribe.view.state, self.scribe.view.seq)
        if listed.status_code == 503 or told != ("AVAILABLE", listed.json()["revision"]):
            return False
        unknown = [sent for sent in self._sent if sent.answer is None]
        return not (unknown and await self._moved())

    async def _moved(self) -> bool:
        """Whether what a client said as it left is still being carried out."""
        seq = self.scribe.view.seq
        await asyncio.sleep(0.03)
        await self.scribe.barrier()
        self.scribe.take_all()
        return self.scribe.view.seq != seq

    async def _wait_for_end(self) -> None:
        """Wait for the run's end, and stop one that says nothing any more."""
        silent = 0
        while self.scribe.view.state != "AVAILABLE":
            seen = (self.scribe.view.seq, self.scribe.view.deltas)
            await asyncio.sleep(0.03)
            self.scribe.take_all()
            silent = silent + 1 if seen == (self.scribe.view.seq, self.scribe.view.deltas) else 0
            if silent > 4:
                silent = -50
                await self.send(self.peer(), "Stop", {})

    def _follow(self) -> None:
        kinds = (*DURABLE, "WsServerSessionEvent")
        log = [f for f in [*self.scribe.backlog, *self.scribe.client.frames]
               if f["type"] in kinds]  # fmt: skip
        twins = [f for f in self.witness.backlog if f["type"] in DURABLE]
        late = [f for f in self.witness.client.frames if f["type"] in DURABLE]
        told = [f for f in log if f["type"] in DURABLE]
        missed = told[len(twins) : len(told) - len(late)]
        twins += [*map(self._twin_of, missed), *late]
        for frame in log:
            twin = twins.pop(0) if frame["type"] in DURABLE else None
            if "eventSeq" in frame:  # or else it says that the database is lost, or is back
                self.model.follow(frame, twin)
        assert not twins
        assert self.model.now.name in self._names

    def _twin_of(self, frame: Frame) -> Frame:
        """A frame that the witness missed, put together from what a snapshot told it later."""
        twin = as_base(frame)
        if "step" in twin:
            full = self.witness.view.steps[twin["step"]["id"]]
            twin["step"] |= {name: json.loads(full[name]) for name in CONTENTS}
        return twin

    def _compare(self) -> None:
        now = self.model.now
        for peer in self.everyone:
            if not peer.connected:
                continue
            view = peer.view
            assert (view.state, view.head) == (now.state, now.head), (view, now)
            assert view.can_redo is bool(now.redo)
            assert view.workflow in (None, self.model.texts[now.head])
            path = view.path
            assert list(now.path[len(now.path) - len(path) :]) == path
            if peer.v1:
                assert (view.seq, view.redo_depth) == (now.seq, len(now.redo))
                assert view.name in (None, now.name)
                theirs = self.scribe.view.durable
                assert all(theirs.get(seq, text) == text for seq, text in view.durable.items())
                if path != list(now.path):  # it pages back, or looks at where HEAD went
                    view.steps |= {i: self.model.steps[i] for i in now.path}
            else:
                assert path == list(now.path)
                assert list(view.steps) == list(self.model.steps)

    async def check(self) -> None:
        """Everything that the server and its database say of the session."""
        await check_everything(self.server, self.session, self.model, self.rng, self._settings)
        floor = await check_stored(self._database_url, self.session, self.model)
        log, most = self.scribe.view.durable, self._settings.ws_queue
        for since in (self.rng.randrange(self.model.now.seq + 1), self.model.now.seq - 3):
            await check_replay(self.server, self.session, log, since, floor=floor, most=most)


BASE_FIELDS = ("content", "messageSource", "messageId")


def _of_base(fields: Frame) -> Frame:
    """Those of a command's fields that are read of a base client's."""
    return {name: value for name, value in fields.items() if name in BASE_FIELDS}
