"""The log of calls outside: the open step, each call's intent and what came of it (undo.md 2).

Every write is one statement, and so one commit, under the fence of the run that makes it: a process
that has lost its run writes nothing more, and so sends nothing more, since a call is sent only
after its intent is committed. The intent also renews the locks that the call needs, or is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import orjson

from turnback.core.drift import LedgerEntry
from turnback.core.effects import CallState, Effect, Json, ResourceKey, Standing
from turnback.core.errors import FencedOff, ResourceBusy
from turnback.failpoints import hit
from turnback.store import effect_statements, ledger
from turnback.store.database import Database
from turnback.store.effect_reader import EffectReader
from turnback.store.effect_rows import dumped, end_values, time_of
from turnback.store.effect_statements import (
    AGAIN,
    CONFIRM,
    CONFIRM_UNDOING,
    ENTRIES,
    OPEN,
    OPENED,
    STAND,
    numbered,
)
from turnback.store.ids import new_id
from turnback.store.locks import Held
from turnback.store.outbox import EffectTold, to_row
from turnback.store.rows import SessionKey
from turnback.store.sealing import Sealer, Unsealable
from turnback.store.wakeups import Wakeups


class InDoubt(Exception):
    """The same call was made before, and nobody knows what it did; nothing was written.

    Of calls with secrets it is the same as far as it is shown.
    """

    def __init__(self, effect_ids: Sequence[str]) -> None:
        super().__init__(*effect_ids)
        self.effect_ids = effect_ids


UNREADABLE: Mapping[str, Any] = {
    "content": "[The calls of this step were sealed under another `TURNBACK_SECRET_KEY`]",
    "toolCalls": [],
    "usage": None,
}
"""The draft of an open step whose secrets cannot be opened."""


class Purpose(StrEnum):
    """What a further call about an effect was made for."""

    FIND = "find"
    REPLAY = "replay"
    CANCEL = "cancel"
    SETTLE = "settle"


class CallOutcome(StrEnum):
    """How a call ended, as its connection has it."""

    REPLIED = "replied"
    FAILED = "failed"
    NOT_SENT = "not_sent"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class OpenStep:
    """A model's reply whose calls are under way: `draft` is the payload of the step to be.

    `is_secret`: there are secrets in its calls.
    """

    id: str
    turn_id: str
    draft: Mapping[str, Any]
    is_secret: bool = False


@dataclass(frozen=True, slots=True)
class Intended:
    """An intent that is committed: its effect's number, and what the ledger had of its things."""

    number: int
    known: Mapping[ResourceKey, Sequence[LedgerEntry]]


