"""Contracts tried out in a throw-away instance of their server: which of them lie (undo.md 1).

The overlay's `sandbox` says how the instance is started and which calls are made in it. Around each
of them everything that any of them touches is read: a read that changes something, a call that
touches more than it says, and an inverse after which something is not as before are found.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any

from turnback.core.contracts import choose, states
from turnback.core.contracts.choose import Before, Decision
from turnback.core.contracts.equality import same
from turnback.core.contracts.model import Contract
from turnback.core.contracts.states import Observation, Unreadable
from turnback.core.effects import Call, EffectClass, Json, ResourceKey
from turnback.core.errors import ToolServerFailed, Unresolved
from turnback.core.values import shown
from turnback.settings import McpServer
from turnback.tools.connection import Connection, Reply
from turnback.tools.limits import ToolLimits
from turnback.tools.mcp import McpConnection
from turnback.tools.overlays import Sample, Sandbox, ServerContracts
from turnback.tools.registry import Registry, Tool


class Verdict(StrEnum):
    """What came of trying a tool's contract out."""

    OK = "ok"
    LIES = "LIES"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Finding:
    """A tool of a server, the verdict and what was seen, in a sentence's part."""

    connection: str
    tool: str
    verdict: Verdict
    said: str


async def examine(
    name: str, server: ServerContracts, limits: ToolLimits, *, patience: float
) -> AsyncIterator[Finding]:
    """Try out what an overlay says of a server, each of its tools; `patience` s for each call."""
    if server.sandbox is None:
        for tool in server.contracts:
            yield Finding(name, tool, Verdict.UNCHECKED, "its overlay has no `sandbox`")
        return
    with tempfile.TemporaryDirectory(prefix="turnback-check-") as made:
        folder = Path(made)
        _lay_out(server.sandbox, folder)
        connection = McpConnection(name, _started(server.sandbox, folder), limits)
        connection.start()
        try:
            trial = Trial(connection, server, folder, patience)
            async for finding in trial.run():
                yield finding
        except ToolServerFailed as error:
            yield Finding(name, "*", Verdict.UNCHECKED, f"its sandbox failed: {error.message}")
        finally:
            await connection.close()


def _lay_out(sandbox: Sandbox, folder: Path) -> None:
    for file, text in sandbox.files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _started(sandbox: Sandbox, folder: Path) -> McpServer:
    return McpServer.model_validate(
        {
            "command": sandbox.command,
            "args": [_placed(one, folder) for one in sandbox.args],
            "env": {name: _placed(value, folder) for name, value in sandbox.env.items()},
            "cwd": folder,
        }
    )


def _placed(value: Any, folder: Path) -> Any:
    """The value with `{folder}` in its texts replaced by the sandbox's folder."""
    if isinstance(value, str):
        return value.replace("{folder}", str(folder))
    if isinstance(value, list):
        return [_placed(item, folder) for item in value]
    if isinstance(value, dict):
        return {name: _placed(item, folder) for name, item in value.items()}
    return value


World = dict[ResourceKey, Observation | Unreadable]


