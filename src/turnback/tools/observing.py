"""Looking at what a call touches, by the reads that its contract declares and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from turnback.core.contracts import states
from turnback.core.contracts.choose import Before
from turnback.core.contracts.model import Contract
from turnback.core.contracts.states import Observation, Unreadable
from turnback.core.effects import Json, ResourceKey
from turnback.core.errors import Lost, NotSent, Unresolved
from turnback.tools.connection import Connection

MAX_MADE_WITH = 100
"""Things in what a call has made that are looked at with it."""


async def observe(
    connection: Connection,
    contract: Contract,
    resources: Iterable[ResourceKey],
    *,
    seconds: float,
    max_bytes: int,
) -> Before:
    """What these resources are now; the reads overlap. One that cannot be read says why.

    Each read may take `seconds`, and what is kept of it `max_bytes`.
    """
    keys = list(dict.fromkeys(resources))
    looks = [_look(connection, contract, key, seconds, max_bytes) for key in keys]
    seen = [await looks[0]] if len(looks) == 1 else await asyncio.gather(*looks)
    return Before(tuple(zip(keys, seen, strict=True)))


async def observe_after(
    connection: Connection,
    contract: Contract,
    resources: Iterable[ResourceKey],
    before: Before,
    *,
    seconds: float,
    max_bytes: int,
) -> Before:
    """What these resources are after a call, and what lies in those that were not there before it.

    A copied folder comes with its files, and of a file that nobody has looked at nobody could say
    later that it is as it came. What cannot be read, or is one too many, is left out.
    """
    bounds: dict[str, Any] = {"seconds": seconds, "max_bytes": max_bytes}
    after = await observe(connection, contract, resources, **bounds)
    while within := _made_with(contract, before, after):
        inside = await observe(connection, contract, within, **bounds)
        there = [(k, seen) for k, seen in inside.observed if isinstance(seen, Observation)]
        after = Before((*after.observed, *there))
        if len(there) < len(within):
            break
    return after


def _made_with(contract: Contract, before: Before, after: Before) -> list[ResourceKey]:
    """What came with the things that a call has made, and has not been looked at yet."""
    were = {key for key, seen in before.observed if seen != states.ABSENT}
    looked_at = {key for key, _ in after.observed}
    within = dict.fromkeys(
        child
        for key, seen in after.observed
        if key not in were and isinstance(seen, Observation)
        for child in seen.children
        if child not in looked_at and states.read_tool(contract, child.kind) is not None
    )
    return list(within) if len(within) + len(looked_at) <= MAX_MADE_WITH else []


async def _look(
    connection: Connection, contract: Contract, key: ResourceKey, seconds: float, max_bytes: int
) -> Observation | Unreadable:
    try:
        call = states.read_call(contract, key)
    except Unresolved as error:
        return Unreadable(error.message)
    if call is None:
        return Unreadable(f"a `{key.kind}` cannot be read")
    try:
        reply = await connection.call(call.tool, call.args, timeout=seconds)
    except (NotSent, Lost) as error:
        return Unreadable(f"its read failed: {error.message}")
    return states.observe(
        contract,
        key,
        is_error=reply.is_error,
        text=reply.text,
        structured=reply.structured,
        limit=max_bytes,
    )


def own_names(before: Before) -> frozenset[ResourceKey]:
    """The names under which these things are one, whatever they were called."""
    return frozenset(
        seen.canonical
        for _, seen in before.observed
        if isinstance(seen, Observation) and seen.canonical is not None
    )


# -- kept with an intent, so that another process can go on with it


def to_json(before: Before) -> Json:
    """What was observed, as JSON."""
    rows: list[Json] = []
    for key, seen in before.observed:
        if isinstance(seen, Unreadable):
            rows.append([_key(key), {"unreadable": seen.reason}])
            continue
        rows.append(
            [
                _key(key),
                {
                    "leaves": [[list(path), value] for path, value in seen.leaves.items()],
                    "parts": dict(seen.parts),
                    "canonical": None if seen.canonical is None else _key(seen.canonical),
                    "inside": [_key(resource) for resource in seen.inside],
                    "children": [_key(resource) for resource in seen.children],
                },
            ]
        )
    return rows


def from_json(rows: Any) -> Before:
    """The inverse of `to_json`, but for the answers themselves."""
    return Before(tuple((_key_of(key), _seen(row)) for key, row in rows))


def _seen(row: dict[str, Any]) -> Observation | Unreadable:
    if "unreadable" in row:
        return Unreadable(row["unreadable"])
    return Observation(
        leaves={tuple(path): value for path, value in row["leaves"]},
        parts=row["parts"],
        canonical=None if row["canonical"] is None else _key_of(row["canonical"]),
        inside=tuple(_key_of(key) for key in row["inside"]),
        children=tuple(_key_of(key) for key in row["children"]),
    )


def _key(resource: ResourceKey) -> list[Json]:
    return [resource.connection, resource.kind, list(resource.key)]


def _key_of(row: list[Any]) -> ResourceKey:
    connection, kind, key = row
    return ResourceKey(connection, kind, tuple(key))
