"""A vendor's world, a server whose agent acts on it, strangers, faults, and the undo of all of it.

Nothing here looks inside: calls go by an agent's turns, undos by REST, and what is compared is the
world's own dump, taken where the tools are.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import yaml
from processes import eventually
from scripted_provider import ScriptedProvider, call, text
from serving import Server, serving
from undoing import report
from vendors.host import Kept, ToolError, act, vendor

HOST = Path(__file__).parent / "vendors" / "host.py"
SETTINGS: dict[str, Any] = {
    "approval": "never",
    "undo_backoff": 0.02,
    "undo_backoff_max": 0.05,
    "tool_timeout": 3.0,
    "tool_restart_delay": 0.05,
    "tool_restart_delay_max": 0.1,
    "tool_end_timeout": 0.5,
    "tool_stop_grace": 0.2,
    "read_lag": 0,
}
_ids = count(1)


@dataclass
class Acting:
    """A session whose agent makes calls of one connection, and the undo of them by REST."""

    connection: str
    provider: ScriptedProvider
    server: Server
    session: str = ""
    turns: list[str] = field(default_factory=list)

    async def anew(self) -> None:
        """A new session."""
        self.session, self.turns = await self.server.session(), []

    async def turn(self, *calls: tuple[str, Mapping[str, Any]], steps: int = 1) -> str:
        """A turn in which the agent makes these calls, in so many steps; its id."""
        size = max(1, -(-len(calls) // steps))
        answers = [
            [text("so"), *self._calls(calls[at : at + size])] for at in range(0, len(calls), size)
        ]
        self.provider.will(*answers, [text("done")])
        url = f"/sessions/{self.session}/commands?wait=end"
        frame = {"type": "WsClientPromptCommand", "content": "do it"}
        answer = await self.server.http.post(url, json=frame)
        assert answer.status_code == 200, answer.text
        self.turns.append(str(answer.json()["turnId"]))
        return self.turns[-1]

    def _calls(self, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Any]:
        return [
            call(f"{self.connection}__{name}", dict(args), id=f"c{next(_ids)}", index=n)
            for n, (name, args) in enumerate(calls)
        ]

    async def is_listed(self) -> bool:
        """Whether the connection's tools are there; each has a contract that counts."""
        answer = await self.server.http.get(f"/sessions/{self.session}/tools")
        tools = [t for t in answer.json()["tools"] if t["tool"].startswith(f"{self.connection}.")]
        assert not [tool for tool in tools if tool.get("why")]
        return bool(tools)

    async def effects(self) -> list[dict[str, Any]]:
        answer = await self.server.http.get(f"/sessions/{self.session}/effects?limit=200")
        assert answer.status_code == 200, answer.text
        return list(answer.json()["effects"])

    async def plan(self, **body: Any) -> dict[str, Any]:
        """A plan for every turn, or what is asked."""
        if not body.keys() & {"turn_ids", "effect_ids", "undo_id", "revert"}:
            body["turn_ids"] = self.turns
        answer = await self.server.http.post(f"/sessions/{self.session}/undo-plan", json=body)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    async def start(self, plan_id: str) -> str:
        url = f"/sessions/{self.session}/undos"
        answer = await self.server.http.post(url, json={"plan_id": plan_id})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["undo_id"])

    async def undo(self, **body: Any) -> dict[str, Any] | None:
        """Plan, click twice, wait, click again: the report; None where nothing is to be undone."""
        plan = await self.plan(**body)
        if not plan["members"]:
            return None
        assert plan["runnable"], plan
        self.phase("undo")
        undo_id = await self.start(plan["plan_id"])
        assert await self.start(plan["plan_id"]) == undo_id
        found = await report(self.server, self.session, undo_id)
        self.phase("after")
        assert await self.start(plan["plan_id"]) == undo_id
        assert await report(self.server, self.session, undo_id) == found
        return found

    def phase(self, name: str) -> None:
        """What the calls belong to that arrive from now on."""


