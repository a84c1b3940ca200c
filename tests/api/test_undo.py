"""Undo from end to end: planned, clicked, carried out on real tools, told and reported."""

from __future__ import annotations

from pathlib import Path

from scripted_provider import ScriptedProvider
from undoing import place, states, undo_frames


async def test_what_a_turn_did_outside_is_put_back_by_its_plan_and_head_stays(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w:
        session = await w.server.session()
        async with w.server.connect(session) as client:
            await client.snapshot()
            turn = await w.turn(client, w.set_phone("2"), w.send_mail("hello", nth=1))
            head = client.durable[-1]
            report = await w.undo(session, turn_ids=[turn])
            assert report["outcome"] == "partially_reverted"
            assert sorted(states(report)) == ["needs_you", "reverted"]
            assert report["counts"] == {"needs_you": 1, "revert": 1}
            assert w.phone() == "1"
            assert sorted(map(str, await w.standings(session))) == ["in_force", "reverted"]
            ended = undo_frames(client, "ended")
            assert ended[-1]["outcome"] == "partially_reverted"
            assert head
