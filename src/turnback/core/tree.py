"""The step tree: HEAD, the redo stack, branches, the one run. A command in, events out.

A `Tree` is one session's state in memory. Each command is a method that either returns the events
it leads to, having changed nothing, or raises a `Refusal`, having changed nothing. The caller
makes the events durable and then hands them to `Tree.apply`, which cannot fail. The rules are
those of protocol.md ("Rules of HEAD", "Order") and lineage.md 1.

Only the light half of a step lives here: places, parents, content addresses. What was said is the
store's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import assert_never

from turnback.core.errors import (
    BranchLimit,
    Busy,
    HistoryMissing,
    HistoryPurged,
    NothingToRedo,
    NotOnPath,
    Refusal,
    StaleHead,
    TurnbackError,
    UnknownStep,
    UnknownTurn,
)
from turnback.core.lineage import (
    ROOT,
    ROOT_ID,
    Branch,
    Position,
    branch_off,
    held,
    on_path,
)
from turnback.core.values import counted


class State(StrEnum):
    """A session's state on the wire (`AgentState`). `UNAVAILABLE` is never stored."""

    AVAILABLE = "AVAILABLE"
    GENERATING = "GENERATING"
    STOPPING = "STOPPING"
    UNAVAILABLE = "UNAVAILABLE"


class Role(StrEnum):
    """Who speaks in a step."""

    USER = "user"
    AGENT = "agent"


class TurnKind(StrEnum):
    """A prompt and its answer, or a person's own edit of the canvas."""

    PROMPT = "prompt"
    EDIT = "edit"


class EndReason(StrEnum):
    """Why a turn's last record is its last."""

    COMPLETE = "complete"
    STOPPED = "stopped"
    FAILED = "failed"
    LIMIT = "limit"
    INTERRUPTED = "interrupted"


class TurnStatus(StrEnum):
    """Where a turn stands."""

    RUNNING = "running"
    WAITING = "waiting"
    COMPLETE = "complete"
    STOPPED = "stopped"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


UNDER_WAY = frozenset({TurnStatus.RUNNING, TurnStatus.WAITING})
"""The statuses of a turn that has not ended."""

STATUS_OF_END = {
    EndReason.COMPLETE: TurnStatus.COMPLETE,
    EndReason.STOPPED: TurnStatus.STOPPED,
    EndReason.FAILED: TurnStatus.FAILED,
    EndReason.LIMIT: TurnStatus.STOPPED,
    EndReason.INTERRUPTED: TurnStatus.INTERRUPTED,
}


class Cause(StrEnum):
    """What moved HEAD without a run."""

    REVERT = "revert"
    REDO = "redo"
    CHECKOUT = "checkout"
    EDIT = "edit"


@dataclass(frozen=True, slots=True)
class Step:
    """The light half of a record.

    `index` is its place in the turn (0 is the user's), `before` and `after` are content addresses
    of workflows, `end_reason` is set on the record that ends a turn.
    """

    id: str
    branch_id: str
    seq: int
    parent_id: str
    turn_id: str
    index: int
    role: Role
    before: str
    after: str
    end_reason: EndReason | None = None

    @property
    def position(self) -> Position:
        return Position(self.branch_id, self.seq, self.id)


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn, begun by the principal `by`.

    `effective_index` counts those before it on its path; `first` is a record.
    """

    id: str
    kind: TurnKind
    status: TurnStatus
    first: Position
    effective_index: int
    by: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class BranchStarted:
    branch: Branch


@dataclass(frozen=True, slots=True)
class TurnStarted:
    turn: Turn


@dataclass(frozen=True, slots=True)
class TurnEnded:
    turn_id: str
    status: TurnStatus


@dataclass(frozen=True, slots=True)
class TurnWaits:
    """The turn waits for a person: it has no run, and no process holds it."""

    turn_id: str


@dataclass(frozen=True, slots=True)
class TurnResumed:
    """The turn that waited has a run again."""

    turn_id: str


@dataclass(frozen=True, slots=True)
class StateChanged:
    """Told to everyone as a status frame."""

    state: State


@dataclass(frozen=True, slots=True)
class StepAppended:
    """HEAD moves to the new step. Told to everyone as a step frame."""

    step: Step


@dataclass(frozen=True, slots=True)
class HeadMoved:
    """HEAD moves to a record that is there already. Told to everyone as a head-change frame."""

    to: Position
    workflow: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class RedoPushed:
    position: Position


@dataclass(frozen=True, slots=True)
class RedoPopped:
    count: int


@dataclass(frozen=True, slots=True)
class RedoCleared:
    pass


Event = (
    BranchStarted
    | TurnStarted
    | TurnWaits
    | TurnResumed
    | TurnEnded
    | StateChanged
    | StepAppended
    | HeadMoved
    | RedoPushed
    | RedoPopped
    | RedoCleared
)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that the tree itself keeps (settings of the same names)."""

    max_redo_depth: int = 1_000
    max_branch_segments: int = 100_000


