"""What a run tells of itself while it goes on: its model calls, its tool calls, their outcomes.

The agent's loop is handed an `Observer` and knows no more of metrics or tracing than this.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import structlog

from turnback.telemetry import metrics, tracing

if TYPE_CHECKING:
    from prometheus_client import Histogram


log = structlog.get_logger()


class Call:
    """One call, from entering to leaving it.

    `outcome` is `ok` unless somebody sets it; where an exception leaves it, it is that exception's
    `reason`, or else `failed`; `stopped` where it was cancelled or closed.
    """

    def __init__(self, seconds: dict[str, Histogram] | None, span: tracing.Span | None) -> None:
        self.outcome = "ok"
        self._seconds = seconds
        self._span = span
        self._began = perf_counter()
        self._silent = True

    def piece(self) -> None:
        """A piece of the model's answer has come; only the first one counts."""
        if self._silent:
            self._silent = False
            if self._seconds is not None:
                metrics.FIRST_PIECE_SECONDS.observe(perf_counter() - self._began)

    def used(self, input_tokens: int, output_tokens: int) -> None:
        """What the provider has counted."""
        if self._seconds is not None:
            metrics.TOKENS_IN.inc(input_tokens)
            metrics.TOKENS_OUT.inc(output_tokens)
        if self._span is not None:
            self._span.used(input_tokens, output_tokens)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and self.outcome == "ok":
            reason = "failed" if isinstance(error, Exception) else "stopped"
            reason = str(getattr(error, "reason", reason))
            self.outcome = reason if reason in metrics.OUTCOMES else "failed"
        if self._seconds is not None:
            self._seconds[self.outcome].observe(perf_counter() - self._began)
        if self._span is not None:
            self._span.end(self.outcome)


class Observer(Protocol):
    """Whoever watches a run. `step` is the step's index in its turn."""

    def model_call(self, model: str, step: int) -> Call:
        """A model is called within it."""

    def tool_call(self, name: str, call_id: str, step: int) -> Call:
        """A tool is called within it; `name` is that of a tool there is, or `unknown`."""


class Unobserved:
    """For a run that nobody watches."""

    def model_call(self, model: str, step: int) -> Call:
        """Told to nobody."""
        return Call(None, None)

    def tool_call(self, name: str, call_id: str, step: int) -> Call:
        """Told to nobody."""
        return Call(None, None)


class ObservedRun:
    """Counts and traces one run; entered when it begins, left when it has ended.

    `step_id` tells the id of the step under way.
    """

    def __init__(self, *, session: str, turn: str, model: str, step_id: Callable[[], str]) -> None:
        self._step_id = step_id
        self._span = tracing.turn(session=session, turn=turn, model=model)
        self._end: str = "lost"
        self._steps = 0
        self._began = self._started = perf_counter()

    def stepped(self, end: str | None) -> None:
        """A step is durable; `end` says how the run has ended, if that was its last."""
        now = perf_counter()
        metrics.STEP_SECONDS.observe(now - self._began)
        self._began = now
        self._steps += 1
        self._end = end or self._end

    def waits(self) -> None:
        """The run has ended because a person has to decide."""
        self._end = "waiting"

    def model_call(self, model: str, step: int) -> Call:
        """As `Observer` has it."""
        span = self._span and self._span.model_call(model, step, self._step_id())
        return Call(metrics.MODEL_CALL_SECONDS, span)

    def tool_call(self, name: str, call_id: str, step: int) -> Call:
        """As `Observer` has it."""
        span = self._span and self._span.tool_call(name, call_id, step, self._step_id())
        return Call(metrics.TOOL_CALL_SECONDS, span)

    def __enter__(self) -> Self:
        metrics.RUNS.inc()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        metrics.RUNS.dec()
        metrics.RUNS_ENDED[self._end].inc()
        took = perf_counter() - self._started
        log.info("run ended", end=self._end, steps=self._steps, seconds=round(took, 3))
        if self._span is not None:
            self._span.end(self._end)
