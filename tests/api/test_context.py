"""What the model is sent, read from the bytes that a provider received.

The workflow at HEAD and the visible turns within `max_context_tokens`, no word of anything else:
what a person took back is not there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from scripted_provider import CUT, ScriptedProvider, call, scripted_provider, text
from serving import Server, serving
from wire import Client

from turnback.core.principal import LOCAL

ADD = {"operatorId": "op1", "operatorType": "Filter", "summary": "Keep"}
DONE = [text("Done.")]
SMALL = 5_000  # tokens; instructions and tools take more than half of it

Scripted = tuple[Server, ScriptedProvider]


@pytest.fixture(scope="module")
async def talk(standing_database: str) -> AsyncIterator[Scripted]:
    async with (
        scripted_provider() as provider,
        serving(
            standing_database,
            **provider.settings,
            max_context_tokens=SMALL,
        ) as server,
    ):
        yield server, provider


def messages(provider: ScriptedProvider) -> list[Any]:
    found: list[Any] = provider.requests[-1]["messages"]
    return found


def added(name: str, position: int = 0) -> list[dict[str, Any]]:
    operator = {
        "operatorID": name,
        "operatorType": "Limit",
        "operatorProperties": {"limit": 5},
        "inputPorts": [],
        "outputPorts": [],
        "customDisplayName": f"Named {name}",
    }
    return [{"op": "addOperator", "operator": operator, "position": {"x": position, "y": 0}}]


async def edit(client: Client, edits: list[dict[str, Any]]) -> None:
    answer = await client.ask("EditWorkflow", baseHeadId=client.head, edits=edits)
    assert answer["type"] == "WsServerAckEvent", answer


@pytest.mark.case(11)
async def test_nothing_of_a_reverted_turn_is_in_the_next_request(talk: Scripted) -> None:
    server, provider = talk
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        provider.will([call("addOperator", ADD)], [text("Kept answer.")])
        await client.prompt("Kept prompt.")
        boundary = client.head

        provider.will(
            [
                text("CANARY-text"),
                call(
                    "addOperator",
                    {"operatorId": "CANARY-id", "operatorType": "Limit", "summary": "CANARY-name"},
                ),
            ],
            [call("deleteOperator", {"operatorId": "CANARY-unknown"}, id="c2")],
            [call("CANARY_tool", '{"CANARY-broken', id="c3")],
            [text("CANARY-last")],
        )
        await client.prompt("CANARY-prompt")
        reverted = client.path[-1]["messageId"]
        provider.will([text("CANARY-half"), CUT])
        await client.prompt("CANARY-second")
        await edit(client, added("CANARY-edit"))

        await client.ask("Revert", messageId=reverted)
        assert client.head == boundary
        provider.will([call("getWorkflow", {}, id="g")], DONE)
        await client.prompt("Edited prompt.")
        for body in provider.bodies:
            assert b"CANARY" not in body
            assert body.count(b"Edited prompt.") == 1
            assert b"Kept prompt." in body
            assert b"Kept answer." in body

        # It was not lost: on the old line it is told again.
        steps = client.steps.values()
        old = next(step for step in steps if step["content"] == "CANARY-last")
        await client.ask("Checkout", stepId=old["id"])
        provider.will(DONE)
        await client.prompt("And?")
        for word in ("prompt", "text", "id", "name", "unknown", "broken", "last"):
            assert f"CANARY-{word}".encode() in provider.bodies[-1], word
        assert b"CANARY-second" not in provider.bodies[-1]
        assert b"Edited prompt." not in provider.bodies[-1]


@pytest.mark.case(11)
async def test_after_a_redo_the_turn_is_told_again_once(talk: Scripted) -> None:
    server, provider = talk
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        provider.will([text("The answer.")])
        await client.prompt("The question?")
        await client.ask("Revert", messageId=client.path[-1]["messageId"])
        await client.ask("Redo")
        provider.will(DONE)
        await client.prompt("Next.")
        assert [message["content"] for message in messages(provider)[1:]] == [
            "The question?",
            "The answer.",
            "Next.",
        ]


@pytest.mark.case(22)
async def test_a_persons_edit_is_told_to_the_next_prompt_and_outlives_the_agents_work(
    talk: Scripted,
) -> None:
    server, provider = talk
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        provider.will([call("addOperator", ADD)], DONE)
        await client.prompt("Add a filter.")
        await edit(client, added("mine", position=900))
        provider.will([call("modifyOperator", {"operatorId": "op1", "summary": "Ours"})], DONE)
        await client.prompt("Rename it.")
        first = provider.requests[0]["messages"]
        notes = [message["content"] for message in first if "edited the canvas" in str(message)]
        assert len(notes) == 1
        assert "mine" in notes[0]
        assert '"operatorId":"mine"' in first[0]["content"]
        workflow = (await server.http.get(f"/sessions/{session}/workflow")).json()
        names = {o["operatorID"]: o["customDisplayName"] for o in workflow["operators"]}
        assert names == {"op1": "Ours", "mine": "Named mine"}
        assert workflow["operatorPositions"]["mine"] == {"x": 900, "y": 0}


async def test_a_long_conversation_is_told_from_a_whole_turn_on_and_says_that_it_is_cut(
    talk: Scripted,
) -> None:
    server, provider = talk
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        for n in range(12):
            args = {"operatorId": f"op{n}", "operatorType": "Distinct", "summary": "x" * 90}
            provider.will([call("addOperator", args, id=f"call-{n}")], [text(f"Answer {n}.")])
            await client.prompt(f"Question {n} " + "y" * 300)
        sent = messages(provider)
        assert len(provider.bodies[-1]) < 3 * SMALL * 1.1  # the rest is the form of the request
        assert "its oldest turns are left out" in sent[0]["content"]
        assert '"op0"' in sent[0]["content"]  # the workflow is there whole
        told = [m["content"] for m in sent[1:] if m["role"] == "user"]
        first = 12 - len(told)
        assert 0 < first < 11
        assert [said.split(" y")[0] for said in told] == [f"Question {n}" for n in range(first, 12)]
        called = [
            c["id"] for m in sent if m["role"] == "assistant" for c in m.get("tool_calls", ())
        ]
        answered = [m["tool_call_id"] for m in sent if m["role"] == "tool"]
        assert called == answered == [f"call-{n}" for n in range(first, 12)]

        # No more is read of the history than there is room for.
        actor = await server.app.state.sessions.get(LOCAL, session)
        history = await actor.memory.history(max_tokens=SMALL, max_turns=100)
        assert len(history) <= 3 * (len(told) + 1)
        whole = await actor.memory.history(max_tokens=1_000_000, max_turns=100)
        assert len(whole) == 3 * 12
        # The two newest turns before the one to answer, and the step by which it knows of more.
        few = await actor.memory.history(max_tokens=1_000_000, max_turns=2)
        assert few == whole[-3 * 3 - 1 :]


async def test_a_prompt_that_does_not_fit_ends_with_the_name_of_the_limit(talk: Scripted) -> None:
    server, provider = talk
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        provider.will(DONE)
        await client.prompt("z" * SMALL * 3)
        assert provider.requests == []
        last = client.path[-1]
        assert last["endReason"] == "limit"
        assert "`max_context_tokens`" in last["content"]
        await client.prompt("Shorter.")
        assert client.path[-1]["content"] == "Done."
