"""The life of an undo run: what happens next, and what each answer makes of it (undo.md 5).

A `Run` is made of rows and gives rows back. `next` says the one thing to do now; `feed` takes what
came of it; `take` has the rows that changed. Whoever carries it out commits what `take` gives
before each `Send` and at the end; a process that finds the rows goes on from there with a `Run` of
its own. Nothing else is remembered, so a run that was cut off comes to the same as any other.

The members go one after another in the plan's order. Each is checked right before its inverse is
called, whatever was seen of it earlier, and read again right after.
"""

from __future__ import annotations

from typing import assert_never

from turnback.core import drift
from turnback.core.contracts.states import Unreadable
from turnback.core.effects import (
    CallState,
    EffectClass,
    ResourceKey,
    Standing,
    Verb,
)
from turnback.core.undo import agentic, checking, ends, inverses, outcome, verifying
from turnback.core.undo.actions import (
    Action,
    Answer,
    Answered,
    BrokenOff,
    Delegate,
    Delegated,
    Event,
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
from turnback.core.undo.rows import (
    UNDER_WAY,
    CallPhase,
    CompensationRow,
    CompensationState,
    Outcome,
    Policy,
    Reason,
    RunStatus,
)
from turnback.core.undo.run_rows import RunRows

FAILURES = frozenset(
    {CompensationState.FAILED, CompensationState.NOOP_INVERSE, CompensationState.PARTLY}
)
"""The ends after which the policy `stop` starts nothing new, as does a doubt about a call of ours.

Drift and what needs a person are no failures.
"""


class Run(RunRows):
    """One run, made of its rows: what it asks for next, and what answers make of it."""

    def next(self, now: int, *, lease_until: int) -> Action:
        """The one thing to do now; both times in ms.

        Past its lease a process gets `StandDown`, whatever was under way.
        """
        if now >= lease_until:
            return StandDown()
        while (row := self._current()) is not None:
            action = self._step(row, now)
            if action is not None:
                return action
        if self.row.status is not RunStatus.ENDED:
            self.write_run(status=RunStatus.ENDED, outcome=self._outcome(), ended_at=now)
            self._changed.update(self.compensations)  # with it, they are in no active run any more
        return Finish(self.row.outcome)

    def is_unbegun(self, effect_id: str) -> bool:
        """Whether nothing of this effect's inverse was sent in this run."""
        row = self.compensations[effect_id]
        return row.state is CompensationState.CHECKING and not row.attempts

    def stop(self) -> None:
        """No further compensation starts; the one under way goes to its end."""
        if not self.row.stopped and self.row.status is RunStatus.RUNNING:
            self.write_run(stopped=True)

    def feed(self, event: Event, now: int) -> None:
        """What came of the last action. One that was not asked for changes nothing."""
        match event:
            case Settled(effect):
                row = self._under_way(effect.id, CompensationState.CHECKING)
                if row is not None:
                    checking.on_settled(self, row, effect, now)
            case HeldTaken(effect):
                row = self._under_way(effect.id, CompensationState.CHECKING)
                if row is not None:
                    checking.on_settled(self, row, effect, now)
            case BrokenOff(effect_id):
                row = self._under_way(effect_id, CompensationState.CHECKING)
                if row is not None and row.verb is Verb.ACKNOWLEDGE:
                    ends.needs_you(self, row)
                elif row is not None:
                    ends.give_up(self, row, Reason.STOPPED)
            case Reserved(spent):
                self.write_run(spent=spent)
            case Delegated(effect_id):
                row = self._under_way(effect_id, CompensationState.INTENT)
                if row is not None:
                    agentic.on_delegated(self, row, event)
            case Observed(effect_id):
                row = self._under_way(effect_id, *UNDER_WAY)
                if row is not None:
                    self._on_observed(row, event, now)
            case Answered(effect_id):
                row = self._under_way(effect_id, CompensationState.INTENT)
                if row is not None:
                    self._on_answered(row, event, now)
            case _:
                assert_never(event)

    def _outcome(self) -> Outcome | None:
        return outcome.outcome_of(self.compensations.values(), self.calls.values())

    def _current(self) -> CompensationRow | None:
        return next((row for row in self.compensations.values() if row.state in UNDER_WAY), None)

    def _under_way(self, effect_id: str, *states: CompensationState) -> CompensationRow | None:
        row = self.compensations.get(effect_id)
        return row if row is not None and row.state in states else None

    def _failed(self) -> bool:
        return any(
            row.state in FAILURES or (row.state is CompensationState.IN_DOUBT and row.attempts)
            for row in self.compensations.values()
        )

    def _step(self, row: CompensationRow, now: int) -> Action | None:
        """The action of a compensation; None: it has changed by itself, look again."""
        if row.wait_until is not None and now < row.wait_until:
            return Wait(row.wait_until)
        match row.state:
            case CompensationState.PENDING:
                return self._admit(row, now)
            case CompensationState.CHECKING:
                return self._check(row, now)
            case CompensationState.INTENT if agentic.is_agents(self, row):
                # It was cut off with its process, and no other one begins it again.
                self.write(row, state=CompensationState.VERIFYING, confirmed=False)
                return None
            case CompensationState.INTENT:
                # Its intent is stored and no answer is: whether it was sent is not known.
                last = self.sent(row)[-1]
                self.write_call(last, phase=CallPhase.UNKNOWN)
                self.write(row, state=CompensationState.SENT)
                return None
            case CompensationState.SENT:
                return self._go_on(row, now)
            case CompensationState.VERIFYING:
                return self._read(row, Why.VERIFY, self.verified(row).resources, now)
            case _:
                raise AssertionError(f"`{row.state}` is an end")

    def _admit(self, row: CompensationRow, now: int) -> Action | None:
        """Whether a compensation is begun at all."""
        effect = self.effects[row.effect_id]
        if row.verb is Verb.ACKNOWLEDGE and effect.standing is not Standing.IN_DOUBT:
            resources = self.own(row).resources
            if self.row.stopped or not resources or not self.affords(reads=len(resources)):
                ends.needs_you(self, row)
                return None
            self.write(row, state=CompensationState.CHECKING)
            return None
        reason = self._not_now(now)
        blocked_by = ends.blocked_by(self, row)
        looks = reason is None and checking.may_be_back(self, row, blocked_by)
        if blocked_by is not None and not looks:
            ends.end(self, row, CompensationState.BLOCKED, Reason.DEPENDENT, because=blocked_by)
            return None
        if reason is not None:
            ends.end(self, row, CompensationState.NOT_STARTED, reason)
            return None
        self.write(row, state=CompensationState.CHECKING)
        return None

    def _not_now(self, now: int) -> Reason | None:
        if self.row.stopped:
            return Reason.STOPPED
        if now >= self.row.started_at + self.row.budget.run_ms:
            return Reason.DEADLINE
        if self.row.policy is Policy.STOP and self._failed():
            return Reason.POLICY
        return None

    def _check(self, row: CompensationRow, now: int) -> Action | None:
        effect = self.effects[row.effect_id]
        if effect.state is CallState.HELD:
            return TakeBackHeld(effect.id)
        if effect.standing is Standing.CANCELLED:  # taken back by this run, which was cut off then
            ends.end(self, row, CompensationState.CANCELLED)
            return None
        in_doubt = effect.state in (CallState.INTENT, CallState.IN_DOUBT)
        if not in_doubt:
            agreed = checking.as_agreed(self, row, now)
            if agreed is None:
                return None
            row = agreed
        if in_doubt:
            return self._settle(row)
        shown_at = effect.at + self.limits.read_lag_ms
        if drift.is_not_shown(effect) and effect.at <= now < shown_at:
            if not self.row.stopped:
                return Wait(shown_at)
            ends.end(self, row, CompensationState.NOT_STARTED, Reason.STOPPED)
            return None
        if self._cover_counts(row):
            return self._read(row, Why.VERIFY, self.own(row).resources, now)
        if row.verb is Verb.ACKNOWLEDGE:
            resources = self.own(row).resources
            if not resources:
                ends.needs_you(self, row)
                return None
            return self._read(row, Why.CHECK, resources, now)
        by_agent = agentic.is_agents(self, row)
        if not self.calls_of(row) and not by_agent:
            ends.without_calls(self, row)
            return None
        if ends.is_barred(self, row):
            return None
        whole = self.whole(row)
        resources = whole.resources
        if effect.restored and (not resources or whole.unread):
            # Perhaps it was taken back since the backup, and to offset it twice is no undo.
            ends.end(self, row, CompensationState.NEEDS_REVIEW, Reason.RESTORED)
            return None
        if self.ready != effect.id and resources:
            return self._read(row, Why.CHECK, resources, now)
        if by_agent:
            return self._delegate(row, now)
        return self._send(row, inverses.next_call(self, row), now)

    def _delegate(self, row: CompensationRow, now: int) -> Action | None:
        """An agent is begun once, in one run, and not beyond the run's time."""
        if now >= self.row.started_at + self.row.budget.run_ms:
            ends.give_up(self, row, Reason.DEADLINE)
            return None
        self.ready = self.looked = None
        self.write(row, state=CompensationState.INTENT, attempts=row.attempts + 1)
        return Delegate(row.effect_id)

    def _settle(self, row: CompensationRow) -> Action | None:
        """Nothing is done by an undo that may never have been, but what it can take back wholly."""
        effect = self.effects[row.effect_id]
        harmless = effect.class_ is EffectClass.REVERSIBLE and not effect.tells
        replays = harmless and self.affords(calls=1, reads=1)
        if not self.reserve(calls=int(replays), reads=1):
            ends.end(self, row, CompensationState.NOT_STARTED, Reason.BUDGET)
            return None
        return Settle(row.effect_id, replays)

    def _cover_counts(self, row: CompensationRow) -> bool:
        """Whether what covers this one has been taken back, so that it may be back as well."""
        if row.covered_by is None or self.ready == row.effect_id:
            return False
        return self.compensations[row.covered_by].state in (
            CompensationState.REVERTED,
            CompensationState.COMPENSATED,
        )

    def _read(
        self, row: CompensationRow, why: Why, resources: tuple[ResourceKey, ...], now: int
    ) -> Action | None:
        if self.reserve(reads=max(1, len(resources))):
            return Read(row.effect_id, why, resources)
        ends.cannot_read(self, row, Reason.BUDGET, "", now)
        return None

    def _send(self, row: CompensationRow, n: int | None, now: int) -> Action | None:
        """Reserve, write the intent, and say what to send."""
        effect = self.effects[row.effect_id]
        if n is None:
            self.write(row, state=CompensationState.VERIFYING)
            return None
        if ends.is_barred(self, row):
            return None
        ended = row.verb is Verb.CANCEL and now >= (effect.cancel_until or 0)
        if ended and not self.sent(row):
            ends.end(self, row, CompensationState.NEEDS_YOU, Reason.TOO_LATE)
            return None
        reason = inverses.no_more(self, row, n, now)
        if reason is not None:
            ends.give_up(self, row, reason)
            return None
        call = self.calls_of(row)[n - 1]
        before = self.calls.get((effect.id, n))
        if before is None and not inverses.may_send_first(self, row, n, call, now):
            ends.end(self, row, CompensationState.IN_DOUBT, Reason.LOST)
            return None
        self.reserve(calls=1)
        self.ready = self.looked = None
        intent = inverses.intent(self, effect.id, n, now)
        self.write_call(intent)
        row = self.write(
            row, state=CompensationState.INTENT, attempts=row.attempts + 1, wait_until=None
        )
        return Send(effect.id, n, intent.key, call)

    def _on_answered(self, row: CompensationRow, event: Answered, now: int) -> None:
        call = self.calls[row.effect_id, event.n]
        detail = event.detail[: ends.LONGEST_DETAIL]
        again = now + self.limits.backoff(row.attempts)
        match event.answer:
            case Answer.OK:
                self.write_call(call, phase=CallPhase.APPLIED, detail=detail)
                claims = inverses.with_made(self, row, event.made)
                row = self.write(
                    row, state=CompensationState.SENT, confirmed=event.confirmed, claims=claims
                )
                if inverses.next_call(self, row) is None:
                    self.write(row, state=CompensationState.VERIFYING)
            case Answer.REFUSED:
                # Until it is read back, nobody knows what a refused call did.
                phase = CallPhase.DEFERRED if event.may_have_made else CallPhase.UNKNOWN
                self.write_call(call, phase=phase, detail=detail)
                self.write(row, state=CompensationState.VERIFYING, detail=detail)
            case Answer.TRANSIENT:
                self.write_call(call, phase=CallPhase.DEFERRED, detail=detail)
                self.write(row, state=CompensationState.SENT, detail=detail, wait_until=again)
            case Answer.LOST:
                self.write_call(call, phase=CallPhase.UNKNOWN, detail=detail)
                self.write(row, state=CompensationState.SENT, detail=detail, wait_until=again)
            case Answer.NOT_SENT:
                self.write_call(call, phase=CallPhase.NOT_SENT, detail=detail)
                self.write(row, state=CompensationState.SENT, detail=detail, wait_until=again)
            case _:
                assert_never(event.answer)

    def _go_on(self, row: CompensationRow, now: int) -> Action | None:
        """After an answer that does not end it: the next call, the same again, or a look."""
        last = self.sent(row)[-1]
        call = self.calls_of(row)[last.n - 1]
        if last.phase in (CallPhase.UNKNOWN, CallPhase.DEFERRED) and self.ready != row.effect_id:
            resources = self.verified(row).resources
            if resources:
                return self._read(row, Why.READ_BACK, resources, now)
            if inverses.honoured(last, call, now):
                return self._send(row, last.n, now)
            ends.end(self, row, CompensationState.IN_DOUBT, Reason.LOST)
            return None
        not_done = last.phase in (CallPhase.NOT_SENT, CallPhase.NOT_APPLIED)
        if not_done and not inverses.begun(self, row) and self.ready != row.effect_id:
            # Nothing of it has been done: it is checked once more, as if for the first time.
            self.write(row, state=CompensationState.CHECKING, wait_until=None)
            return None
        n = inverses.next_call(self, row)
        if n is not None and n > 1 and self.ready != row.effect_id:
            resources = self.verified(row).resources
            if resources:
                # Only what was there right before a call can tell whether it acted.
                return self._read(row, Why.BETWEEN, resources, now)
        return self._send(row, n, now)

    def _on_observed(self, row: CompensationRow, event: Observed, now: int) -> None:
        unread = next(
            (sight.reason for sight in event.seen.values() if isinstance(sight, Unreadable)), None
        )
        if unread is not None:
            failed = row.reads_failed + 1
            if event.for_good or failed >= self.limits.attempts:
                ends.cannot_read(self, row, Reason.UNREADABLE, unread[: ends.LONGEST_DETAIL], now)
            else:
                again = now + self.limits.backoff(failed)
                self.write(row, reads_failed=failed, wait_until=again)
            return
        row = self.write(row, reads_failed=0, wait_until=None)
        self.looked = row.effect_id, drift.state_of(event.seen)
        match event.why, row.state:
            case Why.CHECK, CompensationState.CHECKING:
                checking.on_checked(self, row, event)
            case Why.VERIFY, CompensationState.CHECKING:
                checking.on_covered(self, row, event)
            case Why.READ_BACK, CompensationState.SENT:
                verifying.on_read_back(self, row, event, now)
            case Why.BETWEEN, CompensationState.SENT:
                state = self.verified(row).part(drift.state_of(event.seen))
                self.write(row, seen=drift.digest(state))
                self.ready = row.effect_id
            case Why.VERIFY, CompensationState.VERIFYING:
                if agentic.is_agents(self, row):
                    agentic.on_verified(self, row, event)
                else:
                    verifying.on_verified(self, row, event)
            case _:
                pass
