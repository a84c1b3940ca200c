"""The ReAct loop: one turn as an async generator of deltas and step drafts.

It commits nothing. Whoever runs it makes each draft durable before asking for the next item
(protocol.md, "Order"), and so the step that is `Opened` before any outside tool is called for it
(undo.md 2). It always ends with exactly one draft that has an `end_reason`, whatever the model, a
tool or the clock does, or with `Waits`, where a person has to decide first; only closing or
cancelling the generator itself cuts it off, and losing the database or the run.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import structlog
from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponseStreamEvent
from pydantic_ai.tools import ToolDefinition

from turnback.agent.conversation import Conversation
from turnback.agent.models import ChatModel, Streamed, failure_sentence, pause_before_retry
from turnback.agent.reply import Reply, Resumed
from turnback.agent.steps import (
    ERROR,
    INVALID_JSON,
    Delta,
    Opened,
    PastStep,
    RunLimits,
    StepDraft,
    ToolCall,
    ToolResult,
    Usage,
    Waits,
)
from turnback.agent.toolbox import Toolbox, canvas_toolbox
from turnback.core.approvals import Approval
from turnback.core.errors import StoreError, TooLarge, TurnbackError
from turnback.core.tree import EndReason
from turnback.core.workflow import Workflow
from turnback.failpoints import hit
from turnback.telemetry.exceptions import kind
from turnback.telemetry.runs import Observer, Unobserved

__all__ = [
    "Delta",
    "Opened",
    "PastStep",
    "RunLimits",
    "StepDraft",
    "ToolCall",
    "ToolResult",
    "Toolbox",
    "Usage",
    "Waits",
    "canvas_toolbox",
    "run_turn",
]

log = structlog.get_logger(__name__)

EVENTS_AHEAD = 64  # of a model's stream that wait while the consumer commits
# Counted for one call; a provider that says more is not believed. Millions of them still have a
# sum that a database's whole number holds.
MOST_TOKENS = 2**40
CLOSE_GRACE = 2.0  # seconds that a cancelled model call or tool has to clean up


async def run_turn(
    *,
    model: ChatModel,
    history: Sequence[PastStep],
    workflow: Workflow,
    stop: asyncio.Event,
    limits: RunLimits,
    new_id: Callable[[], str],
    new_link_id: Callable[[], str],
    tools: Toolbox | None = None,
    observer: Observer | None = None,
    opened: Opened | None = None,
    first_index: int = 1,
) -> AsyncGenerator[Delta | Opened | StepDraft | Waits, None]:
    """Run one turn: its deltas and its steps, in order.

    `history` is the visible path, oldest first, and ends with the prompt to answer; `workflow` is
    the one at HEAD. Each model call, with its tools, is one draft. Setting `stop` cuts in at any
    instant: what had streamed becomes a draft, and one more says that it was stopped. `observer`
    is told of each call while it goes on. A turn that waited goes on with its `opened` step, whose
    index is `first_index`.

    Raises `StoreError` where the run or the database is lost.
    """
    watched = observer or Unobserved()
    toolbox = tools or canvas_toolbox(new_link_id, limits)
    conversation = Conversation(
        history, max_tokens=limits.max_context_tokens, instructions=model.instructions
    )
    definitions = _definitions(toolbox)
    beside = model.tokens_beside(definitions)
    ids = {call.id for step in history for call in step.tool_calls}
    said: tuple[ModelResponse, Sequence[ToolCall], Sequence[ToolResult]] | None = None
    async with _watching(stop, limits) as watch:
        for step_index in count(first_index):
            reply: Reply | Resumed
            reply = asked = Reply(step_index=step_index, limits=limits, ids=ids, new_id=new_id)
            making = _Making(toolbox, watched, step_index, workflow)
            before, cut, usage = workflow, None, None
            try:
                watch.check()
                if opened is not None:
                    reply, usage = Resumed(opened), opened.usage
                else:
                    if step_index > limits.max_steps:
                        raise _limit(f"{limits.max_steps} model calls in a turn (`max_steps`).")
                    if said is not None:
                        conversation.add(*said)
                    messages = conversation.messages(workflow, beside=beside)
                    with watched.model_call(model.name, step_index) as seen:
                        listening = _listen(model, messages, definitions, workflow, asked, watch)
                        async with aclosing(listening) as deltas:
                            async for delta in deltas:
                                seen.piece()
                                if delta.tool and toolbox.hides(delta.tool[1]):
                                    if delta.offset:
                                        continue
                                    delta = replace(delta, tool=(*delta.tool[:2], ""))
                                yield delta
                        usage = _usage(asked.answer) if model.counts_tokens else None
                        if usage:
                            seen.used(usage["inputTokens"], usage["outputTokens"])
                    if any(toolbox.outer(call) for call in reply.calls()):
                        yield Opened(
                            content=reply.text,
                            tool_calls=reply.calls(),
                            shown=toolbox.shown(reply.calls()),
                            usage=usage,
                        )
                await making.make(reply.calls(), watch)
            except _Cut as raised:
                cut = raised
            except TooLarge as error:
                cut = _limit(error.message)
            except StoreError:
                raise
            except Exception as error:
                log.exception("run failed")
                cut = _failed(f"Turnback itself failed unexpectedly (`{type(error).__name__}`).")
            if making.waiting and cut is None:
                yield Waits(tuple(making.waiting))
                return
            calls, workflow, opened = toolbox.shown(reply.calls()), making.workflow, None
            results = making.results_of(calls)
            answered = not calls and cut is None
            if usage is None and model.counts_tokens:
                usage = _usage(asked.answer)
            if reply:
                yield StepDraft(
                    content=reply.text,
                    tool_calls=calls,
                    tool_results=results,
                    usage=usage,
                    before=before,
                    after=workflow,
                    end_reason=EndReason.COMPLETE if answered else None,
                    effects=tuple(making.effects),
                )
            if answered:
                return
            if cut is not None:
                yield StepDraft(
                    content=cut.text, before=workflow, after=workflow, end_reason=cut.reason
                )
                return
            said = (reply.sent_back(calls), calls, results)


class _Making:
    """The calls of one answer, made one after the other; those that only read may overlap.

    At the first that a person has to decide about it ends: `waiting` has what they have to decide,
    for that call and for those after it.
    """

    def __init__(
        self, toolbox: Toolbox, watched: Observer, step_index: int, workflow: Workflow
    ) -> None:
        self.workflow = workflow
        self.effects: list[str] = []
        self.waiting: list[Approval] = []
        self._toolbox = toolbox
        self._watched = watched
        self._step_index = step_index
        self._results: dict[str, ToolResult] = {}

    def results_of(self, calls: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
        """A result for each of the calls."""
        return tuple(self._results.get(call.id) or _error(call, "Not run.") for call in calls)

    async def make(self, calls: Sequence[ToolCall], watch: _Watch) -> None:
        """Make the calls. Raises as `_Watch.check` does, and what losing the run raises."""
        for group in self._toolbox.groups(calls):
            watch.check()
            for call in group:
                what = _error(call, "Not finished: the run ended while it ran.")
                self._results[call.id] = what
            if len(group) == 1:
                await self._make(group[0], watch)
            else:
                await asyncio.gather(*(self._make(call, watch) for call in group))
            hit("tool")
            if self.waiting:
                watch.check()
                left = calls[calls.index(group[-1]) + 1 :]
                await self._ask_about(left)
                return

    async def _make(self, call: ToolCall, watch: _Watch) -> None:
        tool = call.name if call.name in self._toolbox.offered else "unknown"
        with self._watched.tool_call(tool, call.id, self._step_index) as seen:
            if (outside := self._toolbox.outer(call)) is not None:
                made = await outside.call(call)
                if isinstance(made, Approval):
                    self.waiting.append(made)
                    del self._results[call.id]
                    return
                result, effect = made
                self.effects += [] if effect is None else [effect]
            else:
                self.workflow, result = await _run_tool(self._toolbox, self.workflow, call, watch)
            self._results[call.id] = result
            if result.is_error:
                seen.outcome = "failed"

    async def _ask_about(self, calls: Iterable[ToolCall]) -> None:
        for call in calls:
            if (outside := self._toolbox.outer(call)) is not None:
                question = await outside.question(call)
                self.waiting += [] if question is None else [question]


async def _listen(
    model: ChatModel,
    messages: Sequence[ModelMessage],
    definitions: Sequence[ToolDefinition],
    workflow: Workflow,
    reply: Reply,
    watch: _Watch,
) -> AsyncGenerator[Delta, None]:
    """One model call into `reply`. Raises `_Cut` when it fails, or says nothing.

    What fails for a while is tried again, as long as nothing of the answer has arrived.
    """
    limits = watch.limits
    deadline = watch.now() + limits.model_timeout
    late = _failed(f"the model took longer than {limits.model_timeout:g} s (`model_timeout`).")
    for tries in count(1):
        stream = partial(model.stream, messages, tools=definitions, workflow=workflow)
        trying = _try(stream, reply, watch, deadline=deadline, late=late)
        try:
            async with aclosing(trying) as deltas:
                async for delta in deltas:
                    yield delta
            break
        except _CallFailed as failed:
            error = failed.error
        if isinstance(error, TooLarge):
            raise error
        pause = pause_before_retry(error, tries=tries)
        log.warning("model failed", model=model.name, tries=tries, error=kind(error))
        if reply.begun or pause is None or tries > limits.model_retries:
            raise _failed(failure_sentence(error))
        if pause > limits.max_retry_wait:
            raise _failed(
                f"the model's provider asks to wait {math.ceil(pause)} s before the next try, "
                f"longer than {limits.max_retry_wait:g} s (`max_retry_wait`); prompt again then."
            )
        await watch.wait(seconds=min(pause, deadline - watch.now()))
    answer = reply.answer
    assert answer is not None, "the call has ended well"
    match answer.finish_reason:
        case "length":
            raise _limit("the model's own limit on the length of an answer.")
        case "content_filter":
            raise _failed("the model's provider filtered the answer; put it in other words.")
        case "error":
            raise _failed("the model's provider reported an error; prompt again.")
        case _ if not reply:
            raise _failed("the model gave an empty answer; prompt again.")
        case _:
            pass


async def _try(
    stream: Callable[[], AbstractAsyncContextManager[Streamed]],
    reply: Reply,
    watch: _Watch,
    *,
    deadline: float,
    late: _Cut,
) -> AsyncGenerator[Delta, None]:
    """One try of a model call. Raises `_CallFailed` when the model or its provider fails."""
    limits = watch.limits
    silent = _failed(
        f"the model said nothing for {limits.model_idle_timeout:g} s (`model_idle_timeout`)."
    )
    events: asyncio.Queue[ModelResponseStreamEvent] = asyncio.Queue(EVENTS_AHEAD)
    arrival = asyncio.get_running_loop().create_future()

    # One task opens, reads and closes the stream, as the provider's client wants it.
    async def pump() -> ModelResponse:
        async with stream() as streamed:
            async for event in streamed:
                await events.put(event)
                if not arrival.done():
                    arrival.set_result(None)
            return streamed.get()

    pumping = asyncio.create_task(pump())
    idle = math.inf  # until the first piece, which may take as long as the call may
    try:
        while True:
            watch.check()
            if watch.now() >= deadline:
                raise late
            if not events.empty():
                idle = limits.model_idle_timeout
                for delta in reply.take(events.get_nowait()):
                    yield delta
            elif pumping.done():
                break
            else:
                arrival = asyncio.get_running_loop().create_future()
                left = deadline - watch.now()
                if not await watch.wait(arrival, pumping, seconds=min(left, idle)):
                    raise silent if idle < left else late
    finally:
        await _end(pumping)

    if pumping.cancelled():
        raise _failed("the model's call was cancelled from within.")
    if error := pumping.exception():
        raise _CallFailed(error)
    reply.answer = pumping.result()


async def _run_tool(
    toolbox: Toolbox, workflow: Workflow, call: ToolCall, watch: _Watch
) -> tuple[Workflow, ToolResult]:
    """The workflow after the call, and its result. Whatever goes wrong is the model's to read."""
    if call.name in toolbox.disabled:
        return workflow, _error(call, f"The tool `{call.name}` is switched off. Do without it.")
    if call.name not in toolbox.offered:
        known = ", ".join(f"`{name}`" for name in toolbox.offered)
        return workflow, _error(call, f"Unknown tool `{call.name}`. The tools are {known}.")
    if call.input.keys() == {INVALID_JSON}:
        return workflow, _error(call, "The arguments are not one JSON object. Nothing was done.")
    seconds = watch.limits.tool_timeout
    running = asyncio.ensure_future(toolbox.call(workflow, call.name, call.input))
    try:
        if not await watch.wait(running, seconds=seconds):
            return workflow, _error(call, f"It took longer than {seconds:g} s (`tool_timeout`).")
    finally:
        await _end(running)
    if running.cancelled():
        return workflow, _error(call, "It was cancelled from within.")
    match running.exception():
        case None:
            after, output = running.result()
            return after, ToolResult(call.id, output)
        case TurnbackError() as error:
            return workflow, _error(call, error.message)
        case error:
            log.error("tool failed", tool=call.name, exc_info=error)
            return workflow, _error(call, f"It failed unexpectedly (`{type(error).__name__}`).")


