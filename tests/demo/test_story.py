"""The demo's story, end to end: one prompt, twelve calls outside, through the ordinary loop."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from serving import serving
from wire import is_status

from turnback.agent import story
from turnback.core.effects import EffectClass
from turnback.core.principal import LOCAL
from turnback.core.undo.plan import verb_of
from turnback.demo.tools import CONTRACTS

CALLS = [*story.FIRST, *story.second("event-1", "channel-1"), *story.THIRD]


def test_three_of_twelve_cannot_be_taken_back_two_only_with_notices_seven_cleanly() -> None:
    assert len(CALLS) == 12
    kinds: Counter[str] = Counter()
    for tool, _ in CALLS:
        (case,) = CONTRACTS[tool.removeprefix(story.PREFIX)]["cases"]
        clean = case["class"] == EffectClass.REVERSIBLE or "cancel" in case
        kinds["clean" if clean else case["class"]] += 1
    assert kinds == {"clean": 7, "compensable": 2, "irreversible": 3}


@pytest.mark.parametrize(
    "prompt", ["organise the launch dinner", "Please  organize our launch dinner!"]
)
def test_it_is_asked_for_in_a_few_ways(prompt: str) -> None:
    assert story.is_asked(prompt)
    assert not story.is_asked(f"do not {prompt}")


async def test_one_prompt_makes_twelve_calls_in_the_world(
    fresh_database: str, tmp_path: Path
) -> None:
    async with serving(fresh_database, demo=True, data_dir=tmp_path, approval="never") as server:
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            await client.prompt(story.PROMPT)
        steps = (await server.http.get(f"/sessions/{session}/steps")).json()["steps"]
        results = [result for step in steps for result in step.get("tool_results", [])]
        assert [result["output"] for result in results if result["is_error"]] == []
        assert len(results) == len(CALLS)
        assert "12 calls were made outside" in steps[-1]["content"]

        dao = server.app.state.sessions.dao
        logged = await dao.effects.of_session(await dao.key(LOCAL, session), limit=99)
        now = round(time.time() * 1000)
        verbs = Counter(verb_of(one.effect, now=now) for one in logged)
        assert verbs == {"revert": 5, "cancel": 2, "compensate": 2, "acknowledge": 3}

        async def things(kind: str) -> dict[str, Any]:
            found = (await server.http.get(f"/demo/{kind}")).json()["things"]
            return {thing["id"]: thing["fields"] for thing in found}

        assert (await things("event"))["event-1"]["title"] == "Launch dinner"
        assert set(await things("invitation")) == {
            "event-1:ada@example.org",
            "event-1:ben@example.org",
        }
        assert (await things("contact"))["ben"]["phone"] == "555-0177"
        assert [it["status"] for it in (await things("email")).values()] == ["scheduled", "sent"]
        assert [it["channel"] for it in (await things("message")).values()] == ["channel-1"]
        assert len(await things("charge")) == len(await things("transfer")) == 1


async def test_what_cannot_be_taken_back_waits_for_a_person_and_what_is_denied_is_not_done(
    fresh_database: str, tmp_path: Path
) -> None:
    async with serving(fresh_database, demo=True, data_dir=tmp_path) as server:
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            await client.send("Prompt", content=story.PROMPT)
            status = await client.wait(lambda frame: bool(frame.get("waitingFor")))
            waiting = status["waitingFor"]
            irreversible = ["demo.send_email", "demo.send_transfer", "demo.send_text"]
            assert [call["toolName"] for call in waiting] == irreversible
            assert {call["class"] for call in waiting} == {"irreversible"}
            assert (await server.http.get("/demo/delivery")).text.count('"a mail"') == 0
            seen = len(client.frames)
            for call, decision in zip(waiting, ("approve", "approve", "deny"), strict=True):
                decided = {"toolCallId": call["toolCallId"], "argsHash": call["argsHash"]}
                await client.ask("Approve", decision=decision, **decided)
            await client.wait(is_status("AVAILABLE"), since=seen)
        last = (await server.http.get(f"/sessions/{session}/steps")).json()["steps"][-1]
        assert "11 calls were made outside. Not done: `send_text`." in last["content"]
        assert (await server.http.get("/demo/text")).json()["things"] == []


async def test_without_the_demo_it_says_how_to_have_it(fresh_database: str) -> None:
    async with serving(fresh_database) as server:
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            await client.prompt(story.PROMPT)
        steps = (await server.http.get(f"/sessions/{session}/steps")).json()["steps"]
        assert "TURNBACK_DEMO" in steps[-1]["content"]
