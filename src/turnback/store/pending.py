"""A fork's pending action as its session's row has it."""

from __future__ import annotations

from typing import Any

import orjson

from turnback.core.pending import ActionClaim, PendingAction, PendingMode
from turnback.store.leases import is_running

COLUMN = f"""case when pending_action -> 'claim' is null
        or {is_running("pending_action -> 'claim' ->> 'node_id'")} then pending_action
    else (pending_action::jsonb - 'claim')::json end as pending_action"""
"""The column without a claim of a process that is gone: what it was at is to be done again."""


def to_row(action: PendingAction) -> str:
    """The column's JSON."""
    members: dict[str, Any] = {
        "mode": action.mode,
        "draft": action.draft,
        "turn_key": action.turn_key,
        "quoted": action.is_quoted,
    }
    if action.claim is not None:
        members["claim"] = action.claim
    return orjson.dumps(members).decode()


def from_row(column: str | None) -> PendingAction | None:
    """The inverse of `to_row`."""
    if column is None:
        return None
    members = orjson.loads(column)
    claim = members.get("claim")
    return PendingAction(
        mode=PendingMode(members["mode"]),
        draft=members["draft"],
        turn_key=members["turn_key"],
        is_quoted=members["quoted"],
        claim=None if claim is None else ActionClaim(**claim),
    )
