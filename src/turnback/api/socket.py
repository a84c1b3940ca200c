"""The WebSocket: one snapshot or replay, then everything the session tells; commands in.

Two tasks share a socket: one reads commands and carries them out in their order, one writes what
the subscriber's queue holds, in its order. While nothing waits there, what is told is sent by who
tells it. Whatever a client sends, the socket answers with a typed error or a close code and lives
on or ends (protocol.md 1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
import structlog
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from turnback.api import encode, whole
from turnback.api.auth import Callers
from turnback.api.frames import BASE, V1, Unparsed, parse
from turnback.api.limits import Places, Rate
from turnback.api.protocol import socket_of
from turnback.api.shown_plans import with_plan
from turnback.api.whole import READ_AT_ONCE
from turnback.core.errors import (
    InvalidFormat,
    QueueFull,
    RateLimited,
    SessionNotFound,
    StoreError,
    TooManySockets,
    TurnbackError,
    Unauthenticated,
)
from turnback.core.principal import Principal
from turnback.core.tree import Step
from turnback.core.undo.words import Language
from turnback.sessions import standing
from turnback.sessions.actor import Actor
from turnback.sessions.broadcast import DRAINING, SIGNED_OUT, SLOW_READER, Closed, Reply, Subscriber
from turnback.sessions.registry import Sessions
from turnback.sessions.view import View, with_open_step
from turnback.settings import Settings
from turnback.store.outbox import EffectTold
from turnback.store.rows import Record
from turnback.telemetry import context, metrics

log = structlog.get_logger()

PATIENCE = 1.0
"""Seconds at most for which a socket that has sent too much is not read: it may be gone by then."""

NOT_FOUND = Closed(4404, "session not found")
TRY_AGAIN = Closed(1013, "try again later")


async def serve(websocket: WebSocket, session_id: str) -> None:
    """Serve one socket until either side ends it."""
    sessions: Sessions = websocket.app.state.sessions
    offered = websocket.scope.get("subprotocols", [])
    v1 = V1 in offered
    await websocket.accept(subprotocol=V1 if v1 else BASE if BASE in offered else None)
    if sessions.draining:
        await _close(websocket, DRAINING)
        return
    callers: Callers = websocket.app.state.callers
    sockets: Places = websocket.app.state.sockets
    with ExitStack() as held:
        try:
            principal = await callers.of_socket(websocket, session_id)
            held.enter_context(sockets.place(principal))
            actor = await sessions.get(principal, session_id)
            await actor.catch_up()
        except TurnbackError as error:
            await _turn_away(websocket, error, v1=v1)
            return
        context.bind(session=actor.key.id)
        connection = _Connection(websocket, sessions, actor, principal, v1=v1)
        await connection.run()


async def _turn_away(websocket: WebSocket, error: TurnbackError, *, v1: bool) -> None:
    """Say why, and close: a browser cannot read what a refused handshake says."""
    match error:
        case Unauthenticated():
            closed = SIGNED_OUT
        case SessionNotFound():
            closed = NOT_FOUND
        case StoreError() | QueueFull() | TooManySockets() | RateLimited():
            closed = TRY_AGAIN
        case _:
            raise error
    await _send_quietly(websocket, orjson.dumps(encode.error_frame(error, v1=v1), default=str))
    await _close(websocket, closed)


class _Connection:
    def __init__(
        self,
        websocket: WebSocket,
        sessions: Sessions,
        actor: Actor,
        principal: Principal,
        *,
        v1: bool,
    ) -> None:
        self._websocket = websocket
        self._sessions = sessions
        self._settings: Settings = sessions.settings
        self._actor = actor
        self._principal = principal
        self._v1 = v1

    async def run(self) -> None:
        sockets = metrics.SOCKETS["v1" if self._v1 else "base"]
        with sockets.track_inprogress():
            await self._run()

    async def _run(self) -> None:
        subscriber, revision = self._actor.join(
            partial(encode.text, v1=self._v1), principal=self._principal, whole=self._v1
        )
        tasks: list[asyncio.Task[Any]] = []
        try:
            # From here on it is told of changed rights; they may have changed just before.
            await self._sessions.dao.key(self._principal, self._actor.key.id)
            writing = asyncio.create_task(self._write(await self._opening(revision), subscriber))
            reading = asyncio.create_task(self._read(subscriber))
            tasks = [reading, writing]
            # The writer hangs in a full transport: the peer is told if it still listens.
            subscriber.on_overflow = writing.cancel
            if subscriber.overflowed:
                writing.cancel()
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if subscriber.overflowed:
                writing.cancel()
                await asyncio.wait([writing])
                await _close(self._websocket, SLOW_READER)
        except WebSocketDisconnect:
            pass
        except (StoreError, Unauthenticated, SessionNotFound) as error:
            await _turn_away(self._websocket, error, v1=self._v1)
        finally:
            self._actor.leave(subscriber)
            subscriber.direct = subscriber.on_overflow = None
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, Exception) and not isinstance(result, WebSocketDisconnect):
                    log.error("socket failed", exc_info=result)

    # -- the first frames

    async def _opening(self, revision: int) -> list[bytes]:
        if not self._v1:
            metrics.OPENINGS["snapshot"].inc()
            return [await self._base_snapshot()]
        view = self._actor.view(steps=self._settings.snapshot_steps)
        branches = encode.partings(
            view, self._actor.memory.tree, choices=self._settings.branch_choices
        )
        asked = self._websocket.query_params.get("since")
        if asked is not None:
            replayed = await self._replayed(asked, revision, view)
            if replayed is not None:
                metrics.OPENINGS["replay"].inc()
                metrics.REPLAYED.inc(len(replayed))
                return replayed
        metrics.OPENINGS["snapshot" if asked is None else "reset"].inc()
        view = await with_open_step(view, self._actor.memory)
        records = await self._newest(view.path)
        undos = await self._sessions.dao.undos.open(
            self._actor.key, limit=self._settings.snapshot_undos
        )
        held = await self._sessions.dao.effects.held(self._actor.key)
        if 0 < len(records) < len(view.path):
            kept = len(records)
            view = replace(view, path=view.path[-kept:], older=view.path[-kept - 1].id)
        return [
            encode.snapshot(
                view,
                {record.step.id: record for record in records},
                branches,
                [undo.progress() for undo in undos],
                await standing.now(self._actor.memory),
                map(EffectTold.of, held),
                epoch=self._sessions.epoch,
                reset=asked is not None,
            )
        ]

    async def _newest(self, path: Sequence[Step]) -> list[Record]:
        """The records of the newest of these steps, as many as one frame holds; oldest first."""
        newest: list[Record] = []
        left = self._settings.ws_max_send
        for end in range(len(path), 0, -READ_AT_ONCE):
            ids = [step.id for step in path[max(0, end - READ_AT_ONCE) : end]]
            records = await self._sessions.dao.records(self._principal, self._actor.key, ids)
            for record in reversed(records):
                left -= len(record.payload)
                if left < 0 and newest:
                    return newest[::-1]
                newest.append(record)
        return newest[::-1]

    async def _replayed(self, asked: str, revision: int, view: View) -> list[bytes] | None:
        """The frames after `asked`; None where they cannot be had, or a snapshot is cheaper."""
        epoch = self._websocket.query_params.get("epoch")
        if epoch not in (None, self._sessions.epoch):
            return None
        if not (asked.isascii() and asked.isdecimal() and len(asked) < 19):
            return None
        since = int(asked)
        if not view.floor <= since <= revision <= since + self._settings.replay_events:
            return None
        texts: list[bytes] = []
        size = 0
        async for told in self._actor.memory.replay(since=since, until=revision):
            text = encode.text(told, v1=True) or b""
            told.texts.clear()  # nobody else is told this one
            size += len(text)
            if size > self._settings.replay_size:
                return None
            texts += [text] if text else []
            since = told.event_seq
        if since < revision:
            return None
        if view.partial is not None:
            turn_id, step_id, said = view.partial
            delta = {
                "type": "WsServerDeltaEvent",
                "messageId": turn_id,
                "stepId": step_id,
                "after": revision,
                "offset": 0,
                "text": said,
            }
            texts.append(orjson.dumps(delta))
        return texts

    async def _base_snapshot(self) -> bytes:
        frame = await whole.base_snapshot(
            self._sessions.dao,
            self._principal,
            self._actor,
            max_bytes=self._settings.ws_max_send,
        )
        return await asyncio.to_thread(orjson.dumps, frame)

    # -- both directions

    async def _write(self, opening: list[bytes], subscriber: Subscriber) -> None:
        while opening:  # and none is kept longer than it takes to send it
            await _send(self._websocket, opening.pop(0))
        put = socket_of(self._websocket.scope).put
        while True:
            subscriber.direct = None if len(subscriber) else put
            frame = await subscriber.get()
            subscriber.direct = None
            if isinstance(frame, Closed):
                break
            await _send(self._websocket, frame)
        await _close(self._websocket, frame)

    async def _read(self, subscriber: Subscriber) -> None:
        ids = context.ids()
        rate = Rate(self._settings.ws_messages_per_minute)
        clock = asyncio.get_running_loop().time
        while True:
            context.enter(ids)
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            limited = rate.take(clock())
            if text is None:
                error = InvalidFormat("Invalid message format", reason="frames are text")
                self._refuse(subscriber, limited or error, None)
            else:
                await self._command(subscriber, text, limited)
            if limited is not None:
                # Nothing more is read until it may be: what a flood costs is bounded.
                await asyncio.sleep(min(limited.data["retryAfterMs"] / 1000, PATIENCE))

    async def _command(
        self, subscriber: Subscriber, text: str, limited: RateLimited | None
    ) -> None:
        try:
            asked = parse(
                text,
                principal=self._principal,
                v1=self._v1,
                max_edits=self._settings.max_edits,
            )
        except Unparsed as unparsed:
            self._refuse(subscriber, limited or unparsed.error, unparsed.request_id)
            return
        if limited is not None:
            self._refuse(subscriber, limited, asked.request_id)
            return
        if asked.request_id is not None:
            context.bind(command=asked.request_id)
        try:
            actor = await self._sessions.again(self._actor)
            done = await actor.ask(asked)
        except TurnbackError as error:
            log.debug("command refused", kind=type(asked.command).__name__, code=error.code)
            said = with_plan(error, Language.ENGLISH)
            self._refuse(subscriber, said, asked.request_id)
        except Exception:
            log.exception("command failed")
            sentence = "Something went wrong on the server; nothing was changed"
            self._refuse(subscriber, TurnbackError(sentence), asked.request_id)
        else:
            log.debug("command done", kind=type(asked.command).__name__)
            if done.remains and not self._v1:
                subscriber.put(Reply(orjson.dumps(encode.remains_frame(done.remains))))
            if asked.request_id is not None:
                ack = encode.ack_frame(asked.request_id, done)
                subscriber.put(Reply(orjson.dumps(ack)))

    def _refuse(self, subscriber: Subscriber, error: TurnbackError, request_id: str | None) -> None:
        frame = encode.error_frame(error, v1=self._v1, request_id=request_id)
        subscriber.put(Reply(orjson.dumps(frame, default=str)))


async def _send(websocket: WebSocket, text: bytes) -> None:
    try:
        await socket_of(websocket.scope).send_text(text)
    except OSError as error:  # a `ClientDisconnected` is one
        raise WebSocketDisconnect(1006) from error


async def _send_quietly(websocket: WebSocket, text: bytes) -> None:
    try:
        await _send(websocket, text)
    except WebSocketDisconnect:
        pass


async def _close(websocket: WebSocket, closed: Closed) -> None:
    if websocket.application_state is WebSocketState.DISCONNECTED:
        return
    try:
        async with asyncio.timeout(2):
            await websocket.close(closed.code, closed.reason)
    except (RuntimeError, OSError, TimeoutError, WebSocketDisconnect):
        pass
