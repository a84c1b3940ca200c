"""What the log costs a call outside."""

from __future__ import annotations

import asyncio
import time
from types import ModuleType

from bench import floors
from bench.measure import Act, Row, against, in_turn
from bench.world import ByHand, World
from turnback.core.contracts.builder import args, before, key, now
from turnback.store.ids import new_id
from turnback.tools.calls import Answered, CallLimits, Calls
from turnback.tools.decorator import connections_of, tool
from turnback.tools.registry import Registry
from turnback.tools.settle import Place

WHAT = (
    "A call of a tool outside that takes no time itself, by the one call path: the open step, the "
    "locks, a look before, the intent, the call, a look after, the result. With a contract by "
    "which it is reversible, and of a tool that declares nothing; the step is opened for each call."
)

PHONES = {str(n): "1" for n in range(100)}


@tool(contract={"cases": [{"class": "read"}]})
async def get_phone(id: str) -> dict[str, str]:
    """Read a phone number."""
    return {"phone": PHONES[id]}


@tool(
    contract={
        "resources": {
            "contact": {
                "key": ["id"],
                "read": {"call": "get_phone", "args": {"id": key.id}},
                "state": {"phone": now.phone},
            }
        },
        "touches": [{"contact": {"id": args.id}}],
        "cases": [
            {
                "class": "reversible",
                "inverse": [
                    {"call": "set_phone", "args": {"id": args.id, "phone": before.contact[0].phone}}
                ],
            }
        ],
    }
)
async def set_phone(id: str, phone: str) -> dict[str, bool]:
    """Change a phone number."""
    PHONES[id] = phone
    return {"ok": True}


@tool()
async def send(to: str, text: str) -> dict[str, bool]:
    """Send a message."""
    return {"sent": True}


async def measure(world: World) -> list[Row]:
    """Both kinds of call against F."""
    hand = ByHand()
    async with world.store() as store, floors.row(store.url) as floor:
        dao, settings = store.dao, store.settings.model_copy(update={"approval": "never"})
        calls = Calls(
            effects=dao.effects, ledger=dao.ledger, locks=dao.locks, limits=CallLimits.of(settings)
        )
        module = ModuleType("bench_tools")
        module.__dict__.update(get_phone=get_phone, set_phone=set_phone, send=send)
        [connection] = connections_of([module])
        registry = Registry()
        registry.put(
            connection.name, await connection.tools(), contracts=dict(connection.contracts)
        )
        session = await store.session()
        async with store.actor(session, hand.start) as actor:
            run = hand.run = await hand.prompt(actor)
            made = 0

            def act(name: str) -> Act:
                found = registry.get(connection.name, name)
                assert found is not None

                async def call() -> float:
                    nonlocal made
                    made += 1
                    texts = ("to", "text") if name == "send" else ("id", "phone")
                    given = dict(zip(texts, (str(made % 100), str(made)), strict=True))
                    place = Place(
                        key=actor.key,
                        project_id=actor.project_id,
                        turn_id=run.turn_id,
                        step_id=run.step_id,
                        fence=run.fence,
                    )
                    draft = {"content": "", "toolCalls": [{"toolName": name, "input": given}]}
                    began = time.perf_counter()
                    await actor.open_step(run, draft)
                    answer = await calls.call(
                        connection,
                        found,
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

                return call

            series = await in_turn(
                {"F": floor, "reversible": act("set_phone"), "undeclared": act("send")}
            )
    return [
        against(
            f"the log of a call outside: {which}", series[which], series["F"], at_most=4, of="F"
        )
        for which in ("reversible", "undeclared")
    ]