@dataclass
class Ground(Acting):
    """One vendor's world beside it, which is there to be read and to be changed by others."""

    kept: Kept = field(kw_only=True)
    module: Any = field(kw_only=True)
    began: dict[str, Any] = field(default_factory=dict)

    async def begin(self) -> None:
        """A new session, and the world as it is at first."""
        self.kept.begin(self.module.start())
        self.began = self.leaves()
        await self.anew()

    async def is_back(self) -> bool:
        """Whether the server answers again, after it has died."""
        before = len(self.kept.read()["calls"])
        await self.turn((sorted(self.module.READS)[0], {}))
        return len(self.kept.read()["calls"]) > before

    def phase(self, name: str) -> None:
        with self.kept.open() as doc:
            doc["phase"] = name

    @property
    def world(self) -> Any:
        return self.kept.read()["world"]

    def leaves(self) -> dict[str, Any]:
        """The world's dump, leaf by leaf."""
        return dict(self.module.leaves(self.world))

    def calls(self, phase: str) -> list[Any]:
        """The calls that arrived in a phase and are no reads."""
        calls = self.kept.read()["calls"]
        return [one for one in calls if one[4] == phase and not one[3]]

    def stranger(self, name: str, /, **args: Any) -> bool:
        """Somebody else uses a tool; whether that was possible."""
        with self.kept.open() as doc:
            try:
                act(self.module, doc, "stranger", name, args)
            except ToolError:
                return False
        return True

    def script(self, *happens: Mapping[str, Any]) -> None:
        """What is to happen from now on: `count` names what is counted, `at` is from 1."""
        with self.kept.open() as doc:
            doc["script"], doc["counts"] = [dict(one) for one in happens], {}

    def written(self) -> list[tuple[str, dict[str, Any]]]:
        """Who wrote what, in order, but for what nobody can know of who looks only now and then.

        That is what strangers changed and then left again as a call of ours had left it, and no
        read has shown meanwhile.
        """
        kept = self.kept.read()
        written = [(author, dict(wrote)) for author, wrote in kept["written"]]
        looks = [one for one in kept["calls"] if one[3] and one[5] is None]
        left: dict[str, Any] = {}
        strange: dict[str, list[int]] = {}
        for at, (author, wrote) in enumerate(written):
            for leaf, value in list(wrote.items()):
                if author != "stranger":
                    left[leaf] = value
                    strange.pop(leaf, None)
                    continue
                since = strange.setdefault(leaf, [])
                since.append(at)
                if leaf not in left or left[leaf] != value:
                    continue
                if any(since[0] < one[6] <= at and self.shows(one, leaf) for one in looks):
                    continue
                for change in strange.pop(leaf):
                    del written[change][1][leaf]
        return written

    def shows(self, read: Sequence[Any], leaf: str) -> bool:
        """Whether a read is one of the thing that a leaf belongs to."""
        [server] = yaml.safe_load(self.module.OVERLAY)["servers"].values()
        kind, *parts = leaf.split("|")
        how = server["resources"].get(kind, {}).get("read", {})
        return how.get("call") == read[0] and {str(arg) for arg in read[1].values()} <= {*parts}

    def expected(self) -> dict[str, Any]:
        """Leaf by leaf: last written by a stranger, that value; else as before."""
        expected = dict(self.began)
        for author, wrote in self.written():
            if author == "stranger":
                expected.update(wrote)
        return {leaf: value for leaf, value in expected.items() if value is not None}

    def differing(self) -> set[str]:
        """The leaves that are not as a perfect undo would have left them."""
        now, expected = self.leaves(), self.expected()
        both = now.keys() | expected.keys()
        return {leaf for leaf in both if now.get(leaf) != expected.get(leaf)}

    def overwritten(self) -> list[Any]:
        """What an undo wrote over that a stranger had written last."""
        last: dict[str, str] = {}
        found = []
        for author, wrote in self.written():
            for leaf in wrote:
                if author not in ("stranger", "forward") and last.get(leaf) == "stranger":
                    found.append([leaf, wrote])
                last[leaf] = author
        return found


def claimed(*reports: Mapping[str, Any], theirs: bool = True) -> set[str]:
    """The leaves, or things, that residues account for; of each effect those of its last undo.

    `theirs`: those as well that are said to be as somebody else has left them.
    """
    residues: dict[str, Any] = {}
    for one in reports:
        for item in one["items"]:
            residues.pop(item["effect_id"], None)
        residues.update({residue["effect_id"]: residue for residue in one["residues"]})
    found = set()
    for residue in residues.values():
        for leaf in residue["leaves"]:
            if leaf["theirs"] and not theirs:
                continue
            key = "|".join(str(part) for part in leaf["key"])
            found.add("|".join([leaf["kind"], key, *leaf["path"]]))
    return found


def unclaimed(differ: Iterable[str], claims: set[str]) -> set[str]:
    """The leaves that no claim accounts for."""
    return {
        leaf
        for leaf in differ
        if leaf not in claims and not any(leaf.startswith(f"{one}|") for one in claims)
    }


@asynccontextmanager
async def grounds(
    url: str, folder: Path, provider: ScriptedProvider, *names: str, **settings: Any
) -> AsyncIterator[dict[str, Ground]]:
    """Vendors in processes of their own, by their overlays in the administrator's folder."""
    contracts = folder / "contracts"
    contracts.mkdir()
    servers: dict[str, Any] = {}
    found: dict[str, tuple[Kept, Any]] = {}
    for name in names:
        connection, module, world = name.partition(":")[0], vendor(name), folder / name
        world.mkdir()
        (contracts / f"{connection}.yaml").write_text(module.OVERLAY)
        found[name] = Kept(connection, world), module
        found[name][0].begin(module.start())
        args = ["-I", str(HOST), name, str(world)]
        servers[connection] = {"command": sys.executable, "args": args}
    given = {"mcp_servers": servers, "contracts_dir": contracts}
    async with serving(url, **provider.settings, **SETTINGS | given | settings) as server:
        made = {
            name: Ground(kept.name, provider, server, kept=kept, module=module)
            for name, (kept, module) in found.items()
        }
        for one in made.values():
            await one.begin()
            await eventually(one.is_listed)
        yield made


@asynccontextmanager
async def ground(
    url: str, folder: Path, provider: ScriptedProvider, name: str, **settings: Any
) -> AsyncIterator[Ground]:
    """One of them."""
    async with grounds(url, folder, provider, name, **settings) as found:
        yield found[name]
