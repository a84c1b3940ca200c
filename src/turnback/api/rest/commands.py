"""Commands, for scripts: the same frames as the socket's, carried out by the same actor.

`?wait=end` answers when the turn that the command began has ended, with its durable frames.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from turnback.api import encode
from turnback.api.frames import Unparsed, parse_object
from turnback.api.rest.answer import PROBLEMS, json_answer
from turnback.api.rest.idempotency import IDEMPOTENCY_KEY, idempotent, response
from turnback.api.rest.request import (
    actor_of,
    described_by,
    object_of,
    principal_of,
    read_body,
    sessions_of,
    waiting,
)
from turnback.core.errors import TurnbackError
from turnback.sessions.commands import Asked
from turnback.sessions.waiting import until_ended
from turnback.store.keys import Answer
from turnback.store.spans import Span

router = APIRouter(responses=PROBLEMS)


class CommandAnswer(BaseModel):
    """A command that has been carried out: HEAD and the last `eventSeq` after it."""

    headId: str
    eventSeq: int
    turnId: str | None = None
    undoId: str | None = None


class CommandEnd(CommandAnswer):
    """A command whose turn has ended: HEAD and the last `eventSeq` as the turn left them.

    `events` are the durable frames from the command's own commit to the turn's end, in order; of a
    command that began no turn, those of its own commit.
    """

    events: list[dict[str, Any]]


@router.post(
    "/sessions/{session_id}/commands",
    status_code=202,
    response_model=CommandAnswer,
    responses={
        200: {"model": CommandEnd, "description": "With `wait=end`: the turn has ended."},
        202: {"description": "Done, and durable; with `wait=end`: the end was not waited for."},
    },
    openapi_extra=described_by({"$ref": "#/$defs/ClientFrame"}) | {"parameters": [IDEMPOTENCY_KEY]},
)
async def command(
    request: Request,
    session_id: str,
    wait: Annotated[Literal["end"] | None, Query()] = None,
) -> Response:
    """Carry out a command: the body is a client frame of the socket.

    The answer's `turnId` is what a revert of that turn names as `messageId`. With `wait=end` it is
    200 with the turn's events once the turn has ended; 202 after `wait_timeout`, or when the
    server goes down while another one runs the turn, or where the events are more than
    `ws_max_send` bytes.
    """
    raw = await read_body(request)
    async with AsyncExitStack() as held:
        if wait is not None:
            held.enter_context(waiting(request))
        claim = await held.enter_async_context(idempotent(request, raw, session_id=session_id))
        asked = _asked(request, raw)
        if asked.request_id is None and (wait or claim.key):
            # The key's own id makes the command run once, in its own commit.
            asked = replace(asked, request_id=claim.id)
        if claim.answer is None:
            done = await (await actor_of(request, session_id)).ask(asked)
            answer = {"headId": done.head_id, "eventSeq": done.event_seq}
            if done.turn_id is not None:
                answer |= {"turnId": done.turn_id}
            if done.undo_id is not None:
                answer |= {"undoId": done.undo_id}
            claim.answer = Answer(202, orjson.dumps(answer).decode())
        if wait is not None:
            ended = await _ended(request, session_id, asked, orjson.loads(claim.answer.body))
            if ended is not None:
                return json_answer(ended)
        return response(claim.answer)


def _asked(request: Request, raw: bytes) -> Asked:
    try:
        return parse_object(
            object_of(raw),
            principal=principal_of(request),
            v1=True,
            max_edits=sessions_of(request).settings.max_edits,
        )
    except Unparsed as unparsed:
        raise unparsed.error from None


async def _ended(
    request: Request, session_id: str, asked: Asked, answer: dict[str, Any]
) -> dict[str, Any] | None:
    """The answer with its events, when the turn has ended; None where that was not waited for."""
    sessions, principal = sessions_of(request), principal_of(request)
    key = await sessions.dao.key(principal, session_id)
    turn_id = answer.get("turnId")
    try:
        if turn_id is None:
            assert asked.request_id is not None
            span = await sessions.dao.spans.of_request(principal, key, asked.request_id)
            if span is None:
                return answer | {"events": []}
        else:
            if not await _in_time(request, session_id, turn_id):
                return None
            span = await sessions.dao.spans.of_turn(principal, key, turn_id)
        events = None if span is None else await _frames(request, session_id, span)
    except TurnbackError:
        return None  # the command is done all the same
    if span is None or events is None:
        return None
    return answer | {"headId": span.head_id, "eventSeq": span.last, "events": events}


async def _in_time(request: Request, session_id: str, turn_id: str) -> bool:
    """Whether the turn has ended before `wait_timeout`, and before the client has gone."""
    sessions = sessions_of(request)
    ending = asyncio.create_task(until_ended(sessions, principal_of(request), session_id, turn_id))
    leaving = asyncio.create_task(_left(request))
    try:
        await asyncio.wait(
            {ending, leaving},
            timeout=sessions.settings.wait_timeout,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if not ending.done():
            return False
        await ending
        return True
    finally:
        for task in (ending, leaving):
            task.cancel()
        await asyncio.gather(ending, leaving, return_exceptions=True)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _frames(request: Request, session_id: str, span: Span) -> list[orjson.Fragment] | None:
    """The v1 frames of a span, in order; None where one is not kept any more, or they are many."""
    actor = await actor_of(request, session_id)
    frames: list[orjson.Fragment] = []
    left = sessions_of(request).settings.ws_max_send
    async for told in actor.memory.replay(since=span.first - 1, until=span.last):
        frame = encode.text(told, v1=True) or b"null"
        left -= len(frame)
        if left < 0:
            return None
        frames.append(orjson.Fragment(frame))
    return frames if len(frames) == span.last - span.first + 1 else None
