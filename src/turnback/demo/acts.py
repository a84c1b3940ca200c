"""What can be done in the demo world, as its vendors would let one: each act is a tool.

An act gets the world and its arguments, and answers with an object; `Refused` is the vendor's no.
Whatever reaches a person is written down as a `delivery`, which nothing removes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from turnback.demo.world import Fields, World

UNSEND = 600.0  # seconds in which a chat message can be taken back
BALANCE = 5_000  # what a card bears at most, in whole units of its currency

Args = Mapping[str, Any]


class Refused(Exception):
    """What the vendor answers in place of doing it."""


def there(world: World, kind: str, id_: str) -> Fields:
    """A thing's fields; `Refused` if there is none."""
    found = world.get(kind, id_)
    if found is None:
        raise Refused(f"There is no {kind} `{id_}`")
    return found


def _new(world: World, kind: str, fields: Fields) -> str:
    id_ = f"{kind}-{world.number(kind)}"
    world.put(kind, id_, fields)
    return id_


def _deliver(world: World, to: Sequence[str], what: str, about: str) -> None:
    for who in to:
        delivery = {"to": who, "what": what, "about": about, "at": round(world.now() * 1000)}
        world.put("delivery", f"delivery-{world.number('delivery'):06}", delivery)


def _change(world: World, kind: str, args: Args) -> Fields:
    """Set some fields of a thing; one that is set to null is removed."""
    fields = there(world, kind, args["id"]) | dict(args["changes"])
    world.put(kind, args["id"], {name: it for name, it in fields.items() if it is not None})
    return {"id": args["id"], "changed": sorted(args["changes"])}


def _restore(world: World, kind: str, args: Args) -> Fields:
    if world.get(kind, args["id"]) is not None:
        raise Refused(f"There is a {kind} `{args['id']}` already")
    if not world.restore(kind, args["id"]):
        raise Refused(f"No {kind} `{args['id']}` is in the trash")
    return {"id": args["id"]}


def _whole(world: World, kind: str, args: Args) -> Fields:
    fields = there(world, kind, args["id"])
    return {"id": args["id"], "made": world.made(kind, args["id"]), "fields": fields}


# -- contacts


def get_contact(world: World, args: Args) -> Fields:
    return _whole(world, "contact", args)


def list_contacts(world: World, args: Args) -> Fields:
    return {"contacts": [{"id": i, "fields": f} for i, f in world.all("contact").items()]}


def create_contact(world: World, args: Args) -> Fields:
    return {"id": _new(world, "contact", dict(args["fields"]))}


def update_contact(world: World, args: Args) -> Fields:
    return _change(world, "contact", args)


def delete_contact(world: World, args: Args) -> Fields:
    there(world, "contact", args["id"])
    world.remove("contact", args["id"])
    return {"id": args["id"]}


def restore_contact(world: World, args: Args) -> Fields:
    return _restore(world, "contact", args)


# -- the calendar


def _invited(world: World, event: str) -> list[str]:
    return [i["email"] for i in world.all("invitation").values() if i["event"] == event]


def get_event(world: World, args: Args) -> Fields:
    return {**_whole(world, "event", args), "invited": _invited(world, args["id"])}


def list_events(world: World, args: Args) -> Fields:
    return {"events": [{"id": i, "fields": f} for i, f in world.all("event").items()]}


def create_event(world: World, args: Args) -> Fields:
    return {"id": _new(world, "event", dict(args["fields"]))}


def update_event(world: World, args: Args) -> Fields:
    return _change(world, "event", args)


def delete_event(world: World, args: Args) -> Fields:
    there(world, "event", args["id"])
    if _invited(world, args["id"]):
        raise Refused("There are people invited to it: withdraw their invitations first")
    world.remove("event", args["id"])
    return {"id": args["id"]}


def restore_event(world: World, args: Args) -> Fields:
    return _restore(world, "event", args)


def get_invitation(world: World, args: Args) -> Fields:
    return there(world, "invitation", f"{args['event']}:{args['email']}")


def invite(world: World, args: Args) -> Fields:
    title = there(world, "event", args["event"]).get("title", "")
    known = _invited(world, args["event"])
    new = [email for email in args["emails"] if email not in known]
    for email in new:
        invitation = {"event": args["event"], "email": email, "status": "invited"}
        world.put("invitation", f"{args['event']}:{email}", invitation)
    _deliver(world, new, "an invitation", title)
    return {"event": args["event"], "title": title, "invited": new}


def withdraw_invitation(world: World, args: Args) -> Fields:
    title = there(world, "event", args["event"]).get("title", "")
    gone = [e for e in args["emails"] if world.remove("invitation", f"{args['event']}:{e}")]
    _deliver(world, gone, "the invitation was withdrawn", title)
    return {"event": args["event"], "withdrawn": gone}


# -- the mailbox


