"""kill -9 at every failpoint of an undo, at each of its effects; another process goes on.

Outcome, items and residue are those of an undisturbed run, and so is the vendor's world; nothing
acts twice. What may have been sent, of a tool that honours no key, may end in doubt in place of
that (undo.md 7).
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from processes import eventually, process
from scripted_provider import ScriptedProvider, text
from serving import serving
from storied import LONG, Undisturbed, did, effects, ended, planned, turn_of
from vendor import KEYED, STORY, check_report, normal, told_story, vending
from whole import check_whole

REACHED = {
    "undo.committed": 1,
    "undo.claimed": 1,
    "undo.checked": 14,
    "undo.intended": 13,
    "undo.applied": 13,
    "undo.marked": 13,
    "undo.between": 1,
    "undo.reconciling": 1,
    "undo.verified": 12,
    "undo.last": 1,
    "undo.ended": 1,
}
"""How often an undisturbed undo of the story comes by each failpoint."""

QUICK = frozenset({"undo.applied@3"})


def points(more: int = 0) -> list[object]:
    found = [
        f"{point}@{nth}"
        for point, times in REACHED.items()
        for nth in (range(1, times + 1) if not more else (times + more,))
    ]
    marks = {point: () if point in QUICK else pytest.mark.soak for point in found}
    return [pytest.param(point, marks=mark) for point, mark in marks.items()]


@pytest.mark.undo(24)
@pytest.mark.kill
@pytest.mark.parametrize("failpoint", points())
async def test_an_undo_of_the_story_is_the_same_wherever_its_process_dies(
    peace: Undisturbed,
    fresh_database: str,
    tmp_path: Path,
    provider: ScriptedProvider,
    failpoint: str,
) -> None:
    async with vending(tmp_path) as vendor:
        settings = provider.settings | vendor.settings
        before = vendor.leaves()
        provider.will(told_story(), [text("done")])
        async with (
            process(tmp_path, fresh_database, failpoint=failpoint, **settings) as first,
            serving(fresh_database, **settings) as second,
        ):
            session = await first.session()
            async with first.connect(session) as client, second.connect(session) as other:
                await client.snapshot()
                await other.snapshot()
                turn = turn_of(await did(client))
                body = {"plan_id": await planned(first, session, revert={"turn_id": turn})}
                await client.send("Revert", messageId=turn, effects="undo", planId=body["plan_id"])
                async with asyncio.timeout(LONG):
                    await first.gone.wait()
                assert await first.end() == -9
                await eventually(
                    lambda: any(f.get("phase") == "ended" for f in other.frames), within=LONG
                )
                [undo_id] = {f["undoId"] for f in other.frames if f.get("undoId")}
                assert sum(f.get("phase") == "ended" for f in other.frames) == 1
            found = await ended(second, session, undo_id)
            writes = vendor.writes
            again = await second.http.post(f"/sessions/{session}/undos", json=body)
            assert again.json()["undo_id"] == undo_id
            assert await ended(second, session, undo_id) == found
            assert vendor.writes == writes
            numbers = {effect.id: effect.number for effect in await effects(second, session)}
        check_report(found, before, vendor)
        items = normal(found, numbers)
        doubtful = {n for n, item in items.items() if item["state"] == "in_doubt"}
        # The first of two calls has made a thing that is neither as before nor as expected, and
        # nobody knows that it was this call: it may be a stranger's.
        review = {n for n, item in items.items() if item["state"] == "needs_review"}
        assert not review or (failpoint.startswith("undo.applied") and review == {4})
        doubtful |= review
        for number in doubtful:
            # Sent, perhaps, and with no key: nobody can know.
            assert failpoint.startswith(("undo.intended", "undo.applied"))
            assert STORY[number - 1][0] not in KEYED
        assert len(doubtful) <= 1
        same = {n: item for n, item in items.items() if n not in doubtful}
        if doubtful:
            same = {n: item for n, item in same.items() if item["state"] != "blocked"}
            assert len(same) >= len(items) - 2
        assert same == {n: item for n, item in peace.items.items() if n in same}
        if not doubtful:
            assert found["outcome"] == peace.outcome
            assert vendor.leaves() == peace.left
            assert vendor.told() == peace.told
        assert not vendor.acted - peace.acts, "something has acted that does not in peace"
    await check_whole(fresh_database)


@pytest.mark.kill
@pytest.mark.parametrize("failpoint", points(more=1))
@pytest.mark.soak
async def test_the_matrix_is_whole(
    peace: Undisturbed,
    fresh_database: str,
    tmp_path: Path,
    provider: ScriptedProvider,
    failpoint: str,
) -> None:
    async with vending(tmp_path) as vendor:
        settings = provider.settings | vendor.settings
        provider.will(told_story(), [text("done")])
        async with process(tmp_path, fresh_database, failpoint=failpoint, **settings) as only:
            session = await only.session()
            async with only.connect(session) as client:
                await client.snapshot()
                turn = turn_of(await did(client))
                plan = await planned(only, session, turn_ids=[turn])
                await client.ask("Undo", planId=plan)
                await eventually(
                    lambda: any(f.get("phase") == "ended" for f in client.frames), within=LONG
                )
            assert not only.gone.is_set()
        assert vendor.acted == peace.acts
