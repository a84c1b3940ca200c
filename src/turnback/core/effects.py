"""Effects: what a call outside did, as the log holds it, and where it stands (undo.md 1–4).

The words here are those of the log's tables, of the frames and of the report. A **leaf** is one
value of a resource's state, at a path from the resource to it; a resource without any leaf is not
there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
Scalar = bool | int | float | str

LeafPath = tuple[str, ...]
"""The name of a part of the state, then the members down to the leaf.

An element of a list is its index, its id where the list goes by id, or its own canonical JSON where
the list is a set.
"""

Leaves = Mapping[LeafPath, Json]


class EffectClass(StrEnum):
    """How far one call can be taken back; from the mildest to the worst."""

    READ = "read"
    REVERSIBLE = "reversible"
    COMPENSABLE = "compensable"
    IRREVERSIBLE = "irreversible"


def worst(classes: Iterable[EffectClass]) -> EffectClass:
    """The worst of some classes; `READ` of none."""
    return max(classes, key=_ORDER.__getitem__, default=EffectClass.READ)


_ORDER = {class_: at for at, class_ in enumerate(EffectClass)}


class CallState(StrEnum):
    """What is known of a call. `INTENT` never means that it did not happen.

    `HELD`: committed, and surely not sent yet.
    """

    HELD = "held"
    INTENT = "intent"
    DONE = "done"
    DONE_UNCHANGED = "done_unchanged"
    FAILED_CLEAN = "failed_clean"
    FAILED_DIRTY = "failed_dirty"
    IN_DOUBT = "in_doubt"


class Standing(StrEnum):
    """Where an effect stands in the world, wherever HEAD is (undo.md 3)."""

    IN_FORCE = "in_force"
    REVERTED = "reverted"
    COMPENSATED = "compensated"
    CANCELLED = "cancelled"
    IN_DOUBT = "in_doubt"
    PARTLY = "partly"


def lies_under(path: LeafPath, some: Iterable[LeafPath]) -> bool:
    """Whether a leaf is one of these, or lies under one."""
    return any(path[: len(one)] == one for one in some)


STANDING_OF_CALL: Mapping[CallState, Standing | None] = {
    CallState.HELD: Standing.IN_FORCE,
    CallState.INTENT: Standing.IN_DOUBT,
    CallState.DONE: Standing.IN_FORCE,
    CallState.DONE_UNCHANGED: None,
    CallState.FAILED_CLEAN: None,
    CallState.FAILED_DIRTY: Standing.PARTLY,
    CallState.IN_DOUBT: Standing.IN_DOUBT,
}
"""The standing that a call begins with; None: nothing stands, and nothing is to be undone.

What is held back will be sent unless somebody takes it back: it is in force.
"""


class Verb(StrEnum):
    """What an undo does with an effect."""

    REVERT = "revert"
    COMPENSATE = "compensate"
    CANCEL = "cancel"
    ACKNOWLEDGE = "acknowledge"


@dataclass(frozen=True, slots=True)
class ResourceKey:
    """A thing in the world: by which connection it is reached, its kind, and its key there.

    `key` has the values of the members that the contract names, in its order; never one joined
    text.
    """

    connection: str
    kind: str
    key: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool of the effect's own connection, with its arguments.

    `if_match` has arguments that are filled in from the last read before it is sent (the contract's
    templates over `now` and `key`; `choose.guarded` fills them). `confirmed` is, for a cancel, the
    condition that its result has to meet to be one. `key_ms` is for how long the tool honours an
    idempotency key, 0 where it takes none; `key` where it goes, as the contract says it.
    """

    tool: str
    args: Mapping[str, Json]
    if_match: Mapping[str, Json] = field(default_factory=dict)
    confirmed: Mapping[str, Json] | None = None
    key_ms: int = 0
    key: Mapping[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class Touch:
    """One resource of a call: its leaves before it, and those that the call wrote.

    `before` is None where it could not be read. `wrote` has the values as they were after the
    call; a leaf that the call removed is in `removed`. `identity` names the parts of the state
    that tell this thing from another one under the same key; `children` is what lay in it after
    the call, and before one that took it away. `taken` are leaves, or what they lie under, whose
    values a narrow inverse takes from `before`: these it writes, changed by the call or not.
    `unsure` are leaves, or what they lie under, that the call may have written: those that were
    others when somebody looked long after it, and all of a thing of which nobody saw what it did.
    None of them is in `wrote`.
    """

    resource: ResourceKey
    before: Leaves | None
    wrote: Leaves
    removed: frozenset[LeafPath] = frozenset()
    identity: frozenset[str] = frozenset()
    children: tuple[ResourceKey, ...] = ()
    taken: frozenset[LeafPath] = frozenset()
    unsure: frozenset[LeafPath] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One call that changed, or may have changed, the world, as the log has it.

    `number` counts a session's effects in the order of their intents. `case` names the case of
    the contract that the call fell under, `contract` the contract's own hash; `inverse` are the
    calls that would put things back, None where there are none or they are not known yet.
    `needs` are resources without which its inverse cannot be made. `tells`: it told people, of
    whom `people` are those that are named; `names` has what they may be shown of it (subject,
    date, amount). `residue` is the template of what it leaves, `not_kept` what the inverse does
    not bring back. `hold_until`, `cancel_until` and `settles_at` are in ms since the epoch. Of a
    `purged` one nothing is left to put back. A `restored` one came out of a backup: what was done
    since then is not known. `agentic` has the bounds of the agent that may offset it, as its
    contract has them.
    """

    id: str
    session_id: str
    turn_id: str
    step_id: str
    number: int
    tool_call_id: str
    connection: str
    tool: str
    contract: str | None
    class_: EffectClass
    case: int | None
    state: CallState
    standing: Standing | None
    args: Mapping[str, Json]
    result: Json = None
    inverse: tuple[Call, ...] | None = None
    touches: tuple[Touch, ...] = ()
    inside: tuple[ResourceKey, ...] = ()
    covers: tuple[ResourceKey, ...] = ()
    needs: tuple[ResourceKey, ...] = ()
    narrow: bool = False
    tells: bool = False
    people: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    residue: str | None = None
    not_kept: tuple[str, ...] = ()
    at: int = 0
    hold_until: int | None = None
    cancel: tuple[Call, ...] | None = None
    cancel_until: int | None = None
    settles_at: int | None = None
    purged: bool = False
    restored: bool = False
    agentic: Mapping[str, Json] | None = None
