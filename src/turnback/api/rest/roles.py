"""Who is what in a project, for its owners."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from turnback.api.rest.answer import PROBLEMS, json_answer
from turnback.api.rest.cursors import bad_cursor
from turnback.api.rest.request import (
    Body,
    body_of,
    page_size,
    parsed,
    principal_of,
    read_object,
    sessions_of,
    setting,
)
from turnback.core.principal import NAME, ProjectRole

PAGE = 50
"""Rows in a page where no `limit` is named."""

Role = Literal["viewer", "editor", "owner"]
Member = Annotated[str, Field(json_schema_extra={"pattern": NAME.pattern})]
"""A principal's name; `core/principal.py` refuses what is none."""

router = APIRouter(responses=PROBLEMS)


class SetRole(Body):
    """What a principal is to be."""

    role: Role


class RoleBody(BaseModel):
    """What a principal is in the project."""

    principal: str
    role: Role


class RoleList(BaseModel):
    """A page of the project's principals that have a role, by name."""

    roles: list[RoleBody]
    next_cursor: str | None


def after(cursor: str | None) -> str | None:
    """The principal after whom a page begins. Raises `BadCursor`."""
    if cursor is not None and NAME.fullmatch(cursor) is None:
        raise bad_cursor()
    return cursor


@router.get("/roles", response_model=RoleList)
async def list_roles(
    request: Request,
    cursor: Annotated[str | None, Query(json_schema_extra={"pattern": NAME.pattern})] = None,
    limit: Annotated[int | None, Query(ge=1, json_schema_extra=setting("page_limit"))] = None,
) -> Response:
    """Who has which role in the caller's project."""
    limit = page_size(request, limit, usual=PAGE)
    rows = await sessions_of(request).dao.identities.roles(
        principal_of(request), after=after(cursor), limit=limit + 1
    )
    page = rows[:limit]
    return json_answer(
        {
            "roles": [{"principal": principal, "role": role} for principal, role in page],
            "next_cursor": page[-1][0] if len(rows) > limit else None,
        }
    )


@router.put("/roles/{principal_id}", response_model=RoleBody, openapi_extra=body_of(SetRole))
async def set_role(request: Request, principal_id: Member) -> Response:
    """Make a principal this in the caller's project, whatever it was before."""
    asked: SetRole = parsed(SetRole, await read_object(request))
    await sessions_of(request).dao.identities.set_role(
        principal_of(request), principal_id, ProjectRole(asked.role)
    )
    return json_answer({"principal": principal_id, "role": asked.role})


@router.delete("/roles/{principal_id}", status_code=204)
async def drop_role(request: Request, principal_id: Member) -> Response:
    """Leave a principal without a role: what it has left are grants."""
    await sessions_of(request).dao.identities.set_role(principal_of(request), principal_id, None)
    return Response(status_code=204)
