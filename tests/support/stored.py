"""A session told to the store command by command, without a server: what tests of the DAO read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any, Self

from turnback.core.principal import LOCAL
from turnback.core.tree import (
    EndReason,
    Event,
    NewIds,
    StateChanged,
    StepAppended,
    Tree,
)
from turnback.core.workflow import EMPTY, Workflow, load
from turnback.store.attachments import AttachmentRow, Room
from turnback.store.dao import Dao
from turnback.store.database import Database
from turnback.store.ids import new_id
from turnback.store.loading import Stored
from turnback.store.outbox import Notice, SessionChanged, Status, StepWritten
from turnback.store.rows import Alive, Commit, Guard, Holder, Idle, SessionChange, SessionKey

NOW = datetime.now(UTC).replace(microsecond=123000)


def tree_of(stored: Stored) -> Tree:
    """The tree that a session's stored rows make."""
    tree = Tree(
        stored.row.key.id,
        stored.row.initial_hash,
        state=stored.row.state,
        head=stored.row.head,
        redo_stack=stored.redo,
        purged=stored.purged,
        kept=stored.row.workflow_hash if stored.purged else None,
    )
    tree.adopt(branches=stored.branches, turns=stored.turns, steps=stored.steps)
    return tree


class Story:
    """One session and its tree, kept in step; each command is one commit.

    `last` is the last step of each turn.
    """

    def __init__(self, dao: Dao, key: SessionKey, tree: Tree, revision: int, fence: int) -> None:
        self.dao, self.key, self.tree = dao, key, tree
        self.revision, self.fence = revision, fence
        self.last: dict[str, str] = {}

    @classmethod
    async def begin(cls, dao: Dao, *, name: str = "Orders", workflow: Workflow = EMPTY) -> Self:
        """A new session."""
        key = await dao.create(
            LOCAL, session_id=new_id(), name=name, model="offline", workflow=workflow, now=NOW
        )
        return await cls.of(dao, key.id)

    @classmethod
    async def of(cls, dao: Dao, session_id: str) -> Self:
        """A session that is there, as loaded."""
        stored = await dao.load(LOCAL, session_id)
        row = stored.row
        return cls(dao, row.key, tree_of(stored), row.revision, row.fence)

    async def prompt(
        self,
        *answers: str,
        end: EndReason | None = EndReason.COMPLETE,
        key: str | None = None,
        files: Sequence[AttachmentRow] = (),
    ) -> str:
        """A prompt about `files`, and a step per answer, the last with `end`; the turn's id."""
        ids = NewIds(new_id(), new_id(), new_id())
        events = self.tree.prompt(ids, by="local", key=key)
        await self._commit(
            Idle(self.revision, claims=True),
            events,
            node_id=self.dao.node_id,
            attachments=tuple(file.id for file in files),
        )
        self.last[ids.turn] = ids.step
        for at, answer in enumerate(answers, 1):
            await self.answer(answer, end if at == len(answers) else None)
        return ids.turn

    async def answer(self, text: str, end: EndReason | None = None) -> str:
        """The running turn's next step, which leads to a workflow of its own; its id."""
        step_id, after = new_id(), _workflow(text)
        events = self.tree.append(step_id, after.hash, end)
        guard = Holder(self.fence, self.tree.head.step_id)
        await self._commit(guard, events, blobs=after.blobs(since=EMPTY), payload=_said(text))
        self.last[self.tree.steps[step_id].turn_id] = step_id
        return step_id

    async def edit(self) -> str:
        """A person's edit; the turn's id."""
        ids, after = NewIds(new_id(), new_id(), new_id()), _workflow(new_id())
        events = self.tree.edit(ids, after.hash, by="local")
        await self._commit(Idle(self.revision), events, blobs=after.blobs(since=EMPTY))
        self.last[ids.turn] = ids.step
        return ids.turn

    async def move(self, events: tuple[Event, ...]) -> None:
        """A revert, a redo or a checkout, as the tree has said."""
        await self._commit(Idle(self.revision), events)

    async def change(self, **change: Any) -> None:
        """The session's own columns, as `SessionChange` names them."""
        told = SessionChanged(next(iter(change)))
        await self._commit(Alive(), (), change=SessionChange(**change), notices=(told,))

    def visible(self) -> list[str]:
        """The ids of the steps on the path to HEAD, oldest first."""
        return [step.id for step in self.tree.path()][::-1]

    def visible_of(self, turns: list[str]) -> list[str]:
        """Of the visible steps those of these turns, oldest first."""
        return [s.id for s in self.tree.remaining_path() if s.turn_id in turns][::-1]

    async def delete(self) -> None:
        """Delete the session."""
        await self._commit(Idle(self.revision), (), change=SessionChange(deleted=True))

    async def _commit(
        self,
        guard: Guard,
        events: tuple[Event, ...],
        *,
        payload: str | None = None,
        notices: tuple[Notice, ...] = (),
        **more: Any,
    ) -> None:
        told = list(notices)
        for event in events:
            if isinstance(event, StepAppended):
                told.append(StepWritten(event.step.id))
            elif isinstance(event, StateChanged):
                told.append(Status(event.state))
        made = await self.dao.commit(
            Commit(
                id=new_id(),
                key=self.key,
                principal="local",
                now=NOW,
                guard=guard,
                events=events,
                notices=tuple(told),
                payload=payload or _said("hello"),
                **more,
            )
        )
        assert made is not None, "the guard holds"
        self.revision, self.fence = made.revision, made.fence
        self.tree.apply(events)


PLENTY = Room(max_session_attachments=10_000, max_session_attachment_bytes=10**9)


async def attach(dao: Dao, key: SessionKey, content: bytes | None = None) -> AttachmentRow:
    """A file of its own bytes, unless they are named."""
    id_ = new_id()
    async with dao.attachments.files.receiving(chunks(content or id_.encode())) as received:
        return await dao.attachments.add(
            LOCAL, key, received, attachment_id=id_, name="x", room=PLENTY, now=NOW
        )


async def chunks(content: bytes) -> AsyncIterator[bytes]:
    """Bytes as they come over the wire."""
    yield content


def _workflow(text: str) -> Workflow:
    return load({"operators": [], "said": text}, max_bytes=10**6, max_depth=50)


def _said(text: str) -> str:
    return f'{{"content":"{text}"}}'


async def waiting(database: Database, count: int) -> None:
    """Until so many connections wait for a lock."""
    text = """select count(*) from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'"""
    while True:
        if await database.run(lambda c: c.fetchval(text)) >= count:
            return
        await asyncio.sleep(0.01)
