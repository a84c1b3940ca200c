"""Which tool servers there are: from the environment, from a file, and the demo world."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnback.core.errors import SettingsInvalid
from turnback.environment import load_settings
from turnback.settings import McpServer, Settings
from turnback.tools.servers import DEMO, configured

FILES = {"files": McpServer(command="server-filesystem", args=("/srv",))}


def test_servers_come_from_the_environment_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "TURNBACK_MCP_SERVERS",
        '{"files": {"command": "server-filesystem", "args": ["/srv"]},'
        ' "crm": {"url": "https://crm.example/mcp", "headers": {"Authorization": "Bearer x"}}}',
    )
    found = configured(load_settings())
    assert found["files"] == FILES["files"]
    assert found["crm"].headers["Authorization"].get_secret_value() == "Bearer x"
    assert "Bearer" not in repr(found)
    assert set(found) == {"files", "crm"}


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        ("{", "must be JSON"),
        ('{"files": {}}', "give `command` for a program or `url` for an address"),
        ('{"files": {"command": "a", "url": "http://b"}}', "give `command`"),
        ('{"files": {"url": "file:///etc"}}', "must begin with `http://`"),
        ('{"files": {"comand": "x s3cret"}}', "`TURNBACK_MCP_SERVERS`"),
        ('{"a__b": {"command": "a"}}', "`TURNBACK_MCP_SERVERS`"),
    ],
)
def test_a_server_that_cannot_be_used_is_refused_and_not_quoted(
    monkeypatch: pytest.MonkeyPatch, servers: str, said: str
) -> None:
    monkeypatch.setenv("TURNBACK_MCP_SERVERS", servers)
    with pytest.raises(SettingsInvalid, match=said) as refused:
        load_settings()
    assert "s3cret" not in refused.value.message


def test_servers_come_from_a_file_too(tmp_path: Path) -> None:
    file = tmp_path / "tools.yaml"
    file.write_text("mcp_servers:\n  crm:\n    url: https://crm.example/mcp\n")
    found = configured(Settings(mcp_servers=FILES, tools_file=file))
    assert set(found) == {"files", "crm"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mcp_servers: {files: {command: again}}", "both in"),
        ("mcp_servers: {demo: {command: a}}", "cannot be called `demo`"),
        ("mcp_servers: {crm: {command: [s3cret]}}", "`crm.command`"),
        ("mcp_servers: {My Notes: {command: a}}", "`My Notes` cannot be the name of a tool server"),
        ("- a list", "one member, `mcp_servers`"),
        ("a: b: c", r"not YAML \(line 1\)"),
    ],
)
def test_a_file_that_cannot_be_used_says_where(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "tools.yaml"
    file.write_text(text)
    with pytest.raises(SettingsInvalid, match=said) as refused:
        configured(Settings(mcp_servers=FILES, tools_file=file))
    assert "s3cret" not in refused.value.message


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid, match="`TURNBACK_TOOLS_FILE` cannot be used: No such file"):
        configured(Settings(tools_file=tmp_path / "none.yaml"))


def test_the_demo_world_is_there_until_a_server_is_configured() -> None:
    assert set(configured(Settings())) == {DEMO}
    assert set(configured(Settings(mcp_servers=FILES))) == {"files"}
    assert set(configured(Settings(mcp_servers=FILES, demo=True))) == {"files", DEMO}
    assert configured(Settings(demo=False)) == {}
    shared = "postgresql://db.example/turnback"
    assert configured(Settings.model_validate({"database_url": shared})) == {}
