"""A ticket tracker: a workflow with transitions, watchers who get mails, a trash, bulk edits."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from vendors.host import ToolError

World = dict[str, Any]

READS = {"get_ticket", "list_links"}

OVERLAY = Path(__file__).with_suffix(".yaml").read_text()

MOVES = {"open": ["doing"], "doing": ["open", "done"], "done": ["open"]}


def ticket(id: str, title: str, created: int, **more: Any) -> World:
    return {
        "id": id, "title": title, "status": "open", "assignee": None, "labels": [], "watchers": [],
        "tasks": [], "comments": [], "created": created, "updated": 0, **more,
    }  # fmt: skip


def start() -> World:
    return {
        "n": 10,
        "tickets": {
            "T-1": ticket("T-1", "Printer", 1, watchers=["ann", "bo"], labels=["hw"]),
            "T-2": ticket(
                "T-2",
                "Login",
                2,
                status="doing",
                assignee="cy",
                tasks=[{"id": "t1", "text": "ask", "done": False}],
            ),
            "T-3": ticket("T-3", "Logo", 3, comments=[{"id": "c1", "text": "nice"}]),
        },
        "trash": {},
        "links": [["T-1", "T-2"]],
        "mails": [],
    }


def leaves(w: World) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for id_, it in w["tickets"].items():
        at = f"ticket|{id_}|"
        for part in ("title", "status", "assignee", "created"):
            found[at + part] = it[part] if it[part] is not None else "null"
        for part in ("labels", "watchers"):
            for one in it[part]:
                found[f'{at}{part}|"{one}"'] = one
        for part in ("tasks", "comments"):
            for one in it[part]:
                for name, value in one.items():
                    found[f"{at}{part}|{one['id']}|{name}"] = value
    for one, other in w["links"]:
        for id_, to in ((one, other), (other, one)):
            if id_ in w["tickets"]:
                found[f'links|{id_}|to|"{to}"'] = to
    return found


def _at(w: World, id: str) -> World:
    if id not in w["tickets"]:
        raise ToolError(f"404: no ticket {id}")
    w["tickets"][id]["updated"] += 1
    found: World = w["tickets"][id]
    return found


def _new(w: World, prefix: str) -> str:
    w["n"] += 1
    return f"{prefix}{w['n']}"


def get_ticket(w: World, id: str) -> Any:
    it = dict(_at(w, id))
    fields = {name: it.pop(name) for name in ("title", "assignee", "labels")}
    return {**it, "fields": fields, "status": {"name": it["status"], "category": "x"}}


def list_links(w: World, id: str) -> Any:
    _at(w, id)
    return {"links": [b if a == id else a for a, b in w["links"] if id in (a, b)]}


def create_ticket(w: World, title: str) -> Any:
    id_ = _new(w, "T-")
    w["tickets"][id_] = ticket(id_, title, w["n"])
    return {"ticket": {"url": f"https://x/{id_}", **w["tickets"][id_]}}


def edit_ticket(w: World, id: str, **fields: Any) -> Any:
    it = _at(w, id)
    for name in fields:
        if name not in ("title", "assignee", "labels"):
            raise ToolError(f"400: no field {name}")
    it.update(fields)
    return {"ok": True}


def bulk_edit(w: World, ids: list[str], assignee: Any) -> Any:
    for id_ in ids:
        edit_ticket(w, id_, assignee=assignee)
    return {"edited": len(ids)}


def move_ticket(w: World, id: str, to: str) -> Any:
    it = _at(w, id)
    if it["status"] == to:
        return {"ok": True}
    if to not in MOVES[it["status"]]:
        raise ToolError(f"409: no transition from {it['status']} to {to}")
    it["status"] = to
    w["mails"] += [[who, id, to] for who in it["watchers"]]
    return {"ok": True}


def add_watcher(w: World, id: str, user: str) -> Any:
    it = _at(w, id)
    if user in it["watchers"]:
        raise ToolError("409: watches already")
    it["watchers"].append(user)
    return {"added": user}


def remove_watcher(w: World, id: str, user: str) -> Any:
    it = _at(w, id)
    if user not in it["watchers"]:
        return {"ok": True}
    it["watchers"].remove(user)
    return {"ok": True, "removed": user}


def add_task(w: World, id: str, text: str) -> Any:
    task = {"id": _new(w, "t"), "text": text, "done": False}
    _at(w, id)["tasks"].append(task)
    return {"id": task["id"]}


def _task(w: World, id: str, task: str) -> Any:
    for one in _at(w, id)["tasks"]:
        if one["id"] == task:
            return one
    raise ToolError("404: no such task")


def remove_task(w: World, id: str, task: str) -> Any:
    _at(w, id)["tasks"].remove(_task(w, id, task))
    return {}


def toggle_task(w: World, id: str, task: str) -> Any:
    one = _task(w, id, task)
    one["done"] = not one["done"]
    return {"ok": True}


def set_task(w: World, id: str, task: str, done: bool) -> Any:
    _task(w, id, task)["done"] = done
    return {"ok": True}


def comment(w: World, id: str, text: str) -> Any:
    it = _at(w, id)
    it["comments"].append({"id": _new(w, "c"), "text": text})
    w["mails"] += [[who, id, text] for who in it["watchers"]]
    return {"comment_id": it["comments"][-1]["id"]}


def delete_comment(w: World, id: str, comment: str) -> Any:
    it = _at(w, id)
    if not any(one["id"] == comment for one in it["comments"]):
        raise ToolError("404: no such comment")
    it["comments"] = [one for one in it["comments"] if one["id"] != comment]
    return {"ok": True}


def link(w: World, to: str, **more: str) -> Any:
    pair = [more["from"], to]
    for id_ in pair:
        _at(w, id_)
    if pair in w["links"] or pair[::-1] in w["links"] or pair[0] == pair[1]:
        return {"ok": True}
    w["links"].append(pair)
    return {"linked": pair}


def unlink(w: World, to: str, **more: str) -> Any:
    for pair in ([more["from"], to], [to, more["from"]]):
        if pair in w["links"]:
            w["links"].remove(pair)
            return {"unlinked": pair}
    raise ToolError("404: not linked")


def trash_ticket(w: World, id: str) -> Any:
    _at(w, id)
    w["trash"][id] = w["tickets"].pop(id)
    return {"ok": True}


def restore_ticket(w: World, id: str) -> Any:
    if id not in w["trash"]:
        raise ToolError("404: not in the trash")
    w["tickets"][id] = w["trash"].pop(id)
    return {"ok": True}


def drop_ticket(w: World, id: str) -> Any:
    trash_ticket(w, id)
    return {"ok": True}


def recover_ticket(w: World, id: str) -> Any:
    """What was dropped, under a new id."""
    if id not in w["trash"]:
        raise ToolError("404: not in the trash")
    new = _new(w, "T-")
    w["tickets"][new] = {**w["trash"].pop(id), "id": new}
    return {"id": new}


def purge_and_remake(w: World, id: str, title: str) -> Any:
    """Gone for good, and another one under its key."""
    _at(w, id)
    w["n"] += 1
    w["links"] = [pair for pair in w["links"] if id not in pair]
    w["tickets"][id] = ticket(id, title, w["n"])
    return {}


TOOLS = {
    f.__name__: f
    for f in (
        get_ticket, list_links, create_ticket, edit_ticket, bulk_edit, move_ticket, add_watcher,
        remove_watcher, add_task, remove_task, toggle_task, set_task, comment, delete_comment,
        link, unlink, trash_ticket, restore_ticket, drop_ticket,
        recover_ticket,
    )
}  # fmt: skip
STRANGE = {"purge_and_remake": purge_and_remake}
HONOURS = {"create_ticket", "comment"}


def acts(w: World, random: Random, mark: str) -> list[tuple[str, dict[str, Any]]]:
    ids = sorted(w["tickets"]) or ["T-0"]
    id_ = random.choice(ids)
    it = w["tickets"].get(id_, ticket(id_, "", 0))
    calls: list[tuple[str, dict[str, Any]]] = [
        ("create_ticket", {"title": mark}),
        ("edit_ticket", {"id": id_, "title": mark}),
        ("edit_ticket", {"id": id_, "assignee": random.choice([mark, None])}),
        ("edit_ticket", {"id": id_, "title": mark, "labels": [mark, *it["labels"][:1]]}),
        ("bulk_edit", {"ids": random.sample(ids, min(2, len(ids))), "assignee": mark}),
        ("move_ticket", {"id": id_, "to": random.choice(["open", "doing", "done"])}),
        ("add_watcher", {"id": id_, "user": random.choice([mark, "ann"])}),
        ("remove_watcher", {"id": id_, "user": random.choice(["ann", "bo"])}),
        ("add_task", {"id": id_, "text": mark}),
        ("comment", {"id": id_, "text": mark}),
        ("link", {"from": id_, "to": random.choice(ids)}),
        ("unlink", {"from": id_, "to": random.choice(ids)}),
        ("trash_ticket", {"id": id_}),
    ]
    for task in it["tasks"]:
        calls += [("toggle_task", {"id": id_, "task": task["id"]})]
        calls += [("set_task", {"id": id_, "task": task["id"], "done": True})]
        calls += [("remove_task", {"id": id_, "task": task["id"]})]
    return calls


def strange(w: World, random: Random, mark: str) -> list[tuple[str, dict[str, Any]]]:
    ids = sorted(w["tickets"]) or ["T-0"]
    found = acts(w, random, mark)
    found.append(("purge_and_remake", {"id": random.choice(ids), "title": mark}))
    found += [("restore_ticket", {"id": id_}) for id_ in w["trash"]]
    return found
