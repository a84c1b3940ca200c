"""The overlays that come with Turnback, held against the real servers: forward, back, compare.

What is compared is the graph's file, the folder, the repository: not what the servers say of them.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from overlays import FOLDER
from taking_back import Drifted, World

from turnback.core.contracts import answers
from turnback.core.effects import EffectClass
from turnback.settings import McpServer, Settings
from turnback.tools.catalog import configured_overlays
from turnback.tools.limits import ToolLimits
from turnback.tools.mcp import McpConnection
from turnback.tools.registry import Registry
from turnback.tools.servers import configured

MODULES = Path(__file__).parent.parent / "servers" / "node_modules" / "@modelcontextprotocol"


@asynccontextmanager
async def outside(server: McpServer) -> AsyncIterator[World]:
    """The server under a name of our own, with the contracts that its settings ask for."""
    settings = Settings(mcp_servers={"thing": server})
    (name,) = configured(settings)
    connection = McpConnection(name, server, ToolLimits.of(settings))
    connection.start()
    given = configured_overlays(settings)
    registry = Registry(overlays={name: one.contracts for name, one in given.items()})
    try:
        tools = registry.put(name, await connection.tools())
        assert not [tool.name for tool in tools if tool.why], "every tool has a contract"
        assert given[name].contracts.keys() <= {tool.name for tool in tools}
        yield World(connection, registry)
    finally:
        await connection.close()


def node(package: str, *args: str, **settings: Any) -> McpServer:
    script = MODULES / package / "dist" / "index.js"
    assert script.exists(), "`make test` installs the real servers by npm"
    return McpServer(command="node", args=(str(script), *args), **settings)


# -- memory


GRAPH: list[dict[str, Any]] = [
    {"type": "entity", "name": "ada", "entityType": "person", "observations": ["likes tea"]},
    {"type": "entity", "name": "ben", "entityType": "person", "observations": []},
    {"type": "relation", "from": "ada", "to": "ben", "relationType": "knows"},
    {"type": "relation", "from": "ben", "to": "ben", "relationType": "trusts"},
    {"type": "relation", "from": "ada", "to": "dan", "relationType": "misses"},
]
"""Of `dan` there is only a relation: it is there without its entity."""


class Graph:
    """The server's file, as anybody may write it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.write(GRAPH)

    def write(self, lines: list[dict[str, Any]]) -> None:
        self.file.write_text("\n".join(json.dumps(line) for line in lines))

    def read(self) -> list[dict[str, Any]]:
        """Its lines; of what the server keeps in no order, in an order of ours."""
        lines = [json.loads(line) for line in self.file.read_text().splitlines() if line]
        for line in lines:
            line.get("observations", []).sort()
        return sorted(lines, key=lambda line: json.dumps(line, sort_keys=True))


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph(tmp_path / "graph.jsonl")


@pytest.fixture
async def memory(graph: Graph) -> AsyncIterator[World]:
    env = {"MEMORY_FILE_PATH": str(graph.file)}
    async with outside(node("server-memory", env=env, overlay="memory")) as world:
        yield world


def entity(name: str, *observations: str) -> dict[str, Any]:
    return {"name": name, "entityType": "person", "observations": list(observations)}


def relation(source: str, to: str, kind: str = "knows") -> dict[str, Any]:
    return {"from": source, "to": to, "relationType": kind}


MEMORY: list[tuple[str, dict[str, Any]]] = [
    ("create_entities", {"entities": [entity("eve", "new"), entity("ada", "not taken over")]}),
    ("create_entities", {"entities": [entity("dan")]}),
    ("delete_entities", {"entityNames": ["ada", "ben", "nobody"]}),
    (
        "add_observations",
        {
            "observations": [
                {"entityName": "ada", "contents": ["likes tea", "rows"]},
                {"entityName": "ben", "contents": ["likes tea"]},
            ]
        },
    ),
    ("delete_observations", {"deletions": [{"entityName": "ada", "observations": ["likes tea"]}]}),
    ("create_relations", {"relations": [relation("ada", "ben"), relation("ben", "ada")]}),
    ("delete_relations", {"relations": [relation("ada", "ben"), relation("ada", "dan", "misses")]}),
]


@pytest.mark.parametrize(("tool", "args"), MEMORY, ids=[tool for tool, _ in MEMORY])
async def test_memory_every_act_is_taken_back_to_the_same_graph(
    memory: World, graph: Graph, tool: str, args: dict[str, Any]
) -> None:
    before = graph.read()
    deed = await memory.do(tool, **args)
    assert deed.class_ is EffectClass.REVERSIBLE
    assert graph.read() != before
    await memory.take_back(deed)
    assert graph.read() == before


