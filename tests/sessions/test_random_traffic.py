"""Random traffic over real sockets against a naive model of what clients must see."""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from flaky import flaky
from naive_canvas import Document
from processes import Process, process
from random_canvas import Improviser
from scripted_provider import ScriptedProvider
from serving import QUICK, Server, serving
from session_checks import everything_said
from traffic import Traffic
from workflows import FILES

from turnback.settings import Settings

SMALL: dict[str, Any] = {
    "snapshot_steps": 12,
    "snapshot_cache": 2,
    "max_redo_depth": 5,
    "branch_choices": 3,
}


def settings_of(provider: ScriptedProvider, seed: int) -> dict[str, Any]:
    """The settings for a seed: odd ones have small limits."""
    return {
        **provider.settings,
        "max_steps": 6,
        "session_idle_timeout": 0.3,
        **(SMALL if seed % 2 else {}),
    }


@asynccontextmanager
async def traffic(
    server: Server | Process,
    database_url: str,
    provider: ScriptedProvider,
    seed: int,
    **more: Any,
) -> AsyncIterator[Traffic]:
    """Traffic of this seed on a new session."""
    rng = random.Random(seed)
    provider.improvise = Improviser(rng)
    files: list[Document] = [json.loads(file.read_text()) for file in FILES]
    initial = rng.choice(files)
    driven = Traffic(
        server,
        await server.session(workflow=initial),
        rng,
        settings=Settings(**(QUICK | settings_of(provider, seed))),
        initial=initial,
        files=files,
        database_url=database_url,
        **more,
    )
    await driven.begin()
    try:
        yield driven
    except BaseException as error:
        error.add_note(f"seed {seed}, after {driven.commands} commands")
        raise
    finally:
        left = Counter(mark.what[0] for mark in driven.model.marks)
        print(f"seed {seed}: {driven.commands} commands, {driven.rounds}, {left}")
        await driven.end()


async def drive(
    database_url: str, provider: ScriptedProvider, seed: int, *, rounds: int, every: int
) -> int:
    """Drive traffic, and look at everything after each `every` rounds; how many commands."""
    settings = settings_of(provider, seed)
    async with (
        serving(database_url, **settings) as server,
        traffic(server, database_url, provider, seed) as driven,
    ):
        for number in range(1, rounds + 1):
            await driven.round()
            if number % every == 0:
                await driven.check()
            if number % (2 * every) == 0:
                await driven.forgotten(server.app.state.sessions)
        mine = await everything_said(server, driven.session, driven.model)
        async with serving(database_url, **settings) as fresh:
            assert await everything_said(fresh, driven.session, driven.model) == mine
        return driven.commands


async def drive_and_end(
    database_url: str, provider: ScriptedProvider, seed: int, folder: Path, *, ends: int
) -> int:
    """Drive traffic on a server that is killed, or told to end, at random instants."""
    settings = settings_of(provider, seed)
    async with AsyncExitStack() as stack:
        current = await stack.enter_async_context(process(folder, database_url, **settings))
        driven = await stack.enter_async_context(traffic(current, database_url, provider, seed))
        driven.model.outages = frozenset({"draining"})

        async def end() -> Process:
            nonlocal current
            kill = driven.rng.random() < 0.8
            current.send(signal.SIGKILL if kill else signal.SIGTERM)
            assert await current.end() == (-signal.SIGKILL if kill else 0)
            current = await stack.enter_async_context(process(folder, database_url, **settings))
            return current

        for number in range(1, ends + 1):
            await driven.round_with_an_end(end)
            await driven.round()
            if number % 4 == 0:
                await driven.check()
        await driven.check()
        return driven.commands


async def drive_with_losses(
    database_url: str, provider: ScriptedProvider, seed: int, folder: Path, *, rounds: int
) -> int:
    """Drive traffic on a server whose connections to its database are cut at random instants."""
    settings = settings_of(provider, seed)
    async with (
        flaky(database_url, folder) as wire,
        serving(wire.url, **settings) as server,
        traffic(server, database_url, provider, seed) as driven,
    ):
        driven.model.outages = frozenset({"database_unavailable"})
        ways = [wire.cut, partial(wire.lose, "request"), partial(wire.lose, "answer")]
        for number in range(1, rounds + 1):
            await driven.round_with_losses(lambda: driven.rng.choice(ways)())
            if number % 10 == 0:
                await driven.check()
        assert wire.lost > 0
        return driven.commands


