"""The catalog: the registry kept up with what connections list, pins kept in the database."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from overlays import FILE, contract

from turnback.core.contracts.model import READ_ONLY
from turnback.core.effects import Json
from turnback.core.errors import ContractRefused, SettingsInvalid, ToolServerFailed
from turnback.settings import Settings
from turnback.store.database import Database
from turnback.store.pins import ToolPins
from turnback.tools import catalog
from turnback.tools.catalog import Catalog
from turnback.tools.connection import KEY, Listed, Reply
from turnback.tools.registry import Front, Pinned, Registry

OVERLAY = {"files": {"write_file": contract("files", "write_file"), "read_text_file": READ_ONLY}}


class Told:
    """A connection that lists what it is told to."""

    def __init__(self, description: str = "Writes.") -> None:
        self.name = "files"
        self.generation = 0
        self.fails = False
        self.hangs = False
        self.asked = 0
        self.listed = [
            Listed("write_file", description, {}),
            Listed("read_text_file", "Reads.", {}),
        ]

    async def tools(self) -> list[Listed]:
        self.asked += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.fails:
            raise ToolServerFailed("it is down", connection=self.name, reason="down")
        return self.listed

    async def call(
        self,
        tool: str,
        args: Mapping[str, Json],
        *,
        timeout: float,  # noqa: ASYNC109 - as `Connection` has it
        key: str | None = None,
        where: Any = KEY,
    ) -> Reply:
        return Reply(False, "")


@pytest.fixture
async def pins(fresh_database: str) -> AsyncIterator[ToolPins]:
    database = await Database.open(
        fresh_database, size=2, connect_timeout=10.0, statement_timeout=10.0
    )
    yield ToolPins(database)
    await database.close()


async def served(connection: Told, pins: ToolPins) -> Catalog:
    registry = Registry(overlays=OVERLAY, pins=await pins.all())
    made = Catalog(registry, {"files": connection}, trusted=frozenset(), pins=pins)
    await made.refresh()
    return made


@pytest.mark.undo(45)
async def test_a_tool_that_changed_between_two_starts_is_irreversible_until_somebody_looked(
    pins: ToolPins,
) -> None:
    for _ in range(2):
        tool = (await served(Told(), pins)).registry.get("files", "write_file")
        assert tool is not None
        assert tool.version is not None

    tool = (await served(Told("Writes, and mails it."), pins)).registry.get("files", "write_file")
    assert tool is not None
    assert (tool.pinned, tool.version, tool.worst) == (Pinned.CHANGED, None, "irreversible")

    await pins.looked("files", "write_file", tool.pin)
    tool = (await served(Told("Writes, and mails it."), pins)).registry.get("files", "write_file")
    assert tool is not None
    assert tool.pinned is Pinned.SAME
    assert len((await pins.all())["files", "write_file"]) == 2


@pytest.mark.undo(45)
async def test_what_another_process_has_pinned_first_or_looked_at_counts_here_too(
    pins: ToolPins,
) -> None:
    registry = Registry(overlays=OVERLAY, pins=await pins.all())
    await served(Told(), pins)  # the other one, which lists the tool before we do
    changed = {"files": Told("Writes, and mails it.")}
    ours = Catalog(registry, changed, trusted=frozenset(), pins=pins)
    await ours.refresh()
    tool = registry.get("files", "write_file")
    assert tool is not None
    assert (tool.pinned, tool.version, tool.worst) == (Pinned.CHANGED, None, "irreversible")
    read = registry.get("files", "read_text_file")
    assert read is not None
    assert read.version is not None

    await pins.looked("files", "write_file", tool.pin)
    assert registry.get("files", "write_file") == tool
    await ours.repin()
    tool = registry.get("files", "write_file")
    assert tool is not None
    assert tool.pinned is Pinned.SAME
    assert tool.version is not None


async def test_for_a_tool_whose_overlay_states_a_pin_no_other_counts(pins: ToolPins) -> None:
    stated = {("files", "write_file"): frozenset({"sha256:" + "0" * 64})}
    registry = Registry(overlays=OVERLAY, pins=stated)
    told = {"files": Told()}
    ours = Catalog(registry, told, trusted=frozenset(), pins=pins, stated=stated)
    await ours.refresh()
    tool = registry.get("files", "write_file")
    assert tool is not None
    await pins.looked("files", "write_file", tool.pin)
    await ours.repin()
    tool = registry.get("files", "write_file")
    assert tool is not None
    assert tool.pinned is Pinned.CHANGED


async def test_what_did_not_change_is_not_listed_again(pins: ToolPins) -> None:
    connection = Told()
    made = await served(connection, pins)
    await made.refresh()
    assert connection.asked == 1
    connection.generation += 1
    connection.listed = connection.listed[:1]
    await made.refresh()
    assert [tool.name for tool in made.registry.all()] == ["write_file"]


async def test_a_connection_that_fails_keeps_its_tools_and_is_asked_again(pins: ToolPins) -> None:
    connection = Told()
    made = await served(connection, pins)
    connection.generation += 1
    connection.fails = True
    await made.refresh()
    assert set(made.failing) == {"files"}
    found = made.get("files", "write_file")
    assert found is not None
    assert found[0] is connection
    connection.fails = False
    async with asyncio.timeout(10):
        while made.failing:
            await made.refresh()
            await asyncio.sleep(0)
    assert made.get("files", "none") is None


async def test_nobody_waits_twice_for_a_connection_that_failed(pins: ToolPins) -> None:
    connection = Told()
    made = await served(connection, pins)
    connection.generation += 1
    connection.fails = True
    await made.refresh()
    connection.hangs = True
    async with asyncio.timeout(10):
        for _ in range(3):
            await made.refresh()
            await asyncio.sleep(0)
    assert connection.asked == 3
    await made.close()


MODULE = """
from turnback.tools.decorator import tool

