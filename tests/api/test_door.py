"""The public proposal's addresses over a real server, used as a panel written for it does."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from scripted_provider import Pause, ScriptedProvider, call, text
from serving import Server, serving
from wire import Client, Frame, is_error, is_head, is_status, is_step

WORKFLOW = json.loads(
    (Path(__file__).parents[1] / "data/workflows/join-and-chart.json").read_text()
)
NOBODY = "019a0000-0000-7000-8000-000000000000"


class Panel:
    """A panel's way of using an agent: the proposal's REST, and a base socket beside it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.http = server.http

    async def create(self, **body: Any) -> Frame:
        answer = await self.http.post("/api/agents", json=body)
        assert answer.status_code == 200, answer.text
        agent: Frame = answer.json()
        return agent

    async def get(self, agent_id: str, path: str = "") -> Any:
        answer = await self.http.get(f"/api/agents/{agent_id}{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, agent_id: str, path: str) -> httpx.Response:
        return await self.http.post(f"/api/agents/{agent_id}{path}", json={})

    def connect(self, agent_id: str, *, v1: bool = False) -> Client:
        url = f"{self.server.url.replace('http', 'ws')}/api/agents/{agent_id}/react"
        return Client(url, v1=v1)


@pytest.fixture
def panel(server: Server) -> Panel:
    return Panel(server)


async def test_an_agent_is_created_listed_got_and_deleted(panel: Panel) -> None:
    agent = await panel.create(modelType="offline", name="Bob")
    assert (agent["name"], agent["modelType"], agent["state"]) == ("Bob", "offline", "AVAILABLE")
    listed = (await panel.http.get("/api/agents")).json()
    assert listed == {"agents": [agent]}
    whole = await panel.get(agent["id"])
    assert {name: whole[name] for name in agent} == agent
    assert (whole["stepCount"], whole["workflow"]["operators"]) == (0, [])
    session = (await panel.http.get(f"/sessions/{agent['id']}")).json()
    assert session["name"] == "Bob"  # an agent is a session
    deleted = await panel.http.delete(f"/api/agents/{agent['id']}")
    assert (deleted.status_code, deleted.json()) == (200, {"deleted": True})
    assert (await panel.http.get("/api/agents")).json() == {"agents": []}
    again = await panel.http.delete(f"/api/agents/{agent['id']}")
    assert (again.status_code, again.json()["error"]) == (404, "Agent not found")


async def test_an_agent_may_begin_with_a_workflow(panel: Panel) -> None:
    agent = await panel.create(workflow=WORKFLOW)
    assert (await panel.get(agent["id"]))["workflow"] == WORKFLOW
    async with panel.connect(agent["id"]) as client:
        assert (await client.snapshot())["workflowContent"] == WORKFLOW


async def test_an_agent_asked_for_again_with_its_key_is_made_once(panel: Panel) -> None:
    for _ in range(2):
        headers = {"idempotency-key": "once"}
        answer = await panel.http.post("/api/agents", json={"name": "Bob"}, headers=headers)
        assert (answer.status_code, answer.json()["name"]) == (200, "Bob")
    agents = (await panel.http.get("/api/agents")).json()["agents"]
    assert agents == [answer.json()]
    headers = {"idempotency-key": "once"}
    other = await panel.http.post("/api/agents", json={"name": "Eve"}, headers=headers)
    assert (other.status_code, other.json()["error"]) == (422, other.json()["detail"])


async def test_what_a_host_application_names_is_not_refused(panel: Panel) -> None:
    agent = await panel.create(
        modelType="offline", workflowId=7, computingUnitId=3, providerApiKey="k", warehouseId=4
    )
    assert (await panel.get(agent["id"]))["stepCount"] == 0


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"modelType": "no-such-model"}, 422, "model_not_configured"),
        ({"modelType": 7}, 422, "bad_input"),
        ({"workflow": {"operators": 7}}, 422, "invalid_workflow"),
        ({"settings": {"maxSteps": 41}}, 422, "not_stricter"),
    ],
)
async def test_a_body_that_cannot_be_taken_is_refused_in_the_panels_words(
    panel: Panel, body: Frame, status: int, code: str
) -> None:
    answer = await panel.http.post("/api/agents", json=body)
    problem = answer.json()
    assert (answer.status_code, problem["status"], problem["code"]) == (status, status, code)
    assert problem["error"] == problem["detail"] != ""
    assert answer.headers["content-type"] == "application/problem+json"
    assert (await panel.http.get("/api/agents")).json() == {"agents": []}


