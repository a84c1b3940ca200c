"""Contracts tried out in a throw-away instance of their server: which of them lie (undo.md 1).

The overlay's `sandbox` says how the instance is started and which calls are made in it. Around each
of them everything that any of them touches is read: a read that changes something, a call that
touches more than it says, and an inverse after which something is not as before are found.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path

from turnback.core.contracts import answers, choose, states
from turnback.core.contracts.choose import Before, Decision
from turnback.core.contracts.equality import same
from turnback.core.contracts.model import UNDECLARED, Contract
from turnback.core.contracts.states import Observation, Unreadable
from turnback.core.effects import Call, EffectClass, Json, ResourceKey
from turnback.core.errors import ToolServerFailed, Unresolved
from turnback.core.values import shown
from turnback.tools import sandboxes
from turnback.tools.connection import Connection, Reply
from turnback.tools.decorator import PythonConnection
from turnback.tools.limits import ToolLimits
from turnback.tools.overlays import Sample, ServerContracts
from turnback.tools.registry import WITHOUT, Registry, Tool


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What is to be tried out: the tools of one connection.

    `server` is what overlays say of them; `trusted` whether contracts count that they state
    themselves; `patience` the seconds that each call may take.
    """

    name: str
    server: ServerContracts
    limits: ToolLimits
    patience: float
    trusted: bool = False


async def examine(what: Examined) -> AsyncIterator[Finding]:
    """Try out the contracts of an MCP server, each of its tools, in its sandbox."""
    sandbox = what.server.sandbox
    if sandbox is None:
        if what.trusted:
            said = "it states contracts itself, and no overlay has a `sandbox` for it"
            yield Finding(what.name, "*", Verdict.UNCHECKED, said)
        for tool in what.server.contracts:
            yield Finding(what.name, tool, Verdict.UNCHECKED, "its overlay has no `sandbox`")
        return
    if sandbox.command is None:
        said = "its `sandbox` has no `command` that starts an instance"
        yield Finding(what.name, "*", Verdict.UNCHECKED, said)
        return
    try:
        async with (
            sandboxes.laid_out(sandbox, patience=what.patience) as folder,
            sandboxes.server(what.name, sandbox, folder, what.limits) as connection,
        ):
            async for finding in Trial(what, connection, folder).run():
                yield finding
    except ToolServerFailed as error:
        said = f"its sandbox (`{shown(sandbox.command)}`) failed: {error.message}"
        yield Finding(what.name, "*", Verdict.UNCHECKED, said)


async def examine_python(
    given: Sequence[Examined], imported: Callable[[], Sequence[PythonConnection]]
) -> AsyncIterator[Finding]:
    """Try out the contracts of tools in Python, which `imported` imports, in this process.

    `given` is what overlays say of their connections. Nothing is called without a sandbox whose
    variables keep it off the real world; they are there before anything is imported.
    """
    by_name = {what.name: what for what in given if what.server.sandbox is not None}
    async with AsyncExitStack() as stack:
        folders: dict[str, Path] = {}
        for name, what in by_name.items():
            assert what.server.sandbox is not None
            laid_out = sandboxes.laid_out(what.server.sandbox, patience=what.patience)
            folders[name] = folder = await stack.enter_async_context(laid_out)
            env = sandboxes.placed(what.server.sandbox.env, folder)
            stack.enter_context(sandboxes.variables(env))
        for connection in imported():
            name = connection.name
            sandbox = by_name[name].server.sandbox if name in by_name else None
            if sandbox is not None and sandbox.env:
                async for finding in Trial(by_name[name], connection, folders[name]).run():
                    yield finding
                continue
            said = "no overlay has a `sandbox` for it"
            if sandbox is not None:
                said = "its `sandbox` has no `env` that would keep it off the real world"
            for tool in connection.contracts:
                yield Finding(name, tool, Verdict.UNCHECKED, said)


World = dict[ResourceKey, Observation | Unreadable]


