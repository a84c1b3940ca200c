"""Contracts tried out in a throw-away instance of a real server: each kind of lie is found."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from overlays import FILE, FOLDER

from turnback.settings import Settings
from turnback.tools import overlays
from turnback.tools.checking import Examined, Finding, Verdict, examine, examine_python
from turnback.tools.decorator import connections_of
from turnback.tools.limits import ToolLimits
from turnback.tools.overlays import Sample, Sandbox, ServerContracts
from turnback.tools.shipped import contracts

SERVER = Path(__file__).parents[1] / "support" / "notes_server.py"
LIMITS = ToolLimits.of(Settings(tool_end_timeout=0.5))


def text(manner: str = "") -> str:
    """The overlay of the notes' server, its sandbox started in this manner."""
    given = (FOLDER / "notes.yaml").read_text()
    for name, value in {"python": sys.executable, "server": str(SERVER), "manner": manner}.items():
        given = given.replace(f"{{{name}}}", value)
    return given


async def found(manner: str = "", change: tuple[str, str] = ("", "")) -> dict[str, Finding]:
    given = overlays.parsed(text(manner).replace(*change), of="notes.yaml")["notes"]
    return {one.tool: one async for one in examine(of("notes", given))}


def of(name: str, server: ServerContracts, *, trusted: bool = False) -> Examined:
    return Examined(name=name, server=server, limits=LIMITS, patience=20, trusted=trusted)


def lies(findings: dict[str, Finding]) -> dict[str, str]:
    return {tool: one.said for tool, one in findings.items() if one.verdict is Verdict.LIES}


async def test_contracts_that_are_true_are_found_so() -> None:
    findings = await found()
    assert {tool: str(one.verdict) for tool, one in findings.items()} == {
        "get_note": "ok",
        "get_mail": "ok",
        "open_mail": "ok",
        "set_note": "ok",
        "add_note": "ok",
        "move_mail": "ok",
        "send_mail": "unchecked",
        "remove_note": "unchecked",
    }
    assert "irreversible" in findings["send_mail"].said
    assert "no sample" in findings["remove_note"].said


@pytest.mark.undo(32)
async def test_a_read_that_raises_a_flag_is_found() -> None:
    assert lies(await found("flags")) == {
        "get_mail": "it is no read: after it, the mail `m1` is another: `read`"
    }


@pytest.mark.undo(32)
async def test_a_read_that_raises_a_flag_that_no_state_has_is_found_too() -> None:
    without = (', read: {$1: "$.now.read"}', "")
    assert lies(await found("hidden", without)) == {
        "get_mail": "it is no read: after it, something of the mail `m1` that its state leaves out"
        " is another"
    }


@pytest.mark.parametrize(
    ("manner", "tool", "said"),
    [
        ("rounds", "set_note", "after its inverse the note `n2` is another: `text`"),
        ("also", "set_note", "it changes the note `n2`, which it does not touch as it says"),
        ("same", "set_note", "`unchanged` holds, and the note `n1` has changed"),
        (
            "finds",
            "add_note",
            "the note `n1`, which it says it makes, was there before: it `touches` it",
        ),
        ("open", "open_mail", "it changes the mail `m1`, which it does not touch as it says"),
    ],
)
async def test_a_call_that_does_another_thing_than_it_says_is_found(
    manner: str, tool: str, said: str
) -> None:
    assert lies(await found(manner)) == {tool: said}


REMOVED = '{call: remove_note, args: {id: {$1: "$.result.id"}}}'
MOVED = 'folder: {$1: "$.before.mail[0].folder"}}'


@pytest.mark.parametrize(
    ("was", "said", "tool", "seen"),
    [
        (
            MOVED,
            'folder: {$1: "$.before.mail[0].key.id"}}',
            "move_mail",
            "after its inverse the mail `m1` is another: `folder`",
        ),
        (
            REMOVED,
            '{call: set_note, args: {id: {$1: "$.result.id"}, text: ""}}',
            "add_note",
            "after its inverse the note `n3` is another: `text`",
        ),
        (
            REMOVED,
            '{call: remove_note, args: {name: {$1: "$.result.id"}}}',
            "add_note",
            "its inverse `remove_note` failed: 404",
        ),
        (REMOVED, '{call: drop, args: {id: {$1: "$.result.id"}}}', "add_note", "does not have"),
    ],
)
async def test_an_inverse_that_does_not_put_things_back_is_found(
    was: str, said: str, tool: str, seen: str
) -> None:
    assert seen in lies(await found(change=(was, said)))[tool]


async def test_what_an_inverse_leaves_unreadable_is_told_with_what_its_read_said() -> None:
    # Somebody who forgot to say by which words the server tells that there is no such note.
    said = lies(await found(change=('absent: "^404"', 'absent: "^410"')))["add_note"]
    assert "the note `n3` is another: it can be read no more: its read failed: 404" in said


async def test_without_a_sandbox_it_is_unchecked() -> None:
    given = overlays.read(FILE)["graph"]
    findings = [one async for one in examine(of("graph", given))]
    assert {one.verdict for one in findings} == {Verdict.UNCHECKED}
    assert len(findings) == len(given.contracts)


async def test_a_sandbox_that_does_not_start_is_said() -> None:
    findings = await found(change=(str(sys.executable), "/no/such/program"))
    assert [(one.tool, one.verdict) for one in findings.values()] == [("*", Verdict.UNCHECKED)]
    assert "its sandbox (`/no/such/program`) failed" in findings["*"].said


