"""A service for feature flags: documents that are replaced whole, and etags that are held to."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from vendors.host import ToolError

World = dict[str, Any]

READS = {"get_flag"}

OVERLAY = Path(__file__).with_suffix(".yaml").read_text()


def start() -> World:
    return {
        "n": 7,
        "flags": {
            "dark": {
                "doc": {"on": False, "rules": [{"if": "staff", "on": True}], "tags": ["ui"]},
                "archived": False,
                "etag": "e1",
            },
            "beta": {
                "doc": {"on": True, "rules": [], "percent": 20},
                "archived": False,
                "etag": "e2",
            },
            "old": {"doc": {"on": False}, "archived": True, "etag": "e3"},
        },
    }


def leaves(w: World) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def look(at: str, value: Any) -> None:
        if isinstance(value, dict) and value:
            for name, one in value.items():
                look(f"{at}|{name}", one)
        elif isinstance(value, list) and value:
            for n, one in enumerate(value):
                look(f"{at}|{n}", one)
        else:
            found[at] = value if value is not None else "null"

    for key, flag in w["flags"].items():
        look(f"flag|{key}|doc", flag["doc"])
        found[f"flag|{key}|archived"] = flag["archived"]
    return found


def _flag(w: World, key: str, if_match: str | None = None) -> World:
    if key not in w["flags"]:
        raise ToolError(f"not_found: {key}")
    it: World = w["flags"][key]
    if if_match is not None and if_match != it["etag"]:
        raise ToolError("412 precondition failed: the flag has changed")
    return it


def _changed(w: World, it: World) -> Any:
    w["n"] += 1
    it["etag"] = f"e{w['n']}"
    return {"etag": it["etag"]}


def get_flag(w: World, key: str) -> Any:
    return dict(_flag(w, key))


def put_flag(w: World, key: str, doc: World, if_match: str | None = None) -> Any:
    if key not in w["flags"]:
        if if_match is not None:
            raise ToolError("412 precondition failed: there is none")
        w["flags"][key] = {"archived": False}
    it = _flag(w, key, if_match)
    if it["archived"]:
        raise ToolError("409: archived flags are read-only")
    it["doc"] = doc
    return _changed(w, it)


def patch_flag(w: World, key: str, patch: World) -> Any:
    it = _flag(w, key)
    if it["archived"]:
        raise ToolError("409: archived flags are read-only")
    for name, value in patch.items():
        if value is None:
            it["doc"].pop(name, None)
        else:
            it["doc"][name] = value
    return _changed(w, it)


def switch_off(w: World, keys: list[str]) -> Any:
    return {"etags": [patch_flag(w, key, {"on": False}) for key in keys]}


def toggle_flag(w: World, key: str) -> Any:
    it = _flag(w, key)
    return patch_flag(w, key, {"on": not it["doc"]["on"]})


def archive_flag(w: World, key: str, if_match: str | None = None) -> Any:
    it = _flag(w, key, if_match)
    it["archived"] = True
    return _changed(w, it)


def unarchive_flag(w: World, key: str) -> Any:
    it = _flag(w, key)
    it["archived"] = False
    return _changed(w, it)


def delete_flag(w: World, key: str) -> Any:
    if not _flag(w, key)["archived"]:
        raise ToolError("409: archive it first")
    del w["flags"][key]
    return {"ok": True}


TOOLS = {
    f.__name__: f
    for f in (
        get_flag, put_flag, patch_flag, switch_off, toggle_flag, archive_flag, unarchive_flag,
        delete_flag,
    )
}  # fmt: skip


def remake(w: World, key: str, doc: World) -> Any:
    _flag(w, key)
    del w["flags"][key]
    return put_flag(w, key, doc)


STRANGE = {"remake": remake}


def acts(w: World, random: Random, mark: str) -> list[tuple[str, dict[str, Any]]]:
    key = random.choice([*sorted(w["flags"]), "new"])
    doc = {"on": True, "rules": [{"if": mark, "on": False}]}
    return [
        ("put_flag", {"key": key, "doc": doc}),
        ("put_flag", {"key": key, "doc": {"on": False, "note": mark}}),
        ("patch_flag", {"key": key, "patch": {"note": mark}}),
        ("patch_flag", {"key": key, "patch": {"rules": [], "tags": None, "percent": mark}}),
        ("toggle_flag", {"key": key}),
        ("switch_off", {"keys": random.sample(sorted(w["flags"]), min(2, len(w["flags"])))}),
        ("archive_flag", {"key": key}),
        ("unarchive_flag", {"key": key}),
        ("delete_flag", {"key": key}),
    ]


def strange(w: World, random: Random, mark: str) -> list[tuple[str, dict[str, Any]]]:
    key = random.choice([*sorted(w["flags"]), "new"])
    return [*acts(w, random, mark), ("remake", {"key": key, "doc": {"on": False, "by": mark}})]
