"""A tool that is switched off, or is another by now, reads nothing for a plan or a residue."""

from __future__ import annotations

from pathlib import Path

from processes import eventually
from scripted_provider import ScriptedProvider, call
from undoing import place, undo_frames

from turnback.sessions.settling import settle_due

OFF = ("python.get_contact",)


async def test_a_residue_is_not_settled_by_a_read_that_is_switched_off(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    quick = {"undo_settle_interval": 0.05}
    async with place(fresh_database, tmp_path, provider) as w, w.opened() as (session, client):
        ann = {"id": w.contact("ann")}
        turn = await w.turn(client, call("python__announce", ann, id="a"))
        undo = (await w.undo(session, turn_ids=[turn]))["undo_id"]
    w.person_sets("called")
    read = w.calls("get_contact")
    async with place(
        fresh_database, tmp_path, provider, disabled_server_tools=OFF, **quick
    ) as without:
        sessions = without.server.app.state.sessions
        due = await sessions.dao.undos.due(limit=9)
        assert len(due) == 1
        await settle_due(sessions.dao, sessions.outside)
        report = await without.report(session, undo)
        assert [r["status"] for r in report["residues"]] == ["open"]
        assert without.calls("get_contact") == read
    async with place(fresh_database, tmp_path, provider, **quick) as again:

        async def settled() -> bool:
            report = await again.report(session, undo)
            return [r["status"] for r in report["residues"]] == ["settled"]

        await eventually(settled)


async def test_a_plan_is_not_looked_at_by_a_read_that_is_switched_off(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w, w.opened() as (session, client):
        turn = await w.turn(client, w.set_phone("2"))
    read = w.calls("get_contact")
    async with place(fresh_database, tmp_path, provider, disabled_server_tools=OFF) as without:
        async with without.server.connect(session) as client:
            await client.snapshot()
            await without.plan(session, turn_ids=[turn])
            await eventually(
                lambda: any(
                    item.get("check") == "unreadable"
                    for frame in undo_frames(client, "plan")
                    for item in frame["items"]
                )
            )
        assert without.calls("get_contact") == read
