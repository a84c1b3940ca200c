"""A turn that is stopped, or whose consumer goes, at every point."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import orjson
import pytest
from loop_runs import ADD, ADD_2, GET, WITHIN, Run, of_function, slow_tools
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo
from scripted_provider import HANG, Answer, Pause, ScriptedProvider, call, call_piece, finish, text

from turnback.agent.models import ChatModel
from turnback.core.tree import EndReason
from turnback.core.workflow import EMPTY


async def test_stop_at_every_item_of_a_turn_ends_it_there(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    def script() -> None:
        pieces = orjson.dumps(ADD_2).decode()
        provider.will(
            [text("One "), text("two."), call("addOperator", ADD, id="a")],
            [
                text("Three."),
                call_piece(id="b", name="addOperator", args=pieces[:7]),
                call_piece(args=pieces[7:]),
            ],
            [text("Four "), text("five.")],
        )

    script()
    whole = await Run(model).collect()
    assert len(whole.items) > 8
    for point in range(len(whole.items)):
        script()
        run = Run(model)
        if point == 0:
            run.stop.set()

        def stop_here(count: int, _: object, run: Run = run, point: int = point) -> None:
            if count == point:
                run.stop.set()

        await run.collect(stop_here)
        assert run.end.end_reason is EndReason.STOPPED
        assert run.end.content == "Stopped."
        assert run.items[:point] == whole.items[:point]
        # At most the step that was under way, and the last word.
        assert len(run.items) - point <= 2


@pytest.mark.parametrize(
    ("answer", "content", "calls"),
    [
        pytest.param(HANG, "", 0, id="no headers yet"),
        pytest.param([Pause()], "", 0, id="no byte yet"),
        pytest.param([text("Half a"), Pause()], "Half a", 0, id="in the text"),
        pytest.param(
            [text("Now."), call_piece(id="a", name="addOperator", args='{"oper'), Pause()],
            "Now.",
            1,
            id="in the arguments",
        ),
        pytest.param([call("addOperator", ADD), Pause()], "", 1, id="behind a whole call"),
        pytest.param(
            Answer([text("All."), finish("stop"), Pause()]), "All.", 0, id="before the end"
        ),
    ],
)
async def test_stop_while_a_model_call_stands_still(
    provider: ScriptedProvider, model: ChatModel, answer: Any, content: str, calls: int
) -> None:
    provider.will(answer)
    run = Run(model)
    said = asyncio.Event()

    def listen(count: int, item: object) -> None:
        if sum(len(delta.text or "") for delta in run.deltas) == len(content):
            said.set()

    running = asyncio.create_task(run.collect(listen))
    async with asyncio.timeout(WITHIN):
        await provider.asked.wait()
        if content or calls:
            await said.wait()
        await asyncio.sleep(0.02)
        run.stop.set()
        await running
        await provider.hung_up.wait()
    assert run.end.end_reason is EndReason.STOPPED
    partial = run.drafts[:-1]
    assert len(partial) == (1 if content or calls else 0)
    for draft in partial:
        assert draft.content == content
        assert [result.output for result in draft.tool_results] == ["[ERROR] Not run."] * calls
        assert draft.after is EMPTY


async def test_stop_while_a_tool_runs_keeps_what_the_tools_before_it_did(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(
        [
            call("addOperator", ADD, id="a", index=0),
            call("wait", GET, id="b", index=1),
            call("addOperator", ADD_2, id="c", index=2),
        ]
    )
    started = asyncio.Event()
    run = Run(model, tools=slow_tools(started))
    running = asyncio.create_task(run.collect())
    async with asyncio.timeout(WITHIN):
        await started.wait()
        run.stop.set()
        await running
    assert [result.is_error for result in run.results] == [False, True, True]
    assert "Not finished" in run.results[1].output
    assert run.results[2].output == "[ERROR] Not run."
    assert list(run.end.after.operators) == ["op1"]
    assert run.end.end_reason is EndReason.STOPPED


async def test_stop_of_a_model_that_cleans_up_slowly_still_ends(
    provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnback.agent.loop.CLOSE_GRACE", 0.05)
    let_go = asyncio.Event()

    async def stubborn(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "Begun"
        while not let_go.is_set():
            with suppress(asyncio.CancelledError):
                await let_go.wait()

    run = Run(of_function(stubborn))
    async with asyncio.timeout(WITHIN):
        await run.collect(lambda count, _: run.stop.set())
    assert run.end.end_reason is EndReason.STOPPED
    let_go.set()


@pytest.mark.parametrize("point", range(1, 6))
async def test_closing_the_generator_at_any_item_hangs_up(
    provider: ScriptedProvider, model: ChatModel, point: int
) -> None:
    provider.will(
        [text("One "), text("two."), call("addOperator", ADD, id="a")], [text("Three"), Pause()]
    )
    run = Run(model)
    for _ in range(point):
        run.items.append(await anext(run.generator))
    await run.generator.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(run.generator)


@pytest.mark.parametrize("answer", [HANG, [Pause()], [text("Half"), Pause()]])
async def test_cancelling_the_consumer_hangs_up(
    provider: ScriptedProvider, model: ChatModel, answer: Any
) -> None:
    provider.will(answer)
    running = asyncio.create_task(Run(model).collect())
    async with asyncio.timeout(WITHIN):
        await provider.asked.wait()
        await asyncio.sleep(0.02)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await provider.hung_up.wait()


async def test_cancelling_the_consumer_ends_the_tool_that_runs(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([call("wait", GET)])
    started = asyncio.Event()
    running = asyncio.create_task(Run(model, tools=slow_tools(started)).collect())
    async with asyncio.timeout(WITHIN):
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
