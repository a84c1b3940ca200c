"""What the store holds of an undo run: from these rows alone any process goes on with it.

No value of the world is in them, but for those that a residue shows to a person (`LeafValues`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from turnback.core.drift import LeafValues, LedgerEntry
from turnback.core.effects import Effect, LeafPath, ResourceKey, Standing, Verb
from turnback.core.undo.budget import Budget, Spent


class CompensationState(StrEnum):
    """Where one compensation is, or how it ended (undo.md 5).

    `INTENT` never means that the call did not happen; `SENT` that it went out and its answer is
    not enough to know what it did.
    """

    PENDING = "pending"
    CHECKING = "checking"
    INTENT = "intent"
    SENT = "sent"
    VERIFYING = "verifying"
    REVERTED = "reverted"
    COMPENSATED = "compensated"
    CANCELLED = "cancelled"
    NEEDS_YOU = "needs_you"
    NEEDS_REVIEW = "needs_review"
    IN_DOUBT = "in_doubt"
    PARTLY = "partly"
    BLOCKED = "blocked"
    FAILED = "failed"
    NOOP_INVERSE = "noop_inverse"
    NOT_STARTED = "not_started"


UNDER_WAY = frozenset(
    {
        CompensationState.PENDING,
        CompensationState.CHECKING,
        CompensationState.INTENT,
        CompensationState.SENT,
        CompensationState.VERIFYING,
    }
)
"""The states that are not an end."""


class Reason(StrEnum):
    """Why a compensation ended as it did, where its state alone does not say."""

    ALREADY = "already"
    COVERED = "covered"
    NEVER_HAPPENED = "never_happened"
    IRREVERSIBLE = "irreversible"
    PURGED = "purged"
    TOO_LATE = "too_late"
    TOOL_CHANGED = "tool_changed"
    RESTORED = "restored"
    AGENT = "agent"
    DRIFT = "drift"
    RECREATED = "recreated"
    OCCUPIED = "occupied"
    UNREADABLE = "unreadable"
    REFUSED = "refused"
    ATTEMPTS = "attempts"
    NOTHING_CHANGED = "nothing_changed"
    UNCHECKED = "unchecked"
    LOST = "lost"
    FORWARD_IN_DOUBT = "forward_in_doubt"
    DEPENDENT = "dependent"
    LATER_CALL = "later_call"
    BUDGET = "budget"
    DEADLINE = "deadline"
    POLICY = "policy"
    STOPPED = "stopped"


class CallPhase(StrEnum):
    """What is known of one call of an inverse. `INTENT` never means that it did not happen.

    `DEFERRED` is an answer that says not now. `NOT_APPLIED` is known by a definite answer and a
    read-back: only then does the round of the next run rise.
    """

    INTENT = "intent"
    APPLIED = "applied"
    NOT_SENT = "not_sent"
    DEFERRED = "deferred"
    NOT_APPLIED = "not_applied"
    UNKNOWN = "unknown"


class Because(StrEnum):
    """Why one effect is undone before another; the strongest reason first."""

    COVER = "cover"
    SAME_RESOURCE = "same_resource"
    CONTAINMENT = "containment"
    EXPLICIT = "explicit"
    DATA_FLOW = "data_flow"


class Policy(StrEnum):
    """What a failure for good does to the rest: nothing is started, or the unrelated goes on."""

    STOP = "stop"
    INDEPENDENT = "independent"


class RunStatus(StrEnum):
    """Whether a run is under way."""

    RUNNING = "running"
    ENDED = "ended"


class Outcome(StrEnum):
    """How far a run took its members back; computed, never set (undo.md 6)."""

    FULLY_REVERTED = "fully_reverted"
    PARTIALLY_REVERTED = "partially_reverted"
    NOT_REVERTED = "not_reverted"


class ResidueStatus(StrEnum):
    """What has become of a residue. None of them raises an outcome."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    SETTLED = "settled"


