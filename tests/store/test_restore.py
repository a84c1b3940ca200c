"""Backup and restore as docs/operations.md says: by base backup, dump and copy.

Afterwards everything is there, a run that the backup cut off is ended, and a client that saw more
than the backup holds is not told that it has missed nothing.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from scripted_provider import Pause, ScriptedProvider, text
from serving import Server, serving
from wire import Client

from turnback.store.embedded import Embedded, binaries
from turnback.store.migrate import migrate

TURNBACK = Path(sys.executable).parent / "turnback"


def run(*command: str | Path, **environment: str) -> str:
    """What a command prints, as an administrator gives it."""
    done = subprocess.run(
        [str(word) for word in command],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@dataclass
class Seen:
    """What a client knew when the backup was made, and what it saw after that."""

    session: str
    steps: list[dict[str, Any]]
    epoch: str
    revision: int = 0


async def use(server: Server, provider: ScriptedProvider, client: Client) -> Seen:
    """Some turns, one of them reverted, and a run that is under way."""
    session = client.url.split("/")[-2]
    for said in ("one", "two", "three"):
        provider.will([text(f"answer to {said}")])
        await client.prompt(said)
    await client.ask("Revert", messageId=client.path[-1]["messageId"])
    provider.will([text("an answer "), Pause()])
    await client.send("Prompt", content="four")
    await client.wait(lambda f: f.get("text") == "an answer ")
    steps = (await server.http.get(f"/sessions/{session}/steps?limit=50")).json()["steps"]
    return Seen(session, steps, (await client.snapshot())["streamEpoch"])


async def end(client: Client, seen: Seen) -> None:
    """What happens after the backup, and is lost with the machine."""
    at = len(client.frames)
    await client.send("Stop")
    await client.wait(lambda f: f.get("state") == "AVAILABLE", since=at)
    seen.revision = client.durable[-1]["eventSeq"]


async def whole(url: str, seen: Seen, **model: Any) -> None:
    """Everything that the backup held is there, and can be gone on with."""
    async with serving(url, lease_expiry=1.0, **model) as server:
        query = f"?since={seen.revision}&epoch={seen.epoch}"
        async with server.connect(seen.session, query=query) as client:
            snapshot = await client.snapshot()
            assert snapshot["reset"] is True
            assert snapshot["streamEpoch"] != seen.epoch
            if snapshot["state"] != "AVAILABLE":
                await client.wait(lambda f: f.get("state") == "AVAILABLE", since=1)
            assert client.path[-1]["endReason"] == "interrupted"
            answer = await server.http.get(f"/sessions/{seen.session}/steps?limit=50")
            assert answer.json()["steps"][: len(seen.steps)] == seen.steps
            assert len(answer.json()["steps"]) == len(seen.steps) + 1
            await client.ask("Revert", messageId=client.path[-1]["messageId"])
            await client.ask("Redo")
            assert client.path[-1]["endReason"] == "interrupted"


@pytest.mark.parametrize("way", ["base backup", "dump"])
async def test_what_was_backed_up_is_restored_whole(
    way: str,
    tmp_path: Path,
    provider: ScriptedProvider,
    blank_database: str,
) -> None:
    old, new, dump = tmp_path / "old", tmp_path / "new", tmp_path / "turnback.dump"
    with await asyncio.to_thread(Embedded.start, old) as embedded:
        await asyncio.to_thread(migrate, embedded.url)
        host = (old / "postgres" / "postmaster.pid").read_text().splitlines()[4]
        async with (
            serving(embedded.url, **provider.settings) as server,
            server.connect(await server.session()) as client,
        ):
            await client.snapshot()
            seen = await use(server, provider, client)
            there = ("-h", host, "-U", "turnback")
            if way == "base backup":
                new.mkdir(mode=0o700)
                base = (binaries() / "pg_basebackup", *there, "-D", new / "postgres")
                await asyncio.to_thread(run, *base, "-c", "fast")
            else:
                out = (binaries() / "pg_dump", *there, "-Fc", "-f", dump, "turnback")
                await asyncio.to_thread(run, *out)
            await end(client, seen)
    if way == "dump":
        restore = (binaries() / "pg_restore", "--no-owner", "-d", blank_database, dump)
        await asyncio.to_thread(run, *restore)
        told = await asyncio.to_thread(
            run, TURNBACK, "restored", TURNBACK_DATABASE_URL=blank_database
        )
        assert "new stream epoch" in told
        await whole(blank_database, seen, **provider.settings)
        return
    assert "new stream epoch" in await asyncio.to_thread(
        run, TURNBACK, "restored", "--data-dir", new
    )
    with await asyncio.to_thread(Embedded.start, new) as embedded:
        await whole(embedded.url, seen, **provider.settings)


async def test_a_copy_of_a_stopped_servers_directory_is_a_backup(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    with await asyncio.to_thread(Embedded.start, old) as embedded:
        await asyncio.to_thread(migrate, embedded.url)
        async with serving(embedded.url) as server:
            session = await server.session(name="kept")
    shutil.copytree(old, new)
    shutil.rmtree(old)
    await asyncio.to_thread(run, TURNBACK, "restored", "--data-dir", new)
    with await asyncio.to_thread(Embedded.start, new) as embedded:
        async with serving(embedded.url) as server:
            answer = await server.http.get(f"/sessions/{session}")
    assert answer.json()["name"] == "kept"


def test_a_folder_without_a_database_has_nothing_that_was_restored(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(TURNBACK), "restored", "--data-dir", str(tmp_path / "misspelt")],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if "TURNBACK" not in name},
    )
    assert done.returncode == 1
    assert "holds no database" in done.stderr
    assert not (tmp_path / "misspelt").exists()


async def test_an_empty_database_has_nothing_that_was_restored(blank_database: str) -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        [str(TURNBACK), "restored"],
        env=os.environ | {"TURNBACK_DATABASE_URL": blank_database},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "restore the backup into it first" in done.stderr


async def test_clients_of_a_running_server_are_told_to_begin_anew(
    fresh_database: str,
) -> None:
    async with serving(fresh_database, poll_interval=0.1) as server:
        session = await server.session()
        async with server.connect(session) as client:
            epoch = (await client.snapshot())["streamEpoch"]
            await asyncio.to_thread(run, TURNBACK, "restored", TURNBACK_DATABASE_URL=fresh_database)
            assert await client.until_closed() == 1012
        async with server.connect(session, query=f"?since=0&epoch={epoch}") as client:
            snapshot = await client.snapshot()
            assert snapshot["reset"] is True
            assert snapshot["streamEpoch"] != epoch
