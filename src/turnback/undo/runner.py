"""Carrying a run: the core says what is next, this does it, and writes it down before and after.

An intent is committed before its call is sent, and what came of it before anything else is done, so
that a process which finds the rows goes on from there. While one effect is looked at and put back,
the locks of its things are held; they are the run's own, so that whoever takes it over has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, assert_never

import structlog

from turnback.core import drift
from turnback.core.contracts import answers, choose, secrets, states
from turnback.core.contracts.choose import Before
from turnback.core.contracts.model import Contract
from turnback.core.contracts.states import Observation, Unreadable
from turnback.core.contracts.together import called
from turnback.core.effects import Call, CallState, Effect, Json, ResourceKey, Verb
from turnback.core.errors import FencedOff, ResourceBusy, Unresolved
from turnback.core.undo.actions import (
    Answer,
    Answered,
    BrokenOff,
    Delegate,
    Delegated,
    Finish,
    HeldTaken,
    Observed,
    Read,
    Reserved,
    Send,
    Settle,
    Settled,
    StandDown,
    TakeBackHeld,
    Wait,
    Why,
)
from turnback.core.undo.agentic import Gate, bounds_of
from turnback.core.undo.budget import Spent, UndoLimits
from turnback.core.undo.progress import Progress, progress
from turnback.core.undo.rows import UNDER_WAY, Changes, ResidueRow, RunRow
from turnback.core.undo.run import Run
from turnback.failpoints import armed, hit
from turnback.store.effect_reader import Logged
from turnback.store.ids import new_id
from turnback.store.locks import Held, Locks, WaitBrokenOff
from turnback.store.rows import SessionKey
from turnback.store.undo_runs import Carried
from turnback.tools import held
from turnback.tools.making import MAY_HAVE_LOST_ITS_RUN, SCOPE
from turnback.tools.settle import Place, Settling, now_ms, settle
from turnback.undo.gatekeeping import Gatekeeper
from turnback.undo.reach import NOT_CONNECTED, Reach
from turnback.undo.sending import Sent, send

log = structlog.get_logger()

WHILE_SENT = 0.1
"""Seconds between two looks at a call that was held back and is being sent."""

SOON = 0.02
"""Seconds for which what has come of a call may wait to be committed with what comes next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What is to be committed: the run's rows as they are now, and what is told of it.

    `lets_go`: those of the run's locks are dropped with it that have these fences.
    """

    run: RunRow
    changes: Changes
    residues: tuple[tuple[str, ResidueRow], ...]
    secret: frozenset[str]
    told: Progress
    lets_go: tuple[int, ...] = ()


class Hands(Protocol):
    """What carries a run for the runner: the session that it belongs to.

    `leave` is set when this process is to send nothing more; another one goes on. `stopping` is set
    then too, and when somebody has stopped the run.
    """

    leave: asyncio.Event
    stopping: asyncio.Event

    async def commit(self, step: Step) -> None:
        """Make a step durable, and tell it. Raises `FencedOff`, `DatabaseUnavailable`."""

    async def is_held(self) -> bool:
        """Whether the run is this process's still, by the database."""

    def lease_until(self) -> int:
        """Until when nobody else takes the run, in ms."""

    def is_stopped(self) -> bool:
        """Whether somebody has stopped it."""

    async def offset(self, effect: Effect, gate: Gatekeeper) -> Delegated:
        """Have the contract's agent offset an effect, behind its gate; until it is left.

        Raises `FencedOff`, `DatabaseUnavailable`.
        """

    async def pause(self, seconds: float) -> None:
        """Wait, but not once it is to be left, or is stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerLimits:
    """What bounds a run's calls, in seconds; `undo` is for the core."""

    tool_timeout: float
    lock_expiry: float
    lock_patience: float
    lease_expiry: float
    undo: UndoLimits


