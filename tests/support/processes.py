"""Servers as processes of their own, to be killed, frozen and ended by signals.

`process` forks each from a process that has imported the service already: a start costs a tenth of
a second instead of two, so that a test can afford hundreds. `command` is `turnback serve` itself.
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import httpx
from serving import QUICK, Person
from wire import Client

from turnback import failpoints, logs
from turnback.serve import serve
from turnback.settings import Settings
from turnback.signals import Signals

forks = multiprocessing.get_context("forkserver")
"""Where processes are forked from."""
forks.set_forkserver_preload(["turnback.serve", "pytest", "httpx", "websockets.asyncio.client"])
_numbers = itertools.count()

TURNBACK = Path(sys.executable).parent / "turnback"
STARTS_WITHIN = 120.0
ENDS_WITHIN = 30.0


@dataclass
class Process:
    """A running server. `gone` is set as soon as it is, however it went."""

    url: str
    pid: int
    http: httpx.AsyncClient
    person: Person = field(default_factory=lambda: Person(""))
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    exit_code: int | None = None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self.send(signal.SIGKILL)

    async def end(self) -> int:
        """Wait until it is gone; its exit code, negative for a signal that ended it."""
        async with asyncio.timeout(ENDS_WITHIN):
            await self.gone.wait()
        assert self.exit_code is not None
        return self.exit_code

    async def session(self, **body: Any) -> str:
        """A new session's id."""
        answer = await self.http.post("/sessions", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def connect(self, session_id: str, *, v1: bool = True, query: str = "", **more: Any) -> Client:
        """A client of a session's socket; enter it to connect."""
        url = f"{self.url.replace('http', 'ws')}/sessions/{session_id}/ws{query}"
        return Client(url, v1=v1, **{"additional_headers": self.person.headers()} | more)


@asynccontextmanager
async def process(
    folder: Path, database_url: str, *, failpoint: str = "", **settings: Any
) -> AsyncIterator[Process]:
    """A server over `database_url` that dies at `failpoint`; killed at the end if it still runs.

    It may die there before it is ready; then its `url` is empty. What it logs is in a file of
    `folder`, and no traceback may be in it.
    """
    errors = folder / f"server-{next(_numbers)}.log"
    here, there = forks.Pipe(duplex=False)
    ours: dict[str, Any] = {"port": 0, "database_url": database_url, "data_dir": folder / "data"}
    ours["attachments_dir"] = folder / "attachments"
    values = QUICK | ours | settings
    child = forks.Process(target=_child, args=(values, failpoint, str(errors), there))
    child.start()
    assert child.pid is not None
    there.close()
    try:
        url = await asyncio.to_thread(_address, here, child, may_die=bool(failpoint))
        file = values["data_dir"] / "token"
        token = file.read_text().strip() if url and file.exists() else ""
        person = Person(token)
        async with httpx.AsyncClient(base_url=url, timeout=30, auth=person) as http:
            server = Process(url, child.pid, http, person)
            waiting = asyncio.create_task(_wait(child, server))
            try:
                yield server
            finally:
                child.kill()
                await waiting
    finally:
        child.kill()
        child.join()
        child.close()
        here.close()
    written = errors.read_text()
    assert "Traceback" not in written, written


@asynccontextmanager
async def command(data_dir: Path, **environment: str) -> AsyncIterator[Process]:
    """`turnback serve` on `data_dir`; killed at the end if it still runs."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith("TURNBACK_")}
    running = await asyncio.create_subprocess_exec(
        *(str(TURNBACK), "serve", "--port", "0", "--data-dir", str(data_dir)),
        env=ours | {"TURNBACK_DEMO": "false"} | environment,
        stdout=asyncio.subprocess.PIPE,
    )
    assert running.stdout is not None
    http = httpx.AsyncClient(timeout=30)
    server = Process("", running.pid, http)

    async def wait() -> None:
        server.exit_code = await running.wait()
        server.gone.set()

    waiting = asyncio.create_task(wait())
    try:
        async with asyncio.timeout(STARTS_WITHIN):
            line = (await running.stdout.readline()).decode()
        async with http:
            assert line.startswith("Turnback is ready at http://"), "it did not start"
            address = line.removeprefix("Turnback is ready at ").strip()
            server.url, _, code = address.partition("/#")
            if code:
                server.person = Person((data_dir / "token").read_text().strip())
                http.auth = server.person
            server.url = server.url.rstrip("/")
            http.base_url = httpx.URL(server.url)
            yield server
    finally:
        with suppress(ProcessLookupError):
            running.kill()
        await running.stdout.read()
        await waiting


def _child(values: dict[str, Any], failpoint: str, errors: str, ready: Connection) -> None:
    log = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 2)
    signals = Signals()
    settings = Settings(**values)
    logs.configure(settings.log_level)
    failpoints.arm(failpoint)
    serve(settings, signals=signals, ready=ready.send)


def _address(pipe: Connection, child: BaseProcess, *, may_die: bool) -> str:
    assert pipe.poll(STARTS_WITHIN), "the server is not ready"
    try:
        return str(pipe.recv()).partition("#")[0].rstrip("/")
    except EOFError:
        child.join(ENDS_WITHIN)
        if may_die and child.exitcode == -signal.SIGKILL:
            return ""
        raise AssertionError(f"the server did not start; exit code {child.exitcode}") from None


async def _wait(child: BaseProcess, server: Process) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(child.sentinel, ended.set)
    await ended.wait()
    loop.remove_reader(child.sentinel)
    child.join()
    server.exit_code = child.exitcode
    server.gone.set()


async def eventually(true: Callable[[], Any], *, within: float = 15.0) -> None:
    """Wait until `true()`, a value or an awaitable of one, is."""
    async with asyncio.timeout(within):
        while True:
            found = true()
            if hasattr(found, "__await__"):
                found = await found
            if found:
                return
            await asyncio.sleep(0.01)