async def test_a_setup_that_fails_is_said() -> None:
    findings = await found(
        change=("    sandbox:\n", "    sandbox:\n      setup: [[git, no-such]]\n")
    )
    assert "`git no-such` failed" in findings["*"].said


async def test_a_sample_of_what_nothing_declares_is_said() -> None:
    findings = await found(change=("call: send_mail, args", "call: send_letter, args"))
    assert findings["send_letter"].verdict is Verdict.UNCHECKED
    assert "nothing declares it" in findings["send_letter"].said


# -- the overlays that come with Turnback, each in its own sandbox

MODULES = Path(__file__).parents[1] / "servers" / "node_modules" / "@modelcontextprotocol"


def here(overlay: str) -> ServerContracts:
    """An overlay whose sandbox starts the server that the tests have installed, of its version."""
    given = contracts(overlay)
    assert given.sandbox is not None
    sandbox, *rest = given.sandbox, *given.sandbox.args
    match sandbox.command:
        case "npx":
            _, package, *rest = rest
            folder = MODULES / package.split("/")[1].split("@")[0]
            version = json.loads((folder / "package.json").read_text())["version"]
            assert package.endswith(f"@{version}")
            program = {"command": "node", "args": (str(folder / "dist" / "index.js"), *rest)}
        case "uvx":
            package, *rest = rest
            module, version = package.split("@")
            assert metadata.version(module) == version
            args = ("-m", module.replace("-", "_"), *rest)
            program = {"command": sys.executable, "args": args}
        case _:
            return given
    return replace(given, sandbox=sandbox.model_copy(update=program))


UNCHECKED: dict[str, set[str]] = {
    "memory": set(),
    "filesystem": {"create_directory"},
    "git": {"git_commit", "git_checkout", "git_create_branch", "git_reset"},
    "demo": {
        "cancel_email",
        "delete_channel",
        "invite",
        "refund_charge",
        "restore_contact",
        "restore_event",
        "send_email",
        "send_text",
        "send_transfer",
        "unsend_message",
        "withdraw_invitation",
    },
}
"""Tools that are irreversible in each sample, or that no sample can name what it needs for."""


@pytest.mark.parametrize("overlay", UNCHECKED)
async def test_what_comes_with_turnback_is_true_in_its_own_sandbox(overlay: str) -> None:
    given = of(overlay, here(overlay), trusted=overlay == "demo")
    findings = [one async for one in examine(given)]
    assert [one for one in findings if one.verdict is Verdict.LIES] == []
    unchecked = {one.tool for one in findings if one.verdict is Verdict.UNCHECKED}
    assert unchecked == UNCHECKED[overlay]
    assert len(findings) > len(unchecked)


# -- contracts that servers state themselves, and tools in Python


async def test_contracts_that_a_server_states_itself_are_tried_where_they_count() -> None:
    demo = contracts("demo")
    untrusted = [one async for one in examine(of("demo", demo))]
    assert {one.said for one in untrusted} == {
        "a sample of its sandbox calls it, and nothing declares it"
    }
    without = [one async for one in examine(of("own", ServerContracts({}), trusted=True))]
    assert [(one.tool, one.verdict) for one in without] == [("*", Verdict.UNCHECKED)]


PYTHON = """
import os
from pathlib import Path
from turnback.core.contracts.builder import args, before, key, now
from turnback.tools.decorator import tool

WORLD = Path(os.environ["WORLD"])
LINE = {"key": ["name"], "read": {"call": "read", "args": {"name": key.name}},
        "state": {"text": now.text}}

@tool()
def read(name: str) -> dict:
    return {"text": (WORLD / name).read_text()}

def writes(back):
    return {"resources": {"line": LINE}, "touches": [{"line": {"name": args.name}}],
            "cases": [{"class": "reversible", "inverse": [
                {"call": "write", "args": {"name": args.name, "text": back}}]}]}

@tool(contract=writes(before.line[0].text))
def write(name: str, text: str) -> dict:
    (WORLD / name).write_text(text)
    return {}

@tool(contract=writes("nothing"))
def wipe(name: str) -> dict:
    (WORLD / name).write_text("")
    return {}
"""


def imported() -> Any:
    module = ModuleType("of_a_check")
    exec(PYTHON, module.__dict__)
    return connections_of([module])


def of_python(**sandbox: Any) -> Examined:
    samples = (
        Sample(call="write", args={"name": "a", "text": "new"}),
        Sample(call="wipe", args={"name": "a"}),
    )
    made = Sandbox(files={"a": "old"}, samples=samples, **sandbox)
    return of("python", ServerContracts({}, sandbox=made))


async def test_tools_in_python_are_tried_with_the_variables_of_their_sandbox() -> None:
    given = of_python(env={"WORLD": "{folder}"})
    findings = {one.tool: one async for one in examine_python([given], imported)}
    assert {tool: str(one.verdict) for tool, one in findings.items()} == {
        "read": "ok",
        "write": "ok",
        "wipe": "LIES",
    }
    assert findings["wipe"].said == "after its inverse the line `a` is another: `text`"
    assert "WORLD" not in os.environ


async def test_tools_in_python_are_not_called_without_what_keeps_them_off_the_real_world(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("real")
    monkeypatch.setenv("WORLD", str(tmp_path))
    for given, why in (([], "no overlay has a `sandbox`"), ([of_python()], "no `env`")):
        findings = [one async for one in examine_python(given, imported)]
        assert {one.verdict for one in findings} == {Verdict.UNCHECKED}
        assert all(why in one.said for one in findings)
    assert (tmp_path / "a").read_text() == "real"
