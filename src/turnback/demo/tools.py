"""The demo's tools: each act with its description, the schema of its arguments, and its contract.

A vendor-shaped set: of what a vendor lets one take back, some cleanly, some with a notice to
people, some not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from turnback.demo import acts
from turnback.demo.world import Fields, World

DAY = 86_400
LONGEST = 10_000  # characters of a text


def _at(path: str) -> dict[str, str]:
    return {"$1": f"$.{path}"}


def _all(path: str) -> dict[str, str]:
    return {"$": f"$.{path}"}


def _resource(kind: str, *parts: str, **more: Any) -> dict[str, Any]:
    read = {"call": f"get_{kind}", "args": {"id": _at("key.id")}, "error_is": {"absent": _ABSENT}}
    return {"key": ["id"], "read": read, "state": {p: _at(f"now.{p}") for p in parts}, **more}


_ABSENT = "^There is no "
RESOURCES = {
    "contact": _resource("contact", "made", "fields", identity=["made"]),
    "event": _resource(
        "event",
        "made",
        "fields",
        identity=["made"],
        children=[{"invitation": {"event": _at("key.id"), "email": _all("now.invited[*]")}}],
    ),
    "invitation": {
        "key": ["event", "email"],
        "read": {
            "call": "get_invitation",
            "args": {"event": _at("key.event"), "email": _at("key.email")},
            "error_is": {"absent": _ABSENT},
        },
        "state": {"status": _at("now.status")},
        "inside": [{"event": {"id": _at("key.event")}}],
    },
    "email": _resource("email", "to", "subject", "status"),
    "charge": _resource("charge", "amount", "to", "status"),
    "transfer": _resource("transfer", "amount", "to"),
    "channel": _resource(
        "channel",
        "made",
        "fields",
        identity=["made"],
        children=[{"message": {"id": _all("now.messages[*]")}}],
    ),
    "message": _resource(
        "message", "channel", "text", inside=[{"channel": {"id": _at("now.channel")}}]
    ),
    "text": _resource("text", "phone"),
}

READ = {"cases": [{"class": "read"}]}


def _makes(kind: str, *cases: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"makes": [{kind: {"id": _at("result.id")}}], "cases": list(cases), **more}


def _touches(kind: str, *cases: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"touches": [{kind: {"id": _at("args.id")}}], "cases": list(cases), **more}


def _removed_by(tool: str) -> dict[str, Any]:
    """Reversible: what was made is removed again."""
    return {"class": "reversible", "inverse": [{"call": tool, "args": {"id": _at("result.id")}}]}


def _changed_back(kind: str) -> dict[str, Any]:
    """The fields that were changed get back what they were, the others stay as they are."""
    before = {"$1": f"$.before.{kind}[0].fields", "only": "$.args.changes", "else": None}
    call = {"call": f"update_{kind}", "args": {"id": _at("args.id"), "changes": before}}
    return {"narrow": True, "inverse": [call]}


def _restored(kind: str) -> dict[str, Any]:
    """Out of the vendor's trash, as the one that it was."""
    call = {"call": f"restore_{kind}", "args": {"id": _at("args.id")}}
    return {"class": "reversible", "inverse": [call]}


_KEYED = {"key": {"meta": "turnback/key", "honoured": DAY}}

