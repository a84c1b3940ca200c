"""What a run asks for next, and what it is told of it: the two vocabularies of `run`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from turnback.core.drift import Seen
from turnback.core.effects import Call, Effect, ResourceKey
from turnback.core.undo.budget import Spent
from turnback.core.undo.rows import Outcome


class Why(StrEnum):
    """What a read is for: before the inverse, after a doubt, between two of its calls, after it."""

    CHECK = "check"
    READ_BACK = "read_back"
    BETWEEN = "between"
    VERIFY = "verify"


@dataclass(frozen=True, slots=True)
class Settle:
    """Find out, by look-up or read-back, whether a forward call in doubt took effect.

    Where neither tells, it may be made once more by its key if it `replays`.
    """

    effect_id: str
    replays: bool = False


@dataclass(frozen=True, slots=True)
class TakeBackHeld:
    """Take a call off that is held back and not sent: a compare-and-set of our own rows."""

    effect_id: str


@dataclass(frozen=True, slots=True)
class Read:
    """Read these resources and, to verify, see what the contract's own test says."""

    effect_id: str
    why: Why
    resources: tuple[ResourceKey, ...]


@dataclass(frozen=True, slots=True)
class Send:
    """Make this call with this key. What has changed is to be committed first."""

    effect_id: str
    n: int
    key: str
    call: Call


@dataclass(frozen=True, slots=True)
class Delegate:
    """Have an agent offset this effect, as its contract bounds it. Commit first, as of `Send`."""

    effect_id: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before this time, in ms."""

    until: int


@dataclass(frozen=True, slots=True)
class StandDown:
    """The lease is over: send and write nothing more; another process goes on."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The run is over; None: it had nothing to do."""

    outcome: Outcome | None


Action = Settle | TakeBackHeld | Read | Send | Delegate | Wait | StandDown | Finish


class Answer(StrEnum):
    """What came of sending a call.

    `REFUSED` is an answer for good, an error in the body of a success included; `TRANSIENT` one
    that says not now. `LOST`: sent, and no answer.
    """

    OK = "ok"
    REFUSED = "refused"
    TRANSIENT = "transient"
    NOT_SENT = "not_sent"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Settled:
    """The effect with what is known of it now; its state may still be in doubt."""

    effect: Effect


@dataclass(frozen=True, slots=True)
class HeldTaken:
    """A call that was held back, as it is now: taken back in time, or sent all the same."""

    effect: Effect


@dataclass(frozen=True, slots=True)
class BrokenOff:
    """The run was stopped while the things of this effect were waited for."""

    effect_id: str


@dataclass(frozen=True, slots=True)
class Reserved:
    """What the run has spent with what an agent is about to spend of it."""

    spent: Spent


@dataclass(frozen=True, slots=True)
class Delegated:
    """An agent has ended. `finished`: by itself; `acted`: a call of it was made."""

    effect_id: str
    finished: bool
    acted: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    """What was read. `passes` is the contract's test of the compensation, None without one or when
    what it looks at is not known.

    `for_good`: what could not be read will not be readable by waiting (no right to it any more).
    `adds`: the call of the inverse that was made last makes something new, as its tool's own
    contract says, and touches nothing of what was read.
    """

    effect_id: str
    why: Why
    seen: Seen
    passes: bool | None = None
    for_good: bool = False
    adds: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of a call. `confirmed` is, of a cancel, the vendor's word that it was in time.

    `made` are the things that it has brought into being, as the called tool's own contract says;
    `may_have_made`: it was refused, and that contract cannot tell whether it made any all the same.
    """

    effect_id: str
    n: int
    answer: Answer
    detail: str = ""
    confirmed: bool | None = None
    made: tuple[ResourceKey, ...] = ()
    may_have_made: bool = False


Event = Settled | HeldTaken | BrokenOff | Reserved | Delegated | Observed | Answered
