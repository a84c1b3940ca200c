"""A vendor that outlives its callers: the demo's world behind an address, in the test's process.

Servers of ours come and go, and are killed; it counts what arrives and what acts. To the demo's
tools come a few whose like the demo lacks: an inverse of two calls, a look-up, keys on a change.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import uvicorn
from processes import eventually
from scripted_provider import call, text
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from turnback.demo import acts, server
from turnback.demo.acts import Refused
from turnback.demo.tools import CONTRACTS, ID, RESOURCES, TEXT, TOOLS, DemoTool
from turnback.demo.world import Fields, World
from turnback.settings import McpServer

NAME = "desk"
DAY = 86_400

Leaf = tuple[str, tuple[str, ...]]
"""A leaf as a report names it: the thing, and the path in it."""


# -- what the demo lacks


def get_note(world: World, args: acts.Args) -> Fields:
    return {"id": args["id"], **acts.there(world, "note", args["id"])}


def make_note(world: World, args: acts.Args) -> Fields:
    if world.get("note", args["id"]) is not None:
        raise Refused(f"There is a note `{args['id']}` already")
    world.put("note", args["id"], {"text": ""})
    return {"id": args["id"]}


def set_note(world: World, args: acts.Args) -> Fields:
    acts.there(world, "note", args["id"])
    world.put("note", args["id"], {"text": args["text"]})
    return {"id": args["id"]}


def remove_note(world: World, args: acts.Args) -> Fields:
    acts.there(world, "note", args["id"])
    world.remove("note", args["id"])
    return {"id": args["id"]}


def get_order(world: World, args: acts.Args) -> Fields:
    return {"id": args["id"], **acts.there(world, "order", args["id"])}


def find_orders(world: World, args: acts.Args) -> Fields:
    found = world.all("order").items()
    return {"orders": [{"id": i, **it} for i, it in found if it["reference"] == args["reference"]]}


def order(world: World, args: acts.Args) -> Fields:
    id_ = f"order-{world.number('order')}"
    world.put("order", id_, {"reference": args["reference"], "status": "placed"})
    return {"id": id_}


def cancel_order(world: World, args: acts.Args) -> Fields:
    placed = acts.there(world, "order", args["id"])
    if placed["status"] != "placed":
        raise Refused("It is cancelled already")
    world.put("order", args["id"], {**placed, "status": "cancelled"})
    return {"id": args["id"], "status": "cancelled"}


def _at(path: str) -> dict[str, str]:
    return {"$1": f"$.{path}"}


def _read(kind: str, part: str) -> dict[str, Any]:
    absent = {"absent": "^There is no "}
    call = {"call": f"get_{kind}", "args": {"id": _at("key.id")}, "error_is": absent}
    return {"key": ["id"], "read": call, "state": {part: _at(f"now.{part}")}}


_RESOURCES = {"note": _read("note", "text"), "order": _read("order", "status")}
_NOTE = [{"note": {"id": _at("args.id")}}]
_KEY = {"meta": "turnback/key", "honoured": DAY}
_READ = {"cases": [{"class": "read"}]}


def _note(*calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"touches": _NOTE, "cases": [{"class": "reversible", "inverse": list(calls)}], **more}


_TEXT_BACK = {
    "call": "set_note",
    "args": {"id": _at("args.id"), "text": _at("before.note[0].text")},
}
_MADE = {"call": "make_note", "args": {"id": _at("args.id")}}
_REMOVED = {"call": "remove_note", "args": {"id": _at("args.id")}}

_CONTRACTS: dict[str, dict[str, Any]] = {
    "get_note": _READ,
    "get_order": _READ,
    "find_orders": _READ,
    "make_note": _note(_REMOVED),
    "set_note": _note(_TEXT_BACK, key=_KEY),
    "remove_note": _note(_MADE, _TEXT_BACK),
    "order": {
        "makes": [{"order": {"id": _at("result.id")}}],
        "names": {"subject": _at("args.reference")},
        "find": {
            "call": "find_orders",
            "args": {"reference": _at("args.reference")},
            "found": {"$": "$.now.orders[*]"},
            "result": {"id": _at("item.id")},
        },
        "cases": [
            {
                "class": "compensable",
                "residue": "cancelled",
                "inverse": [{"call": "cancel_order", "args": {"id": _at("result.id")}}],
                "verify": {"equal": [_at("now.status"), "cancelled"]},
            }
        ],
    },
    "cancel_order": {
        "touches": [{"order": {"id": _at("args.id")}}],
        "cases": [{"class": "irreversible", "residue": "cancelled"}],
    },
}

KEYED = frozenset({"charge_card", "refund_charge", "send_transfer", "set_note"})
"""The tools whose idempotency keys are honoured."""

MORE = {
    name: DemoTool(name, act, f"{name}.", properties, keyed=name in KEYED)
    for name, act, properties in (
        ("get_note", get_note, ID),
        ("make_note", make_note, ID),
        ("set_note", set_note, {**ID, "text": {"type": "string"}}),
        ("remove_note", remove_note, ID),
        ("get_order", get_order, ID),
        ("find_orders", find_orders, {"reference": TEXT}),
        ("order", order, {"reference": TEXT}),
        ("cancel_order", cancel_order, ID),
    )
}


def _stated(name: str) -> dict[str, Any]:
    """The contract that a tool states."""
    if name in _CONTRACTS:
        return {"contract": 1, "resources": _RESOURCES, **_CONTRACTS[name]}
    return {"contract": 1, "resources": RESOURCES, **CONTRACTS.get(name, _READ)}


# -- the vendor

STATES: dict[str, tuple[str, ...]] = {
    "contact": ("made", "fields"),
    "event": ("made", "fields"),
    "channel": ("made", "fields"),
    "invitation": ("status",),
    "email": ("to", "subject", "status"),
    "charge": ("amount", "to", "status"),
    "transfer": ("amount", "to"),
    "message": ("channel", "text"),
    "text": ("phone",),
    "note": ("text",),
    "order": ("status",),
}
"""What of each kind is its state; by hand, so that what a contract leaves out is seen."""


@dataclass
class Vendor:
    """The world, and what it was asked. `arrived` has each call of a tool with its key.

    `acted` counts the acts, by tool and arguments: a call under a key that was seen is none.
    `watch` is told of each act, and of each look, just before.
    """

    world: World
    url: str = ""
    arrived: list[tuple[str, str | None]] = field(default_factory=list)
    acted: Counter[str] = field(default_factory=Counter)
    says: dict[str, str] = field(default_factory=dict)
    contracts: dict[str, dict[str, Any]] = field(default_factory=dict)
    watch: Callable[[str, acts.Args], None] = lambda tool, args: None
    _before: dict[str, asyncio.Event] = field(default_factory=dict)
    _after: dict[str, asyncio.Event] = field(default_factory=dict)
    _tools: dict[str, DemoTool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._tools = {
            name: replace(tool, act=self._counted(tool)) for name, tool in (TOOLS | MORE).items()
        }
        with self.world.change():
            for id_ in ("milk", "keys"):
                self.world.put("note", id_, {"text": id_})

    @property
    def settings(self) -> dict[str, Any]:
        """What makes it a server's tools."""
        return {
            "mcp_servers": {NAME: McpServer(url=self.url, trust_contracts=True)},
            "approval": "never",
            "undo_backoff": 0.05,
            "tool_stop_grace": 0.2,
            "read_lag": 0,
            "tool_timeout": 1.0,
        }

    def hold(self, tool: str, *, acted: bool) -> asyncio.Event:
        """Calls of a tool wait for this, before they act or once they have."""
        event = asyncio.Event()
        (self._after if acted else self._before)[tool] = event
        return event

    def restate(self, tool: str, **parts: Any) -> None:
        """Have a tool state other parts of its contract; None takes one away."""
        stated = _stated(tool) | parts
        self.contracts[tool] = {name: part for name, part in stated.items() if part is not None}

    def calls(self, tool: str) -> int:
        """How many calls of a tool have arrived."""
        return sum(name == tool for name, _ in self.arrived)

    @property
    def writes(self) -> int:
        """How many calls have arrived that do not only read."""
        reads = ("get_", "list_", "find_")
        return sum(not name.startswith(reads) for name, _ in self.arrived)

    def leaves(self) -> dict[Leaf, Any]:
        """The whole world, leaf by leaf."""
        found: dict[Leaf, Any] = {}
        for kind, parts in STATES.items():
            for id_, fields in self.world.all(kind).items():
                thing = f"{kind} {id_.replace(':', ', ') if kind == 'invitation' else id_}"
                whole = fields
                if "fields" in parts:
                    whole = {"made": self.world.made(kind, id_), "fields": fields}
                for part in parts:
                    found |= {(thing, (part, *path)): leaf for path, leaf in _flat(whole[part])}
        return found

    def told(self) -> Counter[str]:
        """How often each person has got something."""
        return Counter(it["to"] for it in self.world.all("delivery").values())

    def acts(self, tool: str) -> int:
        """How often a tool has acted."""
        return sum(n for asked, n in self.acted.items() if asked.split(" ", 1)[0] == tool)

    def _counted(self, tool: DemoTool) -> Callable[[World, acts.Args], Fields]:
        def act(world: World, args: acts.Args) -> Fields:
            self.watch(tool.name, args)
            answer = tool.act(world, args)
            if not tool.name.startswith(("get_", "list_", "find_")):
                self.acted[f"{tool.name} {json.dumps(args, sort_keys=True)}"] += 1
            return answer

        return act

    def _listed(self, tool: DemoTool) -> dict[str, Any]:
        stated = self.contracts.get(tool.name) or _stated(tool.name)
        return {
            "name": tool.name,
            "description": self.says.get(tool.name, tool.description),
            "inputSchema": {
                "type": "object",
                "properties": tool.properties,
                "required": list(tool.properties),
                "additionalProperties": False,
            },
            "annotations": {"readOnlyHint": stated["cases"] == _READ["cases"]}
            | {"openWorldHint": False},
            "_meta": {"turnback/contract": stated},
        }

    async def answer(self, request: Request) -> Response:
        """One message over streamable HTTP, answered as JSON."""
        asked = await request.json()
        if "id" not in asked:
            return Response(status_code=202)
        said: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
        try:
            said["result"] = await self._answer(asked["method"], asked.get("params") or {})
        except server.Wrong as wrong:
            said["error"] = {"code": wrong.code, "message": str(wrong)}
        return JSONResponse(said)

    async def _answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "tools/list":
            return {"tools": [self._listed(tool) for tool in self._tools.values()]}
        if method != "tools/call":
            return server.answer(method, params, self.world)
        tool = self._tools[params["name"]]
        key = (params.get("_meta") or {}).get(server.KEY)
        self.arrived.append((tool.name, key))
        if tool.name in self._before:
            await self._before[tool.name].wait()
        answer = server.call(
            tool, params.get("arguments") or {}, key if tool.keyed else None, self.world
        )
        if tool.name in self._after:
            await self._after[tool.name].wait()
        return answer