async def test_a_bare_model_name_is_one_behind_the_base_url(
    fresh_database: str, provider: ScriptedProvider
) -> None:
    async with serving(fresh_database, model_base_url=provider.url) as server:
        panel = Panel(server)
        agent = await panel.create(modelType="gateway-model")
        assert agent["modelType"] == "openai:gateway-model"
        provider.will([text("hello")])
        async with panel.connect(agent["id"]) as client:
            await client.snapshot()
            await client.prompt("hi")
            assert client.path[-1]["content"] == "hello"


async def test_a_turn_is_prompted_reverted_and_redone_over_the_base_socket(panel: Panel) -> None:
    agent = (await panel.create())["id"]
    async with panel.connect(agent) as client:
        assert await client.snapshot() == {
            "type": "WsServerSnapshotEvent",
            "state": "AVAILABLE",
            "steps": [],
            "headId": "step-initial",
            "workflowContent": (await panel.get(agent))["workflow"],
            "canRedo": False,
        }
        frames = await client.prompt("add a CSVFileScan")
        steps = [frame["step"] for frame in frames if is_step(frame)]
        read = await panel.get(agent, "/react-steps")
        assert read == {"steps": steps, "state": "AVAILABLE"}
        built = await panel.get(agent)
        assert built["stepCount"] == len(steps)
        assert built["workflow"] == steps[-1]["afterWorkflowContent"] != {}
        await client.send("Revert", messageId=steps[0]["messageId"])
        moved = await client.wait(is_head)
        assert (moved["headId"], moved["canRedo"]) == ("step-initial", True)
        assert (await panel.get(agent))["workflow"] == moved["workflowContent"]
        assert await panel.get(agent, "/react-steps") == read  # the steps stay
        seen = len(client.frames)
        await client.send("Redo")
        moved = await client.wait(is_head, since=seen)
        assert moved["workflowContent"] == built["workflow"]


async def test_the_socket_there_speaks_v1_where_it_is_offered(panel: Panel) -> None:
    agent = (await panel.create())["id"]
    async with panel.connect(agent, v1=True) as client:
        assert (await client.snapshot())["eventSeq"] == 0
        assert (await client.ask("Checkout", stepId="step-initial"))["type"] == "WsServerAckEvent"


async def test_an_unknown_agent_is_not_found_whatever_is_asked_of_it(panel: Panel) -> None:
    for agent in (NOBODY, "agent-1", "%00"):
        for method, path in (
            ("GET", ""),
            ("DELETE", ""),
            ("GET", "/react-steps"),
            ("GET", "/settings"),
            ("PATCH", "/settings"),
            ("POST", "/stop"),
            ("POST", "/clear"),
            ("GET", "/system-info"),
            ("GET", "/operator-types"),
        ):
            answer = await panel.http.request(method, f"/api/agents/{agent}{path}")
            assert answer.status_code == 404, (method, path)
            assert answer.json()["error"] == "Agent not found"
        async with panel.connect(agent) as client:
            frame = await client.next()
            assert frame == {"type": "WsServerErrorEvent", "error": "Agent not found"}
            assert await client.until_closed() == 4404


async def test_clear_empties_the_conversation_and_removes_nothing(panel: Panel) -> None:
    agent = (await panel.create(workflow=WORKFLOW))["id"]
    async with panel.connect(agent) as client:
        await client.snapshot()
        await client.prompt("add a CSVFileScan")
        steps = await panel.get(agent, "/react-steps")
        cleared = await panel.post(agent, "/clear")
        assert (cleared.status_code, cleared.json()) == (200, {"status": "cleared"})
        moved = await client.wait(is_head)
        assert moved["headId"] == "step-initial"
        assert moved["workflowContent"] == WORKFLOW == (await panel.get(agent))["workflow"]
        assert await panel.get(agent, "/react-steps") == steps
        assert (await panel.post(agent, "/clear")).status_code == 200
        await client.prompt("add a Filter")
        assert client.path[0]["parentId"] == "step-initial"


