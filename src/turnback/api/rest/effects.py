"""What a session's calls did outside, and the tools that they are calls of (undo.md 1–3)."""

from __future__ import annotations

from time import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from turnback.api.rest.answer import PROBLEMS, json_answer
from turnback.api.rest.request import page_size, principal_of, sessions_of, setting
from turnback.api.rest.undos import StandingName, VerbName
from turnback.core.effects import CallState, Effect
from turnback.core.principal import Right
from turnback.core.undo import account
from turnback.core.undo.plan import OPEN_STANDINGS, verb_of
from turnback.core.undo.words import named
from turnback.tools.registry import Tool

PAGE = 100
"""Effects in a page where no `limit` is named."""

router = APIRouter(responses=PROBLEMS)

ClassName = Literal["read", "reversible", "compensable", "irreversible"]


class EffectBody(BaseModel):
    """A call that changed something outside, or may have. Times in ms.

    `session_id` is the session that it belongs to. `standing` is where it stands in the world,
    wherever HEAD is; null where nothing stands. `verb` is what an undo could do with it now, null
    where there is nothing to do. `what` and `people` are empty for who lacks the right `run`;
    `tells` says that there are people. A call that is `held` is sent at `hold_until`, unless it is
    taken back before; its `verb` is `cancel` till then.
    """

    effect_id: str
    session_id: str
    number: int
    turn_id: str
    step_id: str
    tool_call_id: str
    tool: str
    class_: ClassName = Field(alias="class")
    state: Literal[
        "held", "intent", "done", "done_unchanged", "failed_clean", "failed_dirty", "in_doubt"
    ]
    standing: StandingName | None
    verb: VerbName | None
    what: str
    tells: bool
    people: list[str]
    at: int
    hold_until: int | None
    settles_at: int | None


class EffectList(BaseModel):
    """A page of a session's own effects, oldest first; `next_cursor` is null on the last."""

    effects: list[EffectBody]
    next_cursor: int | None


class ToolBody(BaseModel):
    """A tool from outside. `name` is what models call it, `tool` what a person does.

    `class` is the worst that a call of it can be, `classes` all that it can; `why` says why none of
    its contract counts.
    """

    name: str
    tool: str
    description: str
    class_: ClassName = Field(alias="class")
    classes: list[ClassName]
    disabled: bool
    why: str | None


class ToolList(BaseModel):
    """The tools that the session's runs may use, and those that are switched off."""

    tools: list[ToolBody]


@router.get("/sessions/{session_id}/effects", response_model=EffectList)
async def list_effects(
    request: Request,
    session_id: str,
    cursor: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
    limit: Annotated[int | None, Query(ge=1, json_schema_extra=setting("page_limit"))] = None,
) -> Response:
    """What the session's own calls did outside, and how that stands."""
    limit = page_size(request, limit, usual=PAGE)
    sessions, principal = sessions_of(request), principal_of(request)
    key = await sessions.dao.living(principal, session_id)
    names = Right.RUN in (await sessions.dao.access.each(principal, [key]))[key]
    found = await sessions.dao.effects.of_session(key, after=cursor or 0, limit=limit + 1)
    page, now = [one.effect for one in found[:limit]], round(time() * 1000)
    return json_answer(
        {
            "effects": [effect_body(effect, now=now, names=names) for effect in page],
            "next_cursor": page[-1].number if len(found) > limit else None,
        }
    )


@router.get("/sessions/{session_id}/tools", response_model=ToolList)
async def list_tools(request: Request, session_id: str) -> Response:
    """The tools from outside, and how far calls of them can be taken back."""
    sessions = sessions_of(request)
    await sessions.dao.living(principal_of(request), session_id)
    tools = () if sessions.outside is None else await sessions.outside.known()
    return json_answer({"tools": [_tool(tool) for tool in tools]})


def effect_body(effect: Effect, *, now: int, names: bool) -> dict[str, Any]:
    """An effect as `EffectBody` has it; `names`: the caller may know what it was about."""
    return {
        "effect_id": effect.id,
        "session_id": effect.session_id,
        "number": effect.number,
        "turn_id": effect.turn_id,
        "step_id": effect.step_id,
        "tool_call_id": effect.tool_call_id,
        "tool": f"{effect.connection}.{effect.tool}",
        "class": effect.class_,
        "state": effect.state,
        "standing": effect.standing,
        "verb": verb_of(effect, now=now) if effect.standing in OPEN_STANDINGS else None,
        "what": account.what(effect) if names else "",
        "tells": effect.tells,
        "people": named(effect.people) if names else (),
        "at": effect.at,
        "hold_until": effect.hold_until if effect.state is CallState.HELD else None,
        "settles_at": effect.settles_at,
    }


def _tool(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.visible,
        "tool": tool.shown,
        "description": tool.description,
        "class": tool.worst,
        "classes": sorted(tool.classes, key=list(type(tool.worst)).index),
        "disabled": tool.disabled,
        "why": tool.why,
    }