class Fix(StrEnum):
    """Who can do something about a residue."""

    YOU = "you"
    PEOPLE = "people"
    ADMINISTRATOR = "administrator"
    LATER_UNDO = "later_undo"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Claim:
    """A leaf that a residue accounts for; `()` as the path is the whole resource, never read.

    `theirs` is a leaf whose value is not ours either; `made` is a thing that an inverse has brought
    into being beside those that were touched.
    """

    resource: ResourceKey
    path: LeafPath
    theirs: bool = False
    made: bool = False


@dataclass(frozen=True, slots=True)
class WaitsFor:
    """That another member ends first, and why."""

    effect_id: str
    why: Because


@dataclass(frozen=True, slots=True, kw_only=True)
class CompensationRow:
    """One member of a run.

    `position` is its place in the order; `waits_for` are those that end before it starts. What
    `covered_by` names puts this one back as well. `because` is the effect that `reason`
    speaks of; `detail` what a tool answered, cut. `seen` and `rest` are digests: of what was read
    last, and of what lay beside the leaves to be put back when it was checked; `left_as` is how an
    earlier run left it; `claims` are that run's until this one has ended. `wait_until` is in ms
    since the epoch, `attempts` counts sendings in this run, `reads_failed` readings in a row that
    came to nothing. `confirmed` is the vendor's word for a cancel. `overwrites` are values of
    somebody else's that a person has seen and wants overwritten.
    """

    run_id: str
    effect_id: str
    position: int
    verb: Verb
    waits_for: tuple[WaitsFor, ...] = ()
    covered_by: str | None = None
    state: CompensationState = CompensationState.PENDING
    reason: Reason | None = None
    because: str | None = None
    detail: str = ""
    attempts: int = 0
    reads_failed: int = 0
    seen: str | None = None
    rest: str | None = None
    left_as: str | None = None
    wait_until: int | None = None
    confirmed: bool | None = None
    values: tuple[LeafValues, ...] = ()
    claims: tuple[Claim, ...] = ()
    overwrites: tuple[LeafValues, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompensationCallRow:
    """One call of an inverse, `n` its ordinal from 1; `round` is part of its key (undo.md 2).

    `first_sent_at` is when this round's first attempt was begun, in ms.
    """

    run_id: str
    effect_id: str
    n: int
    round: int
    key: str
    phase: CallPhase
    attempts: int
    first_sent_at: int
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run of a plan. `generation` counts the runs that went on with the same effects."""

    id: str
    plan_id: str
    session_id: str
    generation: int
    policy: Policy
    budget: Budget
    started_at: int
    spent: Spent = field(default_factory=Spent)
    status: RunStatus = RunStatus.RUNNING
    stopped: bool = False
    outcome: Outcome | None = None
    ended_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidueRow:
    """What an undo left of one effect: a template and what is put into it, no sentence.

    `template` names it in `words`; `people`, `names`, `tool` and `reason` are what the template
    speaks of. `since` and `settles_at` are in ms. `claims` are the leaves that it accounts for.
    """

    run_id: str
    effect_id: str
    verb: Verb
    template: str
    tool: str
    people: tuple[str, ...]
    names: tuple[tuple[str, str], ...]
    reason: Reason | None
    detail: str
    since: int
    settles_at: int | None
    fix: Fix
    claims: tuple[Claim, ...]
    values: tuple[LeafValues, ...] = ()
    status: ResidueStatus = ResidueStatus.OPEN


@dataclass(frozen=True, slots=True)
class Changes:
    """What one commit writes: whole rows, by their keys, and what follows from them.

    `effects` are those whose doubt was settled; `standings` has an effect's new standing, None
    where it turned out that nothing had happened.
    """

    run: RunRow | None = None
    compensations: tuple[CompensationRow, ...] = ()
    calls: tuple[CompensationCallRow, ...] = ()
    residues: tuple[ResidueRow, ...] = ()
    effects: tuple[Effect, ...] = ()
    standings: tuple[tuple[str, Standing | None], ...] = ()
    ledger: tuple[LedgerEntry, ...] = ()

    def __bool__(self) -> bool:
        return self != Changes()
