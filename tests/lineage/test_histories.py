"""Random histories of forks on the real store equal those of a store that copies on fork."""

from __future__ import annotations

from pathlib import Path

import pytest
from oracle_actors import Actors
from oracle_histories import StoredHistories, run
from oracle_rest import Rest, RestHistories


@pytest.mark.lineage(1, 2, 5, 8, 9, 13, 14, 15, 21)
def test_forks_in_the_database_equal_copies(fresh_database: str, tmp_path: Path) -> None:
    run_on_the_store(fresh_database, tmp_path, examples=10, steps=30)


@pytest.mark.soak
def test_forks_in_the_database_equal_copies_for_long(fresh_database: str, tmp_path: Path) -> None:
    run_on_the_store(fresh_database, tmp_path, examples=300, steps=60, shrinks=True)


@pytest.mark.lineage(1, 2, 5, 7, 8, 9, 13, 14, 21, 25)
def test_forks_over_rest_equal_copies(fresh_database: str, tmp_path: Path) -> None:
    run_over_rest(fresh_database, tmp_path, examples=2, steps=8)


@pytest.mark.soak
def test_forks_over_rest_equal_copies_for_long(fresh_database: str, tmp_path: Path) -> None:
    run_over_rest(fresh_database, tmp_path, examples=100, steps=40, shrinks=True)


def run_over_rest(
    url: str, folder: Path, *, examples: int, steps: int, shrinks: bool = False
) -> None:
    rest = Rest(url, folder)

    class OverRest(RestHistories):
        @staticmethod
        def make() -> Rest:
            return rest

    try:
        run(OverRest, examples=examples, steps=steps, shrinks=shrinks)
    finally:
        rest.end()


def run_on_the_store(
    url: str, folder: Path, *, examples: int, steps: int, shrinks: bool = False
) -> None:
    class OnTheStore(StoredHistories):
        @staticmethod
        def make() -> Actors:
            return Actors(url, folder)

    run(OnTheStore, examples=examples, steps=steps, shrinks=shrinks)
