"""What a route takes from a request: who asks, the live session, the body within its limits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Annotated, Any, Literal

from fastapi import Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, WithJsonSchema

from turnback.api.auth import PRINCIPAL, Callers
from turnback.api.faults import first_fault
from turnback.api.limits import Places
from turnback.api.rest.records import Records
from turnback.core.errors import BadInput, InvalidFormat, TooLarge, TooSlow
from turnback.core.principal import Principal
from turnback.core.values import counted, parse, pointer
from turnback.core.workflow import SCHEMA
from turnback.sessions.actor import Actor
from turnback.sessions.registry import Sessions
from turnback.settings import Settings

WorkflowDocument = Annotated[dict[str, Any], WithJsonSchema(dict(SCHEMA))]
"""A workflow as it comes; `load` says whether it is one."""


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)
"""For a whole number, which JSON may write as `2.0`: JSON Schema calls that an integer."""


class Body(BaseModel):
    """A body in snake_case: a member that it does not have is refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


def sessions_of(request: Request) -> Sessions:
    """The live sessions of this process."""
    sessions: Sessions = request.app.state.sessions
    return sessions


def records_of(request: Request) -> Records:
    """The records as REST has them."""
    records: Records = request.app.state.records
    return records


def principal_of(request: Request) -> Principal:
    """Who is calling, as `api/auth.py` has found."""
    principal: Principal = request.scope[PRINCIPAL]
    return principal


def callers_of(request: Request) -> Callers:
    """Who comes with what."""
    callers: Callers = request.app.state.callers
    return callers


def waiting(request: Request) -> AbstractContextManager[None]:
    """Within it, the request waits for something to happen. Raises `TooManyWaits`."""
    waits: Places = request.app.state.waits
    return waits.place(principal_of(request))


async def actor_of(request: Request, session_id: str) -> Actor:
    """The live session, as the database has it now. Raises `SessionNotFound`."""
    actor = await sessions_of(request).get(principal_of(request), session_id)
    await actor.catch_up()
    return actor


async def read_body(request: Request) -> bytes:
    """The body. Raises `TooLarge` beyond `max_body`, without reading on; `TooSlow`."""
    settings = sessions_of(request).settings
    limit, seconds = settings.max_body, settings.body_timeout
    chunks, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise TooLarge(
                        f"A body may have {counted(limit, 'byte')} (`max_body`)",
                        limit="max_body",
                        value=limit,
                    )
                chunks.append(chunk)
    except TimeoutError:
        raise TooSlow(
            f"A body may take {seconds:g} seconds to come (`body_timeout`)",
            limit="body_timeout",
            value=seconds,
        ) from None
    return b"".join(chunks)


async def read_object(request: Request) -> dict[str, Any]:
    """The body as a JSON object, `{}` where there is none.

    Raises `InvalidFormat`, `TooLarge`, `TooSlow`.
    """
    return object_of(await read_body(request))


def object_of(body: bytes) -> dict[str, Any]:
    """A body as a JSON object, `{}` where there is none. Raises `InvalidFormat`."""
    try:
        value = parse(body or b"{}")
    except ValueError as error:
        raise InvalidFormat(f"The body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidFormat("The body must be a JSON object")
    return value


def parsed(model: type[Body], body: dict[str, Any]) -> Any:
    """The body as its model has it. Raises `BadInput` with the path of what is wrong."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        path, reason = first_fault(error, body)
        raise BadInput(f"`{path.removeprefix('/')}`: {reason}", path=path) from None


def known_query(request: Request) -> None:
    """Raise `BadInput` where the query has a parameter that the route does not take.

    Left alone, one that is misspelt would be answered as if it had not been asked for.
    """
    taken = [field.alias for field in request.scope["route"].dependant.query_params]
    for name in request.query_params:
        if name not in taken:
            takes = ", ".join(f"`{known}`" for known in taken) or "none"
            path = pointer(("query", name))
            raise BadInput(
                f"`{path.removeprefix('/')}`: the route takes no such parameter; it takes {takes}",
                path=path,
            )


def page_size(
    request: Request,
    limit: int | None,
    *,
    usual: int,
    named: Literal["page_limit", "transcript_limit"] = "page_limit",
) -> int:
    """The rows of a page: as many as asked for, `usual` or what is allowed where none are named.

    Raises `BadInput` beyond what the setting `named` allows.
    """
    most: int = getattr(sessions_of(request).settings, named)
    if limit is not None and limit > most:
        raise BadInput(
            f"A page may have {counted(most, 'row')} (`{named}`)", limit=named, value=most
        )
    return limit or min(usual, most)


def workflow_limits(settings: Settings) -> dict[str, int]:
    """The limits under which a workflow document is loaded."""
    return {"max_bytes": settings.max_workflow_bytes, "max_depth": settings.max_json_depth}


def setting(name: str) -> dict[str, Any]:
    """For a number's schema: its most is the setting of this name, which OpenAPI then says."""
    return {"x-setting": name}


def described_by(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The OpenAPI part for a body of this JSON Schema."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def body_of(model: type[BaseModel]) -> dict[str, Any]:
    """The OpenAPI part for a body that is read by hand, within `max_body`."""
    schema = model.model_json_schema(ref_template="#/$defs/{model}")
    content = {"application/json": {"schema": schema}}
    return {"requestBody": {"required": "required" in schema, "content": content}}