def send_due(world: World) -> None:
    """Send the scheduled mails whose time has come; done before anything else is."""
    for id_, mail in world.all("email").items():
        if mail["status"] == "scheduled" and mail["send_at"] <= world.now() * 1000:
            world.put("email", id_, {**mail, "status": "sent"})
            _deliver(world, mail["to"], "a mail", mail["subject"])


def get_email(world: World, args: Args) -> Fields:
    return {"id": args["id"], **there(world, "email", args["id"])}


def list_emails(world: World, args: Args) -> Fields:
    return {"emails": [{"id": i, **it} for i, it in world.all("email").items()]}


def send_email(world: World, args: Args) -> Fields:
    mail = {"to": args["to"], "subject": args["subject"], "body": args["body"], "status": "sent"}
    _deliver(world, args["to"], "a mail", args["subject"])
    return {"id": _new(world, "email", mail), "status": "sent"}


def schedule_email(world: World, args: Args) -> Fields:
    at = round((world.now() + 60 * args["in_minutes"]) * 1000)
    mail = {"to": args["to"], "subject": args["subject"], "body": args["body"]}
    id_ = _new(world, "email", {**mail, "status": "scheduled", "send_at": at})
    return {"id": id_, "status": "scheduled", "send_at": at}


def cancel_email(world: World, args: Args) -> Fields:
    if there(world, "email", args["id"])["status"] != "scheduled":
        raise Refused("It is sent already")
    world.remove("email", args["id"])
    return {"id": args["id"], "status": "cancelled"}


# -- payments


def get_charge(world: World, args: Args) -> Fields:
    return {"id": args["id"], **there(world, "charge", args["id"])}


def charge_card(world: World, args: Args) -> Fields:
    if not 0 < args["amount"] <= BALANCE:
        raise Refused(f"The card bears amounts up to {BALANCE}")
    charge = {"amount": args["amount"], "to": args["to"], "for": args["for"], "status": "paid"}
    return {"id": _new(world, "charge", charge), "status": "paid"}


def refund_charge(world: World, args: Args) -> Fields:
    charge = there(world, "charge", args["id"])
    if charge["status"] != "paid":
        raise Refused("It is refunded already")
    world.put("charge", args["id"], {**charge, "status": "refunded"})
    return {"id": args["id"], "status": "refunded"}


def get_transfer(world: World, args: Args) -> Fields:
    return {"id": args["id"], **there(world, "transfer", args["id"])}


def send_transfer(world: World, args: Args) -> Fields:
    transfer = {"amount": args["amount"], "to": args["to"], "for": args["for"]}
    _deliver(world, [args["to"]], "a bank transfer", args["for"])
    return {"id": _new(world, "transfer", transfer), "status": "sent"}


def list_payments(world: World, args: Args) -> Fields:
    return {
        "charges": [{"id": i, **it} for i, it in world.all("charge").items()],
        "transfers": [{"id": i, **it} for i, it in world.all("transfer").items()],
    }


# -- the chat


def _messages(world: World, channel: str) -> list[str]:
    return [id_ for id_, it in world.all("message").items() if it["channel"] == channel]


def get_channel(world: World, args: Args) -> Fields:
    return {**_whole(world, "channel", args), "messages": _messages(world, args["id"])}


def list_channels(world: World, args: Args) -> Fields:
    return {"channels": [{"id": i, "fields": f} for i, f in world.all("channel").items()]}


def create_channel(world: World, args: Args) -> Fields:
    return {"id": _new(world, "channel", {"name": args["name"], "topic": args["topic"]})}


def delete_channel(world: World, args: Args) -> Fields:
    there(world, "channel", args["id"])
    if _messages(world, args["id"]):
        raise Refused("There are messages in it")
    world.remove("channel", args["id"])
    return {"id": args["id"]}


def get_message(world: World, args: Args) -> Fields:
    return {"id": args["id"], **there(world, "message", args["id"])}


def post_message(world: World, args: Args) -> Fields:
    channel = there(world, "channel", args["channel"])
    until = round((world.now() + UNSEND) * 1000)
    message = {"channel": args["channel"], "text": args["text"], "unsend_until": until}
    id_ = _new(world, "message", message)
    return {"id": id_, "channel_name": channel.get("name", ""), "unsend_until": until}


def unsend_message(world: World, args: Args) -> Fields:
    if there(world, "message", args["id"])["unsend_until"] <= world.now() * 1000:
        raise Refused("It is too late to take it back")
    world.remove("message", args["id"])
    return {"id": args["id"], "status": "unsent"}


def get_text(world: World, args: Args) -> Fields:
    return {"id": args["id"], **there(world, "text", args["id"])}


def send_text(world: World, args: Args) -> Fields:
    _deliver(world, [args["phone"]], "a text message", "")
    return {"id": _new(world, "text", {"phone": args["phone"], "text": args["text"]})}
