"""The tools outside, as one run of one session has them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson

from turnback.agent.canvas import ToolSpec
from turnback.agent.steps import ERROR, INVALID_JSON, ToolCall, ToolResult
from turnback.core.approvals import Approval
from turnback.core.contracts import states, version
from turnback.core.contracts.choose import Before
from turnback.core.contracts.model import Contract, parse
from turnback.core.contracts.secrets import HIDDEN, edited_args, has_secrets, shown_args
from turnback.core.contracts.states import Unreadable
from turnback.core.contracts.together import called
from turnback.core.effects import CallState, Effect, Json, ResourceKey
from turnback.core.errors import ContractRefused, InvalidArguments
from turnback.store.contracts import Contracts
from turnback.store.effect_reader import Logged
from turnback.store.rows import SessionKey
from turnback.tools import observing
from turnback.tools.arguments import check_arguments
from turnback.tools.calls import Calls
from turnback.tools.registry import Pinned
from turnback.tools.settle import Place, settle
from turnback.tools.telling import Answered, told_of
from turnback.undo.reach import NOT_CONNECTED

if TYPE_CHECKING:
    from turnback.tools.catalog import Catalog
    from turnback.tools.connection import Connection
    from turnback.tools.registry import Tool


MOST_KNOWN = 1_000
"""Contracts of earlier calls that are kept in memory: of a hash there is one, for ever."""


class OutsideTools:
    """Every tool outside that this process reaches, and the one way to call them.

    `contracts` keeps what calls were made under, for as long as there may be anything to undo.
    """

    def __init__(self, catalog: Catalog, calls: Calls, contracts: Contracts) -> None:
        self._catalog = catalog
        self._contracts = contracts
        self._known: dict[str, Contract] = {}
        self.calls = calls

    async def offered(self) -> dict[str, tuple[Connection, Tool]]:
        """The tools that a run may use, by the names that models see; their contracts are kept.

        Raises `DatabaseUnavailable`.
        """
        await self._catalog.refresh()
        tools = self._catalog.registry.offered()
        await self._contracts.keep(
            {
                tool.version: orjson.dumps(version.dumped(tool.contract)).decode()
                for tool in tools
                if tool.version is not None
            }
        )
        connections = self._catalog.connections
        return {tool.visible: (connections[tool.connection], tool) for tool in tools}

    async def known(self) -> tuple[Tool, ...]:
        """Every tool, those that are switched off too, as they are listed now."""
        await self._catalog.refresh()
        return self._catalog.registry.all()

    def check(self, approval: Approval, args: Mapping[str, Json]) -> None:
        """Raise `InvalidArguments` where a call cannot be made with these, in place of its own."""
        tool = self._catalog.registry.get(approval.connection, approval.tool)
        if tool is None or tool.disabled:
            raise InvalidArguments(f"There is no tool `{approval.shown_tool}` any more", path="/")
        filled = edited_args(tool.contract, approval.args, args)
        check_arguments(tool, filled, hidden=True)

    async def settled(self, logged: Iterable[Logged], place: Place) -> dict[str, Answered]:
        """What is known of effects by now, by their tool calls; doubts are settled if they can be.

        Raises `FencedOff`, `DatabaseUnavailable`.
        """
        await self.refresh()
        most = self.calls.limits.max_tool_output
        known: dict[str, Answered] = {}
        for one in logged:
            effect = one.effect
            connection, contract = await self.of(effect)
            in_doubt = effect.state in (CallState.INTENT, CallState.IN_DOUBT)
            if in_doubt and connection is not None:
                if self.barred(effect.connection, {effect.tool, *called(contract)}):
                    contract = Contract()  # nothing is looked for, so that it stays in doubt
                effect = await settle(self.calls.settling, connection, contract, one, place)
            known[effect.tool_call_id] = told_of(
                effect, most, None if one.is_secret and not has_secrets(contract) else contract
            )
        return known

    async def found_out(
        self,
        key: SessionKey,
        project_id: str,
        logged: Logged,
        *,
        replays: bool = True,
        abandoned: bool = False,
    ) -> Effect:
        """A doubt, settled if it can be while no run is under way; the flags are those of `settle`.

        Raises `FencedOff`, `DatabaseUnavailable`.
        """
        await self.refresh()
        effect = logged.effect
        connection, contract = await self.of(effect)
        if connection is None:
            return effect
        if self.barred(effect.connection, {effect.tool, *called(contract)}):
            contract = Contract()
        place = Place(
            key=key,
            project_id=project_id,
            turn_id=effect.turn_id,
            step_id=effect.step_id,
            fence=None,
        )
        by = self.calls.settling
        return await settle(
            by, connection, contract, logged, place, replays=replays, abandoned=abandoned
        )

    async def of(self, effect: Effect) -> tuple[Connection | None, Contract]:
        """The connection that a call was made on, and its contract as it was then.

        No connection: it is not configured any more. Raises `DatabaseUnavailable`.
        """
        connection = self._catalog.connections.get(effect.connection)
        return connection, await self._contract(effect.contract)

    def tool(self, connection: str, name: str) -> tuple[Connection, Tool] | None:
        """A tool as it is now, switched off or not, and its connection; None: it is not there."""
        return self._catalog.get(connection, name)

    def contract(self, connection: str, tool: str) -> Contract:
        """What a tool declares now; nothing where it is not there."""
        known = self._catalog.registry.get(connection, tool)
        return Contract() if known is None else known.contract

    def barred(self, connection: str, tools: Iterable[str]) -> str | None:
        """Why one of these tools may not be called for what was agreed to when it was another.

        It is switched off, or says something else of itself than when somebody looked at it.
        """
        for name in sorted(set(tools)):
            tool = self._catalog.registry.get(connection, name)
            if tool is not None and tool.disabled:
                return f"`{tool.shown}` is switched off (`disabled_server_tools`)"
            if tool is not None and tool.pinned is Pinned.CHANGED:
                return (
                    f"`{tool.shown}` has changed since: compare, then `turnback tools pin"
                    f" {tool.shown}`"
                )
        return None

    async def observe(self, effect: Effect, resources: Iterable[ResourceKey]) -> Before:
        """What things of an effect are now, each read as the contract of its call says.

        One whose read may not be called any more, or cannot be, says why. Raises
        `DatabaseUnavailable`.
        """
        await self.refresh()
        connection, contract = await self.of(effect)
        wanted = list(dict.fromkeys(resources))
        if connection is None:
            gone = Unreadable(NOT_CONNECTED)
            return Before(tuple((resource, gone) for resource in wanted))
        barred = {
            kind: Unreadable(why)
            for kind in {resource.kind for resource in wanted}
            if (tool := states.read_tool(contract, kind)) is not None
            and (why := self.barred(effect.connection, [tool])) is not None
        }
        before = await observing.observe(
            connection,
            contract,
            [resource for resource in wanted if resource.kind not in barred],
            seconds=self.calls.limits.tool_timeout,
            max_bytes=self.calls.limits.max_before,
        )
        seen = dict(before.observed)
        return Before(tuple((one, seen.get(one) or barred[one.kind]) for one in wanted))

    async def refresh(self) -> None:
        """List anew what connections may offer otherwise."""
        await self._catalog.refresh()

    async def repin(self) -> None:
        """Take over which tools somebody has looked at since. Raises `DatabaseUnavailable`."""
        await self._catalog.repin()

    async def _contract(self, hash_: str | None) -> Contract:
        """The contract that a call was made under; one that says nothing where there was none."""
        if hash_ is None:
            return Contract()
        if (known := self._known.get(hash_)) is not None:
            return known
        data = await self._contracts.of(hash_)
        if data is None:
            return Contract()
        try:
            contract = parse(orjson.loads(data), of=hash_)
        except ContractRefused:
            contract = Contract()  # of a version of ours that knew other parts
        if len(self._known) >= MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._known[hash_] = contract
        return contract


class RunTools:
    """The tools outside within one run: `agent.toolbox.Outside`.

    `approvals` are those that were decided, `made` what the log has of the step that was open when
    the run began, both by tool call. `place` is where it stands, `stop` ends it.
    """

    def __init__(
        self,
        tools: Mapping[str, tuple[Connection, Tool]],
        calls: Calls,
        *,
        place: Callable[[], Place],
        stop: asyncio.Event,
        approvals: Iterable[Approval] = (),
        made: Iterable[Logged] = (),
    ) -> None:
        self._tools = tools
        self._calls = calls
        self._stop = stop
        self._approvals = {approval.tool_call_id: approval for approval in approvals}
        self._made = {logged.effect.tool_call_id: logged for logged in made}
        self._place = place
        self.specs = {
            name: ToolSpec(name=name, description=tool.description, schema=dict(tool.schema))
            for name, (_, tool) in tools.items()
        }

    def overlaps(self, call: ToolCall) -> bool:
        """Whether the call only reads."""
        return self._calls.only_reads(self._tools[call.name][1], call.input)

    def shown(self, call: ToolCall) -> ToolCall:
        """The call without its secrets; of arguments that are no JSON nothing is shown."""
        if call.input.keys() == {INVALID_JSON}:
            return replace(call, input={INVALID_JSON: HIDDEN})
        return replace(call, input=shown_args(self._tools[call.name][1].contract, call.input))

    def hides(self, name: str) -> bool:
        """Whether calls of the tool may have secrets."""
        return bool(self._tools[name][1].contract.secret)

    async def call(self, call: ToolCall) -> tuple[ToolResult, str | None] | Approval:
        """What the call led to; one that was made before the turn waited is not made again."""
        if (logged := self._made.get(call.id)) is not None:
            most, (_, tool) = self._calls.limits.max_tool_output, self._tools[call.name]
            return _result(call, told_of(logged.effect, most, tool.contract))
        connection, tool = self._tools[call.name]
        answer = await self._calls.call(
            connection,
            tool,
            call.input,
            self._place(),
            tool_call_id=call.id,
            approval=self._approvals.get(call.id),
            stop=self._stop,
        )
        return answer if isinstance(answer, Approval) else _result(call, answer)

    async def question(self, call: ToolCall) -> Approval | None:
        """What a person has to decide before the call is made; None where nothing, or they have."""
        if call.id in self._approvals or call.id in self._made:
            return None
        connection, tool = self._tools[call.name]
        return await self._calls.question(
            connection, tool, call.input, self._place(), tool_call_id=call.id, stop=self._stop
        )


def _result(call: ToolCall, answer: Answered) -> tuple[ToolResult, str | None]:
    return result_of(call, answer), answer.effect_id


def result_of(call: ToolCall, answer: Answered) -> ToolResult:
    """An answer as the model is given it."""
    output = ERROR + answer.output if answer.is_error else answer.output
    return ToolResult(call.id, output, is_error=answer.is_error)
