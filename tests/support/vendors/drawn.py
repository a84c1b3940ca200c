"""A vendor that nobody has thought of: kinds of things, tools and contracts as a number draws them.

Each kind has its own ways: where its fields lie in an answer, whether an update merges or replaces,
who gives the ids, how something that is not there is told, what is deleted for good, whether keys
and etags are honoured, whether a call for several stops half-way.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

from vendors.host import ToolError

World = dict[str, Any]

FIELDS = {"name": "scalar", "size": "scalar", "spec": "object", "steps": "list", "tags": "set"}
FIELDS |= {"parts": "by_id"}


class Kind:
    """One kind of thing, and its tools."""

    def __init__(self, name: str, random: Random) -> None:
        pick = random.choice
        self.name = name
        self.fields = {
            one: FIELDS[one]
            for one in ["name", *random.sample(sorted(FIELDS)[1:], pick([1, 2, 4]))]
        }
        self.envelope = pick([[], ["data"], ["result", "item"]])
        self.merges = pick([True, False])
        self.gives_ids = pick([True, False])
        self.absent = pick(["error", "null", "error_body", "empty_list"])
        self.removal = pick(["hard", "soft", "none"])
        self.honours = pick([True, False])
        self.etags = pick([True, False])
        self.remakes = not self.merges and self.removal == "hard" and pick([True, False, False])
        self.halves = pick([True, False])
        self.says = pick(["nothing", "thing", "text"])

    # -- the tools

    def view(self, it: World) -> Any:
        shown: Any = {**it["fields"], "etag": it["etag"], "seen": it["seen"]}
        for step in reversed(self.envelope):
            shown = {step: shown}
        return {"found": [shown]} if self.absent == "empty_list" else shown

    def read(self, w: World, id: str) -> Any:
        it = w[self.name].get(id)
        if it is not None:
            it["seen"] += 1  # no state, and moves all the same
            return self.view(it)
        match self.absent:
            case "error":
                raise ToolError(f"no {self.name} {id}")
            case "error_body":
                return {"error": {"code": "missing", "id": id}}
            case "null":
                shown: Any = None
                for step in reversed(self.envelope or ["data"]):
                    shown = {step: shown}
                return shown
        return {"found": []}

    def answer(self, it: World, id: str) -> Any:
        shown = {"id": id, **it["fields"]}
        return {"nothing": {"ok": True}, "thing": shown, "text": f"Saved {id}."}[self.says]

    def _changed(self, w: World, it: World) -> None:
        w["n"] += 1
        it["etag"] = f"E{w['n']}"

    def _at(self, w: World, id: str, etag: str | None = None) -> World:
        if id not in w[self.name]:
            raise ToolError(f"no {self.name} {id}")
        it: World = w[self.name][id]
        if etag is not None and etag != it["etag"]:
            raise ToolError("412: it has changed")
        return it

    def make(self, w: World, fields: World, id: str | None = None) -> Any:
        w["n"] += 1
        if self.gives_ids:
            id = f"{self.name}{w['n']}"
        if id is None or id in w[self.name]:
            raise ToolError("409: it is there")
        w[self.name][id] = {"fields": self.whole(fields), "etag": "", "seen": 0, "born": w["n"]}
        self._changed(w, w[self.name][id])
        return {"created": {"id": id}}

    def whole(self, fields: World) -> World:
        return {one: fields.get(one, empty(kind)) for one, kind in self.fields.items()}

    def update(self, w: World, id: str, fields: World, etag: str | None = None) -> Any:
        it = self._at(w, id, etag)
        if set(fields) - set(self.fields):
            raise ToolError("400: no such field")
        it["fields"] = {**it["fields"], **fields} if self.merges else self.whole(fields)
        self._changed(w, it)
        return self.answer(it, id)

    def update_many(self, w: World, ids: list[str], name: str) -> Any:
        done = []
        for id_ in ids:
            if id_ not in w[self.name]:
                if self.halves:
                    return {"error": f"no {self.name} {id_}", "done": done}
                raise ToolError(f"no {self.name} {id_}")
            it = w[self.name][id_]
            it["fields"]["name"] = name
            self._changed(w, it)
            done.append(id_)
        return {"done": done}

    def remove(self, w: World, id: str) -> Any:
        self._at(w, id)
        gone = w[self.name].pop(id)
        if self.removal == "soft":
            w["bin"][f"{self.name} {id}"] = gone
        return {"ok": True}

    def restore(self, w: World, id: str) -> Any:
        if f"{self.name} {id}" not in w["bin"] or id in w[self.name]:
            raise ToolError(f"nothing to restore: {id}")
        w[self.name][id] = w["bin"].pop(f"{self.name} {id}")
        return {"ok": True}

    def again(self, w: World, id: str, fields: World) -> Any:
        born = self._at(w, id)["born"]
        w["n"] += 1
        made = {"fields": self.whole(fields), "etag": "", "seen": 0, "born": max(born, w["n"])}
        w[self.name][id] = made
        self._changed(w, made)

    def tools(self) -> dict[str, Callable[..., Any]]:
        found: dict[str, Callable[..., Any]] = {
            "read": self.read, "make": self.make, "update": self.update,
            "update_many": self.update_many,
        }  # fmt: skip
        if self.removal != "none":
            found["remove"] = self.remove
        if self.removal == "soft":
            found["restore"] = self.restore
        return {f"{one}_{self.name}": tool for one, tool in found.items()}

    # -- what its overlay says

    def contracts(self) -> tuple[World, World]:
        """The resource, and the tools."""
        name = self.name
        now = "$.now.found[0]" if self.absent == "empty_list" else "$.now"
        now = ".".join([now, *self.envelope])
        read: World = {"call": f"read_{name}", "args": {"id": one("$.key.id")}}
        match self.absent:
            case "error":
                read["error_is"] = {"absent": f"^no {name}"}
            case "error_body":
                read["error_is"] = {"absent": "missing"}
            case "null":
                null = ".".join(["$.now", *(self.envelope or ["data"])])
                read["absent_if"] = {"equal": [one(null), None]}
            case _:
                read["absent_if"] = {"empty": {"$": "$.now.found[*]"}}
        modes: World = {}
        for field, kind in self.fields.items():
            modes |= {field: "set"} if kind == "set" else {}
            modes |= {field: {"by": "id"}} if kind == "by_id" else {}
        state = {field: one(f"{now}.{field}") for field in self.fields}
        resource = {"key": ["id"], "read": read, "state": state, "compare": modes}
        return {name: resource}, self._tools()

    def _tools(self) -> World:
        name = self.name
        touch = [{name: {"id": one("$.args.id")}}]
        there = {"exists": {"$": f"$.before.{name}[0].name"}}
        was = {field: one(f"$.before.{name}[0].{field}") for field in self.fields}
        tools: World = {}
        made: World = {"class": "irreversible"}
        if self.removal != "none":
            gone = one("$.result.created.id") if self.gives_ids else one("$.args.id")
            made = {"class": "reversible"}
            made["inverse"] = [{"call": f"remove_{name}", "args": {"id": gone}}]
        making: World = {"cases": [made]}
        if self.gives_ids:
            making["makes"] = [{name: {"id": one("$.result.created.id")}}]
        else:
            making["touches"] = touch
        back: World = {"call": f"update_{name}", "args": {"id": one("$.args.id")}}
        if self.merges:
            back["args"]["fields"] = {
                field: value | {"if": f"$.args.fields.{field}"} for field, value in was.items()
            }
        else:
            back["args"]["fields"] = was
        if self.etags:
            at = "$.now.found[0]" if self.absent == "empty_list" else "$.now"
            back["if_match"] = {"etag": one(".".join([at, *self.envelope, "etag"]))}
        inverse = [back]
        if self.remakes and not self.gives_ids:
            inverse = [
                {"call": f"remove_{name}", "args": {"id": one("$.args.id")}},
                {"call": f"make_{name}", "args": {"id": one("$.args.id"), "fields": was}},
            ]
        changing = {"class": "reversible", "narrow": self.merges, "when": there, "inverse": inverse}
        tools[f"make_{name}"] = making
        tools[f"update_{name}"] = {"touches": touch, "cases": [changing]}
        each = f"$.before.{name}[*]"
        fields = {"name": one("$.item.name")}
        if not self.merges:
            fields = {field: one(f"$.item.{field}") for field in self.fields}
        many = {
            "for_each": {"$": each},
            "call": f"update_{name}",
            "args": {"id": one("$.item.key.id"), "fields": fields},
            "skip": {"empty": {"$": "$.item.name"}},
        }
        tools[f"update_many_{name}"] = {
            "touches": [{name: {"id": {"$": "$.args.ids[*]"}}}],
            "cases": [{"class": "reversible", "narrow": self.merges, "inverse": [many]}],
        }
        if self.removal != "none":
            removed: World = {"class": "irreversible"}
            if self.removal == "soft":
                call = {"call": f"restore_{name}", "args": {"id": one("$.args.id")}}
                removed = {"class": "reversible", "when": there, "inverse": [call]}
            elif not self.gives_ids:
                call = {"call": f"make_{name}", "args": {"id": one("$.args.id"), "fields": was}}
                removed = {"class": "reversible", "when": there, "inverse": [call]}
            tools[f"remove_{name}"] = {"touches": touch, "cases": [removed]}
        if self.removal == "soft":
            call = {"call": f"remove_{name}", "args": {"id": one("$.args.id")}}
            case = {"class": "reversible", "inverse": [call]}
            tools[f"restore_{name}"] = {"touches": touch, "cases": [case]}
        if self.honours:
            for tool in tools.values():
                tool["key"] = {"arg": "request_id", "honoured": 3600}
        return tools


def one(path: str) -> World:
    return {"$1": path}


def empty(kind: str) -> Any:
    return {"scalar": "", "object": {}, "list": [], "set": [], "by_id": []}[kind]


def value(kind: str, mark: str, random: Random) -> Any:
    more = random.choice(["x", "y"])
    return {
        "scalar": mark,
        "object": {"by": mark, more: {"deep": random.choice([1, True, None, "1"])}},
        "list": random.choice([[mark], [mark, more, mark], []]),
        "set": random.choice([[mark, more], [more], []]),
        "by_id": random.choice([[{"id": more, "of": mark}, {"id": 7, "of": mark}], []]),
    }[kind]


def drawn(seed: str) -> Any:
    """The module that a number draws."""
    random = Random(seed)
    kinds = [Kind(name, random) for name in ("crate", "robot", "note")]
    tools = {name: tool for kind in kinds for name, tool in kind.tools().items()}
    resources: World = {}
    contracts: World = {}
    for kind in kinds:
        resource, own = kind.contracts()
        resources |= resource
        contracts |= own

    def start() -> World:
        w: World = {"n": 0, "bin": {}}
        draw = Random(f"{seed} start")
        for kind in kinds:
            w[kind.name] = {}
            for id_ in ("a", "b"):
                fields = {
                    field: value(what, f"first-{id_}", draw) for field, what in kind.fields.items()
                }
                w["n"] += 1
                w[kind.name][id_] = {"fields": fields, "etag": "E0", "seen": 0, "born": w["n"]}
        return w

    def leaves(w: World) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for kind in kinds:
            for id_, it in w[kind.name].items():
                for field, what in kind.fields.items():
                    _flat(found, f"{kind.name}|{id_}|{field}", it["fields"][field], what)
        return found

    def acts(w: World, draw: Random, mark: str) -> list[tuple[str, World]]:
        kind = draw.choice(kinds)
        id_ = draw.choice([*sorted(w[kind.name]), "new", "other"])
        fields = {
            field: value(what, mark, draw)
            for field, what in kind.fields.items()
            if draw.random() < 0.6 or not kind.merges
        }
        given = {} if kind.gives_ids else {"id": draw.choice(["new", "other"])}
        ids = draw.sample([*sorted(w[kind.name]), "nobody"], 2) if w[kind.name] else ["nobody"]
        calls: list[tuple[str, World]] = [
            ("make", {"fields": fields, **given}),
            ("update", {"id": id_, "fields": fields}),
            ("update", {"id": id_, "fields": fields}),
            ("update_many", {"ids": ids, "name": mark}),
            ("remove", {"id": id_}),
            ("restore", {"id": draw.choice(["a", "b", "new", id_])}),
        ]
        named = [(f"{name}_{kind.name}", args) for name, args in calls]
        return [call for call in named if call[0] in tools]

    def strange(w: World, draw: Random, mark: str) -> list[tuple[str, World]]:
        kind = draw.choice(kinds)
        fields = {field: value(what, mark, draw) for field, what in kind.fields.items()}
        id_ = draw.choice([*sorted(w[kind.name]), "new"])
        return [*acts(w, draw, mark), (f"again_{kind.name}", {"id": id_, "fields": fields})]

    own_server = {"resources": resources, "tools": contracts}
    return SimpleNamespace(
        OVERLAY=json.dumps({"contract": 1, "servers": {"drawn": own_server}}),
        READS={f"read_{kind.name}" for kind in kinds},
        TOOLS=tools,
        STRANGE={f"again_{kind.name}": kind.again for kind in kinds},
        HONOURS={name for kind in kinds if kind.honours for name in kind.tools()},
        start=start,
        leaves=leaves,
        acts=acts,
        strange=strange,
        kinds=kinds,
    )


def _flat(found: World, at: str, given: Any, how: str) -> None:
    if how == "by_id":
        for element in given:
            _flat(found, f"{at}|{element['id']}", element, "object")
    elif how == "set":
        for element in dict.fromkeys(given):
            found[f"{at}|{json.dumps(element)}"] = element
    elif isinstance(given, dict) and given:
        for name, member in given.items():
            _flat(found, f"{at}|{name}", member, "object")
    elif isinstance(given, list) and given:
        for n, member in enumerate(given):
            _flat(found, f"{at}|{n}", member, "object")
    else:
        found[at] = json.dumps(given) if not isinstance(given, str) else given
