"""Commands over REST: the same as on the socket, and the same refusals."""

from __future__ import annotations

import json
from typing import Any

from rest import ADD_SCAN, REDO, STOP, idle, problem, send
from serving import Server
from wire import Client


async def test_a_command_answers_202_with_head_event_and_turn(standing: Server) -> None:
    session = await standing.session()
    answer = await send(standing, session, ADD_SCAN)
    assert answer.status_code == 202
    turn = answer.json()["turnId"]
    assert set(answer.json()) == {"headId", "eventSeq", "turnId"}
    built = await idle(standing, session)
    workflow = (await standing.http.get(f"/sessions/{session}/workflow")).text
    reverted = await send(standing, session, {"type": "WsClientRevertCommand", "messageId": turn})
    assert reverted.json() == {"headId": "step-initial", "eventSeq": built["revision"] + 1}
    redone = await send(standing, session, REDO)
    assert redone.json()["headId"] == built["head_id"]
    assert (await standing.http.get(f"/sessions/{session}/workflow")).text == workflow
    checkout = {"type": "WsClientCheckoutCommand", "stepId": "step-initial"}
    assert (await send(standing, session, checkout)).json()["headId"] == "step-initial"
    note = {"op": "addComment", "comment": {"commentBoxID": "n"}}
    edit = {"type": "WsClientEditWorkflowCommand", "baseHeadId": "step-initial", "edits": [note]}
    assert set((await send(standing, session, edit)).json()) == {"headId", "eventSeq", "turnId"}
    assert (await send(standing, session, STOP)).status_code == 202


REFUSED: list[dict[str, Any]] = [
    {},
    {"type": "WsClientNothing"},
    {"type": 5},
    {"type": "WsClientPromptCommand"},
    {"type": "WsClientPromptCommand", "content": " "},
    {"type": "WsClientPromptCommand", "content": "a\0b"},
    {"type": "WsClientPromptCommand", "content": "x", "messageSource": "spam"},
    {"type": "WsClientPromptCommand", "content": "x", "turnKey": ""},
    {"type": "WsClientPromptCommand", "content": "x", "expectedHeadId": "elsewhere"},
    {"type": "WsClientPromptCommand", "content": "x", "attachmentIds": ["a"]},
    {"type": "WsClientRevertCommand"},
    {"type": "WsClientRevertCommand", "messageId": "nope"},
    {"type": "WsClientRevertCommand", "stepId": "nope"},
    {"type": "WsClientRevertCommand", "messageId": "nope", "effects": "undo"},
    {"type": "WsClientRedoCommand"},
    {"type": "WsClientRedoCommand", "all": "perhaps"},
    {"type": "WsClientCheckoutCommand"},
    {"type": "WsClientCheckoutCommand", "stepId": "nope"},
    {"type": "WsClientEditWorkflowCommand", "baseHeadId": "step-initial", "edits": []},
    {"type": "WsClientEditWorkflowCommand", "baseHeadId": "step-initial", "edits": [{"op": "fly"}]},
    {"type": "WsClientEditWorkflowCommand", "baseHeadId": "nope",
     "edits": [{"op": "removeLink", "linkID": "x"}]},
    {"type": "WsClientEditWorkflowCommand", "baseHeadId": "step-initial",
     "edits": [{"op": "removeLink", "linkID": "x"}]},
    {"type": "WsClientEditWorkflowCommand", "baseHeadId": "step-initial",
     "edits": [{"op": "replaceWorkflow", "workflow": {"operators": 7}}]},
    {"type": "WsClientApproveCommand", "toolCallId": "t", "decision": "approve"},
]  # fmt: skip


async def test_a_refusal_is_the_same_on_the_socket_and_over_rest(standing: Server) -> None:
    session = await standing.session()
    async with standing.connect(session) as client:
        await client.snapshot()
        for frame in REFUSED:
            told = await refused_on(client, frame)
            answer = await send(standing, session, frame)
            body = problem(answer, answer.status_code, told["code"])
            assert 400 <= answer.status_code < 600
            assert (body["detail"], body["data"]) == (told["error"], told["data"]), frame
        assert client.durable == []
    assert (await standing.http.get(f"/sessions/{session}")).json()["revision"] == 0


async def refused_on(client: Client, frame: dict[str, Any]) -> dict[str, Any]:
    seen = len(client.frames)
    await client.send_raw(json.dumps(frame))
    told = await client.wait(lambda f: True, since=seen)
    assert told["type"] == "WsServerErrorEvent", (frame, told)
    return told


async def test_a_request_id_is_one_request_on_the_socket_and_over_rest(standing: Server) -> None:
    session = await standing.session()
    async with standing.connect(session) as client:
        await client.snapshot()
        ack = await client.ask("Prompt", content=ADD_SCAN["content"], requestId="r")
        await idle(standing, session)
        answer = await send(standing, session, ADD_SCAN | {"requestId": "r"})
        body = answer.json()
        assert (body["headId"], body["eventSeq"]) == (ack["headId"], ack["eventSeq"])
        assert body["turnId"] == ack["messageId"]
        other = await send(standing, session, ADD_SCAN | {"requestId": "r", "content": "else"})
        problem(other, 422, "request_conflict")
