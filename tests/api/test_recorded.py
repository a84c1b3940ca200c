"""The recorded frames of the public proposal's service, as order and relations.

The scripted model says what the recorded one said; the recorded commands are sent by two base
clients; what both see must be what was recorded, but for ids and times, the last step that the
proposal sends twice, and the two faults that its README names.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from scripted_provider import Chunk, ScriptedProvider, call, text
from serving import Server
from wire import Client

HERE = Path(__file__).parents[1] / "data" / "recorded.jsonl"

Frame = dict[str, Any]


def recorded() -> list[Frame]:
    return [json.loads(line) for line in HERE.read_text().splitlines()]


def script(lines: list[Frame]) -> list[list[Chunk]]:
    """What the recorded model said, one answer for each agent step."""
    answers, seen = [], set()
    for line in lines:
        step = line["frame"].get("step") if isinstance(line["frame"], dict) else None
        if step is None or step["role"] == "user" or step["id"] in seen:
            continue
        seen.add(step["id"])
        calls = [
            call(made["toolName"], made["input"], id=made["toolCallId"], index=at)
            for at, made in enumerate(step["toolCalls"])
        ]
        answers.append([text(step["content"]), *calls])
    return answers


class Names:
    """Ids as their order of appearance."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {"step-initial": "step-initial"}

    def __call__(self, id_: str) -> str:
        return self._known.setdefault(id_, f"#{len(self._known)}")


def shape(frame: Frame, names: Names) -> Any:
    """What counts of a frame."""
    match frame["type"]:
        case "WsServerStatusEvent":
            return frame["state"]
        case "WsServerErrorEvent":
            return frame["error"]
        case "WsServerSnapshotEvent":
            return ("snapshot", frame["state"], len(frame["steps"]), names(frame["headId"]))
        case "WsServerHeadChangeEvent":
            content = canvas(frame["workflowContent"])
            return ("head", names(frame["headId"]), frame["canRedo"], content)
        case "WsServerStepEvent":
            step = frame["step"]
            results = zip(step.get("toolCalls", []), step.get("toolResults", []), strict=True)
            return (
                names(step["id"]),
                names(step["parentId"]),
                names(step["messageId"]),
                step["stepId"],
                step["role"],
                step["content"],
                step["isBegin"],
                step["isEnd"],
                [(made["toolName"], made["input"], failed(result)) for made, result in results],
                canvas(step["beforeWorkflowContent"]),
                canvas(step["afterWorkflowContent"]),
            )
    raise AssertionError(frame)


def failed(result: Frame) -> bool:
    return bool(result["output"].startswith("[ERROR]"))


def canvas(content: Frame) -> Any:
    """Operators and links by name; `op9` is the recorded service's own fault."""
    operators = [(o["operatorID"], o["operatorType"], json.dumps(o["operatorProperties"]))
                 for o in content["operators"] if o["operatorID"] != "op9"]  # fmt: skip
    links = [(k["source"]["operatorID"], k["target"]["operatorID"]) for k in content["links"]]
    return operators, links


def seen_by(lines: list[Frame]) -> dict[str, list[Frame]]:
    """Each connection's frames from the server; of a step sent twice, the last."""
    frames = defaultdict(list)
    for line in lines:
        if line["dir"] == "server->client":
            frames[line["conn"]].append(line["frame"])
    for seen in frames.values():
        twice = {
            (a["step"]["id"], at)
            for at, (a, b) in enumerate(pairwise(seen))
            if a.get("step") and b.get("step") and a["step"]["id"] == b["step"]["id"]
        }
        seen[:] = [f for at, f in enumerate(seen)
                   if not (f.get("step") and (f["step"]["id"], at) in twice)]  # fmt: skip
    return frames


@pytest.fixture
async def replayed(
    scripted: tuple[Server, ScriptedProvider],
) -> tuple[list[Frame], dict[str, list[Frame]]]:
    """The recording, and what two base clients of ours see when its commands are sent."""
    server, provider = scripted
    lines = recorded()
    provider.will(*script(lines))
    session = await server.session()
    async with server.connect(session, v1=False) as c1, server.connect(session, v1=False) as c2:
        clients = {"c1": c1, "c2": c2}
        ids: dict[str, str] = {}
        due = {"c1": 0, "c2": 0}
        theirs = seen_by(lines)
        for line in lines:
            conn = line["conn"]
            if line["dir"] == "client->server":
                await _send(clients[conn], line["frame"], ids)
            else:
                await _until(clients, theirs, line, due, ids)
        await asyncio.sleep(0.1)  # nothing more may come
        return lines, {name: client.frames for name, client in clients.items()}


async def _send(client: Client, frame: Any, ids: dict[str, str]) -> None:
    if isinstance(frame, str):
        await client.send_raw(frame)
        return
    sent = dict(frame)
    if "messageId" in sent:
        sent["messageId"] = ids.get(sent["messageId"], sent["messageId"])
    await client.send_raw(json.dumps(sent))


async def _until(
    clients: dict[str, Client],
    theirs: dict[str, list[Frame]],
    line: Frame,
    due: dict[str, int],
    ids: dict[str, str],
) -> None:
    """Wait for our frame at the place of a recorded one, and learn its ids."""
    conn, frame = line["conn"], line["frame"]
    if due[conn] >= len(theirs[conn]) or theirs[conn][due[conn]] is not frame:
        return  # the first sending of a step that is sent twice
    at = due[conn]
    due[conn] += 1
    ours = await clients[conn].wait(lambda _: True, since=at)
    if "step" in frame and "step" in ours:
        ids[frame["step"]["messageId"]] = ours["step"]["messageId"]


async def test_two_clients_see_what_was_recorded_in_its_order(
    replayed: tuple[list[Frame], dict[str, list[Frame]]],
) -> None:
    lines, ours = replayed
    for conn, theirs in seen_by(lines).items():
        expected, found = Names(), Names()
        assert [shape(frame, found) for frame in ours[conn]] == [
            shape(frame, expected) for frame in theirs
        ]


async def test_a_base_client_gets_no_member_that_the_proposal_has_not(
    replayed: tuple[list[Frame], dict[str, list[Frame]]],
) -> None:
    lines, ours = replayed
    known: dict[str, set[str]] = defaultdict(set)
    for line in lines:
        if line["dir"] == "server->client":
            known[line["frame"]["type"]] |= set(line["frame"])
            known["step"] |= set(line["frame"].get("step", {}))
    for frames in ours.values():
        for frame in frames:
            assert set(frame) == known[frame["type"]]
            if "step" in frame:
                assert set(frame["step"]) <= known["step"]
                missing = known["step"] - set(frame["step"])
                optional = {"usage", "messageSource", "toolCalls", "toolResults"}
                assert missing <= optional
