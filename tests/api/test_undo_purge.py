"""What a purge leaves of what a session did outside, and of its undos: nothing of what it said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dump import dumped, holding
from processes import eventually
from scripted_provider import ScriptedProvider
from undoing import Place, place

MARK = "zanzibar"


async def undone(w: Place, name: str) -> str:
    """A session that did things, undid some, met somebody else's, and left what is left."""
    session = await w.server.session(name=MARK)
    async with w.server.connect(session) as client:
        await client.snapshot()
        turn = await w.turn(
            client,
            w.set_phone(f"{MARK}-1", name),
            w.set_phone(f"{MARK}-2", f"{name}-too", nth=1),
            w.send_mail(f"{MARK} said", nth=2),
            says=f"tell {MARK}",
        )
        w.person_sets(f"{MARK}-theirs", name)
        report = await w.undo(session, turn_ids=[turn])
        assert sorted(item["state"] for item in report["items"]) == [
            "needs_review",
            "needs_you",
            "reverted",
        ]
        residue = report["residues"][0]["residue_id"]
        ack = await client.ask("Acknowledge", residueId=residue)
        assert ack["type"] == "WsServerAckEvent"
        plan: dict[str, Any] = await w.plan(session, undo_id=report["undo_id"])
        assert plan["members"]
        again = await w.turn(client, w.set_phone(f"{MARK}-3", f"{name}-too"), says="again")
        assert await w.plan(session, turn_ids=[again])
    return session


async def purged(w: Place, session: str) -> None:
    http = w.server.http
    assert (await http.delete(f"/sessions/{session}")).is_success
    answer = await http.post(f"/sessions/{session}/purge")
    assert answer.is_success, answer.text


async def test_a_purge_leaves_no_word_of_what_was_done_outside_nor_of_its_undos(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w:
        session = await undone(w, MARK)
        marked = holding(await dumped(fresh_database), MARK)
        assert {"effects", "ledger", "residues", "undo_plans", "compensations"} <= set(marked)
        await purged(w, session)
        kept = await dumped(fresh_database)
        assert holding(kept, MARK) == []
        assert kept["effects"]
        assert kept["undo_runs"]
        answer = await w.server.http.get(f"/sessions/{session}/undos")
        assert answer.json()["code"] == "session_not_found"


async def test_the_sweeper_takes_all_of_it(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider, sweep_grace=31.0) as w:
        session = await undone(w, MARK)
        assert (await w.server.http.delete(f"/sessions/{session}")).is_success
        dao = w.server.app.state.sessions.dao
        async with dao._db.connection(writes=True) as connection:
            await connection.execute("update sessions set deleted_at = now() - interval '1 day'")
        swept = await dao.sweeper.run(grace=31.0, batch=2)
        assert swept is not None
        assert swept.sessions == [session]
        left = await dumped(fresh_database)
        assert holding(left, MARK, session) == ["session_directory"]


async def test_what_another_session_needs_of_a_shared_thing_stays(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider) as w:
        first = await w.server.session()
        async with w.server.connect(first) as client:
            await client.snapshot()
            turn = await w.turn(client, w.set_phone("2"))
        other = await w.server.session()
        async with w.server.connect(other) as client:
            await client.snapshot()
            await w.turn(client, w.set_phone(MARK), says="mine")
        w.person_sets("2")
        await purged(w, other)
        assert holding(await dumped(fresh_database), MARK) == []
        report = await w.undo(first, turn_ids=[turn])
        assert (report["outcome"], w.phone()) == ("fully_reverted", "1")


async def test_locks_that_a_dead_process_left_go_when_they_have_expired(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with place(fresh_database, tmp_path, provider, forget_interval=0.05) as w:
        dao = w.server.app.state.sessions.dao
        async with dao._db.connection(writes=True) as connection:
            await connection.execute(
                "insert into resource_locks select 'local', 'python', 'contact', $1,"
                " gen_random_uuid(), gen_random_uuid(), 1, now(), now() - interval '1 s'",
                MARK,
            )

        async def gone() -> bool:
            return holding(await dumped(fresh_database), MARK) == []

        await eventually(gone)
