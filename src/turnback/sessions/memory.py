"""What a live session holds in memory of the database, and reads of what that refers to.

A cache, never the truth: good for the one `revision` it has read. It is read as a whole, or what is
new of it, or follows a commit that has been made; nothing else changes it. It is read as the
service: whether somebody may see it is asked of the store before anything of it is given to them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from turnback.agent.attached import Telling, chosen, with_contents
from turnback.agent.prompt import earlier_tokens, told_tokens
from turnback.agent.steps import PastStep
from turnback.core.approvals import Approval, ApprovalStatus
from turnback.core.attachments import Attachment
from turnback.core.errors import HistoryMissing, HistoryPurged, SnapshotMissing
from turnback.core.pending import PendingAction
from turnback.core.principal import Principal
from turnback.core.tree import Limits, Role, Step, Tree
from turnback.core.undo.rows import RunStatus
from turnback.core.workflow import Workflow
from turnback.sessions import payloads
from turnback.sessions.broadcast import Told
from turnback.sessions.commands import Done
from turnback.settings import Settings
from turnback.store.dao import Dao
from turnback.store.loading import Stored
from turnback.store.outbox import HeadChanged, StepWritten
from turnback.store.rows import (
    Commit,
    Record,
    SessionChange,
    SessionKey,
    SessionRow,
    UnderWay,
    UndoWrite,
)
from turnback.store.stands import StandsKnown

HISTORY_BLOCK = 100  # steps read at once for the model
REPLAYED_AT_ONCE = 100  # events read at once: each may carry a whole workflow


@dataclass(frozen=True, slots=True)
class Reading:
    """A session as just read, not yet what memory holds."""

    stored: Stored
    workflow: Workflow | None
    doubts: int

    @property
    def row(self) -> SessionRow:
        """The session's row, as read."""
        return self.stored.row


