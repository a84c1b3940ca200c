"""A session's own settings: what a change makes of them, what a run keeps to, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from turnback.agent.steps import RunLimits
from turnback.core.errors import NotStricter
from turnback.core.run_settings import NUMBERS, RunSettings, RunSettingsChange, refuse_looser
from turnback.settings import Settings

SERVER = Settings(
    max_steps=10,
    run_timeout=60,
    tool_timeout=5,
    max_tool_output=100,
    disabled_tools=["getWorkflow"],
)


def test_a_run_keeps_to_the_stricter_of_both() -> None:
    limits = RunLimits.of(SERVER)
    assert limits.within(RunSettings()) == limits
    for name in NUMBERS:
        for own in (1, getattr(SERVER, name), 10_000):
            held: dict[str, Any] = {name: own}
            kept = limits.within(RunSettings(**held))
            assert getattr(kept, name) == min(own, getattr(SERVER, name))
            others = {n: getattr(kept, n) for n in RunLimits.__dataclass_fields__ if n != name}
            assert others == {n: getattr(limits, n) for n in others}
    off = limits.within(RunSettings(disabled_tools=("addOperator",))).disabled_tools
    assert off == {"addOperator", "getWorkflow"}


def test_a_change_names_what_it_changes_and_leaves_the_rest() -> None:
    own = RunSettings(max_steps=3, disabled_tools=("addOperator",))
    assert own.changed({"max_steps": None, "run_timeout": 2.5}) == RunSettings(
        run_timeout=2.5, disabled_tools=("addOperator",)
    )
    assert own.changed({}) == own
    assert own.news({"max_steps": 3, "disabled_tools": ["addOperator"]}) == {}
    assert own.news({"max_steps": None, "tool_timeout": None}) == {"max_steps": None}
    assert own.news({"disabled_tools": []}) == {"disabled_tools": []}


def test_what_is_stored_in_part_or_not_at_all_is_the_servers() -> None:
    assert RunSettings.of({}) == RunSettings()
    assert RunSettings.of({"max_steps": 3}) == RunSettings(max_steps=3)
    own = RunSettings(max_steps=3, tool_timeout=0.5, disabled_tools=("addOperator",))
    assert RunSettings.of({**own.members}) == own


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_above_the_servers_is_refused_by_name(name: str) -> None:
    most = getattr(SERVER, name)
    looser: Any = {name: most + 1}
    with pytest.raises(NotStricter, match=rf"`{name}` may be at most {most:g} .*`TURNBACK_") as no:
        refuse_looser(looser, SERVER)
    assert no.value.data == {"limit": name, "value": most}
    allowed: list[RunSettingsChange | Any] = [{name: most}, {name: None}, {}]
    for change in allowed:
        refuse_looser(change, SERVER)
