"""A refusal that brings a new plan with it, with that plan in words."""

from __future__ import annotations

from turnback.api.rest.reading import calendar
from turnback.api.rest.undo_plans import plan_body
from turnback.core.errors import PlanChanged, PlanRequired, TurnbackError
from turnback.core.undo.words import Language
from turnback.sessions.undoing import ShownPlan


def with_plan(error: TurnbackError, language: Language) -> TurnbackError:
    """The error as it is told: a plan in its data as `POST …/undo-plan` answers it."""
    shown = error.data.get("plan")
    if not isinstance(error, PlanChanged | PlanRequired) or not isinstance(shown, ShownPlan):
        return error
    body = plan_body(
        shown.stored.id,
        shown.foreseen.plan,
        shown.foreseen.effects,
        expires_at=shown.stored.expires_at,
        language=language,
        when=calendar(language, 0),
    )
    return type(error)(error.message, **error.data | {"plan": body})