@pytest.mark.case(30)
async def test_while_the_agent_is_busy_clear_is_refused_and_stop_ends_it(
    scripted: tuple[Server, ScriptedProvider],
) -> None:
    server, provider = scripted
    panel = Panel(server)
    provider.will([text("half"), Pause()])
    agent = (await panel.create())["id"]
    async with panel.connect(agent) as client:
        await client.snapshot()
        await client.send("Prompt", content="talk")
        await client.wait(is_step)
        refused = await panel.post(agent, "/clear")
        assert (refused.status_code, refused.json()["code"]) == (409, "busy")
        assert "busy" in refused.json()["error"]
        assert (await panel.get(agent))["state"] == "GENERATING"
        stopped = await panel.post(agent, "/stop")
        assert (stopped.status_code, stopped.json()) == (200, {"status": "stopping"})
        await client.wait(is_status("AVAILABLE"))
        assert not [frame for frame in client.frames if is_error(frame)]
    assert (await panel.post(agent, "/stop")).json() == {"status": "stopping"}  # idle: a no-op


@pytest.fixture
async def limited(fresh_database: str) -> AsyncIterator[Panel]:
    """A panel of a server with limits of its own."""
    async with serving(
        fresh_database,
        max_steps=7,
        tool_timeout=30,
        run_timeout=90,
        max_tool_output=500,
        disabled_tools=["deleteOperator"],
    ) as server:
        yield Panel(server)


SERVERS = {
    "maxOperatorResultCharLimit": 500,
    "toolTimeoutSeconds": 30,
    "executionTimeoutMinutes": 1.5,
    "disabledTools": ["deleteOperator"],
    "maxSteps": 7,
}
CHANGED = {
    "maxOperatorResultCharLimit": 300,
    "toolTimeoutSeconds": 2.5,
    "executionTimeoutMinutes": 0.7,
    "disabledTools": ["deleteOperator", "getWorkflow"],
    "maxSteps": 3,
}
KEPT = {
    "max_tool_output": 300,
    "tool_timeout": 2.5,
    "run_timeout": 42,
    "disabled_tools": ["getWorkflow"],
    "max_steps": 3,
}
FOLLOWED = dict.fromkeys(KEPT) | {"disabled_tools": []}


async def own(panel: Panel, agent_id: str) -> tuple[Any, int]:
    """The session's own settings, and its revision."""
    session = (await panel.http.get(f"/sessions/{agent_id}")).json()
    return session["settings"], session["revision"]


async def test_settings_are_the_servers_until_a_dialog_is_saved_with_others(limited: Panel) -> None:
    agent = await limited.create()
    path = f"/api/agents/{agent['id']}/settings"
    shown = await limited.get(agent["id"], "/settings")
    assert shown == agent["settings"]
    assert {name: shown[name] for name in SERVERS} == SERVERS
    assert "CSVFileScan" in shown["allowedOperatorTypes"]
    same = await limited.http.patch(path, json=shown)  # a dialog that is saved as it was
    assert (same.status_code, same.json()) == (200, shown)
    assert await own(limited, agent["id"]) == (FOLLOWED, 0)

    changed = await limited.http.patch(path, json=shown | CHANGED)
    assert (changed.status_code, changed.json()) == (200, shown | CHANGED)
    assert await own(limited, agent["id"]) == (KEPT, 1)
    assert await limited.get(agent["id"], "/settings") == shown | CHANGED
    assert (await limited.get(agent["id"]))["settings"] == shown | CHANGED
    [listed] = (await limited.http.get("/api/agents")).json()["agents"]
    assert listed["settings"] == shown | CHANGED
    tools = {tool["name"] for tool in (await limited.get(agent["id"], "/system-info"))["tools"]}
    assert tools == {"addOperator", "modifyOperator"}
    assert (await limited.http.patch(path, json=shown | CHANGED)).json() == shown | CHANGED
    assert await own(limited, agent["id"]) == (KEPT, 1)

    one = await limited.http.patch(path, json={"maxSteps": 2})
    assert one.json() == shown | CHANGED | {"maxSteps": 2}
    for back in (shown, dict.fromkeys(shown)):  # the server's numbers are followed again
        await limited.http.patch(path, json=shown | CHANGED)
        assert (await limited.http.patch(path, json=back)).json() == shown
        assert (await own(limited, agent["id"]))[0] == FOLLOWED


