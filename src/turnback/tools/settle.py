"""Settling doubts: a call was sent, or may have been, and nobody knows what it did (undo.md 2).

At recovery, at plan time, and before the same call is made again. In this order: the look-up that
its contract declares; its things read again, as they were before it meaning that it did not take
effect once no call can be under way; the same call once more, where its key is honoured still. Of
one that makes something, which only its answer names, the answer is asked for first. A change that
its arguments do not account for may be a stranger's, and leaves the doubt as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from turnback.core.contracts import answers, choose, secrets, states
from turnback.core.contracts.answers import Applied, NotApplied
from turnback.core.contracts.choose import Before
from turnback.core.contracts.model import Contract
from turnback.core.effects import CallState, Effect, Json
from turnback.core.errors import Lost, NotSent, ResourceBusy, Unresolved
from turnback.store.effect_reader import Logged
from turnback.store.effects import CallOutcome, Effects, Purpose
from turnback.store.ledger import Ledger
from turnback.store.locks import Locks
from turnback.store.rows import SessionKey
from turnback.tools import ending, observing
from turnback.tools.connection import KEY, Connection, Reply
from turnback.tools.ending import Ended

REMEMBERED = 200
"""Newest writes to a thing by which a call sees that a stranger has changed it since; of leaves
written longer ago each effect has its own look before."""

PATIENCE = 1.0
"""Seconds for which settling waits for another call that works on the same things: what is in doubt
can be settled later."""

MARGIN_MS = 5_000
"""For clocks that differ, and beyond `tool_timeout`, until no call that was sent is under way."""


def now_ms() -> int:
    """The time, in ms since the epoch."""
    return round(datetime.now(UTC).timestamp() * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a call is made: the open step of a run, which holds its session by `fence`.

    Without a fence no run is under way, and only doubts are settled. With `undo_id` it is the run
    of an undo, one of whose compensations is an agent's.
    """

    key: SessionKey
    project_id: str
    turn_id: str
    step_id: str
    fence: int | None
    undo_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """What settling needs; times in seconds."""

    effects: Effects
    ledger: Ledger
    locks: Locks
    tool_timeout: float
    max_before: int
    lock_expiry: float
    lease_expiry: float


async def settle(
    by: Settling,
    connection: Connection,
    contract: Contract,
    logged: Logged,
    place: Place,
    *,
    replays: bool = True,
    tells: bool = True,
    abandoned: bool = False,
) -> Effect:
    """The effect as it is known now; in doubt still, or as it was settled, which is committed.

    Unless it `replays`, only declared reads are made. It `tells` the session's clients of what was
    settled; who does not has to. `abandoned`: one that was held back, and whose sender is gone.
    Raises `FencedOff`, `DatabaseUnavailable`.
    """
    effect = logged.effect
    being_sent = effect.state is CallState.INTENT and effect.hold_until is not None
    if effect.state is CallState.HELD or (being_sent and not abandoned):
        return effect  # it is who sends it that knows
    # The run that made the call is over: what it holds for it, or a settling cut off, is nobody's.
    await by.locks.release(effect.id)
    unknown = effect.purged or secrets.are_left_out(contract, effect.args)
    if unknown or (logged.before is None and contract.find is None):
        return await _doubtful(by, place, effect, logged, tells=tells)
    try:
        async with by.locks.hold(
            place.project_id,
            (touch.resource for touch in effect.touches),
            expiry=by.lock_expiry,
            grace=by.lease_expiry,
            patience=PATIENCE,
            holder=effect.id,
        ):
            ended, outcome, n = await _found_out(
                by, connection, contract, logged, place, replays=replays
            )
            if ended is None:
                return await _doubtful(by, place, effect, logged, tells=tells)
            secret = logged.is_secret
            await by.effects.end(
                place.key,
                ended.effect,
                fence=place.fence,
                outcome=outcome,
                ledger_entries=ended.entries,
                at=datetime.now(UTC),
                n=n,
                secret=secret,
                tells=tells,
            )
            return ended.effect
    except ResourceBusy:
        return await _doubtful(by, place, effect, logged, tells=tells)


async def _doubtful(
    by: Settling, place: Place, effect: Effect, logged: Logged, *, tells: bool
) -> Effect:
    """Nobody knows, and that is what the log says from now on."""
    doubtful = replace(effect, state=CallState.IN_DOUBT)
    if effect.state is not CallState.INTENT or effect.purged:
        return doubtful  # of one whose states cannot be read nothing is written over them
    await by.effects.end(
        place.key,
        doubtful,
        fence=place.fence,
        outcome=CallOutcome.LOST,
        before=logged.before,
        at=datetime.now(UTC),
        was=(CallState.INTENT,),
        secret=logged.is_secret,
        tells=tells and effect.hold_until is not None,  # what was told of it last is that it waits
    )
    return doubtful


