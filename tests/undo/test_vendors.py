"""Tool sets of vendors, on a real tool server, by overlays as their users would write them.

Random turns, strangers, faults, and the undo of all of it; what the report says is held against the
world's own dump, leaf by leaf, and on worlds without any of that everything has to be put back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

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


def vendors() -> list[Any]:
    return [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.soak)
        for name in sorted(FINAL)
    ]


@pytest.fixture
async def g(
    request: pytest.FixtureRequest,
    fresh_database: str,
    tmp_path: Path,
    provider: ScriptedProvider,
) -> AsyncIterator[Ground]:
    async with ground(fresh_database, tmp_path, provider, request.param) as found:
        yield found


def stories_of(request: pytest.FixtureRequest, *, few: int, many: int) -> range:
    """So many stories; the long run has others than the quick one."""
    is_long = request.config.getoption("-m") == "soak"
    return range(1_000, 1_000 + many) if is_long else range(few)


@pytest.mark.parametrize("g", vendors(), indirect=True)
async def test_no_report_is_cleaner_than_a_vendors_world(
    g: Ground, request: pytest.FixtureRequest
) -> None:
    vain = claims = 0
    for seed in stories_of(request, few=6, many=150):
        told = await tell(g, seed)
        assert_true(g, told)
        vain, claims = vain + claims_in_vain(g, told), claims + len(told.claims)
    assert vain <= max(2, claims // 20)


@pytest.mark.parametrize("g", vendors(), indirect=True)
async def test_undisturbed_everything_is_put_back_in_a_vendors_world(
    g: Ground, request: pytest.FixtureRequest
) -> None:
    for seed in stories_of(request, few=4, many=60):
        told = await tell(g, seed, strangers=False, faults=False, without=FINAL[g.connection])
        assert_true(g, told)
        assert not told.differ
        assert {one["outcome"] for one in told.reports} <= {"fully_reverted"}


@pytest.mark.soak
@pytest.mark.parametrize("g", [f"drawn:{n}" for n in range(30)], indirect=True)
async def test_no_report_is_cleaner_than_a_world_that_nobody_has_thought_of(g: Ground) -> None:
    vain = claims = 0
    for seed in range(20):
        told = await tell(g, seed, forward_faults=seed % 4 == 0)
        assert_true(g, told)
        vain, claims = vain + claims_in_vain(g, told), claims + len(told.claims)
    assert vain <= max(3, claims // 20)
