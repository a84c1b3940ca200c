"""What the store takes and gives: session rows, records, and what a commit writes beside events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from turnback.core.approvals import Approval
from turnback.core.effects import ResourceKey, Standing
from turnback.core.lineage import Position
from turnback.core.pending import PendingAction
from turnback.core.principal import Right, Visibility
from turnback.core.run_settings import RunSettings, RunSettingsChange
from turnback.core.tree import Event, State, Step
from turnback.core.undo.rows import Changes, ResidueRow, RunRow
from turnback.store.outbox import Notice


@dataclass(frozen=True, slots=True)
class SessionKey:
    """A session's place: the root of its family, and its own id."""

    root_id: str
    id: str


@dataclass(frozen=True, slots=True)
class ListPlace:
    """A session's place in a list that is newest first; of equal times, by its id.

    A fork's id may be one that its client chose, and says nothing of when it was made.
    """

    created_at: datetime
    id: str


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session as listed."""

    key: SessionKey
    project_id: str
    owner: str
    name: str
    model: str
    head: Position
    redo_depth: int
    revision: int
    events_floor: int
    state: State
    fence: int
    workflow_hash: str
    initial_hash: str
    created_at: datetime
    updated_at: datetime
    archived_at: datetime | None
    settings: RunSettings
    visibility: Visibility
    pending: PendingAction | None = None

    @property
    def place(self) -> ListPlace:
        """Where it is in a list."""
        return ListPlace(self.created_at, self.key.id)


@dataclass(frozen=True, slots=True)
class Record:
    """A step as stored: the light half, and its payload as JSON text.

    The payload's members are those of the wire's step that no column holds: `content`,
    `toolCalls`, `toolResults`, `usage`, `effects`, `messageSource`, `attachments`, `edits`.
    """

    step: Step
    payload: str
    principal: str
    event_seq: int
    created_at: datetime

    @property
    def timestamp(self) -> int:
        """When it was written, ms since the epoch."""
        return round(self.created_at.timestamp() * 1000)


# -- guards: under which condition a commit takes effect (lineage.md 3)


@dataclass(frozen=True, slots=True)
class Idle:
    """AVAILABLE, and nothing written since `revision`. `claims` raises the fence for a new run."""

    revision: int
    claims: bool = False


@dataclass(frozen=True, slots=True)
class Holder:
    """The run that holds `fence`, with HEAD where it left it. The revision is not compared."""

    fence: int
    head_step: str


@dataclass(frozen=True, slots=True)
class Generating:
    """A run is under way, whoever holds it: what a stop needs."""


@dataclass(frozen=True, slots=True)
class Takeover:
    """A run whose holder is dead: its fence is still `fence`, and is raised.

    HEAD is compared too: a statement of the dead holder may still have been under way.
    """

    fence: int
    head_step: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A turn waits for a person, and nothing was written since `revision`.

    `claims` raises the fence, for the run that goes on with it.
    """

    revision: int
    claims: bool = False


@dataclass(frozen=True, slots=True)
class Alive:
    """The session is not deleted: what a rename needs."""


@dataclass(frozen=True, slots=True)
class Undoing:
    """An undo's run holds the session by `fence`, and nothing was written since `revision`."""

    revision: int
    fence: int


@dataclass(frozen=True, slots=True)
class Unmoved:
    """Nothing was written since `revision`, whatever is under way: what taking note needs."""

    revision: int


Guard = Undoing | Idle | Holder | Generating | Takeover | Waiting | Alive | Unmoved


@dataclass(frozen=True, slots=True)
class Request:
    """A command's `requestId`, the hash of its content, and the answer to give again."""

    id: str
    fingerprint: bytes
    answer: str


@dataclass(frozen=True, slots=True)
class Grant:
    """What a principal may do with one session; no rights: its grant is taken back."""

    principal_id: str
    rights: frozenset[Right]


@dataclass(frozen=True, slots=True)
class SessionChange:
    """New values of the session's own columns; None leaves one as it is.

    `ends_pending`: there is no pending action any more.
    """

    name: str | None = None
    archived: bool | None = None
    model: str | None = None
    settings: RunSettingsChange | None = None
    visibility: Visibility | None = None
    grant: Grant | None = None
    pending: PendingAction | None = None
    ends_pending: bool = False
    deleted: bool = False

    @property
    def of_rights(self) -> bool:
        """Whether somebody may now do more or less than before."""
        return self.visibility is not None or self.grant is not None


@dataclass(frozen=True, slots=True)
class UnderWay:
    """An undo's run that has not ended; `revision` is that of what was told of it last."""

    id: str
    plan_id: str
    revision: int
    stopped: bool


@dataclass(frozen=True, slots=True)
class UndoBegins:
    """What only the first commit of an undo's run writes, or is held to.

    `plan` as it was agreed to; how its effects stand, and how far the ledgers of their resources
    had come when it was made. `overwrites` is the residue whose values are overwritten by it.
    """

    plan: Mapping[str, object]
    standings: tuple[tuple[str, Standing | None], ...]
    positions: tuple[tuple[ResourceKey, int], ...]
    overwrites: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoWrite:
    """What a commit writes of an undo's run, which is as `run` then.

    `revision` is that of what is told of it; `residues` are the changes' with their ids; the states
    of the effects that are `secret` are sealed. `acknowledges` is a residue of it that a person has
    taken note of: then nothing else is written, and the run may have ended long ago. Those of its
    locks are dropped whose fences `lets_go` has.
    """

    run: RunRow
    revision: int
    changes: Changes = field(default_factory=Changes)
    residues: tuple[tuple[str, ResidueRow], ...] = ()
    secret: frozenset[str] = frozenset()
    begins: UndoBegins | None = None
    acknowledges: str | None = None
    lets_go: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Commit:
    """One transaction: what the core said, what is told of it, and what that refers to.

    `id` marks its events, so that a commit whose answer was lost can be looked up; a commit that
    appends a step has that step's. `payload` is that of the one appended step, if any, and
    `attachments` are the ids that it names. `closes`: the appended step is the open one, which is
    open no more. `approvals` are asked for or decided.
    `undo` is what is written of an undo's run.
    """

    id: str
    key: SessionKey
    principal: str
    now: datetime
    guard: Guard
    events: tuple[Event, ...] = ()
    notices: tuple[Notice, ...] = ()
    payload: str | None = None
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    request: Request | None = None
    node_id: str | None = None
    change: SessionChange | None = None
    attachments: tuple[str, ...] = ()
    closes: bool = False
    approvals: tuple[Approval, ...] = ()
    undo: UndoWrite | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """What the session row says after a commit."""

    revision: int
    state: State
    fence: int
