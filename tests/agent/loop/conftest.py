"""A model for the loop; nothing may be left behind by any run."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from scripted_provider import ScriptedProvider

from turnback.agent.models import ChatModel, resolve
from turnback.settings import Settings


@pytest.fixture(autouse=True)
async def nothing_leaks(provider: ScriptedProvider) -> AsyncIterator[None]:
    """No task and no open stream is left behind."""
    before: set[Any] = asyncio.all_tasks()
    yield
    before.add(asyncio.current_task())
    for _ in range(500):
        left = asyncio.all_tasks() - before
        if not left and not provider.streaming:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"left behind: {left}, {provider.streaming} open streams")


@pytest.fixture(autouse=True, scope="module")
def nothing_is_collected_with_a_complaint() -> Iterator[None]:
    """Whatever was left open would warn here, and warnings are errors."""
    yield
    gc.collect()


@pytest.fixture
async def model(provider: ScriptedProvider) -> AsyncIterator[ChatModel]:
    async with resolve(Settings(**provider.settings)) as resolved:
        yield resolved
