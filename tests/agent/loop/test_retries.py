"""What fails for a while is tried again, within limits."""

from __future__ import annotations

import asyncio
import re
import time
from email.utils import formatdate
from typing import Any

import pytest
from loop_runs import WITHIN, Run, limits
from scripted_provider import CUT, Refusal, ScriptedProvider, call_piece, text

from turnback.agent.models import ChatModel
from turnback.core.tree import EndReason

AT_ONCE = {"retry-after": "0"}


HTML = b"<html><body>sk-secret Bad Gateway</body></html>"


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(Refusal(429, retry=True, headers=AT_ONCE), id="429"),
        pytest.param(Refusal(429, retry=True, headers={"retry-after-ms": "5"}), id="429 in ms"),
        pytest.param(
            Refusal(429, retry=True, headers={"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT"}),
            id="429 with a date",
        ),
        pytest.param(Refusal(500, retry=True, headers=AT_ONCE), id="500"),
        pytest.param(
            Refusal(502, retry=True, body=HTML, headers=AT_ONCE | {"content-type": "text/html"}),
            id="502 in HTML",
        ),
        pytest.param(Refusal(503, retry=True, headers=AT_ONCE), id="503"),
        pytest.param(Refusal(529, retry=True, headers=AT_ONCE), id="529"),
        pytest.param([CUT], id="cut before a byte"),
    ],
)
async def test_what_fails_for_a_while_is_tried_again_model_retries_times(
    provider: ScriptedProvider,
    model: ChatModel,
    failure: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("turnback.agent.models.FIRST_PAUSE", 0.01)
    provider.will(failure, failure, [text("There.")])
    run = await Run(model, limits=limits(model_retries=2)).collect()
    assert (run.end.content, run.end.end_reason) == ("There.", EndReason.COMPLETE)
    assert len(provider.requests) == 3
    provider.will(failure, failure, [text("There.")])
    run = await Run(model, limits=limits(model_retries=1)).collect()
    assert run.end.end_reason is EndReason.FAILED
    assert "secret" not in run.end.content
    assert len(provider.requests) == 2


@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(text("Half"), id="text"),
        pytest.param(call_piece(id="a", name="addOperator", args='{"op'), id="arguments"),
        pytest.param(
            {"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]}, id="thinking"
        ),
    ],
)
async def test_nothing_is_tried_again_once_a_piece_has_arrived(
    provider: ScriptedProvider, model: ChatModel, begun: Any
) -> None:
    provider.will([begun, CUT], [text("There.")])
    run = await Run(model).collect()
    assert run.end.end_reason is EndReason.FAILED
    assert len(provider.requests) == 1


async def test_a_provider_that_asks_for_a_pause_gets_it(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(Refusal(429, retry=True, headers={"retry-after-ms": "300"}), [text("There.")])
    begun = asyncio.get_running_loop().time()
    run = await Run(model).collect()
    assert run.end.content == "There."
    assert asyncio.get_running_loop().time() - begun >= 0.3


async def test_a_longer_pause_than_max_retry_wait_ends_the_turn_and_says_how_long(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    for asked in (3600, formatdate(time.time() + 3600, usegmt=True)):
        provider.will(Refusal(429, retry=True, headers={"retry-after": str(asked)}))
        run = await Run(model, limits=limits(max_retry_wait=30)).collect()
        [end] = run.drafts
        assert re.fullmatch(
            r"Error: the model's provider asks to wait 3[56]\d\d s before the next try, longer "
            r"than 30 s \(`max_retry_wait`\); prompt again then\.",
            end.content,
        )
        assert end.end_reason is EndReason.FAILED


async def test_stop_during_a_pause_ends_the_turn_at_once(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(Refusal(429, retry=True, headers={"retry-after": "25"}))
    run = Run(model)
    running = asyncio.create_task(run.collect())
    async with asyncio.timeout(WITHIN):
        await provider.asked.wait()
        await asyncio.sleep(0.1)
        run.stop.set()
        await running
    assert [draft.content for draft in run.drafts] == ["Stopped."]
    assert len(provider.requests) == 1


async def test_a_pause_does_not_outlast_model_timeout(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(Refusal(429, retry=True, headers={"retry-after": "25"}), [text("There.")])
    async with asyncio.timeout(WITHIN):
        run = await Run(model, limits=limits(model_timeout=0.3)).collect()
    assert "`model_timeout`" in run.end.content


async def test_retries_do_not_outlast_model_timeout(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(*[Refusal(500, retry=True)] * 10)
    run = await Run(model, limits=limits(model_timeout=0.1)).collect()
    assert "`model_timeout`" in run.end.content
