"""The shape of a workflow: which members of it must be of which type. Unknown ones are free.

Lenient where files in the field differ (a member may be absent, a link may lead nowhere), strict
where a wrong type would break a reader: what passes here needs no second look anywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from turnback.core.values import DEEPEST, Path, check, refuse

Json = Mapping[str, Any]  # an object of the document; nobody changes it

Ends = tuple[str, str | None, str, str | None]

_TEXT: Json = {"type": "string"}
_OBJECT: Json = {"type": "object"}


def _objects(required: str, **members: Json) -> Json:
    """A list of objects that have a `required` text and, where they have `members`, those so."""
    properties = {required: _TEXT, **members}
    return {
        "type": "array",
        "items": {"type": "object", "properties": properties, "required": [required]},
    }


_PORTS = _objects("portID")
_END: Json = {
    "type": "object",
    "properties": {"operatorID": _TEXT, "portID": _TEXT},
    "required": ["operatorID"],
}
_LINKS = _objects("linkID", source=_END, target=_END)
_LINKS["items"]["required"].extend(("source", "target"))

SCHEMA: Json = {
    "type": "object",
    "description": "A workflow document. Ids are unique in their list; members that are not named "
    "here are kept as they are.",
    "properties": {
        "operators": _objects(
            "operatorID",
            operatorType=_TEXT,
            operatorProperties=_OBJECT,
            inputPorts=_PORTS,
            outputPorts=_PORTS,
        ),
        "links": _LINKS,
        "commentBoxes": _objects("commentBoxID", commentBoxPosition=_OBJECT),
        "operatorPositions": {"type": "object", "additionalProperties": _OBJECT},
        "settings": _OBJECT,
    },
}
"""What `check_document` asks of a document's shape, as JSON Schema."""

# Containers around an operator, a link, a comment box or a position: the document and its member.
AROUND = 2


def check_document(document: object, *, max_depth: int) -> None:
    """Raise `InvalidWorkflow`, with the path, unless this is a workflow that can be held."""
    if type(document) is not dict:
        refuse((), "A workflow is a JSON object")
    check(document, (), min(max_depth, DEEPEST))
    _check_list(document, "operators", check_operator, "operatorID")
    _check_list(document, "links", check_link, "linkID")
    _check_list(document, "commentBoxes", check_comment, "commentBoxID")
    _typed(document, (), "settings", dict)
    _typed(document, (), "operatorPositions", dict)
    for name, position in document.get("operatorPositions", {}).items():
        _object(position, ("operatorPositions", name))


def check_operator(operator: object, path: Path) -> None:
    """An object with an `operatorID`; type, properties and ports as they are used, if present."""
    members = _object(operator, path)
    _named(members, path, "operatorID")
    _typed(members, path, "operatorType", str)
    _typed(members, path, "operatorProperties", dict)
    for side in ("inputPorts", "outputPorts"):
        _typed(members, path, side, list)
        for index, port in enumerate(members.get(side, ())):
            _named(_object(port, (*path, side, index)), (*path, side, index), "portID")


def check_link(link: object, path: Path) -> None:
    """An object with a `linkID` and two ends, each naming an operator and, mostly, a port."""
    members = _object(link, path)
    _named(members, path, "linkID")
    for end in ("source", "target"):
        place = (*path, end)
        there = _object(members.get(end), place)
        _named(there, place, "operatorID")
        _typed(there, place, "portID", str)


def link_ends(link: Json) -> Ends:
    """What a link joins: operatorID and portID of its source, and of its target."""
    source, target = link["source"], link["target"]
    return source["operatorID"], source.get("portID"), target["operatorID"], target.get("portID")


def check_comment(comment: object, path: Path) -> None:
    """An object with a `commentBoxID`."""
    members = _object(comment, path)
    _named(members, path, "commentBoxID")
    _typed(members, path, "commentBoxPosition", dict)


def _check_list(
    document: Json, member: str, check_item: Callable[[object, Path], None], id_member: str
) -> None:
    _typed(document, (), member, list)
    seen = set()
    for index, item in enumerate(document.get(member, ())):
        check_item(item, (member, index))
        if item[id_member] in seen:
            refuse((member, index, id_member), f"A second `{id_member}` like this; ids are unique")
        seen.add(item[id_member])


def _object(value: object, path: Path) -> Json:
    if type(value) is not dict:
        refuse(path, "This must be an object")
    return value


def _named(members: Json, path: Path, name: str) -> None:
    if type(members.get(name)) is not str:
        refuse((*path, name), f"`{name}` must be there and be text")


def _typed(members: Json, path: Path, name: str, kind: type) -> None:
    if name in members and type(members[name]) is not kind:
        wanted = {"str": "text", "list": "a list", "dict": "an object"}[kind.__name__]
        refuse((*path, name), f"`{name}` must be {wanted}, or left out")
