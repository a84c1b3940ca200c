"""Undos over REST and the socket: the report and what is left, in words, and acknowledged."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from serving import serving
from undone import COMPENSATED, NEEDS_YOU, REVIEW, undone

from turnback.agent import story

if TYPE_CHECKING:
    from pathlib import Path

    from serving import Server
    from wire import Client

LEFT = {"send_email": NEEDS_YOU, "charge_card": COMPENSATED, "update_contact": REVIEW}


async def acted(server: Server, client: Client) -> None:
    """The demo's story, told to its end, nobody asked."""
    await client.snapshot()
    await client.prompt(story.PROMPT)


async def test_a_report_says_what_came_of_each_effect_and_acknowledging_raises_nothing(
    fresh_database: str, tmp_path: Path
) -> None:
    async with serving(fresh_database, demo=True, data_dir=tmp_path, approval="never") as server:
        session = await server.session()
        at = f"/sessions/{session}"

        async def get(path: str, **headers: str) -> Any:
            answer = await server.http.get(at + path, headers=headers)
            assert answer.status_code == 200, answer.text
            return answer.json()

        async with server.connect(session) as client:
            await acted(server, client)
            effects = (await get("/effects"))["effects"]
            assert [effect["number"] for effect in effects] == list(range(1, 13))
            assert {effect["standing"] for effect in effects} == {"in_force"}
            sent = next(e for e in effects if e["tool"] == "demo.send_email")
            assert (sent["class"], sent["verb"]) == ("irreversible", "acknowledge")
            assert sent["people"] == ["lina@example.org"]
            rest = await get("/effects?cursor=5&limit=5")
            assert [e["number"] for e in rest["effects"]] == [6, 7, 8, 9, 10]
            assert rest["next_cursor"] == 10
            tools = {tool["tool"]: tool for tool in (await get("/tools"))["tools"]}
            assert tools["demo.send_email"]["class"] == "irreversible"
            assert tools["demo.update_contact"]["classes"] == ["reversible"]

            undo_id = await undone(fresh_database, session, LEFT)
            [listed] = (await get("/undos"))["undos"]
            assert (listed["undo_id"], listed["open_residues"]) == (undo_id, 3)
            report = await get(f"/undos/{undo_id}?utc_offset=60")
            assert report["headline"] == listed["headline"]
            assert report["headline"].startswith(
                "Partially reverted: 1 needs you, 1 needs a review"
            )
            items = {item["tool"]: item for item in report["items"]}
            [leaf] = items["demo.update_contact"]["values"]
            assert (leaf["now"], leaf["has_goal"]) == ("Somebody else’s", True)
            left = {residue["effect_id"]: residue for residue in report["residues"]}
            mail = left[sent["effect_id"]]
            assert "Table for twelve" in mail["what"]
            assert "UTC+1" in mail["saw"]
            assert mail["draft"]["to"] == ["lina@example.org"]
            assert "long table" not in str(report)  # no body of a mail
            german = await get("/residues?status=open", **{"accept-language": "de-AT, en;q=0.5"})
            assert (german["language"], len(german["residues"])) == ("de", 3)

            async with server.connect(session) as later:
                [told] = (await later.snapshot())["undos"]
                assert (told["undoId"], told["phase"]) == (undo_id, "ended")
                assert "lina" not in str(told)
            path = f"{at}/residues/{mail['residue_id']}/acknowledge"
            answers = await asyncio.gather(*(server.http.post(path) for _ in range(3)))
            assert {answer.json()["status"] for answer in answers} == {"acknowledged"}
            frame = await client.wait(lambda f: f["type"] == "WsServerUndoEvent")
            assert (frame["phase"], frame["undoRevision"]) == ("settled", 2)
            assert frame["outcome"] == "partially_reverted"
            states = {item["effectId"]: item["residue"] for item in frame["items"]}
            assert states[sent["effect_id"]]["status"] == "acknowledged"
            assert (await get("/undos"))["undos"][0]["outcome"] == "partially_reverted"
            seen = [f for f in client.durable if f["type"] == "WsServerUndoEvent"]
            assert len(seen) == 1  # once, however often it was asked