class UndoRunner:
    """Carries runs with the tools that are there."""

    def __init__(
        self, *, reach: Reach, locks: Locks, settling: Settling, limits: RunnerLimits
    ) -> None:
        self.reach = reach
        self.locks = locks
        self.settling = settling
        self.limits = limits

    async def carry(
        self,
        key: SessionKey,
        project_id: str,
        carried: Carried,
        hands: Hands,
        *,
        ledger: Mapping[ResourceKey, Sequence[drift.LedgerEntry]],
    ) -> None:
        """Carry a run on to its end, or until it is another process's.

        Raises `FencedOff`, `DatabaseUnavailable`.
        """
        barred = await self._barred(carried.logged.values())
        carrying = _Carrying(self, key, project_id, carried, hands, ledger, barred)
        try:
            await carrying.go()
        finally:
            await carrying.let_go()

    async def _barred(self, logged: Iterable[Logged]) -> dict[str, str]:
        """By effect, why what would take it back may not be called any more."""
        barred: dict[str, str] = {}
        for one in logged:
            effect = one.effect
            _, contract = await self.reach.of(effect)
            tools = {call.tool for call in (*(effect.inverse or ()), *(effect.cancel or ()))}
            tools |= _readers(contract, [touch.resource for touch in effect.touches])
            if (why := self.reach.barred(effect.connection, tools)) is not None:
                barred[effect.id] = why
        return barred


def _readers(contract: Contract, resources: Iterable[ResourceKey]) -> set[str]:
    """The tools by which a contract reads these resources."""
    calls = (states.read_tool(contract, resource.kind) for resource in resources)
    return {name for name in calls if name is not None}


