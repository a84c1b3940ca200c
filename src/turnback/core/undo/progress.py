"""An undo as everybody is told of it who may read its session: ids, states and counts, no names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from turnback.core.effects import Effect, Standing, Verb
from turnback.core.undo.budget import Spent
from turnback.core.undo.outcome import counts
from turnback.core.undo.rows import (
    CompensationRow,
    CompensationState,
    Outcome,
    Reason,
    ResidueRow,
    ResidueStatus,
    RunRow,
    RunStatus,
)


class Phase(StrEnum):
    """Where an undo is: looked at, under way, ended; `SETTLED`: a residue has changed since."""

    PLAN = "plan"
    RUN = "run"
    ENDED = "ended"
    SETTLED = "settled"


class Check(StrEnum):
    """What a plan's look at the world found of a member, as far as it has looked.

    `GO`: as our last write left it; `ALREADY`: as it was before; `REVIEW`: changed by somebody
    else; `UNREADABLE`: it cannot be read. `UNCHECKED` is all that a plan from the log alone knows.
    """

    UNCHECKED = "unchecked"
    GO = "go"
    ALREADY = "already"
    REVIEW = "review"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class ResidueTold:
    """A residue without what it says: which template, and what has become of it. In ms."""

    residue_id: str
    template: str
    status: ResidueStatus
    settles_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemTold:
    """One member: what is done with it, and how that stands."""

    effect_id: str
    turn_id: str
    verb: Verb
    state: CompensationState
    reason: Reason | None = None
    standing: Standing | None = None
    check: Check = Check.UNCHECKED
    residue: ResidueTold | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A plan or a run at one instant, whole. `undo_id` is None as long as nothing was started.

    Of two with the same ids the one with the higher `revision` is the newer. `counts` are those of
    a report.
    """

    plan_id: str
    undo_id: str | None
    revision: int
    phase: Phase
    by: str
    items: tuple[ItemTold, ...]
    spent: Spent = field(default_factory=Spent)
    outcome: Outcome | None = None
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def turn_ids(self) -> tuple[str, ...]:
        """The turns that its members belong to, in the order of the undo."""
        return tuple(dict.fromkeys(item.turn_id for item in self.items))


def progress(
    run: RunRow,
    members: Iterable[CompensationRow],
    effects: Mapping[str, Effect],
    residues: Iterable[tuple[str, ResidueRow]] = (),
    *,
    revision: int,
    by: str,
    phase: Phase | None = None,
) -> Progress:
    """A run as it is told; `residues` are with their ids, `effects` by id.

    Without a `phase` it is under way or ended, as the run is.
    """
    left = {row.effect_id: (id_, row) for id_, row in residues}
    rows = sorted(members, key=lambda row: row.position)
    ended = Phase.ENDED if run.status is RunStatus.ENDED else Phase.RUN
    return Progress(
        plan_id=run.plan_id,
        undo_id=run.id,
        revision=revision,
        phase=phase or ended,
        by=by,
        items=tuple(_item(row, effects[row.effect_id], left.get(row.effect_id)) for row in rows),
        spent=run.spent,
        outcome=run.outcome,
        counts={count.value: number for count, number in counts(rows).items()},
    )


def _item(row: CompensationRow, effect: Effect, left: tuple[str, ResidueRow] | None) -> ItemTold:
    return ItemTold(
        effect_id=effect.id,
        turn_id=effect.turn_id,
        verb=row.verb,
        state=row.state,
        reason=row.reason,
        standing=effect.standing,
        residue=None
        if left is None
        else ResidueTold(left[0], left[1].template, left[1].status, left[1].settles_at),
    )
