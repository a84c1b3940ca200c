"""What tools do wrong is the model's to read, and changes nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from loop_runs import ADD, ADD_2, GET, Run, limits, slow_tools
from scripted_provider import ScriptedProvider, call, call_piece, text

from turnback.agent.loop import Toolbox, canvas_toolbox
from turnback.agent.models import ChatModel
from turnback.core.errors import ToolFailed
from turnback.core.tree import EndReason
from turnback.core.workflow import EMPTY, Workflow


@pytest.mark.case(19)
@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        ("addOperator", '{"operatorId": "op1", ', "not one JSON object"),
        ("addOperator", "[]", "not one JSON object"),
        ("addOperator", '"text"', "not one JSON object"),
        ("addOperator", "7", "not one JSON object"),
        ("addOperator", "NaN", "not one JSON object"),
        ("addOperator", '{"a":' * 200 + "1" + "}" * 200, "not one JSON object"),
        ("addOperator", '{"a": "\\ud83d"}', "not one JSON object"),
        ("addOperator", {}, "operatorId"),
        ("addOperator", {**ADD, "operatorType": "Nonsense"}, "Nonsense"),
        ("addOperator", {**ADD, "operatorId": 5}, "operatorId"),
        ("rm -rf /", {}, "Unknown tool `rm -rf /`. The tools are `addOperator`"),
        ("\0", {}, "Unknown tool"),
    ],
)
async def test_a_call_that_fails_is_the_models_to_read_and_changes_nothing(
    provider: ScriptedProvider, model: ChatModel, name: str, args: Any, said: str
) -> None:
    provider.will([call(name, args, id="a")], [text("I see.")])
    run = await Run(model).collect()
    [result] = run.results
    assert result.is_error
    assert said in result.output
    assert run.end.after is EMPTY
    assert run.end.end_reason is EndReason.COMPLETE
    told = provider.requests[1]["messages"][-1]
    assert (told["role"], told["tool_call_id"]) == ("tool", "a")
    assert said in told["content"]


async def test_malformed_arguments_are_kept_for_who_reads_the_step(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([call("addOperator", '{"oops')], [text("I see.")])
    run = await Run(model).collect()
    assert run.drafts[0].tool_calls[0].input == {"INVALID_JSON": '{"oops'}


@pytest.mark.parametrize(
    "args", [ADD, [ADD], 5, None, True], ids=["object", "list", "number", "null", "true"]
)
async def test_arguments_that_are_no_text_do_not_end_the_run(
    provider: ScriptedProvider, model: ChatModel, args: Any
) -> None:
    provider.will([call_piece(id="a", name="addOperator", args=args)], [text("I see.")])
    run = await Run(model).collect()
    assert run.end.end_reason is EndReason.COMPLETE
    assert list(run.end.after.operators) == (["op1"] if args is ADD else [])


async def test_a_failed_call_does_not_keep_the_next_from_running(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(
        [
            call("addOperator", ADD_2, id="a", index=0),
            call("addOperator", ADD, id="b", index=1),
        ],
        [text("Done.")],
    )
    run = await Run(model).collect()
    assert [result.is_error for result in run.results] == [True, False]
    assert list(run.end.after.operators) == ["op1"]


@pytest.mark.case(19)
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ToolFailed("No such file."), "[ERROR] No such file."),
        (ToolFailed("[ERROR] No such file."), "[ERROR] No such file."),
        (KeyError("secret"), "[ERROR] It failed unexpectedly (`KeyError`)."),
        (asyncio.CancelledError(), "[ERROR] It was cancelled from within."),
    ],
)
async def test_whatever_a_tool_raises_is_an_error_result(
    provider: ScriptedProvider, model: ChatModel, error: BaseException, said: str
) -> None:
    async def fail(*_: object) -> tuple[Workflow, str]:
        raise error

    tools = Toolbox(specs=canvas_toolbox(str, limits()).specs, call=fail)
    provider.will([call("getWorkflow", GET)], [text("I see.")])
    run = await Run(model, tools=tools).collect()
    assert [result.output for result in run.results] == [said]
    assert run.end.end_reason is EndReason.COMPLETE


async def test_a_tool_that_takes_too_long_is_cancelled_and_reported(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([call("wait", GET)], [text("I see.")])
    started = asyncio.Event()
    run = Run(model, tools=slow_tools(started), limits=limits(tool_timeout=0.05))
    await run.collect()
    assert run.results[0].output == "[ERROR] It took longer than 0.05 s (`tool_timeout`)."
    assert run.end.end_reason is EndReason.COMPLETE


@pytest.mark.case(33)
async def test_a_tool_that_is_switched_off_is_not_offered_and_not_run(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    off = limits(disabled_tools=frozenset({"deleteOperator"}))
    provider.will(
        [
            call("addOperator", ADD, id="a", index=0),
            call("deleteOperator", {"operatorId": "op1"}, id="b", index=1),
        ],
        [text("Done.")],
    )
    run = await Run(model, limits=off).collect()
    assert [tool["function"]["name"] for tool in provider.requests[0]["tools"]] == [
        "addOperator",
        "modifyOperator",
        "getWorkflow",
    ]
    assert b"deleteOperator" not in provider.bodies[0]
    assert run.results[1].output == (
        "[ERROR] The tool `deleteOperator` is switched off. Do without it."
    )
    assert list(run.end.after.operators) == ["op1"]


async def test_a_tool_that_is_not_offered_is_not_run(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    canvas = canvas_toolbox(lambda: "link-1", limits())
    reading = Toolbox(specs={"getWorkflow": canvas.specs["getWorkflow"]}, call=canvas.call)
    provider.will([call("addOperator", ADD)], [text("I see.")])
    run = await Run(model, tools=reading).collect()
    assert run.results[0].is_error
    assert run.end.after is EMPTY
    assert [tool["function"]["name"] for tool in provider.requests[0]["tools"]] == ["getWorkflow"]
