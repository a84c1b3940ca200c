"""A session's own settings as REST has them: in snake_case, by the names of the server's."""

from __future__ import annotations

from typing import Annotated, cast

from pydantic import BaseModel, Field

from turnback.api.rest.request import WHOLE, Body, setting
from turnback.core.run_settings import RunSettingsChange
from turnback.settings import CanvasTool, Positive, Seconds

SHORTEST = 0.001
"""Seconds: less is no time that a clock keeps, and might be none at all once it is in minutes."""

Steps = Annotated[Positive, Field(json_schema_extra=setting("max_steps")), WHOLE]
RunTime = Annotated[Seconds, Field(ge=SHORTEST, json_schema_extra=setting("run_timeout"))]
ToolTime = Annotated[Seconds, Field(ge=SHORTEST, json_schema_extra=setting("tool_timeout"))]
ToolOutput = Annotated[Positive, Field(json_schema_extra=setting("max_tool_output")), WHOLE]


class RunSettingsBody(BaseModel):
    """What the session's runs are held to beside the server's settings; null: the server's."""

    max_steps: int | None
    run_timeout: float | None
    tool_timeout: float | None
    max_tool_output: int | None
    disabled_tools: list[str]


class ChangeRunSettings(Body):
    """Settings of the next run, each at most the server's. Null: the server's; left out: as it is.

    `disabled_tools` are off beside those that the server's own setting switches off.
    """

    max_steps: Steps | None = None
    run_timeout: RunTime | None = None
    tool_timeout: ToolTime | None = None
    max_tool_output: ToolOutput | None = None
    disabled_tools: list[CanvasTool] | None = None

    def change(self) -> RunSettingsChange:
        """Those that were named, each tool once."""
        change = cast(RunSettingsChange, self.model_dump(exclude_unset=True))
        if "disabled_tools" in change:
            change["disabled_tools"] = sorted(set(self.disabled_tools or ()))
        return change
