"""The table of every setting, written from the settings themselves: `docs/settings.md`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnback.environment import variable
from turnback.settings import Settings, Unit

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

HEAD = """# Settings

Each is a variable of the environment; `turnback serve --help` names the few that are options too,
and an option goes before its variable. An empty variable is none. A value that cannot be used is
refused at the start, with the variable's name. `turnback doctor` finds misspelt ones.

This table is written by `turnback schema`, from `src/turnback/settings.py`.

| variable | default | unit | what it is |
|---|---|---|---|
"""


def render() -> str:
    """The page, as Markdown."""
    return HEAD + "".join(map(_row, Settings.model_fields, Settings.model_fields.values()))


def _row(name: str, field: FieldInfo) -> str:
    unit = next((mark for mark in field.metadata if isinstance(mark, Unit)), "")
    meaning = " ".join((field.description or "").split())
    return f"| `{variable(name)}` | {_default(field)} | {unit} | {meaning} |\n"


def _default(field: FieldInfo) -> str:
    value = field.default
    if value is None or value in ((), frozenset(), {}):
        return "none"
    if isinstance(value, float):
        return f"`{value:g}`"
    return f"`{value}`"
