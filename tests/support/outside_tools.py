"""Tools of a test that act on real files: contacts, a log of mails, and counts of what was called.

`OUTSIDE` names the folder. A file `hang`, `fail`, `fail_after` or `slow` in it says what the next
calls do; `calls` has one line for each call that arrived.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from turnback.core.contracts.builder import args, before, key, now
from turnback.tools.decorator import tool


def folder() -> Path:
    return Path(os.environ["OUTSIDE"])


def arrived(name: str) -> None:
    with (folder() / "calls").open("a") as file:
        file.write(name + "\n")


async def behaves(act: Any) -> None:
    """Do what is to be done, as the folder says that calls behave."""
    if (folder() / "fail").exists():
        raise RuntimeError("the vendor says no")
    act()
    if (folder() / "fail_after").exists():
        raise RuntimeError("the vendor broke off")
    while (folder() / "hang").exists():  # noqa: ASYNC110 - a file has no event
        await asyncio.sleep(0.02)


def contacts() -> dict[str, Any]:
    path = folder() / "contacts"
    return dict(json.loads(path.read_text())) if path.exists() else {}


@tool(contract={"cases": [{"class": "read"}]})
async def get_contact(id: str) -> dict[str, Any]:
    """Read a contact."""
    arrived("get_contact")
    if id not in contacts():
        raise LookupError("no such contact")
    return dict(contacts()[id])


@tool(
    contract={
        "resources": {
            "contact": {
                "key": ["id"],
                "read": {
                    "call": "get_contact",
                    "args": {"id": key.id},
                    "error_is": {"absent": "no such contact"},
                },
                "state": {"phone": now.phone},
            }
        },
        "touches": [{"contact": {"id": args.id}}],
        "cases": [
            {
                "class": "reversible",
                "narrow": True,
                "inverse": [
                    {
                        "call": "set_phone",
                        "args": {"id": args.id, "phone": before.contact[0].phone},
                    }
                ],
            }
        ],
    }
)
async def set_phone(id: str, phone: str) -> dict[str, Any]:
    """Change the phone number of a contact."""
    arrived("set_phone")

    def act() -> None:
        held = contacts()
        held[id] = {**held.get(id, {}), "phone": phone}
        (folder() / "contacts").write_text(json.dumps(held))

    await behaves(act)
    return {"ok": True}


@tool()
async def send_mail(to: str, text: str) -> dict[str, Any]:
    """Send a mail."""
    arrived("send_mail")

    def act() -> None:
        with (folder() / "mails").open("a") as file:
            file.write(f"{to}: {text}\n")

    await behaves(act)
    return {"sent": True}