class Trial:
    """One server's samples, made one after the other in its sandbox."""

    def __init__(
        self, connection: Connection, server: ServerContracts, folder: Path, patience: float
    ) -> None:
        self._connection = connection
        self._contracts = server.contracts
        samples = server.sandbox.samples if server.sandbox is not None else ()
        self._samples = [
            Sample(call=sample.call, args=_placed(sample.args, folder)) for sample in samples
        ]
        self._patience = patience
        self._known: dict[ResourceKey, Contract] = {}

    async def run(self) -> AsyncIterator[Finding]:
        """A finding for each tool: the first lie of it, else that it is so, else why not."""
        name = self._connection.name
        registry = Registry(overlays={name: self._contracts})
        tools = {tool.name: tool for tool in registry.put(name, await self._connection.tools())}
        found: dict[str, list[Finding]] = {tool: [] for tool in self._contracts}
        for tool in self._contracts:
            if tool not in tools:
                found[tool].append(
                    self._said(tool, Verdict.UNCHECKED, "the server has no such tool")
                )
            elif tools[tool].version is None:
                found[tool].append(self._said(tool, Verdict.LIES, str(tools[tool].why)))
        for sample in self._samples:
            for key in self._touched(sample):
                self._known[key] = self._contracts[sample.call]
        for finding in await self._reads():
            found[finding.tool].append(finding)
        for sample in self._samples:
            made = tools.get(sample.call)
            if made is not None and made.version is not None:
                found[sample.call].append(await self._sample(made, sample))
        for tool, findings in found.items():
            worst = sorted(findings, key=lambda one: list(_ORDER).index(one.verdict))
            yield (
                worst[0]
                if worst
                else self._said(tool, Verdict.UNCHECKED, "no sample of its sandbox calls it")
            )

    def _said(self, tool: str, verdict: Verdict, said: str) -> Finding:
        return Finding(self._connection.name, tool, verdict, said)

    def _touched(self, sample: Sample) -> tuple[ResourceKey, ...]:
        contract = self._contracts.get(sample.call)
        if contract is None:
            return ()
        try:
            return choose.touched(contract, self._connection.name, sample.args)
        except Unresolved:
            return ()

    # -- reading

    async def _observe(self, key: ResourceKey, contract: Contract) -> Observation | Unreadable:
        call = states.read_call(contract, key)
        if call is None:
            return Unreadable("it cannot be read")
        reply = await self._send(call)
        return states.observe(
            contract, key, is_error=reply.is_error, text=reply.text, structured=reply.structured
        )

    async def _world(self) -> World:
        return {key: await self._observe(key, of) for key, of in self._known.items()}

    async def _reads(self) -> list[Finding]:
        """Of every tool by which a resource is read: whether reading changes anything.

        What changes with every reading (a time, a counter of requests) and is no part of a state is
        not the read's doing. What changed once and then no more is: a flag that was raised.
        """
        found: dict[str, Finding] = {}
        seen: World = {}
        for key, contract in self._known.items():
            call = states.read_call(contract, key)
            if call is None:
                continue
            # Nothing but this read, and reads that were looked at before, is between these looks.
            changed = _raised(key, [await self._observe(key, contract) for _ in range(3)])
            for other in seen:
                looks = [await self._observe(other, self._known[other]) for _ in range(2)]
                changed = changed or _raised(other, [seen[other], *looks])
                seen[other] = looks[-1]
            seen[key] = await self._observe(key, contract)
            if changed is not None:
                said = f"it is no read: after it, {changed}"
                found[call.tool] = self._said(call.tool, Verdict.LIES, said)
            else:
                said = "reading changes nothing"
                found.setdefault(call.tool, self._said(call.tool, Verdict.OK, said))
        return [finding for finding in found.values() if finding.tool in self._contracts]

    async def _send(self, call: Call) -> Reply:
        return await self._connection.call(call.tool, call.args, timeout=self._patience)

    # -- trying a call and its inverse

    async def _sample(self, tool: Tool, sample: Sample) -> Finding:
        contract, args = tool.contract, sample.args
        name = self._connection.name
        world = await self._world()
        touched = self._touched(sample)
        before = Before(tuple((key, world[key]) for key in touched))
        reply = await self._send(Call(tool.name, args))
        answer = reply.document
        if choose.is_error(contract, args, is_error=reply.is_error, answer=answer):
            said = f"its sample failed: {shown(reply.text, limit=200)}"
            return self._said(tool.name, Verdict.UNCHECKED, said)
        decision = choose.decide(contract, name, args, before, answer)
        goal: World = {key: world[key] for key in touched}
        for key in decision.makes:
            if key in world and world[key] != states.ABSENT:
                said = f"{_named(key)}, which it says it makes, was there before: it `touches` it"
                return self._said(tool.name, Verdict.LIES, said)
            goal[key] = states.ABSENT
            self._known[key] = contract
        after = await self._world()
        if (lie := self._of_the_call(contract, args, before, answer, world, after)) is not None:
            return self._said(tool.name, Verdict.LIES, lie)
        if decision.class_ is EffectClass.READ:
            for key, seen in (await self._world()).items():
                if changed := _raised(key, [world[key], after[key], seen]):
                    return self._said(
                        tool.name, Verdict.LIES, f"it is no read: after it, {changed}"
                    )
            return self._said(tool.name, Verdict.OK, "it changes nothing")
        if decision.class_ is EffectClass.IRREVERSIBLE:
            because = decision.worse_because or "as declared"
            return self._said(
                tool.name, Verdict.UNCHECKED, f"its sample is irreversible ({because})"
            )
        return await self._undo(tool, args, decision, before, answer, goal)

    def _of_the_call(
        self,
        contract: Contract,
        args: Mapping[str, Json],
        before: Before,
        answer: Json,
        world: World,
        after: World,
    ) -> str | None:
        """What the call itself did that its contract does not say."""
        touched = {key for key, _ in before.observed}
        other = next((k for k in world if k not in touched and _differs(world[k], after[k])), None)
        if other is not None:
            return f"it changes {_named(other)}, which it does not touch as it says"
        own = next((key for key in touched if _differs(world[key], after[key])), None)
        if own is not None and choose.is_unchanged(contract, args, before, answer):
            return f"`unchanged` holds, and {_named(own)} has changed"
        return None

    async def _undo(
        self,
        tool: Tool,
        args: Mapping[str, Json],
        decision: Decision,
        before: Before,
        answer: Json,
        goal: World,
    ) -> Finding:
        """Make the inverse, and read everything again."""
        last: Json = None
        for call in choose.inverse(tool.contract, decision, args, before, answer):
            reply = await self._send(await self._guarded(call, goal, tool.contract))
            if reply.is_error:
                said = f"its inverse `{call.tool}` failed: {shown(reply.text, limit=200)}"
                return self._said(tool.name, Verdict.LIES, said)
            last = reply.document
        world = await self._world()
        if decision.class_ is EffectClass.COMPENSABLE:
            return self._compensated(tool, args, decision, goal, world, last)
        for key, was in goal.items():
            if _differs(was, world[key]):
                said = f"after its inverse {_named(key)} is another: {_difference(was, world[key])}"
                return self._said(tool.name, Verdict.LIES, said)
        return self._said(tool.name, Verdict.OK, "its inverse puts back what it touched")

    async def _guarded(self, call: Call, goal: World, contract: Contract) -> Call:
        key = next(iter(goal), None)
        if not call.if_match or key is None:
            return call
        seen = await self._observe(key, contract)
        answer = seen.answer if isinstance(seen, Observation) else None
        return choose.guarded(call, states.key_document(contract.resources[key.kind], key), answer)

    def _compensated(
        self,
        tool: Tool,
        args: Mapping[str, Json],
        decision: Decision,
        goal: World,
        world: World,
        last: Json,
    ) -> Finding:
        if decision.verify is None:
            return self._said(tool.name, Verdict.OK, "its compensation was made, unchecked")
        seen = world.get(next(iter(goal))) if goal else None
        now = seen.answer if isinstance(seen, Observation) else None
        if choose.is_verified(decision.verify, args, now=now, result=last) is True:
            return self._said(tool.name, Verdict.OK, "its compensation verifies")
        return self._said(tool.name, Verdict.LIES, "after its compensation `verify` does not hold")


