"""Asking for an undo: a plan of what it would do, and its run (undo.md 5)."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from turnback.api import encode
from turnback.api.rest.answer import PROBLEMS, json_answer
from turnback.api.rest.idempotency import IDEMPOTENCY_KEY, idempotent, response
from turnback.api.rest.reading import UtcOffset, calendar, language
from turnback.api.rest.request import (
    WHOLE,
    Body,
    actor_of,
    body_of,
    object_of,
    parsed,
    principal_of,
    read_body,
    read_object,
    sessions_of,
)
from turnback.api.rest.undo_plans import PlanBody, plan_body
from turnback.core.errors import BadInput, TooLarge
from turnback.core.principal import Right
from turnback.core.undo.asked import AskedUndo
from turnback.core.undo.rows import Policy
from turnback.core.values import counted
from turnback.sessions.actor import Actor
from turnback.sessions.commands import Asked, Overwrite, Undo
from turnback.sessions.undo_checks import look
from turnback.sessions.undoing import ShownPlan
from turnback.store.keys import Answer

router = APIRouter(responses=PROBLEMS)

Id = Annotated[str, Field(min_length=1, max_length=200)]


def _given(name: str, **said: Any) -> dict[str, Any]:
    return {"required": [name], "properties": {name: said}}


ONE_STEP: dict[str, Any] = {
    "oneOf": [_given("turn_id", type="string"), _given("step_id", type="string")]
}
ONE_WAY: dict[str, Any] = {
    "oneOf": [
        {"anyOf": [_given("turn_ids", minItems=1), _given("effect_ids", minItems=1)]},
        _given("undo_id", type="string"),
        _given("revert", type="object"),
    ]
}


class RevertBody(Body):
    """The revert that the undo is part of: to before a turn, or before a step."""

    model_config = ConfigDict(json_schema_extra=ONE_STEP)

    turn_id: Id | None = None
    step_id: Id | None = None


class AskBody(Body):
    """What is to be undone: turns with all that they did, single effects, or what an earlier undo
    has left.

    With `revert`, what was done since then instead, and the plan is for a revert with
    `effects: "undo"`. `with_dependents`: what depends on a member becomes one too. `calls` is the
    most that may be made.
    """

    model_config = ConfigDict(json_schema_extra=ONE_WAY)

    turn_ids: list[Id] = Field(default_factory=list)
    effect_ids: list[Id] = Field(default_factory=list)
    undo_id: Id | None = None
    revert: RevertBody | None = None
    with_dependents: bool = False
    policy: Literal["stop", "independent"] = "stop"
    calls: Annotated[int, Field(ge=0, le=100_000), WHOLE] | None = None


class RunBody(Body):
    """The plan that is to be run."""

    plan_id: Id


class StartedBody(BaseModel):
    """The undo of a plan, which goes on; null where nothing was left to undo."""

    undo_id: str | None
    event_seq: int


@router.post(
    "/sessions/{session_id}/undo-plan",
    status_code=201,
    response_model=PlanBody,
    openapi_extra=body_of(AskBody),
)
async def plan_undo(request: Request, session_id: str, utc_offset: UtcOffset = 0) -> Response:
    """What an undo would do: from the log alone, and good for `undo_plan_ttl`.

    What a look at the world then finds of each effect comes to the caller's own sockets of this
    session, as `WsServerUndoEvent`s of phase `plan`.
    """
    said = language(request)
    when = calendar(said, utc_offset)
    sessions, principal = sessions_of(request), principal_of(request)
    body = parsed(AskBody, await read_object(request))
    await sessions.dao.key(principal, session_id, right=Right.RUN)
    actor = await actor_of(request, session_id)
    asked = await _asked(request, body, actor)
    stored, foreseen = await actor.undo_planning.show(asked, by=principal.id)
    shown = ShownPlan(stored, foreseen)
    looking = look(actor, sessions.outside, shown, by=principal.id)
    actor.looks.begin(principal, (encode.looked_at(told) async for told in looking))
    answer = plan_body(
        stored.id,
        foreseen.plan,
        foreseen.effects,
        expires_at=stored.expires_at,
        language=said,
        when=when,
    )
    return json_answer(answer, status=201, headers={"content-language": said})


async def _asked(request: Request, body: AskBody, actor: Actor) -> AskedUndo:
    most = sessions_of(request).settings.max_undo_effects
    count = len(body.turn_ids) + len(body.effect_ids)
    if count > most:
        raise TooLarge(
            f"A plan may name {counted(most, 'effect')} and turns (`max_undo_effects`)",
            limit="max_undo_effects",
            value=most,
        )
    given = [count > 0, body.undo_id is not None, body.revert is not None]
    if sum(given) != 1:
        raise BadInput("Name `turn_ids` and `effect_ids`, or `undo_id`, or `revert`", path="")
    before = None
    if body.revert is not None:
        if (body.revert.turn_id is None) == (body.revert.step_id is None):
            raise BadInput("`revert`: name `turn_id` or `step_id`", path="/revert")
        before = actor.memory.tree.named_on_path(
            turn_id=body.revert.turn_id, step_id=body.revert.step_id
        ).id
    planning = actor.undo_planning
    if body.undo_id is not None:
        named = await planning.rest_of(body.undo_id)
    else:
        named = await planning.named(body.turn_ids, body.effect_ids)
    return AskedUndo(
        ids=named,
        to_before=before,
        with_dependents=body.with_dependents,
        policy=Policy(body.policy),
        calls=body.calls,
    )


@router.post(
    "/sessions/{session_id}/undos",
    status_code=202,
    response_model=StartedBody,
    openapi_extra=body_of(RunBody) | {"parameters": [IDEMPOTENCY_KEY]},
)
async def start_undo(request: Request, session_id: str) -> Response:
    """Undo as a plan has it; HEAD stays where it is. A plan that is run already is joined."""
    raw = await read_body(request)
    body = parsed(RunBody, object_of(raw))
    async with AsyncExitStack() as held:
        claim = await held.enter_async_context(idempotent(request, raw, session_id=session_id))
        if claim.answer is None:
            asked = Asked(Undo(body.plan_id), principal_of(request))
            done = await (await actor_of(request, session_id)).ask(asked)
            answer = {"undo_id": done.undo_id, "event_seq": done.event_seq}
            claim.answer = Answer(202, orjson.dumps(answer).decode())
        return response(claim.answer)


@router.post(
    "/sessions/{session_id}/residues/{residue_id}/overwrite",
    status_code=202,
    response_model=StartedBody,
)
async def overwrite_residue(request: Request, session_id: str, residue_id: str) -> Response:
    """Put an effect back over what somebody else has written, which the residue shows.

    Only what is shown is overwritten: what has changed again by then is left, and shown anew.
    """
    asked = Asked(Overwrite(residue_id), principal_of(request))
    done = await (await actor_of(request, session_id)).ask(asked)
    return json_answer({"undo_id": done.undo_id, "event_seq": done.event_seq}, status=202)
