"""Revert as a person meets it over the wire: previewed, confirmed, keeping edits, redone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg
import httpx
import pytest
from naive_canvas import canonical
from naive_merge import items, merged
from pydantic import TypeAdapter
from scripted_provider import Pause, ScriptedProvider, call, text
from serving import Server, serving
from wire import Client, Frame, is_head, is_status, is_step

from turnback.core.edits import Edit
from turnback.core.principal import LOCAL, Principal
from turnback.sessions.commands import Asked, EditWorkflow
from turnback.store.url import asyncpg_dsn

ADD_SCAN = "add a CSVFileScan"
EDITS: TypeAdapter[tuple[Edit, ...]] = TypeAdapter(tuple[Edit, ...])
PREVIEW = {
    "head_id", "target_head_id", "busy", "turns", "turn_count", "edits", "edit_count",
    "needs_confirm", "keeps_edits", "conflicts", "diff", "effects",
}  # fmt: skip


def note(name: str) -> Frame:
    return {"op": "addComment", "comment": {"commentBoxID": name, "comments": []}}


def move(operator: str, x: int) -> Frame:
    return {"op": "moveOperator", "operatorID": operator, "position": {"x": x, "y": 7.5}}


async def edit(client: Client, *edits: Frame) -> str:
    """A person's edit at HEAD; its turn."""
    done = await client.ask("EditWorkflow", baseHeadId=client.head, edits=list(edits))
    assert done["type"] == "WsServerAckEvent", done
    return str(done["messageId"])


async def edit_as(server: Server, client: Client, who: str, *edits: Frame) -> str:
    """Another person's edit at HEAD; its turn, when `client` has been told of it."""
    session = client.url.split("/")[-2]
    actor = await server.app.state.sessions.get(LOCAL, session)
    head = actor.memory.tree.head.step_id
    command = EditWorkflow(head, EDITS.validate_python(edits))
    done = await actor.ask(Asked(command, Principal(who, LOCAL.project_id, credential=None)))
    await client.wait(lambda f: is_head(f) and f["headId"] == done.head_id)
    assert done.turn_id is not None
    return done.turn_id


async def turn(client: Client, content: str = ADD_SCAN) -> str:
    """A prompt and its answer; its turn."""
    frames = await client.prompt(content)
    return next(str(f["step"]["messageId"]) for f in frames if is_step(f))


def told(event_seq: int) -> Callable[[Frame], bool]:
    """Whether a frame is the one of this number."""
    return lambda f: f.get("eventSeq") == event_seq and f["type"] != "WsServerAckEvent"


async def execute(database_url: str, statement: str, *args: Any) -> None:
    """Run a statement beside the service."""
    connection = await asyncpg.connect(asyncpg_dsn(database_url))
    try:
        await connection.execute(statement, *args)
    finally:
        await connection.close()


