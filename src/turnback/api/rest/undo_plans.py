"""A plan as its asker is shown it: what would be done with each effect, and what that leaves.

Made from the log alone; what a look at the world finds then comes in `WsServerUndoEvent`s of phase
`plan`. Names of people are for who has the right `run`, as everything about a plan is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal

from pydantic import BaseModel, Field

from turnback.api.rest.effects import ClassName
from turnback.api.rest.undos import BudgetBody, StandingName, VerbName
from turnback.core.effects import Effect
from turnback.core.undo import account
from turnback.core.undo.graph import Edge
from turnback.core.undo.plan import Inherited, Member, Plan
from turnback.core.undo.words import Language, When, named


class LeavesBody(BaseModel):
    """What stays behind of an effect: `what` is left, `saw` who has seen it. Times in ms."""

    what: str
    saw: str
    settles_at: int | None
    settles: str | None


class MemberBody(BaseModel):
    """One effect of a plan: which `group` of the sheet it is in, and what is done with it.

    `leaves` is what remains all the same, null where nothing does. `not_kept` is what its inverse
    does not bring back. `covered_by` is the member that puts it back too. `in_doubt`: nobody
    knows whether it happened. `asked`: it, or its turn, was named. Until `hold_until` it is held
    back and not sent, null where it is not. `restored`: it is from before a restore from backup.
    """

    effect_id: str
    turn_id: str
    tool: str
    what: str
    at: int
    verb: VerbName
    group: Literal["reverted", "compensated", "stays"]
    standing: StandingName
    class_: ClassName = Field(alias="class")
    people: list[str]
    leaves: LeavesBody | None
    not_kept: list[str]
    covered_by: str | None
    in_doubt: bool
    asked: bool
    hold_until: int | None
    restored: bool


class InheritedBody(BaseModel):
    """An effect of another session, from which alone it can be undone."""

    effect_id: str
    session_id: str
    turn_id: str
    standing: StandingName


class MissingBody(BaseModel):
    """An effect outside the plan that depends on a member: both, or neither."""

    effect_id: str
    turn_id: str
    tool: str
    what: str
    needs: str
    why: Literal["cover", "same_resource", "containment", "explicit", "data_flow"]


class PlanBody(BaseModel):
    """What one click would do; `members` are in the order of the undo. Times in ms.

    `plain`: it needs no look, since everything in it is reverted or cancelled. Where it is not
    `runnable`, `missing` or `cycle` say why. `plan_id` starts it, until `expires_at`.
    """

    plan_id: str
    expires_at: int
    language: Literal["en", "de"]
    plain: bool
    runnable: bool
    policy: Literal["stop", "independent"]
    budget: BudgetBody
    members: list[MemberBody]
    inherited: list[InheritedBody]
    missing: list[MissingBody]
    cycle: list[str]
    head_before: str | None
    head_after: str | None


def plan_body(
    plan_id: str,
    plan: Plan,
    effects: Mapping[str, Effect],
    *,
    expires_at: int,
    language: Language,
    when: When,
) -> dict[str, Any]:
    """A stored plan as its asker is shown it; `effects` by id, those in the way among them."""
    return {
        "plan_id": plan_id,
        "expires_at": expires_at,
        "language": language,
        "plain": plan.plain,
        "runnable": plan.runnable,
        "policy": plan.policy,
        "budget": asdict(plan.budget),
        "members": [
            _member(member, effects[member.effect_id], language, when) for member in plan.members
        ],
        "inherited": [_inherited(one) for one in plan.inherited],
        "missing": [_missing(edge, effects) for edge in plan.missing],
        "cycle": plan.cycle,
        "head_before": plan.head_before,
        "head_after": plan.head_after,
    }


def _member(member: Member, effect: Effect, language: Language, when: When) -> dict[str, Any]:
    left = account.foreseen(effect, member, language=language, when=when)
    return {
        "effect_id": member.effect_id,
        "turn_id": member.turn_id,
        "tool": member.tool,
        "what": account.what(effect),
        "at": effect.at,
        "verb": member.verb,
        "group": member.group,
        "standing": member.standing,
        "class": member.class_,
        "people": named(member.people),
        "leaves": None
        if left is None
        else {
            "what": left.what,
            "saw": left.saw,
            "settles_at": effect.settles_at,
            "settles": left.settles,
        },
        "not_kept": member.not_kept,
        "covered_by": member.covered_by,
        "in_doubt": member.in_doubt,
        "asked": member.asked,
        "hold_until": member.hold_until,
        "restored": member.restored,
    }


def _inherited(one: Inherited) -> dict[str, Any]:
    return {
        "effect_id": one.effect_id,
        "session_id": one.session_id,
        "turn_id": one.turn_id,
        "standing": one.standing,
    }


def _missing(edge: Edge, effects: Mapping[str, Effect]) -> dict[str, Any]:
    effect = effects[edge.first]
    return {
        "effect_id": effect.id,
        "turn_id": effect.turn_id,
        "tool": f"{effect.connection}.{effect.tool}",
        "what": account.what(effect),
        "needs": edge.then,
        "why": edge.why,
    }
