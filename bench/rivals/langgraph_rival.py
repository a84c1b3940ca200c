"""LangGraph with its Postgres checkpointer: a superstep a step, durable before the next one.

The state is the workflow, under one key. A revert forks from an older checkpoint.
"""

import json
import sys
import time
from itertools import pairwise
from statistics import median
from typing import Any, TypedDict

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import END, START, StateGraph
from psycopg.rows import dict_row

REVERTS = 20
SIZE = """select sum(pg_total_relation_size(c.oid))::bigint from pg_class c
join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'public' where c.relkind = 'r'"""


class State(TypedDict):
    workflow: dict[str, Any]
    done: int


def main(url: str, work: dict[str, Any]) -> dict[str, float]:
    steps = work["steps"]
    times = []

    def change(state: State) -> State:
        times.append(time.perf_counter())
        changed = {operator["operatorID"]: operator for operator in steps[state["done"]]}
        operators = [changed.get(o["operatorID"], o) for o in state["workflow"]["operators"]]
        workflow = {**state["workflow"], "operators": operators}
        return {"workflow": workflow, "done": state["done"] + 1}

    def more(state: State) -> str:
        return "change" if state["done"] < len(steps) else END

    graph = StateGraph(State)
    graph.add_node("change", change)
    graph.add_edge(START, "change")
    graph.add_conditional_edges("change", more, ["change", END])
    with psycopg.connect(url, autocommit=True, prepare_threshold=0, row_factory=dict_row) as db:
        saver = PostgresSaver(db)
        saver.setup()
        app = graph.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": "bench"}, "recursion_limit": len(steps) + 10}
        before = size(db)
        app.invoke({"workflow": work["workflow"], "done": 0}, config, durability="sync")
        step = median(b - a for a, b in pairwise(times))
        stored = size(db) - before
        began = time.perf_counter()
        history = list(app.get_state_history(config))
        history_took = time.perf_counter() - began
        assert len(history) > len(steps)
        older = history[len(history) // 2].config
        reverts = []
        for _ in range(REVERTS):
            began = time.perf_counter()
            app.update_state(older, None)
            app.get_state(config)
            reverts.append(time.perf_counter() - began)
    return {
        "step_ms": step * 1000,
        "step_bytes": stored / len(steps),
        "revert_ms": median(reverts) * 1000,
        "history_ms": history_took * 1000,
    }


def size(db: Any) -> int:
    db.execute("vacuum")
    return int(db.execute(SIZE).fetchone()["sum"])


if __name__ == "__main__":
    with open(sys.argv[2]) as file:
        print(json.dumps(main(sys.argv[1], json.load(file))))
