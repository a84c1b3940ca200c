"""A naive model of the canvas document: what a person's edit or an agent's call makes of it.

Plain JSON values, copied whole, nothing shared with `core.workflow`. Where the server is free to
choose (the id of a new link, the place of a new operator) the model leaves `OPEN`, and `filled`
takes what the server chose, if it was fit to choose it.
"""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import orjson
from jsonschema import Draft202012Validator

from turnback.agent.canvas import CANVAS_TOOLS
from turnback.core.operators import CATALOG

Document = dict[str, Any]

OPEN = "<open>"
MEMBERS = {
    "operators": list,
    "operatorPositions": dict,
    "links": list,
    "commentBoxes": list,
    "settings": dict,
}
WIDTH, HEIGHT = 240, 120  # of an operator on the canvas, in pixels


class Refused(Exception):
    """The edit or the call cannot be made of this document."""


def canonical(document: Any) -> str:
    """A JSON value as text: the order of members counts, white space does not."""
    return orjson.dumps(document).decode()


def edited(document: Document, edits: list[dict[str, Any]]) -> Document:
    """The document after a person's edits; raises `Refused`."""
    draft = _Draft(document)
    for edit in edits:
        draft.edit(edit)
        draft.document()
    return draft.document()


def called(document: Document, name: str, args: Any) -> tuple[Document, str]:
    """The document after an agent's call, and the call's output; raises `Refused`."""
    if name not in CANVAS_TOOLS or not isinstance(args, dict):
        raise Refused
    args = {key: value for key, value in args.items() if value is not None}
    if not Draft202012Validator(CANVAS_TOOLS[name].schema).is_valid(args):
        raise Refused
    draft = _Draft(document)
    match name:
        case "addOperator":
            output = draft.add(args)
        case "modifyOperator":
            output = draft.modify(args)
        case "deleteOperator":
            draft.edit({"op": "removeOperator", "operatorID": args["operatorId"]})
            output = f"Deleted operator: {args['operatorId']}"
        case _:
            output = canonical(document)
    return draft.document(), output


def filled(expected: Document, actual: Document, before: Document) -> Document:
    """`expected` with what the server chose for `OPEN` in `actual`, which must be fit for it."""
    expected = deepcopy(expected)
    taken = {link["linkID"] for link in before.get("links", ())}
    for at, link in enumerate(expected.get("links", ())):
        if link["linkID"] == OPEN:
            link["linkID"] = chosen = actual["links"][at]["linkID"]
            assert chosen not in taken, f"the link id {chosen} was in use"
            taken.add(chosen)
    positions = expected.get("operatorPositions", {})
    standing = {operator["operatorID"] for operator in before.get("operators", ())}
    for name, position in positions.items():
        if position == OPEN:
            positions[name] = chosen = actual["operatorPositions"][name]
            assert set(chosen) == {"x", "y"}, chosen
            for other, place in before.get("operatorPositions", {}).items():
                stays = other in standing - {name} and positions.get(other) == place
                if stays and {"x", "y"} <= set(place):
                    apart = abs(place["x"] - chosen["x"]), abs(place["y"] - chosen["y"])
                    assert apart[0] >= WIDTH or apart[1] >= HEIGHT, (name, chosen, other, place)
    return expected


