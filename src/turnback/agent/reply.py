"""One model call's answer as it streams: events in, deltas out, and at the end text and calls.

Providers send odd things: ids twice or not at all, arguments that are no JSON, halves of emoji.
This is where they are put right, so that all that leaves can be stored, sent and said again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)

from turnback.agent.conversation import sendable_name
from turnback.agent.steps import (
    INVALID_JSON,
    Delta,
    Opened,
    RunLimits,
    ToolCall,
    reply_too_large,
)
from turnback.core.errors import TooLarge

_USABLE_ID = re.compile(r"[!-~]{1,128}")


class Reply:
    """What one model call has said so far. `answer` is the provider's own, once it has finished.

    `ids` holds the tool call ids of the conversation; those of this reply are added to it.
    `take` raises `TooLarge` at `max_reply_bytes` and at `max_tool_calls_per_step`.
    """

    def __init__(
        self, *, step_index: int, limits: RunLimits, ids: set[str], new_id: Callable[[], str]
    ) -> None:
        self.answer: ModelResponse | None = None
        self._step_index = step_index
        self._limits = limits
        self._ids = ids
        self._new_id = new_id
        self._bytes = 0
        self._text = _Text()
        self._text_part: int | None = None
        self._calls: dict[int, _Call] = {}

    @property
    def text(self) -> str:
        return self._text.value

    @property
    def begun(self) -> bool:
        """Whether anything of it has arrived, thinking included."""
        return bool(self._bytes or self._calls)

    def __bool__(self) -> bool:
        return bool(self.text.strip() or self._calls)

    def take(self, event: ModelResponseStreamEvent) -> Iterator[Delta]:
        """The deltas that this event leads to."""
        match event:
            case PartStartEvent(part=TextPart(content=content)):
                yield from self._say(event.index, content)
            case PartDeltaEvent(delta=TextPartDelta(content_delta=content)):
                yield from self._say(event.index, content)
            case PartStartEvent(part=ToolCallPart() as part):
                if event.index in self._calls:
                    self._calls[event.index].arguments = _Text()
                else:
                    self._calls[event.index] = self._begin(part)
                yield from self._argue(event.index, part.args)
            case PartDeltaEvent(delta=ToolCallPartDelta() as delta):
                if delta.tool_name_delta:
                    self._count(delta.tool_name_delta)
                    self._calls[event.index].name += _storable(delta.tool_name_delta)
                yield from self._argue(event.index, delta.args_delta)
            case PartStartEvent(part=ThinkingPart(content=content)):
                self._count(content)
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=content)):
                self._count(content or "")
            case _:
                pass

    def _say(self, part: int, piece: str) -> Iterator[Delta]:
        self._count(piece)
        if piece and part != self._text_part:
            if self._text_part is not None:
                piece = "\n\n" + piece
            self._text_part = part
        offset = self._text.units
        if added := self._text.add(piece):
            yield Delta(step_index=self._step_index, offset=offset, text=added)

    def _begin(self, part: ToolCallPart) -> _Call:
        if len(self._calls) == self._limits.max_tool_calls_per_step:
            raise TooLarge(
                f"more than {len(self._calls)} tool calls in one answer "
                "(`max_tool_calls_per_step`).",
                limit="max_tool_calls_per_step",
            )
        self._count(part.tool_name)
        call_id = part.tool_call_id
        if call_id in self._ids or not _USABLE_ID.fullmatch(call_id):
            call_id = self._new_id()
        self._ids.add(call_id)
        return _Call(id=call_id, name=_storable(part.tool_name))

    def _argue(self, part: int, piece: object) -> Iterator[Delta]:
        """Arguments come as pieces of JSON text, or as a whole object."""
        call = self._calls[part]
        if piece is None:
            piece = ""
        elif not isinstance(piece, str):
            piece = orjson.dumps(piece, default=repr).decode()
        self._count(piece)
        offset = call.arguments.units
        if (added := call.arguments.add(piece)) or not offset:
            yield Delta(
                step_index=self._step_index, offset=offset, tool=(call.id, call.name, added)
            )

    def _count(self, piece: str) -> None:
        self._bytes += len(piece.encode(errors="surrogatepass"))
        if self._bytes > self._limits.max_reply_bytes:
            raise reply_too_large(self._limits.max_reply_bytes)

    def calls(self) -> tuple[ToolCall, ...]:
        """The calls in the model's order."""
        return tuple(
            ToolCall(call.name, call.id, call.input(self._limits.max_json_depth))
            for _, call in sorted(self._calls.items())
        )

    def sent_back(self, shown: Sequence[ToolCall]) -> ModelResponse:
        """The finished answer with our ids and clean text, for the turn's next model call.

        `shown` are its calls without their secrets.

        It is the provider's own rather than made from text and calls, since some want their signed
        thinking back within a turn.
        """
        assert self.answer is not None, "the model call has not finished"
        calls = iter(shown)
        parts: list[ModelResponsePart] = []
        for part in self.answer.parts:
            match part:
                case TextPart():
                    if part.content:
                        parts.append(replace(part, content=_storable(part.content)))
                case ThinkingPart():
                    parts.append(replace(part, content=_storable(part.content)))
                case ToolCallPart():
                    call = next(calls)
                    parts.append(
                        ToolCallPart(
                            tool_name=sendable_name(call.name),
                            args=dict(call.input),
                            tool_call_id=call.id,
                            id=part.id,
                            provider_name=part.provider_name,
                            provider_details=part.provider_details,
                        )
                    )
                case _:
                    parts.append(part)
        return replace(self.answer, parts=parts)