@tool(contract={"cases": [{"class": "read"}]})
def look() -> dict:
    return {"seen": True}
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "tools_of_the_house.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tools_of_the_house", raising=False)
    return "tools_of_the_house"


async def test_it_is_opened_from_the_settings(module: str, pins: ToolPins) -> None:
    settings = Settings(demo=False, tool_modules=(module,))
    async with catalog.opened(settings, pins) as made:
        await made.refresh()
        (tool,) = made.registry.offered()
        assert (tool.shown, tool.front, tool.worst) == ("python.look", Front.PYTHON, "read")
        connection = made.connections["python"]
        assert (await connection.call("look", {}, timeout=5)).document == {"seen": True}


async def test_a_disabled_tool_is_not_offered(module: str, pins: ToolPins) -> None:
    off = frozenset({"python.look"})
    settings = Settings(demo=False, tool_modules=(module,), disabled_server_tools=off)
    async with catalog.opened(settings, pins) as made:
        await made.refresh()
        assert made.registry.offered() == ()


async def test_a_module_that_cannot_be_imported_is_refused_with_its_setting(
    pins: ToolPins,
) -> None:
    with pytest.raises(SettingsInvalid, match="`TURNBACK_TOOL_MODULES` names `no_such_module`"):
        async with catalog.opened(Settings(demo=False, tool_modules=("no_such_module",)), pins):
            pass


async def test_it_is_not_opened_with_an_overlay_that_is_refused(
    tmp_path: Path, pins: ToolPins
) -> None:
    (tmp_path / "a.yaml").write_text("contract: 1\nservers: {s: {tool: {}}}")
    with pytest.raises(ContractRefused, match=r"`a\.yaml`"):
        async with catalog.opened(Settings(demo=False, contracts_dir=tmp_path), pins):
            pass


def test_overlays_are_read_from_a_folder_that_no_server_can_write_to(tmp_path: Path) -> None:
    folder = tmp_path / "contracts"
    folder.mkdir(mode=0o755)
    (folder / "a.yaml").write_text(FILE.read_text())
    (folder / "a.yaml").chmod(0o644)
    good = Settings(demo=False, contracts_dir=folder)
    assert set(catalog.configured_overlays(good)) == {"graph", "files"}
    assert catalog.configured_overlays(Settings(demo=False)) == {}
    servers = {"files": {"command": "server-filesystem", "args": [str(tmp_path)]}}
    bad = Settings.model_validate({"contracts_dir": folder, "mcp_servers": servers})
    with pytest.raises(ContractRefused, match="by which it could write"):
        catalog.configured_overlays(bad)


async def test_the_demo_s_tools_change_together_with_their_contracts(
    tmp_path: Path, pins: ToolPins
) -> None:
    await pins.first([("demo", "create_contact", "of an earlier version")])
    async with catalog.opened(Settings(demo=True, data_dir=tmp_path), pins) as made:
        await made.refresh()
        found = made.get("demo", "create_contact")
        assert found is not None
        assert (found[1].why, found[1].front) == (None, Front.META)
