"""What the runner reaches of the world: connections, and the contracts of the calls made there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from turnback.core.contracts.choose import Before
from turnback.core.contracts.model import Contract
from turnback.core.effects import Effect, ResourceKey
from turnback.tools.connection import Connection

NOT_CONNECTED = "its connection is not configured any more"


class Reach(Protocol):
    """Tools outside, as an undo needs them."""

    async def of(self, effect: Effect) -> tuple[Connection | None, Contract]:
        """The connection that a call was made on, and its contract as it was then.

        No connection: it is not configured any more. Raises `DatabaseUnavailable`.
        """

    async def observe(self, effect: Effect, resources: Iterable[ResourceKey]) -> Before:
        """What things of an effect are now; one whose read may not be called any more says why."""

    def barred(self, connection: str, tools: Iterable[str]) -> str | None:
        """Why one of these tools may not be called for what was agreed to when it was another."""

    def contract(self, connection: str, tool: str) -> Contract:
        """What a tool declares now; nothing where it is not there."""
