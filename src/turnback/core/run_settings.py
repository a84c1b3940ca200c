"""What a session's runs are held to beside the server's settings: each only stricter than those.

The names are the settings' (settings.py). A run keeps to the stricter of both, whatever has been
changed of the server's since.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypedDict

from turnback.core.errors import NotStricter

NUMBERS = ("max_steps", "run_timeout", "tool_timeout", "max_tool_output")


class RunSettingsChange(TypedDict, total=False):
    """What is to change, as JSON has it: a number (None: the server's), all tools that are off."""

    max_steps: int | None
    run_timeout: float | None
    tool_timeout: float | None
    max_tool_output: int | None
    disabled_tools: list[str]


class ServerSettings(Protocol):
    """The server's own: the most that a session may set, and the tools that are off for all."""

    @property
    def max_steps(self) -> int: ...
    @property
    def run_timeout(self) -> float: ...
    @property
    def tool_timeout(self) -> float: ...
    @property
    def max_tool_output(self) -> int: ...
    @property
    def disabled_tools(self) -> Set[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """A session's own. A number that is None is the server's; the tools are off beside its."""

    max_steps: int | None = None
    run_timeout: float | None = None
    tool_timeout: float | None = None
    max_tool_output: int | None = None
    disabled_tools: tuple[str, ...] = ()

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        """Those that were stored; a member that is not there is the server's."""
        known = {name: stored.get(name) for name in NUMBERS}
        return cls(**known, disabled_tools=tuple(stored.get("disabled_tools", ())))

    @property
    def members(self) -> RunSettingsChange:
        """All of them, as JSON has them."""
        return {
            "max_steps": self.max_steps,
            "run_timeout": self.run_timeout,
            "tool_timeout": self.tool_timeout,
            "max_tool_output": self.max_tool_output,
            "disabled_tools": list(self.disabled_tools),
        }

    def news(self, change: RunSettingsChange) -> RunSettingsChange:
        """What of `change` is not as it is already."""
        held: dict[str, Any] = {**self.members}
        new: Any = {name: value for name, value in change.items() if value != held[name]}
        found: RunSettingsChange = new
        return found

    def changed(self, change: RunSettingsChange) -> Self:
        """These, with what `change` names in place of what they had."""
        values: dict[str, Any] = {**change}
        if "disabled_tools" in values:
            values["disabled_tools"] = tuple(values["disabled_tools"])
        return replace(self, **values)

    def within(self, server: ServerSettings) -> dict[str, Any]:
        """What a run keeps to, by name: the stricter of each, and the tools off here or there."""
        kept: dict[str, Any] = {"disabled_tools": server.disabled_tools | set(self.disabled_tools)}
        for name in NUMBERS:
            own, most = getattr(self, name), getattr(server, name)
            kept[name] = most if own is None else min(own, most)
        return kept


def refuse_looser(change: RunSettingsChange, server: ServerSettings) -> None:
    """Raise `NotStricter` where `change` sets a number above the server's."""
    for name, value in change.items():
        most = getattr(server, name)
        if name in NUMBERS and isinstance(value, int | float) and value > most:
            raise NotStricter(
                f"`{name}` may be at most {most:g} on this server (`TURNBACK_{name.upper()}`); "
                "take that or less",
                limit=name,
                value=most,
            )