async def workflow(server: Server, session: str) -> Any:
    return (await server.http.get(f"/sessions/{session}/workflow")).json()


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem that an answer must be."""
    assert answer.status_code == status, answer.text
    body: dict[str, Any] = answer.json()
    assert body["code"] == code
    return body


async def preview(server: Server, session: str, **named: str) -> Any:
    answer = await server.http.get(f"/sessions/{session}/revert-preview", params=named)
    assert answer.status_code == 200, answer.text
    return answer.json()


# -- the preview


@pytest.mark.case(14)
@pytest.mark.case(14)
async def test_a_preview_lists_turns_edits_and_operators_and_changes_nothing(
    server: Server,
) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        first = await turn(client)
        parting = client.head
        second = await turn(client, "add a Filter on amount > 10" + " please" * 40)
        mine = await edit(client, note("n"))
        theirs = await edit_as(server, client, "ann", move("op1", 40))
        before = (await server.http.get(f"/sessions/{session}")).json()
        seen = len(client.frames)
        told = await preview(server, session, turn_id=second)
        assert set(told) == PREVIEW | {"turn_id"}
        assert (told["turn_id"], told["head_id"]) == (second, before["head_id"])
        assert (told["target_head_id"], told["busy"]) == (parting, False)
        listed = [(t["turn_id"], t["kind"], t["by"], t["steps"]) for t in told["turns"]]
        steps = [s["messageId"] for s in client.path]
        assert listed == [
            (second, "prompt", "local", steps.count(second)),
            (mine, "edit", "local", 1),
            (theirs, "edit", "ann", 1),
        ]
        assert (told["turn_count"], told["edit_count"]) == (3, 2)
        asked = next(s for s in client.path if s["messageId"] == second)
        assert told["turns"][0]["content"] == asked["content"][:200] != asked["content"]
        assert told["turns"][0]["timestamp"] == asked["timestamp"]
        assert [(e["turn_id"], e["by"], e["own"]) for e in told["edits"]] == [
            (mine, "local", True),
            (theirs, "ann", False),
        ]
        assert told["edits"][1]["content"] == "Moved `op1`"
        assert told["needs_confirm"] is True
        diff = await server.http.get(
            f"/sessions/{session}/diff", params={"from": client.head, "to": parting}
        )
        assert told["diff"] == diff.json()
        assert list(told["diff"]["operators"]["removed"]) == ["op2"]
        assert told["diff"]["moved"] == ["op1"]
        assert told["effects"] == []
        assert (await server.http.get(f"/sessions/{session}")).json() == before
        assert len(client.frames) == seen
        whole = await preview(server, session, turn_id=first)
        assert (whole["turn_count"], whole["target_head_id"]) == (4, "step-initial")


@pytest.mark.case(16)
@pytest.mark.case(16)
async def test_a_revert_that_takes_no_edit_back_says_so(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        await turn(client)
        await edit_as(server, client, "ann", note("n"))
        last = await turn(client, "add a Filter on amount > 10")
        told = await preview(server, session, turn_id=last)
        assert (told["edits"], told["needs_confirm"], told["keeps_edits"]) == ([], False, True)
        assert "code" not in await client.ask("Revert", messageId=last)


async def test_a_step_is_previewed_with_those_steps_of_its_turn_that_would_go(
    server: Server,
) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        mine = await turn(client)
        step = client.path[-1]
        told = await preview(server, session, step_id=step["id"])
        assert (told["step_id"], "turn_id" in told) == (step["id"], False)
        assert told["target_head_id"] == step["parentId"]
        assert [(t["turn_id"], t["steps"]) for t in told["turns"]] == [(mine, 1)]
        await client.ask("Revert", stepId=step["id"])
        assert client.head == told["target_head_id"]


@pytest.mark.case(13)
async def test_a_preview_is_refused_as_the_revert_would_be(server: Server) -> None:
    session, other = await server.session(), await server.session()
    url = f"/sessions/{session}/revert-preview"
    async with server.connect(session) as client, server.connect(other) as elsewhere:
        await client.snapshot()
        await elsewhere.snapshot()
        gone = await turn(client)
        step = client.head
        foreign = await turn(elsewhere)
        await client.ask("Revert", messageId=gone)
        for named, status, code in (
            ({"turn_id": "nope"}, 404, "unknown_turn"),
            ({"turn_id": foreign}, 404, "unknown_turn"),
            ({"step_id": elsewhere.head}, 404, "unknown_step"),
            ({"step_id": "step-initial"}, 404, "unknown_step"),
            ({"turn_id": gone}, 409, "not_on_path"),
            ({"step_id": step}, 409, "not_on_path"),
        ):
            wire = {"turn_id": "messageId", "step_id": "stepId"}
            refused = await client.ask("Revert", **{wire[k]: v for k, v in named.items()})
            body = problem(await server.http.get(url, params=named), status, code)
            assert (body["code"], body["detail"]) == (refused["code"], refused["error"])
        await client.ask("Redo")
        await server.http.patch(f"/sessions/{session}", json={"archived": True})
        problem(await server.http.get(url, params={"turn_id": gone}), 409, "archived")


async def test_a_busy_session_can_be_previewed_and_says_so(
    scripted: tuple[Server, ScriptedProvider],
) -> None:
    server, provider = scripted
    provider.will([text("on and on"), Pause()])
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        asked = await client.ask("Prompt", content="talk")
        told = await preview(server, session, turn_id=asked["messageId"])
        assert (told["busy"], told["turn_count"]) == (True, 1)
        await client.ask("Stop")
        await client.wait(is_status("AVAILABLE"))
        assert (await preview(server, session, turn_id=asked["messageId"]))["busy"] is False


async def test_a_preview_names_the_newest_turns_and_counts_them_all(fresh_database: str) -> None:
    async with serving(fresh_database, preview_turns=2) as server:
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            turns = [await edit(client, note(f"n{at}")) for at in range(4)]
        told = await preview(server, session, turn_id=turns[0])
        assert [t["turn_id"] for t in told["turns"]] == turns[2:]
        assert [t["turn_id"] for t in told["edits"]] == turns[2:]
        assert (told["turn_count"], told["edit_count"]) == (4, 4)


async def test_what_a_preview_is_made_at_can_be_insisted_on(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        mine = await turn(client)
        told = await preview(server, session, turn_id=mine)
        await edit_as(server, client, "ann", note("n"))
        refused = await client.ask(
            "Revert", messageId=mine, confirm=True, expectedHeadId=told["head_id"]
        )
        assert refused["code"] == "head_moved"


async def test_a_preview_of_what_cannot_be_read_says_as_much_as_it_can(
    fresh_database: str,
) -> None:
    async with serving(fresh_database) as server:
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            first = await turn(client)
            second = await turn(client, "add a Limit")
            edited = await edit(client, note("n"))
            last = await edit(client, note("m"))
            steps = client.path
    target = next(s["beforeHash"] for s in steps if s["messageId"] == second)
    head = steps[-1]["afterHash"]
    for lost in (target, head):
        await execute(fresh_database, "delete from blobs where hash = $1", bytes.fromhex(lost))
    async with serving(fresh_database) as server, server.connect(session) as client:
        await client.snapshot()
        url = f"/sessions/{session}/revert-preview"
        answer = await server.http.get(url, params={"turn_id": second})
        refused = await client.ask("Revert", messageId=second)
        assert problem(answer, 409, refused["code"])["code"] == "snapshot_missing"
        told = await preview(server, session, turn_id=first)
        assert (told["diff"], told["turn_count"]) == (None, 4)
        assert (told["keeps_edits"], told["conflicts"]) == (False, [])
        kept = await client.ask("Revert", messageId=first, keepEdits=True)
        assert kept["code"] == "snapshot_missing"
        for mine in (last, edited):
            assert "code" not in await client.ask("Revert", messageId=mine)


# -- confirm


@pytest.mark.case(16)
@pytest.mark.case(16)
async def test_a_revert_across_anothers_edit_needs_to_be_confirmed(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        mine = await turn(client)
        await edit(client, note("mine"))
        theirs = await edit_as(server, client, "ann", move("op1", 40))
        saved = await workflow(server, session)
        revision = (await server.http.get(f"/sessions/{session}")).json()["revision"]
        for named in ({"messageId": mine}, {"stepId": client.path[0]["id"]}):
            for unsure in ({}, {"confirm": False}):
                refused = await client.ask("Revert", **named, **unsure)
                assert refused["code"] == "confirmation_required"
                [told] = refused["data"]["edits"]
                assert (told["messageId"], told["by"]) == (theirs, "ann")
                assert told["content"] == "Moved `op1`"
                assert told["timestamp"] == client.path[-1]["timestamp"]
                assert (refused["data"]["headId"], refused["data"]["count"]) == (client.head, 1)
        body = {"type": "WsClientRevertCommand", "messageId": mine}
        over_rest = await server.http.post(f"/sessions/{session}/commands", json=body)
        assert problem(over_rest, 409, "confirmation_required")["data"] == refused["data"]
        listed = (await server.http.get(f"/sessions/{session}")).json()
        assert (listed["revision"], await workflow(server, session)) == (revision, saved)
        done = await client.ask("Revert", messageId=mine, confirm=True)
        assert done["type"] == "WsServerAckEvent"
        assert (await workflow(server, session))["operators"] == []
        await client.ask("Redo")
        assert await workflow(server, session) == saved


async def test_what_another_process_has_just_written_needs_to_be_confirmed_too(
    fresh_database: str,
) -> None:
    async with serving(fresh_database) as one, serving(fresh_database) as two:
        session = await one.session()
        async with one.connect(session) as mine, two.connect(session) as theirs:
            await mine.snapshot()
            await theirs.snapshot()
            for at in range(5):
                asked = await turn(mine)
                ended = [f["eventSeq"] for f in mine.durable if is_status("AVAILABLE")(f)][-1]
                await theirs.wait(told(ended))
                edited, refused = await asyncio.gather(
                    edit_as(two, theirs, "ann", note(f"n{at}")),
                    mine.ask("Revert", messageId=asked),
                )
                await mine.wait(told(theirs.durable[-1]["eventSeq"]))
                if "code" in refused:  # the edit came first
                    assert refused["code"] == "confirmation_required"
                    assert [e["messageId"] for e in refused["data"]["edits"]] == [edited]
                else:
                    assert edited not in [step["messageId"] for step in mine.path[:-1]]


async def test_a_base_client_confirms_by_asking_its_own_user(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as one, server.connect(session, v1=False) as two:
        await one.snapshot()
        mine = await turn(one)
        await edit_as(server, one, "ann", note("n"))
        await two.send("Revert", messageId=mine)
        moved = await two.wait(lambda f: is_head(f) and f["headId"] == "step-initial")
        assert moved["canRedo"] is True


# -- keeping edits


@pytest.mark.case(16)
async def test_edits_are_kept_as_one_edit_on_the_new_head(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as client, server.connect(session, v1=False) as base:
        await client.snapshot()
        await base.snapshot()
        await turn(client)
        parting, target = client.head, await workflow(server, session)
        mine = await turn(client, "add a Filter on amount > 10")
        made_on = await workflow(server, session)
        await edit(client, note("n"), move("op1", 40))
        await edit_as(server, client, "ann", move("op1", 41))
        old, edited = client.head, await workflow(server, session)
        told = await preview(server, session, turn_id=mine)
        assert (told["keeps_edits"], told["conflicts"]) == (True, [])
        seen = len(client.frames)
        done = await client.ask("Revert", messageId=mine, keepEdits=True)
        assert done["type"] == "WsServerAckEvent", done
        frames = [f for f in client.frames[seen:] if f["type"] != "WsServerAckEvent"]
        back, written, forward = frames
        assert (back["headId"], back["cause"]) == (parting, "revert")
        assert canonical(back["workflowContent"]) == canonical(target)
        assert (forward["headId"], forward["cause"]) == (client.head, "edit")
        for frame in (back, forward):
            assert (frame["canRedo"], frame["redoDepth"], frame["redoId"]) == (False, 0, None)
        step = written["step"]
        assert (step["id"], step["parentId"]) == (client.head, parting)
        assert (step["kind"], step["by"], step["messageId"]) == ("edit", "local", done["messageId"])
        assert step["content"] == "Kept from a revert: moved `op1`, added a comment"
        saved = await workflow(server, session)
        assert canonical(forward["workflowContent"]) == canonical(saved)
        assert items(saved) == merged(made_on, edited, target)
        assert saved["operatorPositions"]["op1"]["x"] == 41
        assert (await client.ask("Redo"))["code"] == "nothing_to_redo"
        await base.wait(lambda f: is_head(f) and f["headId"] == client.head)
        full = next(f["step"] for f in base.frames if is_step(f) and f["step"]["id"] == client.head)
        assert canonical(full["beforeWorkflowContent"]) == canonical(target)
        assert canonical(full["afterWorkflowContent"]) == canonical(saved)
        async with server.connect(session, query=f"?since={back['eventSeq'] - 1}") as again:
            await again.wait(lambda f: f.get("eventSeq") == forward["eventSeq"])
            assert again.frames == frames
        await client.ask("Revert", messageId=done["messageId"])
        assert canonical(await workflow(server, session)) == canonical(target)
        await client.ask("Checkout", stepId=old)
        assert canonical(await workflow(server, session)) == canonical(edited)


async def test_edits_are_kept_when_a_step_is_reverted(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        await turn(client)
        step = client.path[1]
        await edit(client, note("n"))
        await client.ask("Revert", stepId=step["id"], keepEdits=True)
        assert client.path[-1]["parentId"] == client.path[0]["id"]
        saved = await workflow(server, session)
        assert (saved["operators"], len(saved["commentBoxes"])) == ([], 1)


async def test_without_edits_it_is_a_plain_revert_and_redo_stays(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        mine = await turn(client)
        head = client.head
        done = await client.ask("Revert", messageId=mine, keepEdits=True)
        assert (done["headId"], "messageId" in done) == ("step-initial", False)
        moved = next(f for f in client.frames if is_head(f))
        assert (moved["redoDepth"], moved["redoId"]) == (1, head)
        await client.ask("Redo")
        gone = await edit(client, note("n"))
        await edit(client, {"op": "removeComment", "commentBoxID": "n"})
        done = await client.ask("Revert", messageId=gone, keepEdits=True)
        assert (done["headId"], client.frames[-2]["redoDepth"]) == (head, 1)


async def test_what_does_not_fit_there_is_refused_and_nothing_changes(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        mine = await turn(client)
        await edit(client, note("n"))
        await edit(client, move("op1", 40))
        before = (await server.http.get(f"/sessions/{session}")).json()
        saved = await workflow(server, session)
        told = await preview(server, session, turn_id=mine)
        refused = await client.ask("Revert", messageId=mine, keepEdits=True)
        assert refused["code"] == "edit_conflict"
        assert refused["data"] == {
            "headId": client.head,
            "conflicts": [{"kind": "position", "id": "op1"}],
        }
        assert told["keeps_edits"] is False
        assert told["conflicts"] == refused["data"]["conflicts"]
        assert (await server.http.get(f"/sessions/{session}")).json() == before
        assert await workflow(server, session) == saved
        assert (await client.ask("Redo"))["code"] == "nothing_to_redo"


async def test_a_document_that_was_put_is_kept_as_the_difference_it_made(server: Server) -> None:
    session = await server.session()
    url = f"/sessions/{session}/workflow"
    async with server.connect(session) as client:
        await client.snapshot()
        await turn(client)
        mine = await turn(client, "add a Filter on amount > 10")
        document = await workflow(server, session)
        document["operatorPositions"]["op1"] = {"x": 5, "y": 6}
        put = await server.http.put(url, json=document, headers={"if-match": "*"})
        await client.wait(lambda f: is_head(f) and f["headId"] == put.json()["headId"])
        assert client.path[-1]["content"] == "Moved `op1`"
        await client.ask("Revert", messageId=mine, keepEdits=True)
        saved = await workflow(server, session)
        assert [o["operatorID"] for o in saved["operators"]] == ["op1"]
        assert saved["operatorPositions"] == {"op1": {"x": 5, "y": 6}}
        other = {"operators": [], "home": "made"}
        mine = await turn(client, "add a TextInput")
        await edit(client, {"op": "replaceWorkflow", "workflow": other})
        refused = await client.ask("Revert", messageId=mine, keepEdits=True)
        assert refused["code"] == "edit_conflict"
        assert {"kind": "workflow", "id": ""} in refused["data"]["conflicts"]


async def test_a_document_opened_after_mere_talk_is_kept_whole(
    scripted: tuple[Server, ScriptedProvider],
) -> None:
    server, provider = scripted
    provider.will([text("just talk")])
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        mine = await turn(client, "talk")
        other = {"home": ["made"], "operators": [{"operatorID": "x", "operatorType": "HomeMade"}]}
        await edit(client, {"op": "replaceWorkflow", "workflow": other})
        done = await client.ask("Revert", messageId=mine, keepEdits=True)
        assert done["type"] == "WsServerAckEvent", done
        assert await workflow(server, session) == other


async def test_a_link_that_was_drawn_keeps_its_id_so_that_later_edits_find_it(
    scripted: tuple[Server, ScriptedProvider],
) -> None:
    server, provider = scripted
    provider.will(
        [call("addOperator", {"operatorId": "a", "operatorType": "CSVFileScan", "properties": {},
                              "summary": "a"}),
         call("addOperator", {"operatorId": "b", "operatorType": "Filter", "properties": {},
                              "summary": "b"}, index=1)],
        [text("done")],
        [text("talk")],
    )  # fmt: skip
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        await turn(client, "build")
        mine = await turn(client, "talk")
        ends = {
            "source": {"operatorID": "a", "portID": "output-0"},
            "target": {"operatorID": "b", "portID": "input-0"},
        }
        await edit(client, {"op": "addLink", "link": ends})
        [link] = (await workflow(server, session))["links"]
        await edit(client, {"op": "changeLink", "linkID": link["linkID"], "set": {"note": 1}})
        done = await client.ask("Revert", messageId=mine, keepEdits=True)
        assert done["type"] == "WsServerAckEvent", done
        assert (await workflow(server, session))["links"] == [link | {"note": 1}]


async def test_one_revert_keeps_so_many_runs_of_edits_and_no_more(fresh_database: str) -> None:
    async with serving(fresh_database, max_kept_edits=2) as server:
        session = await server.session()
        async with server.connect(session) as client:
            await client.snapshot()
            turns = []
            for at in range(3):
                turns.append(await edit(client, note(f"n{at}")))
                await edit(client, note(f"m{at}"))
                await turn(client, "add a Limit")
            refused = await client.ask("Revert", messageId=turns[0], keepEdits=True)
            assert (refused["code"], refused["data"]) == (
                "too_large",
                {"limit": "max_kept_edits", "value": 2},
            )
            assert (await preview(server, session, turn_id=turns[0]))["keeps_edits"] is False
            done = await client.ask("Revert", messageId=turns[1], keepEdits=True)
            assert "code" not in done


async def test_what_was_edited_and_put_back_again_is_in_nobodys_way(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        mine = await turn(client)
        place = (await workflow(server, session))["operatorPositions"]["op1"]
        await edit(client, move("op1", 40))
        await edit(client, note("n"))
        back = {"op": "moveOperator", "operatorID": "op1", "position": place}
        await edit(client, back)
        done = await client.ask("Revert", messageId=mine, keepEdits=True)
        assert done["type"] == "WsServerAckEvent", done
        saved = await workflow(server, session)
        assert (saved["operators"], len(saved["commentBoxes"])) == ([], 1)


async def test_the_same_request_to_keep_edits_is_carried_out_once(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        mine = await turn(client)
        await edit(client, note("n"))
        command = {"messageId": mine, "keepEdits": True, "requestId": "once"}
        first = await client.ask("Revert", **command)
        assert await client.ask("Revert", **command) == first
        assert len(client.path) == 1


# -- a single step


async def test_a_single_step_goes_back_and_comes_again_alone(
    scripted: tuple[Server, ScriptedProvider],
) -> None:
    server, provider = scripted
    adds = [
        [call("addOperator", {"operatorId": n, "operatorType": "Limit", "properties": {},
                              "summary": n}, id=n)]
        for n in "abc"
    ]  # fmt: skip
    provider.will(*adds, [text("done")], [text("talk")])
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        mine = await turn(client, "make three")
        steps, tip = client.path, client.head
        saved = await workflow(server, session)
        done = await client.ask("Revert", stepId=steps[2]["id"])
        assert (done["headId"], client.head) == (steps[1]["id"], steps[1]["id"])
        moved = next(f for f in client.frames if is_head(f))
        assert (moved["cause"], moved["redoId"]) == ("revert", tip)
        shown = [o["operatorID"] for o in (await workflow(server, session))["operators"]]
        assert shown == ["a"]
        await client.ask("Redo")
        assert (client.path, await workflow(server, session)) == (steps, saved)
        await client.ask("Revert", stepId=steps[2]["id"])
        other = await turn(client, "go on")
        assert [s["messageId"] for s in client.path] == [mine, mine, other, other]
        assert (await preview(server, session, turn_id=mine))["turn_count"] == 2
        await client.ask("Revert", messageId=mine)
        assert client.head == "step-initial"


# -- redo


async def test_redo_says_which_step_the_next_redo_lands_on(server: Server) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        turns, tips = [], []
        for content in (ADD_SCAN, "add a Filter on amount > 10", "add a Limit"):
            turns.append(await turn(client, content))
            tips.append(client.head)
        for mine in reversed(turns):
            await client.ask("Revert", messageId=mine)
        told = [f["redoId"] for f in client.frames if is_head(f)]
        assert told == tips[::-1]
        async with server.connect(session) as fresh:
            frame = await fresh.snapshot()
        assert (frame["redoId"], frame["redoDepth"], frame["archived"]) == (tips[0], 3, False)
        for tip in tips:
            done = await client.ask("Redo")
            assert done["headId"] == tip
        assert client.frames[-2]["redoId"] is None


async def test_an_archived_session_says_so_in_its_snapshot(server: Server) -> None:
    session = await server.session()
    await server.http.patch(f"/sessions/{session}", json={"archived": True})
    async with server.connect(session) as client:
        assert (await client.snapshot())["archived"] is True


@pytest.mark.case(21)
@pytest.mark.parametrize("by_rest", [False, True])
async def test_redo_all_is_the_state_before_all_reverts(server: Server, by_rest: bool) -> None:
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        turns = [await turn(client), await edit(client, note("n")), await turn(client)]
        head, saved = client.head, await workflow(server, session)
        await client.ask("Revert", stepId=head)
        for mine in reversed(turns):
            await client.ask("Revert", messageId=mine)
        if by_rest:
            body = {"type": "WsClientRedoCommand", "all": True}
            answer = await server.http.post(f"/sessions/{session}/commands", json=body)
            assert answer.json()["headId"] == head
        else:
            assert (await client.ask("Redo", all=True))["headId"] == head
        assert canonical(await workflow(server, session)) == canonical(saved)
        assert (await client.ask("Redo"))["code"] == "nothing_to_redo"


@pytest.mark.parametrize("value", [True, "nonsense"])
async def test_what_is_for_v1_means_nothing_in_a_base_clients_frame(
    server: Server, value: Any
) -> None:
    session = await server.session()
    async with server.connect(session) as one, server.connect(session, v1=False) as two:
        await one.snapshot()
        turns = [await turn(one), await edit(one, note("n"))]
        plus = {"keepEdits": value, "effects": "undo", "planId": "p", "confirm": value}
        step = one.path[1]["id"]
        for mine in reversed(turns):
            await two.send("Revert", messageId=mine, stepId=step, expectedHeadId="nowhere", **plus)
            await two.wait(lambda f: is_head(f) and f["canRedo"], since=len(two.frames) - 1)
        await one.wait(lambda f: is_head(f) and f["redoDepth"] == 2)
        await two.send("Redo", all=value, requestId={"not": "a key"})
        moved = await one.wait(lambda f: is_head(f) and f["cause"] == "redo")
        assert moved["redoDepth"] == 1
        assert not [f for f in two.frames if f["type"] == "WsServerErrorEvent"]
