"""Rooms that are held, booked, and cancelled for a fee; cards that are charged and refunded."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from vendors.host import ToolError

World = dict[str, Any]

READS = {"get_hold", "get_booking", "find_bookings", "get_payment", "get_guest"}

OVERLAY = Path(__file__).with_suffix(".yaml").read_text()


def start() -> World:
    return {
        "n": 20,
        "rooms": ["101", "102", "103"],
        "holds": {},
        "bookings": {
            "B1": {"state": "booked", "room": "201", "guests": ["ann"], "notes": "late", "fee": 0}
        },
        "payments": {},
        "guests": {"ann@x": {"name": "Ann", "prefs": {"floor": 2, "pillow": "soft"}}},
        "mails": [],
    }


def leaves(w: World) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for id_, it in w["holds"].items():
        if it["state"] != "released":
            found |= {f"hold|{id_}|{name}": value for name, value in it.items()}
    for id_, it in w["bookings"].items():
        for name in ("state", "room", "notes", "fee"):
            found[f"booking|{id_}|{name}"] = it[name]
        found |= {f'booking|{id_}|guests|"{who}"': who for who in it["guests"]}
    for id_, it in w["payments"].items():
        found |= {f"payment|{id_}|{name}": value for name, value in it.items()}
    for mail, it in w["guests"].items():
        found[f"guest|{mail}|name"] = it["name"]
        found |= {f"guest|{mail}|prefs|{name}": value for name, value in it["prefs"].items()}
        if not it["prefs"]:
            found[f"guest|{mail}|prefs"] = "{}"
    return found


def _of(things: World, id: str, what: str) -> World:
    if id not in things:
        raise ToolError(f"unknown {what} {id}")
    found: World = things[id]
    return found


def _new(w: World, prefix: str) -> str:
    w["n"] += 1
    return f"{prefix}{w['n']}"


def get_hold(w: World, id: str) -> Any:
    return {"id": id, **_of(w["holds"], id, "hold")}


def get_booking(w: World, id: str) -> Any:
    return {"id": id, **_of(w["bookings"], id, "booking")}


def get_payment(w: World, id: str) -> Any:
    return {"id": id, **_of(w["payments"], id, "payment")}


def get_guest(w: World, mail: str) -> Any:
    return _of(w["guests"], mail.casefold(), "guest")


def find_bookings(w: World, room: str) -> Any:
    return {"found": [id_ for id_, it in w["bookings"].items() if it["room"] == room]}


def hold_room(w: World, room: str, night: str) -> Any:
    taken = any(h["room"] == room and h["state"] == "held" for h in w["holds"].values())
    if room not in w["rooms"] or taken:
        return {"error": "the room is not free"}
    id_ = _new(w, "H")
    w["holds"][id_] = {"room": room, "night": night, "state": "held"}
    return {"hold": {"id": id_, "expires_in": 900}}


def release_hold(w: World, id: str) -> Any:
    it = _of(w["holds"], id, "hold")
    if it["state"] != "held":
        raise ToolError("it is no longer held")
    it["state"] = "released"
    return {"released": id}


def book(w: World, hold_id: str, guests: list[str]) -> Any:
    it = _of(w["holds"], hold_id, "hold")
    if it["state"] != "held":
        raise ToolError("it is no longer held")
    it["state"] = "used"
    id_ = _new(w, "B")
    made = {"state": "booked", "room": it["room"], "guests": list(guests), "notes": "", "fee": 0}
    w["bookings"][id_] = made
    w["mails"] += [[who, "booked", id_] for who in guests]
    return {"id": id_, **made}


def cancel_booking(w: World, id: str) -> Any:
    it = _of(w["bookings"], id, "booking")
    if it["state"] == "cancelled":
        raise ToolError("it is cancelled already")
    it["state"], it["fee"] = "cancelled", 30
    w["mails"] += [[who, "cancelled", id] for who in it["guests"]]
    return {"id": id, "state": "cancelled", "fee": 30}


def note_booking(w: World, id: str, notes: str) -> Any:
    _of(w["bookings"], id, "booking")["notes"] = notes
    return {"ok": True}


def add_guests(w: World, id: str, guests: list[str]) -> Any:
    it = _of(w["bookings"], id, "booking")
    added = [who for who in dict.fromkeys(guests) if who not in it["guests"]]
    it["guests"] += added
    return {"added": added}


def remove_guests(w: World, id: str, guests: list[str]) -> Any:
    it = _of(w["bookings"], id, "booking")
    removed = [who for who in it["guests"] if who in guests]
    it["guests"] = [who for who in it["guests"] if who not in guests]
    return {"removed": removed}


def charge(w: World, amount: int, of: str) -> Any:
    id_ = _new(w, "P")
    w["payments"][id_] = {"state": "paid", "amount": amount, "of": of}
    return {"payment": {"id": id_, **w["payments"][id_]}}


def refund(w: World, payment: str) -> Any:
    it = _of(w["payments"], payment, "payment")
    if it["state"] != "paid":
        w["twice"] = True
        raise ToolError("it was refunded already")
    it["state"] = "refunded"
    return {"refund": {"status": "pending"}}


def set_guest(w: World, mail: str, name: str, prefs: World) -> Any:
    w["guests"][mail.casefold()] = {"name": name, "prefs": prefs}
    return {"ok": True}


def forget_guest(w: World, mail: str) -> Any:
    w["guests"].pop(mail.casefold(), None)
    return {"ok": True}


def send_voucher(w: World, to: str) -> Any:
    w["mails"].append([to, "voucher"])
    return {"sent": True}


TOOLS = {
    f.__name__: f
    for f in (
        get_hold, get_booking, get_payment, get_guest, find_bookings, hold_room, release_hold,
        book, cancel_booking, note_booking, add_guests, remove_guests, charge, refund, set_guest,
        forget_guest, send_voucher,
    )
}  # fmt: skip
STRANGE: dict[str, Any] = {}
HONOURS = {"book", "charge"}


def acts(w: World, random: Random, mark: str) -> list[tuple[str, dict[str, Any]]]:
    booking = random.choice(sorted(w["bookings"]))
    mail = random.choice(["ann@x", "Ann@X", "new@x"])
    prefs = random.choice([{}, {"floor": mark}, {"pillow": mark, "bath": True}])
    calls: list[tuple[str, dict[str, Any]]] = [
        ("hold_room", {"room": random.choice(["101", "102", "999"]), "night": mark}),
        ("hold_room", {"room": random.choice(["101", "103"]), "night": mark}),
        ("note_booking", {"id": booking, "notes": mark}),
        ("add_guests", {"id": booking, "guests": [mark, "ann"]}),
        ("remove_guests", {"id": booking, "guests": ["ann", "nobody"]}),
        ("charge", {"amount": random.choice([5, 100]), "of": mark}),
        ("set_guest", {"mail": mail, "name": mark, "prefs": prefs}),
        ("forget_guest", {"mail": mail}),
    ]
    for id_, it in w["holds"].items():
        if it["state"] == "held":
            calls += [("book", {"hold_id": id_, "guests": [mark]})] * 2
            calls += [("release_hold", {"id": id_})]
    for id_, it in w["payments"].items():
        if it["state"] == "paid" and random.random() < 0.2:
            calls += [("refund", {"payment": id_})]
    if random.random() < 0.2:
        calls += [("cancel_booking", {"id": booking})]
    return calls


strange = acts