async def test_memory_a_stranger_beside_stays_and_one_on_it_is_not_overwritten(
    memory: World, graph: Graph
) -> None:
    added = {"observations": [{"entityName": "ada", "contents": ["rows"]}]}
    beside = await memory.do("add_observations", **added)
    await memory.ask(
        "add_observations", {"observations": [{"entityName": "ada", "contents": ["a stranger's"]}]}
    )
    await memory.take_back(beside)
    (ada,) = [line for line in graph.read() if line.get("name") == "ada"]
    assert ada["observations"] == ["a stranger's", "likes tea"]

    deleted = await memory.do("delete_entities", entityNames=["ben"])
    await memory.ask("create_entities", {"entities": [entity("ben", "another one")]})
    there = graph.read()
    with pytest.raises(Drifted):
        await memory.take_back(deleted)
    assert graph.read() == there


async def test_memory_what_is_there_already_is_no_change(memory: World, graph: Graph) -> None:
    before = graph.read()
    for tool, args in (
        ("create_entities", {"entities": [entity("ada")]}),
        ("create_relations", {"relations": [relation("ada", "ben")]}),
        (
            "add_observations",
            {"observations": [{"entityName": "ada", "contents": ["likes tea"]}]},
        ),
        ("delete_entities", {"entityNames": ["nobody"]}),
    ):
        deed = await memory.do(tool, **args)
        assert answers.is_unchanged(deed.contract, deed.args, deed.before, deed.result), tool
    assert graph.read() == before


