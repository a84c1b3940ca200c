"""The one transactional DAO: every call is a whole transaction and takes a principal.

The reads of a session begin at `key`, which says by `store/access.py` whether a principal may know
of it (law 8): who holds a `SessionKey` may read. The statements are named here, but for a commit's,
which `store/commit.py` puts together.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import asyncpg
import orjson

from turnback.core import workflow as snapshots
from turnback.core.errors import (
    NotAllowed,
    RecordConflict,
    SessionNotFound,
    SnapshotMissing,
)
from turnback.core.lineage import Fork
from turnback.core.principal import Principal, ProjectRight, Right
from turnback.core.run_settings import RunSettingsChange
from turnback.core.tree import State
from turnback.core.workflow import Workflow
from turnback.failpoints import armed, hit
from turnback.store import commit as commits
from turnback.store import forks, loading, newest, tree_rows
from turnback.store.access import Access
from turnback.store.approvals import Approvals
from turnback.store.attachments import Attachments
from turnback.store.contracts import Contracts
from turnback.store.database import Database
from turnback.store.effects import Effects
from turnback.store.families import Families
from turnback.store.files import Files
from turnback.store.folding import unfold
from turnback.store.held_back import HeldBack
from turnback.store.identities import Identities
from turnback.store.ids import is_id
from turnback.store.keys import IdempotencyKeys
from turnback.store.leases import Leases
from turnback.store.ledger import Ledger
from turnback.store.loading import Stored
from turnback.store.locks import Locks
from turnback.store.outbox import Notice, from_row
from turnback.store.packing import pack, unpack
from turnback.store.pins import ToolPins
from turnback.store.purge import Erased, Purge
from turnback.store.rows import (
    Commit,
    Committed,
    ListPlace,
    Record,
    SessionKey,
    SessionRow,
)
from turnback.store.sealing import Sealer
from turnback.store.session_lists import SESSIONS, escape_like
from turnback.store.session_rows import SESSION, session_row
from turnback.store.spans import Spans
from turnback.store.stands import FamilyStands
from turnback.store.sweeper import Sweeper
from turnback.store.transcripts import Transcripts
from turnback.store.undo_plans import UndoPlans
from turnback.store.undo_runs import UndoRuns
from turnback.store.undos import Undos
from turnback.store.wakeups import Wakeups
from turnback.telemetry import metrics

T = TypeVar("T")

_RECORD = f"{tree_rows.STEP}, event_seq, principal, created_at"

FIND = "select project_id, root_id from session_directory where id = $1::uuid"

CREATE = """
with directory as (
    insert into session_directory (id, project_id, root_id) values ($1::uuid, $2::text, $1::uuid)),
family as (insert into families (root_id, project_id) values ($1::uuid, $2::text)),
kept as (
    insert into blobs (root_id, hash, data)
    select $1::uuid, b.hash, b.data from unnest($8::bytea[], $9::bytea[]) b(hash, data))
insert into sessions (root_id, id, project_id, owner, name, model, workflow_hash, initial_hash,
    created_at, updated_at, run_settings)
values ($1::uuid, $1::uuid, $2::text, $3::text, $4::text, $5::text, $6::bytea, $6::bytea,
    $7::timestamptz, $7::timestamptz, $10::jsonb)
"""

RECORDS = f"""select {_RECORD}, payload, folded from records
where root_id = $1::uuid and id = any($2::uuid[])"""

BLOBS = "select hash, data from blobs where root_id = $1::uuid and hash = any($2::bytea[])"

EVENTS = """select event_seq, type, data, commit_id from session_events
where root_id = $1::uuid and session_id = $2::uuid and event_seq > $3::bigint
    and event_seq <= $4::bigint order by event_seq"""

SETTLED = "select from sessions where root_id = $1::uuid and id = $2::uuid for update"

WAS_COMMITTED = """select exists (select from session_events
where root_id = $1::uuid and session_id = $2::uuid and event_seq > $3::bigint
    and commit_id = $4::uuid)"""

REVISIONS = """select id, revision from sessions
where root_id = any($1::uuid[]) and id = any($2::uuid[]) and deleted_at is null"""

REQUEST = """select fingerprint, answer, event_seq from session_requests
where root_id = $1::uuid and session_id = $2::uuid and principal = $3::text
    and request_id = $4::text"""

TRIM_EVENTS = """with floor as (
    update sessions set events_floor = greatest(events_floor, revision - $3::bigint, (
        select max(event_seq) from session_events where root_id = $1::uuid
        and session_id = $2::uuid and created_at < now() - make_interval(days => $4::integer)))
    where root_id = $1::uuid and id = $2::uuid returning events_floor),
