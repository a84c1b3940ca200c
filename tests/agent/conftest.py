"""The scripted provider for the tests of this room, one server for all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from scripted_provider import ScriptedProvider, scripted_provider


@pytest.fixture(scope="session")
async def provider() -> AsyncIterator[ScriptedProvider]:
    async with scripted_provider() as running:
        yield running
