"""The conversation as messages for a model: earlier turns and the one that runs, in its room."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from turnback.agent.attached import with_files
from turnback.agent.prompt import (
    Instructions,
    earlier_tokens,
    instructions,
    longest_output,
    tokens,
    told_tokens,
    workflow_block,
    workflow_bytes,
)
from turnback.agent.steps import PastStep, ToolCall, ToolResult
from turnback.core.errors import TooLarge
from turnback.core.tree import EndReason, Role, TurnKind
from turnback.core.workflow import Workflow


class Conversation:
    """The earlier turns and the one that is running, as messages for a model.

    `instructions` puts together what a model is told ahead of it. `max_tokens` bounds one request:
    instructions, workflow, tools and messages. At most half of it is the workflow's and a quarter
    the earlier turns', so that the turn that runs has room to grow, and a long conversation costs
    no more than a quarter.
    """

    def __init__(
        self,
        history: Iterable[PastStep],
        *,
        max_tokens: int,
        instructions: Instructions = instructions,
    ) -> None:
        self._max_tokens = max_tokens
        self._instructions = instructions
        self._turns: list[_Turn] = []
        self._begins_within_a_turn = False
        longest = longest_output(max_tokens)
        for step in history:
            if step.role is Role.USER:
                self._turns.append(_Turn())
            if self._turns:
                self._turns[-1].add(told_tokens(step, max_tokens), *_told(step, longest))
            else:
                # Without its question an answer is not a turn, and providers want a user first.
                self._begins_within_a_turn = True

    def add(
        self, answer: ModelResponse, calls: Sequence[ToolCall], results: Sequence[ToolResult]
    ) -> None:
        """A step of the running turn: the model's own answer, and what its calls led to."""
        said = "".join(str(getattr(part, "content", None) or "") for part in answer.parts)
        step = PastStep(
            role=Role.AGENT, content=said, tool_calls=tuple(calls), tool_results=tuple(results)
        )
        returns = _returns(calls, results, longest_output(self._max_tokens))
        self._turns[-1].add(told_tokens(step, self._max_tokens), answer, *returns)

    def messages(self, workflow: Workflow, *, beside: int = 0) -> list[ModelMessage]:
        """All there is to send, the oldest whole turns left out if need be.

        `beside` are the tokens of what goes with them in the request, as the tools do.
        Raises `TooLarge` when the running turn does not fit.
        """
        block = workflow_block(workflow, max_bytes=workflow_bytes(self._max_tokens))
        room = self._max_tokens - tokens(self._instructions(block, cut=True)) - beside
        room -= self._turns[-1].tokens
        if room < 0:
            raise TooLarge(
                "the turn has grown beyond what fits in one request to the model "
                f"({self._max_tokens} tokens, `max_context_tokens`); ask for less at once.",
                limit="max_context_tokens",
            )
        room = min(room, earlier_tokens(self._max_tokens))
        first = len(self._turns) - 1
        while first and self._turns[first - 1].tokens <= room:
            first -= 1
            room -= self._turns[first].tokens
        cut = first > 0 or self._begins_within_a_turn
        messages = _merged(message for turn in self._turns[first:] for message in turn.messages)
        last = messages[-1]
        assert isinstance(last, ModelRequest)
        messages[-1] = replace(last, instructions=self._instructions(block, cut=cut))
        return messages


@dataclass
class _Turn:
    messages: list[ModelMessage] = field(default_factory=list)
    tokens: int = 0

    def add(self, tokens: int, *messages: ModelMessage) -> None:
        self.messages.extend(messages)
        self.tokens += tokens


def _told(step: PastStep, longest_output: int) -> Iterator[ModelMessage]:
    """One past step as a model is told of it."""
    match step.role:
        case Role.USER if step.kind is TurnKind.EDIT:
            yield _note(f"The person edited the canvas: {step.content}")
        case Role.USER:
            yield ModelRequest(parts=[UserPromptPart(with_files(step.content, step.files))])
        case Role.AGENT if step.end_reason not in (None, EndReason.COMPLETE):
            yield _note(f"Your turn ended early: {step.content}")
        case Role.AGENT:
            parts: list[ModelResponsePart] = [TextPart(step.content)] if step.content else []
            parts += [
                ToolCallPart(
                    tool_name=sendable_name(call.name), args=dict(call.input), tool_call_id=call.id
                )
                for call in step.tool_calls
            ]
            if parts:
                yield ModelResponse(parts=parts)
            yield from _returns(step.tool_calls, step.tool_results, longest_output)
        case _:
            assert_never(step.role)


def _note(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(f"[{text}]")])


def _returns(
    calls: Sequence[ToolCall], results: Sequence[ToolResult], longest: int
) -> Iterator[ModelRequest]:
    """A return for every call, for providers refuse a conversation with a call left open."""
    if not calls:
        return
    by_id = {result.call_id: result for result in results}
    parts: list[ModelRequestPart] = []
    for call in calls:
        result = by_id.get(call.id) or ToolResult(call.id, "[ERROR] No result.", True)
        parts.append(
            ToolReturnPart(
                tool_name=sendable_name(call.name),
                content=_shortened(result.output, longest),
                tool_call_id=call.id,
                outcome="failed" if result.is_error else "success",
            )
        )
    yield ModelRequest(parts=parts)


def sendable_name(name: str) -> str:
    """A tool name that every provider takes back, whatever the model called."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unnamed"


def _shortened(output: str, longest: int) -> str:
    encoded = output.encode()
    if len(encoded) <= longest:
        return output
    kept = encoded[:longest].decode(errors="ignore")
    return f"{kept}\n[{len(encoded) - longest} more bytes are left out]"


def _merged(messages: Iterable[ModelMessage]) -> list[ModelMessage]:
    """Neighbours of one side as one message, since providers want the sides to alternate."""
    merged: list[ModelMessage] = []
    for message in messages:
        match merged[-1:], message:
            case [ModelRequest() as last], ModelRequest():
                merged[-1] = ModelRequest(parts=[*last.parts, *message.parts])
            case [ModelResponse() as last], ModelResponse():
                merged[-1] = ModelResponse(parts=[*last.parts, *message.parts])
            case _:
                merged.append(message)
    return merged