def _error(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call.id, ERROR + text.removeprefix(ERROR), is_error=True)


def _definitions(toolbox: Toolbox) -> list[ToolDefinition]:
    return [
        ToolDefinition(
            name=spec.name, description=spec.description, parameters_json_schema=spec.schema
        )
        for spec in toolbox.offered.values()
    ]


def _usage(answer: ModelResponse | None) -> Usage | None:
    if answer is None or not answer.usage.has_values():
        return None
    used = answer.usage
    if not all(0 <= count < MOST_TOKENS for count in (used.input_tokens, used.output_tokens)):
        return None
    return Usage(
        inputTokens=used.input_tokens,
        outputTokens=used.output_tokens,
        totalTokens=used.input_tokens + used.output_tokens,
    )


class _Cut(Exception):
    """The run ends here; `text` is what its last step says."""

    def __init__(self, reason: EndReason, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text


class _CallFailed(Exception):
    """A model call failed, with what its provider's client raised."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


def _limit(which: str) -> _Cut:
    return _Cut(EndReason.LIMIT, f"Stopped at a limit: {which}")


def _failed(why: str) -> _Cut:
    return _Cut(EndReason.FAILED, f"Error: {why}")


class _Watch:
    """What may cut a run short at any instant: the person's stop, and the run's own time."""

    def __init__(self, stop: asyncio.Event, stopping: asyncio.Task[Any], limits: RunLimits) -> None:
        self.limits = limits
        self.now = asyncio.get_running_loop().time
        self._stop = stop
        self._stopping = stopping
        self._deadline = self.now() + limits.run_timeout

    def check(self) -> None:
        """Raises `_Cut` if the run is to end now."""
        if self._stop.is_set():
            raise _Cut(EndReason.STOPPED, "Stopped.")
        if self.now() >= self._deadline:
            raise _limit(f"{self.limits.run_timeout:g} s for a turn (`run_timeout`).")

    async def wait(self, *awaited: asyncio.Future[Any], seconds: float) -> bool:
        """Wait for one of `awaited`; false when `seconds` go by first. Raises as `check` does.

        One that is done counts even if the stop came at the same moment: what a tool did, it did.
        """
        seconds = max(0.0, min(seconds, self._deadline - self.now()))
        await asyncio.wait(
            {*awaited, self._stopping}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if any(future.done() for future in awaited):
            return True
        self.check()
        return False


@asynccontextmanager
async def _watching(stop: asyncio.Event, limits: RunLimits) -> AsyncIterator[_Watch]:
    stopping = asyncio.create_task(stop.wait())
    try:
        yield _Watch(stop, stopping, limits)
    finally:
        await _end(stopping)


async def _end(task: asyncio.Future[Any]) -> None:
    """Cancel what still runs and wait for its cleanup, so that no stream is left open."""
    task.cancel()
    await asyncio.wait({task}, timeout=CLOSE_GRACE)
    if not task.done():
        log.error("cancelled but running", task=type(task).__name__)
        task.add_done_callback(_heed)
    else:
        _heed(task)


def _heed(task: asyncio.Future[Any]) -> None:
    # An exception that nobody looks at is a warning when the task is collected.
    if not task.cancelled():
        task.exception()
