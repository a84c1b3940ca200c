"""What differs between two versions of a workflow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from turnback.core.workflow.document import KNOWN, Workflow
from turnback.core.workflow.shape import Json, link_ends

_LISTS = ("operators", "operatorPositions", "links", "commentBoxes")

# What can be touched, and its name: ("operator", its id), ("position", the operator's id),
# ("comment", its id), ("setting", its name), ("member", the name of an unknown member of the
# document), and ("link", "op1 output-0 -> op2 input-0"): a link goes by its ends, so that two
# people who draw the same one meet, and an edit can name it before it has an id.
Touch = tuple[
    Literal["operator", "position", "link", "comment", "setting", "member", "workflow"], str
]


@dataclass(frozen=True, slots=True)
class Change:
    """One member that differs; `path` leads to it from the operator, link or settings.

    `before` is None when it was added, `after` when it was removed. "reordered" says that only
    the order of the members differs: `before` and `after` are their names.
    """

    path: tuple[str, ...]
    kind: Literal["added", "removed", "changed", "reordered"]
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Changes:
    """Items of one sort, by id: those added and removed whole, those changed by property."""

    added: Mapping[str, Json]
    removed: Mapping[str, Json]
    changed: Mapping[str, tuple[Change, ...]]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


@dataclass(frozen=True, slots=True)
class Diff:
    """What differs from one version to another. It is false if and only if they are equal.

    `moved` are the operators that stand elsewhere, beside those added and removed. `members` are
    the document's own members: unknown ones that differ, and known ones present in one version
    only. `reordered` names the members whose items are the same in another order.
    """

    operators: Changes
    moved: tuple[str, ...]
    links: Changes
    comments: Changes
    settings: tuple[Change, ...]
    members: tuple[Change, ...]
    reordered: tuple[str, ...]
    touched: frozenset[Touch]

    def __bool__(self) -> bool:
        return any(
            (
                self.operators,
                self.moved,
                self.links,
                self.comments,
                self.settings,
                self.members,
                self.reordered,
            )
        )


def diff(a: Workflow, b: Workflow) -> Diff:
    """What changes from `a` to `b`."""
    before, after = _items(a), _items(b)
    operators, places, links, comments = (_compare(before[n], after[n]) for n in _LISTS)
    moved = tuple(n for n in _names(places) if n not in {*operators.added, *operators.removed})
    settings = tuple(_member_changes(a.settings or {}, b.settings or {}))
    members = tuple(_member_changes(_own_members(a), _own_members(b)))
    return Diff(
        operators=operators,
        moved=moved,
        links=links,
        comments=comments,
        settings=settings,
        members=members,
        reordered=tuple(n for n in _LISTS if _reordered(before[n], after[n])),
        touched=frozenset(
            (
                *(("operator", name) for name in _names(operators)),
                *(("position", name) for name in (*operators.added, *operators.removed, *moved)),
                *(
                    link_touch(side["links"][name])
                    for name in _names(links)
                    for side in (before, after)
                    if name in side["links"]
                ),
                *(("comment", name) for name in _names(comments)),
                *(("setting", name) for change in settings for name in change.path[:1]),
                *(("member", name) for c in members for name in c.path[:1] if name not in KNOWN),
            )
        ),
    )


def link_touch(link: Json) -> Touch:
    """What a link that is drawn, changed or removed touches."""
    source, source_port, target, target_port = link_ends(link)
    return "link", f"{source} {source_port} -> {target} {target_port}"


def _items(workflow: Workflow) -> dict[str, Mapping[str, Json]]:
    """What the document holds, by member and id."""
    return {
        "operators": workflow.operators,
        "operatorPositions": workflow.positions,
        "links": {link["linkID"]: link for link in workflow.links},
        "commentBoxes": {box["commentBoxID"]: box for box in workflow.comments},
    }


def _own_members(workflow: Workflow) -> dict[str, Any]:
    """The document's own members, without the content of those that are compared apart."""
    return {name: workflow.other.get(name) for name in workflow.members}


def same(a: object, b: object) -> bool:
    """Whether two JSON values are equal, the order of members counting."""
    # By canonical JSON: `==` takes 1, 1.0 and true for the same, and misses the order of members.
    return a is b or orjson.dumps(a) == orjson.dumps(b)


def _compare(before: Mapping[str, Json], after: Mapping[str, Json]) -> Changes:
    return Changes(
        added={name: item for name, item in after.items() if name not in before},
        removed={name: item for name, item in before.items() if name not in after},
        changed={
            name: tuple(_member_changes(item, after[name]))
            for name, item in before.items()
            if name in after and not same(item, after[name])
        },
    )


def _member_changes(before: Json, after: Json, path: tuple[str, ...] = ()) -> Iterator[Change]:
    """The members that differ; an operator's properties one by one."""
    differ = [
        name
        for name in {**before, **after}
        if name not in before or name not in after or not same(before[name], after[name])
    ]
    for name in differ:
        here = (*path, name)
        a, b = before.get(name), after.get(name)
        if name not in before:
            yield Change(here, "added", None, b)
        elif name not in after:
            yield Change(here, "removed", a, None)
        elif here == ("operatorProperties",):
            yield from _member_changes(before[name], after[name], here)
        else:
            yield Change(here, "changed", a, b)
    if not differ and list(before) != list(after):
        yield Change(path, "reordered", list(before), list(after))


def _reordered(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    return [n for n in before if n in after] != [n for n in after if n in before]


def _names(changes: Changes) -> tuple[str, ...]:
    return (*changes.added, *changes.removed, *changes.changed)
