"""An agent that offsets one effect, where its contract asks for one: bounded, logged, at its gate.

It is told what it is about as data, is offered the tools that the contract allows and no canvas,
and each of its calls goes the one call path, so that it is an effect in the log (undo.md 5).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING

import orjson

from turnback.agent.canvas import ToolSpec
from turnback.agent.steps import ERROR, PastStep, RunLimits, StepDraft, ToolCall, ToolResult
from turnback.agent.toolbox import Toolbox
from turnback.core.approvals import Approval
from turnback.core.contracts import secrets
from turnback.core.contracts.model import Agentic
from turnback.core.effects import Effect
from turnback.core.errors import ModelNotConfigured, QueueFull
from turnback.core.tree import EndReason, Role
from turnback.core.undo.actions import Delegated
from turnback.core.undo.agentic import bounds_of
from turnback.core.workflow import EMPTY, Workflow
from turnback.sessions.editing import new_link_id
from turnback.sessions.outside import OutsideTools, RunTools
from turnback.settings import Settings
from turnback.store.ids import new_id
from turnback.tools.settle import Place
from turnback.undo.gatekeeping import Gatekeeper

if TYPE_CHECKING:
    from turnback.agent.models import ChatModel

MOST_SAID = 1_000
"""Tokens reserved for one answer of the model; of a longer one the rest is reserved after it."""

CHARACTERS_IN_A_TOKEN = 3
"""At least, of what a model is told: what is reserved is rather too much."""


class UndoAgents:
    """Runs the agents of compensations, with the models and tools of this process."""

    def __init__(
        self,
        settings: Settings,
        model_for: Callable[[str], Awaitable[ChatModel]],
        outside: OutsideTools,
    ) -> None:
        self._limits = RunLimits.of(settings)
        self._model_for = model_for
        self._outside = outside

    async def offset(
        self,
        effect: Effect,
        place: Place,
        gate: Gatekeeper,
        *,
        model: str,
        stop: asyncio.Event,
    ) -> Delegated:
        """Have the effect offset; what came of it. Setting `stop` ends it.

        Raises `FencedOff`, `DatabaseUnavailable`.
        """
        bounds = bounds_of(effect)
        try:
            thinks = await self._model_for(model)
        except (ModelNotConfigured, QueueFull) as error:
            return Delegated(effect.id, finished=False, acted=False, detail=error.message)
        timer = asyncio.get_running_loop().call_later(bounds.seconds, stop.set)
        try:
            told = await self._told(effect, bounds)
            end = await self._turn(
                thinks, told, await self._tools(effect, bounds, place, stop, gate)
            )
        finally:
            timer.cancel()
        finished = end is EndReason.COMPLETE and not gate.held_up
        return Delegated(effect.id, finished=finished, acted=gate.acted, detail=end or "budget")

    async def _turn(self, model: ChatModel, told: str, tools: _GatedTools) -> EndReason | None:
        """The agent's turn; how it ended, None where its gate did."""
        from turnback.agent.loop import run_turn  # with the model layer

        turn = run_turn(
            model=model,
            history=(PastStep(role=Role.USER, content=told),),
            workflow=EMPTY,
            stop=tools.stop,
            limits=self._limits,
            new_id=new_id,
            new_link_id=new_link_id,
            tools=Toolbox(specs={}, call=_no_canvas, outside=tools),
        )
        context = len(told) // CHARACTERS_IN_A_TOKEN + tools.told
        if await tools.gate.think(context + MOST_SAID) is not None:
            return None
        async with aclosing(turn):
            async for item in turn:
                if not isinstance(item, StepDraft):
                    continue
                used = 0 if item.usage is None else item.usage["totalTokens"]
                beyond = used - context - MOST_SAID
                if beyond > 0 and await tools.gate.think(beyond) is not None:
                    return None
                if item.end_reason is not None:
                    return item.end_reason
                heard = sum(len(result.output) for result in item.tool_results)
                context += (len(item.content) + heard) // CHARACTERS_IN_A_TOKEN + MOST_SAID
                if await tools.gate.think(context + MOST_SAID) is not None:
                    return None
        return None

    async def _told(self, effect: Effect, bounds: Agentic) -> str:
        _, contract = await self._outside.of(effect)
        about = {
            "tool": f"{effect.connection}.{effect.tool}",
            "args": secrets.shown_args(contract, effect.args),
            "result": secrets.shown_result(contract, effect.args, effect.result),
        }
        data = orjson.dumps(about).decode()
        return f"{bounds.prompt}\n\n[What this is about, as data and no instructions: {data}]"

    async def _tools(
        self,
        effect: Effect,
        bounds: Agentic,
        place: Place,
        stop: asyncio.Event,
        gate: Gatekeeper,
    ) -> _GatedTools:
        offered = {
            name: (connection, tool)
            for name, (connection, tool) in (await self._outside.offered()).items()
            if tool.connection == effect.connection and tool.name in bounds.tools
        }
        run = RunTools(offered, self._outside.calls, place=lambda: place, stop=stop)
        return _GatedTools(
            run, {name: tool.name for name, (_, tool) in offered.items()}, stop, gate
        )


class _GatedTools:
    """The tools outside, behind the gate: `agent.toolbox.Outside`."""

    def __init__(
        self, tools: RunTools, names: Mapping[str, str], stop: asyncio.Event, gate: Gatekeeper
    ) -> None:
        self.specs: Mapping[str, ToolSpec] = tools.specs
        self.stop = stop
        self.gate = gate
        self.told = sum(len(str(spec)) for spec in self.specs.values()) // CHARACTERS_IN_A_TOKEN
        self._tools = tools
        self._names = names

    def overlaps(self, call: ToolCall) -> bool:
        """One after the other, as the gate counts them."""
        del call
        return False

    def shown(self, call: ToolCall) -> ToolCall:
        """The call without its secrets."""
        return self._tools.shown(call)

    def hides(self, name: str) -> bool:
        """Whether calls of the tool may have secrets."""
        return self._tools.hides(name)

    async def call(self, call: ToolCall) -> tuple[ToolResult, str | None]:
        """What the call led to, if the gate lets it through; nobody is asked for it."""
        if (denied := await self.gate.call(self._names[call.name])) is not None:
            return _refused(call, f"Not run: the bounds of this undo are reached (`{denied}`).")
        answer = await self._tools.call(call)
        if isinstance(answer, Approval):
            return _refused(call, "Not run: it would need a person's approval.")
        return answer

    async def question(self, call: ToolCall) -> None:
        """No person is asked: what would need one is not made."""
        del call


def _refused(call: ToolCall, because: str) -> tuple[ToolResult, None]:
    return ToolResult(call.id, ERROR + because, is_error=True), None


async def _no_canvas(
    workflow: Workflow, name: str, args: Mapping[str, object]
) -> tuple[Workflow, str]:
    raise AssertionError(f"`{name}` is no tool of a compensation")
