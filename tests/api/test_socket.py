"""The socket over a real server: order, refusals, replay, idempotency, and who is told what."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from scripted_provider import Pause, ScriptedProvider, text
from serving import Server, serving
from websockets.exceptions import ConnectionClosed, InvalidStatus
from wire import Client, Frame, is_error, is_head, is_status, is_step

ADD_SCAN = "add a CSVFileScan"
V1_ONLY = {
    "eventSeq",
    "waitingFor",
    "redoDepth",
    "redoId",
    "archived",
    "cause",
    "by",
    "effectsOutOfStep",
    "code",
    "data",
}


def kinds(frames: list[Frame]) -> list[str]:
    return [
        f["state"] if f["type"] == "WsServerStatusEvent" else f["type"].removeprefix("WsServer")
        for f in frames
        if f["type"] != "WsServerDeltaEvent"
    ]


async def workflow(server: Server, session: str) -> Any:
    return (await server.http.get(f"/sessions/{session}/workflow")).json()


async def test_a_socket_begins_with_one_snapshot(server: Server) -> None:
    session = await server.session(name="Orders")
    async with server.connect(session) as client:
        frame = await client.snapshot()
    assert (frame["state"], frame["headId"], frame["steps"]) == ("AVAILABLE", "step-initial", [])
    assert (frame["canRedo"], frame["redoDepth"], frame["eventSeq"]) == (False, 0, 0)
    assert frame["name"] == "Orders"


@pytest.mark.case(38)
async def test_a_prompt_runs_from_generating_to_available_with_each_step_once(
    server: Server,
) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        frames = await client.prompt(ADD_SCAN)
    assert kinds(frames)[:2] == ["GENERATING", "StepEvent"]
    assert kinds(frames)[-1] == "AVAILABLE"
    steps = [f["step"] for f in frames if is_step(f)]
    assert [s["stepId"] for s in steps] == list(range(len(steps)))
    assert [s["isEnd"] for s in steps[1:]] == [False] * (len(steps) - 2) + [True]
    assert [s["isBegin"] for s in steps[1:]] == [True] + [False] * (len(steps) - 2)
    assert steps[-1]["endReason"] == "complete"
    assert len(steps[1]["toolCalls"]) == len(steps[1]["toolResults"]) == 1


async def test_event_seqs_are_dense_and_rise(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        first = await client.prompt(ADD_SCAN)
        turn = next(f["step"]["messageId"] for f in first if is_step(f))
        await client.ask("Revert", messageId=turn)
        await client.ask("Redo")
        assert [f["eventSeq"] for f in client.durable] == list(range(1, len(client.durable) + 1))


async def test_deltas_stream_the_step_that_then_replaces_them(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        frames = await client.prompt(ADD_SCAN)
    for frame in (f["step"] for f in frames if is_step(f) and f["step"]["role"] == "agent"):
        pieces = [
            f for f in frames if f["type"] == "WsServerDeltaEvent" and f["stepId"] == frame["id"]
        ]
        said = "".join(f["text"] for f in pieces if "text" in f)
        assert said.strip() == frame["content"].strip()
        assert all(f["messageId"] == frame["messageId"] for f in pieces)


async def test_revert_and_redo_move_head_and_the_workflow_for_both_sockets(
    server: Server,
) -> None:
    session = await server.session()
    async with server.connect(session) as one, server.connect(session, v1=False) as two:
        await one.snapshot()
        await two.snapshot()
        await one.prompt(ADD_SCAN)
        await two.wait(is_status("AVAILABLE"))
        built = await workflow(server, session)
        turn = one.path[0]["messageId"]
        await two.send("Revert", messageId=turn)
        moved = await one.wait(is_head)
        assert (moved["headId"], moved["canRedo"], moved["cause"]) == (
            "step-initial",
            True,
            "revert",
        )
        assert moved["workflowContent"]["operators"] == []
        assert (await workflow(server, session))["operators"] == []
        await one.ask("Redo")
        again = await two.wait(lambda f: is_head(f) and f["headId"] != "step-initial")
        assert again["workflowContent"] == built == await workflow(server, session)
        assert again["canRedo"] is False
        assert not any(V1_ONLY & set(frame) for frame in two.frames)


@pytest.mark.case(36)
@pytest.mark.parametrize("v1", [True, False])
@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        ("not json", "Invalid message format"),
        ("null", "Invalid message format"),
        ("[]", "Invalid message format"),
        ("7", "Invalid message format"),
        ("[" * 5000, "Invalid message format"),
        (b"\xff\xfe", "Invalid message format"),
        ("{}", "Unknown message type: undefined"),
        ('{"type": 5}', "Unknown message type: 5"),
        ('{"type": []}', "Unknown message type: []"),
        ('{"type": {}}', "Unknown message type: {}"),
        ('{"type": "bogus"}', "Unknown message type: bogus"),
        ('{"type": "WsClientPromptCommand"}', "Message content is required"),
        ('{"type": "WsClientPromptCommand", "content": ""}', "Message content is required"),
        ('{"type": "WsClientPromptCommand", "content": "  \\n"}', "Message content is required"),
        ('{"type": "WsClientPromptCommand", "content": 5}', "Message content is required"),
        (
            '{"type": "WsClientPromptCommand", "content": "x", "messageSource": "spam"}',
            "Invalid message format",
        ),
        ('{"type": "WsClientRevertCommand"}', "messageId is required to revert"),
        ('{"type": "WsClientRevertCommand", "messageId": null}', "messageId is required to revert"),
        ('{"type": "WsClientRevertCommand", "messageId": 5}', "Invalid message format"),
        ('{"type": "WsClientRevertCommand", "messageId": "nope"}', "Unknown turn: nope"),
        ('{"type": "WsClientRedoCommand"}', "Nothing to redo"),
    ],
)
async def test_bad_frames_get_a_typed_error_and_the_socket_lives_on(
    server: Server, sent: str | bytes, sentence: str, v1: bool
) -> None:
    session = await server.session()
    async with server.connect(session, v1=v1) as client:
        await client.snapshot()
        await client.send_raw(sent)
        frame = await client.wait(is_error)
        assert frame["error"] == sentence
        assert ("code" in frame) is v1
        await client.prompt(ADD_SCAN)


async def test_what_is_for_v1_is_unknown_to_a_base_client(server: Server) -> None:
    session = await server.session()
    async with server.connect(session, v1=False) as client:
        await client.snapshot()
        await client.send("Checkout", stepId="step-initial")
        frame = await client.wait(is_error)
        assert frame == {
            "type": "WsServerErrorEvent",
            "error": "Unknown message type: WsClientCheckoutCommand",
        }


async def test_errors_go_to_their_sender_alone(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as one, server.connect(session) as two:
        await one.snapshot()
        await two.snapshot()
        await one.send("Redo")
        await one.wait(is_error)
        await two.prompt(ADD_SCAN)
        assert not [f for f in two.frames if is_error(f)]


async def test_an_unknown_session_says_agent_not_found_and_closes(server: Server) -> None:
    for session in ("019a0000-0000-7000-8000-000000000000", "not-an-id", "%00"):
        async with server.connect(session) as client:
            frame = await client.next()
            assert (frame["error"], frame["code"]) == ("Agent not found", "session_not_found")
            assert await client.until_closed() == 4404


@pytest.mark.case(30)
async def test_while_the_agent_is_busy_what_moves_head_is_refused(
    scripted: tuple[Server, ScriptedProvider],
) -> None:
    server, provider = scripted
    hold = asyncio.Event()
    provider.will([text("one")], [text("two"), Pause(hold), text(" end")])
    session = await server.session()
    async with server.connect(session) as client, server.connect(session) as other:
        await client.snapshot()
        await other.snapshot()
        await client.prompt("first")
        turn = client.path[0]["messageId"]
        await client.send("Prompt", content="second")
        await client.wait(is_status("GENERATING"), since=len(client.frames) - 1)
        head = client.head
        for type_, fields, sentence in (
            ("Revert", {"messageId": turn}, "Cannot revert while the agent is busy"),
            ("Redo", {}, "Cannot redo while the agent is busy"),
            ("Checkout", {"stepId": "step-initial"}, "Cannot check out while the agent is busy"),
            ("Prompt", {"content": "third"}, "busy"),
        ):
            refused = await other.ask(type_, **fields)
            assert refused["code"] == "busy"
            assert sentence in refused["error"]
        hold.set()
        await client.wait(is_status("AVAILABLE"), since=len(client.frames) - 1)
        assert client.path[-2]["parentId"] == head or client.path[-2]["id"] == head
        assert [step["content"] for step in client.path] == ["first", "one", "second", "two end"]


async def test_stop_in_mid_stream_keeps_what_had_streamed_and_says_so(
    scripted: tuple[Server, ScriptedProvider],
) -> None:
    server, provider = scripted
    provider.will([text("half an "), Pause()])
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        await client.send("Prompt", content="talk")
        await client.wait(lambda f: f["type"] == "WsServerDeltaEvent")
        await client.send("Stop")
        await client.wait(is_status("AVAILABLE"))
        assert kinds(client.frames) == [
            "SnapshotEvent", "GENERATING", "StepEvent", "STOPPING", "StepEvent", "StepEvent",
            "AVAILABLE",
        ]  # fmt: skip
        assert [s["content"].strip() for s in client.path] == ["talk", "half an", "Stopped."]
        assert client.path[-1]["endReason"] == "stopped"
        await client.ask("Revert", messageId=client.path[0]["messageId"])
        await client.ask("Redo")
        assert client.path[-1]["content"] == "Stopped."


@pytest.mark.case(24)
async def test_stop_while_idle_twice_is_nothing(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        for _ in range(2):
            assert (await client.ask("Stop"))["type"] == "WsServerAckEvent"
        frames = await client.prompt(ADD_SCAN)
        assert kinds(client.frames)[: len(client.frames) - len(frames)].count("STOPPING") == 0


async def test_a_snapshot_holds_the_newest_steps_that_fit_in_a_frame(fresh_database: str) -> None:
    async with serving(fresh_database, ws_max_send=5_000) as server:
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            for n in range(4):
                await client.prompt(f"{n} " + "what? " * 300)
            told = client.path
        async with server.connect(session) as client:
            frame = await client.snapshot()
        shown = [step["id"] for step in frame["steps"]]
        assert 0 < len(shown) < len(told)
        assert len(client.texts[0]) < 10_000
        assert shown == [step["id"] for step in told[-len(shown) :]]
        page = await server.http.get(
            f"/sessions/{session}/steps", params={"before": frame["stepsCursor"]}
        )
        older = [step["id"] for step in page.json()["steps"]]
        assert older + shown == [step["id"] for step in told]


async def test_a_base_snapshot_holds_every_step_and_the_newest_contents(
    fresh_database: str,
) -> None:
    async with serving(fresh_database, ws_max_send=100_000) as server:
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            for _ in range(24):
                await client.prompt("add a Filter")
            told = client.path
        async with server.connect(session, v1=False) as client:
            frame = await client.snapshot()
        assert [step["id"] for step in frame["steps"]] == [step["id"] for step in told]
        full = ["afterWorkflowContent" in step for step in frame["steps"]]
        assert full == sorted(full)  # the newest ones
        assert full.count(True) in range(1, 20)
        assert len(client.texts[0]) < 150_000
        assert frame["steps"][-1]["afterWorkflowContent"] == await workflow(server, session)


@pytest.mark.case(34)
async def test_a_dropped_socket_gets_what_it_missed_once_and_in_order(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as watcher:
        await watcher.snapshot()
        async with server.connect(session) as client:
            first = await client.snapshot()
            await client.prompt(ADD_SCAN)
            seen = client.durable
            epoch = first["streamEpoch"]
        await watcher.prompt("add a Filter on amount > 10")
        query = f"?since={seen[-1]['eventSeq']}&epoch={epoch}"
        async with server.connect(session, query=query) as back:
            await back.wait(lambda f: f.get("eventSeq") == watcher.durable[-1]["eventSeq"])
            assert seen + back.frames == watcher.durable
            await back.prompt("delete op1")
            await watcher.wait(lambda f: f.get("eventSeq") == back.durable[-1]["eventSeq"])
            assert seen + back.durable == watcher.durable


@pytest.mark.case(34)
@pytest.mark.parametrize("query", ["?since=999", "?since=0&epoch=another"])
async def test_a_since_that_cannot_be_replayed_gets_a_snapshot_with_reset(
    server: Server, query: str
) -> None:
    session = await server.session()
    async with server.connect(session, query=query) as client:
        assert (await client.snapshot())["reset"] is True


async def test_a_since_in_mid_stream_gets_the_partial_text(
    scripted: tuple[Server, ScriptedProvider],
) -> None:
    server, provider = scripted
    hold = asyncio.Event()
    provider.will([text("first half, "), Pause(hold), text("second half")])
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        await client.send("Prompt", content="talk")
        delta = await client.wait(lambda f: f["type"] == "WsServerDeltaEvent")
        async with server.connect(session, query="?since=0") as back:
            partial = await back.wait(lambda f: f["type"] == "WsServerDeltaEvent")
            assert (partial["offset"], partial["text"]) == (0, delta["text"])
        async with server.connect(session) as fresh:
            frame = await fresh.snapshot()
            assert frame["partial"]["text"] == delta["text"]
            hold.set()
            await fresh.wait(is_status("AVAILABLE"))
            assert fresh.path[-1]["content"] == "first half, second half"


@pytest.mark.case(29)
async def test_the_same_request_id_runs_once_and_is_answered_again(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        await client.prompt(ADD_SCAN)
        turn = client.path[0]["messageId"]
        first = await client.ask("Revert", messageId=turn, requestId="r1")
        again = await client.ask("Revert", messageId=turn, requestId="r1")
        assert (first, first["type"]) == (again, "WsServerAckEvent")
        other = await client.ask("Revert", messageId="another", requestId="r1")
        assert other["code"] == "request_conflict"
        assert len([f for f in client.frames if is_head(f)]) == 1
        await client.ask("Redo")
        snapshot = (await server.http.get(f"/sessions/{session}")).json()
        assert snapshot["head_id"] == client.head


async def test_a_request_that_would_change_nothing_now_is_answered_as_it_was(
    server: Server,
) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        prompt = {"content": ADD_SCAN, "turnKey": "k", "requestId": "prompt"}
        prompted = await client.ask("Prompt", **prompt)
        await client.wait(is_status("AVAILABLE"))
        move = {"op": "moveOperator", "operatorID": "op1", "position": {"x": 5, "y": 7.5}}
        edit = {"baseHeadId": client.head, "edits": [move], "requestId": "edit"}
        edited = await client.ask("EditWorkflow", **edit)
        await client.ask("Revert", messageId=prompted["messageId"])
        await client.ask("Redo")
        assert await client.ask("EditWorkflow", **edit) == edited
        assert await client.ask("Prompt", **prompt) == prompted
        assert (await client.ask("Prompt", **prompt | {"content": "x"}))["code"] == (
            "request_conflict"
        )


@pytest.mark.case(29)
async def test_the_same_turn_key_is_the_same_turn(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        one = await client.ask("Prompt", content=ADD_SCAN, turnKey="k")
        two = await client.ask("Prompt", content=ADD_SCAN, turnKey="k")
        assert one["messageId"] == two["messageId"]
        await client.wait(is_status("AVAILABLE"))
        assert len({step["messageId"] for step in client.path}) == 1


async def test_an_expected_head_that_has_moved_is_refused(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        await client.prompt(ADD_SCAN)
        turn = client.path[0]["messageId"]
        refused = await client.ask("Revert", messageId=turn, expectedHeadId="step-initial")
        assert (refused["code"], refused["data"]["headId"]) == ("head_moved", client.head)
        done = await client.ask("Revert", messageId=turn, expectedHeadId=client.head)
        assert done["type"] == "WsServerAckEvent"


async def test_a_persons_edit_is_a_turn_of_its_own_and_is_told_to_all(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as one, server.connect(session, v1=False) as two:
        await one.snapshot()
        await two.snapshot()
        await one.prompt(ADD_SCAN)
        move = {"op": "moveOperator", "operatorID": "op1", "position": {"x": 5, "y": 7.5}}
        await one.ask("EditWorkflow", baseHeadId=one.head, edits=[move])
        step = one.path[-1]
        assert (step["kind"], step["role"], step["by"]) == ("edit", "user", "local")
        head = await two.wait(is_head)
        assert head["workflowContent"]["operatorPositions"]["op1"] == {"x": 5, "y": 7.5}
        assert two.frames[two.frames.index(head) - 1]["step"]["content"] == step["content"]
        await one.ask("Revert", messageId=step["messageId"])
        assert (await workflow(server, session))["operatorPositions"]["op1"] != {"x": 5, "y": 7.5}


@pytest.mark.case(22)
async def test_an_edit_of_what_has_changed_meanwhile_is_a_conflict_and_of_the_rest_is_not(
    server: Server,
) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        await client.prompt(ADD_SCAN)
        base = client.head
        await client.prompt("delete op1")
        gone = {"op": "moveOperator", "operatorID": "op1", "position": {"x": 1, "y": 1}}
        refused = await client.ask("EditWorkflow", baseHeadId=base, edits=[gone])
        assert refused["code"] == "edit_conflict"
        note = {"op": "addComment", "comment": {"commentBoxID": "n", "comments": []}}
        assert "code" not in await client.ask("EditWorkflow", baseHeadId=base, edits=[note])


async def test_checkout_goes_to_any_step_and_to_the_empty_conversation(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        await client.prompt(ADD_SCAN)
        tip = client.head
        await client.ask("Checkout", stepId="step-initial")
        assert client.path == []
        await client.ask("Checkout", stepId=tip)
        assert client.head == tip
        assert (await client.ask("Checkout", stepId="nope"))["error"] == "Unknown step: nope"


async def test_lines_that_part_are_named_in_the_snapshot(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        await client.prompt(ADD_SCAN)
        old = client.head
        await client.ask("Revert", messageId=client.path[0]["messageId"])
        await client.prompt("add a TextInput")
        async with server.connect(session) as fresh:
            frame = await fresh.snapshot()
    assert frame["branches"] == [
        {"stepId": "step-initial", "onPath": 1, "tips": [old, client.head]}
    ]


@pytest.mark.case(30)
async def test_deleting_ends_the_run_and_closes_every_socket(
    scripted: tuple[Server, ScriptedProvider],
) -> None:
    server, provider = scripted
    provider.will([text("on and "), Pause()])
    session = await server.session()
    async with server.connect(session) as one, server.connect(session, v1=False) as two:
        await one.snapshot()
        await one.send("Prompt", content="talk")
        await one.wait(lambda f: f["type"] == "WsServerDeltaEvent")
        answer = await server.http.delete(f"/sessions/{session}")
        assert answer.status_code == 204
        assert [await one.until_closed(), await two.until_closed()] == [4410, 4410]
        assert one.frames[-1]["change"] == "deleted"
        assert one.path[-1]["endReason"] == "stopped"
    gone = await server.http.get(f"/sessions/{session}")
    assert gone.json()["code"] == "session_not_found"


async def test_a_rename_is_told_to_v1(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as one, server.connect(session, v1=False) as two:
        await one.snapshot()
        await two.snapshot()
        await server.http.patch(f"/sessions/{session}", json={"name": "New name"})
        told = await one.wait(lambda f: f["type"] == "WsServerSessionEvent")
        assert (told["change"], told["name"]) == ("name", "New name")
        await one.prompt(ADD_SCAN)
        assert not [f for f in two.frames if f["type"] == "WsServerSessionEvent"]


async def test_an_archived_session_is_read_only(server: Server) -> None:
    session = await server.session()
    await server.http.patch(f"/sessions/{session}", json={"archived": True})
    async with server.connect(session) as client:
        await client.snapshot()
        assert (await client.ask("Prompt", content="x"))["code"] == "archived"
        await server.http.patch(f"/sessions/{session}", json={"archived": False})
        await client.prompt(ADD_SCAN)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
async def test_a_page_of_another_origin_cannot_connect(
    server: Server, headers: dict[str, str], status: int
) -> None:
    session = await server.session()
    client: Client = server.connect(session, additional_headers=headers)
    with pytest.raises(InvalidStatus) as refused:
        async with client:
            pass
    assert refused.value.response.status_code == status


async def test_a_name_that_only_resolves_here_cannot_connect(server: Server) -> None:
    session = await server.session()
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        f"GET /sessions/{session}/ws HTTP/1.1\r\nHost: evil.example:{port}\r\n"
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
    )
    assert (await reader.readline()).split()[1] == b"403"
    writer.close()
    await writer.wait_closed()
    refused = await server.http.get("/sessions", headers={"host": "evil.example"})
    assert (refused.status_code, refused.json()["code"]) == (421, "host_refused")


async def test_the_page_of_this_server_can_connect(server: Server) -> None:
    session = await server.session()
    async with server.connect(session, additional_headers={"Origin": server.url}) as client:
        await client.snapshot()


@pytest.mark.case(36)
async def test_a_frame_over_the_limit_closes_with_1009(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        with contextlib.suppress(ConnectionClosed):
            await client.send_raw("x" * (server.settings.ws_max_size + 1))
        assert await client.until_closed() == 1009


@pytest.mark.case(23)
@pytest.mark.parametrize("times", [100, pytest.param(1_000, marks=pytest.mark.soak)])
async def test_revert_and_prompt_at_once_equal_some_serial_order(
    server: Server, times: int
) -> None:
    session = await server.session()
    async with server.connect(session) as one, server.connect(session) as two:
        await one.snapshot()
        await two.snapshot()
        await one.prompt(ADD_SCAN)
        turn = one.path[0]["messageId"]
        for n in range(times):
            seen = [len(client.frames) for client in (one, two)]
            reverted, prompted = await asyncio.gather(
                one.ask("Revert", messageId=turn), two.ask("Prompt", content=f"hello {n}")
            )
            assert prompted["type"] == "WsServerAckEvent", prompted
            began = prompted["eventSeq"]
            for client, since in zip((one, two), seen, strict=True):
                await client.wait(
                    lambda f, began=began: is_status("AVAILABLE")(f) and f["eventSeq"] > began,
                    since=since,
                )
            path = one.path
            turns = [s["messageId"] for s in path if s["role"] == "user"]
            refused = reverted["type"] == "WsServerErrorEvent"
            assert (turn in turns) is refused, reverted
            assert prompted["messageId"] == turns[-1]
            assert two.path == path
            turn = turns[-1]
