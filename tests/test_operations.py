"""docs/operations.md names what there is: metrics, commands, settings, log events."""

from __future__ import annotations

import re
from pathlib import Path

from turnback.cli import commands
from turnback.environment import variable
from turnback.settings import Settings
from turnback.telemetry import metrics

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs/operations.md").read_text()


def test_each_metric_is_explained_and_no_other() -> None:
    there = {f.name for f in metrics.REGISTRY.collect() if f.name.startswith("turnback_")}
    named = {re.sub("_total$", "", name) for name in re.findall(r"`?(turnback_[a-z_]+)", TEXT)}
    assert named == there


def test_each_setting_and_command_that_is_named_is_there() -> None:
    settings = {variable(field) for field in Settings.model_fields}
    assert set(re.findall(r"TURNBACK_[A-Z_]+", TEXT)) <= settings
    there = {command.name or command.callback.__name__ for command in commands.registered_commands}
    there |= {
        f"{group.name} {command.name or command.callback.__name__}"
        for group in commands.registered_groups
        for command in group.typer_instance.registered_commands
    }
    there |= {  # those that are commands by themselves
        group.name
        for group in commands.registered_groups
        if group.typer_instance.info.invoke_without_command is True
    }
    groups = "|".join(group.name for group in commands.registered_groups)
    named = set(re.findall(rf"(?:`|\n)turnback ((?:(?:{groups}) )?[a-z]+)", TEXT))
    assert named <= there
    assert there - {"schema"} <= named


def test_each_log_event_that_is_named_is_logged() -> None:
    source = "".join(path.read_text() for path in (ROOT / "src/turnback").rglob("*.py"))
    table = TEXT[TEXT.index("| event |") : TEXT.index("## Metrics")]
    cells = [row.split("|")[1] for row in table.splitlines()[2:] if row]
    events = [name for cell in cells for name in re.findall("`([a-z ]+)`", cell)]
    assert len(events) > 8
    for event in events:
        assert f'"{event}"' in source, event