_ORDER = (Verdict.LIES, Verdict.OK, Verdict.UNCHECKED)


def _differs(one: Observation | Unreadable, other: Observation | Unreadable) -> bool:
    """Whether what is compared of a resource is another."""
    if isinstance(one, Unreadable) or isinstance(other, Unreadable):
        return type(one) is not type(other)
    return bool(states.difference(one.leaves, other.leaves))


def _raised(key: ResourceKey, looks: Sequence[Observation | Unreadable]) -> str | None:
    """What something has changed of a resource, if it did, from looks before and after it."""
    if any(_differs(one, other) for one, other in pairwise(looks)):
        return f"{_named(key)} is another: {_difference(looks[0], looks[-1])}"
    answers = [seen.answer for seen in looks if isinstance(seen, Observation)]
    if len(answers) == 3 and not same(*answers[:2]) and same(*answers[1:]):
        return f"something of {_named(key)} that its state leaves out is another"
    return None


def _named(key: ResourceKey) -> str:
    return f"the {key.kind} `{shown(' '.join(map(str, key.key)))}`"


def _difference(one: Observation | Unreadable, other: Observation | Unreadable) -> str:
    if isinstance(one, Unreadable) or isinstance(other, Unreadable):
        return "it can be read no more" if isinstance(other, Unreadable) else "it can be read now"
    paths = sorted(states.difference(one.leaves, other.leaves).paths)
    return ", ".join(f"`{shown('.'.join(path))}`" for path in paths[:5])