class Trial:
    """One server's samples, made one after the other in its sandbox."""

    def __init__(self, what: Examined, connection: Connection, folder: Path) -> None:
        self._what = what
        self._connection = connection
        self._contracts = dict(what.server.contracts)
        samples = what.server.sandbox.samples if what.server.sandbox is not None else ()
        self._samples = [
            Sample(call=sample.call, args=sandboxes.placed(sample.args, folder))
            for sample in samples
        ]
        self._known: dict[ResourceKey, Contract] = {}

    async def run(self) -> AsyncIterator[Finding]:
        """A finding for each tool: the first lie of it, else that it is so, else why not."""
        name, listed = self._connection.name, await self._connection.tools()
        own = self._connection.contracts if isinstance(self._connection, PythonConnection) else None
        registry = Registry(overlays={name: self._contracts})
        put = registry.put(name, listed, trusted=self._what.trusted, contracts=own)
        tools = {tool.name: tool for tool in put}
        self._contracts |= {tool.name: tool.contract for tool in put if tool.version is not None}
        self._contracts |= {
            tool.name: UNDECLARED
            for tool in put
            if tool.front is not None and tool.version is None and tool.why != WITHOUT
        }
        found: dict[str, list[Finding]] = {tool: [] for tool in self._contracts}
        for tool in self._contracts:
            if tool not in tools:
                found[tool].append(
                    self._said(tool, Verdict.UNCHECKED, "the server has no such tool")
                )
            elif tools[tool].version is None:
                found[tool].append(self._said(tool, Verdict.LIES, str(tools[tool].why)))
        for sample in self._samples:
            if sample.call not in self._contracts:
                said = "a sample of its sandbox calls it, and nothing declares it"
                found.setdefault(sample.call, []).append(
                    self._said(sample.call, Verdict.UNCHECKED, said)
                )
            for key in self._touched(sample):
                self._known[key] = self._contracts[sample.call]
        touched = dict(self._known)
        for finding in await self._reads(touched):
            found[finding.tool].append(finding)
        for sample in self._samples:
            made = tools.get(sample.call)
            if made is not None and made.version is not None:
                found[sample.call].append(await self._sample(made, sample))
        made_since = {key: of for key, of in self._known.items() if key not in touched}
        for finding in await self._reads(made_since):
            found[finding.tool].append(finding)
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

    async def _reads(self, known: Mapping[ResourceKey, Contract]) -> list[Finding]:
        """Of every tool by which these resources are read: whether reading changes anything.

        What changes with every reading (a time, a counter of requests) and is no part of a state is
        not the read's doing. What changed once and then no more is: a flag that was raised.
        """
        found: dict[str, Finding] = {}
        seen: World = {}
        for key, contract in known.items():
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
        return await self._connection.call(call.tool, call.args, timeout=self._what.patience)

    # -- trying a call and its inverse

    async def _sample(self, tool: Tool, sample: Sample) -> Finding:
        contract, args = tool.contract, sample.args
        name = self._connection.name
        world = await self._world()
        touched = self._touched(sample)
        before = Before(tuple((key, world[key]) for key in touched))
        reply = await self._send(Call(tool.name, args))
        answer = reply.document
        if answers.is_error(contract, args, is_error=reply.is_error, answer=answer):
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
        own = next((key for key in touched if _differs(world[key], after[key])), None)
        if own is not None and answers.is_unchanged(contract, args, before, answer):
            said = f"`unchanged` holds, and {_named(own)} has changed"
            return self._said(tool.name, Verdict.LIES, said)
        beside = {
            key: was
            for key, was in world.items()
            if key not in touched and _differs(was, after[key])
        }
        if beside and decision.class_ in (EffectClass.READ, EffectClass.IRREVERSIBLE):
            return self._beside(tool, beside)
        if decision.class_ is EffectClass.READ:
            for key, seen in (await self._world()).items():
                if changed := _raised(key, [world[key], after[key], seen]):
                    return self._said(
                        tool.name, Verdict.LIES, f"it is no read: after it, {changed}"
                    )
            return self._said(tool.name, Verdict.OK, "it changes nothing")
        if decision.cancel is not None:
            return await self._cancelled(tool, args, decision, answer)
        if decision.class_ is EffectClass.IRREVERSIBLE:
            because = decision.worse_because or "as declared"
            return self._said(
                tool.name, Verdict.UNCHECKED, f"its sample is irreversible ({because})"
            )
        return await self._undo(tool, args, decision, before, answer, goal, beside)

    async def _undo(
        self,
        tool: Tool,
        args: Mapping[str, Json],
        decision: Decision,
        before: Before,
        answer: Json,
        goal: World,
        beside: World,
    ) -> Finding:
        """Make the inverse, and read everything again.

        What the call changed `beside` what it touches has to be back as well: a server that keeps
        one thing with two others (a relation, with both its ends) can say so by one of them.
        """
        last: Json = None
        for call in choose.inverse(tool.contract, decision, args, before, answer):
            reply = await self._send(await self._guarded(call, goal, tool.contract))
            if reply.is_error:
                said = f"its inverse `{call.tool}` failed: {shown(reply.text, limit=200)}"
                return self._said(tool.name, Verdict.LIES, said)
            last = reply.document
        world = await self._world()
        left = {key: was for key, was in beside.items() if _differs(was, world[key])}
        if left:
            return self._beside(tool, left)
        if decision.class_ is EffectClass.COMPENSABLE:
            return self._compensated(tool, args, decision, goal, world, last)
        for key, was in goal.items():
            if _differs(was, world[key]):
                said = f"after its inverse {_named(key)} is another: {_difference(was, world[key])}"
                return self._said(tool.name, Verdict.LIES, said)
        also = f", and {_named(next(iter(beside)))} beside it" if beside else ""
        return self._said(tool.name, Verdict.OK, f"its inverse puts back what it touched{also}")

    async def _cancelled(
        self, tool: Tool, args: Mapping[str, Json], decision: Decision, answer: Json
    ) -> Finding:
        """Cancel the call within its window, and see whether the answer proves it."""
        try:
            call = choose.cancel_call(decision, tool.contract, args, answer)
        except Unresolved as error:
            said = f"its cancel cannot be made: {error.message}"
            return self._said(tool.name, Verdict.LIES, said)
        assert call is not None
        reply = await self._send(call)
        if not reply.is_error and answers.is_confirmed(call, reply.document):
            return self._said(tool.name, Verdict.OK, f"`{call.tool}` confirms that it is cancelled")
        said = f"`{call.tool}` does not confirm its cancel: {shown(reply.text, limit=200)}"
        return self._said(tool.name, Verdict.LIES, said)

    def _beside(self, tool: Tool, changed: World) -> Finding:
        named = _named(next(iter(changed)))
        return self._said(
            tool.name, Verdict.LIES, f"it changes {named}, which it does not touch as it says"
        )

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
            said = "its compensation was made, and no `verify` says what that came to"
            return self._said(tool.name, Verdict.UNCHECKED, said)
        seen = world.get(next(iter(goal))) if goal else None
        now = seen.answer if isinstance(seen, Observation) else None
        if answers.is_verified(decision.verify, args, now=now, result=last) is True:
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
        if isinstance(other, Unreadable):
            return f"it can be read no more: {other.reason}"
        return "it can be read now"
    paths = sorted(states.difference(one.leaves, other.leaves).paths)
    return ", ".join(f"`{shown('.'.join(path))}`" for path in paths[:5])
