"""The life of an undo run: what happens next, and what each answer makes of it (undo.md 5).

A `Run` is made of rows and gives rows back. `next` says the one thing to do now; `feed` takes what
came of it; `take` has the rows that changed. Whoever carries it out commits what `take` gives
before each `Send` and at the end; a process that finds the rows goes on from there with a `Run` of
its own. Nothing else is remembered, so a run that was cut off comes to the same as any other.

The members go one after another in the plan's order. Each is checked right before its inverse is
called, whatever was seen of it earlier, and read again right after.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, assert_never

from turnback.core import drift
from turnback.core.contracts.states import Unreadable
from turnback.core.effects import (
    STANDING_OF_CALL,
    Call,
    CallState,
    Effect,
    EffectClass,
    ResourceKey,
    Standing,
    Verb,
)
from turnback.core.undo import outcome, residue
from turnback.core.undo.actions import (
    Action,
    Answer,
    Answered,
    Event,
    Finish,
    HeldTaken,
    Observed,
    Read,
    Send,
    Settle,
    Settled,
    StandDown,
    TakeBackHeld,
    Wait,
    Why,
)
from turnback.core.undo.budget import UndoLimits
from turnback.core.undo.plan import covers, verb_of
from turnback.core.undo.rows import (
    UNDER_WAY,
    Because,
    CallPhase,
    Changes,
    CompensationCallRow,
    CompensationRow,
    CompensationState,
    Outcome,
    Policy,
    Reason,
    ResidueRow,
    RunRow,
    RunStatus,
)

LONGEST_DETAIL = 500
"""Characters of a tool's answer that are kept."""

TOOK_BACK = frozenset(
    {CompensationState.REVERTED, CompensationState.COMPENSATED, CompensationState.CANCELLED}
)
FAILURES = frozenset(
    {CompensationState.FAILED, CompensationState.NOOP_INVERSE, CompensationState.PARTLY}
)
"""The ends after which the policy `stop` starts nothing new, as does a doubt about a call of ours.

Drift and what needs a person are no failures.
"""

STANDING_AFTER = {
    CompensationState.REVERTED: Standing.REVERTED,
    CompensationState.COMPENSATED: Standing.COMPENSATED,
    CompensationState.CANCELLED: Standing.CANCELLED,
    CompensationState.PARTLY: Standing.PARTLY,
}
"""What an end makes of an effect's standing; any other leaves it as it was."""

REASON_OF_DRIFT = {
    drift.DriftKind.CHANGED: Reason.DRIFT,
    drift.DriftKind.RECREATED: Reason.RECREATED,
    drift.DriftKind.OCCUPIED: Reason.OCCUPIED,
}


def key_of(effect_id: str, n: int, round_: int) -> str:
    """The idempotency key of the n-th call of an effect's inverse (undo.md 2)."""
    return f"c:{effect_id}:{n}:{round_}"


