"""Contracts against the schemas of the tools they are for: each slip is found, and named."""

from __future__ import annotations

from typing import Any

import pytest

from turnback.core.contracts.fitting import misfits
from turnback.core.contracts.model import READ_ONLY, parse

ID = {"$1": "$.args.id"}
RESOURCES = {
    "note": {
        "key": ["id"],
        "read": {"call": "get_note", "args": {"id": {"$1": "$.key.id"}}},
        "state": {"text": {"$1": "$.now.text"}},
    }
}
BACK = {"id": ID, "text": {"$1": "$.before.note[0].text"}}


def takes(*names: str, needs: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": list(needs),
        **more,
    }


SCHEMAS = {
    "set_note": takes("id", "text", needs=("id", "text")),
    "get_note": takes("id", needs=("id",)),
    "find_notes": takes("like"),
    "recall": takes("id", "now", needs=("id",)),
}


def found(schemas: dict[str, Any] | None = None, **parts: Any) -> list[str]:
    """The reasons against the contract of `set_note` with these parts."""
    given = {
        "resources": RESOURCES,
        "touches": [{"note": {"id": ID}}],
        "cases": [{"class": "reversible", "inverse": [{"call": "set_note", "args": BACK}]}],
        **parts,
    }
    contract = parse(given, of="set_note")
    contracts = {"set_note": contract, "get_note": READ_ONLY}
    reasons = list(misfits(contracts, SCHEMAS | (schemas or {})))
    assert {tool for tool, _ in reasons} <= {"set_note"}
    return [reason for _, reason in reasons]


def inverse(**args: Any) -> dict[str, Any]:
    return {"cases": [{"class": "reversible", "inverse": [{"call": "set_note", "args": args}]}]}


def test_a_contract_that_fits_its_tools_is_left_alone() -> None:
    assert found() == []
    assert found(cases=[{"class": "irreversible"}]) == []


CANCEL = {"call": "recall", "args": {"id": ID}, "until": 5}

SLIPS: list[tuple[str, dict[str, Any], str]] = [
    (
        "an argument that it has not",
        {"touches": [{"note": {"id": {"$1": "$.args.nr"}}}]},
        "it points to `$.args.nr`, and `set_note` has `id`, `text`",
    ),
    ("a secret of none", {"secret": [{"$1": "$.args.pin"}]}, "it points to `$.args.pin`"),
    (
        "in a filter",
        {"unchanged": {"empty": {"$": "$.result.a[?@.id == $.args.nr]"}}},
        "it points to `$.result.a[?@.id == $.args.nr]`",
    ),
    (
        "where another is left out",
        inverse(id=ID, text={"$1": "$.before.note[0].text", "if": "$.args.txt"}),
        "it points to `$.args.txt`",
    ),
    (
        "an argument of the inverse that it has not",
        inverse(**BACK, body=1),
        "case 0: its inverse calls `set_note`, which takes no `body`: `set_note` has `id`, `text`",
    ),
    ("one that it needs", inverse(id=ID), "which needs `text`: say where it comes from"),
    (
        "a guard that it has not",
        {
            "cases": [
                {
                    "class": "reversible",
                    "inverse": [
                        {
                            "call": "set_note",
                            "args": BACK,
                            "if_match": {"etag": {"$1": "$.now.etag"}},
                        }
                    ],
                }
            ]
        },
        "takes no `etag`",
    ),
    (
        "a read",
        {
            "resources": {
                "note": {
                    **RESOURCES["note"],
                    "read": {"call": "get_note", "args": {"note": {"$1": "$.key.id"}}},
                }
            }
        },
        "the resource `note` is read by `get_note`, which takes no `note`",
    ),
    (
        "a look-up",
        {"find": {"call": "find_notes", "args": {"of": {"$1": "$.key"}}, "found": {"$": "$.now"}}},
        "`find` calls `find_notes`, which takes no `of`",
    ),
    (
        "a cancel",
        {
            "cases": [
                {
                    "class": "irreversible",
                    "cancel": {
                        **CANCEL,
                        "args": {"nr": ID},
                        "confirmed": {"exists": {"$": "$.result.a"}},
                    },
                }
            ]
        },
        "case 0: `cancel` calls `recall`, which takes no `nr`",
    ),
    (
        "a key of the inverse to nowhere",
        {
            "cases": [
                {
                    "class": "reversible",
                    "inverse": [
                        {"call": "set_note", "args": BACK, "key": {"arg": "once", "honoured": 5}}
                    ],
                }
            ]
        },
        "its inverse calls `set_note`, which takes no `once`",
    ),
    ("a key to nowhere", {"key": {"arg": "once", "honoured": 5}}, "its `key` goes to `once`"),
]


@pytest.mark.parametrize(("parts", "reason"), [pytest.param(p, r, id=n) for n, p, r in SLIPS])
def test_a_slip_is_found_and_named(parts: dict[str, Any], reason: str) -> None:
    assert any(reason in one for one in found(**parts)), found(**parts)


@pytest.mark.parametrize(
    "open_", [{}, {"type": "object"}, takes("id", additionalProperties=True), {"$ref": "#/$defs/a"}]
)
def test_a_tool_that_may_take_anything_has_no_slips(open_: dict[str, Any]) -> None:
    parts = inverse(**BACK, body=1) | {"secret": [{"$1": "$.args.pin"}]}
    assert found({"set_note": open_}, **parts) == []


def test_what_confirms_a_cancel_looks_into_its_own_arguments() -> None:
    confirmed = {"equal": [{"$1": "$.result.at"}, {"$1": "$.args.now"}]}
    parts = {"cases": [{"class": "irreversible", "cancel": {**CANCEL, "confirmed": confirmed}}]}
    assert found(**parts) == []


def test_a_key_is_given_by_us_and_arguments_that_are_one_pointer_are_not_judged() -> None:
    keyed = takes("id", "text", "once", needs=("id", "text", "once"))
    key = {"arg": "once", "honoured": 5}
    assert found({"set_note": keyed}, key=key) == []
    whole = {"$1": "$.before.note[0]"}
    parts = {"cases": [{"class": "reversible", "inverse": [{"call": "set_note", "args": whole}]}]}
    assert found(**parts) == []
