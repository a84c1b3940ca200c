"""A compensation by an agent, from its contract to the world: what the gate lets through, and what
it says of it. None is shipped; these are of tools of this test.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scripted_provider import ScriptedProvider, call, text
from undoing import Place, place, states
from wire import Client

AGENTS: dict[str, Any] = {"tool_modules": ("outside_tools", "agentic_tools"), "approval": "never"}


def booked(w: Place, *, tool: str = "book") -> dict[str, Any]:
    args = {"at": str(w.folder / "desk"), "room": "blue"}
    return call(f"desk__{tool}", args, id="b1")


def asks(w: Place, tool: str, *, nth: int = 0, connection: str = "desk") -> dict[str, Any]:
    at = "to" if tool == "send_mail" else "at"
    args = {at: str(w.folder / "desk"), "text": f"cancel {nth}"}
    return call(f"{connection}__{tool}", args, id=f"a{nth}", index=nth)


async def turn(w: Place, client: Client) -> str:
    await client.snapshot()
    return await w.turn(client, booked(w))


async def listed(w: Place, session: str) -> list[dict[str, Any]]:
    return list((await w.server.http.get(f"/sessions/{session}/effects")).json()["effects"])


async def test_an_agents_calls_are_effects_in_the_log_within_the_budget_and_it_is_compensated(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider, **AGENTS) as w:
        session = await w.server.session()
        async with w.server.connect(session) as client:
            turn_id = await turn(w, client)
            plan = await w.plan(session, turn_ids=[turn_id])
            assert [m["verb"] for m in plan["members"]] == ["compensate"]
            provider.will([text("I ask"), asks(w, "ask_desk")], [text("it is cancelled")])
            report = await w.undo(session, turn_ids=[turn_id])
            assert states(report) == ["compensated"]
            assert report["outcome"] == "partially_reverted"
            assert report["items"][0]["reason"] == "unchecked"
            assert report["spent"]["calls"] == 1
            assert report["spent"]["tokens"] > 0
            assert w.calls("ask_desk") == 1
            [book, ask] = await listed(w, session)
            assert (book["standing"], ask["tool"]) == ("compensated", "desk.ask_desk")
            assert (ask["state"], ask["standing"]) == ("done", "in_force")
            # It was told what it is about as data, and was offered what its contract allows.
            said = provider.requests[-2]
            assert "Cancel the booking" in json.dumps(said["messages"])
            assert [t["function"]["name"] for t in said["tools"]] == ["desk__ask_desk"]


async def test_a_tool_outside_its_list_is_not_called(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider, **AGENTS) as w:
        session = await w.server.session()
        async with w.server.connect(session) as client:
            turn_id = await turn(w, client)
            wrong = asks(w, "send_mail", connection="python")
            other = asks(w, "book", nth=1)
            provider.will([text("I mail"), wrong, other], [text("I could not")])
            report = await w.undo(session, turn_ids=[turn_id])
            heard = [m for m in provider.requests[-1]["messages"] if m["role"] == "tool"]
            assert len(heard) == 2
            assert all("ERROR" in message["content"] for message in heard)
            assert (w.calls("send_mail"), w.calls("book")) == (0, 1)
            assert report["spent"]["calls"] == 0
            assert len(await listed(w, session)) == 1


@pytest.mark.undo(28)
async def test_it_makes_no_more_calls_than_its_contract_allows_and_than_the_budget_has(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider, **AGENTS) as w:
        session = await w.server.session()
        async with w.server.connect(session) as client:
            turn_id = await turn(w, client)
            many = [asks(w, "ask_desk", nth=n) for n in range(4)]
            provider.will([text("I ask"), *many], [text("well")])
            report = await w.undo(session, turn_ids=[turn_id])
            assert (w.calls("ask_desk"), report["spent"]["calls"]) == (2, 2)  # its own bound
            assert states(report) == ["partly"]
            assert report["items"][0]["reason"] == "agent"
            assert report["outcome"] == "partially_reverted"
            (tmp_path / "calls").unlink()
            provider.will([text("I ask"), *many], [text("well")])
            report = await w.undo(session, turn_ids=[turn_id], calls=1)
            assert (w.calls("ask_desk"), report["spent"]["calls"]) == (1, 1)  # the run's budget
            assert states(report)[-1:] != ["reverted"]


@pytest.mark.parametrize(
    ("settings", "tool"), [({"undo_tokens": 5}, "book"), ({}, "book_for_words")]
)
async def test_it_does_not_think_beyond_the_tokens_that_there_are(
    fresh_database: str,
    tmp_path: Path,
    provider: ScriptedProvider,
    settings: dict[str, Any],
    tool: str,
) -> None:
    async with (
        place(fresh_database, tmp_path, provider, **AGENTS | settings) as w,
        w.opened() as (session, client),
    ):
        turn_id = await w.turn(client, booked(w, tool=tool))
        asked = len(provider.requests)
        report = await w.undo(session, turn_ids=[turn_id])
        assert len(provider.requests) == asked
        assert (states(report), report["items"][0]["reason"]) == (["failed"], "agent")
        assert report["spent"]["tokens"] == 0
        assert report["outcome"] == "not_reverted"


async def test_it_is_ended_when_its_seconds_are_over(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with (
        place(fresh_database, tmp_path, provider, **AGENTS) as w,
        w.opened() as (session, client),
    ):
        turn_id = await w.turn(client, booked(w, tool="book_in_haste"))
        (tmp_path / "hang").touch()
        provider.will([text("I ask"), asks(w, "ask_desk")], [text("never said")])
        report = await w.undo(session, turn_ids=[turn_id])
        (tmp_path / "hang").unlink()
        assert (states(report), report["items"][0]["reason"]) == (["partly"], "agent")
        assert [e["state"] for e in await listed(w, session)] == ["done", "in_doubt"]
