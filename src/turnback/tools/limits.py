"""The limits on tool servers, as the settings have them."""

from __future__ import annotations

from dataclasses import dataclass

from turnback.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimits:
    """What a tool server may take: times in seconds, sizes in bytes."""

    start_timeout: float
    end_timeout: float
    idle_timeout: float
    restart_delay: float
    restart_delay_max: float
    max_tools: int
    max_message: int
    max_chatter: int

    @classmethod
    def of(cls, settings: Settings) -> ToolLimits:
        """Those of the settings."""
        return cls(
            start_timeout=settings.tool_start_timeout,
            end_timeout=settings.tool_end_timeout,
            idle_timeout=settings.run_timeout,
            restart_delay=settings.tool_restart_delay,
            restart_delay_max=settings.tool_restart_delay_max,
            max_tools=settings.max_server_tools,
            max_message=settings.max_tool_message,
            max_chatter=settings.max_tool_chatter,
        )
