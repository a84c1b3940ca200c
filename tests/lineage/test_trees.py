"""Random histories of forks in the pure core equal those of a store that copies on fork."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from oracle_trees import TreeHistories


@pytest.mark.lineage(1, 2, 5, 8, 9)
def test_forks_of_the_core_equal_copies() -> None:
    run(examples=40, steps=40)


@pytest.mark.soak
def test_forks_of_the_core_equal_copies_for_long() -> None:
    run(examples=3000, steps=80)


def run(*, examples: int, steps: int) -> None:
    run_state_machine_as_test(
        TreeHistories,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