dropped as (
    delete from session_events e using floor where e.root_id = $1::uuid
    and e.session_id = $2::uuid and e.event_seq <= floor.events_floor)
select events_floor from floor"""

TRIM_REQUESTS = "delete from session_requests where created_at < $1::timestamptz"

EPOCH = "select stream_epoch from installation"


class RequestTaken(Exception):
    """The commit's `requestId` has been used; nothing was written."""


class SessionTaken(Exception):
    """A session with this id has been made; nothing was written."""


class UndoTaken(Exception):
    """The plan, or one of its effects, is in a run already; nothing was written."""


class TurnKeyTaken(Exception):
    """The commit's turn key has been used; nothing was written."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The stored answer to a `requestId`."""

    fingerprint: bytes
    answer: dict[str, Any]
    event_seq: int


class Dao:
    """The store's one door. `node_id` names this process to the others.

    `leases` say which process carries which run, `wakeups` tell the others what was committed.
    `attachments` is the folder of uploaded bytes. `effects`, `undos`, `ledger`, `locks`,
    `approvals` and `contracts` are the log of what is done outside, sealed by `secret_key` where
    it is secret.
    """

    def __init__(
        self,
        database: Database,
        *,
        node_id: str,
        max_redo_depth: int,
        directory_cache: int,
        attachments: Path = Path(".turnback/attachments"),
        secret_key: str | None = None,
    ) -> None:
        self._db = database
        self._max_redo_depth = max_redo_depth
        self._directory_cache = directory_cache
        self._directory: OrderedDict[str, tuple[str, SessionKey]] = OrderedDict()
        self._intricate: OrderedDict[str, bool] = OrderedDict()  # what `forks.WHOLE` did not fork
        self.node_id = node_id
        self.leases = Leases(database, node_id=node_id)
        self.wakeups = Wakeups(database, node_id=node_id)
        self.keys = IdempotencyKeys(database, node_id=node_id)
        self.spans = Spans(database)
        self.transcripts = Transcripts(database)
        self.access = Access(database)
        self.families = Families(database)
        self._purge = Purge(database)
        self.sweeper = Sweeper(database, self._purge)
        self.identities = Identities(database, self.access, self.wakeups)
        self.attachments = Attachments(database, Files(attachments))
        self._sealer = sealer = Sealer(secret_key)
        self.effects = Effects(database, sealer, self.wakeups)
        self.held_back = HeldBack(database, sealer, node_id=node_id)
        self.stands = FamilyStands(database)
        self.undos = Undos(database, self.effects, sealer, self.wakeups)
        self.undo_plans = UndoPlans(database)
        self.undo_runs = UndoRuns(database, self.undos, self.effects, sealer)
        self.ledger = Ledger(database, sealer)
        self.locks = Locks(database, node_id=node_id)
        self.approvals = Approvals(database)
        self.contracts = Contracts(database)
        self.pins = ToolPins(database)

    # -- finding

    def forget_directory(self) -> None:
        """Where sessions are stored is asked again: the database has another history now."""
        self._directory.clear()

    async def key(
        self, principal: Principal, session_id: str, *, right: Right = Right.READ
    ) -> SessionKey:
        """Where the session is stored, for who has this right on it.

        Raises `SessionNotFound` where the principal may not read it, it is another project's, or
        is not there; `NotAllowed` where it may read it and lacks the right; `Unauthenticated`.
        """
        project_id, key = await self._place(session_id)
        if project_id != principal.project_id:
            raise SessionNotFound("Agent not found")
        await self.access.require(principal, key, right)
        return key

    async def living(
        self, principal: Principal, session_id: str, *, right: Right = Right.READ
    ) -> SessionKey:
        """As `key`, for what is read of tables that outlive a deleted session's row.

        `key` alone asks nothing of the database where the principal may everything.
        """
        key = await self.key(principal, session_id, right=right)
        if principal.credential is None and not await self.revisions([key]):
            raise SessionNotFound("Agent not found")
        return key

    async def project(self, session_id: str) -> str:
        """The session's project, for the service alone. Raises `SessionNotFound`."""
        return (await self._place(session_id))[0]

    async def _place(self, session_id: str) -> tuple[str, SessionKey]:
        known = self._directory.get(session_id)
        if known is None:
            row = None
            if is_id(session_id):
                row = await self._db.run(lambda c: c.fetchrow(FIND, session_id))
            if row is None:
                raise SessionNotFound("Agent not found")
            known = (row["project_id"], SessionKey(row["root_id"], session_id))
            self._keep(self._directory, session_id, known)
        return known

    def _keep(self, cache: OrderedDict[str, T], session_id: str, known: T) -> None:
        cache[session_id] = known
        while len(cache) > self._directory_cache:
            cache.popitem(last=False)

    async def create(
        self,
        principal: Principal,
        *,
        session_id: str,
        name: str,
        model: str,
        workflow: Workflow,
        now: datetime,
        settings: RunSettingsChange | None = None,
    ) -> SessionKey:
        """A new session with its initial workflow, and nothing said yet.

        Raises `SessionTaken` where the id is one that exists, `NotAllowed`, `Unauthenticated`.
        """
        await self.access.require_project(principal, ProjectRight.CREATE)
        blobs = workflow.blobs()
        args = (
            session_id,
            principal.project_id,
            principal.id,
            name,
            model,
            bytes.fromhex(workflow.hash),
            now,
            [bytes.fromhex(hash_) for hash_ in blobs],
            [pack(blob) for blob in blobs.values()],
            orjson.dumps(settings).decode() if settings else None,
        )
        try:
            await self._write(CREATE, args)
        except asyncpg.UniqueViolationError as error:
            raise SessionTaken from error
        return SessionKey(session_id, session_id)

    async def fork(
        self, principal: Principal, asked: Fork, *, now: datetime, max_depth: int
    ) -> forks.Forked:
        """A session that goes on from a boundary of another; made once, however often asked.

        A retry finds what was made, whatever has become of the source since. Raises
        `SessionNotFound`, `NotAllowed`, `LineageConflict`, `NotOnPath`, `TurnIncomplete`,
        `DepthLimit`, `CountMismatch`, `HistoryPurged`, `HistoryMissing`, `BadInput`,
        `DatabaseUnavailable`.
        """
        try:
            source = await self.key(principal, asked.source_id, right=Right.FORK)
            if asked.mode is not None:
                await self.access.require_own_run(principal, source)
        except (SessionNotFound, NotAllowed):
            if (made := await self._forked(principal, asked)) is not None:
                return made
            raise
        place = forks.place(source.root_id, asked)
        wishes = (asked.mode, asked.draft, asked.name, asked.description, asked.fingerprint, now)
        args = (*place, *wishes, max_depth, asked.count, principal.id)
        row, whole = None, asked.boundary is None and asked.mode is None
        if whole and source.id not in self._intricate:
            row = await self._write(forks.WHOLE, args, at="fork")
        if row is None:
            for _ in range(forks.TRIES):
                row = await self._write(forks.FORK, args, at="fork")
                if row is None or not row["is_late"]:
                    break
            if whole and row is not None and row["parent_id"] is not None:
                self._keep(self._intricate, source.id, True)
        if row is not None and row["parent_id"] is not None:
            return forks.Forked(forks.lineage_of(row), is_new=True)
        if (made := await self._forked(principal, asked)) is not None:
            return made
        if row is None:
            raise SessionNotFound("Agent not found")
        raise forks.refusal(row, asked, max_depth=max_depth) or forks.conflict()

    async def _forked(self, principal: Principal, asked: Fork) -> forks.Forked | None:
        """The fork that this principal has made under this id; None where it is another's.

        Raises `LineageConflict` where the fork was another, or has been archived or deleted.
        """
        args = (asked.child_id, principal.project_id)
        row = await self._db.run(lambda c: c.fetchrow(forks.MADE, *args))
        if row is None or row["owner"] != principal.id:
            return None
        if row["fingerprint"] != asked.fingerprint or row["archived_at"] or row["deleted_at"]:
            raise forks.conflict()
        return forks.Forked(forks.lineage_of(row), is_new=False)

    async def purge(self, principal: Principal, session_id: str, *, batch: int) -> Erased:
        """Remove for good what a deleted session has said, in batches of `batch` rows.

        Once it has begun nothing of that is shown; one that was cut off is gone on with by the
        next. Raises `NotAllowed` where the principal does not own the project, `SessionNotFound`,
        `NotDeleted`, `Unauthenticated`, `DatabaseUnavailable`.
        """
        await self.access.require_project(principal, ProjectRight.ADMINISTER)
        project_id, key = await self._place(session_id)
        if project_id != principal.project_id:
            raise SessionNotFound("Agent not found")
        await self.wakeups.changed(await self._purge.close(key))
        return await self._purge.erase(key.root_id, [key.id], batch=batch)

    async def session(self, principal: Principal, session_id: str) -> SessionRow:
        """One session's row. Raises `SessionNotFound`."""
        key = await self.key(principal, session_id)
        row = await self._db.run(lambda c: c.fetchrow(SESSION, key.root_id, key.id))
        if row is None:
            raise SessionNotFound("Agent not found")
        return session_row(row)

    async def sessions(
        self,
        principal: Principal,
        *,
        query: str | None,
        archived: bool,
        before: ListPlace | None,
        limit: int,
    ) -> list[SessionRow]:
        """The newest `limit` sessions below the place `before`, names holding `query`.

        Those that the principal may read; none where its credential has ended.
        """
        pattern = None if query is None else f"%{escape_like(query)}%"
        args = (*_who(principal), archived, pattern, *newest.arguments(before), limit)
        rows = await self._db.run(lambda c: c.fetch(SESSIONS, *args))
        return [session_row(row) for row in rows]

    # -- loading

    async def load(
        self, principal: Principal, session_id: str, *, since: int | None = None
    ) -> Stored:
        """What a session's tree is made of, in one snapshot. Raises `SessionNotFound`.

        Everything, or what is new since the revision `since`, where the events still say what.
        """
        key = await self.key(principal, session_id)
        return await self._db.run(lambda c: loading.read(c, key, since=since))

    async def records(
        self, principal: Principal, key: SessionKey, step_ids: Sequence[str]
    ) -> list[Record]:
        """The records of these steps, in the order asked for; what is not there is left out."""
        del principal  # the key was given by `key`, which has asked
        if not step_ids:
            return []
        rows = await self._db.run(lambda c: c.fetch(RECORDS, key.root_id, step_ids))
        found = {row["id"]: _record(row) for row in rows}
        return [found[step_id] for step_id in step_ids if step_id in found]

    async def workflows(
        self, principal: Principal, key: SessionKey, hashes: Iterable[str]
    ) -> dict[str, Workflow]:
        """The workflows of these content addresses, in at most three fetches.

        One that cannot be put together is left out: others must still be readable.
        """
        del principal
        wanted = set(hashes)
        blobs = await self._blobs(key, wanted)
        tops = {h: snapshots.parts(blobs[h]) for h in wanted if h in blobs}
        blobs |= await self._blobs(key, {part for parts in tops.values() for part in parts})
        buckets = {
            operator
            for parts in tops.values()
            for part in parts
            if part in blobs
            for operator in snapshots.operators_in(blobs[part])
        }
        blobs |= await self._blobs(key, buckets)
        whole = {}
        assembly = snapshots.Assembly(blobs)
        for hash_ in tops:
            try:
                whole[hash_] = assembly.workflow(hash_)
            except SnapshotMissing:
                continue
        return whole

    async def workflow(self, principal: Principal, key: SessionKey, hash_: str) -> Workflow:
        """The workflow of this content address. Raises `SnapshotMissing`."""
        found = await self.workflows(principal, key, [hash_])
        if hash_ not in found:
            raise SnapshotMissing(
                "The stored workflow of this step is damaged or missing, so it cannot be restored",
                workflow=hash_,
            )
        return found[hash_]

    async def events(
        self, principal: Principal, key: SessionKey, *, since: int, until: int
    ) -> list[tuple[int, Notice]]:
        """The notices with `since < eventSeq <= until`, in order."""
        del principal
        rows = await self._db.run(lambda c: c.fetch(EVENTS, key.root_id, key.id, since, until))
        return [
            (r["event_seq"], from_row(r["type"], orjson.loads(r["data"]), r["commit_id"]))
            for r in rows
        ]

    # -- writing

    async def commit(self, commit: Commit) -> Committed | None:
        """Write a commit whole, in one statement. None: its guard did not hold.

        Raises `RequestTaken`, `TurnKeyTaken`, `RecordConflict` (nothing written), or
        `DatabaseUnavailable`, whose `in_doubt` says whether it may have been written.
        """
        began = perf_counter()
        text, args = commits.build(commit, max_redo_depth=self._max_redo_depth, sealer=self._sealer)
        try:
            row = await self._write(text, args)
        except asyncpg.UniqueViolationError as error:
            raise _taken(error) from error
        if row is None:
            return None
        self.wakeups.written(commit.key.id)
        if commit.change is not None and commit.change.of_rights:
            await self.wakeups.rights_changed()
        metrics.COMMIT_SECONDS[commits.kind(commit)].observe(perf_counter() - began)
        metrics.EVENTS.inc(len(commit.notices))
        return Committed(row["revision"], State(row["state"]), row["fence"])

    async def was_committed(self, commit: Commit, *, since: int) -> bool:
        """Whether a commit whose answer was lost has been written after revision `since`.

        The database may be at it still, behind a connection that is gone: its row lock is waited
        for first, so that the answer is final.
        """
        place = (commit.key.root_id, commit.key.id)
        await self._db.run(lambda c: c.execute(SETTLED, *place))
        made: bool = await self._db.run(
            lambda c: c.fetchval(WAS_COMMITTED, *place, since, commit.id)
        )
        if made:
            self.wakeups.written(commit.key.id)
            if commit.change is not None and commit.change.of_rights:
                await self.wakeups.rights_changed()
        return made

    async def revisions(self, keys: Sequence[SessionKey]) -> dict[str, int]:
        """The revisions of these sessions now, by id; a deleted one is left out."""
        roots, ids = [key.root_id for key in keys], [key.id for key in keys]
        rows = await self._db.run(lambda c: c.fetch(REVISIONS, roots, ids))
        return {row["id"]: row["revision"] for row in rows}

    async def answered(
        self, principal: Principal, key: SessionKey, request_id: str
    ) -> Answered | None:
        """The answer that was given to this `requestId` of this principal, if it was."""
        row = await self._db.run(
            lambda c: c.fetchrow(REQUEST, key.root_id, key.id, principal.id, request_id)
        )
        if row is None:
            return None
        return Answered(row["fingerprint"], orjson.loads(row["answer"]), row["event_seq"])

    async def trim(self, key: SessionKey, *, keep: int, days: int) -> int:
        """Drop a session's events but for the newest `keep` that are younger than `days`.

        Returns the session's `events_floor`: the last event that is gone.
        """
        place = (key.root_id, key.id)
        return await self._db.run(lambda c: c.fetchval(TRIM_EVENTS, *place, keep, days)) or 0

    async def forget_requests(self, *, before: datetime) -> None:
        """Drop the answers to requests older than `before`."""
        await self._db.run(lambda c: c.execute(TRIM_REQUESTS, before))

    @property
    def usage(self) -> tuple[int, int]:
        """Connections of the pool in use now, and idle."""
        return self._db.usage

    # -- the installation

    async def stream_epoch(self) -> str:
        """The id of this database's history; a restore from backup sets a new one."""
        return await self._db.run(lambda c: c.fetchval(EPOCH))

    async def ping(self) -> None:
        """One round trip. Raises `DatabaseUnavailable`."""
        await self._db.run(lambda c: c.fetchval("select 1"))

    async def _write(
        self, text: str, args: Sequence[Any], *, at: str = "commit"
    ) -> asyncpg.Record | None:
        """The one way in which anything that a client is told of becomes durable.

        `at` names its failpoints.
        """
        hit(f"{at}.before")
        async with self._db.connection(writes=True) as connection:
            sent: Awaitable[asyncpg.Record | None] = connection.fetchrow(text, *args)
            if armed(f"{at}.inside"):
                sent = asyncio.ensure_future(sent)
                await asyncio.sleep(0.001)  # it is under way
                hit(f"{at}.inside")
            row = await sent
        hit(f"{at}.after")
        return row

    async def _blobs(self, key: SessionKey, hashes: Iterable[str]) -> dict[str, bytes]:
        wanted = [bytes.fromhex(hash_) for hash_ in hashes]
        if not wanted:
            return {}
        rows = await self._db.run(lambda c: c.fetch(BLOBS, key.root_id, wanted))
        return {row["hash"].hex(): unpack(row["data"]) for row in rows}


def _taken(error: asyncpg.UniqueViolationError) -> Exception:
    match error.constraint_name:
        case "session_requests_pkey":
            return RequestTaken()
        case "turns_key":
            return TurnKeyTaken()
        case "undo_runs_plan" | "undo_runs_active" | "compensations_active":
            return UndoTaken()
        case name if name is not None and name.startswith("records"):
            return RecordConflict("A record with this id or at this place exists and is another")
        case _:
            return error


def _who(principal: Principal) -> tuple[str | None, str, str]:
    """The arguments of `caller`."""
    return principal.credential, principal.id, principal.project_id


def _record(row: asyncpg.Record) -> Record:
    return Record(
        step=tree_rows.step(row),
        payload=unfold(row["payload"], row["folded"]),
        principal=row["principal"],
        event_seq=row["event_seq"],
        created_at=row["created_at"],
    )
