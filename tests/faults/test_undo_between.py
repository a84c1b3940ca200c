"""What happens to the world, the tools and the database between a call, its undo, and its end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from processes import eventually, process
from restarting import Postgres, restartable
from scripted_provider import ScriptedProvider, text
from serving import Server, serving
from storied import planned, taken_back, turn_of
from undoing import report, states
from vendor import NAME, Vendor, check_report, told_story, vending

CHARGE = ("charge_card", {"amount": 300, "to": "Lina", "for": "Deposit"})
NOTE = ("set_note", {"id": "keys", "text": "with Lina"})
GONE = ("remove_note", {"id": "milk"})
BEN = ("update_contact", {"id": "ben", "changes": {"phone": "555-0177"}})


@pytest.fixture
async def vendor(tmp_path: Path) -> AsyncIterator[Vendor]:
    async with vending(tmp_path) as running:
        yield running


async def did(server: Any, provider: ScriptedProvider, *calls: Any) -> tuple[str, str]:
    """A session in which these calls were made, and their turn."""
    provider.will(told_story(calls), [text("done")])
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        turn = turn_of(await client.prompt("do it"))
    return session, turn


async def begun(server: Any, session: str, turn: str) -> str:
    """The undo of a turn, once it is begun."""
    plan = await planned(server, session, turn_ids=[turn])
    started = await server.http.post(f"/sessions/{session}/undos", json={"plan_id": plan})
    assert started.status_code == 202, started.text
    return str(started.json()["undo_id"])


# -- a deploy


@pytest.mark.kill
async def test_a_tool_that_has_become_another_since_is_not_called_to_take_anything_back(
    fresh_database: str, provider: ScriptedProvider, vendor: Vendor
) -> None:
    settings = provider.settings | vendor.settings
    before = vendor.leaves()
    async with serving(fresh_database, **settings) as server:
        session, turn = await did(server, provider, NOTE, BEN)
    vendor.says["set_note"] = "Sets a note, and reads it out to everybody."
    async with serving(fresh_database, **settings) as server:
        found = await taken_back(server, session, turn)
    assert {item["tool"]: (item["state"], item["reason"]) for item in found["items"]} == {
        f"{NAME}.set_note": ("needs_you", "tool_changed"),
        f"{NAME}.update_contact": ("reverted", None),
    }
    assert vendor.acts("set_note") == 1
    assert check_report(found, before, vendor) == {("note keys", ("text",))}
    [left] = found["residues"]
    assert f"`{NAME}.set_note` has changed since" in left["what"]


@pytest.mark.kill
async def test_a_tool_that_becomes_another_in_the_middle_of_an_inverse_is_not_called_any_more(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, vendor: Vendor
) -> None:
    settings = provider.settings | vendor.settings
    before = vendor.leaves()
    async with process(tmp_path, fresh_database, failpoint="undo.between", **settings) as first:
        session, turn = await did(first, provider, GONE)
        undo_id = await begun(first, session, turn)
        await first.end()
    vendor.says["set_note"] = "Sets a note, and reads it out to everybody."
    async with serving(fresh_database, **settings) as second:
        found = await report(second, session, undo_id)
    assert (found["outcome"], states(found)) == ("partially_reverted", ["partly"])
    assert (vendor.acts("make_note"), vendor.acts("set_note")) == (1, 0)
    assert check_report(found, before, vendor) == {("note milk", ("text",))}


@pytest.mark.kill
async def test_what_was_known_of_the_tools_when_a_call_was_made_holds_for_its_undo(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, vendor: Vendor
) -> None:
    settings = provider.settings | vendor.settings
    before = vendor.leaves()
    async with process(tmp_path, fresh_database, failpoint="undo.intended", **settings) as first:
        session, turn = await did(first, provider, CHARGE, BEN)
        await first.http.get(f"/sessions/{session}/effects")
        plan = await planned(first, session, turn_ids=[turn])
        body = {"plan_id": plan}
        undo_id = (await first.http.post(f"/sessions/{session}/undos", json=body)).json()["undo_id"]
        await first.end()
    # What is deployed now knows of no key of a refund, and would delete a contact to change it.
    lies = {"call": "delete_contact", "args": {"id": {"$1": "$.args.id"}}}
    vendor.restate("refund_charge", key=None)
    vendor.restate("update_contact", cases=[{"class": "reversible", "inverse": [lies]}])
    async with serving(fresh_database, **settings) as second:
        found = await report(second, session, undo_id)
    assert sorted(states(found)) == ["compensated", "reverted"]
    assert (vendor.acts("refund_charge"), vendor.acts("delete_contact")) == (1, 0)
    [key] = {key for tool, key in vendor.arrived if tool == "refund_charge"}
    assert key is not None
    check_report(found, before, vendor)


# -- keys


@pytest.mark.kill
@pytest.mark.parametrize(
    "failpoint", ["undo.intended", pytest.param("undo.applied", marks=pytest.mark.soak)]
)
async def test_a_refund_that_may_have_been_made_is_asked_for_again_under_its_key(
    fresh_database: str,
    tmp_path: Path,
    provider: ScriptedProvider,
    vendor: Vendor,
    failpoint: str,
) -> None:
    settings = provider.settings | vendor.settings
    before = vendor.leaves()
    async with (
        process(tmp_path, fresh_database, failpoint=failpoint, **settings) as first,
        serving(fresh_database, **settings) as second,
    ):
        session, turn = await did(first, provider, CHARGE)
        undo_id = await begun(first, session, turn)
        await first.end()
        found = await report(second, session, undo_id)
    assert states(found) == ["compensated"]
    assert vendor.acts("refund_charge") == 1
    assert check_report(found, before, vendor)


# -- the lease


@pytest.mark.undo(27)
@pytest.mark.kill
async def test_a_process_that_goes_down_in_a_call_of_an_undo_hands_it_over(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, vendor: Vendor
) -> None:
    settings = provider.settings | vendor.settings
    before = vendor.leaves()
    async with (
        process(tmp_path, fresh_database, **settings) as first,
        serving(fresh_database, **settings) as second,
    ):
        session, turn = await did(first, provider, NOTE, BEN)
        answered = vendor.hold("update_contact", acted=True)
        undo_id = await begun(first, session, turn)
        await eventually(lambda: vendor.acts("update_contact") == 2)
        first.send(signal.SIGTERM)
        found = await report(second, session, undo_id)
        answered.set()
        assert await first.end() == 0
    assert (found["outcome"], states(found)) == ("fully_reverted", ["reverted", "reverted"])
    assert vendor.acts("update_contact") == 2
    assert not check_report(found, before, vendor)


@pytest.mark.undo(27)
@pytest.mark.kill
async def test_what_a_frozen_process_has_sent_is_known_to_who_goes_on_and_it_sends_nothing_more(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, vendor: Vendor
) -> None:
    settings = provider.settings | vendor.settings
    short = {"lease_heartbeat": 0.2, "lease_expiry": 1.0}
    before = vendor.leaves()
    answered = vendor.hold("charge_card", acted=True)
    async with (
        process(tmp_path, fresh_database, **settings | short) as first,
        serving(fresh_database, **settings | short) as second,
    ):
        provider.will(told_story([CHARGE, BEN]), [text("never said")])
        session = await first.session()
        async with first.connect(session) as client:
            await client.snapshot()
            await client.send("Prompt", content="do it")
            await eventually(lambda: vendor.acts("charge_card") == 1)
            first.send(signal.SIGSTOP)
            answered.set()
            steps = await ended(second, session)
            first.send(signal.SIGCONT)
            await asyncio.sleep(0.5)
        [paid, not_run] = steps[-2]["tool_results"]
        assert (paid["is_error"], not_run["output"]) == (False, "[ERROR] Not run.")
        assert [vendor.acts(tool) for tool in ("charge_card", "update_contact")] == [1, 0]
        found = await taken_back(second, session, steps[-2]["turn_id"])
    assert states(found) == ["compensated"]
    check_report(found, before, vendor)


async def ended(server: Server, session: str) -> list[dict[str, Any]]:
    """The steps of a session once its turn has been ended."""
    steps: list[dict[str, Any]] = []

    async def over() -> bool:
        steps[:] = (await server.http.get(f"/sessions/{session}/steps")).json()["steps"]
        return steps[-1]["end_reason"] is not None

    await eventually(over)
    return steps


# -- the database


@pytest.fixture(scope="module")
async def postgres(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Postgres]:
    async with restartable(tmp_path_factory.mktemp("restarted")) as server:
        yield server


@pytest.mark.soak
@pytest.mark.parametrize("acted", [False, True])
@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_call_and_an_undo_outlive_a_restart_of_the_database(
    postgres: Postgres, provider: ScriptedProvider, vendor: Vendor, mode: str, acted: bool
) -> None:
    settings = provider.settings | vendor.settings | {"lease_expiry": 20.0, "tool_timeout": 20.0}
    before = vendor.leaves()
    async with serving(postgres.url, **settings) as server:
        answered = vendor.hold("update_contact", acted=acted)
        provider.will(told_story([NOTE, BEN, CHARGE]), [text("done")])
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            await client.send("Prompt", content="do it")
            await eventually(lambda: vendor.calls("update_contact") == 1)
            await restarted(postgres, mode, answered)
            steps = await ended(server, session)
        assert [r["is_error"] for r in steps[-2]["tool_results"]] == [False] * 3
        assert steps[-1]["content"] == "done"
        answered = vendor.hold("update_contact", acted=acted)
        undo_id = await begun(server, session, steps[-1]["turn_id"])
        await eventually(lambda: vendor.calls("update_contact") == 2)
        await restarted(postgres, mode, answered)
        found = await report(server, session, undo_id)
    assert sorted(states(found)) == ["compensated", "reverted", "reverted"]
    assert [vendor.acts(tool) for tool in ("set_note", "update_contact", "refund_charge")] == [
        2,
        2,
        1,
    ]
    check_report(found, before, vendor)


async def restarted(postgres: Postgres, mode: str, answered: asyncio.Event) -> None:
    """Stop it while a call is under way, which is answered meanwhile, and start it again."""
    await postgres.stop(mode)
    answered.set()
    await asyncio.sleep(0.3)
    await postgres.start()
