"""How the earlier conversation is told to the model."""

from __future__ import annotations

import orjson
from loop_runs import ADD, GET, Run, limits, prompt
from scripted_provider import ScriptedProvider, call, text

from turnback.agent.loop import PastStep, Toolbox, ToolCall, ToolResult, canvas_toolbox
from turnback.agent.models import ChatModel
from turnback.core.tree import EndReason, Role, TurnKind
from turnback.core.workflow import Workflow


async def test_edits_and_early_ends_are_told_in_brackets_and_no_call_is_left_open(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    calls = (ToolCall("addOperator", "a", ADD), ToolCall("odd name!", "b", {"x": 1}))
    history = (
        prompt("one"),
        PastStep(
            role=Role.AGENT, content="Yes.", tool_calls=calls, tool_results=(ToolResult("a", "ok"),)
        ),
        PastStep(role=Role.AGENT, content="Stopped.", end_reason=EndReason.STOPPED),
        PastStep(role=Role.USER, content="Moved 2 operators", kind=TurnKind.EDIT),
        prompt("two"),
        PastStep(role=Role.AGENT, content="Answer.", end_reason=EndReason.COMPLETE),
        prompt("three"),
        PastStep(role=Role.AGENT, content="Error: no luck.", end_reason=EndReason.FAILED),
        prompt("four"),
        PastStep(role=Role.AGENT, content="Half"),
        PastStep(role=Role.AGENT, content="Interrupted.", end_reason=EndReason.INTERRUPTED),
    )
    provider.will([text("Hi.")])
    await Run(model, history=history, content="five").collect()
    told = [
        (m["role"], m.get("content") or [c["id"] for c in m.get("tool_calls", ())])
        for m in provider.requests[0]["messages"][1:]
    ]
    assert told == [
        ("user", "one"),
        ("assistant", "Yes."),
        ("tool", "ok"),
        ("tool", '{"error":"[ERROR] No result."}'),
        ("user", "[Your turn ended early: Stopped.]"),
        ("user", "[The person edited the canvas: Moved 2 operators]"),
        ("user", "two"),
        ("assistant", "Answer."),
        ("user", "three"),
        ("user", "[Your turn ended early: Error: no luck.]"),
        ("user", "four"),
        ("assistant", "Half"),
        ("user", "[Your turn ended early: Interrupted.]"),
        ("user", "five"),
    ]
    names = [c["function"]["name"] for c in provider.requests[0]["messages"][2]["tool_calls"]]
    assert names == ["addOperator", "odd_name_"]


async def test_the_oldest_whole_turns_are_left_out_and_the_instructions_say_so(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    history = tuple(
        step
        for n in range(20)
        for step in (
            prompt(f"question {n} " + "x" * 1000),
            PastStep(role=Role.AGENT, content=f"answer {n}", end_reason=EndReason.COMPLETE),
        )
    )
    provider.will([text("Hi.")])
    await Run(model, history=history, limits=limits(max_context_tokens=12_000)).collect()
    system, *told = provider.requests[0]["messages"]
    assert len(orjson.dumps(provider.requests[0]["messages"])) < 25_000
    assert told[-1]["content"] == "hello"
    assert told[0]["role"] == "user"
    kept = (len(told) - 1) // 2
    assert 3 < kept < 20
    assert told[0]["content"].startswith(f"question {20 - kept} ")
    assert "its oldest turns are left out" in system["content"]


async def test_a_history_that_begins_within_a_turn_is_told_from_the_next_turn_on(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    history = (
        PastStep(role=Role.AGENT, content="the end of an answer", end_reason=EndReason.COMPLETE),
        prompt("one"),
        PastStep(role=Role.AGENT, content="Answer.", end_reason=EndReason.COMPLETE),
    )
    provider.will([text("Hi.")], [text("Hi.")])
    await Run(model, history=history).collect()
    await Run(model, history=history[1:]).collect()
    cut, whole = (request["messages"] for request in provider.requests)
    assert [m["content"] for m in cut[1:]] == ["one", "Answer.", "hello"]
    assert cut[1:] == whole[1:]
    assert "turns are left out" in cut[0]["content"]
    assert "turns are left out" not in whole[0]["content"]


async def test_one_huge_result_is_shortened_for_the_model_and_kept_in_the_step(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    async def much(workflow: Workflow, *_: object) -> tuple[Workflow, str]:
        return workflow, "é" * 50_000

    tools = Toolbox(specs=canvas_toolbox(str, limits()).specs, call=much)
    provider.will([call("getWorkflow", GET)], [text("Much.")])
    run = await Run(model, tools=tools, limits=limits(max_context_tokens=14_000)).collect()
    assert len(run.results[0].output) == 50_000
    told = provider.requests[1]["messages"][-1]["content"]
    assert len(told.encode()) < 11_000
    assert told.endswith("bytes are left out]")
    assert run.end.end_reason is EndReason.COMPLETE
