"""Histories on the real store: live sessions of two processes' worth over one database.

Two nodes, each with a DAO and actors of its own, take turns; neither hears the other's wake-ups, so
that each finds out by its guards what the other has written. A run's steps are the test's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
from oracle import Asked as Fork_
from oracle import How, Origin, Refused, Sum
from oracle_histories import Route, Seen, Shown

from turnback.agent.steps import StepDraft, ToolCall, ToolResult
from turnback.api.rest.records import Records
from turnback.core.errors import HistoryPurged, TurnbackError
from turnback.core.lineage import Boundary, Fork, Lineage, Side
from turnback.core.pending import PendingMode
from turnback.core.principal import LOCAL
from turnback.core.tree import EndReason
from turnback.core.workflow import Workflow, load
from turnback.sessions.actor import Actor
from turnback.sessions.commands import (
    Asked,
    Change,
    Checkout,
    Command,
    Delete,
    Done,
    Prompt,
    PutWorkflow,
    Redo,
    RevertStep,
    RevertTurn,
    Stop,
)
from turnback.sessions.plans import now_ms
from turnback.sessions.runs import Run
from turnback.settings import Settings
from turnback.store.dao import Dao
from turnback.store.database import Database
from turnback.store.ids import new_id
from turnback.store.transcripts import Counts


async def _until_ended(actor: Actor, run: Run) -> None:
    """Carries a run whose steps somebody else appends."""
    await run.ended.wait()


@dataclass
class Node:
    """One process's worth: its DAO, its live sessions, the bytes of records that it keeps."""

    dao: Dao
    records: Records
    actors: dict[str, Actor] = field(default_factory=dict)