async def test_an_agent_may_be_made_with_settings_and_its_runs_keep_to_them(
    scripted: tuple[Server, ScriptedProvider],
) -> None:
    server, provider = scripted
    panel = Panel(server)
    agent = await panel.create(settings={"maxSteps": 1, "disabledTools": ["deleteOperator"]})
    assert agent["settings"]["maxSteps"] == 1
    assert agent["settings"]["disabledTools"] == ["deleteOperator"]
    async with panel.connect(agent["id"]) as client:
        await client.snapshot()
        provider.will([call("getWorkflow", {})], [text("done")])
        await client.prompt("look around")
        assert "1 model calls in a turn" in client.path[-1]["content"]
        [request] = provider.requests
        tools = [tool["function"]["name"] for tool in request["tools"]]
        assert sorted(tools) == ["addOperator", "getWorkflow", "modifyOperator"]


@pytest.mark.case(31)
@pytest.mark.parametrize(
    ("settings", "status", "code", "says"),
    [
        ({"maxSteps": 8}, 422, "not_stricter", "TURNBACK_MAX_STEPS"),
        ({"toolTimeoutSeconds": 30.5}, 422, "not_stricter", "TURNBACK_TOOL_TIMEOUT"),
        ({"executionTimeoutMinutes": 1.6}, 422, "not_stricter", "TURNBACK_RUN_TIMEOUT"),
        ({"executionTimeoutMinutes": 1e308}, 422, "not_stricter", "TURNBACK_RUN_TIMEOUT"),
        ({"maxOperatorResultCharLimit": 501}, 422, "not_stricter", "TURNBACK_MAX_TOOL_OUTPUT"),
        ({"disabledTools": []}, 422, "not_stricter", "TURNBACK_DISABLED_TOOLS"),
        ({"disabledTools": ["rm", "deleteOperator"]}, 422, "bad_input", "disabledTools"),
        ({"maxSteps": 0}, 422, "bad_input", "maxSteps"),
        ({"toolTimeoutSeconds": -1}, 422, "bad_input", "toolTimeoutSeconds"),
        ({"executionTimeoutMinutes": 0}, 422, "bad_input", "executionTimeoutMinutes"),
        ({"maxOperatorResultCharLimit": -5}, 422, "bad_input", "maxOperatorResultCharLimit"),
        ({"allowedOperatorTypes": ["Filter"]}, 501, "not_available", "allowedOperatorTypes"),
    ],
)
async def test_a_setting_that_cannot_be_had_is_not_taken_in_silence(
    limited: Panel, settings: Frame, status: int, code: str, says: str
) -> None:
    agent = (await limited.create())["id"]
    body = {"maxSteps": 3, **settings}
    for method, path, sent in (
        ("PATCH", f"/api/agents/{agent}/settings", body),
        ("POST", "/api/agents", {"settings": body}),
    ):
        refused = await limited.http.request(method, path, json=sent)
        assert (refused.status_code, refused.json()["code"]) == (status, code)
        assert says in refused.json()["error"]
    assert await own(limited, agent) == (FOLLOWED, 0)
    assert len((await limited.http.get("/api/agents")).json()["agents"]) == 1


async def test_system_info_is_what_the_model_is_told(
    scripted: tuple[Server, ScriptedProvider],
) -> None:
    server, provider = scripted
    panel = Panel(server)
    provider.will([text("hello")])
    agent = (await panel.create(workflow=WORKFLOW))["id"]
    told = await panel.get(agent, "/system-info")
    async with panel.connect(agent) as client:
        await client.snapshot()
        await client.prompt("hi")
    request = provider.requests[0]
    assert told["systemPrompt"] in [message["content"] for message in request["messages"]]
    tools = [tool["function"] for tool in request["tools"]]
    assert [(tool["name"], tool["description"]) for tool in told["tools"]] == [
        (tool["name"], tool["description"]) for tool in tools
    ]
    assert all(tool["inputSchema"]["type"] == "object" for tool in told["tools"])


async def test_operator_types_are_those_that_can_be_added(panel: Panel) -> None:
    agent = (await panel.create())["id"]
    listed = await panel.get(agent, "/operator-types")
    known = (await panel.http.get("/operator-types")).json()["types"]
    assert listed == [{"type": k["type"], "description": k["description"]} for k in known]
