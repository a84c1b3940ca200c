"""What the rows are measured on: a PostgreSQL of its own, databases, servers as processes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from bench import workload
from turnback.agent.steps import StepDraft
from turnback.app import opened
from turnback.core.principal import LOCAL
from turnback.core.tree import EndReason
from turnback.core.workflow import Workflow
from turnback.sessions.actor import Actor, Starter, UndoStarter
from turnback.sessions.commands import Asked, Prompt
from turnback.sessions.plans import now_ms
from turnback.sessions.runs import Run
from turnback.settings import Settings
from turnback.store.dao import Dao
from turnback.store.embedded import DATABASE
from turnback.store.ids import new_id
from turnback.store.rows import SessionKey

STARTS_WITHIN = 60.0
TEMPLATE = "migrated"
LONG = "long"
TURNBACK = Path(sys.executable).parent / "turnback"


@dataclass(frozen=True)
class Server:
    """A server process that takes connections at `port`."""

    pid: int
    port: int

    @property
    def resident(self) -> int:
        """The bytes of memory that it holds now, its own: what it shares is not counted."""
        rollup = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        lines = (line.split() for line in rollup.splitlines())
        return sum(int(line[1]) for line in lines if line[0].startswith("Private_")) * 1024


class World:
    """The PostgreSQL at `url`, its template database migrated."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._databases = 0
        self._long: SessionKey | None = None

    @property
    def template(self) -> str:
        """The URL of the database that others are copies of: to be migrated once."""
        return self.sibling(TEMPLATE)

    async def prepare(self) -> None:
        """Make the template."""
        await self._execute(f"create database {TEMPLATE}")

    async def copies(self, urls: Iterable[str]) -> None:
        """Make databases at these URLs, each a copy of the template; they stay."""
        for url in urls:
            name = url.partition("?")[0].rpartition("/")[2]
            await self._execute(f"create database {name} template {TEMPLATE}")

    def sibling(self, name: str) -> str:
        """The URL of another database of the same server."""
        return self.url.replace(f"/{DATABASE}?", f"/{name}?", 1)

    @asynccontextmanager
    async def database(self, *, template: str = TEMPLATE) -> AsyncIterator[str]:
        """The URL of a fresh database, migrated unless of another template; dropped at the end."""
        self._databases += 1
        name = f"bench_{self._databases}"
        await self._execute(f"create database {name} template {template}")
        try:
            yield self.sibling(name)
        finally:
            await self._execute(f"drop database {name} with (force)")

    @asynccontextmanager
    async def long(self) -> AsyncIterator[tuple[Store, SessionKey]]:
        """A store with a session of 10,000 steps, ten a turn; written once, then copied."""
        if self._long is None:
            await self._execute(f"create database {LONG} template {TEMPLATE}")
            async with self._store(self.sibling(LONG)) as store:
                self._long = await store.session()
                await store.seed(self._long, turns=1_000, steps=9)
        async with self.store(template=LONG) as store:
            yield store, self._long

    @asynccontextmanager
    async def store(self, *, template: str = TEMPLATE) -> AsyncIterator[Store]:
        """The service's own rooms, in this process, over a fresh database."""
        async with self.database(template=template) as url, self._store(url) as store:
            yield store

    @asynccontextmanager
    async def _store(self, url: str) -> AsyncIterator[Store]:
        settings = Settings()
        async with opened(settings, url) as dao:
            await dao.leases.hold()
            try:
                yield Store(url, settings, dao)
            finally:
                await dao.leases.drop()

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


@dataclass
class Store:
    """The service's rooms over the database at `url`, without a server."""

    url: str
    settings: Settings
    dao: Dao

    async def session(self, workflow: Workflow | None = None) -> SessionKey:
        """A new session with the workload's workflow."""
        return await self.dao.create(
            LOCAL,
            session_id=new_id(),
            name="bench",
            model="offline",
            workflow=workflow or workload.workflow(),
            now=now_ms(),
        )

    @asynccontextmanager
    async def actor(
        self, key: SessionKey, start: Starter, undo: UndoStarter | None = None
    ) -> AsyncIterator[Actor]:
        """The live session; `start` carries its runs, `undo` those of its undos."""
        actor = await Actor.open(
            dao=self.dao,
            project_id=LOCAL.project_id,
            settings=self.settings,
            session_id=key.id,
            start=start,
            undo=undo,
        )
        try:
            yield actor
        finally:
            await actor.close()

    async def seed(self, key: SessionKey, *, turns: int, steps: int) -> None:
        """Prompts in a row, each answered by `steps` steps that change two operators."""
        hand = ByHand()
        async with self.actor(key, hand.start) as actor:
            for _ in range(turns):
                run = await hand.prompt(actor)
                for n in range(steps):
                    await hand.step(actor, run, last=n == steps - 1)


class ByHand:
    """Runs that are carried from outside, step by step, instead of by a model."""

    def __init__(self) -> None:
        self._runs: asyncio.Queue[Run] = asyncio.Queue()
        self.run: Run  # the one under way, for who prompts and steps in turn

    async def start(self, actor: Actor, run: Run) -> None:
        """For an actor, as what carries its runs."""
        self._runs.put_nowait(run)
        await run.ended.wait()

    async def prompt(self, actor: Actor) -> Run:
        """Prompt; the run, not carried yet."""
        await actor.ask(Asked(Prompt("Raise the bounds of the next two filters, please."), LOCAL))
        return await self._runs.get()

    async def step(self, actor: Actor, run: Run, *, last: bool = False) -> None:
        """One more step of the run."""
        await actor.progress.append(run, run.step_id, self.draft(actor, last=last))

    def draft(self, actor: Actor, *, last: bool = False) -> StepDraft:
        """The next step, not appended yet."""
        assert actor.memory.workflow is not None
        end = EndReason.COMPLETE if last else None
        return workload.step(actor.memory.workflow, end)


@asynccontextmanager
async def serving(url: str | None = None, **settings: object) -> AsyncIterator[Server]:
    """`turnback serve` on the database at `url`, as a process of its own."""
    # One client may do much, and nothing acts outside.
    quiet = {"log_level": "error", "ws_messages_per_minute": 10**9, "demo": False}
    values = (quiet | settings).items()
    variables = {f"TURNBACK_{name.upper()}": str(value) for name, value in values}
    if url is not None:
        variables["TURNBACK_DATABASE_URL"] = url
    async with _process(str(TURNBACK), "serve", "--port", "0", **variables) as server:
        yield server


@asynccontextmanager
async def bare() -> AsyncIterator[Server]:
    """The bare WebSocket server that floors are measured on, as a process of its own."""
    async with _process(sys.executable, "-m", "bench.bare") as server:
        yield server


@asynccontextmanager
async def _process(*command: str, **variables: str) -> AsyncIterator[Server]:
    ours = {k: v for k, v in os.environ.items() if not k.startswith("TURNBACK_")}
    process = await asyncio.create_subprocess_exec(
        *command, env=ours | variables, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(STARTS_WITHIN):
            line = (await process.stdout.readline()).decode()
        port = urlsplit(line.split()[-1]).port
        assert port is not None, line
        yield Server(process.pid, port)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()