class Actors:
    """The store's side of `oracle_histories.Product`."""

    max_depth = 4
    max_redo = 3

    def __init__(self, url: str, folder: Path) -> None:
        self._runner = asyncio.Runner()
        self._settings = Settings(max_redo_depth=self.max_redo, lease_expiry=3600)
        self._folder = folder
        self._holders: dict[str, Actor] = {}
        self._documents: dict[str, str] = {}
        self._run(self._open(url))

    async def _open(self, url: str) -> None:
        self._database = await Database.open(url, size=4, connect_timeout=10, statement_timeout=30)
        self._nodes = [await self._node() for _ in range(2)]

    async def _node(self) -> Node:
        dao = Dao(
            self._database,
            node_id=new_id(),
            max_redo_depth=self.max_redo,
            directory_cache=100,
            attachments=self._folder,
        )
        await dao.leases.hold()
        return Node(dao, Records(dao.transcripts, max_bytes=5_000))

    def close(self) -> None:
        self._run(self._close())
        self._runner.close()

    async def _close(self) -> None:
        for node in self._nodes:
            await asyncio.gather(*(actor.close() for actor in node.actors.values()))
            await node.dao.leases.drop()
        await self._database.close()

    def forget(self) -> None:
        self._run(self._forget())

    async def _forget(self) -> None:
        self._nodes.reverse()
        for id_, actor in list(self._node_now.actors.items()):
            if actor.idle:
                del self._node_now.actors[id_]
                await actor.close()

    def sweep(self) -> set[str]:
        return set(self._run(self._dao.sweeper.run(grace=0, batch=3)).sessions)

    # -- commands

    def new_id(self) -> str:
        return new_id()

    def create(self, name: str, document: str) -> str:
        id_ = new_id()
        workflow = self._workflow(document)
        self._run(
            self._dao.create(
                LOCAL, session_id=id_, name=name, model="offline", workflow=workflow, now=now_ms()
            )
        )
        return id_

    def prompt(self, session: str, text: str, key: str | None) -> tuple[str, str]:
        return self._run(self._prompt(session, text, key))

    async def _prompt(self, session: str, text: str, key: str | None) -> tuple[str, str]:
        actor = await self._actor(session)
        done = await actor.ask(Asked(Prompt(text, None, key), LOCAL))
        assert done.turn_id is not None
        if actor.runs.run is not None and actor.runs.run.turn_id == done.turn_id:
            self._holders[session] = actor
        return done.turn_id, actor.memory.tree.turns[done.turn_id].first.step_id

    def answer(
        self, session: str, text: str, document: str, end: str | None, calls: int, tokens: int
    ) -> str:
        return self._run(self._answer(session, text, document, end, calls, tokens))

    async def _answer(
        self, session: str, text: str, document: str, end: str | None, calls: int, tokens: int
    ) -> str:
        actor = self._holders[session]
        run = actor.runs.run
        assert run is not None
        step_id, before = run.step_id, actor.memory.present
        made = [ToolCall("look", f"c{n}", {"n": n}) for n in range(calls)]
        draft = StepDraft(
            content=text,
            tool_calls=tuple(made),
            tool_results=tuple(ToolResult(call.id, "seen") for call in made),
            usage={"inputTokens": tokens, "outputTokens": 1, "totalTokens": tokens + 1},
            before=before,
            after=self._workflow(document),
            end_reason=EndReason(end) if end else None,
        )
        await actor.progress.append(run, step_id, draft)
        return step_id

    def stop(self, session: str) -> None:
        self._ask(session, Stop())

    def edit(self, session: str, document: str, by: str) -> tuple[str | None, str]:
        done = self._ask(session, PutWorkflow(self._workflow(document), None), by)
        return done.turn_id, done.head_id

    def revert_turn(self, session: str, turn: str, how: How) -> How:
        return self._revert(session, RevertTurn(turn, **_flags(how)), how)

    def revert_step(self, session: str, step: str, how: How) -> How:
        return self._revert(session, RevertStep(step, **_flags(how)), how)

    def _revert(self, session: str, command: Command, how: How) -> How:
        done = self._ask(session, command, how.by)
        return replace(how, turn=done.turn_id, step=done.head_id)

    def redo(self, session: str, *, all_: bool) -> None:
        self._ask(session, Redo(all_))

    def checkout(self, session: str, step: str) -> None:
        self._ask(session, Checkout(step))

    def rename(self, session: str, name: str) -> None:
        self._ask(session, Change(name=name))

    def archive(self, session: str, archived: bool) -> None:
        self._ask(session, Change(archived=archived))

    def delete(self, session: str) -> None:
        self._ask(session, Delete())

    def purge(self, session: str) -> None:
        self._run(self._dao.purge(LOCAL, session, batch=2))

    def fork(self, id_: str, asked: Fork_) -> bool:
        wanted = Fork(
            source_id=asked.source,
            child_id=id_,
            boundary=Boundary(asked.turn, Side(asked.side)) if asked.turn and asked.side else None,
            mode=PendingMode(asked.mode) if asked.mode else None,
            draft=asked.draft,
            name=asked.name,
        )
        made = self._run(self._dao.fork(LOCAL, wanted, now=now_ms(), max_depth=self.max_depth))
        return made.is_new

    # -- what is seen

    def seen(self, session: str) -> Seen:
        return self._run(self._seen(session))

    async def _seen(self, session: str) -> Seen:
        actor = await self._actor(session)
        await actor.catch_up()
        key = await self._dao.key(LOCAL, session)
        family = await self._dao.families.of(LOCAL, key, before=None, limit=100)
        usage = None
        with suppress(HistoryPurged):
            usage = await self._dao.transcripts.usage(LOCAL, key)
        tree = actor.memory.tree
        path = list(tree.remaining_path())[::-1]
        turns = list(dict.fromkeys(step.turn_id for step in path))
        row = await self._dao.session(LOCAL, session)
        pending = row.pending
        assert (row.head, row.state) == (tree.head, tree.state)
        assert row.workflow_hash == tree.workflow == actor.memory.present.hash
        return Seen(
            head=tree.head.step_id,
            state=tree.state,
            document=str(actor.memory.present.content()["said"]),
            redo=(len(tree.redo_stack), tree.redo_stack[-1].step_id if tree.can_redo else None),
            path=[step.id for step in path],
            turns=[(turn, tree.turns[turn].effective_index) for turn in turns],
            origin=None if family.lineage is None else _origin(family.lineage),
            name=row.name,
            archived=row.archived_at is not None,
            pending=None if pending is None else (pending.mode, pending.draft, pending.turn_key),
            family=([r.id for r in family.ancestors], [r.id for r in family.children]),
            visible=usage and _sum(usage.visible),
            spent=usage and _sum(usage.spent),
        )

    def shown(self, session: str, limit: int) -> list[Route]:
        return [self._run(self._shown(session, limit))]

    async def _shown(self, session: str, limit: int) -> Route:
        node = self._node_now
        key = await node.dao.key(LOCAL, session)
        route, head, after = Route(), None, 0
        while True:
            page = await node.dao.transcripts.page(
                LOCAL, key, head=head, after=after, limit=limit, held=None
            )
            assert page.ids is not None
            head, after = page.head, page.until
            if page.purged is not None:
                route.holes.append(page.purged)
                after = page.purged[1]
            for written in await node.records.written(LOCAL, key, page.ids):
                route.records.append(self.read(written))
            if after == head.seq:
                return route

    def read(self, written: bytes) -> Shown:
        """What a record's bytes say."""
        return Shown(written, fields_of(written, self._documents))

    # -- parts

    @property
    def _node_now(self) -> Node:
        return self._nodes[0]

    @property
    def _dao(self) -> Dao:
        return self._node_now.dao

    async def _actor(self, session: str) -> Actor:
        actors = self._node_now.actors
        actor = actors.get(session)
        if actor is None or actor.memory.deleted:
            actors[session] = actor = await Actor.open(
                dao=self._dao,
                project_id=LOCAL.project_id,
                settings=self._settings,
                session_id=session,
                start=_until_ended,
            )
        return actor

    def _ask(self, session: str, command: Command, by: str = LOCAL.id) -> Done:
        async def ask() -> Done:
            actor = await self._actor(session)
            return await actor.ask(Asked(command, replace(LOCAL, id=by)))

        return self._run(ask())

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return self._runner.run(work)
        except TurnbackError as error:
            raise Refused(error.code) from error

    def _workflow(self, document: str) -> Workflow:
        made = load({"operators": [], "said": document}, max_bytes=10**6, max_depth=50)
        self._documents[made.hash] = document
        return made


