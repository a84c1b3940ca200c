"""Providers that misbehave, through the whole service: how each turn ends, and that it can be
taken back.

Whatever the provider does, the turn ends with a last agent step that says so in our own words, the
session is AVAILABLE, what had streamed is kept, revert and redo work on it, and the next prompt is
answered.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from email.utils import formatdate
from time import time
from typing import Any

import pytest
from scripted_provider import (
    CUT,
    HANG,
    Answer,
    Pause,
    Refusal,
    ScriptedProvider,
    call,
    call_piece,
    finish,
    scripted_provider,
    text,
    usage,
)
from serving import Server, serving
from wire import Client, Frame, is_status

KEY = "sk-canary-of-ours"
SECRET = "canary-of-the-provider"
PROMPT = "canary-of-the-prompt"
HTML = f"<html><body>{SECRET}</body></html>".encode()
NOW = {"retry-after": "0"}

ADD = {"operatorId": "op2", "operatorType": "Filter", "summary": "Keep"}
ADD_3 = {"operatorId": "op3", "operatorType": "Limit", "inputOperatorIds": {"0": ["op2"]}}
DONE = [text("Done.")]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One way to answer: how the turn ends, what its last step says, what is kept before it.

    `results` are the outputs of its tools, as far as they are told here; `requests` how often the
    provider was asked.
    """

    answers: Sequence[Any]
    end: str = "complete"
    says: str
    partial: str | None = None
    results: Sequence[str] = ()
    operators: Sequence[str] = ("op1",)
    requests: int = 1


def failed(*answers: Any, says: str, **more: Any) -> Kind:
    return Kind(answers=answers, end="failed", says="Error: " + says, **more)


def refused(status: int, says: str, *, requests: int = 1, **more: Any) -> Kind:
    refusal = Refusal(status, message=f"{SECRET} {KEY}", retry=True, **more)
    return failed(*[refusal] * requests, says=says, requests=requests)


def tools(*calls: Any, results: Sequence[str], **more: Any) -> Kind:
    return Kind(answers=[calls, DONE], says=r"Done\.", requests=2, results=results, **more)


ADDED = "Added operator op2, input ports: 1, output ports: 1"
CUT_SHORT = "the model's answer was cut short or could not be read; prompt again."
BROKE_OFF = "the connection to the model's provider broke off; prompt again."
LATE = r"the model took longer than 2 s \(`model_timeout`\)\."
SILENT = r"the model said nothing for 1 s \(`model_idle_timeout`\)\."
TOO_LONG = r"Stopped at a limit: an answer of more than 50000 bytes \(`max_reply_bytes`\)\."
WAIT = (
    r"the model's provider asks to wait \d+ s before the next try, longer than 1 s "
    r"\(`max_retry_wait`\); prompt again then\."
)
IN_PIECES = [text("x" * 10_000) for _ in range(1000)]
COMPRESSED = Refusal(  # 100 MB
    200,
    body=gzip.compress(b"data: " + b" " * 100_000_000),
    headers={"content-type": "text/event-stream", "content-encoding": "gzip"},
)
UNREAD = (
    "the model's provider compresses its answers though it is asked not to; see to that at "
    "`TURNBACK_MODEL_BASE_URL`."
)
HALF_A_CALL = call_piece(id="a", name="addOperator", args='{"operatorId": "op')