CONTRACTS: dict[str, dict[str, Any]] = {
    "create_contact": _makes("contact", _removed_by("delete_contact")),
    "update_contact": _touches("contact", {"class": "reversible", **_changed_back("contact")}),
    "delete_contact": _touches("contact", _restored("contact")),
    "restore_contact": _touches(
        "contact",
        {
            "class": "reversible",
            "inverse": [{"call": "delete_contact", "args": {"id": _at("args.id")}}],
        },
    ),
    "create_event": _makes("event", _removed_by("delete_event")),
    "update_event": _touches("event", {"class": "reversible", **_changed_back("event")}),
    "delete_event": _touches("event", _restored("event")),
    "restore_event": _touches(
        "event",
        {
            "class": "reversible",
            "inverse": [{"call": "delete_event", "args": {"id": _at("args.id")}}],
        },
    ),
    "invite": {
        "touches": [{"invitation": {"event": _at("args.event"), "email": _all("args.emails[*]")}}],
        "unchanged": {"empty": _all("result.invited[*]")},
        "notifies": [_all("args.emails[*]")],
        "names": {"subject": _at("result.title")},
        "cases": [
            {
                "class": "compensable",
                "residue": "notice_sent",
                "inverse": [
                    {
                        "call": "withdraw_invitation",
                        "args": {"event": _at("args.event"), "emails": _all("result.invited[*]")},
                    }
                ],
            }
        ],
    },
    "withdraw_invitation": {
        "touches": [{"invitation": {"event": _at("args.event"), "email": _all("args.emails[*]")}}],
        "unchanged": {"empty": _all("result.withdrawn[*]")},
        "notifies": [_all("args.emails[*]")],
        "cases": [{"class": "irreversible", "residue": "notice_sent"}],
    },
    "send_email": _makes(
        "email",
        {"class": "irreversible", "residue": "mail_sent"},
        notifies=[_all("args.to[*]")],
        names={"subject": _at("args.subject")},
    ),
    "schedule_email": _makes(
        "email",
        {
            "class": "compensable",
            "residue": "mail_sent",
            "cancel": {
                "call": "cancel_email",
                "args": {"id": _at("result.id")},
                "until": _at("result.send_at"),
                "confirmed": {"equal": [_at("result.status"), "cancelled"]},
            },
        },
        notifies=[_all("args.to[*]")],
        names={"subject": _at("args.subject")},
    ),
    "cancel_email": _touches("email", {"class": "irreversible", "residue": "left"}),
    "charge_card": _makes(
        "charge",
        {
            "class": "compensable",
            "residue": "payment_refunded",
            "inverse": [{"call": "refund_charge", "args": {"id": _at("result.id")}}],
            "verify": {"equal": [_at("now.status"), "refunded"]},
            "settles": {"at": 3 * DAY},
        },
        names={"subject": _at("args.for")},
        **_KEYED,
    ),
    "refund_charge": _touches(
        "charge", {"class": "irreversible", "residue": "payment_refunded"}, **_KEYED
    ),
    "send_transfer": _makes(
        "transfer",
        {"class": "irreversible", "residue": "payment_made"},
        notifies=[_at("args.to")],
        names={"subject": _at("args.for")},
        **_KEYED,
    ),
    "create_channel": _makes("channel", _removed_by("delete_channel")),
    "delete_channel": _touches("channel", {"class": "irreversible", "residue": "left"}),
    "post_message": _makes(
        "message",
        {
            "class": "compensable",
            "residue": "message_posted",
            "cancel": {
                "call": "unsend_message",
                "args": {"id": _at("result.id")},
                "until": _at("result.unsend_until"),
                "confirmed": {"equal": [_at("result.status"), "unsent"]},
            },
        },
        notifies=[_at("args.channel")],
        names={"subject": _at("result.channel_name")},
    ),
    "unsend_message": _touches("message", {"class": "irreversible", "residue": "left"}),
    "send_text": _makes(
        "text",
        {"class": "irreversible"},
        notifies=[_at("args.phone")],
        names={"subject": "a text message"},
    ),
}
"""What counts is what is said of each call; the resources that all of them name are `RESOURCES`."""


@dataclass(frozen=True)
class DemoTool:
    """A tool: its act, what it says of itself, and whether its vendor honours idempotency keys."""

    name: str
    act: Callable[[World, acts.Args], Fields]
    description: str
    properties: dict[str, Any]
    keyed: bool = False

    def listed(self) -> dict[str, Any]:
        """The tool as MCP lists it, with its contract."""
        contract = CONTRACTS.get(self.name, READ)
        touching = {"resources": RESOURCES} if contract is not READ else {}
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": {
                "type": "object",
                "properties": self.properties,
                "required": list(self.properties),
                "additionalProperties": False,
            },
            "annotations": {"readOnlyHint": contract is READ, "openWorldHint": False},
            "_meta": {"turnback/contract": {"contract": 1, **touching, **contract}},
        }