class Effects(EffectReader):
    """Writes and reads the log of one database."""

    def __init__(self, database: Database, sealer: Sealer, wakeups: Wakeups) -> None:
        super().__init__(database, sealer)
        self._wakeups = wakeups

    @property
    def can_seal(self) -> bool:
        """Whether a secret state can be stored."""
        return self._sealer.can_seal

    # -- the open step

    async def open(self, key: SessionKey, *, fence: int, head_step: str, step: OpenStep) -> None:
        """Commit a model's reply before anything outside is asked, looked at or run for it.

        Again under the same id, it is the same step. One with secrets is sealed, where there is a
        key. Raises `FencedOff`, `DatabaseUnavailable`.
        """
        hit("open.before")
        draft, sealed = dumped(step.draft), None
        if step.is_secret and self.can_seal:
            sealed = self._sealer.seal(draft.encode(), row=f"open {step.id}")
        args = (step.id, step.turn_id, draft if sealed is None else None, sealed)
        async with self._db.connection(writes=True) as connection:
            done = await connection.fetchval(OPEN, key.root_id, key.id, fence, head_step, *args)
        if not done:
            raise _fenced()
        hit("open.after")

    async def opened(self, key: SessionKey) -> OpenStep | None:
        """The session's open step, if there is one.

        Where its secrets cannot be opened any more it has no calls, and says so.
        """
        row = await self._db.run(lambda c: c.fetchrow(OPENED, key.root_id, key.id))
        if row is None:
            return None
        if row["secret"] is None:
            return OpenStep(row["id"], row["turn_id"], orjson.loads(row["draft"]))
        try:
            draft = self._sealer.open(row["secret"], row=f"open {row['id']}")
        except Unsealable:
            return OpenStep(row["id"], row["turn_id"], UNREADABLE, is_secret=True)
        return OpenStep(row["id"], row["turn_id"], orjson.loads(draft), is_secret=True)

    # -- one call

    async def intend(
        self,
        key: SessionKey,
        effect: Effect,
        *,
        fence: int,
        held: Held,
        lock_expiry: float,
        call_key: str,
        key_until: int | None = None,
        before: Json = None,
        shown: Mapping[str, Json],
        proposed: Mapping[str, Json] | None = None,
        secret: bool = False,
        over_doubt: bool = False,
        project_id: str | None = None,
        resources: Sequence[ResourceKey] = (),
        newest: int | None = None,
        undo_id: str | None = None,
    ) -> Intended:
        """Commit that a call is about to be sent. `key_until` is in ms.

        `shown` and `proposed` are its arguments without their secrets; those that it is sent with
        are sealed, with the rest of a `secret` one.

        Of one that is `HELD` it is committed that it is held back, and the session is told. The
        locks are held for `lock_expiry` seconds from now, or nearly. The ledger of the project is
        asked for the `newest` entries of these resources, which nobody else writes to while the
        locks are held. Raises `InDoubt` where the same call of the session was made before and
        nobody knows what it did, unless it is to be made `over_doubt`, `FencedOff` where the run is
        not this process's any more or its step is not open, `ResourceBusy` where a lock was lost,
        `DatabaseUnavailable`; in all of these the call must not be sent. With an `undo_id`
        the run is that undo's.
        """
        values = end_values(effect, before, self._sealer, secret=secret) | {
            "root": key.root_id,
            "session": key.id,
            "at_fence": fence,
            "held_by": held.holder,
            "held_count": held.count,
            "held_for": lock_expiry,
            "over_doubt": over_doubt,
            "id": effect.id,
            "turn_id": effect.turn_id,
            "step_id": effect.step_id,
            "tool_call_id": effect.tool_call_id,
            "connection": effect.connection,
            "tool": effect.tool,
            "contract": effect.contract,
            "args": dumped(dict(shown)),
            "proposed": None if proposed is None else dumped(dict(proposed)),
            "key": call_key,
            "key_until": time_of(key_until),
            "at": time_of(effect.at),
            "project": project_id,
            "newest": newest,
            "undo": undo_id,
        }
        values["places"], values["kinds"], values["keys"] = ledger.to_places(resources)
        telling = effect.state is CallState.HELD
        values |= _event(effect) if telling else {}
        statement = effect_statements.intend(
            locked=held.count > 0,
            renewing=not held.lasts(lock_expiry),
            knowing=bool(resources),
            telling=telling,
            undoing=undo_id is not None,
        )
        rows = await numbered(self._db, statement, values)
        row = rows[0]
        if row["number"] is None:
            if row["owned"] and row["doubtful"] and not over_doubt:
                raise InDoubt(row["doubtful"])
            if row["owned"] and not row["held"]:
                raise ResourceBusy("A lock of this call was lost before it was sent; try again")
            raise _fenced()
        if telling:
            await self._wakeups.changed([key.id])
        known = ledger.entries_of(resources, rows, self._sealer) if resources else {}
        return Intended(row["number"], known)

    async def confirm(
        self, key: SessionKey, effect_id: str, *, fence: int, undo_id: str | None = None
    ) -> None:
        """Raise `FencedOff` unless the run is still this process's, and nobody has given it up."""
        statement = CONFIRM if undo_id is None else CONFIRM_UNDOING
        args = statement.given(
            {
                "root": key.root_id,
                "session": key.id,
                "at_fence": fence,
                "effect_id": effect_id,
                "undo": undo_id,
            }
        )
        if not await self._db.run(lambda c: c.fetchval(statement.text, *args)):
            raise _fenced()

    async def end(
        self,
        key: SessionKey,
        effect: Effect,
        *,
        fence: int | None,
        outcome: CallOutcome | None,
        held: Held | None = None,
        before: Json = None,
        ledger_entries: Sequence[LedgerEntry] = (),
        at: datetime,
        n: int = 0,
        was: Sequence[CallState] = (CallState.INTENT, CallState.IN_DOUBT),
        secret: bool = False,
        tells: bool = False,
    ) -> bool:
        """Commit what came of a call: the effect as it is now, and what it wrote to the ledger.

        Where it `tells`, the session's clients are told of it. With it the locks are dropped. False
        where it had ended otherwise already. Without a `fence` no run is under way: a doubt is
        settled, or what was held back is sent or taken back. `outcome` is that
        of the effect's own call, or of the further one that is its `n`th. Raises `FencedOff`,
        `DatabaseUnavailable`.
        """
        values = end_values(effect, before, self._sealer, secret=secret) | {
            "root": key.root_id,
            "session": key.id,
            "at_fence": fence,
            "held_by": None if held is None else held.holder,
            "effect_id": effect.id,
            "was": list(was),
            "outcome": outcome,
            "n": n,
            "ended_at": at,
        }
        if ledger_entries:
            columns = ledger.to_columns(ledger_entries, self._sealer, secret=secret)
            values |= zip(ENTRIES, columns, strict=True)
        statement = effect_statements.end(
            fenced=fence is not None,
            locked=held is not None and held.count > 0,
            writing=bool(ledger_entries),
            again=n > 0,
            telling=tells,
        )
        values |= _event(effect) if tells else {}
        async with self._db.connection(writes=True) as connection:
            row = await connection.fetchrow(statement.text, *statement.given(values))
        assert row is not None
        if not row["owned"]:
            raise _fenced()
        if row["changed"] and held is not None:
            held.is_dropped = True
        if row["changed"] and tells:
            await self._wakeups.changed([key.id])
        return bool(row["changed"])

    async def call_again(
        self, key: SessionKey, effect_id: str, *, purpose: Purpose, tool: str, call_key: str | None
    ) -> int | None:
        """Commit that a doubtful effect's fate is being looked for by one more call; its ordinal.

        None where there is no doubt any more.
        """
        args = (key.root_id, key.id, effect_id, purpose, tool, call_key)
        async with self._db.connection(writes=True) as connection:
            n: int | None = await connection.fetchval(AGAIN, *args)
        return n

    async def stand(
        self, key: SessionKey, effect_id: str, *, was: Standing, now: Standing | None
    ) -> bool:
        """Set where an effect stands, if it stood so. Raises `DatabaseUnavailable`."""
        args = (key.root_id, key.id, effect_id, was, now)
        async with self._db.connection(writes=True) as connection:
            return bool(await connection.fetchval(STAND, *args))


def _event(effect: Effect) -> dict[str, Any]:
    """What a session is told of an effect."""
    commit_id = new_id()
    type_, data = to_row(EffectTold.of(effect), commit_id)
    return {"commit_id": commit_id, "event_type": type_, "event_data": dumped(data)}


def _fenced() -> FencedOff:
    return FencedOff("This run has been ended by another process")
