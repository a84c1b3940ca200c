"""The log of calls outside, read back: effects as they were logged, by what asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from turnback.core.effects import Effect, Json, Standing
from turnback.store.database import Database
from turnback.store.effect_rows import EFFECT, effect
from turnback.store.rows import SessionKey
from turnback.store.sealing import Sealer

_LOGGED = f"{EFFECT}, key, key_until, proposed"

OF_STEP = f"""select {_LOGGED} from effects where root_id = $1::uuid and step_id = $2::uuid
order by number"""

OF_SESSION = f"""select {_LOGGED} from effects where root_id = $1::uuid and session_id = $2::uuid
    and number > $3::integer order by number limit $4::bigint"""

STANDING = f"""select {_LOGGED} from effects where root_id = $1::uuid and session_id = $2::uuid
    and standing = any($3::text[]) order by number"""

HELD = f"""select {_LOGGED} from effects where root_id = $1::uuid and session_id = $2::uuid
    and state = 'held' order by number"""

OF_UNDO = f"""select {_LOGGED} from effects where root_id = $1::uuid and session_id = $2::uuid
    and undo_id = $3::uuid and state = 'intent' order by number"""

OF_TURNS = f"""select {_LOGGED} from effects where root_id = $1::uuid and session_id <> $2::uuid
    and standing is not null and (turn_id = any($3::uuid[]) or id = any($3::uuid[])
    or step_id = any($4::uuid[])) order by number"""

BY_ID = f"""select {_LOGGED} from effects where root_id = $1::uuid and id = any($2::uuid[])
order by number"""


@dataclass(frozen=True, slots=True)
class Logged:
    """An effect as the log has it, and what only going on with its call needs.

    `before` is what its inverse is filled from, `key` the idempotency key it was sent with, good
    until `key_until` where the tool honours one, `proposed` the model's own arguments where a
    person has changed them.
    """

    effect: Effect
    before: Json
    key: str
    key_until: datetime | None
    proposed: Mapping[str, Json] | None
    is_secret: bool


class EffectReader:
    """Reads the effects of one database."""

    def __init__(self, database: Database, sealer: Sealer) -> None:
        self._db = database
        self._sealer = sealer

    async def of_step(self, key: SessionKey, step_id: str) -> list[Logged]:
        """The effects of a step, in the order of their intents."""
        return await self._logged(OF_STEP, key.root_id, step_id)

    async def of_session(self, key: SessionKey, *, after: int = 0, limit: int) -> list[Logged]:
        """A session's own effects, those numbered above `after`, at most `limit` of them."""
        return await self._logged(OF_SESSION, key.root_id, key.id, after, limit)

    async def standing(
        self, key: SessionKey, *, among: Iterable[Standing] = tuple(Standing)
    ) -> list[Logged]:
        """A session's own effects that stand in one of these ways."""
        return await self._logged(STANDING, key.root_id, key.id, list(among))

    async def held(self, key: SessionKey) -> list[Effect]:
        """A session's own calls that are held back, in order."""
        return [logged.effect for logged in await self._logged(HELD, key.root_id, key.id)]

    async def under_way_of(self, key: SessionKey, undo_id: str) -> list[Logged]:
        """Calls that the agents of an undo's run have made, and of which no end is known."""
        return await self._logged(OF_UNDO, key.root_id, key.id, undo_id)

    async def of_others(
        self, key: SessionKey, ids: Sequence[str], *, steps: Sequence[str]
    ) -> list[Logged]:
        """What other sessions of the family did: of these ids, turns or steps, still standing."""
        return await self._logged(OF_TURNS, key.root_id, key.id, list(ids), list(steps))

    async def by_id(self, key: SessionKey, ids: Sequence[str]) -> list[Logged]:
        """These effects of the family, in the order of their intents."""
        return await self._logged(BY_ID, key.root_id, list(ids)) if ids else []

    async def _logged(self, text: str, *args: Any) -> list[Logged]:
        rows = await self._db.run(lambda c: c.fetch(text, *args))
        return [
            Logged(
                *effect(row, self._sealer),
                key=row["key"],
                key_until=row["key_until"],
                proposed=None if row["proposed"] is None else orjson.loads(row["proposed"]),
                is_secret=row["secret"] is not None,
            )
            for row in rows
        ]
