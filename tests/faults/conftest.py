"""What tests of faults share: quiet logs, and the story undone where nobody dies."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from scripted_provider import ScriptedProvider
from storied import Databases, Undisturbed, undisturbed


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    # Tracebacks in colour would take seconds.
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.configure(**before)


@pytest.fixture
async def peace(databases: Databases, tmp_path: Path, provider: ScriptedProvider) -> Undisturbed:
    """What the story's undo comes to where nobody dies."""
    with databases() as url:
        return await undisturbed(url, tmp_path / "peace", provider)
