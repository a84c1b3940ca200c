"""Runs of the ReAct loop, against a real HTTP provider that is scripted and models that misbehave.

Every run goes through `collect`, which checks what holds for all of them: one ending, deltas that
add up to the steps, a result for every call, workflows that follow one another.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import orjson
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, FunctionModel

from turnback.agent.loop import (
    Delta,
    PastStep,
    RunLimits,
    StepDraft,
    Toolbox,
    ToolResult,
    canvas_toolbox,
    run_turn,
)
from turnback.agent.models import ChatModel
from turnback.core.tree import Role
from turnback.core.workflow import EMPTY, Workflow
from turnback.settings import Settings

LIMITS = RunLimits.of(Settings())
WITHIN = 15.0  # seconds: far less than what would go on otherwise


ADD = {"operatorId": "op1", "operatorType": "Filter", "properties": {}, "summary": "Keep"}


ADD_2 = {**ADD, "operatorId": "op2", "inputOperatorIds": {"0": ["op1"]}}


GET: dict[str, Any] = {}


def limits(**changed: Any) -> RunLimits:
    fields = {name: getattr(LIMITS, name) for name in RunLimits.__dataclass_fields__}
    return RunLimits(**{**fields, **changed})


def prompt(content: str) -> PastStep:
    return PastStep(role=Role.USER, content=content)


class Run:
    """One turn and what came of it. `on_item` sees every item as it comes, before the next."""

    def __init__(
        self,
        model: ChatModel,
        *,
        history: tuple[PastStep, ...] = (),
        content: str = "hello",
        workflow: Workflow = EMPTY,
        limits: RunLimits = LIMITS,
        tools: Toolbox | None = None,
    ) -> None:
        self.stop = asyncio.Event()
        self.items: list[Delta | StepDraft] = []
        self.ids = (f"id-{n}" for n in itertools.count())
        links = itertools.count()
        self.generator = run_turn(
            model=model,
            history=[*history, prompt(content)],
            workflow=workflow,
            stop=self.stop,
            limits=limits,
            new_id=lambda: next(self.ids),
            new_link_id=lambda: f"link-{next(links)}",
            tools=tools,
        )
        self.workflow = workflow

    async def collect(self, on_item: Callable[[int, Delta | StepDraft], None] | None = None) -> Run:
        async for item in self.generator:
            self.items.append(item)
            if on_item:
                on_item(len(self.items), item)
        self.check()
        return self

    @property
    def drafts(self) -> list[StepDraft]:
        return [item for item in self.items if isinstance(item, StepDraft)]

    @property
    def deltas(self) -> list[Delta]:
        return [item for item in self.items if isinstance(item, Delta)]

    @property
    def end(self) -> StepDraft:
        return self.drafts[-1]

    @property
    def results(self) -> list[ToolResult]:
        return [result for draft in self.drafts for result in draft.tool_results]

    def check(self) -> None:
        """What holds for every run."""
        assert [draft.end_reason is not None for draft in self.drafts][:-1] == [False] * (
            len(self.drafts) - 1
        )
        assert self.end.end_reason is not None
        assert self.items[-1] is self.end
        standing = self.workflow
        for draft in self.drafts:
            assert draft.before is standing
            standing = draft.after
            assert [r.call_id for r in draft.tool_results] == [c.id for c in draft.tool_calls]
            assert all(r.output.startswith("[ERROR] ") == r.is_error for r in draft.tool_results)
            orjson.dumps([draft.content, [dict(c.input) for c in draft.tool_calls]])
        ids = [c.id for draft in self.drafts for c in draft.tool_calls]
        assert len(set(ids)) == len(ids)
        assert all(ids)
        self.check_deltas()

    def check_deltas(self) -> None:
        steps = dict(enumerate(self.drafts, start=1))
        said: dict[int, str] = {}
        argued: dict[str, str] = {}
        for delta in self.deltas:
            if delta.text is not None:
                before = said.get(delta.step_index, "")
                assert delta.offset == len(before.encode("utf-16-le")) // 2
                said[delta.step_index] = before + delta.text
            else:
                assert delta.tool
                call_id, name, piece = delta.tool
                assert (call_id, name) in [
                    (c.id, c.name) for c in steps[delta.step_index].tool_calls
                ]
                before = argued.get(call_id, "")
                assert delta.offset == len(before.encode("utf-16-le")) // 2
                argued[call_id] = before + piece
        for index, streamed in said.items():
            # Blank text alone is no step; the turn's last one replaces it.
            assert steps[index].content == streamed or not streamed.strip()


def of_function(
    function: Callable[[list[ModelMessage], AgentInfo], AsyncIterator[Any]],
) -> ChatModel:
    return ChatModel(
        name="function", model=FunctionModel(stream_function=function), counts_tokens=False
    )


def slow_tools(started: asyncio.Event, *, seconds: float = 60) -> Toolbox:
    """The canvas tools, and `wait`, which takes its time."""
    canvas = canvas_toolbox(lambda: "link-slow", limits())
    spec = next(iter(canvas.specs.values()))

    async def run(
        workflow: Workflow, name: str, args: Mapping[str, object]
    ) -> tuple[Workflow, str]:
        if name != "wait":
            return await canvas.call(workflow, name, args)
        started.set()
        await asyncio.sleep(seconds)
        return workflow, "waited"

    waiting = type(spec)(name="wait", description="Waits.", schema={"type": "object"})
    return Toolbox(specs={**canvas.specs, "wait": waiting}, call=run)
