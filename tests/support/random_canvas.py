"""Random edits of a person and random answers of a model; many fit the canvas, some do not."""

from __future__ import annotations

import asyncio
import random
from itertools import count
from typing import Any

from naive_canvas import Document
from scripted_provider import (
    CUT,
    HANG,
    Answer,
    Item,
    Pause,
    Refusal,
    call,
    call_piece,
    finish,
    text,
    usage,
)

IDS = [f"op{n}" for n in range(1, 7)]
ADDED: list[tuple[str, dict[str, Any]]] = [
    ("CSVFileScan", {"fileName": "/data/sales.csv"}),
    ("TextInput", {}),
    ("Filter", {"predicates": [{"attribute": "amount", "condition": ">", "value": "100"}]}),
    ("Limit", {"limit": 5}),
    ("Sort", {}),
    ("Union", {}),
    ("HashJoin", {"note": "größer als 100 € 🙂"}),
    ("PythonUDFV2", {"code": "def f():\n\treturn '\"</workflow>'"}),
]
WORDS = ["Reading", "the", "größte", "🙂", "sales", "\n\n", "of", "2024", "…", "\t", "done."]


def random_edits(rng: random.Random, document: Document, files: list[Document]) -> list[Any]:
    """One to three edits in their form on the wire, mostly such as fit `document`."""
    return [_edit(rng, document, files) for _ in range(rng.choice([1, 1, 1, 2, 3]))]


def _edit(rng: random.Random, document: Document, files: list[Document]) -> dict[str, Any]:
    operators = [o["operatorID"] for o in document.get("operators", ())]
    links = [link["linkID"] for link in document.get("links", ())]
    comments = [box["commentBoxID"] for box in document.get("commentBoxes", ())]
    name = rng.choice([*operators, *operators, *IDS])
    link = rng.choice([*links, "no-such-link"])
    comment = rng.choice([*comments, "note-1", "note-2"])
    position = {"x": rng.randrange(-900, 900), "y": rng.choice([40, -7.5, 1200.25])}
    ends = {
        "source": {"operatorID": rng.choice([*operators, *IDS]), "portID": "output-0"},
        "target": {
            "operatorID": rng.choice([*operators, *IDS]),
            "portID": rng.choice(["input-0", "input-0", "input-0", "input-1"]),
        },
    }
    kind = rng.choice([*"mmmmaaccrllLRnNoOsu"])
    match kind:
        case "m":
            return {"op": "moveOperator", "operatorID": name, "position": position}
        case "a":
            operator = {
                "operatorID": rng.choice(IDS),
                "operatorType": rng.choice(["Filter", "Union", "Union", "NoSuchType"]),
                "operatorProperties": {"b": 1, "a": [None, True, 2.5, "ü"]},
                "inputPorts": [{"portID": "input-0"}],
                "outputPorts": [{"portID": "output-0"}],
                "homeMade": {"deep": [{"er": {}}]},
            }
            return {"op": "addOperator", "operator": operator} | (
                {"position": position} if rng.random() < 0.7 else {}
            )
        case "c":
            values = {"operatorProperties": {"limit": rng.randrange(5)}, "isDisabled": True}
            unset = rng.choice([[], ["homeMade"], ["customDisplayName"]])
            return {"op": "changeOperator", "operatorID": name, "set": values, "unset": unset}
        case "r":
            return {"op": "removeOperator", "operatorID": name}
        case "l":
            return {"op": "addLink", "link": ends}
        case "L":
            return {"op": "changeLink", "linkID": link, "set": rng.choice([{"note": 1}, ends])}
        case "R":
            return {"op": "removeLink", "linkID": link}
        case "n":
            box = {"commentBoxID": comment, "comments": [{"content": "look"}]}
            return {"op": "addComment", "comment": box}
        case "N":
            return {"op": "changeComment", "commentBoxID": comment, "set": {"mood": "calm"}}
        case "o":
            return {"op": "moveComment", "commentBoxID": comment, "position": position}
        case "O":
            return {"op": "removeComment", "commentBoxID": comment}
        case "s":
            size = rng.choice([100, 400, 900])
            return {"op": "changeSettings", "set": {"dataTransferBatchSize": size}}
        case _:
            return {"op": "replaceWorkflow", "workflow": rng.choice([*files, {}, document])}


