"""What was done outside before a backup, undone after a restore: looked at again, every one of it.

The world has moved on meanwhile, and what moved it is not in the backup.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from scripted_provider import ScriptedProvider, call
from undoing import place

from turnback.store.embedded import binaries

TURNBACK = Path(sys.executable).parent / "turnback"


async def run(*command: str | Path, **environment: str) -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        [str(word) for word in command],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


async def back_up(url: str, to: Path) -> None:
    asked = urlsplit(url)
    host = parse_qs(asked.query)["host"][0]
    there = ("-h", host, "-U", "turnback")
    await run(binaries() / "pg_dump", *there, "-Fc", "-f", to, asked.path.removeprefix("/"))


async def restore(dump: Path, url: str) -> None:
    await run(binaries() / "pg_restore", "--no-owner", "-d", url, dump)
    await run(TURNBACK, "restored", TURNBACK_DATABASE_URL=url)


async def test_nothing_is_overwritten_or_offset_twice_that_a_backup_does_not_know(
    fresh_database: str, blank_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    dump, shop = tmp_path / "turnback.dump", str(tmp_path / "shop")
    charge = call("python__charge", {"at": shop, "amount": "7"}, id="ch", index=3)
    mail = {"to": str(tmp_path / "mailbox"), "text": "hello"}
    later = call("python__mail_later", mail, id="la", index=4)
    async with place(fresh_database, tmp_path, provider) as w:
        session = await w.server.session()
        async with w.server.connect(session) as client:
            await client.snapshot()
            phones = [w.set_phone("2", name, nth=n) for n, name in enumerate(("ann", "ben", "cem"))]
            turn = await w.turn(client, *phones, charge, later)
            await back_up(fresh_database, dump)
            # What the backup does not know: two are taken back, one is written to again.
            effects = (await w.server.http.get(f"/sessions/{session}/effects")).json()["effects"]
            taken = [e["effect_id"] for e in (effects[1], effects[3])]
            assert (await w.undo(session, effect_ids=taken))["outcome"] == "partially_reverted"
            await w.turn(client, w.set_phone("3", "ann"), says="and again")
    assert (w.phone("ann"), w.phone("ben"), w.phone("cem")) == ("3", "1", "2")
    assert w.calls("refund") == 1
    calls = w.calls("set_phone")
    await restore(dump, blank_database)
    async with place(blank_database, tmp_path, provider) as w:

        async def listed() -> list[dict[str, Any]]:
            answer = await w.server.http.get(f"/sessions/{session}/effects")
            return list(answer.json()["effects"])

        assert len(await listed()) == 5
        held = (await listed())[4]
        assert (held["state"], held["standing"]) == ("in_doubt", "in_doubt")
        plan = await w.plan(session, turn_ids=[turn])
        assert all(member["restored"] for member in plan["members"])
        assert plan["plain"] is False
        report = await w.undo(session, turn_ids=[turn])
        ended = {item["effect_id"]: (item["state"], item["reason"]) for item in report["items"]}
        assert [ended[effect["effect_id"]] for effect in await listed()] == [
            ("needs_review", "drift"),  # written to since
            ("reverted", "already"),  # taken back since
            ("reverted", None),  # as it was left
            ("needs_review", "restored"),  # nobody can look whether it was offset since
            ("in_doubt", "forward_in_doubt"),  # it may have been sent since
        ]
        assert (w.phone("ann"), w.phone("ben"), w.phone("cem")) == ("3", "1", "1")
        assert (w.calls("set_phone"), w.calls("refund")) == (calls + 1, 1)
        assert w.calls("mail_later") == 0
        assert report["outcome"] == "partially_reverted"
