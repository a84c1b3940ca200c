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
