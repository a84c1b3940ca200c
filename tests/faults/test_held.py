"""A commit that outlives its process: held in the database while the process is killed.

The backend of a killed process goes on with the statement it has. Another connection holds the
session's row, so that the commit waits inside PostgreSQL; the process is killed; a server started
meanwhile has read the session as it was before. Then the row is let go.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agreement import idle, last_seq, state
from held import row_of
from processes import Process, eventually, process
from scripted_provider import Pause, ScriptedProvider, call, text
from serving import Server, serving
from whole import check_whole, told_once
from wire import Client

ADD = call("addOperator", {"operatorId": "op1", "operatorType": "CSVFileScan", "properties": {},
                           "summary": "scan"})  # fmt: skip


async def prompt(client: Client, server: Process, session: str) -> None:
    await client.send("Prompt", content="held")


async def revert(client: Client, server: Process, session: str) -> None:
    await client.send("Revert", messageId=client.path[0]["messageId"])


async def edit(client: Client, server: Process, session: str) -> None:
    note = {"op": "addComment", "comment": {"commentBoxID": "n", "comments": []}}
    await client.send("EditWorkflow", baseHeadId=client.head, edits=[note])


async def rename(client: Client, server: Process, session: str) -> None:
    asyncio.get_running_loop().create_task(_ignore(server, session))


async def _ignore(server: Process, session: str) -> None:
    try:
        await server.http.patch(f"/sessions/{session}", json={"name": "held"})
    except Exception:
        return


@pytest.mark.kill
@pytest.mark.parametrize("end", ["let go", "killed"])
@pytest.mark.parametrize("command", [prompt, revert, edit, rename])
async def test_a_command_that_outlives_its_process_is_there_whole_or_not_at_all(
    fresh_database: str, tmp_path: Path, command: Any, end: str
) -> None:
    async with process(tmp_path, fresh_database) as first:
        session = await first.session()
        async with first.connect(session) as client, row_of(fresh_database, session) as row:
            await client.snapshot()
            await client.prompt("add a CSVFileScan")
            await row.hold()
            await command(client, first, session)
            await row.waiting()
            first.kill()
            await first.end()
            async with serving(fresh_database) as second, second.connect(session) as witness:
                snapshot = await witness.snapshot()
                assert snapshot["eventSeq"] == last_seq(client)
                if end == "killed":
                    await row.kill_first()
                    await row.waiting(0)
                await row.let_go()
                at = await check_comes_to_rest(second, session, witness, fresh_database)
                assert (at > last_seq(client)) is (end == "let go")


@pytest.mark.kill
@pytest.mark.parametrize("end", ["let go", "killed"])
@pytest.mark.parametrize("at", ["a step", "the last step", "a stop"])
async def test_a_step_that_outlives_its_process_and_the_takeover_of_its_run_exclude_each_other(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, at: str, end: str
) -> None:
    hold = asyncio.Event()
    provider.will(
        [text("one"), Pause(hold), ADD] if at == "a step" else [text("one"), Pause(hold)],
        [text("two")],
    )
    async with process(tmp_path, fresh_database, **provider.settings) as first:
        session = await first.session()
        async with first.connect(session) as client, row_of(fresh_database, session) as row:
            await client.snapshot()
            await client.send("Prompt", content="work")
            await client.wait(lambda f: f["type"] == "WsServerDeltaEvent")
            await row.hold()
            if at == "a stop":
                await client.send("Stop")
            else:
                hold.set()
            await row.waiting()
            first.kill()
            await first.end()
            async with serving(fresh_database) as second:
                await row.waiting(2)  # the takeover is behind it
                if end == "killed":
                    await row.kill_first()
                    await row.waiting(1)
                await row.let_go()
                async with second.connect(session) as witness:
                    await witness.snapshot()
                    await idle(witness)
                    await check_comes_to_rest(second, session, witness, fresh_database)
                    steps = [s for s in witness.path if s["role"] == "agent"]
                    ends = [s["endReason"] for s in steps]
                    if at == "the last step" and end == "let go":
                        assert ends == ["complete"]
                    elif at == "a step" and end == "let go":
                        assert ends == [None, "interrupted"]
                    else:
                        assert ends[-1] == "interrupted"


async def check_comes_to_rest(second: Server, session: str, witness: Client, url: str) -> int:
    """The session becomes available, is whole, is what a fresh client sees, and goes on.

    Returns the `eventSeq` at which it came to rest.
    """

    async def rest() -> bool:
        async with second.connect(session, query="?since=0") as replayed:
            await replayed.send("Stop", requestId="now")
            answer = await replayed.wait(lambda f: f.get("requestId") == "now")
            told_once(replayed.durable)
            return bool(
                last_seq(witness) == answer["eventSeq"] == last_seq(replayed)
                and state(witness) == "AVAILABLE"
            )

    await asyncio.sleep(0.5)  # longer than the poll: what was held has been found by then
    await eventually(rest)
    rested = last_seq(witness)
    await check_whole(url)
    told_once(witness.durable)
    async with second.connect(session) as fresh:
        frame = await fresh.snapshot()
    assert (frame["headId"], frame["state"]) == (witness.head, "AVAILABLE")
    path = [step["id"] for step in frame["steps"]]
    turn = frame["steps"][-1]["messageId"] if path else None
    if turn is not None:
        await witness.ask("Revert", messageId=turn)
        again = await witness.ask("Redo")
        assert again["headId"] == path[-1]
    return rested