class Memory:
    """One session's tree, row and workflow at HEAD, as of `revision`.

    `workflow` is None where the one at HEAD is damaged: the session can still be read and reverted.
    `approvals` are those of the open step's calls, decided or not; `undo` is the run of an undo
    that has not ended.
    """

    tree: Tree
    row: SessionRow
    workflow: Workflow | None

    def __init__(
        self, *, dao: Dao, service: Principal, settings: Settings, key: SessionKey
    ) -> None:
        self.key = key
        self.tree = Tree(key.id, "")
        self.workflow = None
        self.revision = -1
        self.approvals: tuple[Approval, ...] = ()
        self.undo: UnderWay | None = None
        self.stands = StandsKnown()
        self.deleted = False
        self._sound = False  # whether the tree is what was stored at `revision`
        self._doubts = 1  # reasons so far to think that this is behind the database
        self._settled = 0  # those that it has been read again for
        self.dao = dao
        self._service = service
        self._settings = settings
        self._cache: OrderedDict[str, Workflow] = OrderedDict()
        self._trimmed: int | None = None

    # -- as the database has it

    async def read(self) -> Reading:
        """The session in one snapshot: what is new of it, where memory holds the rest.

        Raises `SessionNotFound`, `DatabaseUnavailable`.
        """
        doubts = self._doubts  # what is doubted while it is read is read once more
        since = self.revision if self._sound else None
        stored = await self.dao.load(self._service, self.key.id, since=since)
        try:
            workflow = await self.workflow_of(stored.row.workflow_hash)
        except SnapshotMissing:
            workflow = None
        return Reading(stored, workflow, doubts)

    def adopt(self, reading: Reading) -> None:
        """Hold what was read, with or in place of what was held."""
        stored, row = reading.stored, reading.row
        if stored.since is None:
            self.tree = Tree(
                self.key.id,
                row.initial_hash,
                limits=Limits(
                    max_redo_depth=self._settings.max_redo_depth,
                    max_branch_segments=self._settings.max_branch_segments,
                ),
                state=row.state,
                head=row.head,
                redo_stack=stored.redo,
            )
            if stored.purged:
                self.tree.purged, self.tree.kept = stored.purged, row.workflow_hash
            self.tree.adopt(branches=stored.branches, turns=stored.turns, steps=stored.steps)
        else:
            self.tree.catch_up(
                state=row.state,
                head=row.head,
                redo_stack=stored.redo,
                branches=stored.branches,
                turns=stored.turns,
                steps=stored.steps,
            )
        self.row, self.workflow = row, reading.workflow
        self.approvals = tuple(stored.approvals)
        self.undo = stored.undo
        self.revision = row.revision
        self._sound = True
        self._settled = reading.doubts

    def doubt(self) -> None:
        """It may be behind the database: it is read again before it is used."""
        self._doubts += 1

    @property
    def doubted(self) -> bool:
        """Whether it may be behind the database, and was not read again since."""
        return self._doubts > self._settled

    def distrust(self) -> None:
        """Something failed in the middle: the next reading is of everything."""
        self._sound = False

    def follow(
        self,
        commit: Commit,
        after: Workflow | None,
        revision: int,
        *,
        via: Workflow | None = None,
    ) -> list[Told]:
        """Follow a commit that has been made; what is to be told of it, in order.

        `after` is the workflow that it leads to, by way of `via` where HEAD moves twice;
        `revision` is the session's after it.
        """
        passed = {w.hash: w for w in (self.workflow, via, after) if w is not None}
        self.tree.apply(commit.events)
        if after is not None:
            self.workflow = self._hold(after)
        self.revision = revision
        asked = {
            approval.tool_call_id: approval for approval in (*self.approvals, *commit.approvals)
        }
        self.approvals = () if commit.closes else tuple(asked.values())
        if commit.undo is not None:
            self.undo = _under_way(commit.undo, self.undo)
        if commit.change is not None:
            self.row = _changed(self.row, commit.change, commit.now)
        told = []
        for event_seq, notice in enumerate(commit.notices, revision - len(commit.notices) + 1):
            item = Told(event_seq, notice)
            if isinstance(notice, StepWritten):
                step = self.tree.steps[notice.step_id]
                item.before, item.after = passed.get(step.before), passed.get(step.after)
                item.record = Record(
                    step, commit.payload or "{}", commit.principal, event_seq, commit.now
                )
            elif isinstance(notice, HeadChanged):
                item.after = passed.get(notice.workflow)
            told.append(item)
        return told

    async def trim(self) -> None:
        """Drop events beyond the newest `events_kept` and older than `events_kept_days`."""
        keep = self._settings.events_kept
        if self._trimmed is None or self.revision - self._trimmed > keep // 10:
            floor = await self.dao.trim(self.key, keep=keep, days=self._settings.events_kept_days)
            self.row = replace(self.row, events_floor=floor)
            self._trimmed = self.revision

    @property
    def waiting_for(self) -> tuple[Approval, ...]:
        """The questions that wait for a person."""
        if not self.tree.waits:
            return ()
        return tuple(a for a in self.approvals if a.status is ApprovalStatus.WAITING)

    def done(self, turn_id: str | None = None) -> Done:
        """The answer to a command as things stand, `turn_id` being the turn it began."""
        return Done(self.tree.head.step_id, self.revision, turn_id)

    # -- what it refers to

    def newest(self, count: int | None) -> tuple[tuple[Step, ...], str | None]:
        """The newest `count` steps of the visible path (None: all), oldest first.

        With them the id of the step before, where there is one.
        """
        path: list[Step] = []
        older: str | None = None
        try:
            for step in self.tree.path():
                if count is not None and len(path) == count:
                    older = step.id
                    break
                path.append(step)
        except (HistoryPurged, HistoryMissing) as lost:  # who asks for those before is told
            older = lost.data["step"]
        return tuple(reversed(path)), older

    @property
    def present(self) -> Workflow:
        """The workflow at HEAD. Raises `SnapshotMissing` where it is damaged."""
        if self.workflow is None:
            raise SnapshotMissing(
                "The stored workflow at HEAD is damaged; revert to an earlier turn, or check "
                "another step out"
            )
        return self.workflow

    async def workflow_of(self, hash_: str) -> Workflow:
        """A workflow of this session by its content address. Raises `SnapshotMissing`."""
        if (held := self._cache.get(hash_)) is not None:
            self._cache.move_to_end(hash_)
            return held
        return self._hold(await self.dao.workflow(self._service, self.key, hash_))

    async def workflows_of(self, hashes: Iterable[str]) -> dict[str, Workflow]:
        """Workflows of this session by their content addresses. Raises `SnapshotMissing`."""
        wanted = set(hashes)
        found = {hash_: held for hash_ in wanted if (held := self._cache.get(hash_)) is not None}
        found |= await self.dao.workflows(self._service, self.key, wanted - found.keys())
        for hash_ in wanted - found.keys():
            found[hash_] = await self.workflow_of(hash_)  # says what is the matter with it
        return found

    async def records(self, steps: Sequence[Step]) -> list[Record]:
        """The records of these steps, in this order."""
        ids = [step.id for step in steps]
        return await self.dao.records(self._service, self.key, ids)

    async def attached(self, principal: Principal, ids: Sequence[str]) -> list[Attachment]:
        """The files of these ids, which must be ready and the session's to read.

        Raises `AttachmentNotFound`, `AttachmentGone`.
        """
        if not ids:
            return []
        return [row.said for row in await self.dao.attachments.ready(principal, self.key, ids)]

    async def pending(self) -> PendingAction | None:
        """The pending action as the database has it now. Raises `SessionNotFound`."""
        return (await self.dao.session(self._service, self.key.id)).pending

    async def history(
        self, *, max_tokens: int, max_turns: int, takes_images: bool = False
    ) -> list[PastStep]:
        """The visible steps for the model, oldest first, the prompt to answer last.

        No more is read than a request of `max_tokens` has room for, nor than `max_turns` earlier
        turns; and the step that is too many, by which the model is told that there are more. Files
        come with their bytes, where the model is to be shown them.
        """
        newest = await self._newest_steps(max_tokens, max_turns, takes_images)
        wanted = [f.attachment.id for s in newest for f in s.files if f.telling is not Telling.NAME]
        contents = await self.dao.attachments.contents(self._service, self.key, wanted)
        return [replace(s, files=with_contents(s.files, contents)) for s in reversed(newest)]

    async def _newest_steps(
        self, max_tokens: int, max_turns: int, takes_images: bool
    ) -> list[PastStep]:
        path = self.tree.remaining_path()
        newest: list[PastStep] = []
        room, turns = earlier_tokens(max_tokens), max_turns
        while steps := list(islice(path, HISTORY_BLOCK)):
            records = await self.dao.records(self._service, self.key, [s.id for s in steps])
            for record in records:
                files = chosen(
                    payloads.attachments_of(record),
                    max_tokens=max_tokens,
                    is_running=not newest,
                    takes_images=takes_images,
                    max_image_bytes=self._settings.max_image_bytes,
                )
                kind = self.tree.turns[record.step.turn_id].kind
                step = payloads.past_step(record, kind, files)
                if newest:
                    room -= told_tokens(step, max_tokens)
                newest.append(step)
                if room < 0 or turns < 0:
                    return newest
                turns -= step.role is Role.USER
        return newest

    async def replay(self, *, since: int, until: int) -> AsyncIterator[Told]:
        """The durable notices with `since < eventSeq <= until`, with what their frames need.

        In order and without a gap: it ends before the first that is not kept any more.
        """
        while since < until:
            block = await self._replayed(since=since, until=min(since + REPLAYED_AT_ONCE, until))
            for told in block:
                if told.event_seq != since + 1:
                    return
                yield told
                since += 1
            if not block:
                return

    async def _replayed(self, *, since: int, until: int) -> list[Told]:
        events = await self.dao.events(self._service, self.key, since=since, until=until)
        ids = [notice.step_id for _, notice in events if isinstance(notice, StepWritten)]
        records = {r.step.id: r for r in await self.dao.records(self._service, self.key, ids)}
        hashes = {notice.workflow for _, notice in events if isinstance(notice, HeadChanged)}
        hashes |= {h for r in records.values() for h in (r.step.before, r.step.after)}
        found = await self.dao.workflows(self._service, self.key, hashes)
        told = []
        for event_seq, notice in events:
            item = Told(event_seq, notice)
            if isinstance(notice, StepWritten):
                item.record = records[notice.step_id]
                item.before = found.get(item.record.step.before)
                item.after = found.get(item.record.step.after)
            elif isinstance(notice, HeadChanged):
                item.after = found.get(notice.workflow)
            told.append(item)
        return told

    def _hold(self, workflow: Workflow) -> Workflow:
        held = self._cache.setdefault(workflow.hash, workflow)
        self._cache.move_to_end(held.hash)
        while len(self._cache) > self._settings.snapshot_cache:
            self._cache.popitem(last=False)
        return held


def _under_way(write: UndoWrite, before: UnderWay | None) -> UnderWay | None:
    run = write.run
    if write.acknowledges is not None:
        same = before is not None and before.id == run.id
        return replace(before, revision=write.revision) if before and same else before
    if run.status is RunStatus.ENDED:
        return None
    stopped = run.stopped or (before is not None and before.stopped)
    return UnderWay(run.id, run.plan_id, write.revision, stopped)


def _changed(row: SessionRow, change: SessionChange, now: datetime) -> SessionRow:
    """The session's row after a change of its own columns."""
    if change.name is not None:
        row = replace(row, name=change.name)
    if change.archived is not None:
        row = replace(row, archived_at=now if change.archived else None)
    if change.model is not None:
        row = replace(row, model=change.model)
    if change.pending is not None or change.ends_pending:
        row = replace(row, pending=change.pending)
    if change.settings is not None:
        row = replace(row, settings=row.settings.changed(change.settings))
    if change.visibility is not None:
        row = replace(row, visibility=change.visibility)
    return row
