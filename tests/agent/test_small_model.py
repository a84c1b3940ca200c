"""A real language model, end to end: it streams, is stopped in mid-stream, and edits the canvas.

What it says is its own affair; that it is told, kept, stored, reverted and redone is ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from processes import Process, eventually, process
from small_model import CONTEXT, SmallModel, small_model
from wire import Client, Frame, is_head, is_status

CANVAS_TOOLS = ["addOperator", "modifyOperator", "deleteOperator", "getWorkflow"]
SAYS_WITHIN = 120.0  # seconds; on a busy machine it reads its prompt slowly
STOPS_WITHIN = 10.0  # it would go on for as long as `model_timeout`


@pytest.fixture(scope="module")
async def small() -> AsyncIterator[SmallModel]:
    async with small_model() as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("small-model")


@pytest.fixture(scope="module")
async def acting(small: SmallModel, standing_database: str, folder: Path) -> AsyncIterator[Process]:
    """A server whose model answers by actions."""
    settings = settings_for(small, model="structured:openai:smollm2")
    async with process(folder, standing_database, **settings) as running:
        yield running


@pytest.fixture(scope="module")
async def talking(
    small: SmallModel, standing_database: str, folder: Path
) -> AsyncIterator[Process]:
    """A server whose model has no tools and only talks."""
    settings = settings_for(small, model="openai:smollm2", disabled_tools=CANVAS_TOOLS)
    async with process(folder, standing_database, **settings) as running:
        yield running


def settings_for(small: SmallModel, **more: Any) -> dict[str, Any]:
    return {"model_base_url": small.url, "max_context_tokens": CONTEXT, "max_steps": 6} | more


def deltas(frames: list[Frame]) -> list[str]:
    return [f["text"] for f in frames if f["type"] == "WsServerDeltaEvent" and "text" in f]


def answers(frames: list[Frame]) -> list[Frame]:
    steps = [frame["step"] for frame in frames if frame["type"] == "WsServerStepEvent"]
    return [step for step in steps if step["role"] == "agent"]


async def prompt(client: Client, content: str) -> list[Frame]:
    """Prompt, and wait for the end; the frames it led to."""
    seen = len(client.frames)
    await client.send("Prompt", content=content)
    available = is_status("AVAILABLE")
    await eventually(lambda: any(map(available, client.frames[seen:])), within=SAYS_WITHIN)
    return client.frames[seen:]


async def workflow(server: Process, session: str) -> Any:
    return (await server.http.get(f"/sessions/{session}/workflow")).json()


async def test_it_adds_a_filter_to_the_canvas_which_is_reverted_and_redone(
    acting: Process,
) -> None:
    session = await acting.session()
    async with acting.connect(session) as client:
        empty = (await client.snapshot())["workflowContent"]
        frames = await prompt(client, "Add a filter.")
        *_, last = answers(frames)
        added = answers(frames)[0]
        assert added["toolCalls"][0]["toolName"] == "addOperator"
        assert [result["isError"] for result in added["toolResults"]] == [False]
        after = await workflow(acting, session)
        assert [operator["operatorType"] for operator in after["operators"]] == ["Filter"]
        assert last["endReason"] == "complete"
        assert last["content"]

        await client.ask("Revert", messageId=last["messageId"])
        assert (await client.wait(is_head))["workflowContent"] == empty
        assert await workflow(acting, session) == empty
        await client.ask("Redo")
        assert await workflow(acting, session) == after
        assert client.head == last["id"]


async def test_its_text_streams_in_pieces_that_the_step_then_replaces(acting: Process) -> None:
    session = await acting.session()
    async with acting.connect(session) as client:
        await client.snapshot()
        frames = await prompt(client, "What can you do?")
        *_, last = answers(frames)
        assert len(deltas(frames)) > 2
        assert "".join(deltas(frames)) == last["content"]
        assert last["endReason"] == "complete"
        assert last["usage"]["inputTokens"] > 100
        assert last["usage"]["outputTokens"] > 2


async def test_stop_in_mid_stream_keeps_what_it_said_and_it_really_stops(
    small: SmallModel, talking: Process
) -> None:
    session = await talking.session()
    async with talking.connect(session) as client:
        await client.snapshot()
        await client.send("Prompt", content="Tell me a long story about a wolf.")
        await eventually(lambda: len(deltas(client.frames)) >= 8, within=SAYS_WITHIN)
        assert await small.busy()
        begun = asyncio.get_running_loop().time()
        await client.send("Stop")
        await client.wait(is_status("AVAILABLE"), since=2)
        assert asyncio.get_running_loop().time() - begun < STOPS_WITHIN

        async def free() -> bool:
            return not await small.busy()

        await eventually(free, within=STOPS_WITHIN)
        partial, last = answers(client.frames)
        assert partial["content"] == "".join(deltas(client.frames))
        assert (last["content"], last["endReason"]) == ("Stopped.", "stopped")

        await client.ask("Revert", messageId=last["messageId"])
        assert client.head == "step-initial"
        await client.ask("Redo")
        assert client.head == last["id"]
