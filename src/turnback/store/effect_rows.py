"""Effects as their rows have them, and back.

The column `states` has all that may hold a secret: states, inverses, the result. It is null, and
the same is sealed in the column `secret`, with the arguments, where the contract has secrets; those
in the column `args` are without them. One that cannot be opened is read as `purged`: nothing is
left of it to put back with, or to send again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import asyncpg
import orjson

from turnback.core.effects import (
    Call,
    CallState,
    Effect,
    EffectClass,
    Json,
    LeafPath,
    ResourceKey,
    Standing,
    Touch,
)
from turnback.store.sealing import Sealer, Unsealable

EFFECT = """id, session_id, turn_id, step_id, number, tool_call_id, connection, tool, contract,
    class, contract_case, state, standing, args, about, states, secret, at, hold_until,
    cancel_until, settles_at, purged_at, restored_at"""

_NO_STATES: dict[str, Any] = {
    "touches": [],
    "result": None,
    "inverse": None,
    "cancel": None,
    "before": None,
}


def key_text(resource: ResourceKey) -> str:
    """A resource's key as a column has it: its members as JSON, never one joined text."""
    return orjson.dumps(resource.key).decode()


def dumped(value: object) -> str:
    """A value as JSON text."""
    return orjson.dumps(value).decode()


def time_of(ms: int | None) -> datetime | None:
    """A time of the core as a column has it."""
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def ms_of(time: datetime | None) -> int | None:
    """The inverse of `time_of`."""
    return None if time is None else round(time.timestamp() * 1000)


def leaves_to_row(leaves: Mapping[LeafPath, Json]) -> list[Any]:
    """Leaves as pairs of a path and a value."""
    return [[path, value] for path, value in leaves.items()]


def leaves_of(pairs: Iterable[Any]) -> dict[LeafPath, Json]:
    """The inverse of `leaves_to_row`."""
    return {tuple(path): value for path, value in pairs}


def states(effect: Effect, before: Json) -> dict[str, Any]:
    """What may hold a secret; `before` is what an inverse is filled from."""
    return {
        "touches": [_touch_to_row(touch) for touch in effect.touches],
        "result": effect.result,
        "inverse": _calls_to_row(effect.inverse),
        "cancel": _calls_to_row(effect.cancel),
        "before": before,
    }


def about(effect: Effect) -> dict[str, Any]:
    """What a plan and a report say of an effect."""
    return {
        "inside": [_resource_to_row(resource) for resource in effect.inside],
        "covers": [_resource_to_row(resource) for resource in effect.covers],
        "needs": [_resource_to_row(resource) for resource in effect.needs],
        "narrow": effect.narrow,
        "tells": effect.tells,
        "people": effect.people,
        "names": effect.names,
        "residue": effect.residue,
        "not_kept": effect.not_kept,
    } | ({} if effect.agentic is None else {"agentic": effect.agentic})


def end_values(effect: Effect, before: Json, sealer: Sealer, *, secret: bool) -> dict[str, Any]:
    """The columns that change when a call ends; what a `secret` one says is sealed."""
    held = dumped(states(effect, before) | ({"args": effect.args} if secret else {}))
    return {
        "about": dumped(about(effect)),
        "states": None if secret else held,
        "secret": sealer.seal(held.encode(), row=effect.id) if secret else None,
        "state": effect.state,
        "class": effect.class_,
        "contract_case": effect.case,
        "standing": effect.standing,
        "hold_until": time_of(effect.hold_until),
        "cancel_until": time_of(effect.cancel_until),
        "settles_at": time_of(effect.settles_at),
    }


def effect(row: asyncpg.Record, sealer: Sealer) -> tuple[Effect, Json]:
    """The effect of a row of `EFFECT`, and what its inverse is filled from, where it is there."""
    held = _states(row, sealer)
    said: dict[str, Any] = orjson.loads(row["about"])
    return Effect(
        id=row["id"],
        session_id=row["session_id"],
        turn_id=row["turn_id"],
        step_id=row["step_id"],
        number=row["number"],
        tool_call_id=row["tool_call_id"],
        connection=row["connection"],
        tool=row["tool"],
        contract=row["contract"],
        class_=EffectClass(row["class"]),
        case=row["contract_case"],
        state=CallState(row["state"]),
        standing=None if row["standing"] is None else Standing(row["standing"]),
        args=held["args"] if "args" in held else orjson.loads(row["args"]),
        result=held["result"],
        inverse=_calls_of(held["inverse"]),
        touches=tuple(_touch_of(touch) for touch in held["touches"]),
        inside=_resources_of(said.get("inside", ())),
        covers=_resources_of(said.get("covers", ())),
        needs=_resources_of(said.get("needs", ())),
        narrow=said.get("narrow", False),
        tells=said.get("tells", False),
        people=tuple(said.get("people", ())),
        names=said.get("names", {}),
        residue=said.get("residue"),
        not_kept=tuple(said.get("not_kept", ())),
        agentic=said.get("agentic"),
        at=ms_of(row["at"]) or 0,
        hold_until=ms_of(row["hold_until"]),
        cancel=_calls_of(held["cancel"]),
        cancel_until=ms_of(row["cancel_until"]),
        settles_at=ms_of(row["settles_at"]),
        purged=held is _NO_STATES,
        restored=row["restored_at"] is not None,
    ), held["before"]


def _states(row: asyncpg.Record, sealer: Sealer) -> dict[str, Any]:
    text = row["states"]
    if row["secret"] is not None:
        try:
            text = sealer.open(row["secret"], row=row["id"])
        except Unsealable:
            return _NO_STATES
    if text is None:
        return _NO_STATES
    held: dict[str, Any] = orjson.loads(text)
    return held


def _touch_to_row(touch: Touch) -> dict[str, Any]:
    return {
        "resource": _resource_to_row(touch.resource),
        "before": None if touch.before is None else leaves_to_row(touch.before),
        "wrote": leaves_to_row(touch.wrote),
        "removed": sorted(touch.removed),
        "identity": sorted(touch.identity),
        "children": [_resource_to_row(resource) for resource in touch.children],
        "taken": sorted(touch.taken),
        "unsure": sorted(touch.unsure),
    }


def _touch_of(row: Mapping[str, Any]) -> Touch:
    return Touch(
        resource=_resource_of(row["resource"]),
        before=None if row["before"] is None else leaves_of(row["before"]),
        wrote=leaves_of(row["wrote"]),
        removed=frozenset(tuple(path) for path in row["removed"]),
        identity=frozenset(row["identity"]),
        children=_resources_of(row["children"]),
        taken=frozenset(tuple(path) for path in row.get("taken", ())),
        unsure=frozenset(tuple(path) for path in row.get("unsure", ())),
    )


_CALL = tuple(field.name for field in fields(Call))


def _calls_to_row(calls: tuple[Call, ...] | None) -> list[Any] | None:
    if calls is None:
        return None
    return [{name: getattr(call, name) for name in _CALL} for call in calls]


def _calls_of(row: Iterable[Any] | None) -> tuple[Call, ...] | None:
    return None if row is None else tuple(Call(**call) for call in row)


def _resource_to_row(resource: ResourceKey) -> list[Any]:
    return [resource.connection, resource.kind, resource.key]


def _resource_of(row: Iterable[Any]) -> ResourceKey:
    connection, kind, key = row
    return ResourceKey(connection, kind, tuple(key))


def _resources_of(rows: Iterable[Any]) -> tuple[ResourceKey, ...]:
    return tuple(_resource_of(row) for row in rows)
