"""Overlays: what is read from a folder, what is refused, and whose folder it may be."""

from __future__ import annotations

from pathlib import Path

import pytest
from overlays import FILE

from turnback.core.contracts.model import READ_ONLY
from turnback.core.errors import ContractRefused
from turnback.settings import McpServer
from turnback.tools import overlays

READS = "contract: 1\nservers:\n  notes: {reads: [look]}\n"


def put(folder: Path, name: str = "a.yaml", text: str = READS) -> Path:
    file = folder / name
    file.write_text(text)
    file.chmod(0o644)
    return file


def test_a_folder_is_read_whole(tmp_path: Path) -> None:
    put(tmp_path, "one.yaml", FILE.read_text())
    put(tmp_path, "two.yml")
    put(tmp_path, "three.txt", "no overlay")
    found = overlays.load(tmp_path)
    assert set(found) == {"graph", "files", "notes"}
    assert found["notes"].contracts == {"look": READ_ONLY}
    assert found["graph"].file == "one.yaml"


def test_a_tool_by_which_a_resource_is_read_is_declared_to_change_nothing() -> None:
    contracts = overlays.read(FILE)["graph"].contracts
    assert contracts["read_graph"] == contracts["search_nodes"] == READ_ONLY
    assert contracts["create_entities"].one_at_a_time == ("graph",)


def test_pins_are_the_hashes_that_somebody_looked_at() -> None:
    one = "sha256:" + "a" * 64
    text = (
        f"contract: 1\nservers: {{s: {{tools: {{t: {{pin: '{one}', cases: [{{class: read}}]}}}}}}}}"
    )
    found = overlays.parsed(text, of="x.yaml")["s"]
    assert found.pins == {"t": {one}}
    assert found.contracts["t"].cases == READ_ONLY.cases


REFUSED = {
    "no YAML": ("contract: [", "is no YAML"),
    "another version": ("contract: 2\nservers: {}", "at `contract`"),
    "nothing": ("", "Input should be"),
    "an unknown part": ("contract: 1\nservers: {s: {tool: {}}}", "there is no part `tool`"),
    "an alias": ("contract: 1\nservers: {a: &a {}, b: *a}", "an alias"),
    "a name twice": ("contract: 1\nservers: {a: {}, a: {}}", "has `a` twice"),
    "a word that YAML reads as true": (
        "contract: 1\nservers: {s: {tools: {t: {cases: [{on: 1}]}}}}",
        "`on`, is no text: put it in quotes",
    ),
    "a list for a name": ("contract: 1\nservers: {? [a] : {}}", "is no text"),
    "a Python object": ("contract: !!python/object:os.system 1\nservers: {}", "is no YAML"),
    "a date": (
        "contract: 1\nservers: {s: {tools: {t: {cases: [], one_at_a_time: [2026-01-01]}}}}",
        "A `date` is no JSON value",
    ),
    "resources of one tool": (
        "contract: 1\nservers: {s: {tools: {t: {resources: {}}}}}",
        "are the server's",
    ),
    "a read and a tool": (
        "contract: 1\nservers: {s: {reads: [t], tools: {t: {}}}}",
        "is in `reads` and in `tools`",
    ),
    "no hash": ("contract: 1\nservers: {s: {tools: {t: {pin: abc}}}}", "at `pin.0`"),
    "a contradiction": (
        "contract: 1\nservers: {s: {tools: {t: {cases: [{class: reversible}]}}}}",
        "The contract of `x.yaml, s.t`: case 0: it is `reversible` and has no `inverse`",
    ),
    "no date": ("contract: 2026-13-41\nservers: {}", "is no YAML"),
    "a list as a name": ("contract: 1\nservers: {[a]: {}}", "is no YAML"),
    "too deep": ("contract: " + "[" * 5_000, "is no YAML"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_overlay_is_refused_with_its_file_and_reason(name: str) -> None:
    text, reason = REFUSED[name]
    with pytest.raises(ContractRefused) as refused:
        overlays.parsed(text, of="x.yaml")
    assert reason in refused.value.message
    assert "x.yaml" in refused.value.message


def test_two_files_about_one_server_are_refused(tmp_path: Path) -> None:
    put(tmp_path, "one.yaml")
    put(tmp_path, "two.yaml")
    with pytest.raises(ContractRefused, match=r"`two.yaml` and `one.yaml` are both about"):
        overlays.load(tmp_path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ContractRefused, match="cannot be read"):
        overlays.load(tmp_path)
    (tmp_path / "a.yaml").write_text("#" * (overlays.MAX_BYTES + 1))
    with pytest.raises(ContractRefused, match="bytes"):
        overlays.load(tmp_path)
    with pytest.raises(ContractRefused, match="no folder of contracts"):
        overlays.load(tmp_path / "none")


# -- whose folder it is


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "etc" / "contracts"
    made.mkdir(parents=True, mode=0o755)
    put(made)
    return made


def refused(folder: Path, **server: object) -> str:
    with pytest.raises(ContractRefused) as error:
        overlays.guard(folder, {"files": McpServer.model_validate({"command": "x", **server})})
    return error.value.message


def test_a_folder_that_no_server_works_in_is_taken(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    server = {"command": "npx", "args": ["-y", "server", str(tmp_path / "data")], "env": {"A": "b"}}
    overlays.guard(folder, {"files": McpServer.model_validate(server)})
    overlays.guard(folder, {"far": McpServer(url="https://tools.example")})
    overlays.guard(folder, {})


def test_a_folder_that_a_server_can_write_to_is_refused(folder: Path, tmp_path: Path) -> None:
    assert "The tool server `files`" in refused(folder, args=[str(tmp_path)])
    assert str(tmp_path) in refused(folder, args=[f"--root={tmp_path}"])
    assert "could write" in refused(folder, args=[str(folder)])
    assert "could write" in refused(folder, args=[str(folder / "a.yaml")])
    assert "could write" in refused(folder, cwd=str(tmp_path))
    assert "could write" in refused(folder, cwd=str(tmp_path / "etc"), args=["contracts"])
    assert "could write" in refused(folder, env={"ROOTS": f"/nowhere:{tmp_path}"})


def test_a_link_does_not_hide_where_a_folder_is(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "link"
    elsewhere.symlink_to(folder)
    assert "could write" in refused(elsewhere, args=[str(folder.parent)])
    root = tmp_path / "root"
    root.symlink_to(tmp_path / "etc")
    assert "could write" in refused(folder, args=[str(root)])
    data = tmp_path / "data"
    data.mkdir()
    (folder / "b.yaml").symlink_to(put(data, "b.yaml", "contract: 1\nservers: {}"))
    assert "could write" in refused(folder, args=[str(data)])


def test_a_folder_that_everybody_can_write_to_is_refused(folder: Path) -> None:
    (folder / "a.yaml").chmod(0o666)
    with pytest.raises(ContractRefused, match="Everybody can write"):
        overlays.guard(folder, {})
