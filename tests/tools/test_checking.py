"""Contracts tried out in a throw-away instance of a real server: each kind of lie is found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from overlays import FILE, FOLDER

from turnback.settings import Settings
from turnback.tools import overlays
from turnback.tools.checking import Finding, Verdict, examine
from turnback.tools.limits import ToolLimits

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
    return {one.tool: one async for one in examine("notes", given, LIMITS, patience=10)}


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


async def test_without_a_sandbox_it_is_unchecked() -> None:
    given = overlays.read(FILE)["graph"]
    findings = [one async for one in examine("graph", given, LIMITS, patience=10)]
    assert {one.verdict for one in findings} == {Verdict.UNCHECKED}
    assert len(findings) == len(given.contracts)


async def test_a_sandbox_that_does_not_start_is_said() -> None:
    findings = await found(change=(str(sys.executable), "/no/such/program"))
    assert [(one.tool, one.verdict) for one in findings.values()] == [("*", Verdict.UNCHECKED)]
    assert "its sandbox failed" in findings["*"].said
