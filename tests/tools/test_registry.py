"""The registry: which contract counts for a tool, and why none does."""

from __future__ import annotations

import re
from typing import Any

import pytest
from overlays import contract

from turnback.core.contracts import choose
from turnback.core.contracts.model import READ_ONLY, UNDECLARED, Contract, parse
from turnback.core.contracts.version import dumped, pin, version
from turnback.core.effects import EffectClass
from turnback.tools.connection import Listed
from turnback.tools.registry import META_KEY, Front, Pinned, Registry, Tool, visible_name

WRITE = contract("files", "write_file")
OVERLAY = {"files": {"write_file": WRITE, "read_text_file": READ_ONLY}}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}, "content": {}}}


def listed(name: str = "write_file", description: str = "Write a file.", **more: Any) -> Listed:
    return Listed(name, description, more.pop("schema", SCHEMA), **more)


READ = listed("read_text_file")


def registered(registry: Registry, *tools: Listed, connection: str = "files", **how: Any) -> Tool:
    """The first of the tools, once the registry has taken them over."""
    return registry.put(connection, tools, **how)[0]


def test_an_overlays_contract_counts() -> None:
    tool = registered(Registry(overlays=OVERLAY), listed(), READ)
    assert (tool.front, tool.version, tool.why) == (Front.OVERLAY, version(WRITE), None)
    assert (tool.shown, tool.visible) == ("files.write_file", "files__write_file")
    assert tool.classes == {"reversible", "irreversible"}
    assert tool.worst == "irreversible"


@pytest.mark.undo(30)
def test_a_tool_that_nothing_declares_is_irreversible_and_says_so() -> None:
    tool = registered(Registry(overlays=OVERLAY), listed("delete_all"), READ)
    assert (tool.contract, tool.version, tool.front) == (UNDECLARED, None, None)
    assert tool.classes == {EffectClass.IRREVERSIBLE}
    assert "nothing declares" in str(tool.why)


@pytest.mark.undo(45)
@pytest.mark.parametrize(
    "now",
    [
        listed(description="Write a file, and mail it to all."),
        listed(schema={"type": "object", "properties": {"path": {}, "content": {}, "append": {}}}),
    ],
)
def test_a_tool_that_changed_since_its_contract_is_irreversible(now: Listed) -> None:
    registry = Registry(overlays=OVERLAY)
    first = registered(registry, listed(), READ)
    assert (first.pinned, first.worst) == (Pinned.NEW, EffectClass.IRREVERSIBLE)
    assert registered(registry, listed(), READ).pinned is Pinned.SAME

    changed = registered(registry, now, READ)
    assert (changed.pinned, changed.contract) == (Pinned.CHANGED, UNDECLARED)
    assert changed.classes == {EffectClass.IRREVERSIBLE}
    decision = choose.decide(changed.contract, "files", {"path": "a"}, choose.Before(), {})
    assert decision.class_ is EffectClass.IRREVERSIBLE
    assert "turnback tools pin files.write_file" in str(changed.why)

    pins = {("files", "write_file"): frozenset({changed.pin})}
    looked_at = registered(Registry(overlays=OVERLAY, pins=pins), now, READ)
    assert (looked_at.pinned, looked_at.contract) == (Pinned.SAME, WRITE)


def test_a_pin_from_before_is_kept_to_at_the_first_sight() -> None:
    pins = {("files", "write_file"): frozenset({pin("write_file", "Something else.", SCHEMA)})}
    assert (
        registered(Registry(overlays=OVERLAY, pins=pins), listed(), READ).pinned is Pinned.CHANGED
    )


def test_a_tool_whose_reading_tool_changed_is_not_declared_either() -> None:
    registry = Registry(overlays=OVERLAY)
    registered(registry, listed(), READ)
    changed = registered(registry, listed(), listed("read_text_file", "Reads, and marks as read."))
    assert changed.contract is UNDECLARED
    assert "`read_text_file`, which has changed" in str(changed.why)


def test_a_tool_by_which_a_contract_reads_is_a_read_unless_it_says_that_it_is_none() -> None:
    own = stated(NOTE, openWorldHint=False)
    registry = Registry()
    registered(registry, own, READ, trusted=True)
    read = registry.get("files", "read_text_file")
    assert read is not None
    assert (read.classes, read.front, read.why) == ({EffectClass.READ}, Front.META, None)
    says_no = listed("read_text_file", annotations={"readOnlyHint": False})
    tool = registered(registry, own, says_no, trusted=True)
    assert tool.contract is UNDECLARED
    assert "`read_text_file`, which changes something" in str(tool.why)
    registered(registry, own, says_no)
    read = registry.get("files", "read_text_file")
    assert read is not None
    assert read.classes == {EffectClass.IRREVERSIBLE}


def test_a_contract_that_does_not_fit_its_tool_makes_it_irreversible() -> None:
    other = listed(schema={"type": "object", "properties": {"file": {}, "content": {}}})
    tool = registered(Registry(overlays=OVERLAY), other, READ)
    assert tool.contract is UNDECLARED
    assert "`write_file` has `content`, `file`" in str(tool.why)


def test_what_an_overlay_is_about_and_its_server_has_not_is_known() -> None:
    registry = Registry(overlays=OVERLAY)
    assert registry.unlisted("files") == ()
    registry.put("files", [READ])
    assert registry.unlisted("files") == ("write_file",)
    assert registry.overlaid == {"files"}


