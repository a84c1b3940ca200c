"""LangGraph's fork: from the checkpoint before the last, of threads that have said so much."""

import json
import operator
import sys
import time
from statistics import median
from typing import Annotated, Any, TypedDict

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import END, START, StateGraph
from psycopg.rows import dict_row

FORKS = 15
BYTES = 700


class State(TypedDict):
    messages: Annotated[list[dict[str, Any]], operator.add]


def main(url: str, counts: list[int]) -> dict[int, float]:
    graph = StateGraph(State)
    graph.add_node("answer", lambda state: {"messages": [_message(len(state["messages"]))]})
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    taken = {}
    with psycopg.connect(url, autocommit=True, prepare_threshold=0, row_factory=dict_row) as db:
        saver = PostgresSaver(db)
        saver.setup()
        app = graph.compile(checkpointer=saver)
        for count in counts:
            config = {"configurable": {"thread_id": str(count)}}
            said = [_message(n) for n in range(count - 1)]
            app.invoke({"messages": said}, config, durability="sync")
            _, older, *_ = app.get_state_history(config)
            assert len(older.values["messages"]) == count - 1
            forks = []
            for _ in range(FORKS):
                began = time.perf_counter()
                app.update_state(older.config, None)
                forks.append(time.perf_counter() - began)
            taken[count] = median(forks) * 1000
    return taken


def _message(n: int) -> dict[str, Any]:
    return {"role": "user", "content": f"{n} ".ljust(BYTES, ".")}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], [int(count) for count in sys.argv[2:]])))
