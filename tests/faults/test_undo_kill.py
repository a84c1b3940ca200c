"""kill -9 around an undo: another process goes on with it, and it comes to the same.

Whatever the instant, outcome, standings and residue are those of an undisturbed run, nothing is
undone twice, and nothing is lost (undo.md 7).
"""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from processes import eventually, process
from scripted_provider import ScriptedProvider, call, text
from serving import serving
from undoing import OUTSIDE, report, states
from whole import check_whole

POINTS = (
    "undo.committed", "undo.claimed", "undo.checked@1", "undo.checked@2", "undo.intended@1",
    "undo.intended@2", "undo.applied@1", "undo.applied@2", "undo.marked@1", "undo.marked@2",
    "undo.verified@1", "undo.verified@2", "undo.last", "undo.ended",
)  # fmt: skip
QUICK = frozenset({"undo.committed", "undo.intended@1", "undo.applied@2", "undo.last"})


def points() -> list[object]:
    marks = {point: () if point in QUICK else pytest.mark.soak for point in POINTS}
    return [pytest.param(point, marks=mark) for point, mark in marks.items()]


def answer(folder: Path) -> list[dict[str, Any]]:
    said = [text("I shall")]
    for at, name in enumerate(("ann", "ben")):
        (folder / name).write_text('{"phone": "1"}')
        args = {"id": str(folder / name), "phone": "2"}
        said.append(call("python__set_phone", args, id=f"c{at}", index=at))
    mail = {"to": str(folder / "mailbox"), "text": "Hello"}
    return [*said, call("python__send_mail", mail, id="m", index=2)]


def phones(folder: Path) -> list[str]:
    return [json.loads((folder / name).read_text())["phone"] for name in ("ann", "ben")]


@pytest.mark.undo(24)
@pytest.mark.kill
@pytest.mark.parametrize("failpoint", points())
async def test_an_undo_whose_process_died_is_carried_on_by_another_to_the_same_end(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider, failpoint: str
) -> None:
    settings = provider.settings | OUTSIDE
    provider.will(answer(tmp_path), [text("done")])
    async with (
        process(tmp_path, fresh_database, failpoint=failpoint, **settings) as first,
        serving(fresh_database, **settings) as second,
    ):
        session = await first.session()
        async with first.connect(session) as client, second.connect(session) as other:
            await client.snapshot()
            await other.snapshot()
            [turn] = {f["step"]["messageId"] for f in await client.prompt("do") if "step" in f}
            plan = await first.http.post(
                f"/sessions/{session}/undo-plan", json={"revert": {"turn_id": turn}}
            )
            plan_id = plan.json()["plan_id"]
            await client.send("Revert", messageId=turn, effects="undo", planId=plan_id)
            await first.gone.wait()
            assert await first.end() == -9
            await eventually(
                lambda: any(f.get("phase") == "ended" for f in other.frames), within=30
            )
            [undo_id] = {f["undoId"] for f in other.frames if f.get("undoId")}
            found = await report(second, session, undo_id)
            ended = [f for f in other.frames if f.get("phase") == "ended"]
            assert len(ended) == 1
            moved = [f for f in other.frames if f["type"] == "WsServerHeadChangeEvent"]
            assert [f["headId"] for f in moved] == ["step-initial"]
    assert found["outcome"] == "partially_reverted"
    assert sorted(states(found)) == ["needs_you", "reverted", "reverted"]
    assert len(found["residues"]) == 1
    assert phones(tmp_path) == ["1", "1"]
    # A call that may have been sent before the kill is looked for before it is made again.
    assert (tmp_path / "calls").read_text().split().count("set_phone") == 4
    await check_whole(fresh_database)


@pytest.mark.undo(27)
@pytest.mark.kill
async def test_a_process_that_was_frozen_in_an_undo_past_its_lease_sends_nothing_more(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    short = {"lease_heartbeat": 0.2, "lease_expiry": 1.5}
    settings = provider.settings | OUTSIDE | short
    provider.will(answer(tmp_path), [text("done")])
    async with (
        process(tmp_path, fresh_database, **settings) as first,
        serving(fresh_database, **settings) as second,
    ):
        session = await first.session()
        async with first.connect(session) as client:
            await client.snapshot()
            [turn] = {f["step"]["messageId"] for f in await client.prompt("do") if "step" in f}
            plan = await first.http.post(
                f"/sessions/{session}/undo-plan", json={"turn_ids": [turn]}
            )
            (tmp_path / "hang").touch()
            ack = await client.ask("Undo", planId=plan.json()["plan_id"])
            sent = (tmp_path / "calls").read_text
            await eventually(lambda: sent().split().count("set_phone") == 3)
            # Applied, and not answered: frozen while it writes, the file could not be read.
            back = '{"phone": "1"}'
            files = [tmp_path / "ann", tmp_path / "ben"]
            await eventually(lambda: any(file.read_text() == back for file in files))
            first.send(signal.SIGSTOP)
            (tmp_path / "hang").unlink()
            found = await report(second, session, ack["undoId"])
            calls = sent()
            first.send(signal.SIGCONT)
            await asyncio.sleep(1.0)
            assert sent() == calls
            assert await report(second, session, ack["undoId"]) == found
    assert sorted(states(found)) == ["needs_you", "reverted", "reverted"]
    assert phones(tmp_path) == ["1", "1"]


@pytest.mark.undo(38)
@pytest.mark.kill
async def test_an_inverse_of_two_calls_killed_between_them_is_gone_on_with_and_none_made_twice(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    settings = provider.settings | OUTSIDE
    (tmp_path / "ann").write_text('{"phone": "1"}')
    ann = {"id": str(tmp_path / "ann")}
    provider.will([text("I shall"), call("python__remove_contact", ann, id="r")], [text("done")])
    async with (
        process(tmp_path, fresh_database, failpoint="undo.between", **settings) as first,
        serving(fresh_database, **settings) as second,
    ):
        session = await first.session()
        async with first.connect(session) as client, second.connect(session) as other:
            await client.snapshot()
            [turn] = {f["step"]["messageId"] for f in await client.prompt("do") if "step" in f}
            assert not (tmp_path / "ann").exists()
            await client.send("Revert", messageId=turn, effects="undo")
            await first.gone.wait()
            assert await first.end() == -9
            await eventually(
                lambda: any(f.get("phase") == "ended" for f in other.frames), within=30
            )
            [undo_id] = {f["undoId"] for f in other.frames if f.get("undoId")}
            found = await report(second, session, undo_id)
    assert (found["outcome"], states(found)) == ("fully_reverted", ["reverted"])
    arrived = (tmp_path / "calls").read_text().split()
    assert (arrived.count("create_contact"), arrived.count("set_phone")) == (1, 1)
    assert json.loads((tmp_path / "ann").read_text()) == {"phone": "1"}
