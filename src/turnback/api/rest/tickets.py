"""Tickets for browsers' sockets, which can send no `Authorization` (protocol.md 4)."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from turnback.api.auth import TICKET, origin_of
from turnback.api.rest.answer import PROBLEMS, json_answer
from turnback.api.rest.request import (
    Body,
    body_of,
    callers_of,
    parsed,
    principal_of,
    read_object,
    sessions_of,
)

router = APIRouter(responses=PROBLEMS)


class CreateTicket(Body):
    """The session whose socket is to be opened."""

    session_id: str


class TicketBody(BaseModel):
    """A ticket, as the subprotocol to offer; good once, and for `expires_in` seconds."""

    protocol: str
    expires_in: float


@router.post(
    "/ws-tickets",
    status_code=201,
    response_model=TicketBody,
    openapi_extra=body_of(CreateTicket),
)
async def create_ticket(request: Request) -> Response:
    """A ticket for one socket on one session, from the origin of the page that asks.

    It is offered beside `turnback.v1` or `turnback.base`, and only one of these is taken.
    """
    asked: CreateTicket = parsed(CreateTicket, await read_object(request))
    dao, principal = sessions_of(request).dao, principal_of(request)
    settings = sessions_of(request).settings
    key = await dao.key(principal, asked.session_id)
    ticket = await dao.identities.make_ticket(
        principal,
        key,
        origin=origin_of(request),
        seconds=settings.ticket_ttl,
        most=settings.tickets_per_key,
    )
    callers_of(request).remember(ticket)
    return json_answer(
        {"protocol": TICKET + ticket, "expires_in": settings.ticket_ttl},
        status=201,
        headers={"cache-control": "no-store"},
    )