class _Carrying:
    def __init__(
        self,
        runner: UndoRunner,
        key: SessionKey,
        project_id: str,
        carried: Carried,
        hands: Hands,
        ledger: Mapping[ResourceKey, Sequence[drift.LedgerEntry]],
        barred: Mapping[str, str],
    ) -> None:
        self.by = runner
        self.key = key
        self.project_id = project_id
        self.carried = carried
        self.hands = hands
        self.run = Run(
            carried.undo.run,
            [one.effect for one in carried.logged.values()],
            carried.undo.members,
            carried.calls,
            limits=runner.limits.undo,
            prior=carried.prior,
            ledger=ledger,
            barred=barred,
        )
        self.logged = dict(carried.logged)
        self.told = dict(self.run.effects)  # as they stand by what was committed
        self.left = dict(carried.undo.residues)
        self.secret = frozenset(id_ for id_, one in carried.logged.items() if one.is_secret)
        self.locked: str | None = None  # the effect whose things are locked
        self.names: set[ResourceKey] = set()  # its things
        self.held: Held | None = None
        self.over: list[Held] = []  # of effects that have ended, until that is committed
        self.untold = False  # something has come about that is to be committed soon
        self.seen: dict[str, Before] = {}
        self.results: dict[str, Json] = {}

    async def go(self) -> None:
        await self.by.locks.release(self.run.row.id)
        hit("undo.claimed")
        for logged in self.carried.cut_off:
            await self._found_out(logged, replays=False)  # what is made anew the budget has to pay
        while not self.hands.leave.is_set():
            if self.hands.is_stopped():
                self.run.stop()
            if self.untold and armed("undo.last"):
                await self._commit()  # so that the last end is there without the run's own
            action = self.run.next(now_ms(), lease_until=self.hands.lease_until())
            if self.untold and not isinstance(action, Read | Send | Finish):
                await self._commit()
            match action:
                case Read() | Send():
                    await self._waiting(action)
                case Delegate(effect_id):
                    await self._delegate(effect_id)
                case Settle():
                    await self._settle(action)
                case TakeBackHeld(effect_id):
                    await self._take_back(effect_id)
                case Wait(until):
                    await self._commit()
                    await self.let_go()
                    await self.hands.pause(max(0.0, (until - now_ms()) / 1000))
                case Finish():
                    hit("undo.last")
                    await self._commit()
                    await self.let_go()
                    hit("undo.ended")
                    return
                case StandDown():
                    return
                case _:
                    assert_never(action)

    async def _waiting(self, action: Read | Send) -> None:
        """Look, or call; a wait for the things of it ends with a stop, unless it is begun."""
        try:
            if isinstance(action, Read):
                await self._read(action)
            else:
                await self._send(action)
        except WaitBrokenOff:
            if not self.hands.leave.is_set():
                self.run.feed(BrokenOff(action.effect_id), now_ms())
                await self._commit()

    # -- looking

    async def _read(self, action: Read) -> None:
        effect = self.run.effects[action.effect_id]
        if action.why in (Why.READ_BACK, Why.BETWEEN):
            hit("undo.reconciling")
        try:
            await self._lock(effect)
        except ResourceBusy as error:
            seen: drift.Seen = {key: Unreadable(error.message) for key in action.resources}
            self.run.feed(Observed(effect.id, action.why, seen), now_ms())
            return
        before = await self._telling(self._observe(effect, action.resources))
        self.seen[effect.id] = before
        observed = Observed(
            effect.id,
            action.why,
            dict(before.observed),
            await self._passes(effect, before),
            adds=action.why is Why.READ_BACK and self._adds(effect),
        )
        self.run.feed(observed, now_ms())
        if action.why is Why.CHECK:
            hit("undo.checked")
        elif action.why is Why.VERIFY:
            hit("undo.verified")
        self.untold |= self._is_over(effect.id)

    async def _telling(self, looking: Coroutine[Any, Any, Before]) -> Before:
        """What a look finds. What has come about does not wait for one that takes long."""
        if not self.untold:
            return await looking
        task = asyncio.ensure_future(looking)
        try:
            await asyncio.wait({task}, timeout=SOON)
            if not task.done():
                await self._commit()
            return await task
        finally:
            task.cancel()

    def _is_over(self, effect_id: str) -> bool:
        return self.run.compensations[effect_id].state not in UNDER_WAY

    async def _observe(self, effect: Effect, resources: Sequence[ResourceKey]) -> Before:
        """What these things are now, each read as the contract of a call that touched it says."""
        covered = [
            self.run.effects[row.effect_id]
            for row in self.run.compensations.values()
            if row.covered_by == effect.id
        ]
        found: dict[ResourceKey, Observation | Unreadable] = {}
        for one in (effect, *covered):
            own = [t.resource for t in one.touches if t.resource in resources]
            wanted = [resource for resource in own if resource not in found]
            if not wanted:
                continue
            before = await self.by.reach.observe(one, wanted)
            found.update(before.observed)
        return Before(tuple((key, found[key]) for key in resources if key in found))

    async def _passes(self, effect: Effect, before: Before) -> bool | None:
        """What the contract's own test of a compensation says; None without one."""
        row = self.run.compensations[effect.id]
        _, contract = await self.by.reach.of(effect)
        if effect.case is None or effect.case >= len(contract.cases):
            return None
        condition = contract.cases[effect.case].verify
        if row.verb is not Verb.COMPENSATE or condition is None:
            return None
        first = next((seen for _, seen in before.observed), None)
        now = first.answer if isinstance(first, Observation) else None
        return answers.is_verified(
            condition, effect.args, now=now, result=self.results.get(effect.id)
        )

    # -- agents

    async def _delegate(self, effect_id: str) -> None:
        """Have an agent offset an effect; it takes the locks of its own calls."""
        await self.let_go()
        await self._commit()
        hit("undo.delegated")
        effect, row, leave = self.run.effects[effect_id], self.run.row, self.hands.leave

        async def spend(spent: Spent) -> None:
            self.run.feed(Reserved(spent), now_ms())
            await self._commit()

        gate = Gate(bounds=bounds_of(effect), budget=row.budget, spent=row.spent, began_at=now_ms())
        ended = await self.hands.offset(effect, Gatekeeper(gate, spend, leave))
        if not leave.is_set():
            self.run.feed(ended, now_ms())
            await self._commit()

    # -- doubts

    async def _found_out(self, logged: Logged, *, replays: bool) -> Effect:
        hit("undo.reconciling")
        effect = logged.effect
        connection, contract = await self.by.reach.of(effect)
        tools = {effect.tool, *called(contract)}
        if connection is None:
            return effect
        if self.by.reach.barred(effect.connection, tools):
            contract = Contract()  # nothing is looked for, so that it stays in doubt
        place = Place(
            key=self.key,
            project_id=self.project_id,
            turn_id=effect.turn_id,
            step_id=effect.step_id,
            fence=None,
        )
        by = self.by.settling
        return await settle(by, connection, contract, logged, place, replays=replays, tells=False)

    async def _settle(self, action: Settle) -> None:
        await self.let_go()
        found = await self._found_out(self.logged[action.effect_id], replays=action.replays)
        self.run.feed(Settled(found), now_ms())
        hit("undo.settled")
        await self._commit()

    async def _take_back(self, effect_id: str) -> None:
        """Take a call off that is held back; one that is just being sent is waited for."""
        await self.let_go()
        effects, limits = self.by.settling.effects, self.by.limits
        until = now_ms() + round((limits.tool_timeout + limits.lease_expiry) * 1000)
        while not self.hands.leave.is_set():
            [logged] = await effects.by_id(self.key, [effect_id])
            effect: Effect | None = logged.effect
            if logged.effect.state is CallState.HELD:
                effect = await held.take_back(effects, self.key, logged)
            if effect is not None and (effect.state is not CallState.INTENT or now_ms() > until):
                self.logged[effect_id] = logged
                self.run.feed(HeldTaken(effect), now_ms())
                hit("undo.settled")
                await self._commit()
                return
            await self.hands.pause(WHILE_SENT)

    # -- calling

    async def _send(self, action: Send) -> None:
        effect = self.run.effects[action.effect_id]
        try:
            await self._lock(effect)
            call = await self._guarded(effect, action)
            assert self.held is not None
            await self.by.locks.renew(self.held, expiry=self.by.limits.lock_expiry)
        except (ResourceBusy, Unresolved) as error:
            answered = Answered(effect.id, action.n, Answer.NOT_SENT, error.message)
            self.run.feed(answered, now_ms())
            await self._commit()
            return
        clock = asyncio.get_running_loop().time
        began = clock()
        await self._commit()
        hit("undo.intended")
        took_long = clock() - began > MAY_HAVE_LOST_ITS_RUN
        if took_long and not await self.hands.is_held():
            raise FencedOff("This undo is another process's now")
        connection, contract = await self.by.reach.of(effect)
        if connection is None:
            answered = Answered(effect.id, action.n, Answer.NOT_SENT, NOT_CONNECTED)
        else:
            sent = await send(
                connection,
                self.by.reach.contract(effect.connection, call.tool),
                call,
                key=action.key,
                seconds=self.by.limits.tool_timeout,
            )
            hit("undo.applied")
            self.results[effect.id] = sent.result
            detail = "" if secrets.has_secrets(contract) else sent.detail
            made = self._made(effect, call, sent)
            doubt = self._may_have_made(effect, call, sent)
            answered = Answered(
                effect.id, action.n, sent.answer, detail, sent.confirmed, made, doubt
            )
        self.run.feed(answered, now_ms())
        self.untold = True
        half_way = action.n < len(self.run.calls_of(self.run.compensations[effect.id]))
        if half_way or armed("undo.marked"):
            # Half of an inverse is neither as before nor as expected: whoever goes on has to know
            # that it was ours, or would leave it as a stranger's.
            await self._commit()
        hit("undo.marked")
        if half_way:
            hit("undo.between")

    def _made(self, effect: Effect, call: Call, sent: Sent) -> tuple[ResourceKey, ...]:
        """What a call has brought into being, by its tool's own contract."""
        if sent.answer is not Answer.OK:
            return ()
        contract = self.by.reach.contract(effect.connection, call.tool)
        try:
            return choose.made(contract, effect.connection, call.args, sent.result)
        except Unresolved:
            return ()

    def _may_have_made(self, effect: Effect, call: Call, sent: Sent) -> bool:
        """Whether a refused call may have made something all the same, as of a call of an agent."""
        contract = self.by.reach.contract(effect.connection, call.tool)
        refused = answers.is_refused(contract, call.args, Before(()), sent.result)
        return sent.answer is Answer.REFUSED and bool(contract.makes) and not refused

    def _adds(self, effect: Effect) -> bool:
        """Whether the call that was made last can only add to the things of its effect."""
        row = self.run.compensations[effect.id]
        call = self.run.calls_of(row)[self.run.sent(row)[-1].n - 1]
        contract = self.by.reach.contract(effect.connection, call.tool)
        try:
            about = choose.touched(contract, effect.connection, call.args)
        except Unresolved:
            return False
        own = self.run.whole(row).resources
        return bool(contract.makes) and not any(key in own for key in about)

    async def _guarded(self, effect: Effect, action: Send) -> Call:
        """The call with what the last read says it is to be made only upon."""
        call = action.call
        if not call.if_match:
            return call
        _, contract = await self.by.reach.of(effect)
        own = self.by.reach.contract(effect.connection, call.tool)
        try:
            about = choose.touched(own, effect.connection, call.args)
        except Unresolved:
            about = ()
        seen = dict(self.seen.get(effect.id, Before(())).observed)
        for key in (*about, *seen):
            sight = seen.get(key)
            if isinstance(sight, Observation):
                at = states.key_document(contract.resources[key.kind], key)
                return choose.guarded(call, at, sight.answer)
        raise Unresolved("Nothing was read that the call could be held to")

    # -- locks

    async def _lock(self, effect: Effect) -> None:
        """Hold the things of this effect, and no others'. Raises `ResourceBusy`."""
        if self.locked == effect.id:
            return
        names = self._names(effect)
        over = self.untold and self.locked is not None and self._is_over(self.locked)
        if over and not names & self.names and await self._take(effect, names, patience=0):
            return  # nothing had to be waited for: that end is committed with what comes next
        if self.untold:
            await self._commit()
        await self.let_go()
        await self._take(effect, names, patience=self.by.limits.lock_patience)

    def _names(self, effect: Effect) -> set[ResourceKey]:
        """What is locked while an effect is put back."""
        row = self.run.compensations[effect.id]
        names = {touch.resource for touch in effect.touches}
        names |= {
            touch.resource
            for other in self.run.compensations.values()
            if other.covered_by == effect.id
            for touch in self.run.effects[other.effect_id].touches
        }
        for call in self.run.calls_of(row):
            contract = self.by.reach.contract(effect.connection, call.tool)
            names |= {
                ResourceKey(effect.connection, SCOPE + scope, ())
                for scope in _scopes(contract, call.args)
            }
        return names

    async def _take(self, effect: Effect, names: set[ResourceKey], *, patience: float) -> bool:
        """Whether the things of an effect are had; not at once, raises `ResourceBusy`."""
        limits = self.by.limits
        try:
            taken = await self.by.locks.take(
                self.project_id,
                names,
                expiry=limits.lock_expiry,
                grace=limits.lease_expiry,
                patience=patience,
                holder=self.run.row.id,
                stop=self.hands.stopping if self.run.is_unbegun(effect.id) else self.hands.leave,
            )
        except ResourceBusy:
            if patience:
                raise
            return False
        if self.held is not None:
            self.over.append(self.held)
        self.held, self.locked, self.names = taken, effect.id, names
        return True

    async def let_go(self) -> None:
        """Hold nothing."""
        holding = [*self.over, *([] if self.held is None else [self.held])]
        self.held, self.locked, self.over = None, None, []
        for locks in holding:
            await self.by.locks.drop(locks)

    # -- writing

    async def _commit(self) -> None:
        changes = self.run.take()
        self.untold = False
        if not changes:
            return
        for id_, standing in changes.standings:
            self.told[id_] = replace(self.told[id_], standing=standing)
        residues = tuple((new_id(), row) for row in changes.residues)
        self.left |= dict(residues)
        leaving = list(self.over)
        if self.held is not None and self.locked is not None and self._is_over(self.locked):
            leaving.append(self.held)
        undo = self.carried.undo
        told = progress(
            self.run.row,
            self.run.compensations.values(),
            self.told,
            self.left.items(),
            revision=undo.revision,
            by=undo.by,
        )
        await self.hands.commit(
            Step(
                run=self.run.row,
                changes=changes,
                residues=residues,
                secret=self.secret,
                told=told,
                lets_go=tuple(locks.fence for locks in leaving),
            )
        )
        self.over = []
        if self.held in leaving:
            self.held, self.locked = None, None


def _scopes(contract: Contract, args: Mapping[str, Json]) -> tuple[str, ...]:
    try:
        return choose.scopes(contract, args)
    except Unresolved:
        return ()
