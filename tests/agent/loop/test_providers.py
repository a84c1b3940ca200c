"""What providers do wrong: each turn ends, and says how."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from loop_runs import ADD, GET, WITHIN, Run, limits, of_function, prompt
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo
from scripted_provider import (
    CUT,
    HANG,
    Answer,
    Pause,
    Refusal,
    ScriptedProvider,
    call,
    finish,
    text,
    usage,
)

from turnback.agent.loop import PastStep, ToolCall, ToolResult
from turnback.agent.models import ChatModel, resolve
from turnback.core.tree import EndReason, Role
from turnback.core.workflow import EMPTY
from turnback.settings import Settings


@pytest.mark.parametrize("given", ["", "a", "id with spaces", "x" * 500])
async def test_empty_repeated_and_odd_call_ids_are_replaced(
    provider: ScriptedProvider, model: ChatModel, given: str
) -> None:
    provider.will(
        [
            call("addOperator", ADD, id=given, index=0),
            call("getWorkflow", GET, id=given, index=1),
        ],
        [call("getWorkflow", GET, id=given)],
        [text("Done.")],
    )
    used = ToolCall("getWorkflow", "a", {})
    earlier = (
        prompt("before"),
        PastStep(
            role=Role.AGENT, content="", tool_calls=(used,), tool_results=(ToolResult("a", "{}"),)
        ),
        PastStep(role=Role.AGENT, content="Done.", end_reason=EndReason.COMPLETE),
    )
    run = await Run(model, history=earlier).collect()
    ids = [c.id for draft in run.drafts for c in draft.tool_calls]
    assert len(set(ids)) == 3
    assert not {given} & set(ids)
    sent = provider.requests[-1]["messages"]
    asked = [c["id"] for m in sent for c in m.get("tool_calls", ())]
    assert asked == ["a", *ids]
    assert [m["tool_call_id"] for m in sent if m["role"] == "tool"] == asked


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param([], "Error: the model gave an empty answer; prompt again.", id="nothing"),
        pytest.param(
            [text("  \n")], "Error: the model gave an empty answer; prompt again.", id="blank"
        ),
        pytest.param(
            Refusal(500),
            "Error: the model's provider answered with status 500; prompt again in a while.",
            id="500",
        ),
        pytest.param(Refusal(401), "refused the key; check `TURNBACK_MODEL_API_KEY`", id="401"),
        pytest.param(Refusal(404), "does not know this model or address", id="404"),
        pytest.param(Refusal(429), "is limiting our rate", id="429"),
        pytest.param(Refusal(400), "answered with status 400", id="400"),
        pytest.param(Answer([], whole=False), "Error: ", id="no event at all"),
        pytest.param([b"data: {not json\n\n"], "Error: ", id="garbage"),
        pytest.param([b"\xff\xfe\x00\n\n"], "Error: ", id="no text"),
        pytest.param(
            [b'data: {"error": {"message": "sk-secret overloaded"}}\n\n'], "Error: ", id="error"
        ),
        pytest.param([finish("content_filter")], "filtered the answer", id="filtered"),
    ],
)
async def test_a_provider_that_fails_at_once_ends_in_one_error_step(
    provider: ScriptedProvider, model: ChatModel, answer: Any, said: str
) -> None:
    provider.will(answer)
    run = await Run(model).collect()
    [end] = run.drafts
    assert end.end_reason is EndReason.FAILED
    assert end.content.startswith("Error: ")
    assert said in end.content
    assert len(end.content) < 200
    assert "secret" not in end.content


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param([text("Half"), CUT], "broke off", id="connection cut"),
        pytest.param(Answer([text("Half")], whole=False), "cut short", id="no finish reason"),
        pytest.param([text("Half"), b"data: {oops\n\n"], "Error: ", id="garbage"),
        pytest.param(
            [text("Half"), b'data: {"error": {"message": "sk-secret"}}\n\n'], "Error: ", id="error"
        ),
        pytest.param([text("Half"), finish("content_filter")], "filtered", id="filtered"),
    ],
)
async def test_what_streamed_before_a_failure_is_kept_as_a_step(
    provider: ScriptedProvider, model: ChatModel, answer: Any, said: str
) -> None:
    provider.will(answer)
    run = await Run(model).collect()
    assert [draft.content for draft in run.drafts[:-1]] == ["Half"]
    assert run.end.end_reason is EndReason.FAILED
    assert said in run.end.content
    assert "secret" not in run.end.content


async def test_calls_of_a_cut_stream_are_not_run(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([call("addOperator", ADD), CUT])
    run = await Run(model).collect()
    assert [result.output for result in run.results] == ["[ERROR] Not run."]
    assert run.end.after is EMPTY


async def test_a_provider_that_cannot_be_reached_says_which_setting(
    unused_tcp_port: int,
) -> None:
    settings = Settings(model="openai:x", model_base_url=f"http://127.0.0.1:{unused_tcp_port}/v1")
    async with resolve(settings) as model:
        run = await Run(model).collect()
    assert run.end.content == (
        "Error: the model's provider cannot be reached; check `TURNBACK_MODEL_BASE_URL`."
    )


@pytest.mark.parametrize("answer", [HANG, [Pause()]])
async def test_a_model_that_never_begins_ends_at_model_timeout(
    provider: ScriptedProvider, model: ChatModel, answer: Any
) -> None:
    provider.will(answer)
    run = await Run(model, limits=limits(model_timeout=0.5)).collect()
    assert run.end.end_reason is EndReason.FAILED
    assert run.end.content == "Error: the model took longer than 0.5 s (`model_timeout`)."
    await asyncio.wait_for(provider.hung_up.wait(), WITHIN)


async def test_a_model_that_falls_silent_ends_at_model_idle_timeout(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([text("Well"), Pause()])
    run = await Run(model, limits=limits(model_idle_timeout=0.5)).collect()
    assert [draft.content for draft in run.drafts] == [
        "Well",
        "Error: the model said nothing for 0.5 s (`model_idle_timeout`).",
    ]


@pytest.mark.case(32)
@pytest.mark.parametrize(
    "error",
    [
        KeyError("odd"),
        RuntimeError("secret " * 100),
        asyncio.CancelledError(),
        TimeoutError(),
        StopAsyncIteration(),
        ExceptionGroup("several", [ValueError(), OSError()]),
    ],
)
@pytest.mark.parametrize("begun", [False, True])
async def test_whatever_a_model_raises_ends_in_an_error_step(
    error: BaseException, begun: bool
) -> None:
    async def odd(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        if begun:
            yield "Well"
        raise error

    run = await Run(of_function(odd)).collect()
    assert [draft.content for draft in run.drafts[:-1]] == ["Well"] * begun
    assert run.end.end_reason is EndReason.FAILED
    assert "secret" not in run.end.content


@pytest.mark.case(32)
async def test_a_model_that_yields_what_is_no_piece_ends_in_an_error_step() -> None:
    async def odd(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        yield {1: "neither text nor call"}

    assert (await Run(of_function(odd)).collect()).end.end_reason is EndReason.FAILED


async def test_text_that_cannot_be_stored_is_put_right(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    # Half an emoji in one piece and half in the next; a lone half; a NUL.
    provider.will([text("a\ud83d"), text("\ude00b"), text("\ude00"), text("\0c")])
    run = await Run(model).collect()
    assert run.end.content == "a\U0001f600b\ufffd\ufffdc"


async def test_thinking_that_is_no_unicode_does_not_end_the_run(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    thinking = {"choices": [{"index": 0, "delta": {"reasoning_content": "hm \ud800"}}]}
    provider.will([thinking, call("getWorkflow", GET)], [text("Done.")])
    run = await Run(model).collect()
    assert (run.end.content, run.end.end_reason) == ("Done.", EndReason.COMPLETE)


@pytest.mark.parametrize(("asked", "answered"), [(10**30, 1), (2**64 - 1, 2**64 - 1), (1, 2**40)])
async def test_a_count_of_tokens_beyond_belief_is_left_out(
    provider: ScriptedProvider, model: ChatModel, asked: int, answered: int
) -> None:
    provider.will([text("Hello."), usage(asked, answered)])
    run = await Run(model).collect()
    assert (run.end.content, run.end.usage) == ("Hello.", None)
