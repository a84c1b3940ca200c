"""What the agent loop adds to a step."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import orjson
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from bench import workload
from bench.measure import Row, Series, bounded
from bench.world import World
from turnback.agent.models import ChatModel
from turnback.core.principal import LOCAL
from turnback.sessions.commands import Asked, Prompt
from turnback.sessions.runner import Runner

WHAT = (
    "A turn of 40 steps of two tool calls each on the 50 KB workflow, carried by the service's "
    "own runner with a model that answers at once: a turn's time over its steps, commits "
    "included."
)
STEPS, TURNS = 40, 9


async def measure(world: World) -> list[Row]:
    """The median of some turns."""
    numbers = count(1)

    async def answer(messages: Any, info: Any) -> AsyncIterator[Any]:
        n = next(numbers)
        yield "I raise two of the bounds."
        if n % STEPS:
            yield {
                at + 1: DeltaToolCall(name="modifyOperator", json_args=_arguments(2 * n + at))
                for at in range(2)
            }

    model = ChatModel(name="bench", model=FunctionModel(stream_function=answer))

    async def model_for(name: str) -> ChatModel:
        return model

    taken = []
    async with world.store() as store:
        key = await store.session()
        async with store.actor(key, Runner(store.settings, model_for)) as actor:
            for _ in range(TURNS):
                began = time.perf_counter()
                await actor.ask(Asked(Prompt("Raise the bounds, please."), LOCAL))
                assert actor.runs.run is not None
                await actor.runs.run.ended.wait()
                taken.append((time.perf_counter() - began) / STEPS)
            assert len(actor.memory.tree.steps) == TURNS * (STEPS + 1)
    median = Series(tuple(taken)).median * 1000
    return [bounded("overhead of the agent loop per step", median, unit="ms", at_most=10)]


def _arguments(n: int) -> str:
    return orjson.dumps(workload.arguments(n)).decode()
