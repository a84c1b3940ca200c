"""A storage bucket: objects with versions, in folders that are removed with all in them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from vendors.host import ToolError

World = dict[str, Any]

READS = {"get_object", "stat_folder"}

OVERLAY = Path(__file__).with_suffix(".yaml").read_text()


def start() -> World:
    return {
        "n": 5,
        "objects": {
            "docs/a.txt": {"body": "one", "tags": {"team": "x"}, "version": "v1"},
            "docs/b.txt": {"body": "two", "tags": {}, "version": "v2"},
            "img/logo": {"body": "png", "tags": {}, "version": "v3"},
        },
        "folders": {"docs": 1, "img": 2},
        "versions": {
            "docs/a.txt": {"v1": ["one", {"team": "x"}]},
            "docs/b.txt": {"v2": ["two", {}]},
            "img/logo": {"v3": ["png", {}]},
        },
    }


def leaves(w: World) -> dict[str, Any]:
    found: dict[str, Any] = {f"folder|{path}|made": made for path, made in w["folders"].items()}
    for path, it in w["objects"].items():
        found[f"object|{path}|body"] = it["body"]
        for name, value in it["tags"].items():
            found[f"object|{path}|tags|{name}"] = value
        if not it["tags"]:
            found[f"object|{path}|tags"] = "{}"
    return found


def _plain(path: str) -> str:
    return "/".join(part for part in path.split("/") if part not in ("", "."))


def _object(w: World, path: str) -> World:
    if _plain(path) not in w["objects"]:
        raise ToolError(f"NoSuchKey: {path}")
    found: World = w["objects"][_plain(path)]
    return found


def _store(w: World, path: str, body: str, tags: World) -> str:
    path = _plain(path)
    folder = path.rpartition("/")[0]
    if folder and folder not in w["folders"]:
        raise ToolError(f"NoSuchKey: folder {folder}")
    w["n"] += 1
    version = f"v{w['n']}"
    w["objects"][path] = {"body": body, "tags": dict(tags), "version": version}
    w["versions"].setdefault(path, {})[version] = [body, dict(tags)]
    return version


def get_object(w: World, path: str) -> Any:
    return {"path": _plain(path), **_object(w, path)}


def stat_folder(w: World, path: str) -> Any:
    if path not in w["folders"]:
        raise ToolError("NoSuchKey")
    return {
        "made": w["folders"][path],
        "objects": [one for one in w["objects"] if one.startswith(f"{path}/")],
        "folders": [one for one in w["folders"] if one.startswith(f"{path}/")],
    }


def put_object(w: World, path: str, body: str) -> Any:
    tags = w["objects"].get(_plain(path), {"tags": {}})["tags"]
    return {"version": _store(w, path, body, tags)}


def tag_object(w: World, path: str, tags: World) -> Any:
    it = _object(w, path)
    merged = {**it["tags"], **tags}
    kept = {name: value for name, value in merged.items() if value is not None}
    return {"version": _store(w, path, it["body"], kept)}


def restore_version(w: World, path: str, version: str) -> Any:
    there = w["versions"].get(_plain(path), {})
    if version not in there:
        raise ToolError("NoSuchVersion")
    body, tags = there[version]
    return {"version": _store(w, path, body, tags)}


def delete_object(w: World, path: str) -> Any:
    w["objects"].pop(_plain(path), None)
    return {"deleted": True}


def move_object(w: World, to: str, **more: str) -> Any:
    source = _plain(more["from"])
    it = _object(w, source)
    if source == _plain(to):
        raise ToolError("400: the same path")
    version = _store(w, to, it["body"], it["tags"])
    del w["objects"][source]
    return {"version": version}


def make_folder(w: World, path: str) -> Any:
    path = _plain(path)
    above = path.rpartition("/")[0]
    if path in w["folders"] or (above and above not in w["folders"]):
        raise ToolError("409: it is there, or what it lies in is not")
    w["n"] += 1
    w["folders"][path] = w["n"]
    return {"ok": True}


def copy_folder(w: World, source: str, path: str) -> Any:
    """With the objects in it."""
    make_folder(w, path)
    for one, it in list(w["objects"].items()):
        if one.startswith(f"{source}/"):
            _store(w, path + one.removeprefix(source), it["body"], it["tags"])
    return {"ok": True}


def remove_folder(w: World, path: str) -> Any:
    """With everything in it."""
    path = _plain(path)
    if path not in w["folders"]:
        raise ToolError("NoSuchKey")
    for things in (w["objects"], w["folders"]):
        for one in [one for one in things if one == path or one.startswith(f"{path}/")]:
            del things[one]
    return {"ok": True}


TOOLS = {
    f.__name__: f
    for f in (
        get_object, stat_folder, put_object, tag_object, restore_version, delete_object,
        move_object, make_folder, copy_folder, remove_folder,
    )
}  # fmt: skip


def remake_folder(w: World, path: str) -> Any:
    remove_folder(w, path)
    return make_folder(w, path)


STRANGE = {"remake_folder": remake_folder}
HONOURS = {"put_object"}


def acts(w: World, random: Random, mark: str) -> list[tuple[str, dict[str, Any]]]:
    folders = [*sorted(w["folders"]), "new"]
    paths = [*sorted(w["objects"]), "docs/new", "new/x", "new/deep/y"]
    path = random.choice(paths)
    version = random.choice(["v0", *w["versions"].get(path, {})])
    return [
        ("put_object", {"path": path, "body": mark}),
        ("put_object", {"path": f"{random.choice(folders)}//./{mark}", "body": mark}),
        ("tag_object", {"path": path, "tags": {"team": mark}}),
        ("tag_object", {"path": path, "tags": {"new": mark, "team": None}}),
        ("restore_version", {"path": path, "version": version}),
        ("delete_object", {"path": path}),
        ("move_object", {"from": path, "to": random.choice(paths)}),
        ("make_folder", {"path": random.choice(["new", "new/deep", "docs/sub"])}),
        ("make_folder", {"path": random.choice(["new", "new/deep", "docs/sub"])}),
    ]


def strange(w: World, random: Random, mark: str) -> list[tuple[str, dict[str, Any]]]:
    folder = random.choice([*sorted(w["folders"]), "new"])
    removal: tuple[str, dict[str, Any]] = ("remove_folder", {"path": folder})
    return [*acts(w, random, mark), ("remake_folder", {"path": folder}), removal]
