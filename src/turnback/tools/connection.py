"""A connection: a named set of tools that can be listed and called, wherever they run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from turnback.core.contracts import states
from turnback.core.contracts.model import Key
from turnback.core.effects import Json

KEY = Key(meta="turnback/key", honoured=1)
"""Where a call's idempotency key goes when no contract says where: into its `_meta`."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A tool as its connection describes it.

    `schema` is the JSON Schema of its arguments. `annotations` are the connection's own hints,
    which may only make a tool stricter; `meta` is what it says besides, a contract among it.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    annotations: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a tool answered: whether it calls that an error, in text, and as JSON if it gave any."""

    is_error: bool
    text: str
    structured: Json = None

    @property
    def document(self) -> Json:
        """What a contract's pointers read as the result."""
        return states.body(self.text, self.structured)


class Connection(Protocol):
    """Tools that are reached in one way, under one name.

    Nothing here makes a call a second time: what became of one that went wrong is for the log to
    find out (undo.md 2).
    """

    @property
    def name(self) -> str:
        """What it is called in settings, overlays, and the log."""

    @property
    def generation(self) -> int:
        """Rises when its tools may have changed: then list them again."""

    async def tools(self) -> list[Listed]:
        """All of its tools. Raises `ToolServerFailed`."""

    async def call(
        self,
        tool: str,
        args: Mapping[str, Json],
        *,
        timeout: float,  # noqa: ASYNC109 - running out is `Lost`, no cancellation
        key: str | None = None,
        where: Key = KEY,
    ) -> Reply:
        """Call a tool once, and wait `timeout` seconds for its reply.

        `key` is the call's idempotency key, and goes `where` the tool's contract says. Raises
        `NotSent` where the call surely did not reach the tool, and `Lost` where it was sent and no
        reply came that can be used; an error that the tool answers is a `Reply`.
        """
