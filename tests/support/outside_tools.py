"""Tools of a test that act on real files: a contact and a mailbox are files, named by their paths.

A file `hang`, `fail` or `fail_after` beside them says what the next writes do; `calls` has a line
for each call that has arrived.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from turnback.core.contracts.builder import args, before, key, now, result
from turnback.tools.decorator import tool

CONTACT = {
    "contact": {
        "key": ["id"],
        "read": {
            "call": "get_contact",
            "args": {"id": key.id},
            "error_is": {"absent": "no such contact"},
        },
        "state": {"phone": now.phone},
    }
}


def arrived(path: str, name: str) -> None:
    with (Path(path).parent / "calls").open("a") as file:
        file.write(name + "\n")


async def behaves(path: str, act: Callable[[], object]) -> None:
    """Do what is to be done, as the folder says that calls behave."""
    folder = Path(path).parent
    if (folder / "fail").exists():
        raise RuntimeError("the vendor says no")
    while (folder / "stuck").exists():  # noqa: ASYNC110 - a file has no event
        await asyncio.sleep(0.02)
    act()
    if (folder / "fail_after").exists():
        raise RuntimeError("the vendor broke off")
    while (folder / "hang").exists():  # noqa: ASYNC110 - a file has no event
        await asyncio.sleep(0.02)


@tool(contract={"cases": [{"class": "read"}]})
def get_contact(id: str) -> dict[str, Any]:
    """Read a contact; it takes as long as there is a file of its name with `.slow`.

    What is in one with `.late` is answered instead: a copy that lags behind.
    """
    arrived(id, "get_contact")
    while Path(f"{id}.slow").exists():
        time.sleep(0.02)
    if not Path(id).exists():
        raise LookupError("no such contact")
    late = Path(f"{id}.late")
    return dict(json.loads((late if late.exists() else Path(id)).read_text()))


@tool(
    contract={
        "resources": CONTACT,
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
    arrived(id, "set_phone")
    await behaves(id, lambda: Path(id).write_text(json.dumps({"phone": phone})))
    return {"ok": True}


@tool(
    contract={
        "resources": CONTACT,
        "touches": [{"contact": {"id": args.id}}],
        "key": {"arg": "request_id", "honoured": 600},
        "cases": [
            {
                "class": "reversible",
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
async def set_phone_once(id: str, phone: str, request_id: str | None = None) -> dict[str, Any]:
    """Change the phone number of a contact, once for each request."""
    arrived(id, "set_phone_once")
    await behaves(id, lambda: Path(id).write_text(json.dumps({"phone": phone})))
    return {"ok": True}


@tool()
async def create_contact(id: str) -> dict[str, Any]:
    """Make a contact without a phone number."""
    arrived(id, "create_contact")
    await behaves(id, lambda: Path(id).write_text(json.dumps({"phone": ""})))
    return {"ok": True}


@tool(
    contract={
        "resources": CONTACT,
        "touches": [{"contact": {"id": args.id}}],
        "cases": [
            {
                "class": "reversible",
                "inverse": [
                    {"call": "create_contact", "args": {"id": args.id}},
                    {
                        "call": "set_phone",
                        "args": {"id": args.id, "phone": before.contact[0].phone},
                    },
                ],
            }
        ],
    }
)
async def remove_contact(id: str) -> dict[str, Any]:
    """Remove a contact: made again, and given its number, it is as before."""
    arrived(id, "remove_contact")
    await behaves(id, Path(id).unlink)
    return {"ok": True}


@tool(contract={"cases": [{"class": "read"}]})
async def meet(at: str, who: str) -> dict[str, Any]:
    """Wait until two have come; what was sent to the mailbox beside it by then."""
    arrived(at, f"meet-{who}")
    calls = Path(at).parent / "calls"
    while calls.read_text().count("meet-") < 2:  # noqa: ASYNC110 - a file has no event
        await asyncio.sleep(0.01)
    mailbox = Path(at).parent / "mailbox"
    return {"met": who, "mailed": mailbox.read_text() if mailbox.exists() else ""}


@tool()
async def send_mail(to: str, text: str) -> dict[str, Any]:
    """Send a mail."""
    arrived(to, "send_mail")

    def act() -> None:
        with Path(to).open("a") as mailbox:
            mailbox.write(f"{text}\n")

    await behaves(to, act)
    return {"sent": True}


@tool(
    contract={
        "cases": [{"class": "irreversible"}],
        "hold": 30,
        "secret": [args.pin, result.token],
    }
)
async def send_later(to: str, pin: str) -> dict[str, Any]:
    """Send a notice, after a while."""
    arrived(to, "send_later")
    return {"token": pin[::-1], "sent": True}


@tool(contract={"cases": [{"class": "irreversible"}], "hold": 30})
async def mail_later(to: str, text: str) -> dict[str, Any]:
    """Send a mail, after a while."""
    arrived(to, "mail_later")
    return {"sent": True}


@tool(contract={"cases": [{"class": "irreversible"}], "hold": 0.5})
async def mail_soon(to: str, text: str) -> dict[str, Any]:
    """Send a mail, in a moment."""
    arrived(to, "mail_soon")

    def act() -> None:
        with Path(to).open("a") as mailbox:
            mailbox.write(f"{text}\n")

    await behaves(to, act)
    return {"sent": True}


@tool(
    contract={
        "resources": CONTACT,
        "touches": [{"contact": {"id": args.id}}],
        "hold": 0.5,
        "cases": [
            {
                "class": "reversible",
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
async def set_phone_soon(id: str, phone: str) -> dict[str, Any]:
    """Change the phone number of a contact, in a moment."""
    arrived(id, "set_phone_soon")
    await behaves(id, lambda: Path(id).write_text(json.dumps({"phone": phone})))
    return {"ok": True}


@tool(
    contract={
        "cases": [{"class": "irreversible"}],
        "secret": [args.pin, result.token],
    }
)
async def unlock(at: str, pin: str) -> dict[str, Any]:
    """Open a door."""
    arrived(at, "unlock")
    return {"token": pin[::-1], "open": True}


@tool(contract={"cases": [{"class": "read"}]})
def find_order(at: str, reference: str) -> dict[str, Any]:
    """Look orders up."""
    path = Path(at)
    orders = path.read_text().split() if path.exists() else []
    return {"found": [order for order in orders if order == reference]}


@tool(
    contract={
        "cases": [{"class": "irreversible"}],
        "find": {
            "call": "find_order",
            "args": {"at": args.at, "reference": args.reference},
            "found": now.found.each,
        },
    }
)
async def order(at: str, reference: str) -> dict[str, Any]:
    """Order something, under a reference."""
    arrived(at, "order")

    def act() -> None:
        with Path(at).open("a") as orders:
            orders.write(f"{reference}\n")

    await behaves(at, act)
    return {"ordered": reference}


@tool(
    contract={
        "cases": [{"class": "irreversible"}],
        "key": {"arg": "request_id", "honoured": 600},
    }
)
async def pay(at: str, amount: str, request_id: str | None = None) -> dict[str, Any]:
    """Pay an amount, once for each request."""
    arrived(at, "pay")

    def act() -> None:
        paid = Path(at).read_text().split() if Path(at).exists() else []
        if request_id not in paid:
            Path(at).write_text("\n".join([*paid, str(request_id)]))

    await behaves(at, act)
    return {"paid": amount}


@tool()
async def refund(at: str) -> dict[str, Any]:
    """Give back what was charged."""
    arrived(at, "refund")
    await behaves(at, lambda: None)
    return {"ok": True}


@tool(
    contract={
        "cases": [
            {
                "class": "compensable",
                "residue": "payment_refunded",
                "inverse": [{"call": "refund", "args": {"at": result.at}}],
            }
        ],
    }
)
async def charge(at: str, amount: str) -> dict[str, Any]:
    """Charge an amount; nobody can look up what was refunded."""
    arrived(at, "charge")
    await behaves(at, lambda: None)
    return {"at": at, "charged": amount}


@tool(
    contract={
        "resources": CONTACT,
        "makes": [{"contact": {"id": result.credit}}],
        "key": {"arg": "request_id", "honoured": 600},
        "cases": [{"class": "irreversible"}],
    }
)
async def credit(id: str, request_id: str | None = None) -> dict[str, Any]:
    """Make a credit note for a contact that was billed, once for each request."""
    arrived(id, "credit")
    note = Path(f"{id}.credit-{str(request_id).replace(':', '-')}")

    def act() -> None:
        note.write_text(json.dumps({"phone": "a credit note"}))
        Path(id).write_text(json.dumps({"phone": "credited"}))

    await behaves(id, act)
    return {"credit": str(note)}


@tool(
    contract={
        "resources": CONTACT,
        "touches": [{"contact": {"id": args.id}}],
        "cases": [
            {
                "class": "compensable",
                "residue": "payment_refunded",
                "inverse": [
                    {
                        "call": "credit",
                        "args": {"id": args.id},
                        "key": {"arg": "request_id", "honoured": 600},
                    }
                ],
            }
        ],
    }
)
async def bill(id: str) -> dict[str, Any]:
    """Bill a contact."""
    arrived(id, "bill")
    await behaves(id, lambda: Path(id).write_text(json.dumps({"phone": "billed"})))
    return {"ok": True}


@tool(
    contract={
        "resources": CONTACT,
        "touches": [{"contact": {"id": args.id}}],
        "cases": [
            {
                "class": "irreversible",
                "residue": "notice_sent",
                "settles": {"at": 0, "when": {"equal": [now.phone, "called"]}},
            }
        ],
    }
)
async def announce(id: str) -> dict[str, Any]:
    """Have a contact rung up; nothing of it is to be seen until that is done."""
    arrived(id, "announce")
    await behaves(id, lambda: None)
    return {"ok": True}
