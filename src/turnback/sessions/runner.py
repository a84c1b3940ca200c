"""Carrying a run: the agent's loop yields, the actor makes durable, subscribers are told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, assert_never

from turnback.agent.steps import Delta, Opened, RunLimits, StepDraft, Waits
from turnback.core.contracts.model import Contract
from turnback.core.errors import ModelNotConfigured, QueueFull
from turnback.core.tree import EndReason
from turnback.core.workflow import Workflow
from turnback.failpoints import hit
from turnback.sessions import broadcast, payloads
from turnback.sessions.actor import Actor
from turnback.sessions.editing import new_link_id
from turnback.sessions.outside import OutsideTools, RunTools, result_of
from turnback.sessions.planning import INTERRUPTED
from turnback.sessions.plans import Resume
from turnback.sessions.runs import Run
from turnback.settings import Settings
from turnback.store.effects import OpenStep
from turnback.store.ids import new_id
from turnback.telemetry.runs import ObservedRun
from turnback.tools.settle import Place
from turnback.tools.telling import Answered, told_of

if TYPE_CHECKING:
    from turnback.agent.models import ChatModel


STOPPED = "Stopped."


class Runner:
    """Starts runs with the model that a session names, and with the tools that are there."""

    def __init__(
        self,
        settings: Settings,
        model_for: Callable[[str], Awaitable[ChatModel]],
        outside: OutsideTools | None = None,
    ) -> None:
        self._limits = RunLimits.of(settings)
        self._model_for = model_for
        self._outside = outside

    async def __call__(self, actor: Actor, run: Run) -> None:
        """Carry `run` to its end, which is a step with an end reason, or a person's to decide.

        Each draft is durable before the loop is asked for more. Raises what
        `RunProgress.append` does.
        """
        opened = None
        if run.resumes is not None and (opened := await actor.progress.opened()) is not None:
            run.step_id, run.is_open, run.text = opened.id, True, opened.draft["content"]
        workflow = await actor.memory.workflow_of(actor.memory.tree.workflow)
        if run.resumes in (Resume.STOP, Resume.INTERRUPT):
            await self._close(actor, run, opened, workflow)
            return
        try:
            model = await self._model_for(run.model)
        except (ModelNotConfigured, QueueFull) as error:
            # Settings may have changed since the session was made; its person is told by a step.
            await self._close(actor, run, opened, workflow, f"Error: {error.message}")
            return
        with ObservedRun(
            session=actor.key.id,
            turn=run.turn_id,
            model=model.name,
            step_id=lambda: run.step_id,
        ) as observed:
            await self._turn(actor, run, model, workflow, observed, opened)

    async def _turn(
        self,
        actor: Actor,
        run: Run,
        model: ChatModel,
        workflow: Workflow,
        observed: ObservedRun,
        opened: OpenStep | None,
    ) -> None:
        from turnback.agent.loop import (
            canvas_toolbox,
            run_turn,
        )  # with the model layer, so not before a model is

        limits = self._limits.within(run.settings)
        tree = actor.memory.tree
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
            tools=canvas_toolbox(new_link_id, limits, await self._tools(actor, run, opened)),
            opened=None if opened is None else payloads.opened_of(opened.draft),
            first_index=tree.steps[tree.head.step_id].index + 1,
        )
        async with aclosing(turn):
            async for item in turn:
                match item:
                    case Delta():
                        hit("stream")
                        actor.progress.tell_delta(run, _told(run, item))
                    case Opened():
                        secret = item.shown != item.tool_calls
                        await actor.progress.open_step(
                            run, payloads.of_opened(item), is_secret=secret
                        )
                    case StepDraft():
                        await actor.progress.append(run, run.step_id, item)
                        observed.stepped(item.end_reason)
                    case Waits(approvals):
                        observed.waits()
                        await actor.progress.wait(run, approvals)
                    case _:
                        assert_never(item)

    async def _tools(self, actor: Actor, run: Run, opened: OpenStep | None) -> RunTools | None:
        """The tools outside; of a run that goes on with what was decided and done before."""
        if self._outside is None:
            return None
        made = [] if opened is None else await actor.progress.logged(opened.id)
        return RunTools(
            await self._outside.offered(),
            self._outside.calls,
            place=lambda: _place(actor, run),
            stop=run.stop,
            approvals=actor.memory.approvals,
            made=made,
        )

    async def _close(
        self,
        actor: Actor,
        run: Run,
        opened: OpenStep | None,
        workflow: Workflow,
        note: str | None = None,
    ) -> None:
        """End a turn: its open step as far as it is known what came of it, and why it ends.

        `note` says that it failed; without one it was stopped, or interrupted.
        """
        if opened is not None:
            step = payloads.opened_of(opened.draft)
            logged = await actor.progress.logged(opened.id)
            if self._outside is not None:
                known = await self._outside.settled(logged, _place(actor, run))
            else:
                most = self._limits.max_tool_output
                known = {
                    one.effect.tool_call_id: told_of(
                        one.effect, most, None if one.is_secret else Contract()
                    )
                    for one in logged
                }
            results = tuple(
                result_of(call, known.get(call.id) or Answered("Not run.", is_error=True))
                for call in step.shown
            )
            draft = StepDraft(
                content=step.content,
                tool_calls=step.shown,
                tool_results=results,
                usage=step.usage,
                before=workflow,
                after=workflow,
                effects=tuple(one.effect.id for one in logged),
            )
            await actor.progress.append(run, run.step_id, draft)
        if note is not None:
            content, end = note, EndReason.FAILED
        elif run.resumes is Resume.STOP:
            content, end = STOPPED, EndReason.STOPPED
        else:
            content, end = INTERRUPTED, EndReason.INTERRUPTED
        draft = StepDraft(content=content, before=workflow, after=workflow, end_reason=end)
        await actor.progress.append(run, run.step_id, draft)


def _place(actor: Actor, run: Run) -> Place:
    return Place(
        key=actor.key,
        project_id=actor.project_id,
        turn_id=run.turn_id,
        step_id=run.step_id,
        fence=run.fence,
    )


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
