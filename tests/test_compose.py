"""docker-compose.yml and the Dockerfile, read against what they name: settings, commands, files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from turnback.api.guard import is_loopback
from turnback.cli import commands
from turnback.settings import Settings
from turnback.store.url import asyncpg_dsn

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    parsed: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    found: dict[str, dict[str, Any]] = parsed["services"]
    return found


def test_every_variable_of_ours_is_a_setting_with_a_value_that_it_takes(
    services: dict[str, dict[str, Any]],
) -> None:
    for name in ("migrate", "turnback"):
        variables = services[name]["environment"]
        given = {key.removeprefix("TURNBACK_").lower(): value for key, value in variables.items()}
        assert given.keys() <= Settings.model_fields.keys()
        Settings(**{key: substituted(value) for key, value in given.items() if value is not None})


def test_the_service_is_reached_by_this_machine_alone(services: dict[str, dict[str, Any]]) -> None:
    assert services["turnback"]["network_mode"] == "host"
    assert is_loopback(services["turnback"]["environment"]["TURNBACK_HOST"])
    for port in services["postgres"]["ports"]:
        assert is_loopback(port.split(":")[0])


def test_the_url_is_the_one_of_the_database_that_is_started(
    services: dict[str, dict[str, Any]],
) -> None:
    url = services["turnback"]["environment"]["TURNBACK_DATABASE_URL"]
    parts = urlsplit(asyncpg_dsn(substituted(url)))
    database = services["postgres"]["environment"]
    assert parts.username == database["POSTGRES_USER"]
    assert parts.path == f"/{database['POSTGRES_DB']}"
    assert f"{parts.hostname}:{parts.port}:5432" in services["postgres"]["ports"]
    assert services["postgres"]["image"] == "postgres:18"


def test_the_service_starts_after_its_migrations_and_has_the_time_to_drain(
    services: dict[str, dict[str, Any]],
) -> None:
    names = {command.name or command.callback.__name__ for command in commands.registered_commands}
    assert services["migrate"]["command"] == ["migrate"]
    assert "migrate" in names
    assert services["turnback"]["depends_on"] == {
        "migrate": {"condition": "service_completed_successfully"}
    }
    grace = int(services["turnback"]["stop_grace_period"].removesuffix("s"))
    assert grace > float(services["turnback"]["environment"]["TURNBACK_DRAIN_TIMEOUT"])


def test_no_password_is_written_down(services: dict[str, dict[str, Any]]) -> None:
    assert services["postgres"]["environment"]["POSTGRES_PASSWORD"].startswith("${")


def test_the_dockerfile_copies_files_that_are_there_and_starts_a_command_that_is() -> None:
    text = (ROOT / "Dockerfile").read_text()
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    for name in " ".join(copied).split():
        assert (ROOT / name).exists(), name
    assert 'ENTRYPOINT ["turnback"]\nCMD ["serve"]' in text
    assert "--require-hashes -r requirements.lock" in text


def substituted(value: str) -> str:
    """As compose would put in its variables: a default, or else `x`."""
    return re.sub(r"\$\{\w+(?::-([^}]*)|:\?[^}]*)\}", lambda match: match[1] or "x", value)
