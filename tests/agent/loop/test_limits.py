"""The limits of a turn: steps, time, bytes, calls, context."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from loop_runs import ADD, GET, WITHIN, Run, limits, slow_tools
from scripted_provider import Answer, Pause, Refusal, ScriptedProvider, call, finish, text

from turnback.agent.models import ChatModel, resolve
from turnback.core.tree import EndReason
from turnback.settings import Settings


@pytest.mark.case(31)
async def test_a_model_that_never_ends_is_stopped_at_max_steps(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(*[[call("getWorkflow", GET)]] * 5)
    run = await Run(model, limits=limits(max_steps=3)).collect()
    assert len(provider.requests) == 3
    assert [draft.end_reason for draft in run.drafts] == [None, None, None, EndReason.LIMIT]
    assert run.end.content == "Stopped at a limit: 3 model calls in a turn (`max_steps`)."


async def test_a_turn_ends_at_run_timeout_whatever_it_is_doing(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([text("Half"), Pause()])
    run = await Run(model, limits=limits(run_timeout=1)).collect()
    assert [draft.content for draft in run.drafts] == [
        "Half",
        "Stopped at a limit: 1 s for a turn (`run_timeout`).",
    ]
    assert run.end.end_reason is EndReason.LIMIT


async def test_run_timeout_cuts_a_tool_short(provider: ScriptedProvider, model: ChatModel) -> None:
    provider.will([call("wait", GET)])
    tools = slow_tools(asyncio.Event())
    run = await Run(model, tools=tools, limits=limits(run_timeout=1)).collect()
    assert "Not finished" in run.results[0].output
    assert "`run_timeout`" in run.end.content


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param([text("x" * 600), text("y" * 600)], id="text"),
        pytest.param([text("x"), call("addOperator", '"' + "z" * 1100)], id="arguments"),
        pytest.param([text("x"), call("n" * 1100, "{}")], id="name"),
    ],
)
async def test_an_answer_beyond_max_reply_bytes_is_cut(
    provider: ScriptedProvider, model: ChatModel, flood: Any
) -> None:
    provider.will([*flood, Pause()])
    run = await Run(model, limits=limits(max_reply_bytes=1000)).collect()
    assert run.end.end_reason is EndReason.LIMIT
    assert "`max_reply_bytes`" in run.end.content
    assert len(run.drafts[0].content) <= 1000
    await asyncio.wait_for(provider.hung_up.wait(), WITHIN)


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param(Answer([b"data: " + b"x" * 20_000, Pause()]), id="a line without an end"),
        pytest.param(Answer([b"data: x\n" * 3_000, Pause()]), id="an event without an end"),
        pytest.param(Answer([b" " * 20_000, Pause()], content_type="text/html"), id="HTML"),
        pytest.param(Refusal(400, body=b"x" * 20_000), id="the text of an error"),
    ],
)
async def test_what_is_gathered_before_it_is_an_answer_is_bounded_too(
    provider: ScriptedProvider, flood: Any
) -> None:
    settings = Settings(model="openai:x", model_base_url=provider.url, max_reply_bytes=1000)
    provider.will(flood)
    async with resolve(settings) as model:
        run = await Run(model, limits=limits(max_reply_bytes=1000)).collect()
    assert run.end.content == (
        "Stopped at a limit: an answer of more than 1000 bytes (`max_reply_bytes`)."
    )
    assert run.end.end_reason is EndReason.LIMIT


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
async def test_many_small_events_are_no_large_one(provider: ScriptedProvider, end: bytes) -> None:
    piece = orjson.dumps(text("x") | {"id": "i", "model": "m", "object": "o", "created": 1})
    ended = orjson.dumps(finish("stop") | {"id": "i", "model": "m", "object": "o", "created": 1})
    stream = b"".join(b"data: " + said + end for said in [*[piece] * 200, ended, b"[DONE]"])
    cuts = [stream[at : at + 97] for at in range(0, len(stream), 97)]
    assert len(stream) > 20_000
    settings = Settings(model="openai:x", model_base_url=provider.url, max_reply_bytes=1000)
    async with resolve(settings) as model:
        for items in ([stream], cuts):
            provider.will(Answer(items, whole=False))
            run = await Run(model, limits=limits(max_reply_bytes=1000)).collect()
            assert (run.end.content, run.end.end_reason) == ("x" * 200, EndReason.COMPLETE)


async def test_more_calls_than_allowed_in_one_step_are_not_run(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    calls = [call("getWorkflow", GET, id=f"c{n}", index=n) for n in range(4)]
    provider.will(calls)
    run = await Run(model, limits=limits(max_tool_calls_per_step=3)).collect()
    assert [result.output for result in run.results] == ["[ERROR] Not run."] * 3
    assert run.end.end_reason is EndReason.LIMIT
    assert "`max_tool_calls_per_step`" in run.end.content


async def test_an_answer_cut_at_the_models_own_length_says_so_and_runs_nothing(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([text("Long"), call("addOperator", ADD), finish("length")])
    run = await Run(model).collect()
    assert run.results[0].output == "[ERROR] Not run."
    assert run.end.end_reason is EndReason.LIMIT
    assert "length of an answer" in run.end.content


async def test_a_turn_that_outgrows_the_context_ends_at_its_limit(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(*[[text("x" * 5000), call("getWorkflow", GET)]] * 10)
    run = await Run(model, limits=limits(max_context_tokens=10_000)).collect()
    assert run.end.end_reason is EndReason.LIMIT
    assert "`max_context_tokens`" in run.end.content
    assert 2 < len(run.drafts) < 8