KINDS = {
    "text": Kind(answers=[[text("Good "), text("day."), usage(3, 2)]], says=r"Good day\."),
    "no usage": Kind(answers=[[text("Good day.")]], says=r"Good day\."),
    "no [DONE]": Kind(
        answers=[Answer([text("Good day."), finish("stop")], whole=False)], says=r"Good day\."
    ),
    "one call": tools(call("addOperator", ADD), results=[ADDED], operators=("op1", "op2")),
    "calls one by one": Kind(
        answers=[[call("addOperator", ADD)], [call("addOperator", ADD_3, id="b")], DONE],
        says=r"Done\.",
        requests=3,
        results=[ADDED, "Added operator op3"],
        operators=("op1", "op2", "op3"),
    ),
    "calls in parallel": tools(
        call("addOperator", ADD, id="a", index=0),
        call("addOperator", ADD_3, id="b", index=1),
        results=[ADDED, "Added operator op3"],
        operators=("op1", "op2", "op3"),
    ),
    "the same call id twice": tools(
        call("addOperator", ADD, id="a", index=0),
        call("addOperator", ADD_3, id="a", index=1),
        results=[ADDED, "Added operator op3"],
        operators=("op1", "op2", "op3"),
    ),
    "no call id": tools(
        call_piece(index=0, name="addOperator", args='{"operatorId": "op2", '),
        call_piece(index=0, args='"operatorType": "Filter"}'),
        results=[ADDED],
        operators=("op1", "op2"),
    ),
    "arguments of broken JSON": tools(
        call("addOperator", '{"operatorId": "op2", '), results=["[ERROR] The arguments are not"]
    ),
    "arguments of wrong types": tools(
        call("addOperator", {**ADD, "operatorId": 7}), results=["[ERROR] Wrong arguments for"]
    ),
    "arguments that are missing": tools(
        call("addOperator", {}), results=["[ERROR] Wrong arguments for"]
    ),
    "arguments that are a list": tools(
        call("addOperator", [1]), results=["[ERROR] The arguments are not"]
    ),
    "an unknown tool": tools(call("rmRf", {}), results=["[ERROR] Unknown tool `rmRf`."]),
    "a tool that is switched off": tools(
        call("deleteOperator", {"operatorId": "op1"}),
        results=["[ERROR] The tool `deleteOperator` is switched off. Do without it."],
    ),
    "nothing": failed([], says="the model gave an empty answer; prompt again."),
    "a filtered answer": failed(
        [text("Half"), finish("content_filter")],
        says="the model's provider filtered the answer; put it in other words.",
        partial="Half",
    ),
    "an answer at the model's own limit": Kind(
        answers=[[text("Half"), finish("length")]],
        end="limit",
        says="Stopped at a limit: the model's own limit on the length of an answer.",
        partial="Half",
    ),
    "429 that passes": Kind(
        answers=[Refusal(429, retry=True, headers=NOW), DONE], says=r"Done\.", requests=2
    ),
    "429 that stays": refused(
        429,
        "the model's provider is limiting our rate; try again in a while.",
        headers=NOW,
        requests=3,
    ),
    "429 for an hour": refused(429, WAIT, headers={"retry-after": "3600"}),
    "429 until a date": refused(
        429, WAIT, headers={"retry-after": formatdate(time() + 3600, usegmt=True)}
    ),
    "no quota": failed(
        Refusal(
            429,
            retry=False,
            body=b'{"error": {"message": "m", "code": "insufficient_quota", "type": "t"}}',
        ),
        says="the account at the model's provider has no quota left; see to it there.",
    ),
    "400": refused(
        400,
        "the model's provider answered with status 400; check `TURNBACK_MODEL` and "
        "`TURNBACK_MODEL_BASE_URL`.",
    ),
    "401": refused(401, "the model's provider refused the key; check `TURNBACK_MODEL_API_KEY`."),
    "403": refused(403, "the model's provider refused the key; check `TURNBACK_MODEL_API_KEY`."),
    "404": refused(
        404,
        "the model's provider does not know this model or address; check `TURNBACK_MODEL` and "
        "`TURNBACK_MODEL_BASE_URL`.",
    ),
    "500": refused(
        500,
        "the model's provider answered with status 500; prompt again in a while.",
        headers=NOW,
        requests=3,
    ),
    "502 in HTML": refused(
        502,
        "the model's provider answered with status 502; prompt again in a while.",
        body=HTML,
        headers=NOW | {"content-type": "text/html"},
        requests=3,
    ),
    "10 MB of an error": Kind(
        answers=[Refusal(400, body=b"x" * 10_000_000)], end="limit", says=TOO_LONG
    ),
    "what is compressed": failed(COMPRESSED, says=UNREAD),
    "a compressed error": failed(
        replace(COMPRESSED, status=400),
        says="the model's provider answered with status 400; check `TURNBACK_MODEL` and "
        "`TURNBACK_MODEL_BASE_URL`.",
    ),
    "a hang before the headers": failed(HANG, says=LATE),
    "a hang before the first piece": failed([Pause()], says=LATE),
    "a hang between two pieces": failed([text("Half"), Pause()], says=SILENT, partial="Half"),
    "a cut within the text": failed([text("Half"), CUT], says=BROKE_OFF, partial="Half"),
    "a cut within the arguments": failed(
        [HALF_A_CALL, CUT], says=BROKE_OFF, partial="", results=["[ERROR] Not run."]
    ),
    "an end without a finish reason": failed(
        Answer([text("Half")], whole=False), says=CUT_SHORT, partial="Half"
    ),
    "10 MB in pieces": Kind(answers=[IN_PIECES], end="limit", says=TOO_LONG, partial="x" * 50_000),
    "10 MB in one line": Kind(
        answers=[Answer([b"data: " + b"x" * 10_000_000])], end="limit", says=TOO_LONG
    ),
    "10 MB of text in one event": Kind(
        answers=[[text("x" * 10_000_000)]], end="limit", says=TOO_LONG
    ),
    "JSON instead of a stream": failed(
        Answer([b'{"choices": []}'], whole=False, content_type="application/json"), says=CUT_SHORT
    ),
    "HTML instead of a stream": failed(
        Answer([HTML], whole=False, content_type="text/html"), says=CUT_SHORT
    ),
    "what is no UTF-8": failed(
        [text("Half"), b"data: \xff\xfe\n\n"], says=CUT_SHORT, partial="Half"
    ),
    "what is no JSON": failed(
        [text("Half"), f"data: {{{SECRET}\n\n".encode()], says=CUT_SHORT, partial="Half"
    ),
    "an error within the stream": failed(
        [text("Half"), f'data: {{"error": {{"message": "{SECRET}"}}}}\n\n'.encode()],
        says=CUT_SHORT,
        partial="Half",
    ),
}


