"""A wiki that remembers: pages with revisions, moves that leave redirects, and a crontab beside it.

Its answers are prose where a vendor was lazy: an error is a sentence in a success, a page is text.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from vendors.host import ToolError

World = dict[str, Any]

READS = {"read_talk", "read_page", "list_pages", "read_crontab", "read_protection"}

OVERLAY = Path(__file__).with_suffix(".yaml").read_text()


def start() -> World:
    return {
        "n": 3,
        "pages": {
            "Home": {"text": "Welcome", "revision": 1},
            "Team": {"text": "Us", "revision": 2},
        },
        "revisions": {"Home": {"1": "Welcome"}, "Team": {"2": "Us"}},
        "deleted": {},
        "talks": {},
        "protection": {},
        "crontab": "0 1 * * * backup\n5 2 * * 1 report\n",
    }


def leaves(w: World) -> dict[str, Any]:
    found: dict[str, Any] = {"crontab||lines": w["crontab"]}
    found |= {f"talk|{n}|text": text for n, text in w["talks"].items()}
    for title, it in w["pages"].items():
        found[f"page|{title}|text"] = it["text"]
        if "redirect" in it:
            found[f"page|{title}|redirect|0"] = it["redirect"]
    for title in {*w["pages"], *w["protection"], "New", "Draft", "Home", "Team"}:
        found[f"protection|{title}|level"] = w["protection"].get(title, "all")
    return found


def read_page(w: World, title: str) -> Any:
    it = w["pages"].get(title)
    return {"missing": True} if it is None else dict(it)


def read_protection(w: World, title: str) -> Any:
    return {"level": w["protection"].get(title, "all")}


def read_crontab(w: World) -> Any:
    return w["crontab"]  # text


def list_pages(w: World) -> Any:
    return "\n".join(sorted(w["pages"]))


def _write(w: World, title: str, text: str) -> str:
    w["n"] += 1
    w["pages"][title] = {"text": text, "revision": w["n"]}
    if text.startswith("#REDIRECT "):
        w["pages"][title]["redirect"] = text.removeprefix("#REDIRECT ")
    w["revisions"].setdefault(title, {})[str(w["n"])] = text
    return f"Saved {title} as revision {w['n']}."


def _closed(w: World, title: str) -> str | None:
    if w["protection"].get(title) == "nobody":
        return f"Sorry, {title} is protected."
    return None


def edit_page(w: World, title: str, text: str, base: int | None = None) -> Any:
    if base is not None and w["pages"].get(title, {}).get("revision") != base:
        return f"Conflict: {title} has changed since revision {base}."
    return _closed(w, title) or _write(w, title, text)


def append_page(w: World, title: str, text: str) -> Any:
    if title not in w["pages"]:
        return f"Sorry, there is no page {title}."
    return _closed(w, title) or _write(w, title, w["pages"][title]["text"] + text)


def rollback(w: World, title: str, to: int, base: int | None = None) -> Any:
    if str(to) not in w["revisions"].get(title, {}):
        return "Sorry, no such revision."
    if base is not None and w["pages"].get(title, {}).get("revision") != base:
        return f"Conflict: {title} has changed since revision {base}."
    return _closed(w, title) or _write(w, title, w["revisions"][title][str(to)])


def delete_page(w: World, title: str) -> Any:
    if title not in w["pages"]:
        return f"Sorry, there is no page {title}."
    if closed := _closed(w, title):
        return closed
    w["deleted"][title] = w["pages"].pop(title)
    return f"Deleted {title}."


def undelete_page(w: World, title: str) -> Any:
    if title not in w["deleted"] or title in w["pages"]:
        return f"Sorry, {title} cannot be restored."
    w["pages"][title] = w["deleted"].pop(title)
    return f"Restored {title}."


def move_page(w: World, to: str, **more: str) -> Any:
    title = more["from"]
    if title not in w["pages"] or to in w["pages"]:
        return "Sorry, that is not possible."
    if closed := _closed(w, title):
        return closed
    w["pages"][to] = w["pages"].pop(title)
    w["revisions"][to] = {**w["revisions"].get(to, {}), **w["revisions"].pop(title, {})}
    _write(w, title, f"#REDIRECT {to}")
    return f"Moved to {to}."


def open_talk(w: World, title: str, text: str) -> Any:
    if title not in w["pages"]:
        return f"Sorry, there is no page {title}."
    w["n"] += 1
    w["talks"][str(w["n"])] = f"{title}: {text}"
    return f"Opened talk #{w['n']} on {title}. Others may write to talk #{w['n']} now."


def read_talk(w: World, n: int) -> Any:
    if not isinstance(n, int):
        return "Sorry, a talk has a number."
    return w["talks"].get(str(n), "There is no such talk.")


def delete_talk(w: World, n: int) -> Any:
    if not isinstance(n, int) or str(n) not in w["talks"]:
        return "Sorry, there is no such talk."
    del w["talks"][str(n)]
    return f"Deleted talk #{n}."


def protect(w: World, title: str, level: str) -> Any:
    w["protection"][title] = level
    return "ok"


def write_crontab(w: World, text: str) -> Any:
    if text and not text.endswith("\n"):
        raise ToolError("premature EOF")
    w["crontab"] = text
    return "installed"


def add_cron(w: World, line: str) -> Any:
    w["crontab"] += line + "\n"
    return "installed"


def drop_cron(w: World, n: int) -> Any:
    lines = w["crontab"].splitlines(keepends=True)
    if not 0 < n <= len(lines):
        raise ToolError("no such line")
    del lines[n - 1]
    w["crontab"] = "".join(lines)
    return "installed"


TOOLS = {
    f.__name__: f
    for f in (
        open_talk, read_talk, delete_talk, read_page, read_protection, read_crontab, list_pages,
        edit_page, append_page, rollback,
        delete_page, undelete_page, move_page, protect, write_crontab, add_cron, drop_cron,
    )
}  # fmt: skip
STRANGE: dict[str, Any] = {}


def acts(w: World, random: Random, mark: str) -> list[tuple[str, dict[str, Any]]]:
    titles = ["Home", "Team", "New", "Draft"]
    title = random.choice(titles)
    revisions = [int(n) for n in w["revisions"].get(title, {})] or [99]
    return [
        ("edit_page", {"title": title, "text": mark}),
        ("edit_page", {"title": title, "text": mark, "base": random.choice(revisions)}),
        ("append_page", {"title": title, "text": mark}),
        ("rollback", {"title": title, "to": random.choice(revisions)}),
        ("delete_page", {"title": title}),
        ("undelete_page", {"title": random.choice(titles)}),
        ("move_page", {"from": title, "to": random.choice(titles)}),
        ("protect", {"title": title, "level": random.choice(["nobody", "staff", "all"])}),
        ("write_crontab", {"text": f"0 1 * * * {mark}\n"}),
        ("add_cron", {"line": f"1 1 * * * {mark}"}),
        ("drop_cron", {"n": random.choice([1, 2, 9])}),
        ("open_talk", {"title": title, "text": mark}),
        *[("delete_talk", {"n": int(n)}) for n in w["talks"] if random.random() < 0.3],
    ]


strange = acts
