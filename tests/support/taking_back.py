"""A call made by its contract and taken back by it, on a real server: the least there can be.

No log, no locks, no budget: only what contracts say, so that a contract which lies is found out by
itself. Nothing is written over what is not as the call left it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from turnback.core.contracts import answers, choose, states
from turnback.core.contracts.choose import Before, Decision
from turnback.core.contracts.model import Contract
from turnback.core.contracts.states import Observation, Unreadable
from turnback.core.effects import Call, EffectClass, Json, ResourceKey
from turnback.tools.connection import Connection, Reply
from turnback.tools.registry import Registry

WITHIN = 30.0

Seen = dict[ResourceKey, Observation | Unreadable]


@dataclass
class Deed:
    """A call that was made: what was there before it and after it, and how it can be taken back."""

    tool: str
    args: dict[str, Json]
    contract: Contract
    decision: Decision
    before: Before
    after: Seen
    result: Json

    @property
    def class_(self) -> EffectClass:
        return self.decision.class_


class Drifted(Exception):
    """Something is not as the call left it: nothing was written."""


class World:
    """A connection and the contracts of its tools."""

    def __init__(self, connection: Connection, registry: Registry) -> None:
        self.connection = connection
        self.registry = registry

    def contract(self, tool: str) -> Contract:
        found = self.registry.get(self.connection.name, tool)
        assert found is not None, tool
        assert found.why is None, found.why
        return found.contract

    async def ask(self, tool: str, args: Mapping[str, Any]) -> Reply:
        """Call it as a stranger does, or to look."""
        return await self.connection.call(tool, args, timeout=WITHIN)

    async def observe(self, contract: Contract, keys: Iterable[ResourceKey]) -> Seen:
        seen: Seen = {}
        for key in keys:
            call = states.read_call(contract, key)
            assert call is not None
            reply = await self.ask(call.tool, call.args)
            seen[key] = states.observe(
                contract,
                key,
                is_error=reply.is_error,
                text=reply.text,
                structured=reply.structured,
            )
        return seen

    async def do(self, tool: str, **args: Any) -> Deed:
        """Make a call; it must be no failure."""
        contract = self.contract(tool)
        name = self.connection.name
        touched = await self.observe(contract, choose.touched(contract, name, args))
        before = Before(tuple(touched.items()))
        reply = await self.ask(tool, args)
        assert not answers.is_error(
            contract, args, is_error=reply.is_error, answer=reply.document
        ), reply.text
        made = choose.made(contract, name, args, reply.document)
        after = await self.observe(contract, [*touched, *made])
        decision = choose.decide(contract, name, args, before, reply.document)
        return Deed(tool, args, contract, decision, before, after, reply.document)

    async def take_back(self, deed: Deed) -> None:
        """Take it back, unless something that the inverse writes is not as the call left it."""
        calls = self._calls(deed)
        now = await self.observe(deed.contract, deed.after)
        goal = {**dict.fromkeys(deed.after, states.ABSENT), **dict(deed.before.observed)}
        for key, left in deed.after.items():
            assert isinstance(left, Observation), left
            is_, was = now[key], goal[key]
            assert isinstance(is_, Observation), is_
            assert isinstance(was, Observation), was
            ours = states.difference(was.leaves, left.leaves)
            theirs = states.difference(left.leaves, is_.leaves)
            if theirs and (ours.paths & theirs.paths or not deed.decision.narrow):
                raise Drifted(key, sorted(theirs.paths))
        for call in calls:
            reply = await self.ask(call.tool, call.args)
            assert not reply.is_error, (call, reply.text)
        if deed.class_ is EffectClass.REVERSIBLE:
            await self._verify(deed, now, goal)

    async def _verify(self, deed: Deed, now: Seen, goal: Seen) -> None:
        """Every leaf that the call wrote is as before it, every other one as it was just now."""
        for key, seen in (await self.observe(deed.contract, deed.after)).items():
            left, is_, was = deed.after[key], now[key], goal[key]
            assert isinstance(seen, Observation), seen
            assert isinstance(left, Observation)
            assert isinstance(is_, Observation)
            assert isinstance(was, Observation)
            back = states.difference(left.leaves, was.leaves)
            assert seen.leaves == states.changed(is_.leaves, back), key

    def _calls(self, deed: Deed) -> tuple[Call, ...]:
        cancel = choose.cancel_call(deed.decision, deed.contract, deed.args, deed.result)
        if cancel is not None:
            return (cancel,)
        return choose.inverse(deed.contract, deed.decision, deed.args, deed.before, deed.result)
