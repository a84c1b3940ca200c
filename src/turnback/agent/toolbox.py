"""The tools a run may use: those on the canvas, and those that act outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from turnback.agent import canvas
from turnback.agent.canvas import ToolSpec
from turnback.agent.steps import INVALID_JSON, RunLimits, ToolCall, ToolResult
from turnback.core.approvals import Approval
from turnback.core.workflow import Workflow


class Outside(Protocol):
    """The tools that act on the world outside the workflow.

    They heed a stop by themselves: a call that was sent is waited for a while, and is then either
    known or in doubt.
    """

    @property
    def specs(self) -> Mapping[str, ToolSpec]:
        """What the model is offered, by name."""

    def overlaps(self, call: ToolCall) -> bool:
        """Whether the call only reads, so that it may overlap with others that do."""

    def shown(self, call: ToolCall) -> ToolCall:
        """The call as it may be kept and shown: without its secrets."""

    def hides(self, name: str) -> bool:
        """Whether calls of the tool may have secrets."""

    async def call(self, call: ToolCall) -> tuple[ToolResult, str | None] | Approval:
        """What a call led to, and the id of its effect; or what a person has to decide first."""

    async def question(self, call: ToolCall) -> Approval | None:
        """What a person has to decide before a call is made, which is not made."""


@dataclass(frozen=True, kw_only=True)
class Toolbox:
    """The tools a run may use: what the model is offered, and the one way to call them.

    `disabled` names tools that are switched off: not in `specs`, and said to be off when called.
    `call` takes the workflow, a name out of `specs` and the arguments; it returns the workflow
    that results and the output. It raises `ToolFailed` and then nothing has changed. `outside` are
    the tools beside those, which do not touch the workflow.
    """

    specs: Mapping[str, ToolSpec]
    call: Callable[[Workflow, str, Mapping[str, object]], Awaitable[tuple[Workflow, str]]]
    disabled: frozenset[str] = frozenset()
    outside: Outside | None = None

    @property
    def offered(self) -> Mapping[str, ToolSpec]:
        """All that the model is offered."""
        return self.specs if self.outside is None else {**self.specs, **self.outside.specs}

    def outer(self, call: ToolCall) -> Outside | None:
        """The tools outside, where the call is of one of them, and one that can be made."""
        if self.outside is None or call.input.keys() == {INVALID_JSON}:
            return None
        return self.outside if call.name in self.outside.specs else None

    def shown(self, calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
        """The calls without their secrets."""
        return tuple(
            self.outside.shown(call) if self.outside and self.hides(call.name) else call
            for call in calls
        )

    def hides(self, name: str) -> bool:
        """Whether calls of the tool may have secrets; then their arguments are not streamed."""
        return self.outside is not None and name in self.outside.specs and self.outside.hides(name)

    def groups(self, calls: Sequence[ToolCall]) -> Iterator[list[ToolCall]]:
        """The calls in their order; those that may overlap are together."""
        for overlap, group in groupby(calls, self._overlaps):
            together = list(group)
            yield from [together] if overlap else ([call] for call in together)

    def _overlaps(self, call: ToolCall) -> bool:
        outside = self.outer(call)
        return outside is not None and outside.overlaps(call)


def canvas_toolbox(
    new_link_id: Callable[[], str], limits: RunLimits, outside: Outside | None = None
) -> Toolbox:
    """The tools on the canvas (protocol.md 2), and those outside."""

    async def call(
        workflow: Workflow, name: str, args: Mapping[str, object]
    ) -> tuple[Workflow, str]:
        return canvas.call(
            workflow,
            name,
            args,
            new_link_id=new_link_id,
            max_output=limits.max_tool_output,
            max_bytes=limits.max_workflow_bytes,
            max_depth=limits.max_json_depth,
        )

    specs = {n: s for n, s in canvas.CANVAS_TOOLS.items() if n not in limits.disabled_tools}
    return Toolbox(specs=specs, call=call, disabled=limits.disabled_tools, outside=outside)