def _flat(value: Any) -> Iterable[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from (((name, *path), leaf) for path, leaf in _flat(item))
    elif isinstance(value, list) and value:
        for at, item in enumerate(value):
            yield from (((str(at), *path), leaf) for path, leaf in _flat(item))
    else:
        yield (), value


@asynccontextmanager
async def vending(folder: Path) -> AsyncIterator[Vendor]:
    """A vendor, until left; calls that it still holds back are dropped."""
    world = World(folder / "vendor.sqlite3")
    vendor = Vendor(world)
    app = Starlette(routes=[Route("/mcp", vendor.answer, methods=["POST"])])
    listening = socket.create_server(("127.0.0.1", 0))
    options: dict[str, Any] = {"log_config": None, "timeout_graceful_shutdown": 1}
    running = uvicorn.Server(uvicorn.Config(app, lifespan="off", **options))
    serving = asyncio.create_task(running._serve([listening]))
    await eventually(lambda: running.started)
    vendor.url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    try:
        yield vendor
    finally:
        running.should_exit = True
        await serving
        listening.close()
        world.close()


# -- the story

STORY: tuple[tuple[str, dict[str, Any]], ...] = (
    ("create_event", {"fields": {"title": "Dinner", "place": "Lina"}}),
    ("update_event", {"id": "review", "changes": {"end": "2031-05-08T17:30", "place": "Room 2"}}),
    ("update_contact", {"id": "ben", "changes": {"phone": "555-0177"}}),
    ("remove_note", {"id": "milk"}),
    ("create_channel", {"name": "dinner", "topic": "Who comes"}),
    ("invite", {"event": "event-1", "emails": ["ada@example.org", "ben@example.org"]}),
    ("post_message", {"channel": "channel-1", "text": "Who comes?"}),
    (
        "schedule_email",
        {"to": ["cara@example.org"], "subject": "Soon", "body": "Tonight", "in_minutes": 1440},
    ),
    ("charge_card", {"amount": 300, "to": "Lina", "for": "Deposit"}),
    ("order", {"reference": "twelve chairs"}),
    ("set_note", {"id": "keys", "text": "with Lina"}),
    ("send_email", {"to": ["lina@example.org"], "subject": "Table", "body": "For twelve"}),
    ("send_transfer", {"amount": 450, "to": "Hall of Music", "for": "The quartet"}),
    ("delete_contact", {"id": "cara"}),
)
"""What one turn does: keys honoured and not, an inverse of two calls, notices, dependencies, a
look-up, cancels, and what cannot be taken back. What it makes has the first id of its kind."""


def told_story(calls: Iterable[tuple[str, Mapping[str, Any]]] = STORY) -> list[dict[str, Any]]:
    """A model's reply that makes these calls."""
    return [
        text("I shall"),
        *(
            call(f"{NAME}__{tool}", dict(args), id=f"c{at}", index=at)
            for at, (tool, args) in enumerate(calls)
        ),
    ]


# -- a report, held against the world


def check_report(
    report: Mapping[str, Any],
    before: Mapping[Leaf, Any],
    vendor: Vendor,
    *,
    strangers: Collection[Leaf] = (),
) -> frozenset[Leaf]:
    """Assert that a report says of the world what a diff of it says; the leaves that differ.

    Every leaf that differs is claimed by a residue. One that is claimed and does not differ is of
    an effect that nobody knows about, or one of the leaves that `strangers` have written: there
    `before` has what they wrote last.
    """
    now = vendor.leaves()
    differ = frozenset(
        leaf for leaf in before.keys() | now.keys() if before.get(leaf) != now.get(leaf)
    )
    claims: dict[str, set[Leaf]] = {}
    for residue in report["residues"]:
        claims[residue["effect_id"]] = {
            (leaf["thing"], tuple(leaf["path"])) for leaf in residue["leaves"]
        }
    claimed = set().union(*claims.values()) if claims else set()
    whole = {thing for thing, path in claimed if not path}
    unclaimed = {leaf for leaf in differ if leaf not in claimed and leaf[0] not in whole}
    doubtful = {item["effect_id"] for item in report["items"] if item["state"] == "in_doubt"}
    # What was made by a call that nobody knows of has no name yet, and is claimed as its effect.
    made = {item["tool"] for item in report["items"] if item["effect_id"] in doubtful}
    unclaimed = {leaf for leaf in unclaimed if not (made & _makers(leaf[0]))}
    assert not unclaimed, f"differ, and nothing says so: {sorted(unclaimed)}"
    sure = {id_: leaves for id_, leaves in claims.items() if id_ not in doubtful}
    for leaves in sure.values():
        wrong = {leaf for leaf in leaves if leaf[1] and leaf not in differ}.difference(strangers)
        assert not wrong, f"said to differ, and do not: {sorted(wrong)}"
    if differ or report["residues"]:
        assert report["outcome"] != "fully_reverted"
    people = {who for residue in report["residues"] for who in residue["who"]}
    untold = {who for who in vendor.told() if who not in people}
    assert not untold, f"were told, and no residue names them: {untold}"
    return differ


_MAKERS = {
    "event": "create_event",
    "contact": "create_contact",
    "channel": "create_channel",
    "email": "send_email schedule_email",
    "charge": "charge_card",
    "transfer": "send_transfer",
    "text": "send_text",
    "message": "post_message",
    "order": "order",
}


def _makers(thing: str) -> set[str]:
    makers = _MAKERS.get(thing.split(" ", 1)[0], "")
    return {f"{NAME}.{tool}" for tool in makers.split()}


def normal(report: Mapping[str, Any], numbers: Mapping[str, int]) -> dict[int, dict[str, Any]]:
    """A report without what is another one each time: by the number of the effect, what it says."""
    left = {residue["effect_id"]: residue for residue in report["residues"]}
    found: dict[int, dict[str, Any]] = {}
    for item in report["items"]:
        residue = left.get(item["effect_id"])
        found[numbers[item["effect_id"]]] = {
            **{name: item[name] for name in ("tool", "what", "verb", "state", "said", "standing")},
            "reason": item["reason"],
            "people": item["people"],
            "left": None
            if residue is None
            else {
                **{name: residue[name] for name in ("verb", "who", "fix", "how", "status")},
                "what": re.sub(r"\d+", "#", residue["what"]),  # the time of the call is in it
                "leaves": sorted((x["thing"], tuple(x["path"])) for x in residue["leaves"]),
            },
        }
    return dict(sorted(found.items()))
