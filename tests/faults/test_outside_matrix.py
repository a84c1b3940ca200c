"""kill -9 at every failpoint of a call, at each call of a step; the turn is then taken back.

Another process closes the step. What was surely done is in the log, and its undo is that of an
undisturbed run; of the call under way it is known what it did wherever that can be found out, and
otherwise it is in doubt, and the report says so. Nothing acts twice (undo.md 7).
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from processes import process
from scripted_provider import ScriptedProvider, text
from serving import serving
from storied import (
    Undisturbed,
    available,
    effects,
    taken_back,
)
from vendor import KEYED, STORY, check_report, normal, told_story, vending
from whole import check_whole

from turnback.core.effects import CallState
from turnback.tools.settle import MARGIN_MS

POINTS = ("call.intend", "call.intended", "call.sent", "call.replied", "call.done")
QUICK = frozenset({"call.replied@10"})

LOOKED_UP = frozenset({"order"})
"""The tools whose calls are looked for where nobody knows of them."""

READ_BACK = frozenset({"update_event", "update_contact", "set_note"})
"""Those whose arguments are what their things become."""


NEEDS = {6: [1], 7: [5]}
"""By number, what a call of the story needs that an earlier one has made."""


def points() -> list[object]:
    found = [f"{point}@{nth}" for point in POINTS for nth in range(1, len(STORY) + 1)]
    found.append("open.after@1")
    marks = {point: () if point in QUICK else pytest.mark.soak for point in found}
    return [pytest.param(point, marks=mark) for point, mark in marks.items()]


@pytest.mark.undo(25)
@pytest.mark.kill
@pytest.mark.parametrize("failpoint", points())
async def test_what_a_killed_process_has_done_is_taken_back_as_if_it_had_lived(
    peace: Undisturbed,
    fresh_database: str,
    tmp_path: Path,
    provider: ScriptedProvider,
    failpoint: str,
) -> None:
    point, _, nth = failpoint.partition("@")
    number = int(nth)
    tool = STORY[number - 1][0]
    async with vending(tmp_path) as vendor:
        settings = provider.settings | vendor.settings
        before = vendor.leaves()
        provider.will(told_story(), [text("never said")])
        async with process(tmp_path, fresh_database, failpoint=failpoint, **settings) as first:
            session = await first.session()
            async with first.connect(session) as client:
                await client.snapshot()
                await client.send("Prompt", content="do it all")
                await first.gone.wait()
            assert await first.end() == -9
        acted = bool(vendor.acts(tool))
        async with serving(fresh_database, **settings) as second:
            await available(second, session)
            steps = (await second.http.get(f"/sessions/{session}/steps")).json()["steps"]
            logged = await effects(second, session)
            under_way = logged[number - 1 :] if point.startswith("call") else []
            if point in ("call.intend", "open.after"):
                assert not under_way
                known = number - 1
            elif point == "call.done":
                assert [one.state for one in under_way] == [CallState.DONE]
                known = number
            else:
                [one] = under_way
                doubt = one.state is CallState.IN_DOUBT
                # A key is sent again at once, and what was done is looked up.
                if tool in KEYED or (tool in LOOKED_UP and acted):
                    assert one.state is CallState.DONE
                else:
                    assert doubt
                known = number - doubt
            assert [one.state for one in logged[:known]] == [CallState.DONE] * known
            told = [r["is_error"] for r in steps[-2]["tool_results"]]
            assert told == [False] * known + [True] * (len(STORY) - known)
            if known == number - 1 and under_way and tool in READ_BACK | LOOKED_UP:
                await asyncio.sleep(second.settings.tool_timeout + MARGIN_MS / 1000)
            turn = steps[-2]["turn_id"]
            found = await taken_back(second, session, turn) if logged else None
        if found is None:
            assert vendor.leaves() == before
            return
        check_report(found, before, vendor)
        items = normal(found, {effect.id: effect.number for effect in logged})
        same = {n: items[n] for n in range(1, known + 1)}
        if known < number and number in items and items[number]["state"] == "in_doubt":
            # What it may depend on stays, lest it be taken from under it.
            stays = [n for n, item in same.items() if item["state"] == "blocked"]
            assert stays == NEEDS.get(number, [])
            same = {n: item for n, item in same.items() if n not in stays}
        assert same == {n: peace.items[n] for n in same}
        if known < number and number in items:
            state, reason = items[number]["state"], items[number]["reason"]
            if tool in READ_BACK and acted:
                assert items[number]["state"] == peace.items[number]["state"]
            elif tool in READ_BACK | LOOKED_UP:
                assert (state, reason) == ("reverted", "never_happened")
            else:
                assert (state, reason) == ("in_doubt", "forward_in_doubt")
        calls = vendor.acted - peace.acts
        assert not calls, "something has acted that does not in peace"
    await check_whole(fresh_database)
