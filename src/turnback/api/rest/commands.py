"""Commands, for scripts: the same frames as the socket's, carried out by the same actor."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from turnback.api.frames import Unparsed, parse_object
from turnback.api.rest.answer import PROBLEMS, json_answer
from turnback.api.rest.request import actor_of, any_object, principal_of, read_object, sessions_of

router = APIRouter(responses=PROBLEMS)


class CommandAnswer(BaseModel):
    """A command that has been carried out: HEAD and the last `eventSeq` after it."""

    headId: str
    eventSeq: int
    turnId: str | None = None


@router.post(
    "/sessions/{session_id}/commands",
    status_code=202,
    response_model=CommandAnswer,
    openapi_extra=any_object("A client frame: `ClientFrame` in `frames.schema.json`."),
)
async def command(request: Request, session_id: str) -> Response:
    """Carry out a command: the body is a client frame of the socket.

    The answer's `turnId` is what a revert of that turn names as `messageId`.
    """
    raw = await read_object(request)
    sessions, principal = sessions_of(request), principal_of(request)
    try:
        asked = parse_object(
            raw, principal=principal, v1=True, max_edits=sessions.settings.max_edits
        )
    except Unparsed as unparsed:
        raise unparsed.error from None
    done = await (await actor_of(request, session_id)).ask(asked)
    answer = {"headId": done.head_id, "eventSeq": done.event_seq}
    if done.turn_id is not None:
        answer["turnId"] = done.turn_id
    return json_answer(answer, status=202)
