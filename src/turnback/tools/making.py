"""One call on its way: looked at, intended, sent, looked at again, ended (undo.md 2)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from turnback.core.approvals import Approval, ApprovalPolicy, needs_approval
from turnback.core.contracts import answers, choose, secrets, states
from turnback.core.contracts.choose import Before, Decision
from turnback.core.contracts.equality import same
from turnback.core.effects import CallState, Effect, EffectClass, Json, ResourceKey, Standing, worst
from turnback.core.errors import DatabaseUnavailable, Lost, NotSent, ResourceBusy, Unresolved
from turnback.failpoints import armed, hit
from turnback.store.effects import CallOutcome, InDoubt
from turnback.store.ids import new_id
from turnback.store.locks import Held, WaitBrokenOff
from turnback.tools import ending, observing, telling
from turnback.tools.connection import KEY, Connection, Reply
from turnback.tools.ending import Ended
from turnback.tools.registry import Tool
from turnback.tools.settle import REMEMBERED, Place, now_ms, settle
from turnback.tools.telling import Answered

if TYPE_CHECKING:
    from turnback.tools.calls import CallLimits, Calls

T = TypeVar("T")

SCOPE = "="
"""Before the name of a scope of which one call at a time is made: no kind begins with it."""

MAY_HAVE_LOST_ITS_RUN = 0.5
"""Seconds between an intent and its sending after which it is asked whether the run is still ours:
a process may have been frozen in between."""

NAMINGS = 3
"""How often the things a call touches may turn out to be others than those that were locked."""


class Stopped(Exception):
    """The turn was stopped before the call was made."""


@dataclass(slots=True)
class Making:
    """One call on its way."""

    calls: Calls
    connection: Connection
    tool: Tool
    args: Mapping[str, Json]
    place: Place
    tool_call_id: str
    approval: Approval | None
    stop: asyncio.Event
    proposed: Mapping[str, Json] | None = None
    stopping: asyncio.Future[Any] | None = None
    """Done once the turn is stopped; made when somebody first waits for it."""

    @property
    def limits(self) -> CallLimits:
        return self.calls.limits

    async def _unless_stopped(self, act: asyncio.Future[Any], *, seconds: float) -> bool:
        """Wait until `act` is done, or for some seconds after a stop; whether it is done."""
        if self.stopping is None:
            self.stopping = asyncio.ensure_future(self.stop.wait())
        await asyncio.wait({act, self.stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not act.done() and seconds:
            await asyncio.wait({act}, timeout=seconds)
        return act.done()

    def over(self) -> None:
        """Wait for no stop any more."""
        if self.stopping is not None:
            self.stopping.cancel()

    async def question(self) -> Approval | None:
        """What a person would have to decide before the call is made, as things are."""
        contract, name = self.tool.contract, self.tool.connection
        if self.approval is not None or self.limits.approval is ApprovalPolicy.NEVER:
            return None
        worst_yet = choose.worst_possible(contract, name, self.args)
        if not needs_approval(self.limits.approval, worst_yet):
            return None
        try:
            touched = choose.touched(contract, name, self.args)
        except Unresolved:
            touched = ()
        return self._question(self.decide(await self.look_first(touched)))

    async def run(self) -> Answered | Approval:
        """Make the call, or ask; where its like is in doubt, only once that is looked into."""
        over_doubt = False
        while True:
            try:
                return await self._run(over_doubt=over_doubt)
            except InDoubt as doubt:
                if (told := await self._after(doubt)) is not None:
                    return told
                over_doubt = True

    async def _after(self, doubt: InDoubt) -> Answered | None:
        """What is known by now of a call like this; one that took effect is not made again."""
        shown = secrets.shown_args(self.tool.contract, self.args)
        for logged in await self.calls.effects.by_id(self.place.key, doubt.effect_ids):
            if logged.effect.contract != self.tool.version:
                continue  # another one says nothing of it
            # With another secret it is another call; which it was is not known without a key.
            if not any(same(dict(logged.effect.args), dict(args)) for args in (self.args, shown)):
                continue
            effect = await settle(
                self.calls.settling, self.connection, self.tool.contract, logged, self.place
            )
            if effect.state in (CallState.DONE, CallState.FAILED_DIRTY):
                told = "It was made before, and did take effect; it was not made again."
                return Answered(told, is_error=True)
        return None

    async def _run(self, *, over_doubt: bool) -> Answered | Approval:
        if self.calls.only_reads(self.tool, self.args):
            return await self._read()
        if question := await self.question():
            return question
        effect_id = new_id()  # its locks are known by it, for who goes on if this process dies

        async def logged(
            before: Before, held: Held, things: tuple[ResourceKey, ...]
        ) -> Answered | Approval:
            return await self._logged(effect_id, before, held, things, over_doubt=over_doubt)

        return await self.holding(effect_id, logged)

    async def holding(
        self,
        effect_id: str,
        act: Callable[[Before, Held, tuple[ResourceKey, ...]], Awaitable[T]],
        *,
        patience: float | None = None,
    ) -> T:
        """Act with the locks of all that the call touches, what was seen of it then, and its names.

        `patience` is in seconds; `lock_patience` unless named. Raises `ResourceBusy`, `Stopped`.
        """
        contract, name = self.tool.contract, self.tool.connection
        try:
            touched = choose.touched(contract, name, self.args)
            scopes = choose.scopes(contract, self.args)
        except Unresolved:
            touched, scopes = (), ()
        held_names = {*touched, *(ResourceKey(name, SCOPE + scope, ()) for scope in scopes)}
        try:
            return await self._holding(effect_id, touched, held_names, act, patience)
        except WaitBrokenOff:
            raise Stopped from None

    async def _holding(
        self,
        effect_id: str,
        touched: tuple[ResourceKey, ...],
        held_names: set[ResourceKey],
        act: Callable[[Before, Held, tuple[ResourceKey, ...]], Awaitable[T]],
        patience: float | None,
    ) -> T:
        for _ in range(NAMINGS):
            async with self.calls.locks.hold(
                self.place.project_id,
                held_names,
                expiry=self.limits.lock_expiry,
                grace=self.limits.lease_expiry,
                patience=self.limits.lock_patience if patience is None else patience,
                holder=effect_id,
                stop=self.stop,
            ) as held:
                before = await self.look_first(touched)
                own = observing.own_names(before)
                if own <= held_names:
                    return await act(before, held, tuple(dict.fromkeys((*touched, *own))))
                held_names |= own
        raise ResourceBusy("What the call touches went by other names again and again")

    def decide(self, before: Before) -> Decision:
        return choose.decide(
            self.tool.contract,
            self.tool.connection,
            self.args,
            before,
            keeps_secrets=self.calls.effects.can_seal,
        )

    # -- approval

    def _question(self, decision: Decision) -> Approval | None:
        """What a person has to decide first; None where they need not, or have."""
        if self.approval is None and not needs_approval(self.limits.approval, decision.class_):
            return None
        if self.approval is not None:
            agreed = self.approval.class_
            if worst((agreed, decision.class_)) is agreed:
                return None
        now = now_ms()
        return Approval(
            step_id=self.place.step_id,
            turn_id=self.place.turn_id,
            tool_call_id=self.tool_call_id,
            connection=self.tool.connection,
            tool=self.tool.name,
            class_=decision.class_,
            args=secrets.shown_args(self.tool.contract, self.args),
            because=decision.worse_because or self.tool.why,
            asked_at=now,
            expires_at=now + round(self.limits.approval_ttl * 1000),
        )

    # -- looking, and reading

    async def look_first(self, resources: tuple[ResourceKey, ...]) -> Before:
        """What the call touches, as it is before it. Raises `Stopped`."""
        if self.stop.is_set():
            raise Stopped
        if not resources:
            return Before()
        looking = asyncio.ensure_future(self._observe(resources))
        try:
            await self._unless_stopped(looking, seconds=0)
            if self.stop.is_set():
                raise Stopped
            return looking.result()
        finally:
            looking.cancel()

    async def _observe(
        self, resources: tuple[ResourceKey, ...], before: Before | None = None
    ) -> Before:
        """What these are now: first, or, with what they were `before`, after the call."""
        given = (self.connection, self.tool.contract, resources)
        seconds, max_bytes = self.limits.tool_timeout, self.limits.max_before
        if before is None:
            return await observing.observe(*given, seconds=seconds, max_bytes=max_bytes)
        return await observing.observe_after(*given, before, seconds=seconds, max_bytes=max_bytes)

    async def _read(self) -> Answered:
        outcome, reply, reason = await self.send(None)
        if reply is None:
            return Answered(telling.without_reply(outcome, reason), is_error=True)
        most = self.limits.max_tool_output
        told = telling.told(reply, self.tool.contract, self.args, most=most)
        return Answered(told, is_error=self._says_error(reply))

    # -- writing

    async def _logged(
        self,
        effect_id: str,
        before: Before,
        held: Held,
        things: tuple[ResourceKey, ...],
        *,
        over_doubt: bool,
    ) -> Answered | Approval:
        decision = self.decide(before)
        if question := self._question(decision):
            return question
        if decision.class_ is EffectClass.READ:
            return await self._read()
        contract = self.tool.contract
        effect = Effect(
            id=effect_id,
            session_id=self.place.key.id,
            turn_id=self.place.turn_id,
            step_id=self.place.step_id,
            number=0,
            tool_call_id=self.tool_call_id,
            connection=self.tool.connection,
            tool=self.tool.name,
            contract=self.tool.version,
            class_=decision.class_,
            case=decision.case,
            state=CallState.INTENT,
            standing=Standing.IN_DOUBT,
            args=dict(self.args),
            at=now_ms(),
        )
        if contract.hold is not None and not self._forgets:  # it is sent with what is stored
            until = effect.at + round(contract.hold * 1000)
            effect = replace(
                effect, state=CallState.HELD, standing=Standing.IN_FORCE, hold_until=until
            )
        effect, kept = self.intended(effect, before, decision)
        assert self.place.fence is not None, "calls are made within runs"
        hit("call.intend")
        began = asyncio.get_running_loop().time()
        intended = await self.calls.effects.intend(
            self.place.key,
            effect,
            fence=self.place.fence,
            held=held,
            lock_expiry=self.limits.lock_expiry,
            call_key=key_of(effect),
            key_until=self.key_until(effect),
            before=kept,
            shown=secrets.shown_args(contract, self.args),
            proposed=None if self.proposed is None else secrets.shown_args(contract, self.proposed),
            secret=self.seals,
            over_doubt=over_doubt,
            project_id=self.place.project_id,
            resources=things,
            newest=REMEMBERED,
            undo_id=self.place.undo_id,
        )
        effect = replace(effect, number=intended.number)
        hit("call.intended")
        if effect.state is CallState.HELD:
            return telling.told_of(effect, self.limits.max_tool_output, contract)
        if asyncio.get_running_loop().time() - began > MAY_HAVE_LOST_ITS_RUN:
            await self.calls.effects.confirm(
                self.place.key, effect.id, fence=self.place.fence, undo_id=self.place.undo_id
            )
        outcome, reply, reason = await self.send(key_of(effect))
        hit("call.replied")
        ended = await self.end(effect, before, kept, outcome, reply, reason, intended.known, held)
        hit("call.done")
        most = self.limits.max_tool_output
        return telling.answer(ended, contract, reply, outcome, reason, most=most)

    @property
    def seals(self) -> bool:
        """Whether the states of the call are stored sealed."""
        return secrets.has_secrets(self.tool.contract) and self.calls.effects.can_seal

    @property
    def _forgets(self) -> bool:
        """Whether nothing of its states is stored, for want of a key to seal them with."""
        return secrets.has_secrets(self.tool.contract) and not self.calls.effects.can_seal

    def key_until(self, effect: Effect) -> int | None:
        """Until when, in ms, the tool honours the effect's idempotency key; None: it takes none."""
        key = self.tool.contract.key
        return None if key is None else effect.at + round(key.honoured * 1000)

    def intended(self, effect: Effect, before: Before, decision: Decision) -> tuple[Effect, Json]:
        """The effect as it is committed before its call is sent, and what was there before."""
        effect = ending.intended(effect, self.tool.contract, before, decision)
        if self._forgets:
            return ending.without_states(effect), None
        return effect, observing.to_json(before)

    async def end(
        self,
        effect: Effect,
        before: Before,
        kept: Json,
        outcome: CallOutcome,
        reply: Reply | None,
        reason: str,
        known: ending.Known,
        held: Held,
    ) -> Effect:
        """Look again, and commit what the call has come to; the effect as it is then.

        The session's clients are told of one that was held back. Raises `FencedOff`,
        `DatabaseUnavailable`.
        """
        ended = await self._ended(effect, before, outcome, reply, reason, known)
        if self._forgets:
            ended = Ended(ending.without_states(ended.effect))
        is_known = ended.effect.state in (CallState.DONE, CallState.DONE_UNCHANGED)
        await self._patiently(
            lambda: self.calls.effects.end(
                self.place.key,
                ended.effect,
                fence=None if self.place.undo_id else self.place.fence,
                outcome=outcome,
                held=held,
                before=None if is_known else kept,
                ledger_entries=ended.entries,
                at=datetime.now(UTC),
                secret=self.seals,
                tells=effect.hold_until is not None,
            )
        )
        return ended.effect

    async def send(self, key: str | None) -> tuple[CallOutcome, Reply | None, str]:
        """Send the call, and wait for its reply: no longer than may be, nor after a stop."""
        where = self.tool.contract.key
        sending = asyncio.ensure_future(
            self.connection.call(
                self.tool.name,
                self.args,
                timeout=self.limits.tool_timeout,
                key=None if where is None else key,
                where=where or KEY,
            )
        )
        if key is not None and armed("call.sent"):
            await asyncio.sleep(0.05)  # it is on its way
            hit("call.sent")
        try:
            if not await self._unless_stopped(sending, seconds=self.limits.tool_stop_grace):
                sending.cancel()
                await asyncio.wait({sending}, timeout=self.limits.tool_stop_grace)
                return CallOutcome.LOST, None, "the turn was stopped before it had answered"
            reply = sending.result()
        except NotSent as error:
            return CallOutcome.NOT_SENT, None, error.message
        except Lost as error:
            return CallOutcome.LOST, None, error.message
        finally:
            sending.cancel()
        failed = self._says_error(reply)
        return CallOutcome.FAILED if failed else CallOutcome.REPLIED, reply, ""

    def _says_error(self, reply: Reply) -> bool:
        answer = states.body(reply.text, reply.structured)
        contract = self.tool.contract
        return answers.is_error(contract, self.args, is_error=reply.is_error, answer=answer)

    async def _ended(
        self,
        effect: Effect,
        before: Before,
        outcome: CallOutcome,
        reply: Reply | None,
        reason: str,
        known: ending.Known,
    ) -> Ended:
        contract = self.tool.contract
        if outcome is CallOutcome.NOT_SENT:
            return ending.not_sent(effect, reason)
        result = None if reply is None else states.body(reply.text, reply.structured)
        looked_at = tuple(key for key, _ in before.observed)
        if outcome is CallOutcome.REPLIED:
            try:
                made = choose.made(contract, effect.connection, effect.args, result)
            except Unresolved:
                made = ()
            after = await self._observe((*looked_at, *made), before)
            return ending.succeeded(
                effect,
                contract,
                before,
                after,
                result,
                known=known,
                can_seal=self.calls.effects.can_seal,
            )
        after = await self._observe(looked_at, before)
        replied = reply is not None
        return ending.failed(effect, contract, before, after, result, known=known, replied=replied)

    async def _patiently(self, act: Callable[[], Any]) -> None:
        """What came of a call is not lost because the database is away for a moment."""
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + self.limits.lease_expiry, 0.05
        while True:
            try:
                await act()
            except DatabaseUnavailable:
                if loop.time() > deadline:
                    raise
                await asyncio.sleep(pause)
                pause = min(1.0, pause * 2)
            else:
                return


def key_of(effect: Effect) -> str:
    """The idempotency key of an effect's forward call (undo.md 2)."""
    return f"f:{effect.id}"