class Improviser:
    """What a model says when nobody has written its part; `calm` models never hang or break."""

    def __init__(self, rng: random.Random, *, calm: bool = False) -> None:
        self.calm = calm
        self._rng = rng
        self._ids = count(1)
        self._fed: dict[str, dict[str, Any]] = {}  # how operators were fed before

    def __call__(self) -> Answer | Refusal | Any:
        rng = self._rng
        kind = rng.choices(
            ["text", "calls", "odd", "hang", "refuse", "cut", "long", "empty"],
            [40, 46, 4, 3, 2, 2, 2, 1],
        )[0]
        if self.calm and kind not in ("text", "calls"):
            kind = "text"
        items: list[Item] = []
        if kind == "refuse":
            return Refusal(rng.choice([400, 429, 500]))
        if kind == "hang" and rng.random() < 0.4:
            return HANG
        if kind == "empty":
            return Answer([finish("stop")])
        if rng.random() < 0.7 or kind == "text":
            items += [text(piece) for piece in self._words()]
        if kind != "text":
            for index in range(rng.choice([1, 1, 1, 2, 3, 4])):
                items += self._call(index, odd=kind == "odd")
        if rng.random() < 0.3:
            items.insert(rng.randrange(len(items)), Pause(_soon(rng.random() * 0.03)))
        match kind:
            case "hang":
                items.insert(rng.randrange(len(items) + 1), Pause())
            case "cut":
                items.insert(rng.randrange(len(items) + 1), CUT)
            case "long":
                items.append(finish("length"))
            case _:
                items.append(finish("tool_calls" if kind != "text" else "stop"))
                if rng.random() < 0.5:
                    items.append(usage(rng.randrange(1, 9999), rng.randrange(1, 999)))
        return Answer(items)

    def _words(self) -> list[str]:
        rng = self._rng
        said = [f"{rng.choice(WORDS)} " for _ in range(rng.randrange(1, 8))]
        return [*said, "and so on"]

    def _call(self, index: int, *, odd: bool) -> list[Item]:
        rng = self._rng
        call_id = "same" if rng.random() < 0.1 else f"call_{next(self._ids)}"
        name, args = self._tool()
        if odd:
            name, args = rng.choice(
                [
                    (name, "{not json"),
                    (name, "[1, 2]"),
                    ("launchRocket", args),
                    (name, {**args, "extra": 1}),
                    (name, {"operatorId": 7}),
                    (name, "null"),
                ]
            )
        whole = call(name, args, id=call_id, index=index)
        if rng.random() < 0.5:
            return [whole]
        written = whole["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"]
        cut = rng.randrange(len(written))
        return [
            call_piece(index=index, id=call_id, name=name, args=written[:cut]),
            call_piece(index=index, args=written[cut:]),
        ]

    def _tool(self) -> tuple[str, dict[str, Any]]:
        rng = self._rng
        operator_id = rng.choice(IDS)
        inputs = rng.choice(
            [
                {},
                {"inputOperatorIds": {"0": [rng.choice(IDS)]}},
                {"inputOperatorIds": {"0": [rng.choice(IDS), rng.choice(IDS)]}},
                {"inputOperatorIds": {"0": [rng.choice(IDS)], "1": [rng.choice(IDS)]}},
                {"inputOperatorIds": {}},
            ]
        )
        if rng.random() < 0.4:
            inputs = self._fed.get(operator_id, inputs)
        self._fed[operator_id] = inputs
        match rng.choices(["add", "modify", "delete", "get"], [50, 25, 15, 10])[0]:
            case "add":
                kind, properties = rng.choice(ADDED)
                named = {"operatorId": operator_id, "operatorType": kind, "properties": properties}
                return "addOperator", named | inputs | rng.choice([{}, {"summary": " Keep it "}])
            case "modify":
                properties = rng.choice([{"limit": 7}, {"limit": "many"}, {"new": [1.0, 1]}, {}])
                return "modifyOperator", {
                    "operatorId": operator_id,
                    "properties": properties,
                    **inputs,
                } | rng.choice([{}, {"summary": "Renamed"}])
            case "delete":
                return "deleteOperator", {"operatorId": operator_id}
            case _:
                return "getWorkflow", {}


def _soon(seconds: float) -> asyncio.Event:
    event = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, event.set)
    return event
