"""Carrying a run: the agent's loop yields, the actor makes durable, subscribers are told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, assert_never

from turnback.agent.steps import Delta, RunLimits, StepDraft
from turnback.core.errors import ModelNotConfigured, QueueFull
from turnback.core.tree import EndReason
from turnback.core.workflow import Workflow
from turnback.failpoints import hit
from turnback.sessions import broadcast
from turnback.sessions.actor import Actor, Run
from turnback.sessions.editing import new_link_id
from turnback.settings import Settings
from turnback.store.ids import new_id
from turnback.telemetry.runs import ObservedRun

if TYPE_CHECKING:
    from turnback.agent.models import ChatModel


class Runner:
    """Starts runs with the model that a session names."""

    def __init__(
        self, settings: Settings, model_for: Callable[[str], Awaitable[ChatModel]]
    ) -> None:
        self._limits = RunLimits.of(settings)
        self._model_for = model_for

    async def __call__(self, actor: Actor, run: Run) -> None:
        """Carry `run` to its end, which is a step with an end reason.

        Each draft is durable before the loop is asked for more. Raises what `Actor.append` does.
        """
        workflow = await actor.memory.workflow_of(actor.memory.tree.workflow)
        try:
            model = await self._model_for(run.model)
        except (ModelNotConfigured, QueueFull) as error:
            # Settings may have changed since the session was made; its person is told by a step.
            content, end = f"Error: {error.message}", EndReason.FAILED
            draft = StepDraft(content=content, before=workflow, after=workflow, end_reason=end)
            await actor.append(run, run.step_id, draft)
            return
        with ObservedRun(
            session=actor.key.id,
            turn=run.turn_id,
            model=model.name,
            step_id=lambda: run.step_id,
        ) as observed:
            await self._turn(actor, run, model, workflow, observed)

    async def _turn(
        self, actor: Actor, run: Run, model: ChatModel, workflow: Workflow, observed: ObservedRun
    ) -> None:
        from turnback.agent.loop import run_turn  # with the model layer, so not before a model is

        limits = self._limits.within(run.settings)
        turn = run_turn(
            model=model,
            history=await actor.memory.history(
                max_tokens=limits.max_context_tokens,
                max_turns=limits.max_context_turns,
                takes_images=model.takes_images,
            ),
            workflow=workflow,
            stop=run.stop,
            limits=limits,
            new_id=new_id,
            new_link_id=new_link_id,
            observer=observed,
        )
        async with aclosing(turn):
            async for item in turn:
                match item:
                    case Delta():
                        hit("stream")
                        actor.tell_delta(run, _told(run, item))
                    case StepDraft():
                        await actor.append(run, run.step_id, item)
                        observed.stepped(item.end_reason)
                    case _:
                        assert_never(item)


def _told(run: Run, delta: Delta) -> broadcast.Delta:
    call_id, name, piece = delta.tool or (None, None, None)
    return broadcast.Delta(
        turn_id=run.turn_id,
        step_id=run.step_id,
        after=0,
        offset=delta.offset,
        text=delta.text,
        tool_call_id=call_id,
        tool_name=name,
        arguments=piece,
    )