# -- filesystem


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "deep").mkdir(parents=True)
    (root / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    (root / "b.txt").write_text("Grüße\n")
    (root / "raw.bin").write_bytes(b"\xff\xfe\x00raw")
    return root


@pytest.fixture
async def files(folder: Path) -> AsyncIterator[World]:
    async with outside(node("server-filesystem", str(folder), overlay="filesystem")) as world:
        yield world


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every path in a folder, with what is in the files."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


async def test_files_what_was_written_edited_and_moved_is_put_back_byte_by_byte(
    files: World, folder: Path
) -> None:
    before = tree(folder)
    edits = [{"oldText": "two", "newText": "three"}]
    for tool, args in (
        ("write_file", {"path": str(folder / "b.txt"), "content": "other"}),
        ("write_file", {"path": f"{folder}/./deep/../a.txt", "content": ""}),
        ("edit_file", {"path": str(folder / "a.txt"), "edits": edits}),
        (
            "move_file",
            {"source": str(folder / "a.txt"), "destination": str(folder / "deep/c.txt")},
        ),
    ):
        deed = await files.do(tool, **args)
        assert deed.class_ is EffectClass.REVERSIBLE, tool
        assert tree(folder) != before, tool
        await files.take_back(deed)
        assert tree(folder) == before, tool


async def test_files_what_cannot_be_put_back_says_so(files: World, folder: Path) -> None:
    made = await files.do("write_file", path=str(folder / "new.txt"), content="x")
    assert (made.class_, made.decision.residue) == (EffectClass.IRREVERSIBLE, "file_left")
    no_text = await files.do("write_file", path=str(folder / "raw.bin"), content="x")
    assert no_text.class_ is EffectClass.IRREVERSIBLE
    made_folder = await files.do("create_directory", path=str(folder / "more"))
    assert made_folder.decision.residue == "folder_left"
    moved = await files.do(
        "move_file", source=str(folder / "deep"), destination=str(folder / "deeper")
    )
    assert moved.class_ is EffectClass.IRREVERSIBLE
    again = await files.do("create_directory", path=str(folder / "more"))
    assert answers.is_unchanged(again.contract, again.args, again.before, again.result)


async def test_files_a_move_onto_another_file_loses_nothing(files: World, folder: Path) -> None:
    before = tree(folder)
    moved = {"source": str(folder / "a.txt"), "destination": str(folder / "b.txt")}
    reply = await files.ask("move_file", moved)
    assert reply.is_error
    assert tree(folder) == before


async def test_files_a_stranger_s_file_is_not_overwritten(files: World, folder: Path) -> None:
    deed = await files.do("write_file", path=str(folder / "b.txt"), content="ours")
    (folder / "b.txt").write_text("theirs")
    with pytest.raises(Drifted):
        await files.take_back(deed)
    moved = await files.do(
        "move_file", source=str(folder / "a.txt"), destination=str(folder / "c.txt")
    )
    (folder / "a.txt").write_text("theirs")
    with pytest.raises(Drifted):
        await files.take_back(moved)
    assert (folder / "a.txt").read_text() == (folder / "b.txt").read_text() == "theirs"


# -- an administrator's own, in place of ours


@pytest.fixture
def contracts_dir(tmp_path: Path) -> Path:
    made = tmp_path / "contracts"
    made.mkdir(mode=0o755)
    shutil.copy(FOLDER / "public_servers.yaml", made)
    return made


@asynccontextmanager
async def administered(folder: Path, **servers: McpServer) -> AsyncIterator[dict[str, World]]:
    """Real servers, with the contracts that an administrator has put into a folder."""
    settings = Settings(mcp_servers=servers, contracts_dir=folder)
    given = configured_overlays(settings)
    registry = Registry(overlays={name: one.contracts for name, one in given.items()})
    async with AsyncExitStack() as stack:
        worlds = {}
        for name, server in servers.items():
            connection = McpConnection(name, server, ToolLimits.of(settings))
            connection.start()
            stack.push_async_callback(connection.close)
            tools = registry.put(name, await connection.tools())
            assert {tool.name for tool in tools if tool.why is None} == given[name].contracts.keys()
            worlds[name] = World(connection, registry)
        yield worlds


async def test_an_administrators_overlay_counts_and_is_true_of_the_real_servers(
    contracts_dir: Path, graph: Graph, folder: Path
) -> None:
    memory = node("server-memory", env={"MEMORY_FILE_PATH": str(graph.file)}, overlay="memory")
    files = node("server-filesystem", str(folder), overlay="filesystem")
    async with administered(contracts_dir, memory=memory, filesystem=files) as worlds:
        was = graph.read(), tree(folder)
        renamed = {"source": str(folder / "a.txt"), "destination": str(folder / "deep/c.txt")}
        for name, tool, args in (
            ("memory", "create_entities", {"entities": [entity("eve", "new"), entity("ada")]}),
            (
                "memory",
                "add_observations",
                {"observations": [{"entityName": "ada", "contents": ["likes tea", "rows"]}]},
            ),
            ("memory", "delete_entities", {"entityNames": ["ada", "nobody"]}),
            ("filesystem", "write_file", {"path": str(folder / "b.txt"), "content": "other"}),
            ("filesystem", "move_file", renamed),
        ):
            deed = await worlds[name].do(tool, **args)
            assert deed.class_ is EffectClass.REVERSIBLE, tool
            assert (graph.read(), tree(folder)) != was, tool
            await worlds[name].take_back(deed)
            assert (graph.read(), tree(folder)) == was, tool


# -- git


async def git(repository: Path, *args: str) -> str:
    program = shutil.which("git")
    assert program, "the tests need git"
    running = await asyncio.create_subprocess_exec(
        *(program, "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@example.org"),
        *args,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = await running.communicate()
    assert running.returncode == 0, error.decode()
    return out.decode()


@pytest.fixture
async def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    await git(root, "init", "--initial-branch=main")
    (root / "a.txt").write_text("one\n")
    await git(root, "add", ".")
    await git(root, "commit", "--message=first")
    (root / "a.txt").write_text("one\ntwo\n")
    (root / "new.txt").write_text("new\n")
    return root


@pytest.fixture
async def git_server(repository: Path) -> AsyncIterator[World]:
    args = ("-m", "mcp_server_git", "--repository", str(repository))
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org"}
    who |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org"}
    server = McpServer.model_validate(
        {"command": sys.executable, "args": args, "env": who, "overlay": "git"}
    )
    async with outside(server) as world:
        yield world


async def state(repository: Path) -> tuple[str, str, dict[str, bytes | None]]:
    """The repository: what is staged, where its branches are, and the files."""
    staged = await git(repository, "ls-files", "--stage")
    refs = await git(repository, "for-each-ref") + (repository / ".git/HEAD").read_text()
    kept = {name: it for name, it in tree(repository).items() if not name.startswith(".git")}
    return staged, refs, kept


async def test_git_what_was_staged_is_unstaged_and_the_rest_stays(
    git_server: World, repository: Path
) -> None:
    at = str(repository)
    before = await state(repository)
    added = await git_server.do("git_add", repo_path=at, files=["a.txt", "new.txt"])
    assert added.class_ is EffectClass.REVERSIBLE
    assert await state(repository) != before
    await git_server.take_back(added)
    assert await state(repository) == before


async def test_git_a_stranger_s_staging_is_neither_reset_nor_counted_as_ours(
    git_server: World, repository: Path
) -> None:
    at = str(repository)
    added = await git_server.do("git_add", repo_path=at, files=["a.txt"])
    await git(repository, "add", "new.txt")
    there = await state(repository)
    with pytest.raises(Drifted):
        await git_server.take_back(added)
    assert await state(repository) == there
    (repository / "more.txt").write_text("more\n")
    beside_theirs = await git_server.do("git_add", repo_path=at, files=["more.txt"])
    assert beside_theirs.class_ is EffectClass.IRREVERSIBLE


async def test_git_commits_and_branches_stay_and_say_so(
    git_server: World, repository: Path
) -> None:
    at = str(repository)
    await git_server.do("git_add", repo_path=at, files=["a.txt"])
    committed = await git_server.do("git_commit", repo_path=at, message="second")
    assert (committed.class_, committed.decision.residue) == (
        EffectClass.IRREVERSIBLE,
        "commit_left",
    )
    for tool, args in (
        ("git_create_branch", {"branch_name": "side"}),
        ("git_checkout", {"branch_name": "side"}),
    ):
        deed = await git_server.do(tool, repo_path=at, **args)
        assert deed.class_ is EffectClass.IRREVERSIBLE
    reset = await git_server.do("git_reset", repo_path=at)
    assert answers.is_unchanged(reset.contract, reset.args, reset.before, reset.result)
