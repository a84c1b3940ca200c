"""Telling the other processes which sessions have been written: NOTIFY, after the commit.

Inside a commit NOTIFY would take a lock that all commits share. So one task per process sends the
ids of what was committed, each once, every few milliseconds, on a connection of its own; the same
connection listens. A wake-up that is lost is healed by the poll; after a lost connection everything
that a process holds is doubted once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

import asyncpg
import structlog

from turnback.core.errors import DatabaseUnavailable
from turnback.store.database import Database, domain_errors
from turnback.telemetry import metrics

log = structlog.get_logger()

CHANNEL = "turnback_wakeups"

MAX_PAYLOAD = 7_999
"""Bytes of one notification, by PostgreSQL's build."""

RETRY = 0.5
"""Seconds between two attempts to connect again."""

RIGHTS = "rights"
"""Told in the place of a session's id: somebody may do more or less than before."""

NOBODY = "-"
"""What is told as from no process, who sends it hears as well."""

NOTIFY = "select pg_notify($1::text, payload) from unnest($2::text[]) payload"

Heard = Callable[[frozenset[str]], None]


class Wakeups:
    """This process's wake-ups, sent and heard. `run` carries them."""

    def __init__(self, database: Database, *, node_id: str) -> None:
        self._db = database
        self._node_id = node_id
        self._written: dict[str, None] = {}
        self._due = asyncio.Event()

    def written(self, session_id: str) -> None:
        """A commit to this session was made: the others are told soon."""
        self._written[session_id] = None
        self._due.set()

    async def rights_changed(self) -> None:
        """Tell every process, this one too, after the commit that changed what somebody may do."""
        await self.changed([RIGHTS])

    async def changed(self, ids: Iterable[str]) -> None:
        """Tell every process, this one too, that these sessions are not as they were."""
        payloads = list(_payloads(NOBODY, ids))
        try:
            await self._db.run(lambda c: c.execute(NOTIFY, CHANNEL, payloads))
        except DatabaseUnavailable as error:
            log.warning("no wake-up; the poll will see", reason=error.message)

    async def run(
        self, *, heard: Heard, missed: Callable[[], None], interval: float, idle: float
    ) -> NoReturn:
        """Send and listen, for ever, over as many connections as it takes.

        `heard` is called with the ids that another process has written to, and with `RIGHTS`;
        `missed` whenever wake-ups may have been lost. Two sendings are at least `interval` seconds
        apart; after `idle` seconds without one the connection is tried.
        """
        while True:
            try:
                connection = await self._connect(heard)
                try:
                    missed()
                    await self._send(connection, interval=interval, idle=idle)
                finally:
                    connection.terminate()
            except DatabaseUnavailable as error:
                metrics.WAKEUPS_LOST.inc()
                log.warning("no wake-ups; the poll goes on", reason=error.message)
            await asyncio.sleep(RETRY)

    async def _connect(self, heard: Heard) -> asyncpg.Connection:
        def on_notice(_: object, pid: int, channel: str, payload: object) -> None:
            node_id, _, ids = str(payload).partition(" ")
            if node_id != self._node_id:
                named = frozenset(ids.split())
                metrics.WAKEUPS_HEARD.inc(len(named))
                heard(named)

        async with domain_errors():
            connection = await asyncpg.connect(
                self._db.dsn,
                timeout=self._db.connect_timeout,
                command_timeout=self._db.connect_timeout,
                # A wake-up need not be durable: it waits for no disk.
                server_settings={
                    "application_name": "turnback wakeups",
                    "synchronous_commit": "off",
                },
            )
            try:
                await connection.add_listener(CHANNEL, on_notice)
            except BaseException:
                connection.terminate()
                raise
        connection.add_termination_listener(lambda _: self._due.set())
        return connection

    async def _send(
        self, connection: asyncpg.Connection, *, interval: float, idle: float
    ) -> NoReturn:
        """Send what is written, until the connection is lost: raises `DatabaseUnavailable`."""
        while True:
            try:
                await asyncio.wait_for(self._due.wait(), timeout=idle)
            except TimeoutError:
                pass
            self._due.clear()
            sent, self._written = self._written, {}
            try:
                async with domain_errors():
                    await connection.execute(NOTIFY, CHANNEL, list(_payloads(self._node_id, sent)))
            except DatabaseUnavailable:
                self._written = sent | self._written
                raise
            metrics.WAKEUPS_SENT.inc(len(sent))
            await asyncio.sleep(interval)


def _payloads(node_id: str, ids: Iterable[str]) -> Iterator[str]:
    """The ids after the sender's, in as many payloads as they need."""
    payload = node_id
    for id_ in ids:
        if len(payload) + 1 + len(id_) > MAX_PAYLOAD:
            yield payload
            payload = node_id
        payload += f" {id_}"
    if payload != node_id:
        yield payload
