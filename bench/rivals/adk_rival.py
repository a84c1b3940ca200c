"""Google ADK on its `DatabaseSessionService`: an event a step, its state delta the workflow.

A revert is the runner's own rewind, to before an older invocation.
"""

import asyncio
import json
import sys
import time
from statistics import median
from typing import Any

import asyncpg
from google.adk.agents import BaseAgent
from google.adk.events import Event, EventActions
from google.adk.runners import Runner
from google.adk.sessions import DatabaseSessionService

REVERTS = 20
NAMES = {"app_name": "bench", "user_id": "someone"}
SIZE = """select sum(pg_total_relation_size(c.oid))::bigint from pg_class c
join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'public' where c.relkind = 'r'"""


async def main(url: str, work: dict[str, Any]) -> dict[str, float]:
    service = DatabaseSessionService(url.replace("postgresql:", "postgresql+asyncpg:"))
    workflow = work["workflow"]
    session = await service.create_session(**NAMES, state={"workflow": workflow})
    before = await size(url)
    taken = []
    for n, operators in enumerate(work["steps"]):
        changed = {operator["operatorID"]: operator for operator in operators}
        workflow = {
            **workflow,
            "operators": [changed.get(o["operatorID"], o) for o in workflow["operators"]],
        }
        event = Event(
            author="agent",
            invocation_id=f"step-{n}",
            actions=EventActions(state_delta={"workflow": workflow}),
        )
        began = time.perf_counter()
        await service.append_event(session, event)
        taken.append(time.perf_counter() - began)
    stored = await size(url) - before
    began = time.perf_counter()
    read = await service.get_session(**NAMES, session_id=session.id)
    history = time.perf_counter() - began
    assert read is not None
    assert len(read.events) == len(work["steps"])
    runner = Runner(
        app_name=NAMES["app_name"], agent=BaseAgent(name="agent"), session_service=service
    )
    reverts = []
    for _ in range(REVERTS):
        began = time.perf_counter()
        await runner.rewind_async(
            user_id=NAMES["user_id"],
            session_id=session.id,
            rewind_before_invocation_id=f"step-{len(work['steps']) // 2}",
        )
        reverts.append(time.perf_counter() - began)
    return {
        "step_ms": median(taken) * 1000,
        "step_bytes": stored / len(work["steps"]),
        "revert_ms": median(reverts) * 1000,
        "history_ms": history * 1000,
    }


async def size(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("vacuum")
        return int(await connection.fetchval(SIZE))
    finally:
        await connection.close()


if __name__ == "__main__":
    with open(sys.argv[2]) as file:
        print(json.dumps(asyncio.run(main(sys.argv[1], json.load(file)))))