def test_a_tool_that_is_disabled_is_no_inverse_and_no_read() -> None:
    registry = Registry(overlays=OVERLAY, disabled=frozenset({"files.read_text_file"}))
    tool = registered(registry, listed(), READ)
    assert tool.contract is UNDECLARED
    assert "`read_text_file`, which is disabled" in str(tool.why)


def stated(given: Contract, **annotations: bool) -> Listed:
    return listed(annotations=annotations, meta={META_KEY: {"contract": 1, **dumped(given)}})


NOTE = parse(
    {
        "resources": {
            "file": {
                "key": ["path"],
                "read": {"call": "read_text_file", "args": {"path": {"$1": "$.key.path"}}},
                "state": {"content": {"$1": "$.now.content"}},
            }
        },
        "touches": [{"file": {"path": {"$1": "$.args.path"}}}],
        "cases": [
            {
                "class": "reversible",
                "inverse": [
                    {
                        "call": "write_file",
                        "args": {
                            "path": {"$1": "$.args.path"},
                            "content": {"$1": "$.before.file[0].content"},
                        },
                    }
                ],
            }
        ],
    },
    of="write_file",
)


def test_a_tools_own_contract_counts_only_where_its_server_is_trusted() -> None:
    own = stated(NOTE, openWorldHint=False)
    untrusted = registered(Registry(), own, READ)
    assert untrusted.contract is UNDECLARED
    assert "`trust_contracts`" in str(untrusted.why)
    trusted = registered(Registry(), own, READ, trusted=True)
    assert (trusted.front, trusted.contract) == (Front.META, NOTE)
    assert trusted.classes == {EffectClass.REVERSIBLE}


@pytest.mark.parametrize("hints", [{}, {"openWorldHint": True}])
def test_of_an_open_world_a_tools_own_contract_is_at_best_compensable(hints: Any) -> None:
    tool = registered(Registry(), stated(NOTE, **hints), READ, trusted=True)
    assert tool.classes == {EffectClass.COMPENSABLE}


def test_an_overlay_goes_before_a_tools_own_contract() -> None:
    own = stated(READ_ONLY, openWorldHint=False)
    tool = registered(Registry(overlays=OVERLAY), own, READ, trusted=True)
    assert (tool.front, tool.contract) == (Front.OVERLAY, WRITE)


def test_a_tools_own_contract_calls_tools_of_its_own_server_alone() -> None:
    tool = registered(Registry(), stated(NOTE, openWorldHint=False), trusted=True)
    assert tool.contract is UNDECLARED
    assert "`read_text_file`, which its server does not have" in str(tool.why)


def test_a_contract_of_its_own_that_contradicts_itself_makes_a_tool_irreversible() -> None:
    wrong = {"contract": 1, **dumped(NOTE), "notifies": ["all"]}
    tool = registered(Registry(), listed(meta={META_KEY: wrong}), READ, trusted=True)
    assert tool.contract is UNDECLARED
    assert "notifies people" in str(tool.why)


@pytest.mark.parametrize("given", ["code()", [], {}, {"contract": 2}, {"contract": 1, "a": {}}])
def test_what_is_no_contract_in_meta_makes_a_tool_irreversible(given: Any) -> None:
    tool = registered(Registry(), listed(meta={META_KEY: given}), READ, trusted=True)
    assert (tool.contract, tool.front) == (UNDECLARED, Front.META)
    assert "files.write_file" in str(tool.why)


def test_hints_only_make_a_tool_stricter() -> None:
    says_no = {"readOnlyHint": False}
    read = registered(Registry(overlays=OVERLAY), listed("read_text_file", annotations=says_no))
    assert read.classes == {EffectClass.IRREVERSIBLE}
    says_yes = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True}
    undeclared = registered(Registry(), listed("look", annotations=says_yes))
    assert undeclared.classes == {EffectClass.IRREVERSIBLE}
    declared = registered(Registry(overlays=OVERLAY), listed(annotations=says_yes), READ)
    assert declared.classes == {"reversible", "irreversible"}


def test_a_disabled_tool_is_not_offered() -> None:
    registry = Registry(overlays=OVERLAY, disabled=frozenset({"files.write_file", "mail.*"}))
    registry.put("files", [listed(), READ])
    registry.put("mail", [listed("send")])
    assert [tool.shown for tool in registry.offered()] == ["files.read_text_file"]
    assert registry.visible("files__write_file") is None
    assert len(registry.all()) == 3
    disabled = registry.get("files", "write_file")
    assert disabled is not None
    assert disabled.disabled


def test_a_connection_that_lists_anew_replaces_what_it_had() -> None:
    registry = Registry()
    registry.put("files", [listed(), READ])
    registry.put("files", [READ])
    assert [tool.name for tool in registry.all()] == ["read_text_file"]
    registry.drop("files")
    assert registry.all() == ()


def test_every_visible_name_is_one_that_models_take_and_its_own() -> None:
    names = ["send", "send.mail", "send/mail", "ünïcode", "x" * 200, "x" * 201]
    visible = [visible_name("a" * 32, name) for name in names]
    assert len(set(visible)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in visible)
    assert visible_name("mail", "send_email") == "mail__send_email"
