"""kill -9 again and again: each process that goes on dies at the same failpoint in its turn.

So one undo of the story outlives a death at each of its effects, and a session one at each of its
calls; what it comes to is what an undisturbed one does (undo.md 7).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from processes import process
from scripted_provider import ScriptedProvider, text
from serving import serving
from storied import (
    LONG,
    Undisturbed,
    available,
    clicked,
    did,
    effects,
    ended,
    planned,
    turn_of,
)
from vendor import KEYED, STORY, check_report, normal, told_story, vending
from whole import check_whole

from turnback.core.effects import CallState
from turnback.tools.settle import MARGIN_MS

UNDO = ("undo.checked@2", "undo.intended@2", "undo.applied@2", "undo.marked@2", "undo.verified@2")
"""The second time each: what a process finds unfinished it does first."""

DEATHS = 5
"""How many processes die at least; each gets on by an effect or two."""


@pytest.mark.undo(24)
@pytest.mark.kill
@pytest.mark.soak
@pytest.mark.parametrize("failpoint", UNDO)
async def test_an_undo_outlives_the_death_of_every_process_that_goes_on_with_it(
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
        async with serving(fresh_database, **settings) as server:
            session = await server.session()
            async with server.connect(session) as client:
                await client.snapshot()
                turn = turn_of(await did(client))
        deaths, undo_id = 0, ""
        while True:
            async with process(tmp_path, fresh_database, failpoint=failpoint, **settings) as one:
                if not undo_id:
                    plan = await planned(one, session, turn_ids=[turn])
                    body = {"plan_id": plan}
                    started = await one.http.post(f"/sessions/{session}/undos", json=body)
                    undo_id = started.json()["undo_id"]
                over = asyncio.create_task(ended(one, session, undo_id))
                gone = asyncio.create_task(one.gone.wait())
                await asyncio.wait({over, gone}, return_when=asyncio.FIRST_COMPLETED)
                if over.done() and over.exception() is None:
                    found = over.result()
                    gone.cancel()
                    break
                over.cancel()
                await asyncio.gather(over, return_exceptions=True)
                await one.end()
                deaths += 1
                assert deaths < 40
        async with serving(fresh_database, **settings) as server:
            numbers = {effect.id: effect.number for effect in await effects(server, session)}
        print(failpoint, "deaths:", deaths)
        check_report(found, before, vendor)
        items = normal(found, numbers)
        doubtful = {n for n, item in items.items() if item["state"] == "in_doubt"}
        assert not doubtful or failpoint.startswith(("undo.intended", "undo.applied"))
        assert not [n for n in doubtful if STORY[n - 1][0] in KEYED]
        same = {
            n: item
            for n, item in items.items()
            if n not in doubtful and not (doubtful and item["state"] == "blocked")
        }
        assert same == {n: item for n, item in peace.items.items() if n in same}
        assert not vendor.acted - peace.acts, "something has acted that does not in peace"
        assert deaths >= DEATHS
        if not doubtful:
            assert found["outcome"] == peace.outcome
            assert vendor.leaves() == peace.left
    await check_whole(fresh_database)


@pytest.mark.undo(25)
@pytest.mark.kill
@pytest.mark.soak
@pytest.mark.parametrize(
    "failpoint", ["call.intend", "call.intended", "call.sent", "call.replied", "call.done"]
)
async def test_a_session_outlives_a_death_at_each_of_its_calls(
    peace: Undisturbed,
    fresh_database: str,
    tmp_path: Path,
    provider: ScriptedProvider,
    failpoint: str,
) -> None:
    async with vending(tmp_path) as vendor:
        settings = provider.settings | vendor.settings
        before = vendor.leaves()
        session = ""
        for at, call in enumerate(STORY):
            provider.will(told_story([call]), [text("never said")])
            async with process(tmp_path, fresh_database, failpoint=failpoint, **settings) as one:
                session = session or await one.session()
                await available(one, session)
                command = {"type": "WsClientPromptCommand", "content": f"go on {at}"}
                asked = await one.http.post(f"/sessions/{session}/commands", json=command)
                assert asked.status_code == 202, asked.text
                async with asyncio.timeout(LONG):
                    await one.gone.wait()
        async with serving(fresh_database, **settings) as server:
            await available(server, session)
            await asyncio.sleep(server.settings.tool_timeout + MARGIN_MS / 1000)
            logged = await effects(server, session)
            turns = list(dict.fromkeys(effect.turn_id for effect in logged))
            if failpoint == "call.intend":
                assert not turns
                assert vendor.leaves() == before
                return
            assert len(turns) == len(STORY)
            plan = await planned(server, session, turn_ids=turns)
            undo_id, _ = await clicked(server, session, plan)
            found = await ended(server, session, undo_id)
        check_report(found, before, vendor)
        states = Counter(item["state"] for item in found["items"])
        print(failpoint, states)
        doubtful = {i["tool"].split(".")[1] for i in found["items"] if i["state"] == "in_doubt"}
        assert not doubtful & {*KEYED, "order", "update_event", "update_contact"}
        assert not vendor.acted - peace.acts, "something has acted that does not in peace"
        if failpoint == "call.done":
            assert {one.state for one in logged} == {CallState.DONE}
            assert not doubtful
    await check_whole(fresh_database)
