"""The rows of a run as they stand, and those that changed since they were last committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from turnback.core import drift
from turnback.core.effects import Call, Effect, EffectClass, ResourceKey, Standing, Verb
from turnback.core.undo.budget import UndoLimits
from turnback.core.undo.rows import (
    Changes,
    CompensationCallRow,
    CompensationRow,
    ResidueRow,
    RunRow,
)


class RunRows:
    """One run as its rows say.

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
        self.prior: dict[tuple[str, int], CompensationCallRow] = {}
        self.earlier_attempts: dict[tuple[str, int], int] = {}
        for call in prior:
            key = call.effect_id, call.n
            self.prior[key] = call
            self.earlier_attempts[key] = self.earlier_attempts.get(key, 0) + call.attempts
        self.known = {key: list(entries) for key, entries in (ledger or {}).items()}
        self.barred = barred or {}
        self.ready: str | None = None  # the effect that was just checked, or read between calls
        self.looked: tuple[str, drift.State] | None = None  # what was read since the last call
        self._changed: set[str] = set()
        self._changed_calls: set[tuple[str, int]] = set()
        self._run_changed = False
        self._residues: list[ResidueRow] = []
        self._settled: list[Effect] = []
        self._standings: list[tuple[str, Standing | None]] = []
        self._ledger: list[drift.LedgerEntry] = []

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

    def calls_of(self, row: CompensationRow) -> tuple[Call, ...]:
        """The calls that take an effect back by itself; none where there is no such way."""
        effect = self.effects[row.effect_id]
        if row.verb is Verb.CANCEL:
            return effect.cancel or ()
        if effect.purged or effect.class_ is EffectClass.IRREVERSIBLE:
            return ()
        return effect.inverse or ()

    # What is known of a member

    def sent(self, row: CompensationRow) -> list[CompensationCallRow]:
        """This run's calls of a compensation, in order."""
        return [call for (id_, _), call in sorted(self.calls.items()) if id_ == row.effect_id]

    def covered(self, row: CompensationRow) -> list[Effect]:
        """What its inverse puts back as well."""
        return [
            self.effects[other.effect_id]
            for other in self.compensations.values()
            if other.covered_by == row.effect_id
        ]

    def own(self, row: CompensationRow) -> drift.Basis:
        """What the effect itself wrote, and what it is to be put back to."""
        return drift.basis(self.effects[row.effect_id], ledger=self.known)

    def whole(self, row: CompensationRow) -> drift.Basis:
        """With what it covers: its inverse writes over that as well."""
        return drift.basis(self.effects[row.effect_id], with_=self.covered(row), ledger=self.known)

    def verified(self, row: CompensationRow) -> drift.Basis:
        """What is held against it afterwards; what it covers is verified by itself."""
        return self.whole(row).only(self.own(row))

    def looked_at(self, row: CompensationRow) -> drift.State | None:
        """Its things as they were read since its last call; None: nothing was."""
        if self.looked is None or self.looked[0] != row.effect_id:
            return None
        return self.looked[1]

    # Writing

    def affords(self, *, calls: int = 0, reads: int = 0) -> bool:
        """Whether the budget still has so much."""
        return self.row.spent.reserve(self.row.budget, calls=calls, reads=reads) is not None

    def reserve(self, *, calls: int = 0, reads: int = 0) -> bool:
        """Take so much of the budget; False, and nothing taken, where it has less."""
        spent = self.row.spent.reserve(self.row.budget, calls=calls, reads=reads)
        if spent is None:
            return False
        self.write_run(spent=spent)
        return True

    def write_run(self, **members: Any) -> None:
        self.row = replace(self.row, **members)
        self._run_changed = True

    def write(self, row: CompensationRow, **members: Any) -> CompensationRow:
        row = replace(row, **members)
        self.compensations[row.effect_id] = row
        self._changed.add(row.effect_id)
        return row

    def write_call(self, call: CompensationCallRow, **members: Any) -> None:
        key = call.effect_id, call.n
        self.calls[key] = replace(call, **members)
        self._changed_calls.add(key)

    def settle(self, effect: Effect) -> None:
        """What has become of a forward call that was in doubt."""
        self.effects[effect.id] = effect
        self._settled.append(effect)

    def stands(self, effect_id: str, standing: Standing | None) -> None:
        """An effect's new standing; None: nothing of it ever happened."""
        self._standings.append((effect_id, standing))

    def wrote(self, entries: Iterable[drift.LedgerEntry]) -> None:
        """Leaves that were written, by us or, as was just seen, by somebody else."""
        for entry in entries:
            self._ledger.append(entry)
            self.known.setdefault(entry.resource, []).append(entry)

    def leave(self, residue: ResidueRow) -> None:
        """What an end leaves for a person."""
        self._residues.append(residue)
