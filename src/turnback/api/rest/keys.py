"""API keys of a project, for its owners: make, list, revoke."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import AwareDatetime, BaseModel, BeforeValidator, Field

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
from turnback.api.rest.roles import Member, Role
from turnback.core.errors import BadInput
from turnback.core.principal import ProjectRole
from turnback.sessions.deciding import require_person
from turnback.store.identities import KEY, ApiKey
from turnback.store.ids import ID, is_id

PAGE = 50
"""Keys in a page where no `limit` is named."""

TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})")

router = APIRouter(responses=PROBLEMS)


def _written(value: object) -> object:
    """Only what is written as RFC 3339 has it: a number might be seconds, or milliseconds."""
    if not isinstance(value, str) or not TIMESTAMP.fullmatch(value):
        raise ValueError("must be a time with its offset, as `2027-01-31T12:00:00Z`")
    return value


FIRST, LAST = datetime(1970, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
"""Times that every clock has, wherever it stands."""

Time = Annotated[AwareDatetime, Field(strict=False, ge=FIRST, le=LAST), BeforeValidator(_written)]


class CreateKey(Body):
    """A key for a principal, who need not have been heard of before.

    `role` becomes the principal's in the project; null: it has none, only grants; left out: it
    stays, where there is one. `name` says what the key is for. Without `expires_at` it is good
    until it is revoked.
    """

    principal: Member
    name: Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")] = ""
    role: Role | None = None
    expires_at: Time | None = None


class KeyBody(BaseModel):
    """A key: whose it is and what that principal is now. `prefix` is how its text begins."""

    id: str
    prefix: str
    principal: str
    role: Role | None
    name: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class MadeKeyBody(KeyBody):
    """A new key, with its text: it is told this once, and kept nowhere."""

    key: str


class KeyList(BaseModel):
    """A page of the project's keys, revoked ones too, newest first."""

    keys: list[KeyBody]
    next_cursor: str | None


def _key(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "prefix": key.prefix,
        "principal": key.principal_id,
        "role": key.role,
        "name": key.name,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
    }


@router.post("/keys", status_code=201, response_model=MadeKeyBody, openapi_extra=body_of(CreateKey))
async def create_key(request: Request) -> Response:
    """Make an API key of the caller's project. The first one ends the time without keys.

    That is for a person to decide. It takes no `Idempotency-Key`: its answer would have to be kept,
    and with it the key.
    """
    asked: CreateKey = parsed(CreateKey, await read_object(request))
    role: ProjectRole | Literal["as it is"] | None = "as it is"
    if "role" in asked.model_fields_set:
        role = None if asked.role is None else ProjectRole(asked.role)
    sessions, principal = sessions_of(request), principal_of(request)
    require_person(principal, sessions.settings)  # with a key of its own a tool would be one
    made, text = await sessions.dao.identities.make_key(
        principal,
        asked.principal,
        name=asked.name,
        role=role,
        expires_at=None if asked.expires_at is None else asked.expires_at.astimezone(UTC),
    )
    sessions.local = False
    return json_answer(
        _key(made) | {"key": text}, status=201, headers={"cache-control": "no-store"}
    )


@router.get("/keys", response_model=KeyList)
async def list_keys(
    request: Request,
    cursor: Annotated[str | None, Query(json_schema_extra={"pattern": ID.pattern})] = None,
    limit: Annotated[int | None, Query(ge=1, json_schema_extra=setting("page_limit"))] = None,
) -> Response:
    """The keys of the caller's project, newest first; their texts are kept nowhere."""
    if cursor is not None and not is_id(cursor):
        raise bad_cursor()
    limit = page_size(request, limit, usual=PAGE)
    keys = await sessions_of(request).dao.identities.keys(
        principal_of(request), before=cursor, limit=limit + 1
    )
    page = keys[:limit]
    return json_answer(
        {
            "keys": [_key(key) for key in page],
            "next_cursor": page[-1].id if len(keys) > limit else None,
        }
    )


@router.delete("/keys/{key_id}", status_code=204)
async def revoke_key(request: Request, key_id: str) -> Response:
    """Revoke a key, named by its `id` or `prefix`: it ends at once, and its sockets with it."""
    if KEY.fullmatch(key_id) is not None:
        raise BadInput(
            "This is a whole key, which others may have read in the address: name it by its `id` or"
            " `prefix`, and revoke it"
        )
    await sessions_of(request).dao.identities.revoke_key(principal_of(request), key_id)
    return Response(status_code=204)