class _Draft:
    def __init__(self, document: Document) -> None:
        self._open(document)

    def _open(self, document: Document) -> None:
        self._document = deepcopy(document)
        members = {name: self._document.get(name, kind()) for name, kind in MEMBERS.items()}
        self.operators: list[dict[str, Any]] = members["operators"]
        self.positions: dict[str, Any] = members["operatorPositions"]
        self.links: list[dict[str, Any]] = members["links"]
        self.comments: list[dict[str, Any]] = members["commentBoxes"]
        self.settings: dict[str, Any] = members["settings"]

    def document(self) -> Document:
        """The document now; a member that it did not have comes last, once it is needed."""
        for name, value in {
            "operators": self.operators,
            "operatorPositions": self.positions,
            "links": self.links,
            "commentBoxes": self.comments,
            "settings": self.settings,
        }.items():
            if value or name in self._document:
                self._document[name] = value
        return self._document

    # -- a person's edits

    def edit(self, edit: dict[str, Any]) -> None:
        edit = deepcopy(edit)
        match edit:
            case {"op": "addOperator", "operator": operator}:
                if self._index(self.operators, "operatorID", operator["operatorID"]) is not None:
                    raise Refused
                if operator.get("operatorType") not in CATALOG.types:
                    raise Refused
                self.operators.append(operator)
                if edit.get("position") is not None:
                    self._place(operator["operatorID"], edit["position"])
            case {"op": "changeOperator", "operatorID": name}:
                at = self._found(self.operators, "operatorID", name)
                old = self.operators[at]
                kept = {k: v for k, v in old.items() if k not in edit.get("unset", ())}
                new = {**kept, **edit.get("set", {})}
                if new.get("operatorID") != name:
                    raise Refused
                known = new.get("operatorType", "") in CATALOG.types
                if new.get("operatorType") != old.get("operatorType") and not known:
                    raise Refused
                self.operators[at] = new
            case {"op": "removeOperator", "operatorID": name}:
                del self.operators[self._found(self.operators, "operatorID", name)]
                self.positions.pop(name, None)
                self.links = [link for link in self.links if name not in _ends(link)[::2]]
            case {"op": "moveOperator", "operatorID": name, "position": position}:
                self._found(self.operators, "operatorID", name)
                self._place(name, position)
            case {"op": "addLink", "link": link}:
                if "linkID" not in link:
                    link = {"linkID": OPEN, **link}
                elif self._index(self.links, "linkID", link["linkID"]) is not None:
                    raise Refused
                self._check_ends(link)
                self.links.append(link)
            case {"op": "changeLink", "linkID": name, "set": values}:
                at = self._found(self.links, "linkID", name)
                new = {**self.links[at], **values}
                if new["linkID"] != name:
                    raise Refused
                if _ends(new) != _ends(self.links[at]):
                    self._check_ends(new)
                self.links[at] = new
            case {"op": "removeLink", "linkID": name}:
                del self.links[self._found(self.links, "linkID", name)]
            case {"op": "addComment", "comment": comment}:
                if self._index(self.comments, "commentBoxID", comment["commentBoxID"]) is not None:
                    raise Refused
                self.comments.append(comment)
            case {"op": "changeComment", "commentBoxID": name, "set": values}:
                at = self._found(self.comments, "commentBoxID", name)
                self.comments[at] = {**self.comments[at], **values}
            case {"op": "removeComment", "commentBoxID": name}:
                del self.comments[self._found(self.comments, "commentBoxID", name)]
            case {"op": "moveComment", "commentBoxID": name, "position": position}:
                at = self._found(self.comments, "commentBoxID", name)
                box = self.comments[at]
                place = {**box.get("commentBoxPosition", {}), **position}
                self.comments[at] = {**box, "commentBoxPosition": place}
            case {"op": "changeSettings"}:
                for name in edit.get("unset", ()):
                    self.settings.pop(name, None)
                self.settings |= edit.get("set", {})
            case {"op": "replaceWorkflow", "workflow": document}:
                self._open(document)
            case _:
                raise AssertionError(edit)

    def _place(self, name: str, position: Any) -> None:
        if position == OPEN:
            self.positions[name] = OPEN
        else:
            self.positions[name] = {**self.positions.get(name, {}), **position}

    def _check_ends(self, link: dict[str, Any]) -> None:
        source, source_port, target, target_port = _ends(link)
        if source == target or any(_ends(other) == _ends(link) for other in self.links):
            raise Refused
        outputs = self.operators[self._found(self.operators, "operatorID", source)]
        inputs = self.operators[self._found(self.operators, "operatorID", target)]
        if source_port not in _ports(outputs, "outputPorts"):
            raise Refused
        if target_port not in _ports(inputs, "inputPorts"):
            raise Refused

    # -- an agent's calls

    def add(self, args: dict[str, Any]) -> str:
        name, kind = args["operatorId"], CATALOG.types[args["operatorType"]]
        properties = args.get("properties", {})
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,128}", name):
            raise Refused
        _check_properties(args["operatorType"], properties)
        schemas = kind.properties["properties"]
        defaults = {n: s["default"] for n, s in schemas.items() if "default" in s}
        operator = {
            "operatorID": name,
            "operatorType": args["operatorType"],
            "operatorVersion": "N/A",
            "operatorProperties": {**defaults, **properties},
            "inputPorts": [dict(port) for port in kind.input_ports],
            "outputPorts": [dict(port) for port in kind.output_ports],
            "showAdvanced": False,
            "isDisabled": False,
            "customDisplayName": args.get("summary", "").strip() or kind.label,
            "dynamicInputPorts": kind.dynamic_ports,
            "dynamicOutputPorts": kind.dynamic_ports,
        }
        wanted = self._wanted(operator, args.get("inputOperatorIds", {}))
        self.edit({"op": "addOperator", "operator": operator, "position": OPEN})
        self.document()
        created = self._join(wanted, name)
        ports = f"input ports: {len(kind.input_ports)}, output ports: {len(kind.output_ports)}"
        return f"Added operator {name}, {ports}{_told('created', created, name)}"

    def modify(self, args: dict[str, Any]) -> str:
        name = args["operatorId"]
        at = self._found(self.operators, "operatorID", name)
        operator = dict(self.operators[at])
        if "properties" in args:
            _check_properties(operator.get("operatorType", ""), args["properties"])
            old = operator.get("operatorProperties", {})
            operator["operatorProperties"] = {**old, **args["properties"]}
        if "summary" in args:
            operator["customDisplayName"] = args["summary"].strip()
        self.operators[at] = operator
        deleted, created = [], []
        if "inputOperatorIds" in args:
            wanted = self._wanted(operator, args["inputOperatorIds"])
            kept = []
            for link in self.links:
                source, _, target, port = _ends(link)
                if target != name:
                    kept.append(link)
                elif (source, port) in wanted:
                    wanted.remove((source, port))
                    kept.append(link)
                else:
                    deleted.append(source)
            self.links = kept
            created = self._join(wanted, name)
        told = f"{_told('deleted', deleted, name)}{_told('created', created, name)}"
        return f"Operator {name} modified{told}"

    def _wanted(self, operator: dict[str, Any], inputs: dict[str, Any]) -> list[tuple[str, str]]:
        ports = _ports(operator, "inputPorts")
        wanted = []
        for key, sources in inputs.items():
            if key.isdecimal() and int(key) < len(ports):
                key = ports[int(key)]
            if key not in ports:
                raise Refused
            wanted += [(source, key) for source in sources]
        return wanted

    def _join(self, wanted: list[tuple[str, str]], target: str) -> list[str]:
        for source, port in wanted:
            feeding = self.operators[self._found(self.operators, "operatorID", source)]
            outputs = _ports(feeding, "outputPorts")
            if not outputs:
                raise Refused
            ends = {
                "source": {"operatorID": source, "portID": outputs[0]},
                "target": {"operatorID": target, "portID": port},
            }
            self.edit({"op": "addLink", "link": ends})
        return [source for source, _ in wanted]

    # -- finding

    def _index(self, items: list[dict[str, Any]], member: str, name: str) -> int | None:
        found = [at for at, item in enumerate(items) if item[member] == name]
        return found[0] if found else None

    def _found(self, items: list[dict[str, Any]], member: str, name: str) -> int:
        at = self._index(items, member, name)
        if at is None:
            raise Refused
        return at


def _ends(link: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    source, target = link["source"], link["target"]
    return (
        source.get("operatorID"),
        source.get("portID"),
        target.get("operatorID"),
        target.get("portID"),
    )


def _ports(operator: dict[str, Any], side: str) -> list[str]:
    return [port["portID"] for port in operator.get(side, ())]


def _check_properties(operator_type: str, properties: dict[str, Any]) -> None:
    if operator_type in CATALOG.types:
        schema = {**CATALOG.types[operator_type].properties, "required": []}
        if not Draft202012Validator(schema).is_valid(properties):
            raise Refused


def _told(done: str, sources: list[str], target: str) -> str:
    links = ", ".join(f"{source} --> {target}" for source in sources)
    return f", {done} links: [{links}]" if sources else ""
