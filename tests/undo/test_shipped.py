"""The overlays that come with Turnback, carried by the service: real servers, turns, strangers.

What is compared is the graph's file, the folder, the repository: not what the servers say of them.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ground import SETTINGS, Acting
from processes import eventually
from scripted_provider import ScriptedProvider
from serving import serving

MODULES = Path(__file__).parent.parent / "servers" / "node_modules" / "@modelcontextprotocol"
ADA = {"type": "entity", "name": "ada", "entityType": "person", "observations": ["likes tea"]}
BEN = {"type": "entity", "name": "ben", "entityType": "person", "observations": []}
KNOWS = {"type": "relation", "from": "ada", "to": "ben", "relationType": "knows"}


@asynccontextmanager
async def acting(
    url: str, provider: ScriptedProvider, overlay: str, *command: str, **env: str
) -> AsyncIterator[Acting]:
    """A session of a service that has one of the public servers, by the overlay of that name."""
    server = {"command": command[0], "args": command[1:], "env": env, "overlay": overlay}
    settings: dict[str, Any] = SETTINGS | {"tool_timeout": 30.0, "mcp_servers": {overlay: server}}
    async with serving(url, **provider.settings, **settings) as service:
        found = Acting(overlay, provider, service)
        await found.anew()
        await eventually(found.is_listed)
        yield found


def node(package: str) -> tuple[str, str]:
    script = MODULES / package / "dist" / "index.js"
    assert script.exists(), "`make test` installs the real servers by npm"
    return "node", str(script)


def states(report: dict[str, Any] | None) -> list[str]:
    assert report is not None
    return [str(item["state"]) for item in report["items"]]


async def test_a_graph_is_put_back_beside_what_a_stranger_wrote_into_it(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    file = tmp_path / "graph.jsonl"

    def write(*lines: dict[str, Any]) -> None:
        file.write_text("\n".join(json.dumps(line) for line in lines))

    def graph() -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in file.read_text().splitlines() if line]
        return sorted(lines, key=lambda line: (line["type"], str(line.get("name"))))

    write(ADA, BEN, KNOWS)
    before = graph()
    eve = {"name": "eve", "entityType": "person", "observations": ["new"]}
    async with acting(
        fresh_database, provider, "memory", *node("server-memory"), MEMORY_FILE_PATH=str(file)
    ) as a:
        await a.turn(
            ("create_entities", {"entities": [eve]}),
            ("delete_entities", {"entityNames": ["ben"]}),
        )
        await a.turn(
            (
                "add_observations",
                {"observations": [{"entityName": "ada", "contents": ["rows"]}]},
            ),
        )
        assert graph() != before
        assert states(await a.undo()) == ["reverted"] * 3
        assert graph() == before

        await a.anew()
        rows = {"observations": [{"entityName": "ada", "contents": ["rows"]}]}
        await a.turn(("add_observations", rows), ("delete_entities", {"entityNames": ["ben"]}))
        theirs = {**ADA, "observations": ["likes tea", "rows", "a stranger's"]}
        again = {**BEN, "observations": ["another one"]}
        write(theirs, again)  # one beside what we added, one under the name that we deleted
        found = await a.undo(turn_ids=a.turns, policy="independent")
        assert sorted(states(found)) == ["needs_review", "reverted"]
        kept = {**ADA, "observations": ["likes tea", "a stranger's"]}
        assert graph() == [kept, again]


async def test_files_are_put_back_byte_by_byte_and_a_stranger_s_are_not_touched(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    root = tmp_path / "root"
    (root / "deep").mkdir(parents=True)
    (root / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    (root / "b.txt").write_text("Grüße\n")

    def tree() -> dict[str, bytes]:
        files = (path for path in root.rglob("*") if path.is_file())
        return {str(path.relative_to(root)): path.read_bytes() for path in files}

    before = tree()
    a_txt, b_txt, moved = str(root / "a.txt"), str(root / "b.txt"), str(root / "deep" / "c.txt")
    edit = {"path": a_txt, "edits": [{"oldText": "two", "newText": "three"}]}
    async with acting(
        fresh_database, provider, "filesystem", *node("server-filesystem"), str(root)
    ) as a:
        await a.turn(("edit_file", edit), ("write_file", {"path": b_txt, "content": "other"}))
        await a.turn(
            ("move_file", {"source": a_txt, "destination": moved}),
            ("write_file", {"path": f"{root}/./b.txt", "content": "once more"}),
        )
        assert states(await a.undo()) == ["reverted"] * 4
        assert tree() == before

        await a.anew()
        await a.turn(
            ("write_file", {"path": b_txt, "content": "ours"}),
            ("move_file", {"source": a_txt, "destination": moved}),
        )
        (root / "b.txt").write_text("theirs")
        found = await a.undo(turn_ids=a.turns, policy="independent")
        assert sorted(states(found)) == ["needs_review", "reverted"]
        assert tree() == {**before, "b.txt": b"theirs"}


async def git(repository: Path, *args: str) -> str:
    running = await asyncio.create_subprocess_exec(
        *("git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@example.org"),
        *args,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = await running.communicate()
    assert running.returncode == 0, error.decode()
    return out.decode()


async def test_what_was_staged_is_unstaged_unless_somebody_staged_more(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    root = tmp_path / "repository"
    root.mkdir()
    await git(root, "init", "--initial-branch=main")
    (root / "a.txt").write_text("one\n")
    await git(root, "add", ".")
    await git(root, "commit", "--message=first")
    (root / "a.txt").write_text("one\ntwo\n")
    (root / "new.txt").write_text("new\n")
    before = await git(root, "ls-files", "--stage")
    command = (sys.executable, "-m", "mcp_server_git", "--repository", str(root))
    async with acting(fresh_database, provider, "git", *command) as a:
        staging = ("git_add", {"repo_path": str(root), "files": ["a.txt"]})
        await a.turn(staging)
        assert await git(root, "ls-files", "--stage") != before
        assert states(await a.undo()) == ["reverted"]
        assert await git(root, "ls-files", "--stage") == before

        await a.anew()
        await a.turn(staging)
        await git(root, "add", "new.txt")
        there = await git(root, "ls-files", "--stage")
        assert states(await a.undo()) == ["needs_review"]
        assert await git(root, "ls-files", "--stage") == there
