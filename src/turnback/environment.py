"""The settings as the environment has them, and variables that only look like settings."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from pydantic import ValidationError
from pydantic_settings import SettingsError

from turnback.core.errors import SettingsInvalid
from turnback.settings import Settings

PREFIX = str(Settings.model_config["env_prefix"])
NO_SETTINGS = frozenset([f"{PREFIX}FAILPOINT"])
"""Variables with our prefix that are none of an administrator's."""


def load_settings(**options: object) -> Settings:
    """The settings of the environment, under the options that were given.

    Raises `SettingsInvalid`, which names each variable to change and quotes no value.
    """
    try:
        return Settings(**{name: value for name, value in options.items() if value is not None})  # type: ignore[arg-type]
    except ValidationError as error:
        wrong = [
            f"`{variable(str(e['loc'][0]))}`: {e['msg'].removeprefix('Value error, ')}"
            for e in error.errors()
        ]
        raise SettingsInvalid("Settings cannot be used; " + "; ".join(wrong)) from error
    except SettingsError as error:
        field = re.search(r'field "(\w+)"', str(error))
        name = variable(field[1]) if field else f"{PREFIX}…"
        raise SettingsInvalid(f"Settings cannot be used; `{name}`: must be JSON") from error


def variable(field: str) -> str:
    """The environment variable of a setting."""
    return f"{PREFIX}{field.upper()}"


def misspelt(environment: Mapping[str, str]) -> dict[str, str | None]:
    """Variables that look like settings and are none, each with the setting nearest to it."""
    known = [field.upper() for field in Settings.model_fields]
    found: dict[str, str | None] = {}
    for name in sorted(environment):
        upper = name.upper()  # settings are read in any case
        field = upper.removeprefix(PREFIX)
        if field != upper and field not in known and upper not in NO_SETTINGS:
            near = difflib.get_close_matches(field, known, n=1)
            found[name] = variable(near[0]) if near else None
    return found