class Resumed:
    """An answer that was given before, by which a turn that waited goes on: as `Reply` was."""

    def __init__(self, opened: Opened) -> None:
        self.text = opened.content
        self._calls = opened.tool_calls

    def __bool__(self) -> bool:
        return True

    def calls(self) -> tuple[ToolCall, ...]:
        """The calls in the model's order."""
        return self._calls

    def sent_back(self, shown: Sequence[ToolCall]) -> ModelResponse:
        """The answer for the turn's next model call; of the provider's own only this was kept."""
        parts: list[ModelResponsePart] = [TextPart(self.text)] if self.text else []
        parts += [
            ToolCallPart(
                tool_name=sendable_name(call.name), args=dict(call.input), tool_call_id=call.id
            )
            for call in shown
        ]
        return ModelResponse(parts=parts)


@dataclass
class _Call:
    id: str
    name: str
    arguments: _Text = field(default_factory=lambda: _Text())

    def input(self, max_depth: int) -> dict[str, Any]:
        raw = self.arguments.value
        try:
            parsed = orjson.loads(raw or "{}")
        except ValueError:
            parsed = None
        if isinstance(parsed, dict) and _depth_within(parsed, max_depth):
            return parsed
        return {INVALID_JSON: raw}


class _Text:
    """Text that grows by pieces. An emoji cut in half between two pieces is joined again."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._half = ""
        self.units = 0

    def add(self, piece: str) -> str:
        """Take a piece; what was added comes back."""
        piece = self._half + piece
        self._half = piece[-1] if "\ud800" <= piece[-1:] <= "\udbff" else ""
        added = _storable(piece[:-1] if self._half else piece)
        self._pieces.append(added)
        self.units += len(added.encode("utf-16-le")) // 2
        return added

    @property
    def value(self) -> str:
        return "".join(self._pieces)


def _storable(text: str) -> str:
    """Text that UTF-8 and PostgreSQL hold: no lone surrogates, no NUL."""
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", "\ufffd")


def _depth_within(value: object, depth: int) -> bool:
    if not isinstance(value, dict | list):
        return True
    members = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(_depth_within(member, depth - 1) for member in members)
