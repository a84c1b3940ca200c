"""Spans for OpenTelemetry: one for each turn, and under it one for each model and tool call.

The extra `otel` brings what exports them. Nothing of it is imported, and nothing is paid, unless
the standard environment names a collector (`OTEL_EXPORTER_OTLP_ENDPOINT`, or `…_TRACES_ENDPOINT`).
Names are those of OpenTelemetry's conventions for generative AI where they fit. A span has ids,
counts and outcomes, never content.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import structlog

from turnback import __version__

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
MISSING = "tracing is asked for and not installed: `pip install 'turnback[otel]'`"
LAST_EXPORT = 3.0  # seconds for what is not exported yet when the service ends
GOOD = frozenset(["ok", "complete", "stopped"])

log = structlog.get_logger()

_tracer: Tracer | None = None


def wanted() -> bool:
    """Whether the environment asks for spans."""
    off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    none = os.environ.get("OTEL_TRACES_EXPORTER", "otlp") == "none"
    return any(os.environ.get(name) for name in ENDPOINTS) and not (off or none)


def installed() -> bool:
    """Whether what exports spans is there."""
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter
        import opentelemetry.sdk.trace  # noqa: F401
    except ImportError:
        return False
    return True


@asynccontextmanager
async def exporting(instance: str) -> AsyncIterator[None]:
    """Within it spans are exported, if the environment asks for them. `instance` is the process's
    id; those not exported yet at its end are given a few seconds."""
    global _tracer
    if not wanted():
        yield
        return
    if not installed():
        log.warning(MISSING)
        yield
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "turnback"}
    about = {"service.version": __version__, "service.instance.id": instance}
    provider = TracerProvider(resource=Resource.create(named | about), shutdown_on_exit=False)
    exporter = OTLPSpanExporter()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    _tracer = provider.get_tracer("turnback", __version__)
    try:
        yield
    finally:
        _tracer = None
        await asyncio.to_thread(provider.force_flush, round(LAST_EXPORT * 1000))
        # First: it is what a shutdown of the rest would wait for.
        exporter.shutdown()  # type: ignore[no-untyped-call]
        await asyncio.to_thread(provider.shutdown)


class Span:
    """One span, and those under it."""

    def __init__(self, tracer: Tracer, name: str, parent: Any, attributes: dict[str, Any]) -> None:
        from opentelemetry.trace import set_span_in_context

        self._tracer = tracer
        self._span = tracer.start_span(name, context=parent, attributes=attributes)
        self._within = set_span_in_context(self._span)

    def model_call(self, model: str, step: int, step_id: str) -> Span:
        """A model call, under this span."""
        provider, _, name = model.rpartition(":")
        return self._under(
            f"chat {name}",
            step,
            step_id,
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": provider or "turnback",
                "gen_ai.request.model": name,
            },
        )

    def tool_call(self, name: str, call_id: str, step: int, step_id: str) -> Span:
        """A tool call, under this span."""
        return self._under(
            f"execute_tool {name}",
            step,
            step_id,
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": name,
                "gen_ai.tool.call.id": call_id,
                "gen_ai.tool.type": "function",
            },
        )

    def used(self, input_tokens: int, output_tokens: int) -> None:
        """What the provider has counted."""
        self._span.set_attribute("gen_ai.usage.input_tokens", input_tokens)
        self._span.set_attribute("gen_ai.usage.output_tokens", output_tokens)

    def end(self, outcome: str) -> None:
        """The span ends now."""
        from opentelemetry.trace import Status, StatusCode

        self._span.set_attribute("turnback.outcome", outcome)
        if outcome not in GOOD:
            self._span.set_attribute("error.type", outcome)
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()

    def _under(self, name: str, step: int, step_id: str, attributes: dict[str, Any]) -> Span:
        ids = {"turnback.step.index": step, "turnback.step.id": step_id}
        return Span(self._tracer, name, self._within, attributes | ids)


def turn(*, session: str, turn: str, model: str) -> Span | None:
    """The span of a turn, a root; None where nobody wants spans."""
    if _tracer is None:
        return None
    from opentelemetry.context import Context

    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "turnback",
        "gen_ai.conversation.id": session,
        "gen_ai.request.model": model.rpartition(":")[2],
        "turnback.session.id": session,
        "turnback.turn.id": turn,
    }
    return Span(_tracer, "invoke_agent turnback", Context(), attributes)
