"""The demo world for a person: look at its things and change them, as somebody outside would.

These routes are there as long as the demo is. What is changed here no log of ours knows of: it is
how drift is shown. The world is one for all projects; who may make sessions may change it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, Field

from turnback.api.rest.answer import PROBLEMS, json_answer
from turnback.api.rest.request import (
    Body,
    body_of,
    parsed,
    principal_of,
    read_object,
    sessions_of,
)
from turnback.core.errors import ThingNotFound
from turnback.core.principal import ProjectRight
from turnback.tools.servers import demo_file

if TYPE_CHECKING:
    from turnback.demo.world import World

T = TypeVar("T")

Kind = Literal[
    "contact", "event", "invitation", "email", "charge", "transfer", "channel", "message", "text"
]
Id = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@:+-]{0,199}$")]
Fields = Annotated[dict[str, Any], Field(max_length=100)]

router = APIRouter(responses=PROBLEMS)


class Thing(BaseModel):
    """A thing of the demo world, as it is now."""

    id: str
    fields: dict[str, Any]


class Things(BaseModel):
    """Things of one kind, by id; `more` says that there are others than these."""

    things: list[Thing]
    more: bool


class PutThing(Body):
    """A thing as it is to be, whatever was there before."""

    fields: Fields


class ChangeThing(Body):
    """Fields to set; one that is null is removed, and others stay."""

    changes: Fields


@router.get("/demo/{kind}", response_model=Things)
async def list_things(request: Request, kind: Kind | Literal["delivery"]) -> Response:
    """Things of a kind; a `delivery` is what has reached a person, and stays."""
    most = sessions_of(request).settings.page_limit
    found = await _in_world(request, lambda world: world.all(kind))
    things = [{"id": id_, "fields": fields} for id_, fields in list(found.items())[-most:]]
    return json_answer({"things": things, "more": len(found) > most})


@router.put("/demo/{kind}/{thing_id}", response_model=Thing, openapi_extra=body_of(PutThing))
async def put_thing(request: Request, kind: Kind, thing_id: Id) -> Response:
    """Make a thing, or make it again."""
    asked: PutThing = parsed(PutThing, await read_object(request))
    await _in_world(request, lambda world: world.put(kind, thing_id, asked.fields))
    return json_answer({"id": thing_id, "fields": asked.fields})


@router.patch("/demo/{kind}/{thing_id}", response_model=Thing, openapi_extra=body_of(ChangeThing))
async def change_thing(request: Request, kind: Kind, thing_id: Id) -> Response:
    """Change fields of a thing."""
    asked: ChangeThing = parsed(ChangeThing, await read_object(request))

    def change(world: World) -> dict[str, Any] | None:
        fields = world.get(kind, thing_id)
        if fields is None:
            return None
        changed = {k: v for k, v in (fields | asked.changes).items() if v is not None}
        world.put(kind, thing_id, changed)
        return changed

    changed = await _in_world(request, change)
    if changed is None:
        raise _none(kind, thing_id)
    return json_answer({"id": thing_id, "fields": changed})


@router.delete("/demo/{kind}/{thing_id}", status_code=204)
async def delete_thing(request: Request, kind: Kind, thing_id: Id) -> Response:
    """Delete a thing."""
    if not await _in_world(request, lambda world: world.remove(kind, thing_id)):
        raise _none(kind, thing_id)
    return Response(status_code=204)


def _none(kind: str, thing_id: str) -> ThingNotFound:
    return ThingNotFound(f"There is no {kind} `{thing_id}` in the demo world")


async def _in_world(request: Request, act: Callable[[World], T]) -> T:
    """Do something in the world at once or not at all. Raises `NotAllowed`."""
    sessions = sessions_of(request)
    await sessions.dao.access.require_project(principal_of(request), ProjectRight.CREATE)

    def done() -> T:
        from turnback.demo.acts import send_due  # and sqlite3: a start need not wait for it
        from turnback.demo.world import World

        world = World(demo_file(sessions.settings))
        try:
            with world.change():
                send_due(world)
                return act(world)
        finally:
            world.close()

    return await asyncio.to_thread(done)
