"""Random histories of forks in the pure core equal those of a store that copies on fork."""

from __future__ import annotations

import pytest
from oracle_histories import run
from oracle_trees import TreeHistories


@pytest.mark.lineage(1, 2, 5, 8, 9)
def test_forks_of_the_core_equal_copies() -> None:
    run(TreeHistories, examples=40, steps=40)


@pytest.mark.soak
def test_forks_of_the_core_equal_copies_for_long() -> None:
    run(TreeHistories, examples=3000, steps=80, shrinks=True)
