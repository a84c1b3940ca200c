"""Turns of the offline stand-in.

`follow` runs a turn as the loop does, with the same instructions, messages and tools, but without
a clock.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

from turnback.agent import canvas
from turnback.agent.conversation import Conversation
from turnback.agent.offline import Move, next_move
from turnback.agent.steps import PastStep, ToolCall, ToolResult
from turnback.core.errors import ToolFailed
from turnback.core.tree import Role
from turnback.core.workflow import EMPTY, Workflow

MAX_TOKENS = 100_000


@dataclass
class Followed:
    """What a sentence led to."""

    workflow: Workflow
    moves: list[Move]
    outputs: list[str]

    @property
    def last(self) -> str:
        return self.moves[-1].text


def follow(sentence: str, workflow: Workflow = EMPTY, *, most: int = 60) -> Followed:
    """Run a turn to its end."""
    conversation = Conversation([PastStep(role=Role.USER, content=sentence)], max_tokens=MAX_TOKENS)
    links = itertools.count(len(workflow.links))
    done = Followed(workflow, [], [])
    for step in range(most):
        messages = conversation.messages(done.workflow)
        move = next_move(messages, messages[-1].instructions or "")
        done.moves.append(move)
        if not move.calls:
            return done
        calls = [ToolCall(c.name, f"{step}-{n}", c.args) for n, c in enumerate(move.calls)]
        results = []
        for one in calls:
            try:
                done.workflow, output = canvas.call(
                    done.workflow,
                    one.name,
                    one.input,
                    new_link_id=lambda: f"link-{next(links)}",
                )
                results.append(ToolResult(one.id, output))
            except ToolFailed as error:
                results.append(ToolResult(one.id, f"[ERROR] {error.message}", True))
        done.outputs += [result.output for result in results]
        parts = [
            TextPart(move.text),
            *(ToolCallPart(c.name, dict(c.input), tool_call_id=c.id) for c in calls),
        ]
        conversation.add(ModelResponse(parts=parts), calls, results)
    raise AssertionError(f"no end after {most} steps: {sentence}")


def standing(*sentences: str) -> Workflow:
    """The workflow after these turns, none of which may fail."""
    workflow = EMPTY
    for sentence in sentences:
        done = follow(sentence, workflow)
        assert done.last.startswith("Done: "), done.last
        workflow = done.workflow
    return workflow


def links(workflow: Workflow) -> set[tuple[str, str, str]]:
    return {
        (
            link["source"]["operatorID"],
            link["target"]["operatorID"],
            link["target"]["portID"].removeprefix("input-"),
        )
        for link in workflow.links
    }


def properties(workflow: Workflow, operator_id: str) -> dict[str, Any]:
    return dict(workflow.operators[operator_id]["operatorProperties"])


CHAIN = standing(
    "load sales.csv", "add a filter on amount > 0", "sum amount by region", "plot total by region"
)  # op1 → op2 → op3 → op4
