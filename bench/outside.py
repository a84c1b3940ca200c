"""Tools outside that take no time, and calls of them by hand: for the log's rows, and undo's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson

from bench.world import ByHand, Store
from turnback.agent.models import ChatModel
from turnback.core.contracts.model import Key, parse
from turnback.core.effects import Json
from turnback.core.errors import ModelNotConfigured
from turnback.sessions.actor import Actor
from turnback.sessions.outside import OutsideTools
from turnback.sessions.undo_carrier import UndoCarrier
from turnback.store.ids import new_id
from turnback.tools.calls import CallLimits, Calls
from turnback.tools.catalog import Catalog
from turnback.tools.connection import KEY, Listed, Reply
from turnback.tools.registry import Registry
from turnback.tools.settle import Place
from turnback.tools.telling import Answered

NAME = "instant"
ARGUMENTS = {"get_phone": ("id",), "set_phone": ("id", "phone"), "send": ("to", "text")}

CONTACT = {
    "key": ["id"],
    "read": {"call": "get_phone", "args": {"id": {"$1": "$.key.id"}}},
    "state": {"phone": {"$1": "$.now.phone"}},
}
TOUCHED = {"id": {"$1": "$.args.id"}}
WAS = {"id": {"$1": "$.args.id"}, "phone": {"$1": "$.before.contact[0].phone"}}
CONTRACTS = {
    "get_phone": parse({"cases": [{"class": "read"}]}, of="get_phone"),
    "set_phone": parse(
        {
            "resources": {"contact": CONTACT},
            "touches": [{"contact": TOUCHED}],
            "cases": [{"class": "reversible", "inverse": [{"call": "set_phone", "args": WAS}]}],
        },
        of="set_phone",
    ),
}
"""`send` declares nothing."""


class Instant:
    """A connection that answers at once: nothing of it is measured."""

    name = NAME
    generation = 0

    def __init__(self) -> None:
        self.phones: dict[Json, Json] = {}

    async def tools(self) -> list[Listed]:
        """All of its tools."""
        return [
            Listed(
                tool,
                tool,
                {
                    "type": "object",
                    "properties": {name: {"type": "string"} for name in names},
                    "required": list(names),
                },
            )
            for tool, names in ARGUMENTS.items()
        ]

    async def call(
        self,
        tool: str,
        args: Mapping[str, Json],
        *,
        timeout: float,  # noqa: ASYNC109 - of the protocol
        key: str | None = None,
        where: Key = KEY,
    ) -> Reply:
        """Do it, and answer."""
        answer: dict[str, Any] = {"ok": True}
        if tool == "get_phone":
            answer = {"phone": self.phones.get(args["id"], "0")}
        elif tool == "set_phone":
            self.phones[args["id"]] = args["phone"]
        return Reply(False, orjson.dumps(answer).decode(), answer)


@dataclass
class Outside:
    """A live session whose turns call the instant tools, each call in a step of its own."""

    actor: Actor
    hand: ByHand
    instant: Instant
    registry: Registry
    calls: Calls
    made: int = 0

    async def call(self, name: str) -> float:
        """Call a tool with new arguments; the seconds from the open step to the answer."""
        self.made += 1
        tool = self.registry.get(NAME, name)
        assert tool is not None
        given = dict(zip(ARGUMENTS[name], (str(self.made % 100), str(self.made)), strict=True))
        run = self.hand.run
        place = Place(
            key=self.actor.key,
            project_id=self.actor.project_id,
            turn_id=run.turn_id,
            step_id=run.step_id,
            fence=run.fence,
        )
        draft = {"content": "", "toolCalls": [{"toolName": name, "input": given}]}
        began = time.perf_counter()
        await self.actor.progress.open_step(run, draft)
        answer = await self.calls.call(
            self.instant,
            tool,
            given,
            place,
            tool_call_id=new_id(),
            approval=None,
            stop=asyncio.Event(),
        )
        took = time.perf_counter() - began
        assert isinstance(answer, Answered)
        assert not answer.is_error, answer.output
        return took

    async def turn(self, name: str, *, times: int) -> str:
        """A whole turn that calls a tool some times, a step each; its id."""
        self.hand.run = run = await self.hand.prompt(self.actor)
        for n in range(times):
            await self.call(name)
            await self.hand.step(self.actor, run, last=n == times - 1)
        return run.turn_id


@asynccontextmanager
async def outside(store: Store) -> AsyncIterator[Outside]:
    """A new session with the instant tools; its undos are carried as a server's are."""
    settings = store.settings.model_copy(update={"approval": "never"})
    dao, hand, instant = store.dao, ByHand(), Instant()
    calls = Calls(
        effects=dao.effects, ledger=dao.ledger, locks=dao.locks, limits=CallLimits.of(settings)
    )
    registry = Registry(overlays={NAME: CONTRACTS})
    catalog = Catalog(registry, {NAME: instant}, trusted=frozenset(), pins=dao.pins)
    tools = OutsideTools(catalog, calls, dao.contracts)
    await tools.offered()
    session = await store.session()
    carrier = UndoCarrier(dao, settings, tools, _no_model)
    async with store.actor(session, hand.start, carrier) as actor:
        yield Outside(actor, hand, instant, registry, calls)


async def _no_model(name: str) -> ChatModel:
    raise ModelNotConfigured(f"The instant tools have no agent, and so no model `{name}`")
