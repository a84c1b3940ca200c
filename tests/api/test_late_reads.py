"""A read that lags behind its writes: what a call did is not to be seen when it has answered."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from scripted_provider import ScriptedProvider
from undoing import place, states


@pytest.mark.parametrize("caught_up", ["ours", "a person's", "never"])
async def test_what_a_late_read_hid_is_not_left_out_of_an_undo(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, caught_up: str
) -> None:
    async with place(fresh_database, tmp_path, provider) as w:
        session = await w.server.session()
        async with w.server.connect(session) as client:
            await client.snapshot()
            late = tmp_path / "ann.late"
            late.write_text('{"phone": "1"}')
            turn = await w.turn(client, w.set_phone("2"), w.set_phone("3", "ben", nth=1))
            assert await w.standings(session) == ["in_force", "in_force"]
            if caught_up != "never":
                late.unlink()
            if caught_up == "a person's":
                w.person_sets("4")
            report = await w.undo(session, turn_ids=[turn])
            if caught_up == "never":
                assert states(report) == ["reverted", "reverted"]  # as far as anybody can see
                return
            assert states(report) == ["reverted", "needs_review"]
            assert report["outcome"] == "partially_reverted"
            [residue] = report["residues"]
            assert [leaf["path"] for leaf in residue["leaves"]] == [["phone"]]
            assert w.phone() == ("2" if caught_up == "ours" else "4")


async def test_an_undo_right_after_the_call_waits_until_reads_have_caught_up(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with (
        place(fresh_database, tmp_path, provider, read_lag=1.5) as w,
        w.opened() as (session, client),
    ):
        late = tmp_path / "ann.late"
        late.write_text('{"phone": "1"}')
        turn = await w.turn(client, w.set_phone("2"))
        asyncio.get_running_loop().call_later(0.2, late.unlink)
        report = await w.undo(session, turn_ids=[turn])
        assert states(report) == ["needs_review"]
        assert w.phone() == "2"


async def test_a_call_that_is_its_own_inverse_has_changed_nothing(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w:
        session = await w.server.session()
        async with w.server.connect(session) as client:
            await client.snapshot()
            await w.turn(client, w.set_phone("1"))
            assert await w.standings(session) == [None]