async def _found_out(
    by: Settling,
    connection: Connection,
    contract: Contract,
    logged: Logged,
    place: Place,
    *,
    replays: bool,
) -> tuple[Ended | None, CallOutcome | None, int]:
    effect = logged.effect
    before = observing.from_json(logged.before or [])
    if any(key.kind not in contract.resources for key, _ in before.observed):
        return None, None, 0  # it is not the contract that the call was made under
    touched = [touch.resource for touch in effect.touches]
    known = await by.ledger.entries(place.project_id, touched, newest=REMEMBERED)

    async def after(*more: object) -> Before:
        keys = [key for key, _ in before.observed]
        return await observing.observe_after(
            connection,
            contract,
            [*keys, *more],  # type: ignore[list-item]
            before,
            seconds=by.tool_timeout,
            max_bytes=by.max_before,
        )

    async def done(result: Json) -> Ended:
        try:
            made = choose.made(contract, effect.connection, effect.args, result)
        except Unresolved:
            made = ()
        return ending.succeeded(
            effect,
            contract,
            before,
            await after(*made),
            result,
            known=known,
            can_seal=by.effects.can_seal,
            late=True,
        )

    async def look() -> tuple[Ended | None, bool]:
        """What its things say of it, read again; None where they do not. And whether none of what
        is there could be a stranger's, which the call would write over if it were made again.
        """
        if not before.observed or before.unreadable:
            return None, True
        seen = await after()
        looked = ending.failed(effect, contract, before, seen, None, known=known, replied=True)
        clean = looked.effect.state is CallState.FAILED_CLEAN
        dirty = looked.effect.state is CallState.FAILED_DIRTY
        known_now = clean or (dirty and ending.accounted_for(looked.effect))
        return looked if known_now and _is_over(by, effect) else None, known_now

    if contract.find is not None:
        reply, n = await _again(by, connection, contract, logged, place, Purpose.FIND)
        if reply is not None and not reply.is_error:
            answer = states.body(reply.text, reply.structured)
            since = (now_ms() - effect.at) / 1000
            match answers.found(contract, effect.args, logged.key, answer, since=since):
                case NotApplied() if _is_over(by, effect):
                    return Ended(ending.not_applied(effect)), CallOutcome.REPLIED, n
                case Applied(result):
                    return await done(result), CallOutcome.REPLIED, n
                case _:
                    pass
    looked, free = (None, True) if contract.makes else await look()
    if looked is not None:
        return looked, CallOutcome.LOST, 0
    honoured = logged.key_until is not None and logged.key_until > datetime.now(UTC)
    if replays and free and honoured and contract.key is not None:
        reply, n = await _again(by, connection, contract, logged, place, Purpose.REPLAY)
        if reply is not None:
            answer = states.body(reply.text, reply.structured)
            if answers.is_error(contract, effect.args, is_error=reply.is_error, answer=answer):
                seen = await after()
                failed = ending.failed(
                    effect, contract, before, seen, answer, known=known, replied=True
                )
                dirty = failed.effect.state is CallState.FAILED_DIRTY
                if dirty and not ending.accounted_for(failed.effect):
                    return None, None, 0
                return failed, CallOutcome.FAILED, n
            return await done(answer), CallOutcome.REPLIED, n
    if contract.makes:
        looked, _ = await look()
    return looked, None if looked is None else CallOutcome.LOST, 0


def _is_over(by: Settling, effect: Effect) -> bool:
    """Whether no call can be under way any more that was sent then."""
    return now_ms() - effect.at > by.tool_timeout * 1000 + MARGIN_MS


async def _again(
    by: Settling,
    connection: Connection,
    contract: Contract,
    logged: Logged,
    place: Place,
    purpose: Purpose,
) -> tuple[Reply | None, int]:
    effect = logged.effect
    tool, args, key = effect.tool, effect.args, logged.key
    if purpose is Purpose.FIND:
        try:
            call = answers.find_call(contract, effect.args, logged.key)
        except Unresolved:
            return None, 0
        assert call is not None
        tool, args = call.tool, call.args
    n = await by.effects.call_again(place.key, effect.id, purpose=purpose, tool=tool, call_key=key)
    if n is None:
        return None, 0
    where = contract.key if purpose is Purpose.REPLAY else None
    try:
        reply = await connection.call(
            tool,
            args,
            timeout=by.tool_timeout,
            key=None if where is None else key,
            where=where or KEY,
        )
    except (NotSent, Lost):
        return None, n
    return reply, n
