"""A provider and a model for the loop; nothing may be left behind by any run."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from scripted_provider import ScriptedProvider, scripted_provider

from turnback.agent.models import ChatModel, resolve
from turnback.settings import Settings


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A loop of their own, where no server of other tests works: `nothing_leaks` looks at all."""
    for item in items:
        if Path(__file__).parent in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider() -> AsyncIterator[ScriptedProvider]:
    """One server for all tests of a file."""
    async with scripted_provider() as running:
        yield running


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
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


@pytest_asyncio.fixture(loop_scope="module")
async def model(provider: ScriptedProvider) -> AsyncIterator[ChatModel]:
    async with resolve(Settings(**provider.settings)) as resolved:
        yield resolved