TEXT = {"type": "string", "minLength": 1, "maxLength": LONGEST}
PEOPLE = {"type": "array", "items": TEXT, "minItems": 1, "maxItems": 50}
AMOUNT = {"type": "integer", "minimum": 1}
MINUTES = {"type": "integer", "minimum": 1, "maximum": 100_000}
FIELDS = {"type": "object", "additionalProperties": {"type": "string"}}
CHANGES = {"type": "object", "additionalProperties": {"type": ["string", "null"]}}
ID = {"id": TEXT}
MAIL = {"to": PEOPLE, "subject": TEXT, "body": TEXT}
EVENT_FIELDS = "`fields` may have `title`, `start`, `end` and `place`."


def _tool(act: Callable[[World, acts.Args], Fields], says: str, **properties: Any) -> DemoTool:
    name = act.__name__
    return DemoTool(name, act, says, properties, keyed="key" in CONTRACTS.get(name, READ))


TOOLS = {
    tool.name: tool
    for tool in (
        _tool(acts.list_contacts, "All contacts."),
        _tool(acts.get_contact, "One contact.", **ID),
        _tool(
            acts.create_contact,
            "Make a contact. `fields` may have `name`, `email` and `phone`.",
            fields=FIELDS,
        ),
        _tool(
            acts.update_contact,
            "Change fields of a contact; one that is null is removed.",
            **ID,
            changes=CHANGES,
        ),
        _tool(acts.delete_contact, "Put a contact into the trash.", **ID),
        _tool(acts.restore_contact, "Take a contact out of the trash.", **ID),
        _tool(acts.list_events, "All events of the calendar."),
        _tool(acts.get_event, "One event, and who is invited to it.", **ID),
        _tool(acts.create_event, f"Make an event. {EVENT_FIELDS}", fields=FIELDS),
        _tool(
            acts.update_event,
            "Change fields of an event; nobody is told.",
            **ID,
            changes=CHANGES,
        ),
        _tool(acts.delete_event, "Put an event into the trash, to which nobody is invited.", **ID),
        _tool(acts.restore_event, "Take an event out of the trash.", **ID),
        _tool(acts.get_invitation, "One invitation.", event=TEXT, email=TEXT),
        _tool(acts.invite, "Invite people to an event by mail.", event=TEXT, emails=PEOPLE),
        _tool(
            acts.withdraw_invitation,
            "Withdraw invitations; those invited are told.",
            event=TEXT,
            emails=PEOPLE,
        ),
        _tool(acts.list_emails, "All mails that were sent or are scheduled."),
        _tool(acts.get_email, "One mail.", **ID),
        _tool(acts.send_email, "Send a mail at once.", **MAIL),
        _tool(acts.schedule_email, "Send a mail later.", **MAIL, in_minutes=MINUTES),
        _tool(acts.cancel_email, "Cancel a scheduled mail that is not sent yet.", **ID),
        _tool(acts.list_payments, "All charges of the card, and all transfers."),
        _tool(acts.get_charge, "One charge.", **ID),
        _tool(acts.charge_card, "Pay by card.", amount=AMOUNT, to=TEXT, **{"for": TEXT}),
        _tool(acts.refund_charge, "Have a charge refunded.", **ID),
        _tool(acts.get_transfer, "One transfer.", **ID),
        _tool(
            acts.send_transfer,
            "Send money by bank transfer, which is final.",
            amount=AMOUNT,
            to=TEXT,
            **{"for": TEXT},
        ),
        _tool(acts.list_channels, "All channels of the chat."),
        _tool(acts.get_channel, "One channel, and the messages in it.", **ID),
        _tool(acts.create_channel, "Open a channel.", name=TEXT, topic=TEXT),
        _tool(acts.delete_channel, "Delete a channel without messages.", **ID),
        _tool(acts.get_message, "One chat message.", **ID),
        _tool(
            acts.post_message,
            "Post into a channel; for ten minutes it can be taken back.",
            channel=TEXT,
            text=TEXT,
        ),
        _tool(acts.unsend_message, "Take a chat message back in time.", **ID),
        _tool(acts.get_text, "One text message.", **ID),
        _tool(acts.send_text, "Send a text message to a phone.", phone=TEXT, text=TEXT),
    )
}
