"""Grants on a session, for who manages it: what others may do with it (protocol.md 4)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from turnback.api.rest.answer import PROBLEMS, json_answer
from turnback.api.rest.request import (
    Body,
    actor_of,
    body_of,
    page_size,
    parsed,
    principal_of,
    read_object,
    sessions_of,
    setting,
)
from turnback.api.rest.roles import PAGE, Member, after
from turnback.core.principal import NAME, Right
from turnback.sessions.commands import Asked, Share
from turnback.store.rows import Grant

GrantableRight = Literal["read", "run", "fork"]

router = APIRouter(responses=PROBLEMS)


class SetGrant(Body):
    """What a principal may do: `read`, and with it `run` and `fork`."""

    rights: Annotated[
        list[GrantableRight],
        Field(min_length=1, json_schema_extra={"contains": {"const": "read"}}),
    ]


class GrantBody(BaseModel):
    """What a principal may do with the session, beside what its role gives it."""

    principal: str
    rights: list[GrantableRight]


class GrantList(BaseModel):
    """A page of a session's grants, by name."""

    grants: list[GrantBody]
    next_cursor: str | None


def _grant(grant: Grant) -> dict[str, Any]:
    return {
        "principal": grant.principal_id,
        "rights": [right for right in Right if right in grant.rights],
    }


@router.get("/sessions/{session_id}/grants", response_model=GrantList)
async def list_grants(
    request: Request,
    session_id: str,
    cursor: Annotated[str | None, Query(json_schema_extra={"pattern": NAME.pattern})] = None,
    limit: Annotated[int | None, Query(ge=1, json_schema_extra=setting("page_limit"))] = None,
) -> Response:
    """Who has been granted what on the session."""
    limit = page_size(request, limit, usual=PAGE)
    dao, principal = sessions_of(request).dao, principal_of(request)
    await dao.session(principal, session_id)
    key = await dao.key(principal, session_id, right=Right.MANAGE)
    grants = await dao.identities.grants(principal, key, after=after(cursor), limit=limit + 1)
    page = grants[:limit]
    return json_answer(
        {
            "grants": [_grant(grant) for grant in page],
            "next_cursor": page[-1].principal_id if len(grants) > limit else None,
        }
    )


@router.put(
    "/sessions/{session_id}/grants/{principal_id}",
    response_model=GrantBody,
    openapi_extra=body_of(SetGrant),
)
async def set_grant(request: Request, session_id: str, principal_id: Member) -> Response:
    """Let a principal do this with the session, in place of what was granted to it before."""
    asked: SetGrant = parsed(SetGrant, await read_object(request))
    grant = Grant(principal_id, frozenset(map(Right, asked.rights)))
    await _share(request, session_id, grant)
    return json_answer(_grant(grant))


@router.delete("/sessions/{session_id}/grants/{principal_id}", status_code=204)
async def drop_grant(request: Request, session_id: str, principal_id: Member) -> Response:
    """Take a principal's grant back; its sockets are closed, unless its role lets it read."""
    await _share(request, session_id, Grant(principal_id, frozenset()))
    return Response(status_code=204)


async def _share(request: Request, session_id: str, grant: Grant) -> None:
    actor = await actor_of(request, session_id)
    await actor.ask(Asked(Share(grant.principal_id, grant.rights), principal_of(request)))
