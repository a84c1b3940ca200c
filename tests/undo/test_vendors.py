"""Tool sets of vendors, on a real tool server, by overlays as their users would write them.

Random turns, strangers, faults, and the undo of all of it; what the report says is held against the
world's own dump, leaf by leaf, and on worlds without any of that everything has to be put back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from ground import Ground, ground
from scripted_provider import ScriptedProvider
from stories import assert_true, claims_in_vain, tell

FINAL: dict[str, tuple[str, ...]] = {
    "tracker": ("move_ticket", "comment", "remove_task"),
    "zones": ("delete_zone",),
    "flags": (),
    "bucket": ("remove_folder",),
    "booking": ("release_hold", "book", "cancel_booking", "charge", "refund"),
    "wiki": ("delete_talk",),
}
"""The tools whose calls no contract could take back wholly."""

QUICK = ("tracker", "flags")


@pytest.fixture
async def g(
    request: pytest.FixtureRequest,
    fresh_database: str,
    tmp_path: Path,
    provider: ScriptedProvider,
) -> AsyncIterator[Ground]:
    async with ground(fresh_database, tmp_path, provider, request.param) as found:
        yield found


async def are_true(g: Ground, seeds: range, *, forward_faults: bool = False) -> None:
    vain = claims = 0
    for seed in seeds:
        told = await tell(g, seed, forward_faults=forward_faults and seed % 4 == 0)
        assert_true(g, told)
        vain, claims = vain + claims_in_vain(g, told), claims + len(told.claims)
    assert vain <= max(3, claims // 20)


async def are_put_back(g: Ground, seeds: range) -> None:
    for seed in seeds:
        told = await tell(g, seed, strangers=False, faults=False, without=FINAL[g.connection])
        assert_true(g, told)
        assert not told.differ
        assert told.reports == [] or told.reports[-1]["outcome"] == "fully_reverted"


@pytest.mark.parametrize("g", QUICK, indirect=True)
async def test_no_report_is_cleaner_than_a_vendors_world(g: Ground) -> None:
    await are_true(g, range(5))


@pytest.mark.soak
@pytest.mark.parametrize("g", sorted(FINAL), indirect=True)
async def test_no_report_is_cleaner_than_a_vendors_world_at_length(g: Ground) -> None:
    await are_true(g, range(1_000, 1_100))


@pytest.mark.parametrize("g", QUICK, indirect=True)
async def test_undisturbed_everything_is_put_back_in_a_vendors_world(g: Ground) -> None:
    await are_put_back(g, range(3))


@pytest.mark.soak
@pytest.mark.parametrize("g", sorted(FINAL), indirect=True)
async def test_undisturbed_everything_is_put_back_at_length(g: Ground) -> None:
    await are_put_back(g, range(1_000, 1_060))


@pytest.mark.soak
@pytest.mark.parametrize("g", [f"drawn:{n}" for n in range(30)], indirect=True)
async def test_no_report_is_cleaner_than_a_world_that_nobody_has_thought_of(g: Ground) -> None:
    await are_true(g, range(20), forward_faults=True)
