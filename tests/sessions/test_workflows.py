"""The workflows of the field: loaded, edited by agent and person, reverted, redone and saved.

Every file goes in by both doors, as a session's initial workflow and opened in a session, and is
edited by both kinds of model and by a person. What each edit makes of it is predicted by a naive
model of the document; nothing else may change, and taken back, nothing at all.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from naive_canvas import Document, called, canonical, edited, filled
from scripted_provider import Chunk, ScriptedProvider, call, text
from serving import Server, serving
from wire import Client
from workflows import FILES

STRANGE: Document = {
    "zeta": {"": None, "größe": [1, 1.0, -0.0, 1e300, 2**64 - 1, -(2**63)], "🙂": "\u2028\t</b>"},
    "links": [
        {
            "note": ["first"],
            "linkID": "l/1",
            "source": {"portID": "out", "operatorID": "no such operator", "more": 1},
            "target": {"operatorID": "also not there"},
        }
    ],
    "operators": [
        {"extra": {"b": 1, "a": 2}, "operatorID": "weird id/ä", "outputPorts": [{"portID": "out"}]},
        {"operatorID": "2", "operatorType": "OfAnotherProduct", "operatorProperties": {"z": [[]]}},
        {"operatorID": "1", "inputPorts": [{"portID": "input-0", "x": 1}], "operatorType": "Sort"},
    ],
    "commentBoxes": [{"commentBoxID": "c", "deep": json.loads("[" * 90 + "]" * 90)}],
    "operatorPositions": {"gone": {"x": 1e-7, "y": "left", "z": {}}, "2": {"pinned": True}},
    "alpha": False,
}
WORKFLOWS = {file.stem: json.loads(file.read_text()) for file in FILES} | {"strange": STRANGE}


def calls_for(document: Document) -> list[list[Chunk]]:
    """What a model does to a workflow: adds, changes and takes away, and looks at it."""
    ids = [operator["operatorID"] for operator in document["operators"]]
    feeding = next(o["operatorID"] for o in document["operators"] if o.get("outputPorts"))
    limit = {"operatorId": "op-new", "operatorType": "Limit", "properties": {"limit": 10}}
    return [
        [
            text("First a limit."),
            call("addOperator", limit | {"inputOperatorIds": {"0": [feeding]}}, id="a", index=0),
            call("getWorkflow", {}, id="b", index=1),
        ],
        [
            call("modifyOperator", {"operatorId": ids[-1], "properties": {"added": [1.0, 1]}},
                 id="c", index=0),
            call("modifyOperator", {"operatorId": "op-new", "summary": "Ten"}, id="d", index=1),
            call("modifyOperator", {"operatorId": "nope", "properties": {}}, id="e", index=2),
        ],
        [call("deleteOperator", {"operatorId": ids[0]}, id="f")],
        [text("Done.")],
    ]  # fmt: skip


def sentences_for(document: Document) -> list[str]:
    """What a person asks the offline model for."""
    ids = [operator["operatorID"] for operator in document["operators"]]
    feeding = next(o["operatorID"] for o in document["operators"] if o.get("outputPorts"))
    return [f"add a Filter on amount > 100 after '{feeding}'", f"delete '{ids[-1]}'"]


def edits_for(document: Document) -> list[list[dict[str, Any]]]:
    """What a person does by hand, one list a gesture."""
    name = document["operators"][0]["operatorID"]
    return [
        [{"op": "moveOperator", "operatorID": name, "position": {"x": -12.5, "y": 7}}],
        [
            {"op": "changeOperator", "operatorID": name, "set": {"isDisabled": True}},
            {"op": "addComment", "comment": {"commentBoxID": "mine", "unknown": {"k": [0.5]}}},
            {"op": "changeSettings", "set": {"dataTransferBatchSize": 7}},
        ],
        [{"op": "removeOperator", "operatorID": name}],
    ]


class History:
    """What the workflow was after each turn, as text; the first is the file itself."""

    def __init__(self, server: Server, session: str, client: Client) -> None:
        self.texts: list[str] = []
        self.turns: list[str] = []
        self._server = server
        self._session = session
        self._client = client

    async def saved(self) -> str:
        return (await self._server.http.get(f"/sessions/{self._session}/workflow")).text

    async def prompt(self, content: str) -> None:
        """Prompt, and hold what the agent did to what it says it did."""
        frames = await self._client.prompt(content)
        document = json.loads(self.texts[-1])
        made = [f["step"] for f in frames if f["type"] == "WsServerStepEvent"]
        acted = 0
        for step in made[1:]:
            before = document
            after = await self._after(step["id"])
            for done, result in zip(step["toolCalls"], step["toolResults"], strict=True):
                if not result["isError"]:
                    acted += 1
                    document, _ = called(document, done["toolName"], done["input"])
            document = filled(document, after, before)
            assert canonical(document) == canonical(after)
        assert acted > 0, made
        await self._note(made[0]["messageId"])

    async def edit(self, edits: list[dict[str, Any]]) -> None:
        """Edit by hand, and hold the result to the edit."""
        before = json.loads(self.texts[-1])
        head = self._client.head
        done = await self._client.ask("EditWorkflow", baseHeadId=head, edits=edits)
        assert done["type"] == "WsServerAckEvent", done
        expected = edited(before, edits)
        await self._note(done["messageId"])
        after = json.loads(self.texts[-1])
        assert canonical(filled(expected, after, before)) == self.texts[-1]

    async def _note(self, turn: str) -> None:
        self.turns.append(turn)
        self.texts.append(await self.saved())

    async def _after(self, step_id: str) -> Any:
        url = f"/sessions/{self._session}/steps/{step_id}/workflow"
        return (await self._server.http.get(url)).json()


@pytest.mark.case(20)
@pytest.mark.parametrize("opened", [False, True], ids=["initial", "opened"])
@pytest.mark.parametrize("model", ["offline", "scripted"])
@pytest.mark.parametrize("name", list(WORKFLOWS))
async def test_a_workflow_of_the_field_loses_nothing(
    fresh_database: str, provider: ScriptedProvider, name: str, model: str, opened: bool
) -> None:
    document = WORKFLOWS[name]
    settings: dict[str, Any] = {}
    if model == "scripted":
        settings = provider.settings
    async with serving(fresh_database, **settings) as server:
        session = await server.session(**({} if opened else {"workflow": document}))
        async with server.connect(session) as client:
            history = History(server, session, client)
            await client.snapshot()
            if opened:
                history.texts.append(await history.saved())
                await history.edit([{"op": "replaceWorkflow", "workflow": document}])
                history = History(server, session, client)
            history.texts.append(await history.saved())
            assert history.texts == [canonical(document)]
            if model == "scripted":
                provider.will(*calls_for(document))
                await history.prompt("work on it")
            else:
                for sentence in sentences_for(document):
                    await history.prompt(sentence)
            remaining = json.loads(history.texts[-1])
            for edits in edits_for(remaining):
                await history.edit(edits)
            assert len(set(history.texts)) == len(history.texts)
            await there_and_back(history, client)
    async with serving(fresh_database, **settings) as server:
        async with server.connect(session) as client:
            again = History(server, session, client)
            again.texts, again.turns = history.texts, history.turns
            await client.snapshot()
            await there_and_back(again, client)
        copy = await server.session(workflow=json.loads(history.texts[-1]))
        assert (await server.http.get(f"/sessions/{copy}/workflow")).text == history.texts[-1]


async def there_and_back(history: History, client: Client) -> None:
    """Revert turn by turn to the file as it was, redo turn by turn, and both in one step."""
    assert await history.saved() == history.texts[-1]
    for turn, before in reversed(list(zip(history.turns, history.texts, strict=False))):
        assert "code" not in await client.ask("Revert", messageId=turn)
        assert await history.saved() == before
    for after in history.texts[1:]:
        assert "code" not in await client.ask("Redo")
        assert await history.saved() == after
    assert "code" not in await client.ask("Revert", messageId=history.turns[0])
    assert await history.saved() == history.texts[0]
    assert "code" not in await client.ask("Redo", all=True)
    assert await history.saved() == history.texts[-1]
