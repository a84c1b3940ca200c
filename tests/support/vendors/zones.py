"""A DNS manager: record sets that are replaced whole, batches, zones that hold them, pages."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from vendors.host import ToolError

World = dict[str, Any]

READS = {"list_record_sets", "get_zone", "get_record_set"}

OVERLAY = Path(__file__).with_suffix(".yaml").read_text()


def start() -> World:
    return {
        "n": 1,
        "zones": {
            "a.org": {
                "id": "Z1",
                "comment": "main",
                "records": {
                    "www|A": {"ttl": 60, "values": ["1.1.1.1", "2.2.2.2"]},
                    "mail|A": {"ttl": 300, "values": ["3.3.3.3"]},
                },
            },
            "b.org": {"id": "Z0", "comment": "", "records": {}},
        },
    }


def leaves(w: World) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, zone in w["zones"].items():
        found[f"zone|{name}|comment"] = zone["comment"]
        found[f"zone|{name}|id"] = zone["id"]
        for key, record in zone["records"].items():
            at = f"record|{name}|{key}|"
            found[at + "ttl"] = record["ttl"]
            for value in record["values"]:
                found[f'{at}values|"{value}"'] = value
    return found


def _zone(w: World, zone: str) -> World:
    if zone.casefold() not in w["zones"]:
        raise ToolError(f"NoSuchHostedZone: {zone}")
    found: World = w["zones"][zone.casefold()]
    return found


def get_zone(w: World, zone: str) -> Any:
    it = _zone(w, zone)
    names = [key.split("|")[0] for key in it["records"]]
    return {"Id": it["id"], "Comment": it["comment"], "Names": names, "Serial": w["n"]}


def get_record_set(w: World, zone: str, name: str, type: str) -> Any:
    records = w["zones"].get(zone.casefold(), {"records": {}})["records"]
    it = records.get(f"{name.casefold()}|{type}")
    if it is None:
        return {"ResourceRecordSet": None}
    return {"ResourceRecordSet": {"TTL": it["ttl"], "Values": it["values"], "Name": name}}


def list_record_sets(w: World, zone: str, start: int = 0) -> Any:
    found = sorted(_zone(w, zone)["records"].items())
    return {"Sets": found[start : start + 1], "Truncated": len(found) > start + 1}


def create_zone(w: World, zone: str, comment: str = "") -> Any:
    w["n"] += 1
    if zone.casefold() in w["zones"]:
        raise ToolError("HostedZoneAlreadyExists")
    w["zones"][zone.casefold()] = {"id": f"Z{w['n']}", "comment": comment, "records": {}}
    return {"HostedZone": {"Id": f"Z{w['n']}", "Name": zone.casefold()}}


def comment_zone(w: World, zone: str, comment: str) -> Any:
    _zone(w, zone)["comment"] = comment
    return {"ok": True}


def delete_zone(w: World, zone: str) -> Any:
    if _zone(w, zone)["records"]:
        raise ToolError("HostedZoneNotEmpty")
    del w["zones"][zone.casefold()]
    return {"ok": True}


def upsert(w: World, zone: str, name: str, type: str, ttl: int, values: list[str]) -> Any:
    w["n"] += 1
    records = _zone(w, zone)["records"]
    records[f"{name.casefold()}|{type}"] = {"ttl": ttl, "values": list(dict.fromkeys(values))}
    return {"ChangeInfo": {"Status": "PENDING", "Id": f"C{w['n']}"}}


def delete(w: World, zone: str, name: str, type: str) -> Any:
    w["n"] += 1
    if _zone(w, zone)["records"].pop(f"{name.casefold()}|{type}", None) is None:
        raise ToolError("InvalidChangeBatch: not found")
    return {"ChangeInfo": {"Status": "PENDING", "Id": f"C{w['n']}"}}


def change_batch(w: World, zone: str, changes: list[World]) -> Any:
    for one in changes:
        given = {"zone": zone, "name": one["name"], "type": one["type"]}
        if one["action"] == "DELETE":
            delete(w, **given)
        else:
            upsert(w, **given, ttl=one["ttl"], values=one["values"])
    return {"ChangeInfo": {"Status": "PENDING", "Id": f"C{w['n']}"}}


def remake_zone(w: World, zone: str) -> Any:
    records = _zone(w, zone)["records"]
    del w["zones"][zone.casefold()]
    create_zone(w, zone, "made again")
    w["zones"][zone.casefold()]["records"] = records
    return {}


TOOLS = {
    f.__name__: f
    for f in (
        get_zone, get_record_set, list_record_sets, create_zone, comment_zone, delete_zone, upsert,
        delete, change_batch,
    )
}  # fmt: skip
STRANGE = {"remake_zone": remake_zone}


def acts(w: World, random: Random, mark: str) -> list[tuple[str, dict[str, Any]]]:
    zone = random.choice([*sorted(w["zones"]), "new.org"])
    spelt = random.choice([zone, zone.upper()])
    name = random.choice(["www", "Mail", "api", "x"])
    record = {"zone": spelt, "name": name, "type": "A"}
    new = {"ttl": random.choice([60, 300]), "values": [mark, *random.choice([[], ["1.1.1.1"]])]}
    other = random.choice([one for one in ["www", "mail", "api", "x"] if one != name.casefold()])
    return [
        ("create_zone", {"zone": random.choice(["New.org", "a.org", "c.org"]), "comment": mark}),
        ("comment_zone", {"zone": spelt, "comment": mark}),
        ("delete_zone", {"zone": spelt}),
        ("upsert", record | new),
        ("upsert", record | new),
        ("delete", record),
        (
            "change_batch",
            {
                "zone": zone,
                "changes": [
                    {"action": "UPSERT", "name": name, "type": "A", **new},
                    {"action": random.choice(["DELETE", "UPSERT"]), "name": other, "type": "A"}
                    | new,
                ],
            },
        ),
    ]


def strange(w: World, random: Random, mark: str) -> list[tuple[str, dict[str, Any]]]:
    zone = random.choice([*sorted(w["zones"]), "a.org"])
    return [*acts(w, random, mark), ("remake_zone", {"zone": zone})]
