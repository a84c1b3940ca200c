"""Random histories of forks on the real store equal those of a store that copies on fork."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from oracle_actors import Actors
from oracle_histories import StoredHistories


@pytest.mark.lineage(1, 2, 5, 8, 9, 13, 14, 21)
def test_forks_in_the_database_equal_copies(fresh_database: str, tmp_path: Path) -> None:
    run(fresh_database, tmp_path, examples=12, steps=30)


@pytest.mark.soak
def test_forks_in_the_database_equal_copies_for_long(fresh_database: str, tmp_path: Path) -> None:
    run(fresh_database, tmp_path, examples=300, steps=60)


def run(url: str, folder: Path, *, examples: int, steps: int) -> None:
    class OnTheStore(StoredHistories):
        @staticmethod
        def make() -> Actors:
            return Actors(url, folder)

    run_state_machine_as_test(
        OnTheStore,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
