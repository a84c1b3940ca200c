"""A turn that goes well: steps, tools in their order, and pieces as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from loop_runs import ADD, ADD_2, GET, WITHIN, Run, limits, of_function
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaToolCall
from scripted_provider import Pause, ScriptedProvider, call, call_piece, text, usage

from turnback.agent.loop import Delta
from turnback.agent.models import ChatModel
from turnback.core.tree import EndReason
from turnback.core.workflow import EMPTY


async def test_an_answer_without_calls_is_one_complete_step(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([text("Good "), text("morning."), usage(12, 3)])
    run = await Run(model).collect()
    assert [draft.content for draft in run.drafts] == ["Good morning."]
    assert run.end.end_reason is EndReason.COMPLETE
    assert run.end.usage == {"inputTokens": 12, "outputTokens": 3, "totalTokens": 15}


async def test_usage_that_the_provider_does_not_give_is_not_made_up(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([text("Hi.")])
    assert (await Run(model).collect()).end.usage is None


async def test_each_model_call_with_its_tools_is_a_step_on_the_workflow_before_it(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(
        [text("First."), call("addOperator", ADD)],
        [call("addOperator", ADD_2)],
        [text("Done.")],
    )
    run = await Run(model).collect()
    assert [draft.content for draft in run.drafts] == ["First.", "", "Done."]
    assert [list(draft.after.operators) for draft in run.drafts] == [
        ["op1"],
        ["op1", "op2"],
        ["op1", "op2"],
    ]
    assert run.results[1].output == (
        "Added operator op2, input ports: 1, output ports: 1, created links: [op1 --> op2]"
    )


@pytest.mark.case(28)
async def test_tools_of_one_step_run_in_the_models_order_each_on_the_one_before(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(
        [
            call("addOperator", ADD, id="a", index=0),
            call("addOperator", ADD_2, id="b", index=1),
            call("deleteOperator", {"operatorId": "op1"}, id="c", index=2),
        ],
        [text("Done.")],
    )
    run = await Run(model).collect()
    assert [r.is_error for r in run.results] == [False, False, False]
    assert list(run.end.after.operators) == ["op2"]
    assert run.drafts[0].before is EMPTY


async def test_calls_whose_pieces_interleave_are_put_together(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    first, second = orjson.dumps(ADD).decode(), orjson.dumps(ADD_2).decode()
    provider.will(
        [
            call_piece(index=0, id="a", name="addOperator", args=""),
            call_piece(index=1, id="b", name="addOperator", args=second[:9]),
            call_piece(index=0, args=first[:5]),
            call_piece(index=1, args=second[9:]),
            call_piece(index=0, args=first[5:]),
        ],
        [text("Done.")],
    )
    run = await Run(model).collect()
    assert list(run.end.after.operators) == ["op1", "op2"]


async def test_text_after_a_call_is_part_of_the_step(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([text("Before."), call("getWorkflow", GET), text("After.")], [text("Done.")])
    run = await Run(model).collect()
    assert run.drafts[0].content == "Before.\n\nAfter."


async def test_the_next_model_call_sees_the_results_and_the_workflow_as_it_is(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([text("Adding."), call("addOperator", ADD, id="a")], [text("Done.")])
    await Run(model, content="add a filter").collect()
    first, second = (request["messages"] for request in provider.requests)
    assert [m["role"] for m in first] == ["system", "user"]
    assert [m["role"] for m in second] == ["system", "user", "assistant", "tool"]
    assert '"op1"' not in first[0]["content"].partition("The workflow now")[2]
    assert '"op1"' in second[0]["content"].partition("The workflow now")[2]
    assert second[2]["tool_calls"][0]["id"] == second[3]["tool_call_id"] == "a"
    assert second[3]["content"].startswith("Added operator op1")


async def test_the_tools_are_offered_with_their_schemas(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([text("Hi.")])
    await Run(model).collect()
    offered = {tool["function"]["name"]: tool["function"] for tool in provider.requests[0]["tools"]}
    assert list(offered) == ["addOperator", "modifyOperator", "deleteOperator", "getWorkflow"]
    assert offered["addOperator"]["parameters"]["properties"].keys() >= {"operatorId", "properties"}


async def test_offsets_count_utf_16_units_as_pages_do(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([text("\U0001f600"), text("é"), text("!")])
    run = await Run(model).collect()
    assert [delta.offset for delta in run.deltas] == [0, 2, 3]


async def test_pieces_reach_the_consumer_before_the_answer_is_whole(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    go_on = asyncio.Event()
    provider.will([text("First"), Pause(go_on), text(" then.")])
    run = Run(model)
    async with asyncio.timeout(WITHIN):
        first = await anext(run.generator)
        assert isinstance(first, Delta)
        assert first.text == "First"
        go_on.set()
        run.items.append(first)
        await run.collect()
    assert run.end.content == "First then."


async def test_a_slow_consumer_holds_the_model_back() -> None:
    sent = 0

    async def fast(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        nonlocal sent
        for _ in range(5000):
            sent += 1
            yield "word "
        yield {1: DeltaToolCall(name="getWorkflow", json_args="{}")}

    run = Run(of_function(fast), limits=limits(max_steps=1))
    first = await anext(run.generator)
    run.items.append(first)
    await asyncio.sleep(0.1)
    assert sent < 200
    await run.collect()
    assert len(run.drafts[0].content) == 25_000
