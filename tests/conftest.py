"""The databases of the tests: one real PostgreSQL for each process of them, a fresh database for
each test.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import shutil
import signal
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import asyncpg
import pytest
import structlog

from turnback.store.embedded import DATABASE, Embedded
from turnback.store.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    Databases = Callable[[], AbstractContextManager[str]]

HELPERS = [
    path.stem
    for room in ("support", "agent")
    for path in Path(__file__).parent.glob(f"{room}/*.py")
]
# Before any of them is imported: what they assert is to show what it compared, as a test does.
pytest.register_assert_rewrite("vendors", *HELPERS)

pytest_plugins = ["serving"]

TEMPLATE = "migrated"


def pytest_xdist_auto_num_workers() -> int:
    """How many processes `-n auto` is, which `make test` runs the tests in.

    More than there are cores, for a test waits half of its time; few enough for the memory, since
    each has a PostgreSQL, servers and a browser of its own.
    """
    return min(len(os.sched_getaffinity(0)) + 2, 8)


@pytest.fixture(scope="session", autouse=True)
def _only_warnings() -> None:
    """A line for each request would take more time than the request."""
    quiet = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=quiet)


@pytest.fixture(scope="session", autouse=True)
def _signals_are_heard() -> None:
    """A job in the background ignores SIGINT, one under nohup SIGHUP; the services that the tests
    start would inherit that. A handler that does nothing is as good here, and not inherited."""
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.fixture
def own_logging() -> Iterator[None]:
    """For tests that configure logging: afterwards it is as it was."""
    root = logging.getLogger()
    handlers, level, shown = root.handlers[:], root.level, warnings.showwarning
    before = structlog.get_config()
    yield
    root.handlers[:], warnings.showwarning = handlers, shown
    root.setLevel(level)
    structlog.configure(**before)


@pytest.fixture(scope="session")
def embedded() -> Iterator[Embedded]:
    """The session's own PostgreSQL, stopped at its end."""
    with TemporaryDirectory(dir=_fast_folder()) as folder, Embedded.start(Path(folder)) as server:
        yield server


@pytest.fixture(scope="session")
def database_url(embedded: Embedded) -> str:
    """A database of the session's PostgreSQL, not migrated: for those who need only a server."""
    return embedded.url


@pytest.fixture(scope="session")
def template(database_url: str) -> str:
    """The database that `fresh_database` copies: migrated once."""
    execute(database_url, f"create database {TEMPLATE}")
    url = sibling(database_url, TEMPLATE)
    in_thread(migrate, url)
    return url


@pytest.fixture
def fresh_database(database_url: str, template: str, _names: Iterator[str]) -> Iterator[str]:
    """The URL of a migrated, empty database of this test's own."""
    with _copy(database_url, next(_names)) as url:
        yield url


@pytest.fixture(scope="session")
def standing_database(database_url: str, template: str, _names: Iterator[str]) -> Iterator[str]:
    """The URL of a migrated database for all tests that do not mind what others leave in it."""
    with _copy(database_url, next(_names)) as url:
        yield url


@pytest.fixture(scope="module")
def module_database(database_url: str, template: str, _names: Iterator[str]) -> Iterator[str]:
    """The URL of a migrated database that the tests of one file share."""
    with _copy(database_url, next(_names)) as url:
        yield url


@pytest.fixture(scope="session")
def databases(database_url: str, template: str, _names: Iterator[str]) -> Databases:
    """More of them, for a test that needs several: each a migrated, empty one until left."""
    return lambda: _copy(database_url, next(_names))


@pytest.fixture
def blank_database(database_url: str, _names: Iterator[str]) -> Iterator[str]:
    """The URL of a database of this test's own in which nothing has been made."""
    name = next(_names)
    execute(database_url, f"create database {name}")
    yield sibling(database_url, name)
    execute(database_url, f"drop database {name} with (force)")


@pytest.fixture(scope="session")
def _names() -> Iterator[str]:
    return (f"test_{n}" for n in itertools.count())


@contextmanager
def _copy(database_url: str, name: str) -> Iterator[str]:
    execute(database_url, f"create database {name} template {TEMPLATE} strategy file_copy")
    yield sibling(database_url, name)
    execute(database_url, f"drop database {name} with (force)")


def _fast_folder() -> Path | None:
    """Memory where there is plenty: copying a database takes 15 ms there, on a disk up to 400."""
    memory = Path("/dev/shm")
    plenty = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 * 2**30
    return memory if plenty else None


def sibling(url: str, name: str) -> str:
    """The URL of another database of the same server."""
    return url.replace(f"/{DATABASE}?", f"/{name}?", 1)


def execute(url: str, statement: str) -> None:
    """Run one statement outside a transaction."""

    async def run() -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    in_thread(asyncio.run, run())


def in_thread(call: Callable[..., object], *arguments: object) -> None:
    """Call what wants an event loop of its own, wherever the test's loop may be."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(call, *arguments).result()