@dataclass(frozen=True, slots=True)
class NewIds:
    """Ids handed in for what a command may create; those not needed are not used."""

    turn: str
    step: str
    branch: str


@dataclass(frozen=True, slots=True)
class Purged:
    """What is left of a step that was purged: which turn it was of, and that turn's place."""

    turn_id: str
    effective_index: int


@dataclass(slots=True)
class Tree:
    """One session's tree in memory.

    `initial` is the content address of the session's initial workflow. Fill it with `adopt` from
    stored rows or with `apply` from events; both keep the indexes. It holds what is reachable from
    the session and nothing else: its own steps, and those of the prefix that it inherits. Of those
    that were purged, `purged` holds what is left, by id; where HEAD is one of them, `kept` is the
    content address of its workflow.
    """

    session_id: str
    initial: str
    limits: Limits = field(default_factory=Limits)
    state: State = State.AVAILABLE
    head: Position = ROOT
    redo_stack: list[Position] = field(default_factory=list)
    running: str | None = None
    branches: dict[str, Branch] = field(default_factory=dict)
    turns: dict[str, Turn] = field(default_factory=dict)
    turn_keys: dict[str, str] = field(default_factory=dict)
    steps: dict[str, Step] = field(default_factory=dict)
    children: dict[str, list[str]] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)
    purged: Mapping[str, Purged] = field(default_factory=dict)
    kept: str | None = None

    # -- reading

    @property
    def workflow(self) -> str:
        """The content address of the workflow at HEAD."""
        return self.workflow_at(self.head.step_id)

    def workflow_at(self, step_id: str) -> str:
        """The content address after `step_id`; the initial one at the root."""
        if step_id == ROOT_ID:
            return self.initial
        if self.kept is not None and step_id == self.head.step_id and step_id in self.purged:
            return self.kept
        return self._known(step_id).after

    @property
    def can_redo(self) -> bool:
        return bool(self.redo_stack)

    @property
    def waits(self) -> bool:
        """Whether the turn under way waits for a person."""
        return self.running is not None and (self.turns[self.running].status is TurnStatus.WAITING)

    def step(self, step_id: str) -> Step:
        """The reachable step of this id. Raises `UnknownStep`, `HistoryPurged`."""
        try:
            return self.steps[step_id]
        except KeyError:
            if step_id in self.purged:
                raise self._lost(step_id) from None
            raise UnknownStep(f"Unknown step: {step_id}") from None

    def position(self, step_id: str) -> Position:
        """Where a reachable step, or the root, is. Raises `UnknownStep`, `HistoryPurged`."""
        return ROOT if step_id == ROOT_ID else self.step(step_id).position

    def turn(self, turn_id: str) -> Turn:
        """The reachable turn of this id. Raises `UnknownTurn`, `HistoryPurged`."""
        try:
            return self.turns[turn_id]
        except KeyError:
            for step_id, left in self.purged.items():
                if left.turn_id == turn_id:
                    raise self._lost(step_id) from None
            raise UnknownTurn(f"Unknown turn: {turn_id}") from None

    def is_visible(self, step: Step) -> bool:
        """Whether the step lies on the path from the root to HEAD."""
        return on_path(self.branches, self.head, step.position)

    def path(self, head: Position | None = None) -> Iterator[Step]:
        """The steps from `head` (HEAD where None) back to the root, newest first.

        Raises `HistoryPurged` or `HistoryMissing` where it comes to one that is not there.
        """
        at = head or self.head
        step_id, seq = at.step_id, at.seq
        while step_id != ROOT_ID:
            step = self._known(step_id)
            if step.seq != seq:
                raise self._lost(step_id)
            yield step
            step_id, seq = step.parent_id, seq - 1

    def remaining_path(self) -> Iterator[Step]:
        """The steps from HEAD back to where the path was purged, or to the root, newest first."""
        try:
            yield from self.path()
        except HistoryPurged:
            return

    def turn_on_path(self, turn_id: str) -> Step:
        """The first step of a turn on the path to HEAD. Raises `UnknownTurn`, `NotOnPath`."""
        first = self._known(self.turn(turn_id).first.step_id)
        if not self.is_visible(first):
            raise NotOnPath("Turn is not on the current conversation path")
        return first

    def step_on_path(self, step_id: str) -> Step:
        """A step on the path to HEAD. Raises `UnknownStep`, `NotOnPath`."""
        step = self.step(step_id)
        if not self.is_visible(step):
            raise NotOnPath("Step is not on the current conversation path")
        return step

    def named_on_path(self, *, turn_id: str | None, step_id: str | None) -> Step:
        """The step that a revert is to, by its turn or by itself. Raises as the two above."""
        return self.step_on_path(step_id or "") if turn_id is None else self.turn_on_path(turn_id)

    def parent(self, step: Step) -> Position:
        """Where the step before this one is. Raises `HistoryPurged`, `HistoryMissing`."""
        return ROOT if step.parent_id == ROOT_ID else self._known(step.parent_id).position

    def turns_since(self, step: Step) -> Iterator[tuple[Turn, int]]:
        """The turns that a revert to before a `step` on the path takes back, newest first.

        Each with how many of its steps: of one that is cut in the middle, those after the cut.
        Raises `HistoryPurged` where one of them was purged, `HistoryMissing`.
        """
        tip = self.head
        while True:
            turn = self.turns[self._known(tip.step_id).turn_id]
            lowest = max(turn.first.seq, step.seq)
            yield turn, tip.seq - lowest + 1
            if lowest == step.seq:
                return
            tip = self.parent(self._known(turn.first.step_id))

    def edits_since(self, step: Step) -> list[Turn]:
        """The people's edits among `turns_since`, oldest first."""
        found = [turn for turn, _ in self.turns_since(step) if turn.kind is TurnKind.EDIT]
        return found[::-1]

    def crossed(self, step: Step, *, by: str) -> list[Turn]:
        """The edits of others that a revert by `by` to before `step` takes back, oldest first.

        One that crosses any needs to be confirmed (protocol.md, rules of HEAD).
        """
        return [turn for turn in self.edits_since(step) if turn.by != by]

    def _known(self, step_id: str) -> Step:
        """A step that another one or HEAD names. Raises `HistoryPurged`, `HistoryMissing`."""
        if step_id not in self.steps:
            raise self._lost(step_id)
        return self.steps[step_id]

    def _lost(self, step_id: str) -> TurnbackError:
        if step_id in self.purged:
            return HistoryPurged("This part of the conversation was purged", step=step_id)
        return HistoryMissing(
            "Records of this conversation are missing from the database, or damaged", step=step_id
        )

    def tip(self, step_id: str) -> str:
        """The end of the newest line that goes through `step_id`. Raises `HistoryMissing`."""
        seq = self.position(step_id).seq
        while following := self.children.get(step_id):
            step_id, seq = following[-1], seq + 1
            if self.steps[step_id].seq != seq:
                raise self._lost(step_id)
        return step_id

    # -- commands: each returns events or refuses, and changes nothing

    def expect_head(self, step_id: str | None) -> None:
        """Refuse with `StaleHead` where the caller's `expectedHeadId` is not HEAD."""
        if step_id is not None and step_id != self.head.step_id:
            raise StaleHead(
                "HEAD has moved; look at the conversation again before you go on",
                headId=self.head.step_id,
            )

    def prompt(self, ids: NewIds, *, by: str, key: str | None = None) -> tuple[Event, ...]:
        """A message of the user `by`: its turn and record, and a run that owns the session."""
        self._refuse_while_busy(
            "The agent is busy with another prompt; wait for its end or stop it"
        )
        first = self._first_step(self.head, ids, self.workflow, None)
        turn = self._turn(first.step, TurnKind.PROMPT, TurnStatus.RUNNING, by, key)
        return (
            *self._clear_redo(),
            *self._start(self.head, ids, turn),
            StateChanged(State.GENERATING),
            first,
        )

    def edit(
        self, ids: NewIds, after: str, *, by: str, key: str | None = None
    ) -> tuple[Event, ...]:
        """The canvas edit of the person `by`, which leads to the workflow `after`."""
        self._refuse_while_busy("Cannot edit while the agent is busy")
        return (*self._clear_redo(), *self._edited(self.head, ids, after, by, key))

    def append(self, step_id: str, after: str, end: EndReason | None) -> tuple[Event, ...]:
        """The running turn's next agent step; with `end` the turn's last."""
        if self.running is None:
            raise Refusal("No run is under way in this session")
        last = self.steps[self.head.step_id]
        step = Step(
            id=step_id,
            branch_id=last.branch_id,
            seq=last.seq + 1,
            parent_id=last.id,
            turn_id=last.turn_id,
            index=last.index + 1,
            role=Role.AGENT,
            before=last.after,
            after=after,
            end_reason=end,
        )
        if end is None:
            return (StepAppended(step),)
        return (
            StepAppended(step),
            TurnEnded(step.turn_id, STATUS_OF_END[end]),
            StateChanged(State.AVAILABLE),
        )

    def wait(self) -> tuple[Event, ...]:
        """The run ends where a person has to decide; the turn goes on once they have."""
        if self.running is None:
            raise Refusal("No run is under way in this session")
        return (TurnWaits(self.running),)

    def resume(self) -> tuple[Event, ...]:
        """The turn that waits goes on."""
        return (TurnResumed(self.running),) if self.running is not None and self.waits else ()

    def stop(self) -> tuple[Event, ...]:
        """Ask the run to end. Idle, or stopping already: nothing (protocol.md 1)."""
        if self.state is not State.GENERATING:
            return ()
        return (*self.resume(), StateChanged(State.STOPPING))

    def revert(self, turn_id: str) -> tuple[Event, ...]:
        """HEAD to before a turn on the path; the old HEAD goes on the redo stack."""
        self._refuse_while_busy("Cannot revert while the agent is busy")
        return self._back_before(self.turn_on_path(turn_id))

    def revert_step(self, step_id: str) -> tuple[Event, ...]:
        """HEAD to before a step on the path; the old HEAD goes on the redo stack."""
        self._refuse_while_busy("Cannot revert while the agent is busy")
        return self._back_before(self.step_on_path(step_id))

    def revert_keeping(self, step: Step, ids: NewIds, after: str, *, by: str) -> tuple[Event, ...]:
        """HEAD to before a `step` on the path, and there one edit, which leads to `after`.

        The edit holds what people edited in the turns taken back, and clears redo as every edit
        does; the old line stays as a branch (protocol.md, rules of HEAD).
        """
        self._refuse_while_busy("Cannot revert while the agent is busy")
        before = self.parent(step)
        return (
            *self._clear_redo(),
            HeadMoved(before, step.before, Cause.REVERT),
            *self._edited(before, ids, after, by, None),
        )

    def redo(self, *, all_: bool = False) -> tuple[Event, ...]:
        """HEAD to where the last revert left from; with `all_`, the first of those to redo."""
        self._refuse_while_busy("Cannot redo while the agent is busy")
        if not self.redo_stack:
            raise NothingToRedo("Nothing to redo")
        count = len(self.redo_stack) if all_ else 1
        to = self.redo_stack[-count]
        return (
            RedoPopped(count),
            HeadMoved(to, self.workflow_at(to.step_id), Cause.REDO),
        )

    def checkout(self, step_id: str) -> tuple[Event, ...]:
        """HEAD to any reachable step, or to the root."""
        self._refuse_while_busy("Cannot check out while the agent is busy")
        to = self.position(step_id)
        return (
            *self._clear_redo(),
            HeadMoved(to, self.workflow_at(step_id), Cause.CHECKOUT),
        )

    # -- memory follows what has been committed

    def apply(self, events: Iterable[Event]) -> None:
        """Follow events that are durable. Never refuses."""
        for event in events:
            self._apply(event)

    def adopt(
        self, *, branches: Iterable[Branch], turns: Iterable[Turn], steps: Iterable[Step]
    ) -> None:
        """Take stored rows that are not held yet; `steps` in the order they were written."""
        for branch in branches:
            self.branches[branch.id] = branch
        for turn in turns:
            self._hold_turn(turn)
        for step in steps:
            self._hold_step(step)

    def catch_up(
        self,
        *,
        state: State,
        head: Position,
        redo_stack: Iterable[Position],
        branches: Iterable[Branch],
        turns: Iterable[Turn],
        steps: Iterable[Step],
    ) -> None:
        """Follow what others have written since: the rows that are new, and where that has led.

        `turns` are those of the `steps`, as they are now.
        """
        self.state, self.head, self.redo_stack = state, head, list(redo_stack)
        turns = list(turns)
        if any(t.id == self.running and t.status not in UNDER_WAY for t in turns):
            self.running = None
        new = [step for step in steps if step.id not in self.steps]
        self.adopt(branches=branches, turns=turns, steps=new)

    def _apply(self, event: Event) -> None:
        match event:
            case BranchStarted(branch):
                self.branches[branch.id] = branch
            case TurnStarted(turn):
                self._hold_turn(turn)
            case TurnWaits(turn_id):
                self.turns[turn_id] = replace(self.turns[turn_id], status=TurnStatus.WAITING)
            case TurnResumed(turn_id):
                self.turns[turn_id] = replace(self.turns[turn_id], status=TurnStatus.RUNNING)
            case TurnEnded(turn_id, status):
                self.turns[turn_id] = replace(self.turns[turn_id], status=status)
                self.running = None
            case StateChanged(state):
                self.state = state
            case StepAppended(step):
                self._hold_step(step)
                self.head = step.position
            case HeadMoved(to, _, _):
                self.head = to
            case RedoPushed(position):
                self.redo_stack.append(position)
                del self.redo_stack[: -self.limits.max_redo_depth]
            case RedoPopped(count):
                del self.redo_stack[-count:]
            case RedoCleared():
                self.redo_stack.clear()
            case _:
                assert_never(event)

    def _hold_turn(self, turn: Turn) -> None:
        self.turns[turn.id] = turn
        if turn.key is not None:
            self.turn_keys[turn.key] = turn.id
        if turn.status in UNDER_WAY:
            self.running = turn.id

    def _hold_step(self, step: Step) -> None:
        self.steps[step.id] = step
        self.children.setdefault(step.parent_id, []).append(step.id)
        self.newest[step.branch_id] = max(step.seq, self.newest.get(step.branch_id, 0))

    # -- parts of commands

    def _refuse_while_busy(self, sentence: str) -> None:
        if self.state is not State.AVAILABLE:
            raise Busy(sentence, state=self.state.value)

    def _clear_redo(self) -> tuple[Event, ...]:
        return (RedoCleared(),) if self.redo_stack else ()

    def _extends(self, head: Position) -> bool:
        """Whether a record that follows `head` goes on its branch (lineage.md 1)."""
        return (
            head.branch_id is not None
            and held(self.branches, head.branch_id).session_id == self.session_id
            and self.newest[head.branch_id] == head.seq
        )

    def _first_step(
        self, head: Position, ids: NewIds, after: str, end: EndReason | None
    ) -> StepAppended:
        branch_id = head.branch_id if self._extends(head) else None
        return StepAppended(
            Step(
                id=ids.step,
                branch_id=branch_id or ids.branch,
                seq=head.seq + 1,
                parent_id=head.step_id,
                turn_id=ids.turn,
                index=0,
                role=Role.USER,
                before=self.workflow_at(head.step_id),
                after=after,
                end_reason=end,
            )
        )

    def _turn(
        self, first: Step, kind: TurnKind, status: TurnStatus, by: str, key: str | None
    ) -> Turn:
        index = 0
        if (left := self.purged.get(first.parent_id)) is not None:
            index = left.effective_index + 1
        elif first.parent_id != ROOT_ID:
            index = self.turns[self._known(first.parent_id).turn_id].effective_index + 1
        return Turn(first.turn_id, kind, status, first.position, index, by, key)

    def _start(self, head: Position, ids: NewIds, turn: Turn) -> tuple[Event, ...]:
        """A turn whose first record follows `head`, and the branch that it may need."""
        if self._extends(head):
            return (TurnStarted(turn),)
        branch = branch_off(self.branches, head, branch_id=ids.branch, session_id=self.session_id)
        if branch.segment_count > self.limits.max_branch_segments:
            raise BranchLimit(
                "This conversation has parted "
                f"{counted(self.limits.max_branch_segments, 'time')} on the way here, its limit "
                "(`max_branch_segments`); go on in a new session"
            )
        return (BranchStarted(branch), TurnStarted(turn))

    def _edited(
        self, head: Position, ids: NewIds, after: str, by: str, key: str | None
    ) -> tuple[Event, ...]:
        first = self._first_step(head, ids, after, EndReason.COMPLETE)
        turn = self._turn(first.step, TurnKind.EDIT, TurnStatus.COMPLETE, by, key)
        moved = HeadMoved(first.step.position, after, Cause.EDIT)
        return (*self._start(head, ids, turn), first, moved)

    def _back_before(self, step: Step) -> tuple[Event, ...]:
        return (
            RedoPushed(self.head),
            HeadMoved(self.parent(step), step.before, Cause.REVERT),
        )
