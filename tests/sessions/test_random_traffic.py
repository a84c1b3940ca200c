"""Random traffic over real sockets against a naive model of what clients must see."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from naive_canvas import Document
from random_canvas import Improviser
from scripted_provider import ScriptedProvider
from serving import serving
from session_checks import everything_said
from traffic import Traffic
from workflows import FILES

SMALL: dict[str, Any] = {
    "snapshot_steps": 12,
    "snapshot_cache": 2,
    "max_redo_depth": 5,
    "branch_choices": 3,
}
ANY: dict[str, Any] = {"max_steps": 6, "session_idle_timeout": 0.3}


def files() -> list[Document]:
    return [json.loads(file.read_text()) for file in FILES]


@asynccontextmanager
async def traffic(
    database_url: str, provider: ScriptedProvider, seed: int
) -> AsyncIterator[Traffic]:
    """Traffic of this seed on a new session; odd seeds have small limits."""
    rng = random.Random(seed)
    settings = ANY | (SMALL if seed % 2 else {})
    provider.improvise = Improviser(rng)
    async with serving(
        database_url, model="openai:scripted", model_base_url=provider.url, **settings
    ) as server:
        initial = rng.choice(files())
        session = await server.session(workflow=initial)
        driven = Traffic(
            server, session, rng, initial=initial, files=files(), database_url=database_url
        )
        await driven.begin()
        try:
            yield driven
        except BaseException as error:
            error.add_note(f"seed {seed}, after {driven.commands} commands")
            raise
        finally:
            await driven.end()


async def drive(
    database_url: str, provider: ScriptedProvider, seed: int, *, rounds: int, every: int
) -> Traffic:
    """Drive `rounds` of traffic, with a look at everything after each `every` of them."""
    async with traffic(database_url, provider, seed) as driven:
        for number in range(1, rounds + 1):
            await driven.round()
            if number % every == 0:
                await driven.check()
        settings = driven.server.settings.model_dump(include={*SMALL})
        async with serving(database_url, **settings) as other:
            mine = await everything_said(driven.server, driven.session, driven.model)
            assert await everything_said(other, driven.session, driven.model) == mine
        return driven


@pytest.mark.parametrize("seed", [1, 2])
async def test_clients_see_what_a_naive_model_sees(
    fresh_database: str, provider: ScriptedProvider, seed: int
) -> None:
    driven = await drive(fresh_database, provider, seed, rounds=60, every=15)
    assert driven.commands > 60


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 106))
async def test_clients_see_what_a_naive_model_sees_for_long(
    fresh_database: str, provider: ScriptedProvider, seed: int
) -> None:
    driven = await drive(fresh_database, provider, seed, rounds=600, every=60)
    assert driven.commands > 1000
