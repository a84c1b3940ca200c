"""Sending one call of an inverse, and what its answer is taken for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from turnback.core.contracts import answers, choose, secrets
from turnback.core.contracts.model import Contract
from turnback.core.effects import Call, Json
from turnback.core.errors import Lost, NotSent
from turnback.core.undo.actions import Answer
from turnback.tools.connection import KEY, Connection, Reply

TRANSIENT = re.compile(
    r"\b(?:429|502|503|504)\b|too many requests|rate.?limit|temporar|try again|"
    r"service unavailable|timed? ?out|overloaded",
    re.IGNORECASE,
)
"""What an error says that may be over soon. MCP has no code for it, so its words are read; taken
for one wrongly, it costs attempts, each of which looks before it sends."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What came of a call; `result` is what pointers read of its reply, None without one."""

    answer: Answer
    detail: str
    result: Json = None
    confirmed: bool | None = None


async def send(
    connection: Connection, contract: Contract, call: Call, *, key: str, seconds: float
) -> Sent:
    """Make a call once, of a tool with this contract; `key` goes where the call itself says."""
    where = choose.key_of(call)
    try:
        reply = await connection.call(
            call.tool,
            call.args,
            timeout=seconds,
            key=None if where is None else key,
            where=where or KEY,
        )
    except NotSent as error:
        return Sent(Answer.NOT_SENT, error.message)
    except Lost as error:
        return Sent(Answer.LOST, error.message)
    return _answered(reply, contract, call)


def _answered(reply: Reply, contract: Contract, call: Call) -> Sent:
    result = reply.document
    detail = "" if secrets.has_secrets(contract) else reply.text
    confirmed = None if call.confirmed is None else answers.is_confirmed(call, result)
    if not answers.is_error(contract, call.args, is_error=reply.is_error, answer=result):
        return Sent(Answer.OK, "", result, confirmed)
    answer = Answer.TRANSIENT if TRANSIENT.search(reply.text) else Answer.REFUSED
    return Sent(answer, detail, result, confirmed)