class Run:
    """One run, from its rows.

    `effects` are its members; `prior` are the calls of earlier runs for them, in order; `ledger`
    has the entries of the resources that they touched, in order. `barred` says why the tools that
    would take an effect back may not be called: nothing more is sent of it.
    """

    def __init__(
        self,
        row: RunRow,
        effects: Iterable[Effect],
        compensations: Iterable[CompensationRow],
        calls: Iterable[CompensationCallRow] = (),
        *,
        limits: UndoLimits,
        prior: Iterable[CompensationCallRow] = (),
        ledger: Mapping[ResourceKey, Sequence[drift.LedgerEntry]] | None = None,
        barred: Mapping[str, str] | None = None,
    ) -> None:
        self.row = row
        self.limits = limits
        self.effects = {effect.id: effect for effect in effects}
        self.compensations = {
            row.effect_id: row for row in sorted(compensations, key=lambda row: row.position)
        }
        self.calls = {(call.effect_id, call.n): call for call in calls}
        self._prior: dict[tuple[str, int], CompensationCallRow] = {}
        self._attempts: dict[tuple[str, int], int] = {}
        for call in prior:
            key = call.effect_id, call.n
            self._prior[key] = call
            self._attempts[key] = self._attempts.get(key, 0) + call.attempts
        self._known = {key: list(entries) for key, entries in (ledger or {}).items()}
        self._barred = barred or {}
        self._ready: str | None = None  # the effect that was just checked, or read between calls
        self._changed: set[str] = set()
        self._changed_calls: set[tuple[str, int]] = set()
        self._run_changed = False
        self._residues: list[ResidueRow] = []
        self._settled: list[Effect] = []
        self._standings: list[tuple[str, Standing | None]] = []
        self._ledger: list[drift.LedgerEntry] = []

    # What the caller does with it

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
            self._write_run(status=RunStatus.ENDED, outcome=self._outcome(), ended_at=now)
            self._changed.update(self.compensations)  # with it, they are in no active run any more
        return Finish(self.row.outcome)

    def stop(self) -> None:
        """No further compensation starts; the one under way goes to its end."""
        if not self.row.stopped and self.row.status is RunStatus.RUNNING:
            self._write_run(stopped=True)

    def take(self) -> Changes:
        """The rows that changed since the last time, for one commit."""
        changes = Changes(
            run=self.row if self._run_changed else None,
            compensations=tuple(
                row for id_, row in self.compensations.items() if id_ in self._changed
            ),
            calls=tuple(self.calls[key] for key in sorted(self._changed_calls)),
            residues=tuple(self._residues),
            effects=tuple(self._settled),
            standings=tuple(self._standings),
            ledger=tuple(self._ledger),
        )
        self._run_changed = False
        for pending in (
            self._changed,
            self._changed_calls,
            self._residues,
            self._settled,
            self._standings,
            self._ledger,
        ):
            pending.clear()
        return changes

    def feed(self, event: Event, now: int) -> None:
        """What came of the last action. One that was not asked for changes nothing."""
        match event:
            case Settled(effect):
                row = self._under_way(effect.id, CompensationState.CHECKING)
                if row is not None:
                    self._on_settled(row, effect, now)
            case HeldTaken(effect):
                row = self._under_way(effect.id, CompensationState.CHECKING)
                if row is not None:
                    self._on_settled(row, effect, now)
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

    # Where it stands

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

    def _blocked_by(self, row: CompensationRow) -> str | None:
        """The member that had to be undone first and still stands, or may."""
        for wait in row.waits_for:
            state = self.compensations[wait.effect_id].state
            if wait.why is Because.COVER or state in TOOK_BACK:
                continue
            if state is CompensationState.NEEDS_YOU:
                continue
            # A reviewed change of the same resource is seen by this one's own check as well.
            if state is CompensationState.NEEDS_REVIEW and wait.why is Because.SAME_RESOURCE:
                continue
            return wait.effect_id
        return None

    def calls_of(self, row: CompensationRow) -> tuple[Call, ...]:
        """The calls that take an effect back by itself; none where there is no such way."""
        effect = self.effects[row.effect_id]
        if row.verb is Verb.CANCEL:
            return effect.cancel or ()
        if effect.purged or effect.class_ is EffectClass.IRREVERSIBLE:
            return ()
        return effect.inverse or ()

    def _sent(self, row: CompensationRow) -> list[CompensationCallRow]:
        """This run's calls of a compensation, in order."""
        return [call for (id_, _), call in sorted(self.calls.items()) if id_ == row.effect_id]

    def _begins_at(self, row: CompensationRow) -> int:
        """The first call that an earlier run has not made; the first of all if it made them all.

        All made and still a member: they came to less than the goal, and are made again.
        """
        calls = self.calls_of(row)
        for n in range(1, len(calls) + 1):
            prior = self._prior.get((row.effect_id, n))
            if prior is None or prior.phase is not CallPhase.APPLIED:
                return n
        return 1

    def _next_call(self, row: CompensationRow) -> int | None:
        """The ordinal of the call to be made next; None: all are made."""
        for n in range(self._begins_at(row), len(self.calls_of(row)) + 1):
            call = self.calls.get((row.effect_id, n))
            if call is None or call.phase is not CallPhase.APPLIED:
                return n
        return None

    # What an inverse is judged by

    def _covered(self, row: CompensationRow) -> list[Effect]:
        return [
            self.effects[other.effect_id]
            for other in self.compensations.values()
            if other.covered_by == row.effect_id
        ]

    def _own(self, row: CompensationRow) -> drift.Basis:
        return drift.basis(self.effects[row.effect_id], ledger=self._known)

    def _whole(self, row: CompensationRow) -> drift.Basis:
        """With what it covers: its inverse writes over that as well."""
        return drift.basis(
            self.effects[row.effect_id], with_=self._covered(row), ledger=self._known
        )

    def _verified(self, row: CompensationRow) -> drift.Basis:
        """What is held against it afterwards; what it covers is verified by itself."""
        return self._whole(row).only(self._own(row))

    # One step

    def _step(self, row: CompensationRow, now: int) -> Action | None:
        """The action of a compensation; None: it has changed by itself, look again."""
        if row.wait_until is not None and now < row.wait_until:
            return Wait(row.wait_until)
        match row.state:
            case CompensationState.PENDING:
                return self._admit(row, now)
            case CompensationState.CHECKING:
                return self._check(row, now)
            case CompensationState.INTENT:
                # Its intent is stored and no answer is: whether it was sent is not known.
                last = self._sent(row)[-1]
                self._write_call(last, phase=CallPhase.UNKNOWN)
                self._write(row, state=CompensationState.SENT)
                return None
            case CompensationState.SENT:
                return self._go_on(row, now)
            case CompensationState.VERIFYING:
                return self._read(row, Why.VERIFY, self._verified(row).resources, now)
            case _:
                raise AssertionError(f"`{row.state}` is an end")

    def _admit(self, row: CompensationRow, now: int) -> Action | None:
        """Whether a compensation is begun at all."""
        effect = self.effects[row.effect_id]
        if row.verb is Verb.ACKNOWLEDGE and effect.standing is not Standing.IN_DOUBT:
            resources = self._own(row).resources
            if self.row.stopped or not resources or not self._affords(reads=len(resources)):
                self._needs_you(row)
                return None
            self._write(row, state=CompensationState.CHECKING)
            return None
        reason = self._not_now(now)
        blocked_by = self._blocked_by(row)
        if blocked_by is not None:
            self._end(row, CompensationState.BLOCKED, Reason.DEPENDENT, because=blocked_by)
            return None
        if reason is not None:
            self._end(row, CompensationState.NOT_STARTED, reason)
            return None
        self._write(row, state=CompensationState.CHECKING)
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
            self._end(row, CompensationState.CANCELLED)
            return None
        in_doubt = effect.state in (CallState.INTENT, CallState.IN_DOUBT)
        if not in_doubt:
            agreed = self._as_agreed(row, now)
            if agreed is None:
                return None
            row = agreed
        if in_doubt:
            return self._settle(row)
        if self._cover_counts(row):
            return self._read(row, Why.VERIFY, self._own(row).resources, now)
        if row.verb is Verb.ACKNOWLEDGE:
            resources = self._own(row).resources
            if not resources:
                self._needs_you(row)
                return None
            return self._read(row, Why.CHECK, resources, now)
        if not self.calls_of(row):
            self._without_calls(row)
            return None
        if self._is_barred(row):
            return None
        whole = self._whole(row)
        resources = whole.resources
        if effect.restored and (not resources or whole.unread):
            # Perhaps it was taken back since the backup, and to offset it twice is no undo.
            self._end(row, CompensationState.NEEDS_REVIEW, Reason.RESTORED)
            return None
        if self._ready == effect.id or not resources:
            return self._send(row, self._next_call(row), now)
        return self._read(row, Why.CHECK, resources, now)

    def _settle(self, row: CompensationRow) -> Action | None:
        if not self._reserve(reads=1):
            self._end(row, CompensationState.NOT_STARTED, Reason.BUDGET)
            return None
        return Settle(row.effect_id)

    def _cover_counts(self, row: CompensationRow) -> bool:
        """Whether what covers this one has been taken back, so that it may be back as well."""
        if row.covered_by is None or self._ready == row.effect_id:
            return False
        return self.compensations[row.covered_by].state in (
            CompensationState.REVERTED,
            CompensationState.COMPENSATED,
        )

    def _without_calls(self, row: CompensationRow) -> None:
        """Nothing of its own takes it back, and what was to cover it has not."""
        cover = row.covered_by and self.compensations[row.covered_by]
        if cover and cover.state not in TOOK_BACK:
            self._end(row, CompensationState.BLOCKED, Reason.DEPENDENT, because=cover.effect_id)
            return
        self._needs_you(row)

    def _needs_you(self, row: CompensationRow, state: drift.State | None = None) -> None:
        purged = self.effects[row.effect_id].purged
        self._end(
            row,
            CompensationState.NEEDS_YOU,
            Reason.PURGED if purged else Reason.IRREVERSIBLE,
            world=state,
        )

    def _read(
        self, row: CompensationRow, why: Why, resources: tuple[ResourceKey, ...], now: int
    ) -> Action | None:
        if self._reserve(reads=max(1, len(resources))):
            return Read(row.effect_id, why, resources)
        self._cannot_read(row, Reason.BUDGET, "", now)
        return None

    def _send(self, row: CompensationRow, n: int | None, now: int) -> Action | None:
        """Reserve, write the intent, and say what to send."""
        effect = self.effects[row.effect_id]
        if n is None:
            self._write(row, state=CompensationState.VERIFYING)
            return None
        if self._is_barred(row):
            return None
        ended = row.verb is Verb.CANCEL and now >= (effect.cancel_until or 0)
        if ended and not self._sent(row):
            self._end(row, CompensationState.NEEDS_YOU, Reason.TOO_LATE)
            return None
        reason = self._no_more(row, n, now)
        if reason is not None:
            self._give_up(row, reason)
            return None
        call = self.calls_of(row)[n - 1]
        before = self.calls.get((effect.id, n))
        if before is None and not self._may_send_first(row, n, call, now):
            self._end(row, CompensationState.IN_DOUBT, Reason.LOST)
            return None
        round_, first_sent_at = self._round(effect.id, n, now)
        self._reserve(calls=1)
        self._ready = None
        intent = CompensationCallRow(
            run_id=self.row.id,
            effect_id=effect.id,
            n=n,
            round=round_,
            key=key_of(effect.id, n, round_),
            phase=CallPhase.INTENT,
            attempts=1 if before is None else before.attempts + 1,
            first_sent_at=first_sent_at,
        )
        self._write_call(intent)
        row = self._write(
            row, state=CompensationState.INTENT, attempts=row.attempts + 1, wait_until=None
        )
        return Send(effect.id, n, intent.attempts, intent.key, call)

    def _is_barred(self, row: CompensationRow) -> bool:
        """Whether it ends here, since a tool that it takes is not the one that was meant."""
        why = self._barred.get(row.effect_id)
        if why is None:
            return False
        row = self._write(row, detail=why[:LONGEST_DETAIL])
        if self._begun(row):
            self._give_up(row, Reason.TOOL_CHANGED)
        else:
            self._end(row, CompensationState.NEEDS_YOU, Reason.TOOL_CHANGED)
        return True

    def _no_more(self, row: CompensationRow, n: int, now: int) -> Reason | None:
        """Why a call may not be sent any more."""
        sent = self.calls.get((row.effect_id, n))
        attempts = 0 if sent is None else sent.attempts
        earlier = self._attempts.get((row.effect_id, n), 0)
        if attempts >= self.limits.attempts or attempts + earlier >= self.limits.effect_attempts:
            return Reason.ATTEMPTS
        if now >= self.row.started_at + self.row.budget.run_ms:
            return Reason.DEADLINE
        # An inverse is begun only where all of it, and the look at it afterwards, can be paid.
        left = len(self.calls_of(row)) - n + 1
        looks = left * max(1, len(self._whole(row).resources))
        calls = 1 if self._sent(row) else left
        return None if self._affords(calls=calls, reads=looks) else Reason.BUDGET

    def _round(self, effect_id: str, n: int, now: int) -> tuple[int, int]:
        """The round of a call's next attempt, and when that round began.

        It rises only when the last run's attempt is known: not applied, or applied and come to
        less than the goal. Within a run it never does.
        """
        call = self.calls.get((effect_id, n))
        if call is not None:
            return call.round, call.first_sent_at
        prior = self._prior.get((effect_id, n))
        if prior is None:
            return 1, now
        if prior.phase in (CallPhase.NOT_APPLIED, CallPhase.APPLIED):
            return prior.round + 1, now
        return prior.round, prior.first_sent_at

    def _may_send_first(self, row: CompensationRow, n: int, call: Call, now: int) -> bool:
        """Whether a call whose earlier run was in doubt may be made again in this one.

        By its key, or since a read has just shown that it did not take effect.
        """
        prior = self._prior.get((row.effect_id, n))
        if prior is None or prior.phase not in (CallPhase.UNKNOWN, CallPhase.DEFERRED):
            return True
        return self._honoured(prior, call, now) or bool(self._whole(row).resources)

    def _honoured(self, sent: CompensationCallRow, call: Call, now: int) -> bool:
        """Whether the tool still knows the key, so that sending again cannot act twice."""
        return now - sent.first_sent_at < call.key_ms

    # A call that was sent

    def _on_answered(self, row: CompensationRow, event: Answered, now: int) -> None:
        call = self.calls[row.effect_id, event.n]
        detail = event.detail[:LONGEST_DETAIL]
        again = now + self.limits.backoff(row.attempts)
        match event.answer:
            case Answer.OK:
                self._write_call(call, phase=CallPhase.APPLIED, detail=detail)
                row = self._write(row, state=CompensationState.SENT, confirmed=event.confirmed)
                if self._next_call(row) is None:
                    self._write(row, state=CompensationState.VERIFYING)
            case Answer.REFUSED:
                # Until it is read back, nobody knows what a refused call did.
                self._write_call(call, phase=CallPhase.UNKNOWN, detail=detail)
                self._write(row, state=CompensationState.VERIFYING, detail=detail)
            case Answer.TRANSIENT:
                self._write_call(call, phase=CallPhase.DEFERRED, detail=detail)
                self._write(row, state=CompensationState.SENT, detail=detail, wait_until=again)
            case Answer.LOST:
                self._write_call(call, phase=CallPhase.UNKNOWN, detail=detail)
                self._write(row, state=CompensationState.SENT, detail=detail, wait_until=again)
            case Answer.NOT_SENT:
                self._write_call(call, phase=CallPhase.NOT_SENT, detail=detail)
                self._write(row, state=CompensationState.SENT, detail=detail, wait_until=again)
            case _:
                assert_never(event.answer)

    def _go_on(self, row: CompensationRow, now: int) -> Action | None:
        """After an answer that does not end it: the next call, the same again, or a look."""
        last = self._sent(row)[-1]
        call = self.calls_of(row)[last.n - 1]
        if last.phase in (CallPhase.UNKNOWN, CallPhase.DEFERRED) and self._ready != row.effect_id:
            resources = self._verified(row).resources
            if resources:
                return self._read(row, Why.READ_BACK, resources, now)
            if self._honoured(last, call, now):
                return self._send(row, last.n, now)
            self._end(row, CompensationState.IN_DOUBT, Reason.LOST)
            return None
        not_done = last.phase in (CallPhase.NOT_SENT, CallPhase.NOT_APPLIED)
        if not_done and not self._begun(row) and self._ready != row.effect_id:
            # Nothing of it has been done: it is checked once more, as if for the first time.
            self._write(row, state=CompensationState.CHECKING, wait_until=None)
            return None
        n = self._next_call(row)
        if n is not None and n > 1 and self._ready != row.effect_id:
            resources = self._verified(row).resources
            if resources:
                # Only what was there right before a call can tell whether it acted.
                return self._read(row, Why.BETWEEN, resources, now)
        return self._send(row, n, now)

    def _begun(self, row: CompensationRow) -> bool:
        """Whether a call of it, in this run or an earlier one, has or may have acted."""
        return self._begins_at(row) > 1 or any(
            call.phase in (CallPhase.APPLIED, CallPhase.UNKNOWN, CallPhase.DEFERRED)
            for call in self._sent(row)
        )

    # What was read

    def _on_observed(self, row: CompensationRow, event: Observed, now: int) -> None:
        unread = next(
            (sight.reason for sight in event.seen.values() if isinstance(sight, Unreadable)), None
        )
        if unread is not None:
            failed = row.reads_failed + 1
            if event.for_good or failed >= self.limits.attempts:
                self._cannot_read(row, Reason.UNREADABLE, unread[:LONGEST_DETAIL], now)
            else:
                again = now + self.limits.backoff(failed)
                self._write(row, reads_failed=failed, wait_until=again)
            return
        row = self._write(row, reads_failed=0, wait_until=None)
        match event.why, row.state:
            case Why.CHECK, CompensationState.CHECKING:
                self._on_checked(row, event)
            case Why.VERIFY, CompensationState.CHECKING:
                self._on_covered(row, event)
            case Why.READ_BACK, CompensationState.SENT:
                self._on_read_back(row, event, now)
            case Why.BETWEEN, CompensationState.SENT:
                state = self._verified(row).part(drift.state_of(event.seen))
                self._write(row, seen=drift.digest(state))
                self._ready = row.effect_id
            case Why.VERIFY, CompensationState.VERIFYING:
                self._on_verified(row, event)
            case _:
                pass

    def _on_checked(self, row: CompensationRow, event: Observed) -> None:
        effect = self.effects[row.effect_id]
        state = drift.state_of(event.seen)
        whole = self._whole(row)
        # What was done beside it since a backup was made is nobody's to be written around.
        narrow = effect.narrow and not effect.restored
        verdict = drift.judge(whole, event.seen, narrow=narrow)
        theirs = drift.theirs(whole, state, self._known)
        own = self._verified(row)
        part = own.part(state)
        half_way = self._begins_at(row) > 1 and row.left_as == drift.digest(part)
        if isinstance(verdict, drift.Already) and not half_way:
            ours = self._made_so_by(row, whole, state)
            if ours is None:
                self._found_so(row, state, theirs)
            elif row.verb is Verb.ACKNOWLEDGE:
                self._needs_you(row)
            else:
                self._end(row, CompensationState.BLOCKED, Reason.DEPENDENT, because=ours)
            return
        if row.verb is Verb.ACKNOWLEDGE:
            self._needs_you(row, state)
            return
        if effect.restored and event.passes:
            self._end(row, CompensationState.NEEDS_REVIEW, Reason.RESTORED, world=state)
            return
        agreed = bool(row.overwrites) and drift.may_overwrite(row.overwrites, state)
        if isinstance(verdict, drift.Review) and not half_way and not agreed:
            self._end(
                row,
                CompensationState.NEEDS_REVIEW,
                REASON_OF_DRIFT[verdict.kind],
                world=state,
                values=verdict.values,
                ledger=theirs,
            )
            return
        # Of a thing that is gone until the next call, what lay beside is what our writes left.
        there = own.expected if half_way and not part else part
        self._write(
            row,
            seen=drift.digest(part),
            rest=drift.digest(drift.beside(own, there)),
        )
        self._ready = effect.id

    def _made_so_by(
        self, row: CompensationRow, whole: drift.Basis, state: drift.State
    ) -> str | None:
        """The later effect of this session, still standing, that left things as they were before.

        When that one is taken back, this one's writing is there again: it is not reverted.
        """
        effect = self.effects[row.effect_id]
        inside = {effect.id, *(covered.id for covered in self._covered(row))}
        for cell in drift.in_order(whole.writes):
            if drift.left_by(cell, state, self._known) is None:
                continue
            for id_, entry in drift.still_written(cell, effect.id, self._known).items():
                if entry.session_id == effect.session_id and id_ not in inside:
                    return id_
        return None

    def _found_so(
        self,
        row: CompensationRow,
        state: drift.State,
        theirs: tuple[drift.LedgerEntry, ...],
    ) -> None:
        """The world is as before the call. What it told people stays told."""
        effect = self.effects[row.effect_id]
        damaged = residue.claims(
            self._own(row), CompensationState.PARTLY, world=state, earlier=row.claims
        )
        if damaged:
            # An earlier run of ours has left something beside it that still is not as before.
            self._end(row, CompensationState.PARTLY, world=state, ledger=theirs)
        elif not effect.tells and effect.class_ is not EffectClass.COMPENSABLE:
            self._end(row, CompensationState.REVERTED, Reason.ALREADY, world=state, ledger=theirs)
        elif row.verb is Verb.ACKNOWLEDGE:
            self._needs_you(row, state)
        else:
            self._end(
                row, CompensationState.COMPENSATED, Reason.ALREADY, world=state, ledger=theirs
            )

    def _on_covered(self, row: CompensationRow, event: Observed) -> None:
        """What was to cover it has been taken back: is this one back too?"""
        assert row.covered_by is not None
        effect = self.effects[row.effect_id]
        state = drift.state_of(event.seen)
        whole = self._whole(self.compensations[row.covered_by])
        if not drift.differing(state, whole.goal) & self._own(row).writes:
            back = row.verb is Verb.REVERT and not effect.tells
            self._end(
                row,
                CompensationState.REVERTED if back else CompensationState.COMPENSATED,
                Reason.COVERED,
                because=row.covered_by,
                world=state,
                ledger=drift.put_back(self._own(row), state, effect),
            )
        elif self.calls_of(row):
            self._write(row, covered_by=None)
        else:
            self._needs_you(row, state)

    def _on_read_back(self, row: CompensationRow, event: Observed, now: int) -> None:
        """What the world says of a call whose answer nobody has, or that said not now."""
        own = self._verified(row)
        state = drift.state_of(event.seen)
        last = self._sent(row)[-1]
        call = self.calls_of(row)[last.n - 1]
        assert row.rest is not None
        reversible = self.effects[row.effect_id].class_ is EffectClass.REVERSIBLE
        several = len(self.calls_of(row)) > 1
        progress = drift.progress(own, state, rest=row.rest)
        gone = progress is drift.Progress.GONE
        if progress is drift.Progress.GOAL or (event.passes and not several):
            for sent in self._sent(row):
                self._write_call(sent, phase=CallPhase.APPLIED)
            self._write(row, state=CompensationState.VERIFYING)
        elif drift.digest(own.part(state)) == row.seen:
            if last.phase is CallPhase.DEFERRED:
                self._write_call(last, phase=CallPhase.NOT_APPLIED)
            elif not reversible and not self._honoured(last, call, now):
                # It may still come to act, and to act twice would not be the same.
                self._end(row, CompensationState.IN_DOUBT, Reason.LOST, world=state)
                return
            self._ready = row.effect_id
        elif row.verb is not Verb.REVERT:
            # It has no goal that would tell its own writing from a stranger's.
            if last.phase is CallPhase.UNKNOWN and self._honoured(last, call, now):
                self._ready = row.effect_id
            else:
                self._end(row, CompensationState.IN_DOUBT, Reason.LOST, world=state)
        elif progress is drift.Progress.FOREIGN or (gone and not several):
            self._foreign(row, event, state)
        elif self._honoured(last, call, now):
            self._ready = row.effect_id
        else:
            self._write_call(last, phase=CallPhase.APPLIED)
            if self._next_call(row) is None:
                self._write(row, state=CompensationState.VERIFYING)

    def _foreign(self, row: CompensationRow, event: Observed, state: drift.State) -> None:
        """Somebody else has written meanwhile: nothing more is, and both values are shown."""
        verdict = drift.judge(self._whole(row), event.seen, narrow=False)
        values = verdict.values if isinstance(verdict, drift.Review) else ()
        self._end(row, CompensationState.NEEDS_REVIEW, Reason.DRIFT, world=state, values=values)

    def _on_verified(self, row: CompensationRow, event: Observed) -> None:
        effect = self.effects[row.effect_id]
        own = self._verified(row)
        state = drift.state_of(event.seen)
        refused = any(call.phase is not CallPhase.APPLIED for call in self._sent(row))
        if not own.resources:
            self._without_reading(row, event.passes, refused=refused)
            return
        assert row.seen is not None
        assert row.rest is not None
        reached = drift.verify(own, state, seen=row.seen, rest=row.rest)
        back = drift.put_back(own, state, effect)
        if reached is drift.Reached.NOTHING and not self._half_way(row, own, state):
            for call in self._sent(row):
                self._write_call(call, phase=CallPhase.NOT_APPLIED)
            self._nothing(row, state, refused=refused)
        elif row.verb is Verb.COMPENSATE and not refused and event.passes is not False:
            tested = event.passes or not own.unread
            self._end(
                row,
                CompensationState.COMPENSATED,
                None if tested else Reason.UNCHECKED,
                world=state,
                ledger=drift.offset(own, state, effect),
            )
        elif row.verb is Verb.CANCEL and row.confirmed is False:
            self._end(row, CompensationState.NEEDS_YOU, Reason.TOO_LATE, world=state)
        elif row.verb is Verb.CANCEL and (row.confirmed or reached is drift.Reached.GOAL):
            self._end(row, CompensationState.CANCELLED, world=state, ledger=back)
        elif reached is drift.Reached.GOAL and row.verb is Verb.COMPENSATE:
            self._end(row, CompensationState.COMPENSATED, world=state, ledger=back)
        elif reached is drift.Reached.GOAL and not own.unread:
            self._end(row, CompensationState.REVERTED, world=state, ledger=back)
        elif reached is drift.Reached.GOAL:
            self._end(
                row, CompensationState.COMPENSATED, Reason.UNCHECKED, world=state, ledger=back
            )
        else:
            if reached is drift.Reached.NOTHING:
                self._write_call(self._sent(row)[-1], phase=CallPhase.NOT_APPLIED)
            row = self._write(row, seen=drift.digest(own.part(state)))
            self._end(
                row,
                CompensationState.PARTLY,
                Reason.REFUSED if refused else None,
                world=state,
                ledger=back,
            )

    def _half_way(self, row: CompensationRow, own: drift.Basis, state: drift.State) -> bool:
        """Whether an earlier call of the same inverse has changed something."""
        assert row.rest is not None
        begun = self._begins_at(row) > 1 or len(self._sent(row)) > 1
        return begun and drift.progress(own, state, rest=row.rest) is not drift.Progress.NONE

    def _nothing(self, row: CompensationRow, state: drift.State, *, refused: bool) -> None:
        """Read back, and nothing has changed."""
        if row.verb is Verb.CANCEL:
            self._end(row, CompensationState.NEEDS_YOU, Reason.TOO_LATE, world=state)
        elif refused:
            self._end(row, CompensationState.FAILED, Reason.REFUSED, world=state)
        else:
            self._end(row, CompensationState.NOOP_INVERSE, Reason.NOTHING_CHANGED, world=state)

    def _without_reading(self, row: CompensationRow, passes: bool | None, *, refused: bool) -> None:
        """All that is known is what the tool answered, and what its contract's test says."""
        if row.verb is Verb.CANCEL:
            if row.confirmed:
                self._end(row, CompensationState.CANCELLED)
            elif refused or row.confirmed is False:
                self._end(row, CompensationState.NEEDS_YOU, Reason.TOO_LATE)
            else:
                self._end(row, CompensationState.IN_DOUBT, Reason.UNCHECKED)
        elif refused and len(self._sent(row)) == 1 and self._begins_at(row) == 1:
            self._end(row, CompensationState.FAILED, Reason.REFUSED)
        elif refused:
            self._end(row, CompensationState.PARTLY, Reason.REFUSED)
        elif passes is False:
            self._end(row, CompensationState.NOOP_INVERSE, Reason.NOTHING_CHANGED)
        else:
            self._end(row, CompensationState.COMPENSATED, None if passes else Reason.UNCHECKED)

    def _cannot_read(self, row: CompensationRow, reason: Reason, detail: str, now: int) -> None:
        """A look that is not to be had: what it was for decides."""
        row = self._write(row, reads_failed=0, wait_until=None, detail=detail or row.detail)
        checking = row.state is CompensationState.CHECKING
        if checking and row.verb is Verb.ACKNOWLEDGE:
            self._needs_you(row)
        elif checking:
            self._give_up(row, reason)
        elif row.state is CompensationState.VERIFYING and self._all_answered(row):
            if row.verb is Verb.COMPENSATE:
                self._end(row, CompensationState.COMPENSATED, Reason.UNCHECKED)
            elif row.verb is Verb.CANCEL and row.confirmed:
                self._end(row, CompensationState.CANCELLED)
            else:
                self._end(row, CompensationState.IN_DOUBT, reason)
        elif row.state is CompensationState.SENT and self._may_repeat(row, now):
            self._ready = row.effect_id
        else:
            self._end(row, CompensationState.IN_DOUBT, reason)

    def _all_answered(self, row: CompensationRow) -> bool:
        return all(call.phase is CallPhase.APPLIED for call in self._sent(row))

    def _may_repeat(self, row: CompensationRow, now: int) -> bool:
        last = self._sent(row)[-1]
        return self._honoured(last, self.calls_of(row)[last.n - 1], now)

    def _on_settled(self, row: CompensationRow, effect: Effect, now: int) -> None:
        """What became of a call in doubt, or held back. Nothing is done that was not agreed to."""
        if effect.standing is Standing.CANCELLED:
            self.effects[effect.id] = effect
            self._end(row, CompensationState.CANCELLED)
            return
        known = effect.state not in (CallState.INTENT, CallState.IN_DOUBT)
        if not known:
            self._end(row, CompensationState.IN_DOUBT, Reason.FORWARD_IN_DOUBT)
            return
        effect = replace(effect, standing=STANDING_OF_CALL[effect.state])
        self.effects[effect.id] = effect
        self._settled.append(effect)
        if effect.standing is not None:
            self._standings.append((effect.id, effect.standing))
        self._as_agreed(row, now)

    def _as_agreed(self, row: CompensationRow, now: int) -> CompensationRow | None:
        """The row, with what its effect has turned out to be since the run began; None: it ends.

        It says so too where a process has settled a doubt and died before it went on. An effect
        without a standing never happened: those that have none when a run begins are no members.
        """
        effect = self.effects[row.effect_id]
        if effect.standing is None:
            self._end(row, CompensationState.REVERTED, Reason.NEVER_HAPPENED)
            return None
        verb = verb_of(effect, now=now)
        if verb is row.verb or (row.verb is Verb.CANCEL and effect.cancel):
            return row
        if verb is Verb.REVERT:
            return self._write(row, verb=verb)
        cover = row.covered_by and self.effects[row.covered_by]
        if cover and covers(cover, effect, now=now):
            return row
        if row.verb is Verb.CANCEL:  # it was sent before it was taken back
            self._end(row, CompensationState.NEEDS_YOU, Reason.TOO_LATE)
        else:
            self._needs_you(row)
        return None

    # Ends

    def _give_up(self, row: CompensationRow, reason: Reason) -> None:
        """No call may be sent any more: what is known of those that were says how it ends."""
        phases = {call.phase for call in self._sent(row)}
        if phases & {CallPhase.UNKNOWN, CallPhase.DEFERRED, CallPhase.INTENT}:
            self._end(row, CompensationState.IN_DOUBT, reason)
            return
        if CallPhase.APPLIED in phases:
            self._end(row, CompensationState.PARTLY, reason)
            return
        if row.attempts or reason is Reason.UNREADABLE:
            self._end(row, CompensationState.FAILED, reason)
            return
        self._end(row, CompensationState.NOT_STARTED, reason)
        return

    def _end(
        self,
        row: CompensationRow,
        state: CompensationState,
        reason: Reason | None = None,
        *,
        because: str | None = None,
        world: drift.State | None = None,
        values: tuple[drift.LeafValues, ...] = (),
        ledger: tuple[drift.LedgerEntry, ...] = (),
    ) -> None:
        """The end of a compensation; `world` is what was read last."""
        effect = self.effects[row.effect_id]
        basis = self._own(row)
        row = self._write(
            row,
            state=state,
            reason=reason,
            because=because,
            wait_until=None,
            values=values,
            claims=residue.claims(
                basis,
                state,
                world=world,
                strayed=self._strayed(row, world),
                earlier=row.claims,
            ),
        )
        self._ready = None
        for entry in ledger:
            self._ledger.append(entry)
            self._known.setdefault(entry.resource, []).append(entry)
        standing = STANDING_AFTER.get(state)
        if state is CompensationState.IN_DOUBT and row.attempts:
            standing = Standing.IN_DOUBT
        if reason is Reason.NEVER_HAPPENED:
            self._standings.append((effect.id, None))
        elif standing is not None:
            self._standings.append((effect.id, standing))
        left = residue.of(effect, row)
        if left is not None:
            self._residues.append(left)

    def _strayed(self, row: CompensationRow, world: drift.State | None) -> frozenset[drift.Cell]:
        """What has changed beside the leaves to be put back since the inverse was checked."""
        if world is None or row.rest is None or not row.attempts:
            return frozenset()
        own = self._verified(row)
        part = own.part(world)
        if drift.digest(drift.beside(own, part)) == row.rest:
            return frozenset()
        return drift.differing(part, own.expected) - own.writes

    # Writing

    def _affords(self, *, calls: int = 0, reads: int = 0) -> bool:
        return self.row.spent.reserve(self.row.budget, calls=calls, reads=reads) is not None

    def _reserve(self, *, calls: int = 0, reads: int = 0) -> bool:
        spent = self.row.spent.reserve(self.row.budget, calls=calls, reads=reads)
        if spent is None:
            return False
        self._write_run(spent=spent)
        return True

    def _write_run(self, **members: Any) -> None:
        self.row = replace(self.row, **members)
        self._run_changed = True

    def _write(self, row: CompensationRow, **members: Any) -> CompensationRow:
        row = replace(row, **members)
        self.compensations[row.effect_id] = row
        self._changed.add(row.effect_id)
        return row

    def _write_call(self, call: CompensationCallRow, **members: Any) -> None:
        key = call.effect_id, call.n
        self.calls[key] = replace(call, **members)
        self._changed_calls.add(key)
