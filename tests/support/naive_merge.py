"""A naive three-way merge of canvas documents: item by item, each taken from whoever changed it.

It knows no edits, touches or order. What one side alone has changed is as that side has it; what
both have changed is a clash, unless they have changed it to the same.
"""

from __future__ import annotations

from typing import Any

from naive_canvas import Document, canonical

Items = dict[tuple[str, str], str]


class Clash(Exception):
    """Both sides have changed these items, each in another way."""


def items(document: Document) -> Items:
    """Everything that a document holds, by kind and name, as canonical JSON."""
    held = {
        "operator": {o["operatorID"]: o for o in document.get("operators", ())},
        "position": document.get("operatorPositions", {}),
        "link": {link["linkID"]: link for link in document.get("links", ())},
        "comment": {box["commentBoxID"]: box for box in document.get("commentBoxes", ())},
        "setting": document.get("settings", {}),
        "member": _unknown(document),
    }
    return {(kind, name): canonical(v) for kind, some in held.items() for name, v in some.items()}


def merged(base: Document, mine: Document, theirs: Document) -> Items:
    """The items of the merge. Raises `Clash` with the keys of those that clash."""
    return merged_items(items(base), items(mine), items(theirs))


def merged_items(a: Items, b: Items, c: Items) -> Items:
    """As `merged`, of items: `b` and `c` both began as `a`."""
    found: Items = {}
    clashes = set()
    for key in {*a, *b, *c}:
        if b.get(key) == a.get(key):
            chosen = c.get(key)
        elif c.get(key) in (a.get(key), b.get(key)):
            chosen = b.get(key)
        else:
            clashes.add(key)
            continue
        if chosen is not None:
            found[key] = chosen
    if clashes:
        raise Clash(clashes)
    return found


def _unknown(document: Document) -> dict[str, Any]:
    known = ("operators", "operatorPositions", "links", "commentBoxes", "settings")
    return {name: value for name, value in document.items() if name not in known}
