"""A session's own limits of a run: kept, shown, told, and what its runs are held to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from processes import eventually
from rest import get, problem
from scripted_provider import Pause, ScriptedProvider, call, text
from serving import Server, serving
from wire import Frame, is_status, is_step

NONE: dict[str, Any] = {
    "max_steps": None,
    "run_timeout": None,
    "tool_timeout": None,
    "max_tool_output": None,
    "disabled_tools": [],
}
OWN: dict[str, Any] = {
    "max_steps": 2,
    "run_timeout": 30.5,
    "tool_timeout": 3,
    "max_tool_output": 50,
    "disabled_tools": ["deleteOperator", "getWorkflow"],
}
LOOK = call("getWorkflow", {})
MODEL: dict[str, Any] = {"model": "openai:scripted"}


async def change(server: Server, session: str, **members: Any) -> dict[str, Any]:
    """The settings after a change of these members."""
    answer = await server.http.patch(f"/sessions/{session}", json={"settings": members})
    assert answer.status_code == 200, answer.text
    settings: dict[str, Any] = answer.json()["settings"]
    return settings


def of_settings(frame: Frame) -> bool:
    return frame["type"] == "WsServerSessionEvent" and frame["change"] == "settings"


# -- kept and shown


async def test_a_session_has_the_servers_settings_until_it_has_its_own(server: Server) -> None:
    session = await server.session()
    assert (await get(server, f"/sessions/{session}"))["settings"] == NONE
    assert await change(server, session, max_steps=2) == NONE | {"max_steps": 2}
    assert await change(server, session, tool_timeout=3) == NONE | {
        "max_steps": 2,
        "tool_timeout": 3,
    }
    assert await change(server, session, **OWN) == OWN
    assert await change(server, session, max_steps=None) == OWN | {"max_steps": None}
    assert await change(server, session, **dict.fromkeys(OWN)) == NONE
    twice = ["getWorkflow", "deleteOperator", "getWorkflow"]
    assert (await change(server, session, disabled_tools=twice))["disabled_tools"] == twice[1:]
    revision = (await get(server, f"/sessions/{session}"))["revision"]
    for nothing in ({}, {"disabled_tools": twice}, {"max_steps": None}):
        await change(server, session, **nothing)
    assert (await get(server, f"/sessions/{session}"))["revision"] == revision


async def test_settings_are_given_when_a_session_is_made_and_outlive_the_server(
    fresh_database: str,
) -> None:
    async with serving(fresh_database) as server:
        made = await server.http.post("/sessions", json={"settings": OWN})
        assert (made.status_code, made.json()["settings"], made.json()["revision"]) == (201, OWN, 0)
        changed = await server.session()
        await change(server, changed, **OWN)
    async with serving(fresh_database) as server:
        for session in (made.json()["id"], changed):
            assert (await get(server, f"/sessions/{session}"))["settings"] == OWN
            async with server.connect(session) as client:
                assert (await client.snapshot())["settings"] == {
                    "maxSteps": 2,
                    "runTimeout": 30.5,
                    "toolTimeout": 3,
                    "maxToolOutput": 50,
                    "disabledTools": ["deleteOperator", "getWorkflow"],
                }
        listed = (await get(server, "/sessions"))["sessions"]
        assert [session["settings"] for session in listed] == [OWN, OWN]


@pytest.mark.case(31)
@pytest.mark.parametrize(
    ("settings", "code", "where"),
    [
        ({"max_steps": 0}, "bad_input", "/settings/max_steps"),
        ({"max_steps": -1}, "bad_input", "/settings/max_steps"),
        ({"max_steps": 2.5}, "bad_input", "/settings/max_steps"),
        ({"max_steps": True}, "bad_input", "/settings/max_steps"),
        ({"run_timeout": 0}, "bad_input", "/settings/run_timeout"),
        ({"run_timeout": 5e-324}, "bad_input", "/settings/run_timeout"),
        ({"tool_timeout": -0.5}, "bad_input", "/settings/tool_timeout"),
        ({"max_tool_output": 0}, "bad_input", "/settings/max_tool_output"),
        ({"disabled_tools": ["rm"]}, "bad_input", "/settings/disabled_tools/0"),
        ({"disabled_tools": "getWorkflow"}, "bad_input", "/settings/disabled_tools"),
        ({"model_timeout": 1}, "bad_input", "/settings/model_timeout"),
        ({"max_steps": 41}, "not_stricter", {"limit": "max_steps", "value": 40}),
        ({"run_timeout": 600.5}, "not_stricter", {"limit": "run_timeout", "value": 600.0}),
        ({"tool_timeout": 61}, "not_stricter", {"limit": "tool_timeout", "value": 60.0}),
        ({"max_tool_output": 100_001}, "not_stricter",
         {"limit": "max_tool_output", "value": 100_000}),
    ],
)  # fmt: skip
async def test_what_is_no_limit_or_looser_than_the_servers_is_refused_by_name(
    standing: Server, settings: dict[str, Any], code: str, where: Any
) -> None:
    session = await standing.session()
    before = await get(standing, f"/sessions/{session}")
    [name] = settings
    body = {"name": "other", "settings": {"max_steps": 2, **settings}}
    for method, path in (("POST", "/sessions"), ("PATCH", f"/sessions/{session}")):
        refused = problem(await standing.http.request(method, path, json=body), 422, code)
        assert refused["data"] == ({"path": where} if code == "bad_input" else where)
        assert name in refused["detail"]
        assert code == "bad_input" or f"`TURNBACK_{name.upper()}`" in refused["detail"]
    assert await get(standing, f"/sessions/{session}") == before


async def test_the_most_that_a_session_may_set_is_the_servers_and_is_said(
    fresh_database: str,
) -> None:
    limits = {"max_steps": 7, "run_timeout": 8.5, "tool_timeout": 9.0, "max_tool_output": 10}
    async with serving(fresh_database, **limits) as server:
        session = await server.session()
        assert await change(server, session, **limits) == NONE | limits
        said = (await get(server, "/capabilities"))["limits"]
        assert {name: said[name] for name in limits} == limits
        bodies = (await get(server, "/openapi.json"))["components"]["schemas"]
        for name, most in limits.items():
            schema = bodies["ChangeRunSettings"]["properties"][name]
            assert schema["anyOf"][0]["maximum"] == most


async def test_a_fork_begins_with_the_settings_and_the_model_of_its_parent(server: Server) -> None:
    session = await server.session()
    await change(server, session, **OWN)
    answer = await server.http.post(f"/sessions/{session}/fork", json={})
    child = answer.json()["session"]["id"]
    parent, made = [await get(server, f"/sessions/{id_}") for id_ in (session, child)]
    assert made["settings"] == parent["settings"] == OWN
    assert made["model"] == parent["model"]
    await change(server, session, max_steps=1)
    assert (await get(server, f"/sessions/{child}"))["settings"] == OWN


async def test_an_archived_session_keeps_its_settings_and_model(
    fresh_database: str, provider: ScriptedProvider
) -> None:
    async with serving(fresh_database, model_base_url=provider.url) as server:
        session = await server.session()
        path = f"/sessions/{session}"
        await server.http.patch(path, json={"archived": True})
        before = await get(server, path)
        for body in ({"settings": {"max_steps": 2}}, MODEL, {"archived": True, **MODEL}):
            problem(await server.http.patch(path, json=body), 409, "archived")
        assert await get(server, path) == before
        body = {"archived": False, "settings": {"max_steps": 2}, **MODEL}
        after = (await server.http.patch(path, json=body)).json()
        assert after["archived"] is False
        assert after["settings"] == NONE | {"max_steps": 2}
        assert after["model"] == MODEL["model"]


# -- told


async def test_what_changes_is_told_to_v1_and_comes_again_on_replay(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as one, server.connect(session, v1=False) as base:
        shown = (await one.snapshot())["settings"]
        await base.snapshot()
        await change(server, session, max_steps=2, disabled_tools=["getWorkflow"])
        await change(server, session, max_steps=None, disabled_tools=["getWorkflow"])
        await eventually(lambda: len(list(filter(of_settings, one.frames))) == 2)
        event, last = filter(of_settings, one.frames)
        assert event["settings"] == {"maxSteps": 2, "disabledTools": ["getWorkflow"]}
        assert last["settings"] == {"maxSteps": None}
        await one.prompt("add a CSVFileScan")
        async with server.connect(session) as two:
            now = (await two.snapshot())["settings"]
            assert now == shown | event["settings"] | last["settings"]
        async with server.connect(session, query="?since=0") as back:
            await eventually(lambda: len(back.frames) >= 2)
            assert back.frames[:2] == [event, last]
        await eventually(lambda: any(map(is_status("AVAILABLE"), base.frames)))
        assert not [f for f in base.frames if f["type"] == "WsServerSessionEvent"]


# -- what a run is held to


@pytest.mark.case(31)
async def test_a_run_ends_at_its_sessions_limit_of_steps(
    scripted: tuple[Server, ScriptedProvider],
) -> None:
    server, provider = scripted
    session, other = await server.session(settings={"max_steps": 2}), await server.session()
    for of, calls, end in ((session, 2, "limit"), (other, 4, "complete")):
        provider.requests.clear()
        provider.will([LOOK], [LOOK], [LOOK], [text("done")])
        async with server.connect(of) as client:
            await client.snapshot()
            await client.prompt("look around")
            assert client.path[-1]["endReason"] == end
            assert len(provider.requests) == calls
    async with server.connect(session) as client:
        await client.snapshot()
        assert client.path[-1]["content"] == (
            "Stopped at a limit: 2 model calls in a turn (`max_steps`)."
        )


async def test_a_tool_that_a_session_switches_off_is_not_offered_and_does_nothing(
    fresh_database: str, provider: ScriptedProvider
) -> None:
    async with serving(
        fresh_database, **MODEL, model_base_url=provider.url, disabled_tools=["deleteOperator"]
    ) as server:
        session = await server.session()
        await change(server, session, disabled_tools=["getWorkflow"], max_tool_output=50)
        provider.will([LOOK], [text("done")])
        async with server.connect(session) as client:
            await client.snapshot()
            await client.prompt("look around")
            [result] = client.path[-2]["toolResults"]
            assert result["isError"] is True
            assert "`getWorkflow` is switched off" in result["output"]
            for request in provider.requests:
                offered = {tool["function"]["name"] for tool in request["tools"]}
                assert offered == {"addOperator", "modifyOperator"}
            await change(server, session, disabled_tools=None)
            provider.will([LOOK], [text("done")])
            await client.prompt("look around")
            [result] = client.path[-2]["toolResults"]
            assert (result["isError"], len(result["output"]) < 200) == (False, True)
            offered = {tool["function"]["name"] for tool in provider.requests[-1]["tools"]}
            assert offered == {"addOperator", "modifyOperator", "getWorkflow"}


async def test_a_run_is_cut_at_its_sessions_own_time(
    scripted: tuple[Server, ScriptedProvider],
) -> None:
    server, provider = scripted
    session = await server.session(settings={"run_timeout": 0.2})
    provider.will([text("half"), Pause()])
    async with server.connect(session) as client:
        await client.snapshot()
        await client.prompt("talk")
        assert client.path[-1]["content"] == (
            "Stopped at a limit: 0.2 s for a turn (`run_timeout`)."
        )


async def test_a_run_under_way_goes_on_as_it_began(
    scripted: tuple[Server, ScriptedProvider],
) -> None:
    server, provider = scripted
    session, go = await server.session(), asyncio.Event()
    provider.will([LOOK, Pause(go)], [LOOK], [text("done")])
    async with server.connect(session) as client:
        await client.snapshot()
        await client.send("Prompt", content="look around")
        await client.wait(is_step)
        await eventually(lambda: provider.requests)
        body = {"settings": {"max_steps": 1, "disabled_tools": ["getWorkflow"]}, "model": "offline"}
        answer = await server.http.patch(f"/sessions/{session}", json=body)
        assert (answer.json()["state"], answer.json()["model"]) == ("GENERATING", "offline")
        go.set()
        await client.wait(is_status("AVAILABLE"))
        steps = [step for step in client.path if step["role"] == "agent"]
        assert [step["endReason"] for step in steps] == [None, None, "complete"]
        assert not [r for step in steps for r in step.get("toolResults", ()) if r["isError"]]

        await client.prompt("add a CSVFileScan")  # one call of the model, and then the limit
        assert len(provider.requests) == 3  # the offline model has made it
        assert client.path[-1]["endReason"] == "limit"
        told_of = [f["change"] for f in client.frames if f["type"] == "WsServerSessionEvent"]
        assert told_of == ["model", "settings"]


async def test_a_server_that_has_become_stricter_is_obeyed_by_sessions_of_before(
    fresh_database: str, provider: ScriptedProvider
) -> None:
    async with serving(fresh_database, model_base_url=provider.url, **MODEL) as server:
        session = await server.session(settings={"max_steps": 3})
    async with serving(fresh_database, model_base_url=provider.url, max_steps=1, **MODEL) as server:
        provider.will([LOOK], [text("done")])
        async with server.connect(session) as client:
            await client.snapshot()
            await client.prompt("look around")
            assert "1 model calls in a turn" in client.path[-1]["content"]
        assert (await get(server, f"/sessions/{session}"))["settings"]["max_steps"] == 3


@pytest.mark.parametrize("model", ["gpt", "nowhere:gpt", "offline:x"])
async def test_another_model_is_refused_as_when_a_session_is_made(
    standing: Server, model: str
) -> None:
    session = await standing.session()
    before = await get(standing, f"/sessions/{session}")
    body = {"model": model, "name": "other"}
    answer = await standing.http.patch(f"/sessions/{session}", json=body)
    problem(answer, 422, "model_not_configured")
    assert await get(standing, f"/sessions/{session}") == before


# -- two processes on one database


async def test_what_one_process_was_told_the_other_keeps_to(
    fresh_database: str, provider: ScriptedProvider
) -> None:
    settings = {**MODEL, "model_base_url": provider.url}
    async with (
        serving(fresh_database, **settings) as first,
        serving(fresh_database, **settings) as second,
    ):
        session = await first.session()
        async with first.connect(session) as one, second.connect(session) as two:
            await one.snapshot()
            await two.snapshot()
            await change(second, session, max_steps=1)
            provider.will([LOOK], [text("done")])
            await one.prompt("look around")  # at once: whether it has heard of it or not
            assert one.path[-1]["endReason"] == "limit"
            await two.wait(is_status("AVAILABLE"))

            for at in range(5):  # others' members are left as they are
                both = [
                    change(first, session, tool_timeout=at + 1),
                    change(second, session, max_tool_output=at + 1),
                ]
                await asyncio.gather(*both)
                held = (await get(first, f"/sessions/{session}"))["settings"]
                assert (held["tool_timeout"], held["max_tool_output"]) == (at + 1, at + 1)
                assert await change(second, session, tool_timeout=at + 1) == held
            await eventually(lambda: len(one.durable) == len(two.durable))
            assert one.durable == two.durable
            changes = [f["settings"] for f in one.durable if of_settings(f)]
            assert len(changes) == 11