async def drive_two_servers(
    database_url: str, provider: ScriptedProvider, seed: int, *, rounds: int
) -> int:
    """Drive traffic through two servers over one database."""
    settings = settings_of(provider, seed) | {"poll_interval": 0.05}
    async with (
        serving(database_url, **settings) as server,
        serving(database_url, **settings) as other,
        traffic(server, database_url, provider, seed, other=other) as driven,
    ):
        driven.model.processes = 2
        for _ in range(rounds):
            await driven.round()
        await driven.check()
        return driven.commands


async def fire_at_once(
    database_url: str, provider: ScriptedProvider, seed: int, *, bursts: int
) -> int:
    """Twelve clients command one session in the same instants."""
    settings = settings_of(provider, seed)
    async with (
        serving(database_url, **settings) as server,
        traffic(server, database_url, provider, seed, clients=12) as driven,
    ):
        for _ in range(bursts):
            await driven.burst()
            await driven.quiet()
        await driven.check()
        return driven.commands


@pytest.mark.case(3)
@pytest.mark.parametrize("seed", [1, 2])
async def test_clients_see_what_a_naive_model_sees(
    fresh_database: str, provider: ScriptedProvider, seed: int
) -> None:
    assert await drive(fresh_database, provider, seed, rounds=30, every=10) > 30


@pytest.mark.case(23)
async def test_commands_of_the_same_instant_equal_a_serial_order(
    fresh_database: str, provider: ScriptedProvider
) -> None:
    assert await fire_at_once(fresh_database, provider, 3, bursts=8) > 150


@pytest.mark.case(8, 25)
@pytest.mark.kill
async def test_clients_find_again_what_they_were_told_before_a_kill(
    fresh_database: str, provider: ScriptedProvider, tmp_path: Path
) -> None:
    assert await drive_and_end(fresh_database, provider, 4, tmp_path, ends=3) > 3


async def test_clients_see_no_half_of_a_commit_whose_connection_was_lost(
    fresh_database: str, provider: ScriptedProvider, tmp_path: Path
) -> None:
    assert await drive_with_losses(fresh_database, provider, 6, tmp_path, rounds=10) > 10


async def test_two_servers_over_one_database_are_one_session(
    fresh_database: str, provider: ScriptedProvider
) -> None:
    assert await drive_two_servers(fresh_database, provider, 5, rounds=10) > 10


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 106))
async def test_clients_see_what_a_naive_model_sees_for_long(
    fresh_database: str, provider: ScriptedProvider, seed: int
) -> None:
    assert await drive(fresh_database, provider, seed, rounds=600, every=60) > 1000


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200, 203))
async def test_commands_of_the_same_instant_equal_a_serial_order_for_long(
    fresh_database: str, provider: ScriptedProvider, seed: int
) -> None:
    assert await fire_at_once(fresh_database, provider, seed, bursts=100) > 2000


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(300, 304))
async def test_clients_find_again_what_they_were_told_before_many_kills(
    fresh_database: str, provider: ScriptedProvider, tmp_path: Path, seed: int
) -> None:
    assert await drive_and_end(fresh_database, provider, seed, tmp_path, ends=60) > 200


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(500, 504))
async def test_clients_see_no_half_of_many_commits_whose_connection_was_lost(
    fresh_database: str, provider: ScriptedProvider, tmp_path: Path, seed: int
) -> None:
    assert await drive_with_losses(fresh_database, provider, seed, tmp_path, rounds=150) > 200


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(400, 403))
async def test_two_servers_over_one_database_are_one_session_for_long(
    fresh_database: str, provider: ScriptedProvider, seed: int
) -> None:
    assert await drive_two_servers(fresh_database, provider, seed, rounds=150) > 200