@dataclass
class Service:
    server: Server
    provider: ScriptedProvider


@pytest.fixture(scope="module")
async def service(standing_database: str) -> AsyncIterator[Service]:
    async with (
        scripted_provider() as provider,
        serving(
            standing_database,
            **provider.settings,
            model_api_key=KEY,
            model_timeout=2.0,
            model_idle_timeout=1.0,
            max_retry_wait=1.0,
            max_reply_bytes=50_000,
            disabled_tools=["deleteOperator"],
        ) as server,
    ):
        yield Service(server, provider)


@pytest.mark.case(19, 28, 32, 33)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
async def test_whatever_a_provider_does_the_turn_ends_and_can_be_taken_back(
    service: Service, kind: Kind
) -> None:
    server, provider = service.server, service.provider
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        provider.will([call("addOperator", {**ADD, "operatorId": "op1"})], DONE)
        await client.prompt("Begin.")
        before = client.head

        provider.will(*kind.answers)
        frames = await client.prompt(PROMPT)
        assert len(provider.requests) == kind.requests
        user, *steps = told(frames)
        last = steps[-1]
        assert last["endReason"] == kind.end
        assert re.fullmatch(kind.says, last["content"]), last["content"]
        assert (last["isEnd"], last["role"]) == (True, "agent")
        assert [step["isEnd"] for step in steps[:-1]] == [False] * (len(steps) - 1)
        if kind.end != "complete":
            assert [step["content"][: len(kind.partial or "")] for step in steps[:-1]] == (
                [] if kind.partial is None else [kind.partial]
            )
        outputs = [result["output"] for step in steps for result in step.get("toolResults", ())]
        assert len(outputs) == len(kind.results)
        for output, begins in zip(outputs, kind.results, strict=True):
            assert output.startswith(begins)
        await check_workflow(server, session, kind.operators)
        check_words(client, last)

        await client.ask("Revert", messageId=user["messageId"])
        assert client.head == before
        await check_workflow(server, session, ("op1",))
        await client.ask("Redo")
        assert client.head == last["id"]
        await check_workflow(server, session, kind.operators)
        for step in steps:  # each has its snapshots
            stored = await server.http.get(f"/sessions/{session}/steps/{step['id']}/workflow")
            assert stored.status_code == 200

        provider.will([text("And on.")])
        frames = await client.prompt("Go on.")
        assert told(frames)[-1]["content"] == "And on."


@pytest.mark.parametrize(
    ("answers", "partial"),
    [
        pytest.param([HANG], [], id="before the headers"),
        pytest.param([[Pause()]], [], id="before the first piece"),
        pytest.param([[text("Half"), Pause()]], ["Half"], id="between two pieces"),
        pytest.param([[HALF_A_CALL, Pause()]], [""], id="within the arguments"),
        pytest.param(
            [Refusal(429, retry=True, headers={"retry-after": "1"}), DONE],
            [],
            id="in the pause that it asked for",
        ),
    ],
)
async def test_stop_is_heard_wherever_the_provider_lets_it_wait(
    service: Service, answers: Sequence[Any], partial: Sequence[str]
) -> None:
    server, provider = service.server, service.provider
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        provider.will(*answers)
        await client.send("Prompt", content=PROMPT)
        await provider.asked.wait()
        if partial:
            await client.wait(lambda frame: frame["type"] == "WsServerDeltaEvent")
        await client.send("Stop")
        await client.wait(is_status("AVAILABLE"), since=2)
        user, *steps = told(client.frames)
        assert [step["content"] for step in steps] == [*partial, "Stopped."]
        assert steps[-1]["endReason"] == "stopped"
        await client.ask("Revert", messageId=user["messageId"])
        await client.ask("Redo")
        assert client.head == steps[-1]["id"]
        provider.will([text("And on.")])
        assert told(await client.prompt("Go on."))[-1]["content"] == "And on."


def told(frames: Sequence[Frame]) -> list[Frame]:
    return [frame["step"] for frame in frames if frame["type"] == "WsServerStepEvent"]


async def check_workflow(server: Server, session: str, operators: Sequence[str]) -> None:
    workflow = (await server.http.get(f"/sessions/{session}/workflow")).json()
    assert [operator["operatorID"] for operator in workflow["operators"]] == list(operators)


def check_words(client: Client, last: Frame) -> None:
    """No words of the provider's, no key anywhere; in an error no words of the prompt's either."""
    assert not any(KEY in seen or SECRET in seen for seen in client.texts)
    assert PROMPT not in last["content"]
    assert len(last["content"]) < 200