def _flags(how: How) -> dict[str, bool]:
    return {"confirm": how.kind == "confirm", "keep_edits": how.kind == "keep"}


def fields_of(written: bytes, documents: dict[str, str]) -> dict[str, Any]:
    """What a record's JSON says, by the names of `oracle.Note`."""
    record = orjson.loads(written)
    is_edit = record["kind"] == "edit"
    usage = record.get("usage", {})
    return {
        "id": record["id"],
        "turn": record["turn_id"],
        "kind": record["kind"] if record["role"] == "user" else "prompt",
        "role": record["role"],
        "parent": record["parent_id"],
        "seq": record["seq"],
        "index": record["record_index"],
        "text": "" if is_edit else record["content"],
        "document": documents[record["after_hash"]],
        "end": record["end_reason"],
        "writer": record["session_id"],
        "calls": len(record.get("tool_calls", [])),
        "tokens": usage.get("input_tokens", 0),
    }


def _origin(lineage: Lineage) -> Origin:
    boundary = lineage.boundary
    return Origin(
        parent=lineage.parent_id,
        turn=boundary.turn_id if boundary else None,
        side=boundary.position if boundary else None,
        inherited=lineage.inherited_turn_count,
        depth=lineage.depth,
    )


def _sum(counts: Counts) -> Sum:
    return Sum(
        turns=counts.turns,
        steps=counts.steps,
        model_calls=counts.model_calls,
        tool_calls=counts.tool_calls,
        tokens=counts.input_tokens,
    )
